"""The port to the decider: the interface of everything outside the engine to the admission decisions.

Three implementations, chosen by wiring: the engine in this process, the engine in another process, and what the stored
objects say (where Kueue decides, or the engine runs elsewhere). `Decider` is for controllers and answers from memory;
`WaitingExplainer` is for the API and may have to ask another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from fairway.admission.events import EvictionRequested
from fairway.admission.figures import Activity, ClusterQueueFigures, CohortFigures, LocalQueueFigures
from fairway.admission.quota import Quota
from fairway.admission.resources import FlavorResource
from fairway.admission.world import Attempts
from fairway.apis.machinery.kind import Manifest


class AdmittedBy(StrEnum):
    """Who admits the Workloads of jobs."""

    FAIRWAY = "fairway"
    """The engine."""

    KUEUE = "kueue"
    """The Kueue of the cluster."""

    NONE = "none"
    """Neither: there are no Workloads, and pods are created at once."""


class PendingWorkload(Protocol):
    """A workload in a queue."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def local_queue_name(self) -> str: ...
    @property
    def priority(self) -> int: ...


class QueueFigures(Protocol):
    """The numbers of each queue. `None` means that the decider does not have the queue yet."""

    @property
    def attempts(self) -> Attempts | None:
        """How many scheduling cycles there were; `None` where the decider is elsewhere."""

    def activity(self, name: str) -> Activity | None:
        """Why a ClusterQueue admits nothing."""

    def cluster_queue(self, name: str) -> ClusterQueueFigures | None: ...

    def local_queue(self, key: str) -> LocalQueueFigures | None: ...

    def cohort(self, name: str) -> CohortFigures | None: ...

    def cohorts(self) -> list[CohortFigures]: ...

    def cohorts_above(self, name: str) -> tuple[str, ...]:
        """The cohorts above a ClusterQueue, from its parent to the root."""

    def holders(self, name: str) -> int:
        """How many workloads hold quota of a ClusterQueue."""

    def quotas(self, name: str) -> Mapping[FlavorResource, Quota]:
        """The quota of a ClusterQueue by flavor and resource."""

    def demanded(self, name: str) -> dict[str, int]:
        """The sum of the requests of all pending workloads, by resource."""

    def waiting_by_local_queue(self, name: str) -> dict[str, tuple[int, int]]:
        """Pending workloads of each LocalQueue of a ClusterQueue: active and inadmissible."""

    def recent_usage(self, key: str) -> float | None:
        """The usage that admission fair sharing orders LocalQueues by, where it is configured."""


class Decider(Protocol):
    """The decider, as controllers see it."""

    @property
    def figures(self) -> QueueFigures:
        """Valid until the next await: the engine is replaced when its configuration changes."""

    def can_ever_fit(self, key: str) -> bool | None:
        """Whether a pending workload could ever get quota; `None` if that is not known."""

    async def request_eviction(self, request: EvictionRequested) -> None:
        """Have a workload evicted. The caller repeats the request until the eviction shows on the Workload."""


class WaitingPage(NamedTuple):
    """A part of the list of everyone who waits."""

    items: list[Manifest]
    has_more: bool = False
    """Whether others follow."""


class WaitingExplainer(Protocol):
    """The decider, as the API sees it: who waits, in which order, and why."""

    async def pending(self, cluster_queue: str) -> Sequence[PendingWorkload] | None:
        """The pending workloads of a ClusterQueue, in order; `None` if the order is not known."""

    async def page(self, namespace: str = "", first: int = 0, limit: int | None = None) -> WaitingPage:
        """One `waitingjobs` item for each who waits in a namespace, or anywhere: so many, from the `first` on."""

    async def one(
        self, namespace: str, name: str, may_read: Callable[[str], bool], *, may_change: bool, any_priority: bool
    ) -> Manifest | None:
        """The whole explanation of one workload; `None` if it does not wait.

        Workloads of namespaces that the user may not read are not named. Another priority is advised only to a user who
        may set it: `may_change` it at all, and to `any_priority`.
        """


@runtime_checkable
class Forecasting(WaitingExplainer, Protocol):
    """A `WaitingExplainer` whose items have the expected start (`expectedStart`) of everyone who waits."""

    def forecast(self) -> Manifest:
        """When it was worked out, for how many, and how far earlier ones were off."""


class Simulator(Protocol):
    """Plays the live state with changes."""

    async def compare(self, spec: Manifest) -> Manifest:
        """The `status` of a Simulation with this `spec`: with and without its changes."""
