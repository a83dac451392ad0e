"""Expected starts in the words of people, and as the API shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.simulate.estimates import NOTHING_KNOWN
from fairway.simulate.forecast import HORIZON_SECONDS, StartForecast

_DAY: Final = 86400


def unknown(because: str, computed_at: datetime | None) -> Manifest:
    """An expected start that is not known."""
    return {
        "known": False,
        "at": None,
        "earliest": None,
        "latest": None,
        "basis": "",
        "computedAt": None if computed_at is None else stamp(computed_at),
        "message": f"unknown: {because}",
    }


def expected(start: StartForecast, now: datetime, computed_at: datetime | None) -> Manifest:
    """The expected start of a job."""
    if start.at is None or start.earliest is None:
        return unknown(f"it does not start within {HORIZON_SECONDS / _DAY:g} days as things are", computed_at)
    if start.basis == NOTHING_KNOWN:
        return unknown("a job before it has no max_duration, and nothing has ended here yet", computed_at)
    return {
        "known": True,
        "at": _time(start.at),
        "earliest": _time(start.earliest),
        "latest": None if start.latest is None else _time(start.latest),
        "basis": start.basis,
        "computedAt": None if computed_at is None else stamp(computed_at),
        "message": in_words(start, now.timestamp()),
    }


def in_words(start: StartForecast, now: float) -> str:
    """`in about 40 min (25 min to 1 h 30 min)`."""
    at, low = (max(0.0, (moment or 0.0) - now) for moment in (start.at, start.earliest))
    middle = f"in about {duration(at)}" if at >= 1 else "any moment"
    if start.latest is None:
        return f"{middle} (from {duration(low)}, open-ended)"
    high = max(0.0, start.latest - now)
    if duration(low) == duration(high):
        return middle
    return f"{middle} ({duration(low)} to {duration(high)})"


def duration(seconds: float) -> str:
    """Seconds as people say them, in at most two units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{round(whole / 60)} min" if whole >= 600 else _two(whole, 60, "min", "s")
    if whole < _DAY:
        return _two(round(whole / 60) * 60, 3600, "h", "min", 60)
    return _two(round(whole / 3600) * 3600, _DAY, "d", "h", 3600)


def _two(whole: int, size: int, large: str, small: str, less: int = 1) -> str:
    more, rest = divmod(whole, size)
    return f"{more} {large} {rest // less} {small}" if rest // less else f"{more} {large}"


def _time(seconds: float) -> str:
    return stamp(datetime.fromtimestamp(seconds, UTC))
