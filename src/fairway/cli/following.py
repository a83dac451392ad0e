"""Follows a job: why it waits, what each attempt writes, how it ends.

What the job writes goes to standard output; what is said about the job goes to standard error. Changes are watched, not
asked for; only the place in the queue, which no object holds, is asked for again now and then.
"""

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final

from fairway.cli.choosing import Manifest, has_ended, phase_of, title
from fairway.cli.joblogs import AttemptLog, LogFilter, Patience, TaskAttempt, attempt_of, parts_of
from fairway.cli.narrating import Narrator
from fairway.cli.prospects import LOOKS_TO_BE_SURE, CannotRun
from fairway.cli.session import Session
from fairway.cli.tables import plain
from fairway.client.rest import Unreachable, paths
from fairway.errors import BadRequest, Expired, NotFound, Unavailable

_LOOK_AGAIN_SECONDS: Final = 2
"""How often the place in the queue is asked for."""

_WATCH_SECONDS: Final = 300
_QUEUED: Final = frozenset({"PENDING", "RECOVERING"})
_ALL: Final = LogFilter()


def follow(session: Session, job: Manifest, shown: LogFilter = _ALL, done: Iterable[TaskAttempt] = ()) -> Manifest:
    """Tell of a job until it has ended, but for the attempts that are `done`; return what it was then.

    `CannotRun` ends it earlier, with the reason.
    """
    return _Follower(session, job, shown, done).run()


def show(session: Session, job: Manifest, parts: Iterable[TaskAttempt], shown: LogFilter) -> None:
    """What some attempts have written so far."""
    narrator = Narrator(title(job))
    parts = list(parts)
    for part in parts:
        if len(parts) > 1:
            narrator.begins(_task(job, part), part.attempt)
        for piece in _log(session, job, part, shown, narrator.away).pieces(follow=False):
            write(piece)
        if part != parts[-1]:
            narrator.ends(_task(job, part), part.attempt, attempt_of(job, part))


def _log(
    session: Session, job: Manifest, part: TaskAttempt, shown: LogFilter, on_away: Callable[[], None]
) -> AttemptLog:
    """The log of an attempt, from where the job runs: a server of ours or a cluster, this one or another one."""
    if attempt_of(job, part).get("infra"):
        from fairway.cli.farlogs import find_far_log  # noqa: PLC0415 - only for jobs that were sent on

        found = find_far_log(job, part)
        if found is not None:
            return AttemptLog(found.rest, found.job, found.part, shown, on_away, found.source)
    if not session.is_cluster:
        return AttemptLog(session.rest, job, part, shown, on_away)
    from fairway.cli.clusterlogs import cluster_log  # noqa: PLC0415 - not on one machine

    return AttemptLog(session.rest, job, part, shown, on_away, cluster_log)


def is_pipeline(job: Manifest) -> bool:
    return len(job["spec"]["tasks"]) > 1


def _task(job: Manifest, part: TaskAttempt) -> int | None:
    """Which task, where there are several."""
    return part.task if is_pipeline(job) else None


def write(piece: bytes) -> None:
    """Pass on what a job wrote, at once."""
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


class _Follower:
    def __init__(self, session: Session, job: Manifest, shown: LogFilter, done: Iterable[TaskAttempt]) -> None:
        self._session = session
        self._job = job
        self._shown = shown
        self._done = set(done)
        self._narrator = Narrator(title(job))
        self._hopeless = 0
        self._reason = ""

    def run(self) -> Manifest:
        """Whatever comes first: an attempt to show, the end, or a change to wait for."""
        try:
            while True:
                new = [part for part in parts_of(self._job) if part not in self._done]
                if new:
                    self._attempt(new[0])
                    self._done.add(new[0])
                elif has_ended(self._job):
                    return self._job
                else:
                    self._narrator.waiting(phase_of(self._job), *self._why())
                    self._give_up()
                    self._wait(_LOOK_AGAIN_SECONDS if phase_of(self._job) in _QUEUED else _WATCH_SECONDS)
        finally:
            self._narrator.pause()

    def _give_up(self) -> None:
        """End if the job was found unable to run again and again."""
        if self._hopeless >= LOOKS_TO_BE_SURE:
            self._narrator.pause()
            raise CannotRun(self._job, self._reason)

    def _attempt(self, part: TaskAttempt) -> None:
        """Print the log of an attempt as it is written, and its result when it is known."""
        self._narrator.begins(_task(self._job, part), part.attempt)
        log = _log(self._session, self._job, part, self._shown, self._narrator.away)
        while True:
            try:
                for piece in log.pieces(follow=True):
                    write(piece)
            except NotFound:
                pass  # the job is gone; the next look at it tells
            except BadRequest as error:  # it runs elsewhere
                self._narrator.remark(str(error))
            if self._has_ended(part):
                break
            # The end of a log is known before that of an attempt; or the server has only just gone away.
            self._wait(_LOOK_AGAIN_SECONDS)
        if not has_ended(self._job):
            self._narrator.ends(_task(self._job, part), part.attempt, attempt_of(self._job, part))

    def _has_ended(self, part: TaskAttempt) -> bool:
        found = attempt_of(self._job, part)
        return has_ended(self._job) or not found or bool(found.get("endedAt"))

    def _wait(self, seconds: int) -> None:
        """Until the job has changed, at most for so long."""
        patience = Patience(self._narrator.away)
        while True:
            try:
                self._look(seconds)
            except (Unreachable, Unavailable) as error:
                patience.after(error)
            else:
                return

    def _look(self, seconds: int) -> None:
        metadata = self._job["metadata"]
        try:
            with closing(
                self._session.rest.watch(
                    paths.jobs(metadata["namespace"]),
                    fieldSelector=f"metadata.name={metadata['name']}",
                    resourceVersion=metadata["resourceVersion"],
                    timeoutSeconds=seconds,
                )
            ) as events:
                event = next(events, None)
        except Expired:
            self._job = self._session.rest.get(paths.job(metadata["namespace"], metadata["name"]))
            return
        if event is not None and event["type"] == "DELETED":
            raise NotFound(f"job {title(self._job)} was deleted")
        if event is not None:
            self._job = event["object"]

    def _why(self) -> tuple[str, str]:
        """Where in its queue the job is, and why it waits."""
        import msgspec  # noqa: PLC0415 - only for those who wait

        from fairway.cli.jobs import wording  # noqa: PLC0415
        from fairway.cli.jobs.records import JobRow, PendingRow  # noqa: PLC0415
        from fairway.cli.waiting import waiting_job  # noqa: PLC0415

        workload = (self._job.get("status") or {}).get("workload")
        waiting = None
        if workload and phase_of(self._job) in _QUEUED:
            try:
                found = waiting_job(self._session, self._job["metadata"]["namespace"], workload)
                waiting = None if found is None else msgspec.convert(found, PendingRow)
            except (NotFound, Unreachable, Unavailable):
                pass  # the server is away
        self._hopeless = self._hopeless + 1 if waiting is not None and not waiting.can_ever_run else 0
        self._reason = "" if waiting is None else plain(waiting.message)
        place = f"position {waiting.position} in {waiting.cluster_queue}" if waiting and waiting.position else ""
        return place, wording.in_short(msgspec.convert(self._job, JobRow), waiting)
