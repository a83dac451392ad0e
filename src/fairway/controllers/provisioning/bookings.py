"""Room that was promised to a request and is not taken yet: kept free of other requests until its pods are there.

Only requests are kept away by a booking. A pod that nobody asked room for may take it, as in any Kubernetes cluster.
"""

from collections.abc import Iterable

from fairway.controllers.kit.capacity import Demand, Group, Room, put


class Booking:
    """The pods of a request that have no node yet."""

    __slots__ = ("_counts", "_demands")

    def __init__(self, groups: Iterable[Group], taken: Iterable[Demand] = ()) -> None:
        groups = list(groups)
        self._demands = [demand for demand, _ in groups]
        self._counts = [count for _, count in groups]
        for demand in taken:
            self.take(demand)

    @property
    def left(self) -> list[Group]:
        return [(demand, count) for demand, count in zip(self._demands, self._counts, strict=True) if count]

    def take(self, demand: Demand) -> None:
        """One of the pods is on a node now: one that asks for the same, or any if none does."""
        waiting = [position for position, count in enumerate(self._counts) if count]
        same = [position for position in waiting if self._demands[position].requests == demand.requests]
        for position in (same or waiting)[:1]:
            self._counts[position] -= 1

    def hold(self, rooms: Iterable[Room]) -> None:
        """Take this room out of what is left, as far as there is so much."""
        rooms = list(rooms)
        for demand, count in self.left:
            put(rooms, demand, count)
