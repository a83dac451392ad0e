"""Waiting until jobs are as they should be, by watching them: nothing is asked for again and again."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from fairway.cli.choosing import Manifest
from fairway.cli.joblogs import Patience
from fairway.cli.session import Session, tell
from fairway.client.rest import Unreachable, paths
from fairway.errors import Expired, Unavailable

_WATCH_SECONDS: Final = 300


def until(session: Session, jobs: Sequence[Manifest], done: Callable[[Manifest], bool]) -> list[Manifest]:
    """The jobs when all of them are `done` or gone; of one that is gone, what it was at last.

    `jobs` are as the server had them at one moment.
    """
    waiting = _Waiting(jobs, done)
    spaces = {job["metadata"]["namespace"] for job in jobs}
    path = paths.jobs(spaces.pop() if len(spaces) == 1 else None)
    patience = Patience(_away)
    while not waiting.over:
        try:
            _look(session, path, waiting)
            patience.renew()
        except (Unreachable, Unavailable) as error:
            patience.after(error)
    return [waiting.last[job["metadata"]["uid"]] for job in jobs]


class _Waiting:
    def __init__(self, jobs: Sequence[Manifest], done: Callable[[Manifest], bool]) -> None:
        self.last = {job["metadata"]["uid"]: job for job in jobs}
        self._done = done
        self._left = {uid for uid, job in self.last.items() if not done(job)}
        self.version = str(max((int(job["metadata"]["resourceVersion"]) for job in jobs), default=0))

    @property
    def over(self) -> bool:
        return not self._left

    def seen(self, job: Manifest, *, gone: bool) -> None:
        uid = job["metadata"]["uid"]
        if uid in self._left:
            self.last[uid] = job
            if gone or self._done(job):
                self._left.discard(uid)

    def listed(self, jobs: Sequence[Manifest]) -> None:
        """All that there are: the others are gone."""
        for job in jobs:
            self.seen(job, gone=False)
        self._left &= {job["metadata"]["uid"] for job in jobs}


def _look(session: Session, path: str, waiting: _Waiting) -> None:
    try:
        with closing(
            session.rest.watch(path, resourceVersion=waiting.version, timeoutSeconds=_WATCH_SECONDS)
        ) as events:
            for event in events:
                waiting.version = event["object"]["metadata"]["resourceVersion"]
                waiting.seen(event["object"], gone=event["type"] == "DELETED")
                if waiting.over:
                    return
    except Expired:
        found = session.rest.get(path)
        waiting.version = found["metadata"]["resourceVersion"]
        waiting.listed(found["items"])


def _away() -> None:
    tell("The server does not answer; trying again ...")
