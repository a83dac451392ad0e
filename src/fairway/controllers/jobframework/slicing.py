"""The slices of elastic jobs: workloads that follow the size of a running job, and pods that are let go by them."""

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.jobframework.act import JobWriter, WorkloadBuilder
from fairway.controllers.kit.owners import OwnerIndex
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.errors import Conflict, NotFound
from fairway.integrations import conditions, slices
from fairway.integrations.framework import Framework
from fairway.integrations.workloads import controller_of

_MOST_AT_ONCE: Final = 32
_PATIENCE: Final = 2.0
"""Seconds for who admits a slice to end the one before it; a process that died in between did not."""


class KeptSlices(NamedTuple):
    """What became of the slices of a job."""

    follow: bool
    """Whether slices can follow the job at all: its pod sets are the same, but for their sizes."""

    workload: Manifest | None = None
    """The one that stands for the job now; `None` if one is to be made."""

    again: float | None = None
    """In how many seconds to look again."""


class SliceKeeper:
    """Keeps the slices of one job kind in step with their jobs."""

    def __init__(self, tools: JobWriter, framework: Framework, maker: WorkloadBuilder) -> None:
        self._tools = tools
        self._framework = framework
        self._maker = maker
        self.pods = tools.cluster.cache("pods")
        self._pods_of_chain = OwnerIndex(slices.chain_of, self.pods)
        self._slices_of_chain = OwnerIndex(slices.chain_of, tools.workloads)

    def jobs_of(self, pod: Manifest) -> set[str]:
        """The names of the jobs of this kind that a pod was made for, also by an operator."""
        chain = slices.chain_of(pod)
        found = () if chain is None else (controller_of(one) for one in self._slices_of_chain.of(chain))
        return {one["name"] for one in found if one is not None and one["kind"] == self._framework.kind}

    def unfinished(self, job: Manifest) -> list[Manifest]:
        """The oldest first."""
        return [
            one
            for one in self._tools.workloads_of(job["metadata"]["uid"])
            if not conditions.is_true(one, conditions.FINISHED)
        ]

    async def keep(self, job: Manifest) -> KeptSlices:
        """Bring the slices of a job in line with its size."""
        pod_sets = self._framework.pod_sets(job)
        counts = slices.counts_of(pod_sets)
        unfinished = self.unfinished(job)
        for one in unfinished:
            # Its pods run on its quota: they go first, and the slice after them.
            if conditions.is_true(one, conditions.EVICTED) and conditions.is_true(one, conditions.QUOTA_RESERVED):
                return KeptSlices(follow=True, workload=one)
        found = slices.sorted_out(unfinished)
        again = await self._end(job, found)
        selected = found.selected
        if selected is None:
            return KeptSlices(follow=True)
        held = slices.counts_of(selected["spec"]["podSets"])
        if held.keys() != counts.keys():
            return KeptSlices(follow=False)
        if held != counts:
            smaller = slices.resized(selected, counts)
            if smaller is None:
                return KeptSlices(follow=True)
            selected = await self._tools.writer.patch(WORKLOADS, selected, {"spec": {"podSets": smaller}}, locked=True)
        suspended = self._framework.is_suspended(job)
        if found.retained is not None and found.retained is not found.selected:
            await self._maker.keep_in_step(job, found.retained, suspended=False)
        selected = await self._maker.keep_in_step(job, selected, suspended=suspended)
        return KeptSlices(follow=True, workload=selected, again=again)

    async def _end(self, job: Manifest, found: slices.LiveSlices) -> float | None:
        """Finish the slices that no longer count."""
        again = None
        for ended in found.ended:
            successor = found.retained if conditions.is_true(ended.workload, conditions.QUOTA_RESERVED) else None
            left = 0.0 if successor is None else _PATIENCE - self._seconds_since_reserved(successor)
            if left > 0:
                again = left
            else:
                await self._tools.finish(ended.workload, job, ended.reason, ended.message)
        return again

    def _seconds_since_reserved(self, workload: Manifest) -> float:
        condition = conditions.find(workload, conditions.QUOTA_RESERVED)
        if condition is None:
            return _PATIENCE
        since = datetime.fromisoformat(condition["lastTransitionTime"])
        return (self._tools.clock.now() - since).total_seconds()

    def has_quota(self, job: Manifest) -> bool:
        """Whether a slice of the job has some that it is not to give back."""
        return any(
            conditions.is_true(one, conditions.QUOTA_RESERVED) and not conditions.is_true(one, conditions.EVICTED)
            for one in self.unfinished(job)
        )

    async def let_go(self, job: Manifest) -> None:
        """Open the gates of as many pods as the admitted slice has."""
        active = slices.active_slice(self.unfinished(job))
        if active is None:
            return
        chain = (active["metadata"]["namespace"], slices.slice_name(active))
        chosen = slices.released_pods(active, self._pods_of_chain.of(chain))
        for start in range(0, len(chosen), _MOST_AT_ONCE):
            await asyncio.gather(*(self._open(pod) for pod in chosen[start : start + _MOST_AT_ONCE]))

    async def _open(self, pod: Manifest) -> None:
        with suppress(Conflict, NotFound):  # the change of the pod brings its job back here
            await self._tools.writer.patch("pods", pod, slices.opened(pod), locked=True)
