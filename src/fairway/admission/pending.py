"""The pending workloads of a ClusterQueue, in order.

Workloads that are alike in all that admission looks at (base priority, shapes, counts) form a *lane*. A lane is tried
by its first member: when that one finds no room, no other of the lane would, so the lane is parked as a whole and every
later arrival of the same kind waits there untried, until something changes. Parking and waking a lane cost the same
whether it holds one workload or a hundred thousand. Priority earned by aging decides the place in the lane only: a
victim that comes back waits with its parked peers, as it would without aging.

Workloads that may not be tried for a reason of their own (a back-off, a namespace that is not selected) are kept
*aside*.

A BestEffortFIFO queue puts the workload whose victims are being evicted before all others, so that no other takes the
room it made; a StrictFIFO queue never parks, so that its head blocks what is behind it. There, the preemptor is put
before a head that has only its earned priority to thank for its place: otherwise a victim would come back with a
priority above its preemptor's, take the room, and the preemptor would evict the next one, and the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush, merge
from itertools import chain, count
from operator import attrgetter
from typing import TYPE_CHECKING

from fairway.admission.reasons import Explanation
from fairway.admission.records import OrderKey, PendingPlace, Record

if TYPE_CHECKING:
    from fairway.admission.clusterqueues import QueueState
    from fairway.admission.sleeping import Sleep

_BY_ORDER = attrgetter("order_key")
_tokens = count(1)

_Member = tuple[OrderKey, int, Record]
"""A workload's place, the token of its coming, which no two share, and itself."""


class Lane:
    """Alike workloads, by earned priority, then the oldest first. Members that left are skipped when they surface.

    Most arrive in order and form a list; those that arrive out of order form a heap.
    """

    __slots__ = ("_late", "_line", "explanation", "key", "local_queue", "overslept", "parked", "size", "sleep")

    def __init__(self, key: object, local_queue: str) -> None:
        self.key = key
        self.local_queue = local_queue
        self._line: deque[_Member] = deque()
        self._late: list[_Member] = []
        self.size = 0
        self.parked = False
        self.explanation: Explanation | None = None
        self.sleep: Sleep | None = None
        self.overslept = False

    def push(self, record: Record) -> None:
        record.token = next(_tokens)
        record.lane = self
        record.place = PendingPlace.QUEUED
        self.size += 1
        member = (record.order_key, record.token, record)
        if self._line and member < self._line[-1]:
            heappush(self._late, member)
        else:
            self._line.append(member)

    def drop(self, record: Record) -> None:
        record.token = 0
        record.lane = None
        record.place = PendingPlace.NOWHERE
        self.size -= 1
        if self.size == 0:
            self._line.clear()
            self._late.clear()

    def top(self) -> Record | None:
        line, late = self._line, self._late
        while line and line[0][2].token != line[0][1]:
            line.popleft()
        while late and late[0][2].token != late[0][1]:
            heappop(late)
        if late and (not line or late[0] < line[0]):
            return late[0][2]
        return line[0][2] if line else None

    def sleeps(self, queue: QueueState) -> bool:
        """Whether a try is certain to end as the last one did."""
        return self.sleep is not None and self.sleep.holds(queue)

    def in_order(self) -> Iterator[Record]:
        self._late.sort()  # in place: a sorted list is a heap, and is sorted again in no time
        members = merge(self._line, self._late) if self._late else self._line
        return (record for _, token, record in members if record.token == token)

    def members(self) -> Iterator[Record]:
        return (record for _, token, record in chain(self._line, self._late) if record.token == token)


