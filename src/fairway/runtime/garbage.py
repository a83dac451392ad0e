"""Scheduling of Python's garbage collector in a process with millions of long-lived objects.

Python by itself goes through all new objects whenever there are so many more of them. Here nearly all of them are new
states of stored objects, and none is garbage: it is time spent on finding nothing. So they are taken in *batches*, and
only a sample of the batches is gone through. While that finds nothing, the sample gets smaller, down to one in
`_RAREST`; a batch with garbage in it makes the next ones be gone through, too. The rest is set aside without a look
(`gc.freeze` takes no time), and is gone through by a *sweep* of everything: when the process is idle, and so
seldom that it costs next to nothing, or when so much was set aside that it could matter.

Objects outside of cycles are freed at once as ever. Of their memory only large buffers are a concern here
(`return_large_buffers`).
"""

import ctypes
import gc
import logging
from contextlib import suppress
from typing import Final

from fairway.runtime.clock import Clock

_log = logging.getLogger(__name__)

BATCH: Final = 20_000
"""How many objects more than before make a batch."""

_RAREST: Final = 8
_M_MMAP_THRESHOLD: Final = -3
"""From glibc's malloc.h."""

_MUCH_GARBAGE: Final = BATCH // 100
_MOST_AT_ONCE: Final = 5 * BATCH
"""Going through more new objects than this would keep others waiting."""

_MOST_UNSEEN: Final = 4_000_000
_BUSY_SECONDS: Final = 0.25
_QUIET_SECONDS: Final = 5.0
_QUIET_LOOKS: Final = 3
"""After so many looks that found next to nothing new and were not delayed, the process is idle."""

_LATE_SECONDS: Final = 0.005
_SWEEP_SHARE: Final = 0.0001
"""What share of the time sweeps may take while the process is idle."""


def return_large_buffers() -> None:
    """Let glibc return a freed buffer of 128 KiB or more to the system at once.

    By default the first such buffer that is freed raises this bound, so that later ones are kept in a heap with holes:
    300 stalled watchers of large objects took 184 MB, a third more.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 << 10)


class GarbageKeeper:
    """Takes over from Python's own rules for as long as it runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._every = 1
        """One batch in so many is gone through."""

        self._passed_over = 0
        self._unseen = 0
        """How many objects were set aside since the last sweep."""

        self._quiet_looks = 0
        self._next_sweep = 0.0

    async def run(self) -> None:
        """Look after garbage until cancelled."""
        self._sweep()
        gc.disable()
        try:
            while True:
                busy = gc.get_count()[0] > BATCH // 4
                seconds = _BUSY_SECONDS if busy else _QUIET_SECONDS
                due = self._clock.monotonic() + seconds
                await self._clock.sleep(seconds)
                in_time = self._clock.monotonic() - due <= _LATE_SECONDS
                self._quiet_looks = self._quiet_looks + 1 if in_time and not busy else 0
                self._look()
        finally:
            gc.enable()

    def _look(self) -> None:
        new = gc.get_count()[0]
        if new >= BATCH:
            self._take_batch(new)
        idle = self._quiet_looks >= _QUIET_LOOKS and self._clock.monotonic() >= self._next_sweep
        if self._unseen > (0 if idle else _MOST_UNSEEN):
            self._sweep()

    def _take_batch(self, new: int) -> None:
        self._passed_over += 1
        if self._passed_over >= self._every and new <= _MOST_AT_ONCE:
            self._passed_over = 0
            found = gc.collect(0)
            self._every = 1 if found > _MUCH_GARBAGE else min(self._every * 2, _RAREST)
        self._unseen += new
        gc.freeze()

    def _sweep(self) -> None:
        """Go through everything."""
        began = self._clock.monotonic()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        ended = self._clock.monotonic()
        self._unseen = self._quiet_looks = 0
        self._next_sweep = ended + (ended - began) / _SWEEP_SHARE
        _log.debug("garbage collection took %.3f s and freed %d objects", ended - began, found)
