"""Answers the check for Workloads that have quota."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from fairway.accounting.attempts import place_of
from fairway.accounting.books import AccountBooks
from fairway.admission.instructions import EvictionReason
from fairway.apis.core.pod_requests import pod_requests
from fairway.apis.fairway.quotas import LIMITS_CHECK, parse
from fairway.apis.kueue.objects import CheckState
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import amount_of
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.protocol import Scope
from fairway.controllers.kit.status import StatusChange, WorkloadStatusChange
from fairway.controllers.kit.writes import commit
from fairway.controllers.limits import decide
from fairway.controllers.limits.decide import LimitedRequest, LimitRules, LimitVerdict
from fairway.integrations import conditions, names
from fairway.integrations.webhooks import annotations_of
from fairway.integrations.workloads import controller_of, namespaced_name
from fairway.runtime.worker import Worker

_WORKLOADS: Final = "workloads.kueue.x-k8s.io"
_CHECKS: Final = "admissionchecks.kueue.x-k8s.io"
_FIRST_RETRY_SECONDS: Final = 10
_LAST_RETRY_SECONDS: Final = 300
"""How long a Workload that is over the limit of its user waits for its next try: twice as long each time."""

_LONGEST_RETRY_SECONDS: Final = 3600
"""The same for a budget, which may be raised before the next month."""


class LimitsController:
    """Keeps the contract of the check."""

    def __init__(
        self, cluster: Cluster, books: Callable[[], AccountBooks | None], *, kueue_admits: bool = False
    ) -> None:
        """Where `kueue_admits`, a Workload with `Retry` and a time for its next try keeps its quota until that time has
        come, so it is evicted from here, and its back-off ends from here; its pods say who created its job."""
        self._clock = cluster.clock
        self._cluster = cluster
        self._kueue_admits = kueue_admits
        self._books = books
        self._writer = cluster.writer("fairway")
        self._workloads = cluster.cache(_WORKLOADS)
        self._jobs = cluster.cache("managedjobs.fairway.dev")
        self._queues = cluster.cache("localqueues.kueue.x-k8s.io")
        self._checks = cluster.cache(_CHECKS)
        self._definitions = cluster.cache("quotadefinitions.fairway.dev")
        self._rules = LimitRules()
        self._holding: dict[str, dict[Key, LimitedRequest]] = {}
        """By user, what holds quota and was judged."""

        self._users: dict[Key, str] = {}
        """Of what is in `_holding`: a job may be gone before its Workload."""

        self._worker: Worker[Key] = Worker("limits", cluster.clock, self._reconcile, parallel=1)
        self._definitions.on_change(self._definition_changed)
        self._workloads.on_change(self._workload_changed)
        self._checks.on_change(self._check_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    # What happens outside

    def _definition_changed(self, _old: Manifest | None, _new: Manifest | None) -> None:
        """Workloads that wait for their next try are judged by the new rules then."""
        parsed = (parse(one.get("spec") or {}) for one in self._definitions.items())
        self._rules = decide.rules_of(spec for spec, wrong in parsed if not wrong)

    def _check_changed(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and _is_ours(new):
            self._worker.add(("", new["metadata"]["name"]))

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        manifest = new or old or {}
        key = key_of(manifest)
        if new is not None and (self._pending_check(new) is not None or self._backs_off(new)):
            self._worker.add(key)
        if (user := self._users.pop(key, None)) is not None:
            del self._holding[user][key]
            if not self._holding[user]:
                del self._holding[user]
        if new is not None and self._counts(new):
            request = self._request(new)
            self._users[key] = request.user
            self._holding.setdefault(request.user, {})[key] = request

    # One object

    async def _reconcile(self, key: Key) -> float | None:
        if not key[0]:
            await self._activate(key[1])
            return None
        workload = self._workloads.get(*key)
        if workload is not None and self._backs_off(workload):
            return await self._end_back_off(workload)
        check = None if workload is None else self._pending_check(workload)
        if workload is None or check is None:
            return None
        if self._kueue_admits and not self._user(workload) and (user := await self._written_user(workload)):
            workload = await self._annotate(workload, names.USER, user)
        verdict = self._judge(workload)
        if annotations_of(workload).get(names.OVER_LIMIT, "") != verdict.message:
            workload = await self._annotate(workload, names.OVER_LIMIT, verdict.message)
        await self._answer(workload, check, verdict)
        return None

    async def _activate(self, name: str) -> None:
        check = self._checks.get("", name)
        if check is None or not _is_ours(check) or conditions.is_true(check, "Active"):
            return
        change = StatusChange(check, self._clock.now())
        change.set("Active", "True", "Active", "The admission check is active")
        await commit(self._writer, _CHECKS, change)

    async def _answer(self, workload: Manifest, name: str, verdict: LimitVerdict) -> None:
        change = WorkloadStatusChange(workload, self._clock.now())
        answer = change.new_check(name, CheckState.RETRY if verdict.is_over else CheckState.READY, verdict.message)
        before = next(one for one in change.get("admissionChecks") if one["name"] == name)
        if verdict.is_over:
            tries = before.get("retryCount", 0)
            seconds = min(_FIRST_RETRY_SECONDS * 2 ** min(tries, 10), _LAST_RETRY_SECONDS)
            if verdict.until:
                seconds = min(max(verdict.until - self._now(), 1), _LONGEST_RETRY_SECONDS)
            answer |= {"requeueAfterSeconds": seconds, "retryCount": tries}
        others = change.get("admissionChecks")
        change.put("admissionChecks", [answer if one["name"] == name else one for one in others])
        if verdict.is_over and self._kueue_admits:
            again = self._clock.now() + timedelta(seconds=answer["requeueAfterSeconds"])
            change.evict(EvictionReason.ADMISSION_CHECK, verdict.message, requeue_at=stamp(again))
        await commit(self._writer, _WORKLOADS, change)

    async def _end_back_off(self, workload: Manifest) -> float | None:
        """Let Kueue queue a Workload again in its time: Kueue cannot remove a time that it did not write."""
        state = workload["status"]["requeueState"]
        left = (datetime.fromisoformat(state["requeueAt"]) - self._clock.now()).total_seconds()
        if left > 0:
            return left
        change = WorkloadStatusChange(workload, self._clock.now())
        change.put("requeueState", {"requeueAt": None} if len(state) > 1 else None)
        await commit(self._writer, _WORKLOADS, change)
        return None

    async def _annotate(self, workload: Manifest, key: str, text: str) -> Manifest:
        """Write an annotation of the Workload, or remove it if the text is empty."""
        annotations = {key: text or None}
        return await self._writer.patch(_WORKLOADS, workload, {"metadata": {"annotations": annotations}}, locked=True)

    def _judge(self, workload: Manifest) -> LimitVerdict:
        asked = self._request(workload)
        return decide.judge(asked, self._holding.get(asked.user, {}).values(), self._rules, self._used, self._now())

    def _used(self, organization: str) -> float:
        books = self._books()
        return 0.0 if books is None else decide.gpu_hours(books, organization, self._now())

    def _now(self) -> int:
        return int(self._clock.now().timestamp())

    def _counts(self, workload: Manifest) -> bool:
        """Whether a Workload holds quota for good: one that is still to be judged must not stand in others' way."""
        if not _holds_quota(workload):
            return False
        entries = (workload.get("status") or {}).get("admissionChecks") or ()
        return all(one["state"] == CheckState.READY or not self._is_ours(one["name"]) for one in entries)

    def _is_ours(self, name: str) -> bool:
        stored = self._checks.get("", name)
        return stored is not None and _is_ours(stored)

    def _backs_off(self, workload: Manifest) -> bool:
        """Whether a Workload that was evicted from here waits for its next try."""
        if not self._kueue_admits or _holds_quota(workload) or not annotations_of(workload).get(names.OVER_LIMIT):
            return False
        return bool(((workload.get("status") or {}).get("requeueState") or {}).get("requeueAt"))

    def _pending_check(self, workload: Manifest) -> str | None:
        """The name of the check that waits for an answer from here."""
        if not _holds_quota(workload) or _is_evicted(workload):
            return None
        for one in (workload.get("status") or {}).get("admissionChecks") or ():
            if one["state"] == CheckState.PENDING and self._is_ours(one["name"]):
                return str(one["name"])
        return None

    def _request(self, workload: Manifest) -> LimitedRequest:
        metadata, spec = workload["metadata"], workload["spec"]
        place = place_of(workload)
        queue = self._queues.get(metadata["namespace"], spec.get("queueName", ""))
        named = "" if queue is None else queue["spec"].get("clusterQueue", "")
        amounts: dict[str, int] = {}
        for one in place.held:
            amounts[one.resource] = amounts.get(one.resource, 0) + one.amount
        return LimitedRequest(
            namespaced_name(workload),
            self._user(workload),
            metadata["namespace"],
            spec.get("queueName", ""),
            place.cluster_queue or named,
            amounts or _requested(workload),
        )

    def _user(self, workload: Manifest) -> str:
        owner = controller_of(workload)
        if owner is not None and owner["kind"] == "ManagedJob":
            job = self._jobs.get(workload["metadata"]["namespace"], owner["name"])
            return "" if job is None else str(job["spec"].get("user", ""))
        return annotations_of(workload).get(names.USER, "")

    async def _written_user(self, workload: Manifest) -> str:
        """The user that the webhook for jobs of organizations wrote on the pods, or on their template."""
        metadata = workload["metadata"]
        owners = metadata.get("ownerReferences")
        if owners and owners[0]["kind"] == "Pod":  # of which Kueue copies the spec alone
            scope = Scope(metadata["namespace"], fields=f"metadata.name={owners[0]['name']}")
            pods = (await self._cluster.list("pods", scope)).items
        else:
            pods = [one["template"] for one in workload["spec"]["podSets"]]
        found = (((pod.get("metadata") or {}).get("annotations") or {}).get(names.USER, "") for pod in pods)
        return next(filter(None, found), "")


def _requested(workload: Manifest) -> dict[str, int]:
    """What the pods of a Workload without quota ask for."""
    found: dict[str, int] = {}
    for pod_set in workload["spec"].get("podSets") or ():
        for resource, quantity in pod_requests(pod_set["template"]["spec"]).items():
            found[resource] = found.get(resource, 0) + amount_of(resource, quantity * pod_set.get("count", 1))
    return found


def _holds_quota(workload: Manifest) -> bool:
    return conditions.is_true(workload, conditions.QUOTA_RESERVED) and not conditions.is_true(
        workload, conditions.FINISHED
    )


def _is_evicted(workload: Manifest) -> bool:
    """Its checks are reset then, while it still has its quota: they are not to be answered yet."""
    return conditions.is_true(workload, conditions.EVICTED)


def _is_ours(check: Manifest) -> bool:
    return bool(check["spec"]["controllerName"] == LIMITS_CHECK)
