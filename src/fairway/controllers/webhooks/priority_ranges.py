"""Refuses priorities that the author of an object may not use, and what only controllers may write about them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from fairway.admission.records import EARNED_PRIORITY, FIRST_SUBMITTED
from fairway.apis.machinery import problems
from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse, UserInfo
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Lister
from fairway.errors import FieldError
from fairway.integrations import names, priority_ranges
from fairway.integrations.priority_ranges import ANNOTATION, SYSTEM_PREFIX, PriorityRange
from fairway.integrations.webhooks import annotations_of, labels_of
from fairway.managedjobs.observation import DEFAULT_CAP
from fairway.managedjobs.tasks.parse import stored_tasks, wrong_tasks

_OURS: Final = (EARNED_PRIORITY, FIRST_SUBMITTED)
"""Annotations of Workloads that decide about their place in the queue."""


class PriorityRequest(NamedTuple):
    """A field that asks for a priority: a number, or the name of a class."""

    field: str
    value: int | str
    is_workload_class: bool = True


class RequestedPriorities(NamedTuple):
    """What a manifest asks for."""

    asks: tuple[PriorityRequest, ...]
    queues: tuple[str, ...]
    """The LocalQueues that it names."""

    cap: int | None = None
    """What aging may earn it at most."""


class PriorityAdmission:
    """Refuses priorities outside the range of a queue. Administrators and controllers may use any."""

    resources: Final = (
        "clusterqueues.kueue.x-k8s.io",
        "jobs.batch",
        "managedjobs.fairway.dev",
        "pods",
        "rayclusters.ray.io",
        "rayjobs.ray.io",
        "workloads.kueue.x-k8s.io",
    )

    def __init__(self, cluster: Lister) -> None:
        self._local_queues = cluster.cache("localqueues.kueue.x-k8s.io")
        self._cluster_queues = cluster.cache("clusterqueues.kueue.x-k8s.io")
        self._classes = cluster.cache("workloadpriorityclasses.kueue.x-k8s.io")
        self._pod_classes = cluster.cache("priorityclasses.scheduling.k8s.io")

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        """Of a change only what is new is judged: an administrator may have set what is there."""
        kind, manifest, old, user = request.kind.kind, request.object, request.old, request.user
        if kind == "ClusterQueue":
            return AdmissionResponse(_wrong_range(manifest))
        if user.can_impersonate:
            return ALLOWED
        read = _READERS[kind]
        asked = read(manifest)
        if old is not None:
            before = read(old)
            if before.queues == asked.queues:
                asks = tuple(ask for ask in asked.asks if ask not in before.asks)
                asked = asked._replace(asks=asks, cap=None if asked.cap == before.cap else asked.cap)
        wrong = list(self._wrong(manifest, asked, user))
        if kind == "Workload":
            wrong += _forged({} if old is None else annotations_of(old), manifest)
        return AdmissionResponse(wrong)

    def _wrong(self, manifest: Manifest, asked: RequestedPriorities, user: UserInfo) -> Iterator[FieldError]:
        if not asked.asks and asked.cap is None:
            return
        ranges = self._ranges(manifest["metadata"].get("namespace", ""), asked.queues)
        for ask in asked.asks:
            for allowed in ranges:
                wrong = self._refusal(ask, allowed, user)
                if wrong is not None:
                    yield wrong
                    break
        most = max(DEFAULT_CAP, min(allowed.highest for allowed in ranges))
        if asked.cap is not None and asked.cap > most:
            rule = f"must be at most {most} {_owner(ranges[0], user)}"
            yield problems.invalid("spec.aging.cap", asked.cap, rule)

    def _ranges(self, namespace: str, queues: Iterable[str]) -> list[PriorityRange]:
        found: dict[PriorityRange, None] = {}
        for name in queues:
            local = self._local_queues.get(namespace, name)
            cluster_queue = None if local is None else self._cluster_queues.get("", local["spec"]["clusterQueue"])
            allowed = priority_ranges.of_queue(cluster_queue)
            found[allowed] = None
        return list(found) or [priority_ranges.DEFAULT]

    def _refusal(self, ask: PriorityRequest, allowed: PriorityRange, user: UserInfo) -> FieldError | None:
        if isinstance(ask.value, int):
            if ask.value in allowed:
                return None
            rule = f"must be from {allowed.lowest} to {allowed.highest} {_owner(allowed, user)}"
            return problems.invalid(ask.field, ask.value, rule)
        if ask.value.startswith(SYSTEM_PREFIX):
            rule = f"only administrators may use the `{SYSTEM_PREFIX}` classes, not {user.name}"
            return problems.invalid(ask.field, ask.value, rule)
        value = self._value_of(ask) if allowed.queue else None
        if value is None or value in allowed:
            return None
        rule = f"its value {value} is not in the range {allowed.lowest} to {allowed.highest} {_owner(allowed, user)}"
        return problems.invalid(ask.field, ask.value, rule)

    def _value_of(self, ask: PriorityRequest) -> int | None:
        found = (self._classes if ask.is_workload_class else self._pod_classes).get("", str(ask.value))
        return None if found is None else int(found["value"])


def _owner(allowed: PriorityRange, user: UserInfo) -> str:
    """Whose range it is, and who may change it."""
    if allowed.queue:
        where = f"the range of ClusterQueue {allowed.queue}, by its annotation {ANNOTATION}"
    else:
        where = f"the default range; the annotation {ANNOTATION} of a ClusterQueue sets another"
    return f"for {user.name} ({where}); administrators may change it, and use any priority"


def _wrong_range(manifest: Manifest) -> list[FieldError]:
    text = annotations_of(manifest).get(ANNOTATION)
    if text is None or priority_ranges.parse(text) is not None:
        return []
    return [problems.invalid(f"metadata.annotations[{ANNOTATION}]", text, "must be LOWEST..HIGHEST, such as -100..500")]


def _forged(before: dict[str, str] | Any, manifest: Manifest) -> list[FieldError]:
    after = annotations_of(manifest)
    rule = "only Fairway's controllers and administrators may set this"
    return [
        problems.invalid(f"metadata.annotations[{name}]", after[name], rule)
        for name in _OURS
        if name in after and after[name] != before.get(name)
    ]


# What each kind asks for


def _labelled(manifest: Manifest) -> Iterator[PriorityRequest]:
    named = labels_of(manifest).get(names.PRIORITY_CLASS)
    if named:
        yield PriorityRequest(f"metadata.labels[{names.PRIORITY_CLASS}]", named)


def _queues(manifest: Manifest) -> tuple[str, ...]:
    return (labels_of(manifest).get(names.QUEUE_NAME) or names.DEFAULT_QUEUE,)


def _pod_class(spec: dict[str, Any] | None, field: str) -> Iterator[PriorityRequest]:
    named = (spec or {}).get("priorityClassName")
    if isinstance(named, str) and named:
        yield PriorityRequest(f"{field}.priorityClassName", named, is_workload_class=False)


def _of_pod(manifest: Manifest) -> RequestedPriorities:
    return RequestedPriorities((*_labelled(manifest), *_pod_class(manifest.get("spec"), "spec")), _queues(manifest))


def _of_job(manifest: Manifest) -> RequestedPriorities:
    template = ((manifest.get("spec") or {}).get("template") or {}).get("spec")
    return RequestedPriorities((*_labelled(manifest), *_pod_class(template, "spec.template.spec")), _queues(manifest))


def _of_ray(manifest: Manifest) -> RequestedPriorities:
    spec = manifest.get("spec") or {}
    cluster, where = (
        (spec, "spec") if "headGroupSpec" in spec else (spec.get("rayClusterSpec") or {}, "spec.rayClusterSpec")
    )
    head = ((cluster.get("headGroupSpec") or {}).get("template") or {}).get("spec")
    asks = [*_labelled(manifest), *_pod_class(head, f"{where}.headGroupSpec.template.spec")]
    for index, group in enumerate(cluster.get("workerGroupSpecs") or ()):
        template = (group.get("template") or {}).get("spec")
        asks += _pod_class(template, f"{where}.workerGroupSpecs[{index}].template.spec")
    return RequestedPriorities(tuple(asks), _queues(manifest))


def _of_workload(manifest: Manifest) -> RequestedPriorities:
    spec = manifest.get("spec") or {}
    asks: list[PriorityRequest] = []
    by_class = spec.get("priorityClassRef")
    if by_class:
        is_workload_class = by_class.get("kind") == "WorkloadPriorityClass"
        asks.append(PriorityRequest("spec.priorityClassRef.name", by_class.get("name", ""), is_workload_class))
    if spec.get("priority") is not None:
        asks.append(PriorityRequest("spec.priority", spec["priority"]))
    return RequestedPriorities(tuple(asks), (spec.get("queueName") or "",))


def _of_managed_job(manifest: Manifest) -> RequestedPriorities:
    spec = manifest.get("spec") or {}
    asks = list(_labelled(manifest))
    if spec.get("priority") is not None:
        asks.append(PriorityRequest("spec.priority", spec["priority"]))
    if spec.get("priorityClass"):
        asks.append(PriorityRequest("spec.priorityClass", spec["priorityClass"]))
    asks += _pod_class((spec.get("podConfig") or {}).get("spec"), "spec.podConfig.spec")
    queues = {spec["queue"]: None} if spec.get("queue") else {}
    # Tasks that cannot be read are refused elsewhere.
    readable = bool(spec.get("tasks")) and not wrong_tasks(manifest)
    for index, task in enumerate(stored_tasks(manifest) if readable else ()):
        where = f"spec.tasks[{index}].resources"
        if task.priority is not None:
            asks.append(PriorityRequest(f"{where}.priority", task.priority))
        asks += _pod_class(task.pod_config.get("spec"), f"spec.tasks[{index}].config.kubernetes.pod_config.spec")
        for candidate in task.candidates:
            named = candidate.labels.get(names.PRIORITY_CLASS)
            if named:
                asks.append(PriorityRequest(f"{where}.labels[{names.PRIORITY_CLASS}]", named))
            if not spec.get("queue"):
                queue = candidate.labels.get(names.QUEUE_NAME) or task.queue
                queues[queue or labels_of(manifest).get(names.QUEUE_NAME) or names.DEFAULT_QUEUE] = None
    cap = (spec.get("aging") or {}).get("cap")
    return RequestedPriorities(tuple(asks), tuple(queues), cap)


_READERS: Final[dict[str, Callable[[Manifest], RequestedPriorities]]] = {
    "Job": _of_job,
    "ManagedJob": _of_managed_job,
    "Pod": _of_pod,
    "RayCluster": _of_ray,
    "RayJob": _of_ray,
    "Workload": _of_workload,
}
