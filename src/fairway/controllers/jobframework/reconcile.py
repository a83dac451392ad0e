"""One job and its workload, brought in line.

The steps are in the order in which Kueue takes them. Each of them is right whatever was done before it and whatever was
left undone, so that interrupted work continues from the objects.
"""

from typing import Any, Final

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.jobframework.act import JobWriter, WorkloadBuilder, stop
from fairway.controllers.jobframework.slicing import SliceKeeper
from fairway.controllers.kit.owners import LONGEST_CHAIN, NestedTooDeep, OwnerMissing
from fairway.controllers.kit.workloads import OUT_OF_SYNC
from fairway.integrations import conditions, equivalence, following, injection, webhooks
from fairway.integrations.framework import CanBeOnHold, CanBeSkipped, Elastic, Framework, Reclaims
from fairway.integrations.workloads import controller_of

_TOO_DEEP: Final = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {LONGEST_CHAIN}"


class Reconciler:
    """All jobs of one kind, one at a time."""

    def __init__(self, tools: JobWriter, framework: Framework) -> None:
        self._tools = tools
        self.framework = framework
        self._jobs = tools.cluster.cache(framework.resource)
        self._maker = WorkloadBuilder(tools, framework)
        self._reclaims = framework if isinstance(framework, Reclaims) else None
        self._holds = framework if isinstance(framework, CanBeOnHold) else None
        self._skips = framework if isinstance(framework, CanBeSkipped) else None
        self.slices = SliceKeeper(tools, framework, self._maker) if isinstance(framework, Elastic) else None
        self._departed: dict[str, Manifest] = {}
        """By the uid of the job, workloads that were deleted under it: the only place that knows its templates."""
        self._provided: set[str] = set()
        self._started: set[str] = set()
        """The uids of jobs whose workload is being made, and of those that are being started, by this very hand."""

    def note_departed(self, workload: Manifest) -> None:
        """A workload of this kind was deleted."""
        reference = controller_of(workload)
        if reference is None:
            return
        self._tools.forget_workload(workload["metadata"]["uid"])
        job = self._jobs.get(workload["metadata"]["namespace"], reference["name"])
        unfinished = not conditions.is_true(workload, conditions.FINISHED)
        if job is not None and job["metadata"]["uid"] == reference["uid"] and unfinished:
            self._departed[reference["uid"]] = workload

    def note_gone(self, job: Manifest) -> None:
        """A job was deleted."""
        self._departed.pop(job["metadata"]["uid"], None)

    def has_started(self, old: Manifest, new: Manifest) -> bool:
        """Whether a change of a job is that it was started here, after which there is nothing more to do for it."""
        return (
            new["metadata"]["uid"] in self._started
            and self.framework.is_suspended(old)
            and not self.framework.is_suspended(new)
        )

    def needs_no_look(self, old: Manifest | None, new: Manifest, job: Manifest) -> bool:
        """Whether a workload that came or changed is nothing new to the job that it is controlled by: it was just made
        here for the job, or both are over.
        """
        if old is None:
            return job["uid"] in self._provided
        if not conditions.is_true(new, conditions.FINISHED):
            return False
        known = self._jobs.get(new["metadata"]["namespace"], job["name"])
        return known is not None and self.framework.finished(known) is not None and self._is_settled(known)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        """Bring a job and its workload in line; in how many seconds to look again, if at all."""
        job = self._jobs.get(namespace, name)
        if job is None or "deletionTimestamp" in job["metadata"] or not self._is_selected(namespace):
            return None
        if self._skips is not None and self._skips.is_skipped(job):
            return None
        try:
            ancestor = self._tools.owners.ancestor(job)
        except NestedTooDeep:
            self._tools.recorder.warning(job, "JobNestingTooDeep", _TOO_DEEP)
            return None
        except OwnerMissing:
            return None  # the collector takes the job away
        if ancestor is not None:
            await self._follow(job, ancestor)
            return None
        if not webhooks.queue_name(job) and not self._tools.configuration.value.manage_jobs_without_queue_name:
            return None
        return await self._queue(job)

    def _is_selected(self, namespace: str) -> bool:
        """Whether jobs of this kind in a namespace are the queue's business."""
        configuration = self._tools.configuration.value
        found = self._tools.namespaces.get("", namespace)
        return (
            found is not None
            and self.framework.name in configuration.frameworks
            and configuration.namespace_selector.matches(found["metadata"].get("labels") or {})
        )

    async def _follow(self, job: Manifest, ancestor: Manifest) -> None:
        """A job of a job runs only while the workload of the uppermost one is admitted."""
        if self.framework.finished(job) is not None or self.framework.is_suspended(job):
            return
        waiting = [
            workload
            for workload in self._tools.workloads_of(ancestor["metadata"]["uid"])
            if not conditions.is_true(workload, conditions.FINISHED)
        ]
        if waiting and conditions.is_true(waiting[-1], conditions.ADMITTED):
            return
        await self._tools.writer.patch(self.framework.resource, job, self.framework.suspension(), locked=True)
        self._tools.recorder.normal(job, "Suspended", "Kueue managed child job suspended")

    async def _queue(self, job: Manifest) -> float | None:
        """A job of its own."""
        end = self.framework.finished(job)
        if end is not None and self._is_settled(job):
            return None
        prebuilt = webhooks.prebuilt_workload(job)
        elastic = self.slices if webhooks.is_elastic(job) and not prebuilt else None
        kept = None if elastic is None else await elastic.keep(job)
        if kept is None or not kept.follow:
            elastic = None
            go_on, workload = await (self._prebuilt(job, prebuilt) if prebuilt else self._one_workload(job))
        else:
            go_on, workload = True, kept.workload
        if not go_on or (workload is not None and conditions.is_true(workload, conditions.FINISHED)):
            return None
        if workload is not None and "deletionTimestamp" in workload["metadata"]:
            await self._stop(job, workload, "Workload is deleted")
            return None
        if self._holds is not None and self._holds.is_on_hold(job):
            await self._hold(workload)
            return None
        if end is not None:
            if workload is not None:
                await self._tools.finish(workload, job, "Succeeded" if end[0] else "Failed", end[1])
            return None
        if workload is None:
            await self._do_without(job, prebuilt, elastic)
            return None
        workload, again = await self._report(job, workload)
        evicted = conditions.find(workload, conditions.EVICTED)
        if evicted is not None and evicted["status"] == "True":
            return await self._evict(job, workload, evicted)
        await self._run_or_wait(job, workload, elastic)
        return again if kept is None or kept.again is None else kept.again

    async def _run_or_wait(self, job: Manifest, workload: Manifest, elastic: SliceKeeper | None) -> None:
        """A job runs while its workload is admitted; an elastic one while any slice of it has quota."""
        admitted = conditions.is_true(workload, conditions.ADMITTED)
        if not self.framework.is_suspended(job):
            if elastic is not None and elastic.has_quota(job):
                await elastic.let_go(job)
            elif not admitted:
                await self._stop(job, workload, "Not admitted by cluster queue")
        elif admitted:
            await self._start(job, workload)
        elif conditions.is_true(workload, conditions.QUOTA_RESERVED):
            self._tools.emit_check_events(workload, [job])

    def _is_settled(self, job: Manifest) -> bool:
        """Whether a finished job has a workload that says so."""
        workloads = self._tools.workloads_of(job["metadata"]["uid"])
        return bool(workloads) and all(conditions.is_true(one, conditions.FINISHED) for one in workloads)

    # The workload of a job

    async def _one_workload(self, job: Manifest) -> tuple[bool, Manifest | None]:
        """The one workload that matches a job; first whether to continue with it now."""
        framework = self.framework
        suspended = framework.is_suspended(job)
        match, others = None, []
        for workload in self._tools.workloads_of(job["metadata"]["uid"]):
            if match is None and self._matches(job, workload, suspended=suspended):
                match = workload
            else:
                others.append(workload)
        if match is None and not suspended and framework.finished(job) is None:
            if not await self._stop_unmatched(job, others) or not others:
                return False, None
        elif match is None and others and not conditions.is_true(others[0], conditions.QUOTA_RESERVED) and suspended:
            await self._delete(job, others[1:])
            return True, await self._maker.update(job, others[0])
        if others:
            await self._delete(job, others)
            return False, None
        if match is not None:
            match = await self._maker.keep_in_step(job, match, suspended=suspended)
        return True, match

    def _matches(self, job: Manifest, workload: Manifest, *, suspended: bool) -> bool:
        """Whether a workload stands for a job."""
        pod_sets = self.framework.pod_sets(job)
        return equivalence.is_equivalent(job, pod_sets, workload, self._tools.flavor, suspended=suspended)

    async def _stop_unmatched(self, job: Manifest, others: list[Manifest]) -> bool:
        """Stop a job that runs without a workload that stands for it."""
        departed = self._departed.get(job["metadata"]["uid"])
        if len(others) == 1:
            why = "No matching Workload; restoring pod templates according to existent Workload"
            return await self._stop(job, others[0], why)
        if departed is not None and not others:
            return await self._stop(job, departed, "Workload is deleted")
        return await self._stop(job, None, "Missing Workload; unable to restore pod templates")

    async def _delete(self, job: Manifest, workloads: list[Manifest]) -> None:
        for workload in workloads:
            if "deletionTimestamp" in workload["metadata"]:
                continue
            await self._tools.delete(workload, job)

    async def _prebuilt(self, job: Manifest, name: str) -> tuple[bool, Manifest | None]:
        """The workload that was made beforehand for a job, if it can be used."""
        workload = self._tools.workloads.get(job["metadata"]["namespace"], name)
        if workload is None:
            return True, None
        reference = controller_of(workload)
        if reference is not None and reference["uid"] != job["metadata"]["uid"]:
            return True, None
        if reference is None:
            workload = await self._tools.take_over(workload, job)
        if self._matches(job, workload, suspended=self.framework.is_suspended(job)):
            return True, workload
        if not conditions.is_true(workload, conditions.FINISHED):
            change = self._tools.change(workload)
            change.finish(*OUT_OF_SYNC)
            await self._tools.commit(change)
        return True, None

    async def _do_without(self, job: Manifest, prebuilt: str, elastic: SliceKeeper | None) -> None:
        """There is no workload: make one, once nothing of the job runs any more; or a slice for one that has grown."""
        others = None if elastic is None else elastic.unfinished(job)
        if prebuilt:
            await self._stop(job, None, "missing workload")
        elif others is not None and not others and not self.framework.is_suspended(job):
            await self._stop(job, None, "Missing Workload; unable to restore pod templates")
        elif others or not self.framework.is_active(job):
            uid = job["metadata"]["uid"]
            self._provided.add(uid)
            try:
                await self._maker.create(job, others)
            finally:
                self._provided.discard(uid)
            self._departed.pop(uid, None)

    # The status of a running job

    async def _report(self, job: Manifest, workload: Manifest) -> tuple[Manifest, float | None]:
        """Write what changed about the pods of a job, all in one; and when to look again."""
        change = self._tools.change(workload)
        reclaimable = self._reclaimable(job, workload)
        if reclaimable is not None:
            change.put("reclaimablePods", reclaimable)
        waiting = self._tools.configuration.value.wait_for_pods_ready
        wanted, again = self._tools.readiness.due(workload, waiting, ready=self.framework.pods_ready(job))
        if wanted is not None:
            change.set(conditions.PODS_READY, *wanted)
        return await self._tools.commit(change), again

    def _reclaimable(self, job: Manifest, workload: Manifest) -> list[Manifest] | None:
        """The pods whose quota is free again, if they are others than before."""
        if self._reclaims is None:
            return None
        counts = self._reclaims.reclaimable_pods(job)
        held = {one["name"]: one["count"] for one in workload.get("status", {}).get("reclaimablePods") or ()}
        sizes = {one["name"]: one["count"] for one in workload["spec"]["podSets"]}
        counts = {name: min(count, sizes.get(name, 0)) for name, count in counts.items()}
        if counts == held:
            return None
        return [{"name": name, "count": count} for name, count in counts.items()]

    # Start, stop, end

    async def _start(self, job: Manifest, workload: Manifest) -> None:
        try:
            patch = self.framework.start(job, injection.infos_of(workload, self._tools.flavor))
        except injection.InjectionConflict as conflict:
            await self._tools.finish(workload, job, "FailedToStart", str(conflict))
            return
        uid = job["metadata"]["uid"]
        self._started.add(uid)
        try:
            await self._tools.writer.patch(self.framework.resource, job, patch, locked=True)
        finally:
            self._started.discard(uid)
        queue = workload["status"]["admission"]["clusterQueue"]
        self._tools.recorder.normal(job, "Started", f"Admitted by clusterQueue {queue}")

    async def _stop(self, job: Manifest, workload: Manifest | None, why: str) -> bool:
        return await stop(self._tools, self.framework, job, workload, why)

    async def _evict(self, job: Manifest, workload: Manifest, evicted: dict[str, Any]) -> float | None:
        """Stop a job that has to go, then give back its quota."""
        if not await self._stop(job, workload, evicted["message"]):
            return None
        current = self._jobs.get(*key_of(job))
        if current is None:
            return None
        if conditions.is_true(workload, conditions.QUOTA_RESERVED):
            if self.framework.is_active(current):
                return None
            change = self._tools.change(workload)
            change.release()
            workload = await self._tools.commit(change)
        return await self._drop_deactivated(current, workload)

    async def _drop_deactivated(self, job: Manifest, workload: Manifest) -> float | None:
        """Delete a job that the queue itself gave up, once it was kept for as long as is configured."""
        kept = self._tools.configuration.value.deactivated_retention_seconds
        left = following.seconds_to_expiry(workload, kept, self._tools.clock.now())
        if left is None or left > 0:
            return left
        await self._tools.writer.delete(self.framework.resource, job, propagation="Background")
        self._tools.recorder.normal(job, "Deleted", "Deleted job: deactivation retention period expired")
        return None

    async def _hold(self, workload: Manifest | None) -> None:
        """A job that does not want to run needs no quota."""
        if workload is not None and conditions.is_true(workload, conditions.QUOTA_RESERVED):
            change = self._tools.change(workload)
            change.unreserve("OnHold", "Job is on hold")
            await self._tools.commit(change)
