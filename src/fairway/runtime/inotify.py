"""Change events of files from the kernel (inotify), without a thread and without polling.

One `FileChanges` serves any number of files from one kernel object, because a user may have only about a hundred of
those. It watches directories, since a file that is created, replaced or renamed is news of its directory. Where the
kernel offers no such news, or has no more to give, a subscription says so (`live` is false) and its owner has to look
by itself.
"""

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLY_DIRECTORY, _EXCLUDE_UNLINKED = 0x400, 0x800, 0x01000000, 0x04000000
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_WANTED = (
    _MODIFY
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLY_DIRECTORY
    | _EXCLUDE_UNLINKED
)
_HEAD = struct.Struct("iIII")
_READ_AT_ONCE = 64 * 1024


class Subscription:
    """Calls back when one path may have changed; close it when that is of no more interest."""

    __slots__ = ("_changes", "_watch", "callback", "name")

    def __init__(self, changes: "FileChanges", watch: int | None, name: bytes, callback: Callable[[], object]) -> None:
        self._changes = changes
        self._watch = watch
        self.name = name
        self.callback = callback

    @property
    def live(self) -> bool:
        """Whether callbacks will come; false where the directory is missing or gone, or the kernel cannot tell."""
        return self._watch is not None

    def lost(self) -> None:
        self._watch = None
        self.callback()

    def close(self) -> None:
        if self._watch is not None:
            self._changes.unsubscribe(self._watch, self)
            self._watch = None


class FileChanges:
    """The news of this process about files, on one event loop; opened at the first subscription."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscriptions: dict[int, set[Subscription]] = {}

    def subscribe(self, path: Path, callback: Callable[[], object]) -> Subscription:
        """Asks for a callback whenever data is added to the file, or another file takes its name."""
        watch = self._watch(path.parent)
        subscription = Subscription(self, watch, os.fsencode(path.name), callback)
        if watch is not None:
            self._subscriptions.setdefault(watch, set()).add(subscription)
        return subscription

    def unsubscribe(self, watch: int, subscription: Subscription) -> None:
        remaining = self._subscriptions.get(watch)
        if remaining is None:
            return
        remaining.discard(subscription)
        if not remaining:
            del self._subscriptions[watch]
            if self._file is not None:
                _LIBC.remove(self._file, watch)

    def close(self) -> None:
        """End every subscription; each subscriber gets one last event, to check by itself."""
        if self._file is not None and self._loop is not None:
            self._loop.remove_reader(self._file)
            os.close(self._file)
        self._file = self._loop = None
        for watch in list(self._subscriptions):
            self._lose(watch)

    def _watch(self, directory: Path) -> int | None:
        if self._file is None:
            self._open()
        if self._file is None:
            return None
        watch = _LIBC.add(self._file, os.fsencode(directory), _WANTED)
        return watch if watch >= 0 else None

    def _open(self) -> None:
        file = _LIBC.init(os.O_CLOEXEC | os.O_NONBLOCK)
        if file < 0:
            return
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(file, self._read)
        self._file = file

    def _read(self) -> None:
        if self._file is None:
            return
        try:
            news = os.read(self._file, _READ_AT_ONCE)
        except BlockingIOError:
            return
        changed: set[tuple[int, bytes]] = set()
        position = 0
        while position < len(news):
            watch, mask, _, length = _HEAD.unpack_from(news, position)
            position += _HEAD.size + length
            if mask & _OVERFLOW:
                self._notify_all()
            elif mask & (_IGNORED | _DELETE_SELF | _MOVE_SELF):
                self._lose(watch)
            else:
                changed.add((watch, news[position - length : position].rstrip(b"\0")))
        for watch, name in changed:
            for subscription in tuple(self._subscriptions.get(watch, ())):
                if subscription.name == name:
                    subscription.callback()

    def _notify_all(self) -> None:
        for subscriptions in tuple(self._subscriptions.values()):
            for subscription in tuple(subscriptions):
                subscription.callback()

    def _lose(self, watch: int) -> None:
        if self._file is not None:
            _LIBC.remove(self._file, watch)  # a directory that was moved is still watched, at its new place
        for subscription in self._subscriptions.pop(watch, ()):
            subscription.lost()


class _Libc:
    """The three calls, which say -1 where there are none."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._init = getattr(library, "inotify_init1", None)
        self._add = getattr(library, "inotify_add_watch", None)
        self._remove = getattr(library, "inotify_rm_watch", None)

    def init(self, flags: int) -> int:
        return -1 if self._init is None else int(self._init(flags))

    def add(self, file: int, path: bytes, mask: int) -> int:
        return -1 if self._add is None else int(self._add(file, path, ctypes.c_uint32(mask)))

    def remove(self, file: int, watch: int) -> int:
        return -1 if self._remove is None else int(self._remove(file, watch))


_LIBC = _Libc()
