"""The numbers of a queue for its status and metrics.

Nothing here changes anything or takes longer with workloads of other queues: what runs is summed over the holders of
the queue that is asked about, who waits is counted where they wait. Amounts are in the unit that quota is counted in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from fairway.admission.clusterqueues import FlavorGroup, QueueState
from fairway.admission.quota import CohortNode, Node, Quota
from fairway.admission.records import Record, Stage, total_requests
from fairway.admission.resources import FlavorResource
from fairway.admission.shares import DominantShare, share_of
from fairway.admission.world import Attempts, World
from fairway.apis.kueue.objects import StopPolicy


class Amount(Struct, frozen=True, gc=False):
    """How much of one resource of a flavor, and how much of that is beyond the queue's own quota."""

    resource: str
    total: int
    borrowed: int = 0


class FlavorAmounts(Struct, frozen=True, gc=False):
    """One flavor, its resources by name."""

    flavor: str
    amounts: tuple[Amount, ...]


class Activity(Struct, frozen=True, gc=False, kw_only=True):
    """Why a ClusterQueue admits nothing, as its status says it.

    One whose cohort is its own ancestor admits nothing either, which Kueue tells the workloads but not the status.
    """

    terminating: bool = False
    stopped: bool = False
    missing_flavors: tuple[str, ...] = ()
    missing_checks: tuple[str, ...] = ()
    inactive_checks: tuple[str, ...] = ()
    missing_topologies: tuple[tuple[str, str], ...] = ()
    """Flavors with a topology that does not exist, and its name."""


ACTIVE = Activity()


class Holdings(Struct, frozen=True, gc=False, kw_only=True):
    """Who holds quota and how much: all that have it reserved, and those of them that are admitted."""

    reserving: int = 0
    admitted: int = 0
    reservation: tuple[FlavorAmounts, ...] = ()
    usage: tuple[FlavorAmounts, ...] = ()


class ClusterQueueFigures(Struct, frozen=True, gc=False, kw_only=True):
    """``queued`` may be tried, ``set_aside`` wait for something to change; ``cohorts`` leads from the parent to the
    root.
    """

    activity: Activity
    queued: int
    set_aside: int
    holdings: Holdings
    share: DominantShare
    cohorts: tuple[str, ...]

    @property
    def pending(self) -> int:
        return self.queued + self.set_aside


class LocalQueueFigures(Struct, frozen=True, gc=False, kw_only=True):
    """``consumed`` is what it used lately and ``sampled_at`` when that was worked out, where that decides."""

    pending: int
    holdings: Holdings
    consumed: dict[str, float]
    sampled_at: float | None


class CohortFigures(Struct, frozen=True, gc=False, kw_only=True):
    name: str
    parent: str
    root: str
    share: DominantShare
    quota: dict[FlavorResource, int]
    reservation: dict[FlavorResource, int]
    admitted: int


