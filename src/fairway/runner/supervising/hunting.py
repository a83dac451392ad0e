"""Kills the processes that a killed supervisor left, before they are reported as ended.

A process is its stray if it is one that the journal names, is in the session of one, carries the mark of this state
directory in its environment, or was started by such a process; also the predecessor itself and what it was about to
start, which still goes by the predecessor's own command. Each is killed through a handle on that very process, so a pid
that was reused in the meantime does no harm. It is over when there is nothing to be found, twice.
"""

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from fairway.runner.supervising import proc
from fairway.runner.supervising.journal import Trace
from fairway.runner.supervising.loop import READABLE, Loop, note

MODULE = "fairway.runner.supervising"
"""What a supervisor is started as, with its state directory as an argument."""

_LOOKS = 2
_NOT_LONGER_THAN = 1.0
"""Seconds to wait for those that are killed, until the next look: they may have begun others meanwhile."""


class Hunt:
    """The hunt for all strays of one state directory; calls back when none is left."""

    def __init__(
        self,
        *,
        loop: Loop,
        traces: Mapping[str, Trace],
        is_ours: Callable[[str], bool],
        directory: str,
        confined: Callable[[], Iterable[int]],
        over: Callable[[], None],
    ) -> None:
        """`is_ours` knows the marks that another supervisor of this directory gave, `confined` who is in its groups."""
        self._loop = loop
        self._births = {trace.pid: trace.birth for trace in traces.values() if trace.pid is not None}
        self._is_ours = is_ours
        self._directory = directory
        self._confined = confined
        self._over = over
        self._spared = {os.getpid(), os.getppid()}
        self._awaited: dict[int, int] = {}
        """Those killed, and the handle that tells when they are gone."""

        self._empty_looks = 0
        self._round = 0

    def go_on(self) -> None:
        """Look, and kill what is found."""
        found = self._strays()
        for pid, birth in found.items():
            self._kill(pid, birth)
        self._empty_looks = 0 if found else self._empty_looks + 1
        if self._empty_looks >= _LOOKS:
            self._over()
            return
        self._round += 1
        if not self._awaited:
            self._loop.soon(self.go_on)
        else:
            round_now = self._round
            self._loop.after(_NOT_LONGER_THAN, lambda: self.go_on() if round_now == self._round else None)

    def _strays(self) -> dict[int, int]:
        """Their pids, and when they were born."""
        confined = set(self._confined())
        everybody = {pid: stat for pid in proc.all_pids() if (stat := proc.read_stat(pid)) is not None}
        found: dict[int, int] = {}
        for pid, stat in everybody.items():
            if pid in self._spared or stat.is_gone:
                continue
            if pid in confined or self._is_named(pid, stat) or self._is_marked(pid):
                found[pid] = stat.birth
        while children := {
            pid: stat.birth
            for pid, stat in everybody.items()
            if stat.parent in found and pid not in found and pid not in self._spared and not stat.is_gone
        }:
            found |= children
        return found

    def _is_named(self, pid: int, stat: proc.Stat) -> bool:
        """Whether the journal names it, or the leader of its session."""
        born = self._births.get(stat.session)
        if born is None:
            return False
        if pid == stat.session:
            return stat.birth == born
        leader = proc.read_stat(stat.session)
        return stat.birth >= born if leader is None else leader.birth == born

    def _is_marked(self, pid: int) -> bool:
        marks = proc.marks_of(pid)
        if marks is not None and self._is_ours(marks[0]):
            return True
        command = proc.command_of(pid)
        return MODULE in command and self._directory in command

    def _kill(self, pid: int, birth: int) -> None:
        if pid in self._awaited:
            return
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        stat = proc.read_stat(pid)
        if stat is None or stat.birth != birth:
            os.close(handle)
            return
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except PermissionError as error:
            note(f"cannot end process {pid}, which belongs to a job: {error}")
            self._spared.add(pid)
            os.close(handle)
            return
        except ProcessLookupError:
            pass
        self._awaited[pid] = handle
        self._loop.watch(handle, READABLE, lambda: self._gone(pid))

    def _gone(self, pid: int) -> None:
        handle = self._awaited.pop(pid)
        self._loop.unwatch(handle)
        with suppress(OSError):
            os.close(handle)
        if not self._awaited:
            self._round += 1
            self.go_on()
