"""The figures of queues, summed from stored objects: for processes without an engine."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from fairway.admission.figures import (
    Activity,
    Amount,
    ClusterQueueFigures,
    CohortFigures,
    FlavorAmounts,
    Holdings,
    LocalQueueFigures,
)
from fairway.admission.quota import Quota
from fairway.admission.resources import FlavorResource, FlavorResources
from fairway.admission.shares import DominantShare
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity, amount_of
from fairway.client.cluster import Cluster
from fairway.integrations import conditions

_INFINITE_SHARE: Final = 2**63 - 1
_ON_HOLD: Final = "OnHold"
_PENDING: Final = "Pending"


class StoredFigures:
    """Keeps the contract of `QueueFigures` on the caches of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._frs = FlavorResources()
        self._cluster_queues = cluster.cache("clusterqueues.kueue.x-k8s.io")
        self._local_queues = cluster.cache("localqueues.kueue.x-k8s.io")
        self._cohorts = cluster.cache("cohorts.kueue.x-k8s.io")
        self._flavors = cluster.cache("resourceflavors.kueue.x-k8s.io")
        self._checks = cluster.cache("admissionchecks.kueue.x-k8s.io")
        self._topologies = cluster.cache("topologies.kueue.x-k8s.io")
        self._pending: dict[str, dict[str, Manifest]] = {}
        """Workloads without quota, by LocalQueue and key."""

        self._holding: dict[str, dict[str, Manifest]] = {}
        """Workloads with quota, by ClusterQueue and key."""

        cluster.cache("workloads.kueue.x-k8s.io").on_change(self._workload_changed)

    @property
    def attempts(self) -> None:
        """Not known: nothing of a scheduling cycle is stored."""
        return

    def pending(self, cluster_queue: str) -> list[Manifest]:
        """The pending Workloads of a ClusterQueue, in no order."""
        return [one for key in self._leading_to(cluster_queue) for one in self._pending.get(key, {}).values()]

    def activity(self, name: str) -> Activity | None:
        queue = self._cluster_queues.get("", name)
        if queue is None:
            return None
        spec = queue.get("spec") or {}
        flavors = dict.fromkeys(flavor["name"] for _, flavor in _flavors(queue))
        strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
        named = sorted({check["name"] for check in strategy})
        checks = {check: found for check in named if (found := self._checks.get("", check)) is not None}
        return Activity(
            terminating="deletionTimestamp" in queue["metadata"],
            stopped=spec.get("stopPolicy", "None") != "None",
            missing_flavors=tuple(flavor for flavor in flavors if self._flavors.get("", flavor) is None),
            missing_checks=tuple(check for check in named if check not in checks),
            inactive_checks=tuple(check for check, found in checks.items() if not conditions.is_true(found, "Active")),
            missing_topologies=tuple(self._missing_topologies(flavors)),
        )

    def _missing_topologies(self, flavors: Iterable[str]) -> Iterator[tuple[str, str]]:
        for name in sorted(flavors):
            flavor = self._flavors.get("", name)
            topology = ((flavor or {}).get("spec") or {}).get("topologyName")
            if topology and self._topologies.get("", topology) is None:
                yield name, topology

    def cluster_queue(self, name: str) -> ClusterQueueFigures | None:
        queue, activity = self._cluster_queues.get("", name), self.activity(name)
        if queue is None or activity is None:
            return None
        waiting = self.waiting_by_local_queue(name).values()
        cohorts = self.cohorts_above(name)
        return ClusterQueueFigures(
            activity=activity,
            queued=sum(active for active, _ in waiting),
            set_aside=sum(inadmissible for _, inadmissible in waiting),
            holdings=_holdings(queue, self._holding.get(name, {}).values(), borrowing=bool(cohorts)),
            share=_share(queue),
            cohorts=cohorts,
        )

    def local_queue(self, key: str) -> LocalQueueFigures | None:
        local = self._local_queues.get(*key.split("/", 1))
        if local is None:
            return None
        name = _cluster_queue_of(local)
        queue = self._cluster_queues.get("", name)
        held = [one for one in self._holding.get(name, {}).values() if _local_queue_of(one) == key]
        shared = ((local.get("status") or {}).get("fairSharing") or {}).get("admissionFairSharingStatus") or {}
        consumed = shared.get("consumedResources") or {}
        updated = shared.get("lastUpdate")
        return LocalQueueFigures(
            pending=0 if _is_stopped(local) else len(self._pending.get(key, ())),
            holdings=Holdings() if queue is None else _holdings(queue, held, borrowing=False),
            consumed={resource: float(_amount(resource, amount)) for resource, amount in consumed.items()},
            sampled_at=datetime.fromisoformat(updated).timestamp() if updated else None,
        )

    def waiting_by_local_queue(self, name: str) -> dict[str, tuple[int, int]]:
        """One that was tried without success is inadmissible, until its condition says something else."""
        activity = self.activity(name)
        open_ = activity == Activity()
        found = {}
        for key in self._leading_to(name):
            waiting = self._pending.get(key, {}).values()
            active = sum(not _was_tried(one) for one in waiting) if open_ else 0
            found[key] = (active, len(waiting) - active)
        return found

    def holders(self, name: str) -> int:
        return len(self._holding.get(name, ()))

    def quotas(self, name: str) -> dict[FlavorResource, Quota]:
        queue = self._cluster_queues.get("", name)
        return self._quotas(queue) if queue is not None else {}

    def demanded(self, name: str) -> dict[str, int]:
        total: dict[str, int] = {}
        for workload in self.pending(name):
            for pod_set in (workload.get("status") or {}).get("resourceRequests") or ():
                for resource, amount in (pod_set.get("resources") or {}).items():
                    total[resource] = total.get(resource, 0) + _amount(resource, amount)
        return total

    def recent_usage(self, key: str) -> float | None:  # noqa: ARG002 - it is shown nowhere but in the engine's metrics
        """Not known: statuses have the resources that it is computed from, not their weights."""
        return None

    # Cohorts

    def cohorts_above(self, name: str) -> tuple[str, ...]:
        queue = self._cluster_queues.get("", name)
        parent = (queue.get("spec") or {}).get("cohortName") if queue is not None else None
        return tuple(self._chain(parent)) if parent else ()

    def cohort(self, name: str) -> CohortFigures | None:
        return next((one for one in self.cohorts() if one.name == name), None)

    def cohorts(self) -> list[CohortFigures]:
        below: dict[str, list[str]] = {}
        for queue in self._cluster_queues.items():
            for cohort in self.cohorts_above(queue["metadata"]["name"]):
                below.setdefault(cohort, []).append(queue["metadata"]["name"])
        for stored in self._cohorts.items():  # without a queue
            for name in self._chain(stored["metadata"]["name"]):
                below.setdefault(name, [])
        return [self._cohort(name, queues) for name, queues in sorted(below.items())]

    def _cohort(self, name: str, queues: list[str]) -> CohortFigures:
        chain = self._chain(name)
        reservation: dict[FlavorResource, int] = {}
        admitted = 0
        for workload in (one for queue in queues for one in self._holding.get(queue, {}).values()):
            admitted += conditions.is_true(workload, conditions.ADMITTED)
            for flavor, resource, amount in _usage(workload):
                fr = self._frs.get(flavor, resource)
                reservation[fr] = reservation.get(fr, 0) + amount
        stored = self._cohorts.get("", name)
        return CohortFigures(
            name=name,
            parent=chain[1] if len(chain) > 1 else "",
            root=chain[-1],
            share=_share(stored) if stored is not None else DominantShare(0.0, 1.0, ()),
            quota=self._subtree(name, frozenset()),
            reservation=reservation,
            admitted=admitted,
        )

    def _subtree(self, name: str, seen: frozenset[str]) -> dict[FlavorResource, int]:
        """The quota of a cohort and of what is below it, as far as that lends it."""
        stored = self._cohorts.get("", name)
        total = {fr: quota.nominal for fr, quota in self._quotas(stored).items()} if stored is not None else {}
        seen |= {name}
        for queue in self._cluster_queues.items():
            if (queue.get("spec") or {}).get("cohortName") == name:
                for fr, quota in self._quotas(queue).items():
                    total[fr] = total.get(fr, 0) + _lent(quota.nominal, quota)
        for child in self._cohorts.items():
            below = child["metadata"]["name"]
            if self._parent(below) == name and below not in seen:
                quotas = self._quotas(child)
                for fr, amount in self._subtree(below, seen).items():
                    total[fr] = total.get(fr, 0) + _lent(amount, quotas.get(fr))
        return total

    def _chain(self, cohort: str) -> list[str]:
        """A cohort and those above it, up to the root; a cycle ends where it began."""
        chain = [cohort]
        while (above := self._parent(chain[-1])) and above not in chain:
            chain.append(above)
        return chain

    def _parent(self, cohort: str) -> str:
        stored = self._cohorts.get("", cohort)
        return str((stored.get("spec") or {}).get("parentName") or "") if stored is not None else ""

    # Reading

    def _quotas(self, owner: Manifest) -> dict[FlavorResource, Quota]:
        def limit(resource: dict[str, Any], field: str) -> int | None:
            return _amount(resource["name"], resource[field]) if resource.get(field) is not None else None

        return {
            self._frs.get(flavor["name"], resource["name"]): Quota(
                _amount(resource["name"], resource.get("nominalQuota") or 0),
                limit(resource, "borrowingLimit"),
                limit(resource, "lendingLimit"),
            )
            for _, flavor in _flavors(owner)
            for resource in flavor.get("resources") or ()
        }

    def _leading_to(self, cluster_queue: str) -> list[str]:
        """The keys of the LocalQueues of a ClusterQueue that are not stopped."""
        return [
            f"{local['metadata']['namespace']}/{local['metadata']['name']}"
            for local in self._local_queues.items()
            if _cluster_queue_of(local) == cluster_queue and not _is_stopped(local)
        ]

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        metadata = (new or old or {})["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        if old is not None:
            index, place = self._index(old)
            if index is not None and place in index:
                index[place].pop(key, None)
                if not index[place]:
                    del index[place]
        if new is not None:
            index, place = self._index(new)
            if index is not None:
                index.setdefault(place, {})[key] = new

    def _index(self, workload: Manifest) -> tuple[dict[str, dict[str, Manifest]] | None, str]:
        """Where a Workload counts, if it does."""
        if not workload["spec"].get("active", True) or conditions.is_true(workload, conditions.FINISHED):
            return None, ""
        admission = (workload.get("status") or {}).get("admission")
        reserved = conditions.find(workload, conditions.QUOTA_RESERVED)
        if admission and reserved is not None and reserved["status"] == "True":
            return self._holding, admission["clusterQueue"]
        if reserved is not None and reserved["reason"] == _ON_HOLD:
            return None, ""
        return self._pending, _local_queue_of(workload)


def _holdings(queue: Manifest, workloads: Iterable[Manifest], *, borrowing: bool) -> Holdings:
    reserved: dict[tuple[str, str], int] = {}
    admitted: dict[tuple[str, str], int] = {}
    reserving = running = 0
    for workload in workloads:
        is_admitted = conditions.is_true(workload, conditions.ADMITTED)
        reserving += 1
        running += is_admitted
        for flavor, resource, amount in _usage(workload):
            reserved[flavor, resource] = reserved.get((flavor, resource), 0) + amount
            if is_admitted:
                admitted[flavor, resource] = admitted.get((flavor, resource), 0) + amount
    return Holdings(
        reserving=reserving,
        admitted=running,
        reservation=_by_flavor(queue, reserved, borrowing=borrowing),
        usage=_by_flavor(queue, admitted, borrowing=borrowing),
    )


def _by_flavor(queue: Manifest, used: dict[tuple[str, str], int], *, borrowing: bool) -> tuple[FlavorAmounts, ...]:
    found = []
    for covered, flavor in _flavors(queue):
        nominal = {one["name"]: one.get("nominalQuota") or 0 for one in flavor.get("resources") or ()}
        amounts = []
        for resource in sorted(covered):
            total = used.get((flavor["name"], resource), 0)
            over = max(0, total - _amount(resource, nominal.get(resource, 0))) if borrowing else 0
            amounts.append(Amount(resource, total, over))
        found.append(FlavorAmounts(flavor["name"], tuple(amounts)))
    return tuple(found)


def _usage(workload: Manifest) -> Iterator[tuple[str, str, int]]:
    """Flavor, resource and amount of each part of an admission, without the pods that were given back."""
    status = workload["status"]
    back = {one["name"]: one["count"] for one in status.get("reclaimablePods") or ()}
    for assigned in status["admission"].get("podSetAssignments") or ():
        count = assigned.get("count") or 1
        left = max(0, count - back.get(assigned["name"], 0))
        flavors = assigned.get("flavors") or {}
        for resource, amount in (assigned.get("resourceUsage") or {}).items():
            if resource in flavors:
                yield flavors[resource], resource, _amount(resource, amount) * left // count


def _flavors(owner: Manifest) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The flavors of a ClusterQueue or Cohort, each with the resources that its group covers."""
    for group in (owner.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            yield group.get("coveredResources") or [], flavor


def _lent(amount: int, quota: Quota | None) -> int:
    return amount if quota is None or quota.lending_limit is None else min(amount, quota.lending_limit)


def _share(queue: Manifest) -> DominantShare:
    shown = int(((queue.get("status") or {}).get("fairSharing") or {}).get("weightedShare") or 0)
    return DominantShare(1.0, 0.0, ()) if shown == _INFINITE_SHARE else DominantShare(float(shown), 1.0, ())


def _was_tried(workload: Manifest) -> bool:
    reserved = conditions.find(workload, conditions.QUOTA_RESERVED)
    return reserved is not None and reserved["status"] == "False" and reserved["reason"] == _PENDING


def _amount(resource: str, quantity: Any) -> int:
    return amount_of(resource, Quantity.parse(quantity))


def _is_stopped(local_queue: Manifest) -> bool:
    return bool((local_queue.get("spec") or {}).get("stopPolicy", "None") != "None")


def _cluster_queue_of(local_queue: Manifest) -> str:
    return str((local_queue.get("spec") or {}).get("clusterQueue") or "")


def _local_queue_of(workload: Manifest) -> str:
    return f"{workload['metadata']['namespace']}/{workload['spec'].get('queueName', '')}"
