"""Why Workloads wait, as the API tells it: the engine's answers with the names that people know.

What is asked and who may see whom is the API's business; what the answers mean, the engine's.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from fairway.admission import advice, wording
from fairway.admission.explain import Standing
from fairway.admission.port import WaitingPage
from fairway.admission.reasons import Outcome, Reason, Shortage, Why
from fairway.admission.records import Record
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import format_amount
from fairway.client.cluster import Cluster
from fairway.controllers.admission.controller import QueueingController
from fairway.integrations import checks, conditions, priority_ranges
from fairway.integrations.waiting import hints_with_quota, item_with_quota, over_limit, owner_of
from fairway.integrations.workloads import namespaced_name

MayRead = Callable[[str], bool]
"""Whether the reader may see the workloads of a namespace."""

_SOMEBODY: Final = "a job of another team"
_CALLED: Final = {"ManagedJob": "job", "Job": "Job", "Pod": "pod"}


class _Window:
    """Says who of those that wait is in a namespace, and not among the first of them."""

    def __init__(self, namespace: str, first: int) -> None:
        self._left = first
        self._namespace = namespace

    def has(self, record: Record) -> bool:
        return (not self._namespace or record.namespace == self._namespace) and self.has_next()

    def has_next(self) -> bool:
        self._left -= 1
        return self._left < 0


class WaitingWorkloads:
    """Keeps the contract of `WaitingExplainer` on the engine of a controller in this process."""

    def __init__(self, cluster: Cluster, queueing: QueueingController) -> None:
        self._queueing = queueing
        self._workloads = cluster.cache("workloads")
        self._jobs = cluster.cache("managedjobs")
        self._with_quota: dict[str, None] = {}
        """The workloads that have their quota and wait: for an admission check, or for a node."""
        self._workloads.on_change(self._workload_changed)
        self._cluster_queues = cluster.cache("clusterqueues.kueue.x-k8s.io")
        self._checks = cluster.cache("admissionchecks.kueue.x-k8s.io")

    async def page(self, namespace: str = "", first: int = 0, limit: int | None = None) -> WaitingPage:
        """Those who wait in a namespace, or anywhere: queue by queue, in their order."""
        messages: dict[int, str] = {}
        items: list[Manifest] = []
        window = _Window(namespace, first)
        for standing in self._queueing.engine.standings(window.has):
            if len(items) == limit:
                return WaitingPage(items, has_more=True)
            explanation = standing.explanation
            if explanation.pod_sets:
                message = messages.get(id(explanation)) or advice.message(explanation, standing.cluster_queue)
                messages[id(explanation)] = message
            else:
                strict = standing.strict
                message = advice.message(explanation, standing.cluster_queue, standing.position, strict=strict)
            items.append(self._item(standing, message))
        for key in self._with_quota:
            item = self._waiting_with_quota(key) if not namespace or key.startswith(f"{namespace}/") else None
            if item is not None and window.has_next():
                if len(items) == limit:
                    return WaitingPage(items, has_more=True)
                items.append(item)
        return WaitingPage(items)

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        key = namespaced_name(new or old or {})
        if new is not None and (conditions.is_true(new, conditions.WAITING_FOR_NODE) or checks.waits_for_checks(new)):
            self._with_quota[key] = None
        else:
            self._with_quota.pop(key, None)

    def _waiting_with_quota(self, key: str) -> Manifest | None:
        """A workload that has its quota and waits for an admission check or a node; `None` if it does not."""
        record = self._queueing.engine.record(key)
        workload = self._workloads.get(*key.split("/", 1))
        return None if record is None or not record.holding or workload is None else item_with_quota(workload)

    async def pending(self, cluster_queue: str) -> list[Record]:
        return self._queueing.engine.pending(cluster_queue)

    async def one(
        self, namespace: str, name: str, may_read: MayRead, *, may_change: bool = True, any_priority: bool = True
    ) -> Manifest | None:
        """All about one that waits, for a user who may read these namespaces; `None` if it does not wait.

        `may_change` says whether the user may give it another priority, `any_priority` whether that may be any.
        """
        engine = self._queueing.engine
        key = f"{namespace}/{name}"
        why, remedies, record = engine.why(key), engine.remedies(key), engine.record(key)
        if why is None or remedies is None or record is None:
            found = self._waiting_with_quota(key) if key in self._with_quota else None
            workload = self._workloads.get(namespace, name)
            if found is None or workload is None:
                return None
            return {**found, "hints": hints_with_quota(found, workload, lambda check: self._checks.get("", check))}
        explanation = why.explanation
        standing = Standing(record, why.cluster_queue, why.position, why.local_position, explanation)
        message = advice.message(explanation, why.cluster_queue, why.position, strict=remedies.strict)
        highest = self._highest_priority(why.cluster_queue, may_change=may_change, any_priority=any_priority)
        known = self._circumstances(record, why, may_read, highest)
        return {
            **self._item(standing, message),
            "canEverRun": why.can_ever_fit and explanation.can_ever_fit,
            "shortages": [self._shortage(why, shortage, may_read) for shortage in why.shortages],
            "ahead": [self._ahead(other, may_read) for other in why.ahead],
            "obstacles": [
                _obstacle(pod_set.name, reason, why.cluster_queue)
                for pod_set in why.obstacles
                for reason in pod_set.reasons
            ],
            "hints": [*advice.hints(why, remedies, known), *checks.last_verdict(self._workloads.get(namespace, name))],
        }

    def _item(self, standing: Standing, message: str) -> Manifest:
        record = standing.record
        workload = self._workloads.get(record.namespace, record.name)
        if standing.explanation.outcome is Outcome.BACKING_OFF:
            message = over_limit(workload) or message
        metadata = {"name": record.name, "namespace": record.namespace}
        if workload is not None:
            metadata["creationTimestamp"] = workload["metadata"]["creationTimestamp"]
        return {
            "metadata": metadata,
            "owner": owner_of(workload),
            "clusterQueue": standing.cluster_queue,
            "localQueue": record.local_queue_name,
            "position": _from_one(standing.position),
            "localPosition": _from_one(standing.local_position),
            "priority": record.priority,
            "outcome": standing.explanation.outcome.value,
            "message": message,
            "canEverRun": standing.explanation.can_ever_fit,
        }

    def _shortage(self, why: Why, shortage: Shortage, may_read: MayRead) -> Manifest:
        resource = shortage.resource
        return {
            "podSet": shortage.pod_set,
            "flavor": shortage.flavor,
            "resource": resource,
            "missing": format_amount(resource, shortage.missing),
            "requested": format_amount(resource, _requested(why, shortage)),
            "holders": [
                {
                    **self._other_workload(holder.workload, may_read),
                    "clusterQueue": holder.cluster_queue,
                    "priority": holder.priority,
                    "amount": format_amount(resource, holder.amount),
                    "evicting": holder.evicting,
                }
                for holder in shortage.holders
            ],
        }

    def _ahead(self, key: str, may_read: MayRead) -> Manifest:
        record = self._queueing.engine.record(key)
        return {**self._other_workload(key, may_read), "priority": record.priority if record is not None else 0}

    def _other_workload(self, key: str, may_read: MayRead) -> Manifest:
        """Another workload; without its name if the reader may not see it."""
        namespace, _, name = key.partition("/")
        if not may_read(namespace):
            return {"workload": None, "owner": None, "shown": _SOMEBODY}
        return {"workload": key, "owner": owner_of(self._workloads.get(namespace, name)), "shown": self._called(key)}

    def _called(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        owner = owner_of(self._workloads.get(namespace, name))
        return f"{_CALLED.get(owner['kind'], owner['kind'])} {owner['name']}" if owner else f"workload {name}"

    def _highest_priority(self, cluster_queue: str, *, may_change: bool, any_priority: bool) -> int:
        if not may_change:
            return priority_ranges.LOWEST
        if any_priority:
            return priority_ranges.HIGHEST
        return priority_ranges.of_queue(self._cluster_queues.get("", cluster_queue)).highest

    def _circumstances(
        self, record: Record, why: Why, may_read: MayRead, highest_priority: int
    ) -> advice.Circumstances:
        own = record.namespace

        def named(key: str) -> str:
            namespace = key.partition("/")[0]
            if not may_read(namespace):
                return _SOMEBODY
            return self._called(key) if namespace == own else f"{self._called(key)} of namespace {namespace}"

        owner = owner_of(self._workloads.get(own, record.name))
        job = self._jobs.get(own, owner["name"]) if owner and owner["kind"] == "ManagedJob" else None
        inactive = ""
        if why.explanation.outcome is Outcome.QUEUE_INACTIVE:
            activity = self._queueing.engine.figures.activity(why.cluster_queue)
            inactive = wording.readiness(activity).message if activity is not None else ""
        return advice.Circumstances(
            named,
            managed_job=job["metadata"]["name"] if job is not None else "",
            held=bool(job is not None and job["spec"].get("hold")),
            inactive=inactive,
            retry_at=_time(record.requeue_at),
            highest_priority=highest_priority,
        )


def _requested(why: Why, shortage: Shortage) -> int:
    return next(
        (
            reason.requested
            for pod_set in why.obstacles
            for reason in pod_set.reasons
            if (pod_set.name, reason.flavor, reason.resource) == (shortage.pod_set, shortage.flavor, shortage.resource)
        ),
        0,
    )


def _obstacle(pod_set: str, reason: Reason, cluster_queue: str) -> Manifest:
    return {
        "podSet": pod_set,
        "flavor": reason.flavor,
        "resource": reason.resource,
        "code": reason.code.value,
        "message": advice.obstacle(reason, cluster_queue),
    }


def _from_one(position: int | None) -> int | None:
    return None if position is None else position + 1


def _time(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
