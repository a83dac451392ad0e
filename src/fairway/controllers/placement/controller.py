"""Follows pods without a node, and writes the condition of the Workloads that they belong to."""

from collections.abc import Iterator
from typing import Final

from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.status import StatusChange
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.kit.writes import commit
from fairway.integrations import conditions
from fairway.integrations.conditions import WAITING_FOR_NODE
from fairway.integrations.workloads import controller_of
from fairway.runtime.worker import Worker

UNSCHEDULABLE: Final = "Unschedulable"
"""The reason while none of its pods has a node: it runs nothing, and holds its quota for nothing."""

PARTLY: Final = "PartlyUnschedulable"
PLACED: Final = "Placed"

_SETTLE_SECONDS: Final = 1.0
"""How long pods must wait before that is written: most get a node when the next one ends."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class WaitingForNode:
    """Keeps the condition `WaitingForNode` of all Workloads."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._writer = cluster.writer("fairway-placement")
        self._pods = cluster.cache("pods")
        self._workloads = cluster.cache(WORKLOADS)
        self._waiting: dict[str, dict[str, Key]] = {}
        """By the uid of an owner (or of the pod itself), its pods that fit nowhere, by their uid."""
        self._owned: dict[str, Key] = {}
        """By the uid of an owner, its Workload, for those of which a pod waits or that say so."""
        self._worker: Worker[Key] = Worker("waiting for nodes", cluster.clock, self._reconcile, parallel=4)
        self._pods.on_change(self._pod_changed)
        self._workloads.on_change(self._workload_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        before = old is not None and bool(why_unplaced(old))
        after = new is not None and bool(why_unplaced(new))
        pod = new or old
        if pod is None or not (before or after):
            return
        metadata = pod["metadata"]
        for owner in _owners(pod):
            found = self._waiting.setdefault(owner, {})
            if after:
                found[metadata["uid"]] = key_of(pod)
            else:
                found.pop(metadata["uid"], None)
            if not found:
                del self._waiting[owner]
        workload = self._workload_of(pod)
        if workload is None:
            return
        if after and not before:
            self._worker.add_after(workload, _SETTLE_SECONDS)
        else:
            self._worker.add(workload)

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        workload = new or old
        if workload is None:
            return
        waits = new is not None and any(uid in self._waiting for uid in _uids(workload))
        if waits or (new is not None and conditions.is_true(new, WAITING_FOR_NODE)):
            key = key_of(workload)
            for uid in _uids(workload):
                self._owned[uid] = key
            if old is None or conditions.of(old) != conditions.of(workload):
                self._worker.add_after(key, _SETTLE_SECONDS)
        else:
            for uid in _uids(workload):
                self._owned.pop(uid, None)

    def _workload_of(self, pod: Manifest) -> Key | None:
        owners = _owners(pod)
        for owner in owners:
            if owner in self._owned:
                return self._owned[owner]
        namespace = pod["metadata"]["namespace"]
        for workload in self._workloads.items():
            if workload["metadata"]["namespace"] == namespace and not owners.isdisjoint(_uids(workload)):
                key = (namespace, workload["metadata"]["name"])
                for uid in _uids(workload):
                    self._owned[uid] = key
                return key
        return None

    async def _reconcile(self, key: Key) -> None:
        workload = self._workloads.get(*key)
        if workload is None or conditions.is_true(workload, conditions.FINISHED):
            return
        held = conditions.find(workload, WAITING_FOR_NODE)
        status, reason, message = self._wanted(workload)
        if held is None and status == "False":
            return
        if held is not None and (held["status"], held["reason"], held["message"]) == (status, reason, message):
            return
        change = StatusChange(workload, self._clock.now())
        if held is not None and held["reason"] != reason:
            change.remove(WAITING_FOR_NODE)  # since when nothing of it runs is what counts
        change.set(WAITING_FOR_NODE, status, reason, message)
        await commit(self._writer, WORKLOADS, change)

    def _wanted(self, workload: Manifest) -> tuple[str, str, str]:
        """The condition as it should be."""
        waiting = [
            pod
            for uid in _uids(workload)
            for key in self._waiting.get(uid, {}).values()
            if (pod := self._pods.get(*key)) is not None
        ]
        if not waiting or not conditions.is_true(workload, conditions.ADMITTED):
            return "False", PLACED, "No pod waits for a node"
        message = why_unplaced(waiting[0])
        reason = PARTLY if any(self._placed(workload)) else UNSCHEDULABLE
        return "True", reason, message

    def _placed(self, workload: Manifest) -> Iterator[bool]:
        """Whether its pods have nodes, for those that have not ended."""
        uids, namespace = _uids(workload), workload["metadata"]["namespace"]
        for pod in self._pods.items():
            if pod["metadata"]["namespace"] == namespace and not uids.isdisjoint(_owners(pod)):
                yield bool(pod["spec"].get("nodeName")) and (pod.get("status") or {}).get("phase") != "Failed"


def why_unplaced(pod: Manifest) -> str:
    """Why a pod has no node; empty if it has one, needs none any more, or was not tried yet."""
    spec, status = pod["spec"], pod.get("status") or {}
    if spec.get("nodeName") or spec.get("schedulingGates") or status.get("phase") in _ENDED:
        return ""
    if "deletionTimestamp" in pod["metadata"]:
        return ""
    condition = conditions.find(pod, "PodScheduled")
    if condition is None or condition["status"] != "False" or condition.get("reason") != UNSCHEDULABLE:
        return ""
    return str(condition.get("message") or UNSCHEDULABLE)


def _owners(pod: Manifest) -> set[str]:
    """The uids under which a Workload may own a pod: its controller's and its own."""
    owner = controller_of(pod)
    return {pod["metadata"]["uid"], *([owner["uid"]] if owner is not None else [])}


def _uids(workload: Manifest) -> set[str]:
    return {one["uid"] for one in workload["metadata"].get("ownerReferences") or ()}
