"""ray.io/v1 RayCluster: one pod set for the head, one for each worker group.

The functions on a cluster's spec also serve RayJobs, which have one in `spec.rayClusterSpec`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import FieldError
from fairway.integrations import injection, names, topology, webhooks
from fairway.integrations.framework import StopProgress, StopStep

HEAD: Final = "head"
MOST_POD_SETS: Final = 18
"""Of one Workload."""

_FAULT_TOLERANT: Final = "ray.io/ft-enabled"
_REDIS_CLEANUP: Final = {"cpu": "200m", "memory": "256Mi"}
"""What KubeRay's Job asks for that cleans up Redis after the head has gone; it uses the head's quota."""

_AUTOSCALER_AMOUNTS: Final = {"cpu": "500m", "memory": "512Mi"}
_AUTOSCALER: Final = {"requests": _AUTOSCALER_AMOUNTS, "limits": _AUTOSCALER_AMOUNTS}
"""The autoscaler's container, which KubeRay adds to the head."""


class RayCluster:
    """`ray.io/raycluster`: runs until it is deleted."""

    name = "ray.io/raycluster"
    resource = "rayclusters.ray.io"
    group = "ray.io"
    kind = "RayCluster"
    validates_unqueued = False

    def pod_sets(self, job: Manifest) -> list[Manifest]:
        return pod_sets_of(job["spec"], webhooks.annotations_of(job))

    def is_suspended(self, job: Manifest) -> bool:
        return bool(job["spec"].get("suspend"))

    def is_active(self, job: Manifest) -> bool:
        return self.pods_ready(job)

    def suspend(self, job: Manifest) -> None:
        job["spec"]["suspend"] = True

    def suspension(self) -> Manifest:
        return {"spec": {"suspend": True}}

    def start(self, job: Manifest, infos: Sequence[injection.PodSetInfo]) -> Manifest:
        check_count(1 + len(groups_of(job["spec"])), infos)
        return {"spec": {"suspend": False, **injected(job["spec"], infos)}}

    def stop(self, job: Manifest, pod_sets: Sequence[Manifest] | None) -> StopStep | StopProgress:
        return stop_at_once(job["spec"], restored(job["spec"], templates_before(pod_sets)))

    def finished(self, job: Manifest) -> tuple[bool, str] | None:  # noqa: ARG002 - the protocol's
        return None

    def pods_ready(self, job: Manifest) -> bool:
        return (job.get("status") or {}).get("state") == "ready"

    def wrong_on_create(self, job: Manifest) -> list[FieldError]:
        rule = (
            "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the"
            f' ElasticJobsViaWorkloadSlices feature gate and set the "{names.ELASTIC}": "true" annotation'
        )
        return wrong_cluster(job, job["spec"], "spec", rule)

    def wrong_on_update(self, old: Manifest, new: Manifest) -> list[FieldError]:  # noqa: ARG002 - the protocol's
        return self.wrong_on_create(new)


def groups_of(cluster: Manifest) -> list[Manifest]:
    """The worker groups of a cluster's spec."""
    found: list[Manifest] = cluster.get("workerGroupSpecs") or []
    return found


def pod_sets_of(cluster: Manifest, annotations: Mapping[str, str]) -> list[Manifest]:
    """The pod sets of a cluster's spec; `annotations` are those of the object that has it."""
    return [
        _pod_set(HEAD, _head_template(cluster, annotations), 1),
        *(_pod_set(group["groupName"].lower(), group["template"], _pods(group)) for group in groups_of(cluster)),
    ]


def with_container(template: Manifest, name: str, resources: Manifest) -> Manifest:
    """A pod template with one more container, which KubeRay adds when it makes the pod."""
    spec = template.get("spec") or {}
    added = {"name": name, "resources": resources}
    return {**template, "spec": {**spec, "containers": [*(spec.get("containers") or ()), added]}}


def check_count(expected: int, infos: Sequence[injection.PodSetInfo]) -> None:
    if len(infos) != expected:
        raise injection.InjectionConflict(f"invalid podset infos: expecting {expected} podset, got {len(infos)}")


def injected(cluster: Manifest, infos: Sequence[injection.PodSetInfo]) -> Manifest:
    """The merge patch of a cluster's spec that adds what each group was admitted to; the head's comes first."""
    head = cluster["headGroupSpec"]["template"]
    groups = zip(groups_of(cluster), infos[1:], strict=False)
    return _changes(
        cluster,
        injection.injected(head, infos[0]),
        [injection.injected(group["template"], info) for group, info in groups],
    )


def templates_before(pod_sets: Sequence[Manifest] | None) -> list[Manifest] | None:
    """The templates of a workload's pod sets, as they were before admission."""
    return None if pod_sets is None else [pod_set["template"] for pod_set in pod_sets]


