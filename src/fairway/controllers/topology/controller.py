"""Follows placed workloads, their pods and the nodes under them."""

import asyncio
from typing import Any, Final

from fairway.admission.events import EvictionRequested
from fairway.admission.instructions import EvictionReason
from fairway.admission.port import Decider
from fairway.apis.kueue.placements import HOSTNAME
from fairway.apis.machinery.conditions import find_in
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.status import StatusChange
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.kit.writes import all_done, commit
from fairway.controllers.topology import failures, ungating
from fairway.errors import NotFound
from fairway.integrations import conditions, names, topology
from fairway.integrations.workloads import is_of_single_pod, namespaced_name
from fairway.runtime.worker import Worker

FLAVORS: Final = "resourceflavors.kueue.x-k8s.io"

_BATCH_SECONDS: Final = 0.1
"""How long changes of pods are collected before their node is looked at."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_TERMINATED: Final = "Pod terminated by Kueue NodeController due to node taint"


class TopologyController:
    """Opens the gates of placed pods, and keeps `status.unhealthyNodes` of their workloads."""

    def __init__(self, cluster: Cluster, decider: Decider, recorder: Recorder) -> None:
        self._clock = cluster.clock
        self._decider = decider
        self._recorder = recorder
        self._writer = cluster.writer("fairway-topology")
        self._workloads = cluster.cache(WORKLOADS)
        self._pods = cluster.cache("pods")
        self._nodes = cluster.cache("nodes")
        self._flavors = cluster.cache(FLAVORS)
        self._pods_of: dict[Key, dict[str, Key]] = {}
        """By the Workload, its placed pods by uid."""
        self._on_node: dict[str, dict[Key, None]] = {}
        """By the node, the Workloads placed on it."""
        self._hosts: dict[Key, set[str]] = {}
        self._ungater: Worker[Key] = Worker("topology gates", cluster.clock, self._ungate, parallel=8)
        self._watcher: Worker[str] = Worker("nodes of topologies", cluster.clock, self._look_at_node, parallel=4)
        self._workloads.on_change(self._workload_changed)
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        for cache in (self._workloads, self._pods, self._nodes, self._flavors):
            await cache.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ungater.run())
            group.create_task(self._watcher.run())

    # Observing

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        workload = new if new is not None else old
        if workload is None:
            return
        key = key_of(workload)
        placed = new is not None and ungating.is_placed(new) and not conditions.is_true(new, conditions.FINISHED)
        if not placed and key not in self._hosts:
            return
        hosts = failures.hosts_of(new) if new is not None and placed else set()
        for host in self._hosts.get(key, set()) - hosts:
            self._on_node.get(host, {}).pop(key, None)
        for host in hosts - self._hosts.get(key, set()):
            self._on_node.setdefault(host, {})[key] = None
            if self._nodes.get("", host) is None:
                self._watcher.add(host)
        if placed:
            self._hosts[key] = hosts
            self._ungater.add(key)
        else:
            self._hosts.pop(key, None)

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new if new is not None else old
        if pod is None:
            return
        workload = _workload_of(pod)
        if not topology.is_placed(pod) and workload not in self._hosts and workload not in self._pods_of:
            return
        if workload is not None:
            members = self._pods_of.setdefault(workload, {})
            if new is not None:
                members[pod["metadata"]["uid"]] = key_of(pod)
            else:
                members.pop(pod["metadata"]["uid"], None)
            if not members:
                del self._pods_of[workload]
            self._ungater.add(workload)
        spec = pod["spec"]
        host = (spec.get("nodeSelector") or {}).get(HOSTNAME)
        if not spec.get("nodeName") and host:
            self._watcher.add_after(host, _BATCH_SECONDS)
        elif spec.get("nodeName") and (
            new is None or "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase") in _ENDED
        ):
            self._watcher.add_after(spec["nodeName"], _BATCH_SECONDS)

    def _node_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        node = new if new is not None else old
        if node is not None and (old is None or new is None or _state(old) != _state(new)):
            self._watcher.add(node["metadata"]["name"])

    # Gates

    def _pods_of_workload(self, key: Key) -> list[Manifest]:
        found = (self._pods.get(*pod) for pod in self._pods_of.get(key, {}).values())
        return [pod for pod in found if pod is not None]

    async def _ungate(self, key: Key) -> None:
        workload = self._workloads.get(*key)
        if workload is not None:
            steps = ungating.decide(workload, self._pods_of_workload(key))
            await all_done(self._open(one) for one in steps)

    async def _open(self, step: ungating.Ungating) -> None:
        gates = [one for one in step.pod["spec"].get("schedulingGates") or () if one["name"] != names.TOPOLOGY_GATE]
        patch = {"spec": {"schedulingGates": gates or None, "nodeSelector": step.selector}}
        try:
            await self._writer.patch("pods", step.pod, patch, locked=True)
        except NotFound:
            return

    # Nodes

    async def _look_at_node(self, name: str) -> None:
        node = self._nodes.get("", name)
        keys = dict.fromkeys(self._on_node.get(name, {}))
        if node is not None:
            keys |= {
                key: None
                for key, members in self._pods_of.items()
                if any(
                    (pod := self._pods.get(*one)) is not None and failures.is_bound_for(pod, name)
                    for one in members.values()
                )
            }
        for key in keys:
            workload = self._workloads.get(*key)
            if workload is not None and not conditions.is_true(workload, conditions.FINISHED):
                await self._carry_out(workload, name, node)

    async def _carry_out(self, workload: Manifest, name: str, node: Manifest | None) -> None:
        if conditions.is_true(workload, conditions.EVICTED):
            return
        verdict = failures.judge(
            workload, name, node, self._pods_of_workload(key_of(workload)), lambda flavor: self._flavors.get("", flavor)
        )
        listed = [one["name"] for one in (workload.get("status") or {}).get("unhealthyNodes") or ()]
        lost = verdict.lost and not is_of_single_pod(workload)  # a pod cannot move, and its workload goes with it
        if lost and listed and name not in listed:
            await self._evict(workload, [*listed, name])
            return
        if lost != (name in listed):
            after = [*listed, name] if lost else [one for one in listed if one != name]
            change = StatusChange(workload, self._clock.now())
            change.put("unhealthyNodes", [{"name": one} for one in after] or None)
            await commit(self._writer, WORKLOADS, change)
        for pod in verdict.stranded:
            await self._fail(pod)

    async def _evict(self, workload: Manifest, nodes: list[str]) -> None:
        message = "Workload eviction triggered due to multiple TAS assigned node failures, including: " + ", ".join(
            nodes
        )
        await self._decider.request_eviction(
            EvictionRequested(
                at=self._clock.now().timestamp(),
                key=namespaced_name(workload),
                reason=EvictionReason.NODE_FAILURES,
                message=message,
            )
        )

    async def _fail(self, pod: Manifest) -> None:
        """End a pod that can run on one node only, which does not take it."""
        condition = {
            "type": "TerminatedByKueue",
            "status": "True",
            "reason": "UnschedulableOnAssignedNode",
            "message": _TERMINATED,
            "lastTransitionTime": stamp(self._clock.now()),
        }
        kept: list[Any] = (pod.get("status") or {}).get("conditions") or []
        patch = {"status": {"phase": "Failed", "conditions": [*kept, condition]}}
        try:
            await self._writer.patch("pods", pod, patch, subresource="status", locked=True)
        except NotFound:
            return
        self._recorder.normal(pod, "PodTerminatedByKueue", _TERMINATED)


def _workload_of(pod: Manifest) -> Key | None:
    name = (pod["metadata"].get("annotations") or {}).get(names.WORKLOAD)
    return (pod["metadata"]["namespace"], name) if name else None


def _state(node: Manifest) -> object:
    """What decides whether pods may stay on a node."""
    ready = find_in(node.get("status") or {}, "Ready") or {}
    return ready.get("status"), (node.get("spec") or {}).get("taints")
