"""Cache of assignments for equal workloads, valid while the relevant quota is unchanged.

An assignment hangs on the demand, on rules that seldom change, and on what quota says to a few questions: how much of
a flavor-resource could be had, and by which means. Which question comes next hangs on the answers so far. So the
questions of a demand in a queue form a tree: at each fork one answer, at each end the assignment that these answers
led to. Who finds its way through the tree has the same assignment as one worked out anew; a property test holds the
two together.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from fairway.admission.resources import FlavorResource

if TYPE_CHECKING:
    from fairway.admission.choices import Assignment, Mode
    from fairway.admission.records import WorkloadDemand

_MOST_DEMANDS = 512
_MOST_ENDS = 128


class Answer(NamedTuple):
    """What quota says: by which means it can be had, from how far up, and how much is missing (-1: there never is
    that much).
    """

    mode: Mode
    level: int
    missing: int


class Question(NamedTuple):
    """Could ``amount`` be had, on top of what is ``assumed`` for other pod sets?"""

    fr: FlavorResource
    assumed: int
    amount: int


class Fork:
    """A question, and where each answer leads."""

    __slots__ = ("question", "ways")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.ways: dict[Answer, Fork | Assignment] = {}


class _Known:
    """The tree of one demand, which is held so that no other takes its identity."""

    __slots__ = ("demand", "ends", "root")

    def __init__(self, demand: WorkloadDemand, root: Fork) -> None:
        self.demand = demand
        self.root = root
        self.ends = 0


class Precedents:
    """All trees of one queue. To be cleared when the queue's rules, its flavors or the quotas of its tree change."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def clear(self) -> None:
        self._known.clear()

    def of(self, demand: WorkloadDemand) -> Fork | None:
        """The first question that is asked for a demand, if it was ever asked."""
        known = self._known.get(id(demand))
        return known.root if known is not None else None

    def add(self, demand: WorkloadDemand, transcript: list[tuple[Question, Answer]], end: Assignment) -> None:
        """Remember what came of these answers. When too much is known, it starts over."""
        if not transcript:
            return
        known = self._known.get(id(demand))
        if known is None or known.ends >= _MOST_ENDS:
            if len(self._known) >= _MOST_DEMANDS:
                self._known.clear()
            known = self._known[id(demand)] = _Known(demand, Fork(transcript[0][0]))
        known.ends += 1
        fork = known.root
        for (_, answer), (following, _) in pairwise(transcript):
            way = fork.ways.get(answer)
            if not isinstance(way, Fork):
                way = fork.ways[answer] = Fork(following)
            fork = way
        fork.ways[transcript[-1][1]] = end
