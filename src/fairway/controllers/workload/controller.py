"""Carries out what is due for Workloads, when it is due: one timer a Workload, none where time brings nothing."""

import asyncio
from typing import Any, Final

from fairway.admission import wording
from fairway.admission.events import EvictionRequested
from fairway.admission.instructions import RequeueReason
from fairway.admission.port import Decider
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.metadata import IN_USE_FINALIZER
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.kit.writes import commit, remove_finalizer
from fairway.controllers.workload.decide import (
    NOTHING,
    Delete,
    EndBackoff,
    Finish,
    Later,
    LetGo,
    LifecycleCase,
    Outcome,
    RequestEviction,
    at_a_glance,
    decide,
)
from fairway.errors import NotFound
from fairway.integrations import conditions
from fairway.integrations.workloads import controller_of, namespaced_name
from fairway.runtime.worker import Worker

CLASSES: Final = "workloadpriorityclasses.kueue.x-k8s.io"
_TOGETHER: Final = 64

_UNTIL_EVICTED_SECONDS: Final = 5.0
"""When to request an eviction again that is not visible: another write may have undone it."""

Key = tuple[str, str]


class PriorityClasses:
    """Follows the classes; a Workload whose priority was set by hand keeps it until its class changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._writer = cluster.writer("fairway-lifecycle")
        self._classes = cluster.cache(CLASSES)
        self._workloads = cluster.cache(WORKLOADS)
        self._worker: Worker[str] = Worker("priority classes", cluster.clock, self._reconcile, parallel=1)
        self._classes.on_change(self._changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and (old is None or old["value"] != new["value"]):
            self._worker.add(new["metadata"]["name"])

    async def _reconcile(self, name: str) -> None:
        found = self._classes.get("", name)
        if found is None:
            return
        value = found["value"]
        behind = [workload for workload in self._workloads.items() if _is_behind(workload, name, value)]
        for start in range(0, len(behind), _TOGETHER):
            await self._follow(behind[start : start + _TOGETHER], value)

    async def _follow(self, workloads: list[Manifest], value: int) -> None:
        patch = {"spec": {"priority": value}}
        ended: list[Any] = await asyncio.gather(
            *(self._writer.patch(WORKLOADS, workload, patch) for workload in workloads), return_exceptions=True
        )
        for one in ended:
            if isinstance(one, BaseException) and not isinstance(one, NotFound):
                raise one  # the others are written; those that are left behind are tried again


def _is_behind(workload: Manifest, name: str, value: int) -> bool:
    """Finished workloads keep the priority that they ran with; those of managed jobs follow their job, which may have a
    number beside its class.
    """
    spec, owner = workload["spec"], controller_of(workload)
    by_class = spec.get("priorityClassRef") or {}
    return (
        by_class.get("name") == name
        and by_class.get("kind") == "WorkloadPriorityClass"
        and spec.get("priority") != value
        and not conditions.is_true(workload, conditions.FINISHED)
        and (owner is None or owner["kind"] != "ManagedJob")
    )


class WorkloadLifecycle:
    """Watches over all Workloads."""

    def __init__(
        self, cluster: Cluster, decider: Decider, configuration: ConfigurationSource, recorder: Recorder
    ) -> None:
        self._clock = cluster.clock
        self._decider = decider
        self._configuration = configuration
        self._recorder = recorder
        self._writer = cluster.writer("fairway-lifecycle")
        self._worker: Worker[Key] = Worker("workload lifecycle", self._clock, self._reconcile, parallel=8)
        self._priorities = PriorityClasses(cluster)
        self._workloads = cluster.cache(WORKLOADS)
        self._workloads.on_change(self._changed)
        configuration.on_change(lambda _: self._look_at_all())

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._priorities.run())

    def _changed(self, _old: Manifest | None, new: Manifest | None) -> None:
        """Most changes bring nothing to do, so that is found out here and now."""
        if new is None:
            return
        found = at_a_glance(new, self._clock.now, self._configuration.value) or self._due(new)
        if found is NOTHING:
            return
        key = key_of(new)
        if not isinstance(found, Later):
            self._worker.add(key)
        elif found.seconds is not None:
            self._worker.add_after(key, found.seconds)

    def _look_at_all(self) -> None:
        for workload in self._workloads.items():
            self._changed(None, workload)

    def _due(self, workload: Manifest) -> Outcome:
        return decide(LifecycleCase(workload, self._clock.now(), self._configuration.value))

    async def _reconcile(self, key: Key) -> float | None:
        workload = self._workloads.get(*key)
        if workload is None:
            return None
        match self._due(workload):
            case Later(seconds=seconds):
                return seconds
            case Finish() as end:
                await self._finish(workload, end)
            case LetGo():
                await remove_finalizer(self._writer, WORKLOADS, workload, IN_USE_FINALIZER)
            case EndBackoff():
                await self._end_backoff(workload)
            case Delete(message=message):
                await self._delete(workload, message)
            case RequestEviction() as request:
                await self._request(workload, request)
                return _UNTIL_EVICTED_SECONDS
        return None

    async def _finish(self, workload: Manifest, end: Finish) -> None:
        change = WorkloadStatusChange(workload, self._clock.now())
        change.finish(end.reason, end.message)
        await commit(self._writer, WORKLOADS, change)

    async def _end_backoff(self, workload: Manifest) -> None:
        change = WorkloadStatusChange(workload, self._clock.now())
        change.end_backoff()
        over = RequeueReason.BACKOFF_FINISHED
        change.set(conditions.REQUEUED, "True", over, wording.requeue(over))
        await commit(self._writer, WORKLOADS, change)

    async def _delete(self, workload: Manifest, message: str) -> None:
        workload = await remove_finalizer(self._writer, WORKLOADS, workload, IN_USE_FINALIZER)
        await self._writer.delete(WORKLOADS, workload)
        self._recorder.normal(workload, "Deleted", message)

    async def _request(self, workload: Manifest, request: RequestEviction) -> None:
        if request.warning is not None:
            self._recorder.warning(workload, *request.warning)
        await self._decider.request_eviction(
            EvictionRequested(
                at=self._clock.now().timestamp(),
                key=namespaced_name(workload),
                reason=request.reason,
                cause=request.cause,
                message=request.message,
            )
        )
