"""What to do about a RayCluster: the object and its pods go in, pods to create and delete and its status come out."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery import conditions
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.apis.machinery.timestamps import stamp
from fairway.ray import nodes, validation
from fairway.ray.commands import ADDRESS
from fairway.ray.nodes import RayInstallation

KUBERAY: Final = "ray.io/kuberay-operator"
READY: Final = "ready"
SUSPENDED: Final = "suspended"
NOT_INSTALLED: Final = "RayNotInstalled"
INVALID: Final = "InvalidRayClusterSpec"
VERSION_MISMATCH: Final = "RayVersionMismatch"
NO_AUTOSCALING: Final = "AutoscalingNotSupported"
NOT_INSTALLED_MESSAGE: Final = (
    "Ray is not installed in the Python environment of this server: "
    "run `pip install 'fairway[ray]'` there and restart it"
)
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_MOST_REPLICAS: Final = 2**31 - 1


class NewWorkers(Struct, frozen=True):
    """Workers to be created in a group."""

    group: Mapping[str, Any]
    count: int


class ClusterPlan(Struct, frozen=True, kw_only=True):
    """Carried out in the order of its fields."""

    status: Manifest | None = None
    """What changes of the status; `None` removes a field."""

    needs_ports: bool = False
    """Ports are to be chosen and written before anything starts."""

    delete: tuple[Manifest, ...] = ()
    create_head: bool = False
    create_workers: tuple[NewWorkers, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    """Reason and message of Warning events."""

    @property
    def creates(self) -> bool:
        return self.create_head or bool(self.create_workers)


def is_ours(manifest: Manifest) -> bool:
    """Whether a RayCluster or RayJob is left to KubeRay's operator, which is played here."""
    return (manifest["spec"].get("managedBy") or KUBERAY) == KUBERAY


def decide(cluster: Manifest, pods: Sequence[Manifest], ray: RayInstallation | None, now: datetime) -> ClusterPlan:
    """The next step; to be asked again until a plan creates, deletes and writes nothing."""
    if cluster["spec"].get("suspend"):
        return ClusterPlan(status=_suspension(cluster, pods, now), delete=tuple(_active(pods)))
    if ray is None:
        return _refusal(cluster, NOT_INSTALLED, NOT_INSTALLED_MESSAGE, now)
    if message := validation.wrong_cluster(cluster["spec"]):
        return _refusal(cluster, INVALID, message, now)
    delete, forget_ports = _to_delete(cluster, pods)
    status = _status(cluster, pods, ray, now)
    if forget_ports:
        status["endpoints"] = None
    leaving = {pod["metadata"]["uid"] for pod in delete}
    kept = [pod for pod in _active(pods) if pod["metadata"]["uid"] not in leaving]
    plan = ClusterPlan(status=changes(cluster.get("status") or {}, status), delete=delete)
    if delete or len(kept) < len(pods):
        return plan  # their ports are free when they are gone
    if nodes.head_ports(cluster) is None:
        return ClusterPlan(status=plan.status, needs_ports=True)
    create_head = not any(nodes.is_head(pod) for pod in kept)
    if create_head and _is_provisioned(cluster) and not nodes.restarts_head(cluster):
        return plan
    return ClusterPlan(
        status=plan.status,
        create_head=create_head,
        create_workers=tuple(_missing(cluster, kept)),
        warnings=_warnings(cluster, ray) if create_head else (),
    )


def _to_delete(cluster: Manifest, pods: Sequence[Manifest]) -> tuple[tuple[Manifest, ...], bool]:
    """Pods to delete, and whether the head failed before it was ever ready, so that its ports may be taken."""
    present = [pod for pod in pods if not _is_deleted(pod)]
    heads = [pod for pod in present if nodes.is_head(pod)]
    if any(_has_ended(pod) for pod in heads):
        return tuple(present), not conditions.is_true(cluster, "HeadPodReady")
    found = [pod for pod in present if _has_ended(pod)]
    wanted = {group["groupName"]: group for group in _groups(cluster)}
    for name in {nodes.group_of(pod) for pod in present if not nodes.is_head(pod)}:
        group = wanted.get(name)
        alive = [pod for pod in present if nodes.group_of(pod) == name and not _has_ended(pod)]
        named = set(((group or {}).get("scaleStrategy") or {}).get("workersToDelete") or ())
        chosen = [pod for pod in alive if pod["metadata"]["name"] in named]
        others = [pod for pod in alive if pod["metadata"]["name"] not in named]
        count = 0 if group is None else desired_pods(group)
        found += [*chosen, *others[count:]]
    return tuple(found), False


