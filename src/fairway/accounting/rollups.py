"""Sums of attempts by hour, day and month: whole numbers, so that a sum is the same in any order.

What an attempt holds is split over the buckets in which it ran; its start and its wait count where it started, its end
where it ended. `UsageSum`s of one bucket are kept by `UsageKey`.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from fairway.accounting.attempts import AttemptEnd, AttemptRecord

_GROWTH: Final = 1.25
"""Of the buckets that waits are counted in: a percentile is at most a quarter too large."""

_LOG_GROWTH: Final = math.log(_GROWTH)
OTHERS: Final = "(others)"
"""The user of sums that were too many to be kept apart."""


class TimeStep(StrEnum):
    """The size of a bucket; all are in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"

    def floor(self, moment: int) -> int:
        """The start of the bucket of a moment."""
        if self is TimeStep.HOUR:
            return moment - moment % 3600
        if self is TimeStep.DAY:
            return moment - moment % 86400
        return _epoch(_utc(moment).replace(day=1, hour=0, minute=0, second=0))

    def after(self, start: int) -> int:
        """The start of the next bucket."""
        if self is TimeStep.HOUR:
            return start + 3600
        if self is TimeStep.DAY:
            return start + 86400
        return _epoch((_utc(start) + timedelta(days=31)).replace(day=1, hour=0, minute=0, second=0))

    def ceiling(self, moment: int) -> int:
        """The end of the bucket of a moment, or the moment itself if a bucket starts there."""
        start = self.floor(moment)
        return start if start == moment else self.after(start)

    def buckets(self, since: int, until: int) -> Iterator[int]:
        """The starts of the buckets from one moment to another."""
        start = self.floor(since)
        while start < until:
            yield start
            start = self.after(start)

    def file(self, start: int) -> str:
        """The file that has a bucket: hours by day, days by month, months by year."""
        moment = _utc(start)
        if self is TimeStep.HOUR:
            return f"{self}-{moment:%Y-%m-%d}"
        return f"{self}-{moment:%Y-%m}" if self is TimeStep.DAY else f"{self}-{moment:%Y}"


class UsageKey(NamedTuple):
    """What sums are kept apart by."""

    namespace: str
    user: str
    queue: str
    cluster_queue: str
    team: str
    organization: str
    kind: str
    flavors: tuple[str, ...]

    @classmethod
    def of(cls, attempt: AttemptRecord) -> "UsageKey":
        return cls(
            attempt.namespace,
            attempt.user,
            attempt.queue,
            attempt.cluster_queue,
            attempt.team,
            attempt.organization,
            attempt.kind,
            attempt.flavors,
        )


class UsageSum(Struct, kw_only=True, array_like=True):
    """The sum of attempts, or of their parts in one bucket. Fields are only ever added at the end."""

    started: int = 0
    run_seconds: int = 0
    wait_seconds: int = 0
    longest_wait: int = 0
    waits: dict[int, int] = field(default_factory=dict)
    """How many waited for so long: by the number of a bucket of growing size."""

    ends: dict[str, int] = field(default_factory=dict)
    """By outcome."""

    held: dict[str, dict[str, int]] = field(default_factory=dict)
    """Amount times seconds, by flavor and resource."""

    running: int = 0
    """Never stored: what runs when the sum is asked for."""

    def add(self, other: "UsageSum") -> None:
        self.started += other.started
        self.run_seconds += other.run_seconds
        self.wait_seconds += other.wait_seconds
        self.longest_wait = max(self.longest_wait, other.longest_wait)
        self.running += other.running
        _add(self.waits, other.waits)
        _add(self.ends, other.ends)
        for flavor, amounts in other.held.items():
            _add(self.held.setdefault(flavor, {}), amounts)

    def percentile(self, share: float) -> int:
        """The wait in seconds that this share of the starts did not exceed; at most a quarter too large."""
        wanted, seen = math.ceil(share * self.started), 0
        for bucket in sorted(self.waits):
            seen += self.waits[bucket]
            if seen >= wanted:
                return min(_upper(bucket), self.longest_wait)
        return self.longest_wait


Bucket = dict[UsageKey, UsageSum]


def parts(attempt: AttemptRecord, step: TimeStep, *, now: int = 0, since: int = 0) -> Iterator[tuple[int, UsageSum]]:
    """What an attempt is worth in each bucket that it touches, from a moment on; `now` ends one that runs."""
    ended = attempt.ended or max(now, attempt.started)
    first, last = step.floor(attempt.started), step.floor(ended)
    for start in step.buckets(max(first, since), last + 1):
        ran = max(min(ended, step.after(start)) - max(attempt.started, start), 0)
        found = UsageSum(run_seconds=ran)
        for flavor, resource, amount in attempt.held if ran else ():
            found.held.setdefault(flavor, {})[resource] = amount * ran
        if start == first:
            wait = attempt.wait_seconds
            found.started, found.wait_seconds, found.longest_wait = 1, wait, wait
            found.waits[_wait_bucket(wait)] = 1
        if start == last:
            if attempt.ended:
                found.ends[attempt.outcome] = 1
            else:
                found.running = 1
        yield start, found


def add_attempt(bucket: Bucket, key: UsageKey, part: UsageSum) -> None:
    """Add a part of an attempt to a bucket."""
    known = bucket.get(key)
    if known is None:
        known = bucket[key] = UsageSum()
    known.add(part)


def merged(buckets: Iterable[Bucket]) -> Bucket:
    """The sum of buckets; shares nothing with them."""
    found: Bucket = {}
    for bucket in buckets:
        for key, part in bucket.items():
            add_attempt(found, key, part)
    return found


def without(bucket: Bucket, *fields: str) -> Bucket:
    """The same sums, not kept apart by these fields, where there are too many."""
    gone: dict[str, Any] = dict.fromkeys(fields, OTHERS)
    found: Bucket = {}
    for key, part in bucket.items():
        add_attempt(found, key._replace(**gone), part)
    return found


def succeeded_share(ends: dict[str, int]) -> float | None:
    """Of the attempts that came to their own end, the share that succeeded."""
    good, bad = ends.get(AttemptEnd.SUCCEEDED, 0), ends.get(AttemptEnd.FAILED, 0)
    return round(good / (good + bad), 4) if good + bad else None


def _add(into: dict[Any, int], other: dict[Any, int]) -> None:
    for key, value in other.items():
        into[key] = into.get(key, 0) + value


def _wait_bucket(wait: int) -> int:
    """0 for no wait, else the number of the bucket whose upper bound is the first that is not less."""
    if wait <= 0:
        return 0
    return max(math.ceil(math.log(wait) / _LOG_GROWTH - 1e-9), 0) + 1


def _upper(bucket: int) -> int:
    return 0 if bucket == 0 else math.ceil(_GROWTH ** (bucket - 1) - 1e-9)


def _utc(moment: int) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


def _epoch(moment: datetime) -> int:
    return int(moment.timestamp())
