"""Waiting until jobs reach a state, by watching them."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from fairway.cli.choosing import Manifest
from fairway.cli.joblogs import Patience
from fairway.cli.session import Session, print_note
from fairway.client.rest import Unreachable, paths
from fairway.errors import Expired, FairwayError, Unavailable

_WATCH_SECONDS: Final = 300


class TimedOut(FairwayError):
    """The time to wait has passed; `jobs` are what they were last seen as."""

    def __init__(self, jobs: list[Manifest]) -> None:
        self.jobs = jobs
        super().__init__("the time to wait has passed")


def until(
    session: Session,
    jobs: Sequence[Manifest],
    done: Callable[[Manifest], bool],
    *,
    on_done: Callable[[Manifest], None] = lambda _job: None,
    seconds: float | None = None,
    check: Callable[[list[Manifest]], int | None] = lambda _left: _WATCH_SECONDS,
) -> list[Manifest]:
    """The jobs when all of them are `done` or deleted; a deleted one as it was last seen.

    `jobs` are as a server of ours had them at one moment, or as a cluster returned each of them. After `seconds` it is
    `TimedOut`, and the session is over. `check` is called with the jobs that are left before each watch and returns how
    many seconds to watch, or `None` to stop.
    """
    progress = _Progress(jobs, done, on_done, earliest=session.is_cluster)
    spaces = {job["metadata"]["namespace"] for job in jobs}
    path = paths.jobs(spaces.pop() if len(spaces) == 1 else None)
    patience = Patience(_away)
    deadline = None if seconds is None else time.monotonic() + seconds
    # A watch may be silent for ever, so the end of the time comes from another thread.
    alarm = threading.Timer(seconds or 0.0, session.rest.abort)
    alarm.daemon = True
    if deadline is not None and not progress.over:
        alarm.start()
    try:
        while not progress.over:
            try:
                watch_for = check(progress.left)
                if watch_for is None:
                    break
                _look(session, path, progress, watch_for)
                patience.renew()
            except (Unreachable, Unavailable) as error:
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimedOut(progress.jobs()) from None
                patience.after(error)
    finally:
        alarm.cancel()
    return progress.jobs()


class _Progress:
    """Which jobs are not done yet."""

    def __init__(
        self,
        jobs: Sequence[Manifest],
        done: Callable[[Manifest], bool],
        on_done: Callable[[Manifest], None],
        *,
        earliest: bool,
    ) -> None:
        """`earliest`: the jobs are of different moments, so changes count from the first of them."""
        self._last = {job["metadata"]["uid"]: job for job in jobs}
        self._done = done
        self._on_done = on_done
        self._left = set(self._last)
        versions = [int(job["metadata"]["resourceVersion"]) for job in jobs]
        self.version = str((min if earliest else max)(versions, default=0))
        for job in jobs:
            self.seen(job, gone=False)

    @property
    def over(self) -> bool:
        return not self._left

    def jobs(self) -> list[Manifest]:
        return list(self._last.values())

    @property
    def left(self) -> list[Manifest]:
        return [job for uid, job in self._last.items() if uid in self._left]

    def seen(self, job: Manifest, *, gone: bool) -> None:
        uid = job["metadata"]["uid"]
        if uid in self._left:
            self._last[uid] = job
            if gone or self._done(job):
                self._left.discard(uid)
                self._on_done(job)

    def listed(self, jobs: Sequence[Manifest]) -> None:
        """These are all that exist: the others were deleted."""
        for job in jobs:
            self.seen(job, gone=False)
        for uid in self._left - {job["metadata"]["uid"] for job in jobs}:
            self.seen(self._last[uid], gone=True)


def _look(session: Session, path: str, progress: _Progress, seconds: int) -> None:
    try:
        with closing(session.rest.watch(path, resourceVersion=progress.version, timeoutSeconds=seconds)) as events:
            for event in events:
                progress.version = event["object"]["metadata"]["resourceVersion"]
                progress.seen(event["object"], gone=event["type"] == "DELETED")
                if progress.over:
                    return
    except Expired:
        found = session.rest.get(path)
        progress.version = found["metadata"]["resourceVersion"]
        progress.listed(found["items"])


def _away() -> None:
    print_note("The server does not answer; retrying ...")