def _missing(cluster: Manifest, kept: Sequence[Manifest]) -> Iterable[NewWorkers]:
    for group in _groups(cluster):
        have = sum(nodes.group_of(pod) == group["groupName"] and not nodes.is_head(pod) for pod in kept)
        if have < desired_pods(group):
            yield NewWorkers(group, desired_pods(group) - have)


def _warnings(cluster: Manifest, ray: RayInstallation) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    if message := version_mismatch(cluster["spec"], ray):
        found.append((VERSION_MISMATCH, message))
    if cluster["spec"].get("enableInTreeAutoscaling"):
        message = "worker groups keep their `replicas` on one machine: there are no nodes to add or remove"
        found.append((NO_AUTOSCALING, message))
    return tuple(found)


def version_mismatch(spec: Mapping[str, Any], ray: RayInstallation) -> str:
    """What to say about the `rayVersion` of a cluster's spec; empty if it is the installed one or not given."""
    wanted = spec.get("rayVersion") or ray.version
    if wanted == ray.version:
        return ""
    return (
        f"rayVersion is {wanted}, and this machine has Ray {ray.version}, which is used: images are not run on one "
        f"machine; `pip install 'ray[default]=={wanted}'` in the server's environment changes it"
    )


def desired_replicas(group: Mapping[str, Any]) -> int:
    if group.get("suspend"):
        return 0
    least, most = group.get("minReplicas") or 0, group.get("maxReplicas")
    return min(max(group.get("replicas") or 0, least), _MOST_REPLICAS if most is None else most)


def desired_pods(group: Mapping[str, Any]) -> int:
    return desired_replicas(group) * (group.get("numOfHosts") or 1)


def _is_provisioned(cluster: Manifest) -> bool:
    """Whether all pods were ready once."""
    return conditions.is_true(cluster, "RayClusterProvisioned")


def _groups(cluster: Manifest) -> list[Manifest]:
    found: list[Manifest] = cluster["spec"].get("workerGroupSpecs") or []
    return found


