"""The one thread of the supervisor: it waits for files, signals and timers, and calls their handlers."""

import heapq
import os
import select
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count

READABLE, WRITABLE = select.EPOLLIN, select.EPOLLOUT

Called = Callable[[], object]


def note(text: str) -> None:
    """A line for people, in `supervisor.log`."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with suppress(OSError):  # on a full disk there are other worries
        os.write(2, f"{moment} [{os.getpid()}] {text}\n".encode(errors="replace"))


class Loop:
    """Files to watch, times to wait for, and the signals of this process."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Called] = {}
        self._timers: list[tuple[float, int, Called]] = []
        self._order = count()
        self._soon: deque[Called] = deque()
        self._signals: dict[int, Called] = {}
        self._arrived: set[int] = set()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)  # noqa: FBT003 - the standard library's signature
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self.watch(self._woken.fileno(), READABLE, lambda: None)

    def watch(self, file: int, events: int, call: Called) -> None:
        """Call whenever the file is ready, until `unwatch`; watching it again changes what is waited for."""
        if file in self._watched:
            self._epoll.modify(file, events)
        else:
            self._epoll.register(file, events)
        self._watched[file] = call

    def unwatch(self, file: int) -> None:
        """To be called before the file is closed."""
        if self._watched.pop(file, None) is not None:
            self._epoll.unregister(file)

    def after(self, seconds: float, call: Called) -> None:
        """Call once; there is no cancellation, so the callback checks whether it is still needed."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), call))

    def soon(self, call: Called) -> None:
        """Call in the next turn, after everybody who is due now."""
        self._soon.append(call)

    def on_signal(self, number: int, call: Called) -> None:
        """Call in a turn of the loop. Not ignored but handled, so that programs begin with the signal as usual."""
        self._signals[number] = call
        signal.signal(number, lambda arrived, _: self._arrived.add(arrived))

    def turn(self) -> None:
        """Wait until something is due, and do all that is."""
        soon, self._soon = self._soon, deque()
        ready = self._epoll.poll(self._patience(busy=bool(soon)))
        if self._arrived:
            self._deliver_signals()
        for file, _ in ready:
            call = self._watched.get(file)
            if call is not None and not self._safely(call):
                self.unwatch(file)  # it would come up again at once, for ever
        for call in soon:
            self._safely(call)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._safely(heapq.heappop(self._timers)[2])

    def close(self) -> None:
        """Give back what the kernel lent; nothing is waited for any more."""
        self._epoll.close()
        self._woken.close()
        self._wake.close()

    def _patience(self, *, busy: bool) -> float | None:
        if busy or self._arrived:
            return 0
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _deliver_signals(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        arrived, self._arrived = self._arrived, set()
        for number in arrived:
            self._safely(self._signals[number])

    def _safely(self, call: Called) -> bool:
        """Whatever goes wrong for one must not end the processes of all."""
        try:
            call()
        except Exception:  # noqa: BLE001 - the boundary between one matter and all others
            note(f"unexpected: {traceback.format_exc()}")
            return False
        return True