def restored(cluster: Manifest, before: Sequence[Manifest] | None) -> Manifest:
    """The merge patch of a cluster's spec that takes away what admission added.

    It is empty where the groups are others than those that were admitted.
    """
    templates = [cluster["headGroupSpec"]["template"], *(group["template"] for group in groups_of(cluster))]
    if before is None:
        before = [injection.without_queue(template) for template in templates]
    if len(before) != len(templates):
        return {}
    head, *workers = (injection.restore(now, then) for now, then in zip(templates, before, strict=True))
    return _changes(cluster, head, workers)


def stop_at_once(spec: Manifest, changes: Manifest) -> StopStep | StopProgress:
    """Suspend and restore in one write: its operator takes templates from the spec only when it starts."""
    if not spec.get("suspend"):
        return StopStep(patch={"spec": {"suspend": True, **changes}}, stops=True)
    return StopStep(patch={"spec": changes}) if changes else StopProgress.STOPPED


def wrong_cluster(job: Manifest, cluster: Manifest, path: str, autoscaling_rule: str) -> list[FieldError]:
    """What is wrong with a cluster in a queue, whose spec is at `path`."""
    errors: list[FieldError] = []
    groups = problems.child(path, "workerGroupSpecs")
    if cluster.get("enableInTreeAutoscaling") and not webhooks.is_elastic(job):
        where = problems.child(path, "enableInTreeAutoscaling")
        errors.append(problems.invalid(where, cluster["enableInTreeAutoscaling"], autoscaling_rule))
    count = 1 + len(groups_of(cluster))
    if count > MOST_POD_SETS:
        errors.append(problems.too_many(groups, count, MOST_POD_SETS))
    for position, group in enumerate(groups_of(cluster)):
        if group["groupName"] == HEAD:
            where = problems.child(problems.index(groups, position), "groupName")
            errors.append(problems.forbidden(where, HEAD, f'"{HEAD}" is reserved for the head group'))
    return [*errors, *_wrong_topology(cluster, path)]


def _wrong_topology(cluster: Manifest, path: str) -> list[FieldError]:
    templates = [(problems.child(path, "headGroupSpec"), cluster["headGroupSpec"]["template"], 1)]
    for position, group in enumerate(groups_of(cluster)):
        where = problems.index(problems.child(path, "workerGroupSpecs"), position)
        templates.append((where, group["template"], _pods(group)))
    placed = [(problems.child(where, "template", "metadata"), *rest) for where, *rest in templates]
    errors = [error for where, template, count in placed for error in topology.wrong_topology(template, where, count)]
    return errors or topology.wrong_groups(placed)


def _head_template(cluster: Manifest, annotations: Mapping[str, str]) -> Manifest:
    template: Manifest = cluster["headGroupSpec"]["template"]
    if annotations.get(_FAULT_TOLERANT, "").lower() == "true" or cluster.get("gcsFaultToleranceOptions") is not None:
        template = _with_redis_cleanup(template)
    if cluster.get("enableInTreeAutoscaling"):
        options = cluster.get("autoscalerOptions") or {}
        template = with_container(template, "autoscaler", options.get("resources") or _AUTOSCALER)
    return template


def _with_redis_cleanup(template: Manifest) -> Manifest:
    containers = (template.get("spec") or {}).get("containers")
    if not containers:
        return template
    resources = containers[0].get("resources") or {}
    requests: dict[str, Any] = dict(resources.get("requests") or {})
    for resource, least in _REDIS_CLEANUP.items():
        if resource not in requests or Quantity.parse(requests[resource]) < Quantity.parse(least):
            requests[resource] = least
    head = {**containers[0], "resources": {**resources, "requests": requests}}
    return {**template, "spec": {**template["spec"], "containers": [head, *containers[1:]]}}


def _pods(group: Manifest) -> int:
    """All pods of a worker group: a replica may be several hosts."""
    replicas = group.get("replicas")
    return (1 if replicas is None else int(replicas)) * max(1, int(group.get("numOfHosts") or 1))


def _pod_set(name: str, template: Manifest, count: int) -> Manifest:
    result: Manifest = {"name": name, "template": template, "count": count}
    request = topology.topology_request(template)
    return result if request is None else {**result, "topologyRequest": request}


def _changes(cluster: Manifest, head: Manifest, workers: Sequence[Manifest]) -> Manifest:
    """The merge patch that gives the head and the worker groups these templates; a list is replaced as a whole."""
    patch: Manifest = {}
    if changed := injection.difference(cluster["headGroupSpec"]["template"], head):
        patch["headGroupSpec"] = {"template": changed}
    groups = groups_of(cluster)
    if any(injection.difference(group["template"], new) for group, new in zip(groups, workers, strict=True)):
        patch["workerGroupSpecs"] = copied(
            [{**group, "template": new} for group, new in zip(groups, workers, strict=True)]
        )
    return patch