class PendingQueue:
    """``usage_of`` gives the recent usage of a LocalQueue where admission fair sharing orders by it, else it is
    ``None``. ``by_local_queue`` counts those who wait, for the status of their LocalQueues.
    """

    __slots__ = ("_awake_in", "_order", "aside", "by_local_queue", "lanes", "preemptor", "strict", "usage_of")

    def __init__(self) -> None:
        self.strict = False
        self.usage_of: Callable[[str], float] | None = None
        self.preemptor: Record | None = None
        self.lanes: dict[tuple[str, object], Lane] = {}
        self.aside: dict[str, Record] = {}
        self.by_local_queue: dict[str, int] = {}
        self._order: list[tuple[OrderKey, int, Lane]] = []
        self._awake_in = -1

    def __len__(self) -> int:
        return sum(lane.size for lane in self.lanes.values()) + len(self.aside)

    def __iter__(self) -> Iterator[Record]:
        """Everyone who waits, in no order."""
        for lane in self.lanes.values():
            yield from lane.members()
        yield from self.aside.values()

    def in_order(self) -> Iterator[Record]:
        """Everyone who waits, in the order that the visibility API shows: parked or not."""
        ordered: Iterator[Record]
        if self.usage_of is None:
            lanes = (lane.in_order() for lane in self.lanes.values())
            ordered = merge(*lanes, sorted(self.aside.values(), key=_BY_ORDER), key=_BY_ORDER)
        else:
            ordered = iter(sorted(self, key=self._rank))
        head = next(ordered, None)
        if head is None:
            return
        preemptor = self.preemptor if self.usage_of is None and not self.strict else None
        first = preemptor or self._unless_earned(head)
        yield first
        yield from (record for record in chain((head,), ordered) if record is not first)

    def _rank(self, record: Record) -> tuple[float, bool, OrderKey]:
        usage = self.usage_of(record.local_queue) if self.usage_of is not None else 0.0
        return usage, not self._is_sticky(record), record.order_key

    def _is_sticky(self, record: Record) -> bool:
        return record is self.preemptor and not self.strict

    def _unless_earned(self, head: Record) -> Record:
        """The head of a StrictFIFO queue, or the preemptor where only earned priority puts the head before it."""
        preemptor = self.preemptor
        if not self.strict or preemptor is None or preemptor.lane is None or not head.earned:
            return head
        if self.usage_of is not None and self.usage_of(head.local_queue) != self.usage_of(preemptor.local_queue):
            return head
        return preemptor if preemptor.base_order_key < head.base_order_key else head

    def set_strict(self, *, strict: bool) -> None:
        """Whether a head that finds no room blocks those behind it; if so, none may sleep on in another's place."""
        if strict and not self.strict:
            for lane in self.lanes.values():
                lane.sleep = None
        self.strict = strict

    # Coming and going

    def push(self, record: Record) -> bool:
        """Queue a workload; whether it can be tried (``False`` when its lane is parked)."""
        self._count(record, 1)
        local_queue = record.local_queue if self.usage_of is not None else ""
        lane = self.lanes.get((local_queue, record.lane_key))
        if lane is None:
            lane = self.lanes[local_queue, record.lane_key] = Lane(record.lane_key, local_queue)
            lane.parked = self.usage_of is not None and any(
                other.parked for other in self.lanes.values() if other.key == record.lane_key
            )
        lane.push(record)
        if lane.parked:
            return False
        if lane.top() is record:
            heappush(self._order, (record.order_key, record.token, lane))
        return True

    def put_aside(self, record: Record) -> None:
        self._count(record, 1)
        record.place = PendingPlace.ASIDE
        self.aside[record.key] = record

    def remove(self, record: Record) -> None:
        """Take a workload out of wherever it waits. A preemptor that leaves has no claim any more."""
        if record.place is not PendingPlace.NOWHERE:
            self._count(record, -1)
        if record.place is PendingPlace.ASIDE:
            del self.aside[record.key]
            record.place = PendingPlace.NOWHERE
        elif record.lane is not None:
            lane = record.lane
            lane.drop(record)
            if not lane.parked:
                top = lane.top()
                if top is None:
                    del self.lanes[lane.local_queue, lane.key]
                else:
                    heappush(self._order, (top.order_key, top.token, lane))
        if record is self.preemptor:
            self.preemptor = None

    def _count(self, record: Record, change: int) -> None:
        left = self.by_local_queue.get(record.local_queue, 0) + change
        if left:
            self.by_local_queue[record.local_queue] = left
        else:
            del self.by_local_queue[record.local_queue]

    # Trying

    def head(self) -> Record | None:
        """The next one to try, left in its place."""
        if self.usage_of is not None:
            tops = (top for lane in self.lanes.values() if not lane.parked and (top := lane.top()) is not None)
            first = min(tops, key=self._rank, default=None)
            return None if first is None else self._unless_earned(first)
        sticky = self.preemptor
        if sticky is not None and not self.strict and sticky.lane is not None and not sticky.lane.parked:
            return sticky
        order = self._order
        while order:
            key, token, lane = order[0]
            if not lane.parked:
                top = lane.top()
                if top is not None and top.token == token and top.order_key == key:
                    return self._unless_earned(top)
            heappop(order)
        return None

    def park(self, record: Record, sleep: Sleep | None) -> None:
        """The head found no room. Alike workloads need not be tried; a StrictFIFO head stays and blocks."""
        if self.strict:
            return
        for lane in self.lanes.values() if self.usage_of is not None else (record.lane,):
            if lane is not None and lane.key == record.lane_key:
                lane.parked = True
                lane.sleep = sleep
                lane.overslept = False

    def sleep_on(self, lane: Lane) -> None:
        """The lane's turn passes, as its try is certain to end as the last one did."""
        lane.parked = True
        lane.overslept = True

    def park_sleepers(self, queue: QueueState) -> None:
        """When all who are left would sleep through their turns, the turns need not be taken.

        A workload that was awake stays so until usage changes, so it is checked once for each state of the tree.
        """
        if self._awake_in == queue.tree.version:
            return
        lanes = self.lanes.values()
        if all(lane.parked or lane.sleeps(queue) for lane in lanes):
            for lane in lanes:
                if not lane.parked:
                    self.sleep_on(lane)
        else:
            self._awake_in = queue.tree.version

    def set_aside(self, record: Record) -> None:
        """The head may not be tried for a reason of its own: it alone steps aside."""
        keep = self.preemptor
        self.remove(record)
        self.preemptor = keep
        self.put_aside(record)

    def wake(self, queue: QueueState, may_try: Callable[[Record], bool]) -> bool:
        """Wake all parked workloads; returns whether there are any.

        If all lanes sleep on, nothing is woken, because the tries would change nothing.
        """
        back = [record for record in self.aside.values() if may_try(record)] if self.aside else []
        if not back and all(lane.parked and lane.sleeps(queue) for lane in self.lanes.values()):
            for lane in self.lanes.values():
                lane.overslept = True
            return False
        for place, lane in tuple(self.lanes.items()):
            if lane.parked:
                lane.parked = False
                top = lane.top()
                if top is None:
                    del self.lanes[place]
                else:
                    heappush(self._order, (top.order_key, top.token, lane))
        for record in back:
            del self.aside[record.key]
            self._count(record, -1)
            self.push(record)
        return bool(self.lanes)
