"""Carries out what is decided about jobs.

Pods are made in parallel, so that they share a commit. No memory of pods that are on their way is needed, as the
controller of Kubernetes has it: what a write answers is in the cache before the write returns, so the next decision
sees it, and after a restart all pods are listed before the first decision is made. A pod that was stored is therefore
never made again, whenever the process ends.

A pod is created with its node if the scheduler has one for it at once (`PodPlacer`), else without.

A status that only says how far a job has come waits a moment for more to come, so that a job that ends within that
moment is written once. One that others act on does not wait.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fairway.apis.machinery.conditions import is_true_in
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.selectors import LabelSelector
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob import statuses
from fairway.controllers.batchjob.decide import MOST_AT_ONCE, NewPod, Plan, decide, is_at_rest, pod_of
from fairway.controllers.batchjob.ledgers import NOTHING_YET, Ledger, opened
from fairway.controllers.batchjob.observe import JobSpec, is_ours, ttl_seconds
from fairway.controllers.kit.owners import OwnerIndex, have_same_owners
from fairway.controllers.kit.status import differs
from fairway.errors import ApiError, Conflict, FairwayError, ValidationError
from fairway.integrations import conditions
from fairway.integrations.workloads import owner_reference
from fairway.runtime.worker import Worker

STATUS_WAITS_SECONDS: Final = 0.1
"""How long a status with progress only may be delayed."""

_SOONEST_SECONDS: Final = 0.001
"""No timer is set for less: a clock may not be able to tell such a moment from now."""

_PARALLEL: Final = 64

T = TypeVar("T")


class PodPlacer(Protocol):
    """Reserves nodes for pods."""

    def reserve(self, owner: str, pod: Manifest) -> str | None:
        """The node for a pod that is about to be made for this owner, if it would get one at once."""

    def settle(self, owner: str, node: str, pod: Manifest | None) -> None:
        """To be called once for each node that was given so, with the pod; `None` if it was not made."""


class JobController:
    """Makes the pods of all jobs and keeps their status."""

    def __init__(self, cluster: Cluster, recorder: Recorder, places: PodPlacer | None = None) -> None:
        """Without `places`, pods are made without nodes."""
        self._clock = cluster.clock
        self._recorder = recorder
        self._places = places
        self._writer = cluster.writer("job-controller")
        self._jobs = cluster.cache("jobs.batch")
        self._pods = cluster.cache("pods")
        self._worker: Worker[Key] = Worker("job", cluster.clock, self._reconcile, parallel=_PARALLEL)
        self._owned = OwnerIndex(facts.owner_uid)
        self._orphans = OwnerIndex(facts.orphan_of)
        self._ledgers: dict[str, Ledger] = {}
        self._waiting_since: dict[str, float] = {}
        """Jobs whose status is behind, by UID, and since when."""

        self._refused: set[str] = set()
        """Jobs whose last pod could not be made: the next one is tried alone."""

        self._making: set[str] = set()
        """Jobs whose pods are being made just now, by UID; they are looked at again when that is done."""

        self._choosing: dict[Key, str] = {}
        """Jobs that choose their pods by a selector of their own, and their UIDs."""

        self._jobs.on_change(self._on_job_change)
        self._pods.on_change(self._on_pod_change)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._jobs.synced.wait()
        await self._pods.synced.wait()
        await self._worker.run()

    def _on_job_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            if old is not None:
                self._forget(old)
            return
        if statuses.is_over(new.get("status") or {}):
            self._forget(new)
            if ttl_seconds(new) is None:
                self._worker.withdraw(key_of(new))
                return
        elif new["spec"].get("manualSelector"):
            self._choosing[key_of(new)] = new["metadata"]["uid"]
        elif old is None and is_at_rest(new) and new["metadata"]["uid"] not in self._owned:
            return  # as nearly every job that is queued comes to be
        if old is None or differs(old, new):
            self._worker.add(key_of(new))

    def _on_pod_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None and old is not None:
            self._note_departure(old)
        self._owned.note(old, new)
        self._orphans.note(old, new)
        pod = new or old
        if pod is None or (new is not None and not self._matters(old, new)):
            return
        owned = (pod,) if have_same_owners(old, new) else (old, new)
        for key in {facts.owner_key(one) for one in owned if one is not None}:
            if key is not None:
                self._worker.add(key)
        if self._choosing and facts.orphan_of(pod) is not None:
            for choosing in self._choosing:
                if choosing[0] == pod["metadata"].get("namespace", ""):
                    self._worker.add(choosing)

    def _matters(self, old: Manifest | None, new: Manifest) -> bool:
        """Whether a pod that came or changed can matter to its job."""
        if old is None:
            return facts.owner_uid(new) not in self._making
        if facts.is_active(old) and facts.is_active(new) and facts.owner_uid(new) in self._waiting_since:
            return False  # the status is about to be written anyway, and will say it
        return _says_something_else(old, new)

    def _note_departure(self, pod: Manifest) -> None:
        key, owner = facts.owner_key(pod), facts.owner_uid(pod)
        job = self._jobs.get(*key) if key is not None else None
        if owner is None or job is None or job["metadata"]["uid"] != owner:
            return
        if not statuses.is_over(job.get("status") or {}):
            self._ledgers[owner] = self._ledger(job).without(pod)

    def _forget(self, job: Manifest) -> None:
        uid = job["metadata"]["uid"]
        self._ledgers.pop(uid, None)
        self._waiting_since.pop(uid, None)
        self._refused.discard(uid)
        if self._choosing.get(key_of(job)) == uid:
            del self._choosing[key_of(job)]

    def _ledger(self, job: Manifest) -> Ledger:
        uid = job["metadata"]["uid"]
        ledger = self._ledgers.get(uid)
        if ledger is None:
            ledger = self._ledgers[uid] = self._opened(job)
        return ledger

    def _opened(self, job: Manifest) -> Ledger:
        pods, status = self._owned.of(job["metadata"]["uid"]), job.get("status") or {}
        if not pods:
            return NOTHING_YET
        return opened(JobSpec.of(job), status, pods, failing=is_true_in(status, statuses.FAILURE))

    async def _reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(*key)
        if job is None:
            return None
        if statuses.is_over(job.get("status") or {}):
            return await self._expired(job)
        if not is_ours(job):
            return None
        if key in self._choosing:
            await self._adopt(job)
        again = await self._converge(job)
        return None if again is None else max(again, _SOONEST_SECONDS)

    async def _converge(self, job: Manifest) -> float | None:
        key, uid = key_of(job), job["metadata"]["uid"]
        current: Manifest | None = job
        while current is not None and current["metadata"]["uid"] == uid:
            pods, ledger = self._owned.of(uid), self._ledger(current)
            plan = decide(current, pods, ledger, self._clock.now())
            made_all = await self._create(current, plan.create)
            if made_all and not pods and not ledger.departed:
                # Nothing is left to be done, and the status, which says less than there is now, is in no hurry.
                self._waiting_since.setdefault(uid, self._clock.monotonic())
                return STATUS_WAITS_SECONDS
            again = await self._write_plan_status(current, plan)
            await self._delete(current, plan)
            if plan.is_last:
                return again
            current = self._jobs.get(*key)
        return None

    async def _create(self, job: Manifest, new: Sequence[NewPod]) -> bool:
        """Make these pods; whether there were any, and no more are wanted."""
        if not new:
            return False
        uid = job["metadata"]["uid"]
        tried = new[:1] if uid in self._refused else new
        self._making.add(uid)
        try:
            made = await _all_of([self._made(job, one) for one in tried])
        finally:
            self._making.discard(uid)
        self._refused.discard(uid)
        failure: BaseException | None = None
        for pod in made:
            if isinstance(pod, BaseException):
                failure = failure or pod
            else:
                self._recorder.normal(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        if failure is not None:
            if isinstance(failure, FairwayError):
                self._refused.add(uid)
                self._recorder.warning(job, "FailedCreate", f"Error creating: {failure}")
            raise failure
        return len(tried) == len(new) < MOST_AT_ONCE

    async def _made(self, job: Manifest, new: NewPod) -> Manifest:
        """One pod, with its node if there is one for it; its template was held against the schema with the job."""
        pod, uid = pod_of(job, new), job["metadata"]["uid"]
        node = None if self._places is None else self._places.reserve(uid, pod)
        if self._places is None or node is None:
            return await self._writer.create("pods", pod, trusted=True)
        pod["spec"]["nodeName"] = node
        made: Manifest | None = None
        try:
            made = await self._writer.create("pods", pod, trusted=True)
        except ValidationError:
            pass  # it may have got a gate on its way, which none may have who has a node
        finally:
            self._places.settle(uid, node, made)
        return await self._writer.create("pods", pod_of(job, new), trusted=True) if made is None else made

    async def _delete(self, job: Manifest, plan: Plan) -> None:
        """Delete pods, as they were seen: one that has ended since must be counted first."""
        if not plan.delete:
            return
        uid = job["metadata"]["uid"]
        if plan.excuses:
            self._ledgers[uid] = self._ledger(job).excusing(facts.uid(pod) for pod in plan.delete)
        gone = await _all_of([self._writer.delete("pods", pod, locked=True) for pod in plan.delete])
        for pod, result in zip(plan.delete, gone, strict=True):
            if result is None:
                self._recorder.normal(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
            elif isinstance(result, ApiError) and not isinstance(result, Conflict):
                self._recorder.warning(job, "FailedDelete", f"Error deleting: {result}")
        failure = next((result for result in gone if result is not None), None)
        if failure is not None:
            raise failure

    async def _write_plan_status(self, job: Manifest, plan: Plan) -> float | None:
        """Write the status, unless it may wait; when to look again."""
        uid = job["metadata"]["uid"]
        if plan.status is None or plan.settlement is None:
            self._waiting_since.pop(uid, None)
            return plan.again_seconds
        waited = self._clock.monotonic() - self._waiting_since.setdefault(uid, self._clock.monotonic())
        if not plan.urgent and waited < STATUS_WAITS_SECONDS:
            left = STATUS_WAITS_SECONDS - waited
            return left if plan.again_seconds is None else min(left, plan.again_seconds)
        change = statuses.patch(job.get("status") or {}, plan.status)
        ledger_before = self._ledger(job)
        written = await self._writer.patch("jobs.batch", job, {"status": change}, subresource="status", locked=True)
        self._waiting_since.pop(uid, None)
        if not statuses.is_over(written.get("status") or {}):
            self._ledgers[uid] = self._ledgers.get(uid, ledger_before).settled(plan.settlement)
        for notice in plan.notices:
            tell = self._recorder.warning if notice.warning else self._recorder.normal
            tell(written, notice.reason, notice.message)
        return plan.again_seconds

    async def _adopt(self, job: Manifest) -> None:
        """Adopt pods without a controller that match the job's selector."""
        metadata, selector = job["metadata"], _selector(job)
        if "deletionTimestamp" in metadata:
            return
        for pod in self._orphans.of(metadata.get("namespace", "")):
            if not facts.is_deleted(pod) and selector.matches(pod["metadata"].get("labels") or {}):
                owners = [*(pod["metadata"].get("ownerReferences") or ()), owner_reference(job)]
                await self._writer.patch("pods", pod, {"metadata": {"ownerReferences": owners}}, locked=True)

    async def _expired(self, job: Manifest) -> float | None:
        """Delete a job that has been over for as long as it is to be kept."""
        ttl, ended = ttl_seconds(job), statuses.finished_at(job.get("status") or {})
        if ttl is None or ended is None or "deletionTimestamp" in job["metadata"]:
            return None
        left = ttl - (self._clock.now() - ended).total_seconds()
        if left > 0:
            return max(left, _SOONEST_SECONDS)
        await self._writer.delete("jobs.batch", job, propagation="Background")
        return None


async def _all_of(writes: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """What comes of writes that are begun together; a single one, as most jobs have, needs no task of its own."""
    if len(writes) > 1:
        return await asyncio.gather(*writes, return_exceptions=True)
    try:
        return [await write for write in writes]
    except Exception as error:  # noqa: BLE001 - returned to the caller, as `gather` does
        return [error]


def _selector(job: Manifest) -> LabelSelector:
    return msgspec.convert(job["spec"]["selector"], LabelSelector)


def _says_something_else(old: Manifest, new: Manifest) -> bool:
    return bool(
        facts.phase(old) != facts.phase(new)
        or facts.is_deleted(old) != facts.is_deleted(new)
        or facts.is_ready(old) != facts.is_ready(new)
        or (facts.is_ended(new) and conditions.of(old) != conditions.of(new))
        or facts.restarts(old) != facts.restarts(new)
        or old["metadata"].get("ownerReferences") != new["metadata"].get("ownerReferences")
        or old["metadata"].get("labels") != new["metadata"].get("labels")
    )
