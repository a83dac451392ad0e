"""Open streams (watches and followed logs): how many there may be, and who may keep one.

A request is authorized once, when it arrives; a stream may outlive the token it was opened with. So open streams are
authorized again whenever the users or the served kinds change or a token expires, and end within a second where that
is refused. None lasts for ever (`Limits.watch_seconds`, `Limits.log_seconds`). A watch then ends as after its timeout:
the client watches again, and is refused if it no longer may. A followed log is cut off instead, because its regular end
would mean that the container has ended.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from fairway.errors import ApiError, TooManyRequests
from fairway.server.access.authentication import Authentication

_CHECK_SECONDS: Final = 0.25
"""The users file is looked at this often while streams are open. Being notified by the kernel would cost more: the
database is in the same directory, and every commit would be reported too."""


class Stream:
    """One open stream."""

    __slots__ = ("authorize", "expires", "is_over", "task")

    def __init__(self, authorize: Callable[[], datetime | None]) -> None:
        self.authorize = authorize
        """Raises `ApiError` if the stream is no longer allowed; returns when its token expires."""

        self.task: asyncio.Task[Any] | None = asyncio.current_task()
        self.expires = authorize()
        self.is_over = False
        """Whether the server has ended it: it is no longer allowed, or has lasted as long as a stream may."""

    def end(self) -> None:
        self.is_over = True
        self.cancel()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Streams:
    """All open streams of a server."""

    def __init__(self, authentication: Authentication, now: Callable[[], datetime], most: int) -> None:
        self._authentication = authentication
        self._now = now
        self._most = most
        self._streams: set[Stream] = set()
        self._generation: int | None = 0
        """The users that all streams were authorized for; `None` if they are to be authorized again."""

        self._timer: asyncio.TimerHandle | None = None
        self.ending = False
        """Whether the server is going down."""

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def open(self, authorize: Callable[[], datetime | None], longest_seconds: float) -> Iterator[Stream]:
        """Count one more stream; it ends (the current task is cancelled) when `authorize` refuses it or time is up."""
        if len(self._streams) >= self._most:
            raise TooManyRequests(f"{self._most} watches are open; close some, or try again later")
        stream = Stream(authorize)
        self._streams.add(stream)
        if self._timer is None:
            self._generation = self._authentication.generation()
            self._check_later()
        longest = asyncio.get_running_loop().call_later(longest_seconds, stream.end)
        try:
            yield stream
        finally:
            longest.cancel()
            self._streams.discard(stream)

    def authorize_soon(self) -> None:
        """Authorize every stream again at the next check."""
        self._generation = None

    def end_all(self) -> None:
        """End every stream: the server is going down, and clients will find the next one."""
        self.ending = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for stream in self._streams:
            stream.cancel()

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._streams:
            return
        self._check_later()
        generation, now = self._authentication.generation(), self._now()
        changed = generation != self._generation
        self._generation = generation
        for stream in tuple(self._streams):
            if changed or (stream.expires is not None and stream.expires <= now):
                self._authorize_again(stream)

    def _authorize_again(self, stream: Stream) -> None:
        try:
            stream.expires = stream.authorize()
        except ApiError:
            stream.end()
