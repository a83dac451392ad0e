"""The pods that wait for a node, in the order in which they are to get one.

Pods of equal demand stand in one line. When the first of a line does not fit, no pod behind it does, so the line is
left alone until there is more room: a thousand pods of one job cost as much to try again as one of them.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fairway.controllers.kit.capacity import Demand

_SLACK = 64
"""How many pods that left a line may stay in its heap before it is made anew."""


class Rank(NamedTuple):
    """Who goes first: the smaller one."""

    priority: int
    """Negated, for the higher priority goes first."""

    created: str
    arrival: int
    """Told apart by this at last, since times are kept in whole seconds."""


@dataclass(slots=True)
class WaitingPod:
    """A pod without a node."""

    uid: str
    namespace: str
    name: str
    generation: int
    rank: Rank
    why: str
    """Why it waits, as in its condition; empty as long as that is not known."""


@dataclass(slots=True)
class Line:
    """Pods of one demand, in order."""

    demand: Demand
    pods: dict[str, WaitingPod] = field(default_factory=dict)
    order: list[tuple[Rank, str]] = field(default_factory=list)
    """A heap; those that left are still in it until they come to its top."""

    blocked: bool = False
    """Whether no pod in it fits until there is more room."""

    why: str = ""
    """What was said last about why."""

    untold: list[str] = field(default_factory=list)
    """Who came since that was said."""

    def first(self) -> WaitingPod | None:
        """Whose turn it is."""
        while self.order:
            rank, uid = self.order[0]
            pod = self.pods.get(uid)
            if pod is not None and pod.rank == rank:
                return pod
            heapq.heappop(self.order)
        return None


class WaitingPods:
    """All lines."""

    def __init__(self) -> None:
        self._lines: dict[Demand, Line] = {}
        self._line_of: dict[str, Line] = {}
        self._stirred: dict[Demand, Line] = {}
        """The lines that are to be looked at: to be tried, or with a pod whose reason is not written yet."""

    def __len__(self) -> int:
        return len(self._line_of)

    @property
    def are_settled(self) -> bool:
        """Whether there is no pod to try now: all waiting pods were tried and do not fit."""
        return not self._stirred

    def get(self, uid: str) -> WaitingPod | None:
        line = self._line_of.get(uid)
        return line.pods[uid] if line is not None else None

    def add(self, pod: WaitingPod, demand: Demand) -> None:
        """A pod waits; one that did already waits with what it asks for now."""
        self.remove(pod.uid)
        line = self._lines.get(demand)
        if line is None:
            line = self._lines[demand] = Line(demand)
        line.pods[pod.uid] = pod
        line.untold.append(pod.uid)
        heapq.heappush(line.order, (pod.rank, pod.uid))
        self._line_of[pod.uid] = line
        self._stirred[demand] = line

    def remove(self, uid: str) -> None:
        """A pod waits no more, if it did."""
        line = self._line_of.pop(uid, None)
        if line is None:
            return
        del line.pods[uid]
        if not line.pods:
            del self._lines[line.demand]
            self._stirred.pop(line.demand, None)
        elif len(line.order) > 2 * len(line.pods) + _SLACK:
            line.order = [(pod.rank, pod.uid) for pod in line.pods.values()]
            heapq.heapify(line.order)

    def stir(self) -> None:
        """There is more room than before: every line is to be tried again."""
        for line in self._lines.values():
            line.blocked = False
        self._stirred = dict(self._lines)

    def turns(self) -> Iterator[tuple[Line, WaitingPod]]:
        """The lines to be looked at, each with its first pod, in the order of these pods.

        The caller removes the pod, and then its line gets another turn, or calls the line blocked.
        """
        heads: list[tuple[Rank, Line]] = []
        for line in self._stirred.values():
            _push(heads, line)
        self._stirred = {}
        while heads:
            _, line = heapq.heappop(heads)
            first = line.first()
            if first is not None:
                yield line, first
                if first.uid not in line.pods:
                    _push(heads, line)

    def block(self, line: Line, why: str) -> list[WaitingPod]:
        """No pod in the line fits; returns those whose reason must be written."""
        asked = line.untold if why == line.why else list(line.pods)
        line.blocked, line.why, line.untold = True, why, []
        news = [line.pods[uid] for uid in asked if uid in line.pods and line.pods[uid].why != why]
        for pod in news:
            pod.why = why
        return news


def _push(heads: list[tuple[Rank, Line]], line: Line) -> None:
    first = line.first()
    if first is not None:
        heapq.heappush(heads, (first.rank, line))  # no two ranks are equal, so lines are never compared
