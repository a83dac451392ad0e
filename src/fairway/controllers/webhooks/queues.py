"""What Kueue's webhooks and Kubernetes' Priority admission do: jobs and pods of a queue are held back, pods get their
priority, and wrong objects are refused. The rules themselves are in `integrations`.
"""

from collections.abc import Mapping
from typing import Final

from fairway.apis.kueue.configuration import DENY, Configuration
from fairway.apis.machinery import problems
from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Lister
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.owners import NestedTooDeep, OwnerMissing, Owners
from fairway.errors import FieldError
from fairway.integrations import names, pod_webhook, pods, priorities, webhooks
from fairway.integrations.framework import CanBeSkipped, Elastic, Framework
from fairway.integrations.frameworks import FRAMEWORKS

_NONE: Mapping[str, str] = {}
_MOST_REMEMBERED: Final = 1024
_PREEMPTS: Final = "PreemptLowerPriority"
_NO_CLASS: Final = ("", 0, _PREEMPTS)


class QueueAdmission:
    """Suspends jobs and gates pods that a queue decides about; refuses wrong ones."""

    def __init__(
        self,
        cluster: Lister,
        configuration: ConfigurationSource,
        frameworks: tuple[Framework, ...] = FRAMEWORKS,
        *,
        pod_priorities: bool = True,
    ) -> None:
        """`pod_priorities` are computed here, unless the API server does it, as kube-apiserver does."""
        self._surroundings = CachedSurroundings(cluster, configuration, frameworks)
        self._priorities = PodPriorities(cluster) if pod_priorities else None
        self._frameworks = {framework.resource: framework for framework in frameworks}
        self.resources = ("pods", *self._frameworks)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        manifest, old = request.object, request.old
        if request.kind.resource == "pods":
            wrong, errors = self._wrong_pod(manifest, old)
        else:
            wrong, errors = [], self._wrong_job(self._frameworks[request.kind.resource], manifest, old)
        if not errors and not wrong:
            return ALLOWED
        return AdmissionResponse(wrong + problems.denied(problems.webhook_of(request.kind.kind), errors))

    def _wrong_pod(self, pod: Manifest, old: Manifest | None) -> tuple[list[FieldError], list[FieldError]]:
        """What Kubernetes refuses, and what Kueue does."""
        if old is not None:
            return [], pod_webhook.on_update(old, pod, self._surroundings)
        wrong = [] if self._priorities is None else self._priorities.complete(pod)
        return wrong, [*pod_webhook.on_create(pod, self._surroundings), *self._outside(pod, pods.FRAMEWORK)]

    def _wrong_job(self, framework: Framework, manifest: Manifest, old: Manifest | None) -> list[FieldError]:
        surroundings = self._surroundings
        if framework.name not in surroundings.configuration.frameworks or not surroundings.is_selected(
            manifest, framework.name
        ):
            return []
        if old is None:
            return self._wrong_on_create(framework, manifest)
        if not self._is_validated(framework, old, manifest):
            return []
        changed = webhooks.wrong_on_update(
            old,
            manifest,
            surroundings,
            was_suspended=framework.is_suspended(old),
            is_suspended=framework.is_suspended(manifest),
        )
        return [*webhooks.wrong_on_create(manifest), *changed, *framework.wrong_on_update(old, manifest)]

    def _is_validated(self, framework: Framework, *jobs: Manifest) -> bool:
        """Whether Kueue validates jobs of this kind; changed ones also where only the old one named a queue."""
        return (
            framework.validates_unqueued
            or self._surroundings.configuration.manage_jobs_without_queue_name
            or any(webhooks.queue_name(job) for job in jobs)
        )

    def _wrong_on_create(self, framework: Framework, job: Manifest) -> list[FieldError]:
        """Complete a new job; then what is wrong with it."""
        webhooks.apply_default_queue(job, self._surroundings)
        skipped = isinstance(framework, CanBeSkipped) and framework.is_skipped(job)
        if not skipped and self._surroundings.manages(job, framework.name):
            framework.suspend(job)
        if isinstance(framework, Elastic) and webhooks.is_elastic(job):
            framework.hold_pods(job)
        wrong = framework.wrong_on_create(job) if self._is_validated(framework, job) else []
        return [*webhooks.wrong_on_create(job), *wrong, *self._outside(job, framework.name)]

    def _outside(self, manifest: Manifest, framework: str) -> list[FieldError]:
        """What is wrong with an object that no queue decides about, where there may be none."""
        if self._surroundings.configuration.jobs_outside_queues != DENY:
            return []
        if not self._surroundings.is_selected(manifest, framework):
            return []
        return webhooks.outside_queues(manifest, self._surroundings)


