"""The books: a journal of attempts, and the sums of what the journal no longer needs to have; both bounded.

The journal is a row of segments; the last one, the *tail*, grows. A full tail is sealed. Every ten segments the sums of
their attempts are added to *usage files*, which say up to which segment they have been added to: so each write can be
repeated after a crash, and an attempt is in a sum once. Objects of the API in and out (`load`, `flush`): ConfigMaps.
"""

import base64
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.accounting.attempts import AttemptRecord
from fairway.accounting.ledger import AttemptLedger
from fairway.accounting.rollups import Bucket, TimeStep, UsageKey, UsageSum, add_attempt, parts, without
from fairway.apis.machinery.kind import Manifest

LABEL: Final = "fairway.dev/history"
"""On every ConfigMap of the books: `journal` or `usage`."""

_PREFIX: Final = "fairway-history-"
_DAY: Final = 86400
KEPT_SECONDS: Final[Mapping[TimeStep, int]] = {
    TimeStep.HOUR: 32 * _DAY,
    TimeStep.DAY: 732 * _DAY,
    TimeStep.MONTH: 3660 * _DAY,
}
"""For how long sums of each size are kept."""

_LARGEST_BUCKET: Final[Mapping[TimeStep, int]] = {TimeStep.HOUR: 36_000, TimeStep.DAY: 28_000, TimeStep.MONTH: 70_000}
"""Bytes; a file has 24, 31 or 12 buckets, and a ConfigMap at most 1 MiB."""

_COARSER: Final = (("user",), ("user", "namespace", "queue"), ("user", "namespace", "queue", "cluster_queue", "team"))
"""What a bucket that is too large does without."""


class JournalLimits(Struct, frozen=True, kw_only=True):
    """How large the journal gets."""

    lines: int = 200
    """Of a segment."""

    segments: int = 600
    folded_every: int = 10
    """How many sealed segments are summed up at once."""


class Segment(Struct, kw_only=True):
    """A part of the journal, compressed once it is sealed."""

    number: int
    lines: list[AttemptRecord] | None = None
    data: bytes = b""
    carried: list[AttemptRecord] = []
    """Lines of segments that are gone, which only say what was counted."""

    stored: bool = False
    newest: int = 0
    """When the last of its attempts ended."""

    def read(self) -> list[AttemptRecord]:
        return _unpacked(self.data) if self.lines is None else self.lines


class UsageFile(Struct, kw_only=True):
    """Buckets of one size and time; `through` is the last segment that they include."""

    step: TimeStep
    through: int = 0
    buckets: dict[int, bytes] = {}
    stored: bool = False


class BookWrite(Struct, frozen=True, kw_only=True):
    """A ConfigMap to be written: created, merged into the stored one, or deleted if there is no `body`."""

    name: str
    body: Manifest | None
    create: bool = False


