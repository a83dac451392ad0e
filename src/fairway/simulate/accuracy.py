"""Past forecasts of starts against what then happened: their errors, and ranges that are as wide as they say.

The first forecast of each job counts. How far starts were outside of the ranges that were played, as a part of the wait
that was expected, is what later ranges are moved by: so one start in ten is earlier and one in ten later, whatever the
forecasts do not foresee.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from math import inf
from statistics import median
from typing import Any, Final, NamedTuple

from msgspec import structs

from fairway.simulate.estimates import NOTHING_KNOWN
from fairway.simulate.forecast import HIGH, StartForecast

_MOST_FIRST: Final = 20_000
_MOST_COMPARED: Final = 500
_LEAST_COMPARED: Final = 5
_LEAST_CALIBRATED: Final = 20
"""Ranges stay as they were played before so many starts were compared."""

_LEAST_WAIT_SECONDS: Final = 60.0
"""Errors count as parts of the expected wait, or of a minute where that is shorter."""


class _First(NamedTuple):
    """The first forecast of a job: when it was made, as it was played, and as it was given."""

    made: float
    played: StartForecast
    given: StartForecast


class _Outcome(NamedTuple):
    """A start beside its forecast."""

    error_seconds: float
    within: bool
    too_early: float
    """How far it was before the range that was played, as a part of the expected wait; negative within it."""

    too_late: float


class Accuracy:
    """The last 500 starts that were forecast."""

    def __init__(self) -> None:
        self._first: OrderedDict[str, _First] = OrderedDict()
        self._outcomes: deque[_Outcome] = deque(maxlen=_MOST_COMPARED)

    def given(self, starts: Mapping[str, StartForecast], made: float) -> dict[str, StartForecast]:
        """These forecasts with the ranges that past errors ask for. They are kept, to be compared with the starts."""
        early, late = self._margins(starts, made)
        found: dict[str, StartForecast] = {}
        for key, played in starts.items():
            given = found[key] = _moved(played, made, early, late)
            if key not in self._first and given.at is not None and given.basis != NOTHING_KNOWN:
                self._first[key] = _First(made, played, given)
                if len(self._first) > _MOST_FIRST:
                    self._first.popitem(last=False)
        return found

    def started(self, key: str, at: float) -> None:
        """A job starts."""
        first = self._first.pop(key, None)
        if first is not None:
            self._outcomes.append(_compared(first, at))

    def figures(self) -> dict[str, Any] | None:
        """How good the forecasts were; `None` before five of them."""
        if len(self._outcomes) < _LEAST_COMPARED:
            return None
        errors = sorted(one.error_seconds for one in self._outcomes)
        return {
            "compared": len(errors),
            "medianSeconds": round(median(errors), 1),
            "p90Seconds": round(errors[int(0.9 * (len(errors) - 1))], 1),
            "inRange": round(sum(one.within for one in self._outcomes) / len(errors), 3),
        }

    def _margins(self, waiting: Iterable[str], now: float) -> tuple[float, float]:
        """By which parts of the expected wait ranges begin earlier and end later than they are played.

        A job that still waits after the end of its range counts, too: it is at least so late.
        """
        if len(self._outcomes) < _LEAST_CALIBRATED:
            return 0.0, 0.0
        overdue = [
            _compared(first, now)
            for key in waiting
            if (first := self._first.get(key)) is not None and (first.given.latest or inf) < now
        ]
        seen = [*self._outcomes, *overdue]
        return _part(one.too_early for one in seen), _part(one.too_late for one in seen)


def _part(scores: Iterable[float]) -> float:
    ordered = sorted(scores)
    return ordered[min(len(ordered) - 1, int(HIGH * (len(ordered) + 1)))]


def _wait(forecast: StartForecast, made: float) -> float:
    return max(_LEAST_WAIT_SECONDS, (forecast.at or made) - made)


def _compared(first: _First, at: float) -> _Outcome:
    played, given = first.played, first.given
    wait = _wait(played, first.made)
    early, late = (played.earliest or first.made) - at, -inf if played.latest is None else at - played.latest
    within = (given.earliest or 0.0) - 1 <= at <= (inf if given.latest is None else given.latest + 1)
    return _Outcome(abs(at - (given.at or 0.0)), within, early / wait, late / wait)


def _moved(played: StartForecast, made: float, early: float, late: float) -> StartForecast:
    if played.at is None or played.earliest is None:
        return played
    wait = _wait(played, made)
    earliest = min(played.at, max(made, played.earliest - early * wait))
    latest = None if played.latest is None else max(played.at, played.latest + late * wait)
    return structs.replace(played, earliest=earliest, latest=latest)
