"""CPU shares for processes that have run for a while.

To put a process into a control group takes the kernel up to tens of milliseconds, while a share of the CPU matters only
to what runs for seconds. So a process that has a share and no limit begins outside, and is moved a second later with
all that it has started, by a thread, so that the kernel's wait blocks nothing else.
"""

import os
import queue
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from fairway.runner.supervising import proc

AFTER_SECONDS: Final = 1.0
_ROUNDS: Final = 3
"""How often processes that were started during a move are looked for."""


class Mover:
    """Moves processes into control groups; its thread begins with the first one."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[int, str, list[str]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def move(self, pid: int, process_id: str, entrances: list[str]) -> None:
        """Soon put a process and all that it has started into the groups behind these `cgroup.procs`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mover", daemon=True)
            self._thread.start()
        self._asked.put((pid, process_id, entrances))

    def _run(self) -> None:
        while True:
            pid, process_id, entrances = self._asked.get()
            moved: set[int] = set()
            for _ in range(_ROUNDS):
                found = descendants(pid, process_id) - moved
                if not found:
                    break
                _enter(found, entrances)
                moved |= found


def descendants(pid: int, process_id: str) -> set[int]:
    """A process, all in its session, its orphans, which are children of this process, and what those started."""
    stats = {one: stat for one in proc.all_pids() if (stat := proc.read_stat(one)) is not None and not stat.is_gone}
    if pid not in stats:
        return set()
    orphans = [one for one, stat in stats.items() if stat.parent == os.getpid() and one != pid]
    found = {pid} | {one for one, stat in stats.items() if stat.session == pid}
    found |= {one for one in orphans if (marks := proc.marks_of(one)) is not None and marks[1] == process_id}
    while more := {one for one, stat in stats.items() if stat.parent in found} - found:
        found |= more
    return found


def _enter(pids: Iterable[int], entrances: list[str]) -> None:
    for entrance in entrances:
        with suppress(OSError):  # the group went with its process
            descriptor = os.open(entrance, os.O_WRONLY | os.O_CLOEXEC)
            try:
                for pid in pids:
                    with suppress(OSError):  # it has ended
                        os.write(descriptor, str(pid).encode())
            finally:
                os.close(descriptor)
