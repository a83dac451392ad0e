"""The gatekeeper of the queue: which kinds it cares about, and whom it asks about each."""

from fairway.apis.kueue.configuration import DENY
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.cluster import Cluster
from fairway.client.gatekeeping import Author
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.webhooks.pod_priorities import PodPriorities
from fairway.controllers.webhooks.surroundings import CachedSurroundings
from fairway.errors import FieldError
from fairway.integrations import pod_webhook, pods, webhooks
from fairway.integrations.framework import Framework
from fairway.integrations.frameworks import FRAMEWORKS


class QueueGatekeeper:
    """Keeps the contract of the store's `Gatekeeper`; for kinds that it does not know it costs one lookup."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        frameworks: tuple[Framework, ...] = FRAMEWORKS,
    ) -> None:
        self._surroundings = CachedSurroundings(cluster, configuration, frameworks)
        self._priorities = PodPriorities(cluster)
        self._frameworks = {framework.resource: framework for framework in frameworks}

    def name_for(self, kind: Kind, manifest: Manifest) -> str:  # noqa: ARG002
        """Something random will do."""
        return ""

    def on_create(self, kind: Kind, manifest: Manifest, author: Author) -> list[FieldError]:  # noqa: ARG002
        """Complete a new object in place; then what is wrong with it."""
        resource = kind.resource
        if resource == "pods":
            wrong = [*self._priorities.complete(manifest), *pod_webhook.on_create(manifest, self._surroundings)]
            return [*wrong, *self._outside(manifest, pods.FRAMEWORK)]
        framework = self._frameworks.get(resource)
        if framework is None or not self._is_asked(framework, manifest):
            return []
        webhooks.apply_default_queue(manifest, self._surroundings)
        if self._surroundings.manages(manifest, framework.name):
            framework.suspend(manifest)
        return [
            *webhooks.wrong_on_create(manifest),
            *framework.wrong_on_create(manifest),
            *self._outside(manifest, framework.name),
        ]

    def _outside(self, manifest: Manifest, framework: str) -> list[FieldError]:
        """What is wrong with an object that no queue decides about, where there may be none."""
        if self._surroundings.configuration.jobs_outside_queues != DENY:
            return []
        if not self._surroundings.is_selected(manifest, framework):
            return []
        return webhooks.outside_queues(manifest, self._surroundings)

    def on_apply(self, kind: Kind, old: Manifest, applied: Manifest) -> None:
        """Nothing to say before the merge."""

    def on_update(self, kind: Kind, old: Manifest, new: Manifest, author: Author) -> list[FieldError]:  # noqa: ARG002
        """What is wrong with a change."""
        resource = kind.resource
        if resource == "pods":
            return pod_webhook.on_update(old, new, self._surroundings)
        framework = self._frameworks.get(resource)
        if framework is None or not self._is_asked(framework, new):
            return []
        return [
            *webhooks.wrong_on_create(new),
            *webhooks.wrong_on_update(
                old,
                new,
                self._surroundings,
                was_suspended=framework.is_suspended(old),
                is_suspended=framework.is_suspended(new),
            ),
            *framework.wrong_on_update(old, new),
        ]

    def _is_asked(self, framework: Framework, manifest: Manifest) -> bool:
        return framework.name in self._surroundings.configuration.frameworks and self._surroundings.is_selected(
            manifest, framework.name
        )
