"""Every attempt counted once, whatever of an object was seen, in which order, and how often.

An attempt is *opened* when it is first seen and *closed* when it has ended; each is a line to be written. What was
written is read back after a restart (`restore`), and the same objects then give no line again.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from fairway.accounting.attempts import AttemptEnd, AttemptRecord

DELETED: Final = "Deleted"
_NONE: Final[Mapping[int, AttemptRecord]] = {}
_NOTHING: Final[Mapping[int, int]] = {}


class AttemptLedger:
    """The attempts that run, and the number of the last one that was closed, by job and task."""

    def __init__(self) -> None:
        self._open: dict[str, dict[int, AttemptRecord]] = {}
        self.closed: dict[str, dict[int, int]] = {}
        """Only of objects that exist: those that are gone say nothing again."""

    @property
    def open(self) -> Iterator[AttemptRecord]:
        """The attempts that run."""
        return (line for tasks in self._open.values() for line in tasks.values())

    def restore(self, line: AttemptRecord) -> None:
        """Take in a line that was written."""
        if line.ended:
            self._close(line)
        else:
            self._open.setdefault(line.uid, {})[line.task] = line

    def restore_end(self, line: AttemptRecord) -> None:
        """Take in an end of a job that is gone: it does not run, and no change of it will follow."""
        tasks = self._open.get(line.uid)
        if tasks is not None and tasks.get(line.task, line).number <= line.number:
            self._end(line)

    def observe(self, seen: Iterable[AttemptRecord]) -> Iterator[AttemptRecord]:
        """The lines that the attempts of one object are worth."""
        for attempt in seen:
            ended = attempt
            if attempt.number <= self.closed.get(attempt.uid, _NOTHING).get(attempt.task, 0):
                continue
            known = self._open.get(attempt.uid, _NONE).get(attempt.task)
            if known is not None and known.number != attempt.number and attempt.started:
                # Its end was never seen: it cannot have lasted longer than until the next one was queued or begun.
                over = max(min(attempt.queued or attempt.started, attempt.started), known.started)
                known = msgspec.structs.replace(known, ended=over, outcome=AttemptEnd.EVICTED)
                self._close(known)
                yield known
                known = None
            if not attempt.ended:
                if known is None and attempt.started:
                    self._open.setdefault(attempt.uid, {})[attempt.task] = attempt
                    yield attempt
                continue
            if known is not None:
                ended = _merged(known, attempt)
            if ended.started:
                self._close(ended)
                yield ended

    def remove(self, uid: str, when: int) -> Iterator[AttemptRecord]:
        """The lines that the deletion of an object is worth: what ran ends now."""
        for known in list(self._open.get(uid, _NONE).values()):
            over = msgspec.structs.replace(
                known, ended=max(when, known.started), outcome=AttemptEnd.CANCELLED, reason=DELETED
            )
            self._close(over)
            yield over
        self.closed.pop(uid, None)

    def forget_missing(self, existing: Iterable[str], when: int) -> Iterator[AttemptRecord]:
        """The same for all objects that are not among these."""
        known = {*self.closed, *self._open}
        for uid in sorted(known.difference(existing)):
            yield from self.remove(uid, when)

    def is_latest(self, line: AttemptRecord) -> bool:
        """Whether a line is still needed to know what was counted: of the last attempt of an object that exists."""
        if not line.ended:
            return self._open.get(line.uid, _NONE).get(line.task) == line
        return self.closed.get(line.uid, _NOTHING).get(line.task) == line.number

    def _close(self, line: AttemptRecord) -> None:
        self._end(line)
        numbers = self.closed.setdefault(line.uid, {})
        numbers[line.task] = max(line.number, numbers.get(line.task, 0))

    def _end(self, line: AttemptRecord) -> None:
        tasks = self._open.get(line.uid)
        if tasks is not None:
            tasks.pop(line.task, None)
            if not tasks:
                del self._open[line.uid]


def _merged(opened: AttemptRecord, ended: AttemptRecord) -> AttemptRecord:
    """An end, with what only its beginning says: quota that was released is no longer in the object."""
    return msgspec.structs.replace(
        opened,
        number=max(opened.number, ended.number),
        ended=max(ended.ended, opened.started),
        outcome=ended.outcome,
        reason=ended.reason,
        message=ended.message,
    )
