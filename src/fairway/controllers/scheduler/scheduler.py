"""The scheduler: watches pods and nodes, assigns pods to nodes, and writes bindings.

What it decides counts at once, before it is written; when the write fails, it is taken back and the pod waits again.
Deciding never waits for anything, so two decisions never count on the same room.

Controllers in this process may reserve a node beforehand (`reserve`): a pod that would be bound at once is then
made with its node, which saves a write and the wait for it.
"""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Final

from fairway.apis.core.node_views import DEFAULT_SCHEDULER
from fairway.apis.machinery.keys import Key
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.capacity import Demand, best_node, demand_of, demand_of_new, explained
from fairway.controllers.kit.ledger import NodeLedger, has_ended
from fairway.controllers.scheduler.waiting import Rank, WaitingPod, WaitingPods
from fairway.errors import ApiError, NotFound
from fairway.integrations.conditions import find, of, with_condition
from fairway.integrations.workloads import controller_of, namespaced_name
from fairway.runtime.worker import Worker

NAME: Final = DEFAULT_SCHEDULER
"""The pods that ask for a scheduler of this name, which is what a pod does that asks for none, are ours."""

_SCHEDULED: Final = "PodScheduled"
_UNSCHEDULABLE: Final = "Unschedulable"
_WRITES_AT_ONCE: Final = 64