class CachedSurroundings:
    """Keeps the contract of `integrations.surroundings.Surroundings` on caches."""

    def __init__(self, cluster: Lister, configuration: ConfigurationSource, frameworks: tuple[Framework, ...]) -> None:
        self._source = configuration
        self._owners = Owners(cluster, configuration, frameworks)
        self._namespaces = cluster.cache("namespaces")
        self._queues = cluster.cache("localqueues.kueue.x-k8s.io")
        self._selected: dict[tuple[str, str], tuple[Configuration, Manifest | None, bool]] = {}
        """By framework and namespace, what was found out and from which states of both."""

    @property
    def configuration(self) -> Configuration:
        return self._source.value

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get("", namespace)
        return _NONE if found is None else found["metadata"].get("labels") or _NONE

    def has_default_queue(self, namespace: str) -> bool:
        return self._queues.get(namespace, names.DEFAULT_QUEUE) is not None

    def owner_is_job(self, manifest: Manifest) -> bool:
        return self._owners.is_job(manifest)

    def owner_is_managed(self, manifest: Manifest) -> bool:
        try:
            return self._owners.ancestor(manifest) is not None
        except (NestedTooDeep, OwnerMissing):
            return False

    def manages(self, manifest: Manifest, framework: str) -> bool:
        configuration = self._source.value
        return (
            framework in configuration.frameworks
            and bool(webhooks.queue_name(manifest) or configuration.manage_jobs_without_queue_name)
            and self.is_selected(manifest, framework)
            and not self.owner_is_managed(manifest)
        )

    def is_selected(self, manifest: Manifest, framework: str) -> bool:
        """Whether jobs of this kind in the object's namespace are the queue's business; worked out once a state."""
        configuration, namespace = self._source.value, manifest["metadata"].get("namespace", "")
        found, place = self._namespaces.get("", namespace), (framework, namespace)
        known = self._selected.get(place)
        if known is None or known[0] is not configuration or known[1] is not found:
            labels = self.namespace_labels(namespace)
            selector = configuration.pod_namespace_selector if framework == pods.FRAMEWORK else None
            selected = configuration.namespace_selector.matches(labels) and (
                selector is None or selector.matches(labels)
            )
            if len(self._selected) >= _MOST_REMEMBERED:
                self._selected.clear()
            known = self._selected[place] = configuration, found, selected
        return known[2]


class PodPriorities:
    """Follows the priority classes, so that a pod costs one look."""

    def __init__(self, cluster: Lister) -> None:
        self._classes = cluster.cache("priorityclasses.scheduling.k8s.io")
        self._default = _NO_CLASS
        self._classes.on_change(self._class_changed)

    def complete(self, pod: Manifest) -> list[FieldError]:
        """Give a new pod its priority, in place; what it says itself must be that."""
        spec = pod["spec"]
        name = spec.get("priorityClassName") or ""
        found = self._named(name) if name else self._default
        if found is None:
            return [problems.forbidden("spec.priorityClassName", name, f"no PriorityClass with name {name} was found")]
        name, value, policy = found
        if name:
            spec["priorityClassName"] = name
        errors = []
        given = spec.get("priority")
        if given is not None and given != value:
            rule = (
                f"the integer value of priority ({given}) must not be provided in pod spec;"
                f" priority admission controller computed {value} from the given PriorityClass name"
            )
            errors.append(problems.forbidden("spec.priority", given, rule))
        wanted = spec.get("preemptionPolicy")
        if wanted is not None and wanted != policy:
            rule = (
                f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec;"
                f" priority admission controller computed {policy} from the given PriorityClass name"
            )
            errors.append(problems.forbidden("spec.preemptionPolicy", wanted, rule))
        spec["priority"], spec["preemptionPolicy"] = value, policy
        return errors

    def _named(self, name: str) -> tuple[str, int, str] | None:
        found = self._classes.get("", name)
        if found is not None:
            return _said_by(found)
        value = priorities.SYSTEM_CLASSES.get(name)
        return None if value is None else (name, value, _PREEMPTS)

    def _class_changed(self, _old: Manifest | None, _new: Manifest | None) -> None:
        found = priorities.default_class(self._classes)
        self._default = _NO_CLASS if found is None else _said_by(found)


def _said_by(found: Manifest) -> tuple[str, int, str]:
    return found["metadata"]["name"], found["value"], found.get("preemptionPolicy") or _PREEMPTS