def _is_deleted(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _has_ended(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def _active(pods: Iterable[Manifest]) -> list[Manifest]:
    return [pod for pod in pods if not _is_deleted(pod)]


def is_ready(pod: Manifest) -> bool:
    return not _is_deleted(pod) and not _has_ended(pod) and conditions.is_true(pod, "Ready")


def _status(cluster: Manifest, pods: Sequence[Manifest], ray: RayInstallation, now: datetime) -> dict[str, Any]:
    """The whole status of a cluster that is to run."""
    groups, before, text = _groups(cluster), cluster.get("status") or {}, stamp(now)
    workers = [pod for pod in pods if not nodes.is_head(pod) and is_ready(pod)]
    head = next((pod for pod in _active(pods) if nodes.is_head(pod)), None)
    wanted = sum(desired_pods(group) for group in groups)
    head_ready = head is not None and is_ready(head)
    all_ready = head_ready and len(workers) >= wanted
    found = [
        one
        for one in before.get("conditions") or ()
        if one["type"] not in {"RayClusterSuspended", "RayClusterSuspending"}
    ]

    found = conditions.with_condition(found, "HeadPodReady", _truth(head_ready), *_head_reason(head), text)
    if all_ready:
        said = "AllPodRunningAndReadyFirstTime", "All Ray Pods are ready for the first time"
        found = conditions.with_condition(found, "RayClusterProvisioned", "True", *said, text)
    elif not _is_provisioned(cluster):
        said = "RayClusterPodsProvisioning", "RayCluster Pods are being provisioned for the first time"
        found = conditions.with_condition(found, "RayClusterProvisioned", "False", *said, text)
    if message := version_mismatch(cluster["spec"], ray):
        found = conditions.with_condition(found, VERSION_MISMATCH, "True", VERSION_MISMATCH, message, text)
    status = {
        **_desired(cluster),
        "desiredWorkerReplicas": wanted,
        "minWorkerReplicas": sum((group.get("minReplicas") or 0) * (group.get("numOfHosts") or 1) for group in groups),
        "maxWorkerReplicas": min(
            _MOST_REPLICAS,
            sum(_or_most(group.get("maxReplicas")) * (group.get("numOfHosts") or 1) for group in groups),
        ),
        "availableWorkerReplicas": len(workers),
        "readyWorkerReplicas": len(workers),
        "head": _head_status(head),
        "conditions": found,
        "reason": None,
        "observedGeneration": cluster["metadata"].get("generation", 1),
    }
    if not all_ready and before.get("state") == SUSPENDED:
        status["state"] = None
    return status | (_state(before, READY, text) if all_ready else {})


def _truth(holds: bool) -> str:  # noqa: FBT001 - of a condition
    return "True" if holds else "False"


def _or_most(count: int | None) -> int:
    return _MOST_REPLICAS if count is None else count


def _state(before: Mapping[str, Any], state: str, text: str) -> dict[str, Any]:
    if state == before.get("state"):
        return {}
    return {"state": state, "stateTransitionTimes": {**(before.get("stateTransitionTimes") or {}), state: text}}


def _head_reason(head: Manifest | None) -> tuple[str, str]:
    if head is None:
        return "HeadPodNotFound", "Head Pod not found"
    if is_ready(head):
        return "HeadPodRunningAndReady", ""
    said = conditions.find(head, "Ready") or {}
    return said.get("reason") or "Unknown", said.get("message") or ""


def _head_status(head: Manifest | None) -> Manifest:
    """There is no Service: Ray listens on an address of this machine, on the ports of `endpoints`."""
    if head is None:
        return {}
    address = (head.get("status") or {}).get("podIP")
    return {"podName": head["metadata"]["name"], "serviceIP": ADDRESS, **({"podIP": address} if address else {})}


def _desired(cluster: Manifest) -> dict[str, str]:
    """CPUs, memory, GPUs and TPUs of the head and all wanted workers."""
    templates = [(cluster["spec"]["headGroupSpec"]["template"], 1)]
    templates += [(group["template"], desired_pods(group)) for group in _groups(cluster)]
    total: dict[str, Quantity] = {}
    for template, count in templates:
        for container in template["spec"].get("containers") or ():
            resources = container.get("resources") or {}
            for name, amount in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.items():
                total[name] = Quantity(
                    total.get(name, ZERO).nanos + Quantity.parse(amount).nanos * count, Quantity.parse(amount).format
                )
    gpus = sum(quantity.nanos for name, quantity in total.items() if name.endswith("gpu"))
    return {
        "desiredCPU": str(total.get("cpu", ZERO)),
        "desiredMemory": str(total.get("memory", ZERO)),
        "desiredGPU": str(Quantity(gpus)),
        "desiredTPU": str(total.get("google.com/tpu", ZERO)),
    }


def _suspension(cluster: Manifest, pods: Sequence[Manifest], now: datetime) -> Manifest | None:
    before, text = cluster.get("status") or {}, stamp(now)
    kind, other = (
        ("RayClusterSuspending", "RayClusterSuspended") if pods else ("RayClusterSuspended", "RayClusterSuspending")
    )
    found = [one for one in before.get("conditions") or () if one["type"] != other]
    found = conditions.with_condition(found, kind, "True", kind, "", text)
    if not pods:
        found = conditions.with_condition(found, "HeadPodReady", "False", *_head_reason(None), text)
        found = [one for one in found if one["type"] != "RayClusterProvisioned"]
    status: dict[str, Any] = {
        "conditions": found,
        "availableWorkerReplicas": None if not pods else before.get("availableWorkerReplicas"),
        "readyWorkerReplicas": None if not pods else before.get("readyWorkerReplicas"),
        "observedGeneration": cluster["metadata"].get("generation", 1),
    }
    if not pods:
        status |= {"endpoints": None, "head": {}} | _state(before, SUSPENDED, text)
    return changes(cluster.get("status") or {}, status)


def _refusal(cluster: Manifest, reason: str, message: str, now: datetime) -> ClusterPlan:
    """Nothing is started, and a condition and an event say why."""
    found = conditions.with_condition(
        conditions.of(cluster), "RayClusterProvisioned", "False", reason, message, stamp(now)
    )
    generation = cluster["metadata"].get("generation", 1)
    wanted = {**_desired(cluster), "conditions": found, "reason": reason, "observedGeneration": generation}
    status = changes(cluster.get("status") or {}, wanted)
    return ClusterPlan(status=status, warnings=((reason, message),) if status else ())


def changes(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> Manifest | None:
    """The merge patch that sets these fields of a status; `None` removes a field. Nothing if all are as stored."""
    found: Manifest = {}
    for name, value in wanted.items():
        before = stored.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := changes(before, {**dict.fromkeys(before), **value}):
                found[name] = inner
        elif value != before:
            found[name] = value
    return found or None