class Scheduler:
    """Gives waiting pods to nodes."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._recorder = recorder
        self._writer = cluster.writer(NAME)
        self._ledger = NodeLedger()
        self._waiting = WaitingPods()
        self._arrivals = count()
        self._bindings: dict[Key, tuple[str, str]] = {}
        """Which pod, by its UID, goes to which node: what is decided and not written yet."""
        self._reserved: dict[tuple[str, str], list[str]] = {}
        """By the UID of an owner and a node, the places that are kept there for pods that it is making."""
        self._claimed: set[str] = set()
        """The UIDs of pods that have taken such a place and whose maker has not said so yet."""
        self._stirred = asyncio.Event()
        self._worker: Worker[Key] = Worker("scheduling", cluster.clock, self._carry_out, parallel=_WRITES_AT_ONCE)
        self._pods = cluster.cache("pods")
        self._nodes = cluster.cache("nodes")
        self._limit_ranges = cluster.cache("limitranges")
        self._pods.on_change(self._on_pod_change)
        self._nodes.on_change(self._on_node_change)

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._pods.synced.wait()
        await self._nodes.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._decide_when_stirred())

    def reserve(self, owner: str, pod: Manifest) -> str | None:
        """The node for a pod that its owner is about to make, if it would get one at once.

        It has to be followed by `settle`. No pod is overtaken: all waiting pods have been tried and do not fit.
        """
        if not self._waiting.are_settled or not _waits(pod) or self._may_grow(pod):
            return None
        demand = demand_of_new(pod["spec"])
        node = best_node(self._ledger.rooms(), demand)
        if node is not None:
            place = f"reserved-{next(self._arrivals)}"
            self._ledger.place(place, node, demand)
            self._reserved.setdefault((owner, node), []).append(place)
        return node

    def _may_grow(self, pod: Manifest) -> bool:
        """Whether a LimitRange or a runtime class may add to what the pod asks for, once it is created."""
        namespace = pod["metadata"]["namespace"]
        return "runtimeClassName" in pod["spec"] or any(
            one["metadata"]["namespace"] == namespace for one in self._limit_ranges.items()
        )

    def settle(self, owner: str, node: str, pod: Manifest | None) -> None:
        """What became of a pod that got a place by `reserve`: it was made, or not."""
        if pod is not None:
            uid = pod["metadata"]["uid"]
            self._recorder.normal(pod, "Scheduled", f"Successfully assigned {namespaced_name(pod)} to {node}")
            if uid in self._claimed:
                self._claimed.discard(uid)
                return
        if self._ledger.release(self._taken_place(owner, node)):
            self._there_is_more_room()

    def _taken_place(self, owner: str, node: str) -> str:
        """One of the places that are kept, kept no more; empty if there is none."""
        places = self._reserved.get((owner, node))
        if not places:
            return ""
        place = places.pop()
        if not places:
            del self._reserved[owner, node]
        return place

    def _on_pod_created(self, pod: Manifest) -> None:
        """A pod that comes with a node has the place that was kept for it, if one was."""
        if self._reserved and pod["spec"].get("nodeName"):
            owner = controller_of(pod)
            place = "" if owner is None else self._taken_place(owner["uid"], pod["spec"]["nodeName"])
            if place:
                self._ledger.rename(place, pod["metadata"]["uid"])
                self._claimed.add(pod["metadata"]["uid"])

    def _on_node_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if self._ledger.observe_node(old, new):
            self._there_is_more_room()

    def _on_pod_change(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new or old or {}
        uid = pod["metadata"]["uid"]
        if old is None and new is not None:
            self._on_pod_created(new)
        if self._ledger.release(uid) if new is None else self._ledger.observe(new):
            self._there_is_more_room()
        if new is None or not _waits(new):
            self._waiting.remove(uid)
            if new is not None and _has_unknown_scheduler(new) and not _last_reason(new):
                self._worker.add((new["metadata"]["namespace"], new["metadata"]["name"]))
        elif uid not in self._ledger:  # one that is there is being bound just now
            self._line_up(new)

    def _line_up(self, pod: Manifest) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        uid, generation = metadata["uid"], metadata.get("generation", 0)
        known = self._waiting.get(uid)
        if known is not None and known.generation == generation:
            return
        rank = Rank(-(spec.get("priority") or 0), metadata["creationTimestamp"], next(self._arrivals))
        waiting = WaitingPod(uid, metadata["namespace"], metadata["name"], generation, rank, _last_reason(pod))
        self._waiting.add(waiting, demand_of(spec))
        self._stirred.set()

    def _there_is_more_room(self) -> None:
        if len(self._waiting):
            self._waiting.stir()
            self._stirred.set()

    async def _decide_when_stirred(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            self._decide()

    def _decide(self) -> None:
        """Place the pods that fit; note for the others why not."""
        for line, pod in self._waiting.turns():
            if line.blocked:
                why = line.why
            else:
                node = best_node(self._ledger.rooms(), line.demand)
                if node is not None:
                    self._give(pod, node, line.demand)
                    continue
                why = explained(self._ledger.rooms(), line.demand)
            for one in self._waiting.block(line, why):
                self._worker.add((one.namespace, one.name))

    def _give(self, pod: WaitingPod, node: str, demand: Demand) -> None:
        key = pod.namespace, pod.name
        self._waiting.remove(pod.uid)
        self._ledger.place(pod.uid, node, demand)
        self._bindings[key] = pod.uid, node
        self._worker.add(key)

    async def _carry_out(self, key: Key) -> None:
        """Write down what is decided about a pod."""
        binding = self._bindings.pop(key, None)
        if binding is not None:
            await self._bind(key, *binding)
            return
        pod = self._pods.get(*key)
        if pod is not None and _has_unknown_scheduler(pod):
            name = pod["spec"]["schedulerName"]
            await self._explain(pod, f"no scheduler named {name} runs here; leave out schedulerName to use {NAME}")
            return
        if pod is None or not _waits(pod) or pod["metadata"]["uid"] in self._ledger:
            return
        waiting = self._waiting.get(pod["metadata"]["uid"])
        if waiting is None:  # its binding failed
            self._line_up(pod)
        elif waiting.why != _last_reason(pod):
            await self._explain(pod, waiting.why)

    async def _bind(self, key: Key, uid: str, node: str) -> None:
        pod = self._pods.get(*key)
        try:
            if pod is not None and pod["metadata"]["uid"] == uid and _waits(pod):
                await self._writer.bind(pod, node)
                self._recorder.normal(pod, "Scheduled", f"Successfully assigned {key[0]}/{key[1]} to {node}")
        except ApiError:
            # Its response may be lost: the room stays taken until the server has said whether the pod is bound.
            self._bindings[key] = uid, node
            with suppress(NotFound):
                self._cluster.note(self._cluster.kind("pods"), await self._cluster.get("pods", *key))
            del self._bindings[key]
            self._take_back_unless_bound(key, uid)
            raise
        self._take_back_unless_bound(key, uid)

    def _take_back_unless_bound(self, key: Key, uid: str) -> None:
        pod = self._pods.get(*key)
        bound = pod is not None and pod["metadata"]["uid"] == uid and pod["spec"].get("nodeName")
        if not bound and self._ledger.release(uid):
            self._there_is_more_room()

    async def _explain(self, pod: Manifest, why: str) -> None:
        now = stamp(self._clock.now())
        conditions = with_condition(of(pod), _SCHEDULED, "False", _UNSCHEDULABLE, why, now)
        status = {"conditions": [{"lastProbeTime": None, **condition} for condition in conditions]}
        await self._writer.patch("pods", pod, {"status": status}, subresource="status", locked=True)
        self._recorder.warning(pod, "FailedScheduling", why)


def _waits(pod: Manifest) -> bool:
    """Whether a pod is to be given to a node by this scheduler."""
    return pod["spec"].get("schedulerName", NAME) == NAME and _is_unbound(pod)


def _has_unknown_scheduler(pod: Manifest) -> bool:
    """Whether a pod waits for a scheduler that does not run here: this one is the only one."""
    return pod["spec"].get("schedulerName", NAME) != NAME and _is_unbound(pod)


def _is_unbound(pod: Manifest) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and "deletionTimestamp" not in pod["metadata"]
        and not has_ended(pod)
    )


def _last_reason(pod: Manifest) -> str:
    """Why it waits, as its condition says."""
    condition = find(pod, _SCHEDULED)
    if condition is None or condition["status"] != "False" or condition.get("reason") != _UNSCHEDULABLE:
        return ""
    return str(condition.get("message") or "")