class AccountBooks:
    """The whole history in memory: compressed, but for the tail."""

    def __init__(self, limits: JournalLimits | None = None) -> None:
        self.ledger = AttemptLedger()
        self.cursors: dict[str, str] = {}
        """By resource: up to which version its changes are in the journal."""

        self._limits = limits or JournalLimits()
        self._segments: dict[int, Segment] = {1: Segment(number=1, lines=[])}
        self._files: dict[str, UsageFile] = {}
        self._overlay: dict[str, dict[int, Bucket]] = {}
        """Sums of attempts in the journal that are in no file yet."""

        self._folded = 0
        self._waiting: list[AttemptRecord] = []
        self._opened: dict[tuple[str, int, int], AttemptRecord] = {}
        """Ends and beginnings that are not written yet."""

    @property
    def tail(self) -> Segment:
        return self._segments[max(self._segments)]

    # Reading what was written

    def load(self, objects: Iterable[Manifest], existing: Collection[str] | None = None) -> Iterator[None]:
        """Continue with what is stored, segment by segment.

        Of jobs that are not among the `existing` ones, only recent attempts are remembered: late news of them may come.
        """
        journal: dict[int, Manifest] = {}
        for one in objects:
            kind = (one["metadata"].get("labels") or {}).get(LABEL)
            if kind == "journal":
                journal[int(one["data"]["number"])] = one
            elif kind == "usage":
                step, _, name = one["metadata"]["name"].removeprefix(_PREFIX).partition("-")
                buckets = {int(key): base64.b64decode(data) for key, data in (one.get("binaryData") or {}).items()}
                through = int(one["data"]["through"])
                self._files[f"{step}-{name}"] = UsageFile(
                    step=TimeStep(step), through=through, buckets=buckets, stored=True
                )
        if not journal:
            return
        last = max(journal)
        self._folded = int(journal[last]["data"]["folded"])
        self.cursors = msgspec.json.decode(journal[last]["data"]["cursors"], type=dict[str, str])
        self._segments = {}
        for number in sorted(journal):
            self._segments[number] = self._loaded(number, journal[number], last, existing)
            yield
        if any(file.through >= last for file in self._files.values()):
            # The process ended while the sums of this segment were written: some have it, so it gets no more lines.
            self._close_tail(self._segments[last])

    def _close_tail(self, tail: Segment) -> Segment:
        """Seal the tail; the new one."""
        tail.newest = max((line.ended for line in tail.lines or ()), default=0)
        tail.data, tail.lines = _packed(tail.lines or []), None
        after = self._segments[tail.number + 1] = Segment(number=tail.number + 1, lines=[])
        return after

    def _loaded(self, number: int, stored: Manifest, last: int, existing: Collection[str] | None) -> Segment:
        packed = {key: base64.b64decode(data) for key, data in (stored.get("binaryData") or {}).items()}
        lines, carried = _unpacked(packed.get("lines", b"")), _unpacked(packed.get("carried", b""))
        is_recent = existing is None or number > last - self._limits.folded_every
        for line in (*carried, *lines):
            if is_recent or not line.ended or line.uid in (existing or ()):
                self.ledger.restore(line)
            else:
                self.ledger.restore_end(line)
        newest = max((line.ended for line in lines), default=0)
        if number > self._folded:
            for line in lines:
                self._fold(line, number)
        if number == last:
            return Segment(number=number, lines=lines, carried=carried, stored=True)
        return Segment(number=number, data=packed.get("lines", b""), carried=carried, stored=True, newest=newest)

    # Writing

    def add(self, lines: Iterable[AttemptRecord]) -> None:
        """Lines for the journal; they count at once, and are written with the next `flush`.

        Of an attempt that was opened and closed in between, only the end is written.
        """
        for line in lines:
            place = line.uid, line.task, line.number
            if line.ended:
                self._opened.pop(place, None)
                self._waiting.append(line)
            else:
                self._opened[place] = line

    @property
    def has_changes(self) -> bool:
        return bool(self._waiting or self._opened)

    def flush(self, cursors: Mapping[str, str], now: int) -> Iterator[BookWrite]:
        """The writes that make everything durable, in order; each is to be done before the next one is asked for."""
        tail, waiting = self.tail, [*self._waiting, *self._opened.values()]
        self._waiting, self._opened = [], {}
        tail.lines = [*(tail.lines or ()), *waiting]
        for line in waiting:
            self._fold(line, tail.number)
        self.cursors = dict(cursors)
        yield self._segment_write(tail)
        if len(tail.lines) >= self._limits.lines:
            yield from self._seal(tail, now)

    def _seal(self, tail: Segment, now: int) -> Iterator[BookWrite]:
        after = self._close_tail(tail)
        if tail.number - self._folded >= self._limits.folded_every:
            yield from self._fold_files(tail.number)
            self._folded = tail.number
        gone = [number for number in sorted(self._segments)[: -self._limits.segments] if number <= self._folded]
        for number in gone:
            segment = self._segments[number]
            after.carried += [line for line in (*segment.carried, *segment.read()) if self.ledger.is_latest(line)]
        yield self._segment_write(after)
        for number in gone:
            del self._segments[number]
            yield BookWrite(name=_segment_name(number), body=None)
        if gone or self._folded == tail.number:
            yield from self._expire(now)

    def _fold_files(self, through: int) -> Iterator[BookWrite]:
        """Add the sums of the journal to the files that they belong to."""
        for name in sorted(self._overlay):
            added = self._overlay.pop(name)
            step = TimeStep(name.partition("-")[0])
            file = self._files.setdefault(name, UsageFile(step=step))
            changed = {start: _packed_bucket(step, self._sum(file, start, bucket)) for start, bucket in added.items()}
            file.buckets = {**file.buckets, **changed}
            file.through = through
            body = {
                "metadata": {"labels": {LABEL: "usage"}},
                "data": {"through": str(through)},
                "binaryData": {str(start): _text(data) for start, data in changed.items()},
            }
            yield BookWrite(name=_PREFIX + name, body=body, create=not file.stored)
            file.stored = True

    def _expire(self, now: int) -> Iterator[BookWrite]:
        for name, file in list(self._files.items()):
            if max(file.buckets, default=0) < now - KEPT_SECONDS[file.step]:
                del self._files[name]
                yield BookWrite(name=_PREFIX + name, body=None)

    def _segment_write(self, segment: Segment) -> BookWrite:
        packed = {"lines": _text(_packed(segment.lines or [])), "carried": _text(_packed(segment.carried))}
        cursors = msgspec.json.encode(self.cursors).decode()
        body = {
            "metadata": {"labels": {LABEL: "journal"}},
            "data": {"number": str(segment.number), "folded": str(self._folded), "cursors": cursors},
            "binaryData": packed,
        }
        create, segment.stored = not segment.stored, True
        return BookWrite(name=_segment_name(segment.number), body=body, create=create)

    def _fold(self, line: AttemptRecord, number: int) -> None:
        """Count a line of a segment in the files that do not include the segment."""
        if not line.ended:
            return
        key = UsageKey.of(line)
        for step in TimeStep:
            for start, part in parts(line, step, since=step.floor(line.ended - KEPT_SECONDS[step])):
                name = step.file(start)
                file = self._files.get(name)
                if file is None or number > file.through:
                    add_attempt(self._overlay.setdefault(name, {}).setdefault(start, {}), key, part)

    def _sum(self, file: UsageFile | None, start: int, more: Bucket) -> Bucket:
        """What a file has in a bucket, and more."""
        found = _unpacked_bucket(file.buckets[start]) if file is not None and start in file.buckets else {}
        for key, part in more.items():
            add_attempt(found, key, part)
        return found

    # Answers

    def buckets(self, step: TimeStep, since: int, until: int, now: int) -> Iterator[tuple[int, Bucket]]:
        """The sums of each bucket of a range, with what runs now."""
        live: dict[int, Bucket] = {}
        for line in (*self._waiting, *self.ledger.open):
            key = UsageKey.of(line)
            for start, part in parts(line, step, now=now, since=step.floor(since)):
                if start < until:
                    add_attempt(live.setdefault(start, {}), key, part)
        for start in step.buckets(since, until):
            name = step.file(start)
            found = self._sum(self._files.get(name), start, self._overlay.get(name, {}).get(start, {}))
            for key, part in live.get(start, {}).items():
                add_attempt(found, key, part)
            if found:
                yield start, found

    def ended(
        self, before: tuple[int, int] | None = None, since: int = 0
    ) -> Iterator[tuple[tuple[int, int], AttemptRecord]]:
        """The ended attempts of the journal with their places, newest first, before a place; segments in which all
        ended earlier than `since` are left out.
        """
        newest = self.tail.number
        for number in sorted(self._segments, reverse=True):
            if before is not None and number > before[0]:
                continue
            segment = self._segments[number]
            if segment.lines is None and segment.newest < since:
                continue
            lines = segment.read()
            if number == newest:
                lines = [*lines, *self._waiting]
            end = before[1] if before is not None and number == before[0] else len(lines)
            for index in range(min(end, len(lines)) - 1, -1, -1):
                if lines[index].ended:
                    yield (number, index), lines[index]


def _segment_name(number: int) -> str:
    return f"{_PREFIX}journal-{number:08d}"


_encode: Final = msgspec.json.Encoder()
_lines: Final = msgspec.json.Decoder(list[AttemptRecord])
_rows: Final = msgspec.json.Decoder(list[tuple[UsageKey, UsageSum]])


def _packed(lines: list[AttemptRecord]) -> bytes:
    return zlib.compress(_encode.encode(lines), 6) if lines else b""


def _unpacked(data: bytes) -> list[AttemptRecord]:
    return _lines.decode(zlib.decompress(data)) if data else []


def _packed_bucket(step: TimeStep, bucket: Bucket) -> bytes:
    data = zlib.compress(_encode.encode(sorted(bucket.items(), key=_by_key)), 6)
    for fields in _COARSER:
        if len(data) <= _LARGEST_BUCKET[step]:
            break
        data = zlib.compress(_encode.encode(sorted(without(bucket, *fields).items(), key=_by_key)), 6)
    return data


def _unpacked_bucket(data: bytes) -> Bucket:
    return dict(_rows.decode(zlib.decompress(data)))


def _by_key(item: tuple[UsageKey, Any]) -> UsageKey:
    return item[0]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
