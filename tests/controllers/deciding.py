"""An engine that follows the caches and whose decisions nobody writes down: for tests of those who only look at it."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.engine import Engine
from fairway.admission.figures import Figures
from fairway.admission.instructions import Instruction
from fairway.apis.kueue.manifests import decode
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster

_CHANGED: Final[dict[str, Callable[[Any, float], events.Event]]] = {
    "resourceflavors": lambda made, at: events.FlavorChanged(at=at, flavor=made),
    "clusterqueues": lambda made, at: events.QueueChanged(at=at, queue=made),
    "cohorts": lambda made, at: events.CohortChanged(at=at, cohort=made),
    "localqueues": lambda made, at: events.LocalQueueChanged(at=at, queue=made),
    "admissionchecks": lambda made, at: events.CheckChanged(at=at, check=made),
    "workloads": lambda made, at: events.WorkloadChanged(at=at, workload=made),
}

_DELETED: Final[dict[str, Callable[[str, str, float], events.Event]]] = {
    "resourceflavors": lambda _, name, at: events.FlavorDeleted(at=at, name=name),
    "clusterqueues": lambda _, name, at: events.QueueDeleted(at=at, name=name),
    "cohorts": lambda _, name, at: events.CohortDeleted(at=at, name=name),
    "localqueues": lambda namespace, name, at: events.LocalQueueDeleted(at=at, namespace=namespace, name=name),
    "admissionchecks": lambda _, name, at: events.CheckDeleted(at=at, name=name),
    "workloads": lambda namespace, name, at: events.WorkloadDeleted(at=at, key=f"{namespace}/{name}"),
}


class FollowingEngine:
    """A `Decider` that keeps what it was told and what the engine said to it.

    It hears of all that is stored when it starts to run, and may be deaf for a while, as a busy engine is.
    """

    def __init__(self, cluster: Cluster, config: Config | None = None) -> None:
        self.engine = Engine(config)
        self.told: list[events.Event] = []
        self.said: list[Instruction] = []
        self._clock = cluster.clock
        self._unheard: list[events.Event] | None = []
        for resource in _CHANGED:
            cluster.cache(resource).on_change(self._follower(resource))
        cluster.cache("namespaces").on_change(self._namespace_changed)

    async def run(self) -> None:
        self.listen()
        await asyncio.get_running_loop().create_future()

    @property
    def figures(self) -> Figures:
        return self.engine.figures

    def can_ever_fit(self, key: str) -> bool | None:
        why = self.engine.why(key)
        return None if why is None else why.can_ever_fit

    async def request_eviction(self, request: events.EvictionRequested) -> None:
        self.told.append(request)
        self._hear(request)

    def be_deaf(self) -> None:
        """Hear of nothing until `listen`."""
        self._unheard = []

    def listen(self) -> None:
        unheard, self._unheard = self._unheard or [], None
        unheard.sort(key=lambda event: isinstance(event, events.WorkloadChanged))
        self._hear(*unheard)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _hear(self, *happened: events.Event) -> None:
        if self._unheard is not None:
            self._unheard += happened
            return
        self.said += self.engine.handle(*happened)
        at = self.engine.next_wakeup
        if at is not None:
            self._clock.call_later(at - self._now(), lambda: self._hear(events.TimePassed(at=self._now())))

    def _follower(self, resource: str) -> Callable[[Manifest | None, Manifest | None], None]:
        def changed(old: Manifest | None, new: Manifest | None) -> None:
            if new is not None:
                self._hear(_CHANGED[resource](decode(new), self._now()))
            elif old is not None:
                metadata = old["metadata"]
                self._hear(_DELETED[resource](metadata.get("namespace", ""), metadata["name"], self._now()))

        return changed

    def _namespace_changed(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None:
            labels = new["metadata"].get("labels") or {}
            self._hear(events.NamespaceChanged(at=self._now(), name=new["metadata"]["name"], labels=labels))
