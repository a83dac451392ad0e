"""The decider, known from what it wrote: where Kueue decides, and where the engine runs in another process.

Sentences are those of the conditions. An eviction is requested through the API: by the condition `Evicted`, or
by `spec.active: false` where the Workload is not to come back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from fairway.admission import wording
from fairway.admission.events import EvictionRequested
from fairway.admission.instructions import Deactivate, DeactivationCause, Evict, EvictionReason
from fairway.admission.port import PendingWorkload, WaitingPage
from fairway.apis.kueue.configuration import WaitForPodsReady
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.controllers.decider.figures import StoredFigures
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.kit.writes import commit
from fairway.integrations import checks, conditions
from fairway.integrations.waiting import can_ever_fit, hints_with_quota, item_with_quota, item_without_quota
from fairway.integrations.workloads import queue_order


class StoredDecider:
    """Keeps the contract of `Decider` on the caches of a cluster."""

    def __init__(self, cluster: Cluster, configuration: ConfigurationSource) -> None:
        self._clock = cluster.clock
        self._configuration = configuration
        self._workloads = cluster.cache(WORKLOADS)
        self._writer = cluster.writer("fairway-lifecycle")
        self.figures = StoredFigures(cluster)

    def can_ever_fit(self, key: str) -> bool | None:
        workload = self._workloads.get(*key.split("/", 1))
        return None if workload is None else can_ever_fit(workload)

    async def request_eviction(self, request: EvictionRequested) -> None:
        workload = self._workloads.get(*request.key.split("/", 1))
        if workload is None or conditions.is_true(workload, conditions.EVICTED):
            return
        if request.reason == EvictionReason.DEACTIVATED:
            await self._deactivate(workload, request.cause, request.message)
            return
        change, requeue_at = WorkloadStatusChange(workload, self._clock.now()), ""
        if request.reason == EvictionReason.PODS_READY_TIMEOUT:
            rules = self._configuration.value.wait_for_pods_ready or WaitForPodsReady()
            count = (change.get("requeueState") or {}).get("count", 0)
            if rules.backoff_limit is not None and count >= rules.backoff_limit:
                await self._deactivate(workload, DeactivationCause.REQUEUING_LIMIT)
                return
            delay = min(rules.backoff_base_seconds * 2 ** min(count, 63), rules.backoff_max_seconds)
            requeue_at = stamp(self._clock.now() + timedelta(seconds=delay))
        reason = EvictionReason(request.reason)
        message = wording.eviction(Evict(at=request.at, key=request.key, reason=reason, message=request.message))
        change.evict(reason, message, str(request.cause), requeue_at=requeue_at)
        await commit(self._writer, WORKLOADS, change)

    async def _deactivate(self, workload: Manifest, cause: str, message: str = "") -> None:
        """First why, then `spec.active`: a decider that sees the second knows the first."""
        if cause and not conditions.is_true(workload, "DeactivationTarget"):
            text = wording.deactivation(Deactivate(at=0.0, key="", cause=cause, message=message))
            change = WorkloadStatusChange(workload, self._clock.now())
            change.mark_for_deactivation(cause, text)
            workload = await commit(self._writer, WORKLOADS, change)
        await self._writer.patch(WORKLOADS, workload, {"spec": {"active": False}}, locked=True)


Positions = Mapping[tuple[str, str], tuple[int, int]]
"""By namespace and name of a Workload: its positions in the ClusterQueue and in the LocalQueue, from 1."""

PendingOrder = Callable[[str], Awaitable[Positions | None]]
"""The order of a ClusterQueue as the decider has it; nothing where it does not answer."""


async def unknown_order(cluster_queue: str) -> Positions | None:  # noqa: ARG001
    """No decider can be asked: the stored Workloads are ordered by priority and age."""
    return None


class StoredExplainer:
    """Keeps the contract of `WaitingExplainer` on the caches of a cluster."""

    def __init__(
        self, cluster: Cluster, figures: StoredFigures | None = None, order: PendingOrder = unknown_order
    ) -> None:
        self._order = order
        self._workloads = cluster.cache(WORKLOADS)
        self._local_queues = cluster.cache("localqueues.kueue.x-k8s.io")
        self._cluster_queues = cluster.cache("clusterqueues.kueue.x-k8s.io")
        self._checks = cluster.cache("admissionchecks.kueue.x-k8s.io")
        self._figures = figures or StoredFigures(cluster)

    async def pending(self, cluster_queue: str) -> list[PendingWorkload] | None:  # noqa: ARG002
        """The API orders stored Workloads by itself."""
        return None

    async def page(self, namespace: str = "", first: int = 0, limit: int | None = None) -> WaitingPage:
        queued: dict[tuple[str, str], tuple[Manifest, int | None, int | None]] = {}
        names = sorted(queue["metadata"]["name"] for queue in self._cluster_queues.items())
        pending = {name: found for name in names if (found := self._pending(name, namespace))}
        for workloads, order in zip(pending.values(), await asyncio.gather(*map(self._order, pending)), strict=True):
            places = _positions(workloads) if order is None else order
            for workload in sorted(workloads, key=queue_order):
                key = workload["metadata"]["namespace"], workload["metadata"]["name"]
                if namespace in {"", key[0]}:
                    queued[key] = workload, *places.get(key, (None, None))
        others = [
            item
            for workload in self._workloads.items()
            if namespace in {"", workload["metadata"]["namespace"]}
            and (workload["metadata"]["namespace"], workload["metadata"]["name"]) not in queued
            and (item := self._item_of(workload)) is not None
        ]
        end = len(queued) + len(others) if limit is None else first + limit
        items = [self._without_quota(*one) for one in list(queued.values())[first:end]]
        items += others[max(0, first - len(queued)) : max(0, end - len(queued))]
        return WaitingPage(items, has_more=len(queued) + len(others) > end)

    def _pending(self, cluster_queue: str, namespace: str) -> list[Manifest]:
        """All that wait in a ClusterQueue, if one of them is of this namespace."""
        found = self._figures.pending(cluster_queue)
        return found if any(namespace in {"", one["metadata"]["namespace"]} for one in found) else []

    async def one(
        self,
        namespace: str,
        name: str,
        may_read: Callable[[str], bool],  # noqa: ARG002 - conditions have no names
        *,
        may_change: bool,  # noqa: ARG002
        any_priority: bool,  # noqa: ARG002
    ) -> Manifest | None:
        workload = self._workloads.get(namespace, name)
        if workload is None:
            return None
        found = item_with_quota(workload)
        if found is not None:
            return {**found, "hints": hints_with_quota(found, workload, lambda check: self._checks.get("", check))}
        listed = (item for item in (await self.page(namespace)).items if item["metadata"]["name"] == name)
        item = next(listed, None)
        if item is None:
            return None
        lists: dict[str, list[Any]] = {"shortages": [], "ahead": [], "obstacles": []}
        return {**item, **lists, "hints": checks.last_verdict(workload)}

    def _item_of(self, workload: Manifest) -> Manifest | None:
        """A Workload that is in no queue's order."""
        if conditions.is_true(workload, conditions.FINISHED):
            return None
        if conditions.is_true(workload, conditions.QUOTA_RESERVED):
            return item_with_quota(workload)
        return self._without_quota(workload, None, None)

    def _without_quota(self, workload: Manifest, position: int | None, local_position: int | None) -> Manifest:
        metadata, spec = workload["metadata"], workload["spec"]
        local = self._local_queues.get(metadata["namespace"], spec.get("queueName", ""))
        cluster_queue = str((local.get("spec") or {}).get("clusterQueue") or "") if local is not None else ""
        return {
            **item_without_quota(workload, cluster_queue),
            "position": position,
            "localPosition": local_position,
        }


def _positions(workloads: Iterable[Manifest]) -> Positions:
    """By priority and age."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    places: dict[tuple[str, str], int] = {}
    for position, workload in enumerate(sorted(workloads, key=queue_order), 1):
        namespace = workload["metadata"]["namespace"]
        local = namespace, workload["spec"].get("queueName", "")
        places[local] = places.get(local, 0) + 1
        found[namespace, workload["metadata"]["name"]] = position, places[local]
    return found