class Figures:
    """Answers about the queues of one engine."""

    __slots__ = ("_world",)

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def attempts(self) -> Attempts:
        """How many scheduling cycles there were."""
        return self._world.attempts

    def activity(self, name: str) -> Activity | None:
        """Why a ClusterQueue admits nothing; `None` while the engine does not have it."""
        queue = self._world.queues.get(name)
        return self._activity(queue) if queue is not None else None

    def cluster_queue(self, name: str) -> ClusterQueueFigures | None:
        """`None` while the engine does not have it."""
        queue = self._world.queues.get(name)
        if queue is None:
            return None
        queued, set_aside = self._waiting(queue)
        return ClusterQueueFigures(
            activity=self._activity(queue),
            queued=queued,
            set_aside=set_aside,
            holdings=_holdings(queue, queue.holders.values(), borrowing=queue.leaf.parent is not None),
            share=share_of(queue.leaf),
            cohorts=self.cohorts_above(name),
        )

    def _activity(self, queue: QueueState) -> Activity:
        if queue.active:
            return ACTIVE
        checks = self._world.checks
        named = sorted({rule.name for rule in queue.checks})
        return Activity(
            terminating=queue.terminating,
            stopped=queue.stop_policy is not StopPolicy.NONE,
            missing_flavors=tuple(name for name in queue.flavor_names() if name not in self._world.flavors),
            missing_checks=tuple(name for name in named if name not in checks),
            inactive_checks=tuple(name for name in named if not checks.get(name, True)),
            missing_topologies=tuple(
                (name, self._world.flavors[name].topology)
                for name in sorted(queue.topology_flavors)
                if not self._world.topologies.knows(self._world.flavors[name])
            ),
        )

    def _waiting(self, queue: QueueState) -> tuple[int, int]:
        parked = sum(lane.size for lane in queue.pending.lanes.values() if lane.parked)
        awake = sum(lane.size for lane in queue.pending.lanes.values() if not lane.parked)
        set_aside = parked + len(queue.pending.aside)
        return (awake, set_aside) if queue.active else (0, awake + set_aside)

    def holders(self, name: str) -> int:
        """How many workloads hold quota of a ClusterQueue."""
        queue = self._world.queues.get(name)
        return len(queue.holders) if queue is not None else 0

    def quotas(self, name: str) -> dict[FlavorResource, Quota]:
        """What a ClusterQueue may use by itself, and how far it may borrow and lend."""
        queue = self._world.queues.get(name)
        return queue.leaf.quotas if queue is not None else {}

    def demanded(self, name: str) -> dict[str, int]:
        """What those who wait for a ClusterQueue ask for in all, by resource."""
        queue = self._world.queues.get(name)
        total: dict[str, int] = {}
        if queue is not None:
            for lane in queue.pending.lanes.values():
                top = lane.top()
                if top is not None:
                    _add(total, top, lane.size)
            for record in queue.pending.aside.values():
                _add(total, record, 1)
        return total

    def waiting_by_local_queue(self, name: str) -> dict[str, tuple[int, int]]:
        """Of those who wait for a ClusterQueue, how many of each LocalQueue may be tried and how many may not.

        Goes through all of them, so it is for those who ask rarely.
        """
        queue = self._world.queues.get(name)
        found: dict[str, tuple[int, int]] = {}
        if queue is None:
            return found
        for record in queue.pending:
            may_be_tried = queue.active and record.lane is not None and not record.lane.parked
            queued, set_aside = found.get(record.local_queue, (0, 0))
            found[record.local_queue] = (queued + may_be_tried, set_aside + (not may_be_tried))
        return found

    def cohorts_above(self, name: str) -> tuple[str, ...]:
        """The cohorts above a ClusterQueue, from its parent to the root."""
        queue = self._world.queues.get(name)
        return tuple(cohort.name for cohort in queue.leaf.path_up()) if queue is not None else ()

    def local_queue(self, key: str) -> LocalQueueFigures | None:
        """`None` while the engine does not have it."""
        world = self._world
        if key not in world.known_local_queues:
            return None
        local = world.local_queues[key]
        queue = world.queues.get(local.cluster_queue)
        if local.stopped:
            pending = 0
        elif queue is not None:
            pending = queue.pending.by_local_queue.get(key, 0)
        else:
            pending = sum(record.admissible for record in local.records.values())
        held = queue.by_local_queue.get(key, {}).values() if queue is not None else ()
        return LocalQueueFigures(
            pending=pending,
            holdings=_holdings(queue, held, borrowing=False) if queue is not None else Holdings(),
            consumed=world.usage.consumed(key),
            sampled_at=world.usage.sampled_at(key),
        )

    def recent_usage(self, key: str) -> float | None:
        """The number that LocalQueues are ordered by, where recent usage decides."""
        local = self._world.local_queues.get(key)
        if local is None or not self._world.usage.enabled:
            return None
        return self._world.usage.usage(key, local.weight)

    def cohort(self, name: str) -> CohortFigures | None:
        """`None` where neither an object nor a child of this name exists."""
        return next((self._cohort(one) for one in self._world.forest.cohorts() if one.name == name), None)

    def cohorts(self) -> list[CohortFigures]:
        return [self._cohort(cohort) for cohort in self._world.forest.cohorts()]

    def _cohort(self, cohort: CohortNode) -> CohortFigures:
        above = [one.name for one in cohort.path_up()]
        # Trees are linked anew with the next decision; until then they may still have a queue that is gone.
        queues = [queue for leaf in _leaves(cohort) if (queue := self._world.queues.get(leaf.name)) is not None]
        return CohortFigures(
            name=cohort.name,
            parent=above[0] if above else "",
            root=above[-1] if above else cohort.name,
            share=share_of(cohort),
            quota=dict(cohort.subtree),
            reservation=_usage_in_all(queues),
            admitted=sum(record.stage is Stage.ADMITTED for queue in queues for record in queue.holders.values()),
        )


def _holdings(queue: QueueState, records: Iterable[Record], *, borrowing: bool) -> Holdings:
    reserved: dict[FlavorResource, int] = {}
    admitted: dict[FlavorResource, int] = {}
    reserving = running = 0
    for record in records:
        reserving += 1
        for fr, amount in record.usage:
            reserved[fr] = reserved.get(fr, 0) + amount
        if record.stage is Stage.ADMITTED:
            running += 1
            for fr, amount in record.usage:
                admitted[fr] = admitted.get(fr, 0) + amount
    nominal = queue.leaf.nominal if borrowing else None
    return Holdings(
        reserving=reserving,
        admitted=running,
        reservation=_by_flavor(queue.groups, reserved, nominal),
        usage=_by_flavor(queue.groups, admitted, nominal),
    )


def _by_flavor(
    groups: Iterable[FlavorGroup], used: dict[FlavorResource, int], nominal: dict[FlavorResource, int] | None
) -> tuple[FlavorAmounts, ...]:
    """Flavors in the order of the quota, resources by name; nothing is borrowed outside a cohort."""

    def amount(resource: str, fr: FlavorResource) -> Amount:
        total = used.get(fr, 0)
        borrowed = max(0, total - nominal.get(fr, 0)) if nominal is not None else 0
        return Amount(resource, total, borrowed)

    return tuple(
        FlavorAmounts(slot.name, tuple(amount(resource, slot.frs[resource]) for resource in sorted(slot.frs)))
        for group in groups
        for slot in group.flavors
    )


def _add(total: dict[str, int], record: Record, times: int) -> None:
    for resource, amount in total_requests(record).items():
        total[resource] = total.get(resource, 0) + amount * times


def _leaves(cohort: CohortNode) -> Iterator[Node]:
    yield from cohort.leaves
    for child in cohort.children:
        yield from _leaves(child)


def _usage_in_all(queues: Iterable[QueueState]) -> dict[FlavorResource, int]:
    """All usage, of own and of borrowed quota."""
    total: dict[FlavorResource, int] = {}
    for queue in queues:
        for fr, amount in queue.leaf.usage.items():
            if amount:
                total[fr] = total.get(fr, 0) + amount
    return total
