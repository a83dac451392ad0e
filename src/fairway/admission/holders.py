"""Workloads with quota, in the order of preemption.

Workloads that are being evicted already come first, then the lowest priority, the latest reservation, the UID. The
order is kept up as holders come and go, so that a search for victims starts at the right end without sorting
anything.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway.admission.records import Record

VictimKey = tuple[int, float, str, str]
"""The priority that protects it, how long ago the quota was reserved, UID, and the name, which no two share."""

Filed = tuple[VictimKey, "Record"]


class Holders:
    """``evicted`` and ``running``, each in order. A record is filed under the key it had when it came.

    ``aged`` are those with a priority earned by aging.
    """

    __slots__ = ("aged", "evicted", "running")

    def __init__(self) -> None:
        self.evicted: list[Filed] = []
        self.running: list[Filed] = []
        self.aged: dict[str, Record] = {}

    def __len__(self) -> int:
        return len(self.evicted) + len(self.running)

    def __iter__(self) -> Iterator[Record]:
        for part in (self.evicted, self.running):
            for _, record in part:
                yield record

    def add(self, record: Record) -> None:
        insort(self.running if record.evicted is None else self.evicted, (record.victim_key, record))
        if record.earned:
            self.aged[record.key] = record

    def discard(self, record: Record) -> None:
        """Take a record out, wherever it was filed."""
        self.aged.pop(record.key, None)
        for part in (self.running, self.evicted):
            index = bisect_left(part, (record.filed_under,))  # a shorter tuple sorts first
            if index < len(part) and part[index][1] is record:
                del part[index]
                return
