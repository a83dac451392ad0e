"""Quota in use over virtual time: averages, and a timeline of bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fairway.admission.instructions import PodSetAdmission

MOST_POINTS: Final = 200

FlavorResourceName = tuple[str, str]


class Moment(NamedTuple):
    """How things stood at one time."""

    at: float
    running: int
    waiting: int
    used: dict[FlavorResourceName, int]


class Usage:
    """What the admitted jobs use, by flavor and resource."""

    def __init__(self, at: float) -> None:
        self.used: dict[FlavorResourceName, int] = {}
        self.integral: dict[FlavorResourceName, float] = {}
        """Amount times seconds, since the start."""

        self._held: dict[str, list[tuple[FlavorResourceName, int]]] = {}
        self._now = at
        self._points: list[Moment] = []
        self._apart = 0.0

    def take(self, key: str, pod_sets: Sequence[PodSetAdmission]) -> None:
        """A job got this."""
        self.give_back(key)
        held = [
            ((one.flavors[resource], resource), amount)
            for one in pod_sets
            for resource, amount in one.usage.items()
            if resource in one.flavors
        ]
        self._held[key] = held
        for name, amount in held:
            self.used[name] = self.used.get(name, 0) + amount

    def give_back(self, key: str) -> None:
        """A job holds nothing any more."""
        for name, amount in self._held.pop(key, ()):
            self.used[name] -= amount

    def pass_until(self, when: float) -> None:
        """Time passes, and nothing changes until then."""
        passed = when - self._now
        if passed <= 0:
            return
        self._now = when
        for name, amount in self.used.items():
            if amount:
                self.integral[name] = self.integral.get(name, 0.0) + amount * passed

    def observe(self, at: float, *, running: int, waiting: int) -> None:
        """Note the state of this moment, if the last note is old enough."""
        points = self._points
        if points and at - points[-1].at < self._apart:
            return
        moment = Moment(at, running, waiting, dict(self.used))
        if points and points[-1].at == at:
            points[-1] = moment
            return
        points.append(moment)
        if len(points) > 2 * MOST_POINTS:
            del points[1::2]
            self._apart = max((points[-1].at - points[0].at) / MOST_POINTS, self._apart)

    def timeline(self) -> list[Moment]:
        """At most `MOST_POINTS`, from the start to the end."""
        points = self._points
        if len(points) <= MOST_POINTS:
            return list(points)
        step = (len(points) - 1) / (MOST_POINTS - 1)
        return [points[round(index * step)] for index in range(MOST_POINTS)]
