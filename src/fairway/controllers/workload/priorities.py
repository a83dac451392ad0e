"""WorkloadPriorityClasses whose value changes: the Workloads that refer to them get the new priority."""

import asyncio
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.errors import NotFound
from fairway.integrations import conditions
from fairway.integrations.workloads import controller_of
from fairway.runtime.worker import Worker

CLASSES: Final = "workloadpriorityclasses.kueue.x-k8s.io"
WORKLOADS: Final = "workloads.kueue.x-k8s.io"
_TOGETHER: Final = 64


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
