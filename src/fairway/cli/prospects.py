"""Whether jobs that wait can ever run with the current nodes and quotas."""

import time
from collections.abc import Callable
from typing import Final

from fairway.cli.choosing import Manifest, id_of, phase_of, title
from fairway.cli.session import Session
from fairway.cli.tables import plain
from fairway.client.rest import paths
from fairway.errors import ApiError, FairwayError, Forbidden, NotFound

_MOST_SECONDS: Final = 3.0
_STEP_SECONDS: Final = 0.02
_UNTRIED: Final = frozenset({"NotTried", ""})
_QUEUED: Final = frozenset({"PENDING", "RECOVERING"})
_LOOK_AGAIN_SECONDS: Final = 2
_LONGEST_PAUSE_SECONDS: Final = 16

LOOKS_TO_BE_SURE: Final = 2
"""How often in a row a job must be found unable to run: one with several candidates moves to the next."""


class CannotRun(FairwayError):
    """A job that waits and can never run with the current nodes and quotas. It stays queued."""

    exit_code = 3

    def __init__(self, job: Manifest, reason: str) -> None:
        number = id_of(job)
        super().__init__(
            f"job {title(job)} can never run with the current nodes and quotas: {reason}. It stays queued; "
            f"`fairway jobs why {number}` shows what would admit it, `fairway jobs cancel {number}` stops it"
        )


class Prospects:
    """Checks from time to time whether any of the jobs that are left can run.

    Only while all of them are queued: a job that runs, or is about to, ends by itself.
    """

    def __init__(self, session: Session) -> None:
        self.stuck: list[tuple[Manifest, str]] = []
        """When none can: each job with its reason."""
        self._session = session
        self._looks = 0
        self._pause = _LOOK_AGAIN_SECONDS

    def check(self, left: list[Manifest]) -> int | None:
        """How many seconds to wait for changes before the next check; `None` if no job can ever run."""
        if any(phase_of(job) not in _QUEUED for job in left):
            self._looks, self._pause = 0, _LOOK_AGAIN_SECONDS
            return _LONGEST_PAUSE_SECONDS
        stuck = self._unable_to_run(left)
        if len(stuck) < len(left):
            self._looks, pause = 0, self._pause
            self._pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            return pause
        self._looks += 1
        if self._looks < LOOKS_TO_BE_SURE:
            return _LOOK_AGAIN_SECONDS
        self.stuck = stuck
        return None

    def _unable_to_run(self, jobs: list[Manifest]) -> list[tuple[Manifest, str]]:
        from fairway.cli.jobs.records import by_name  # noqa: PLC0415
        from fairway.cli.waiting import who_waits  # noqa: PLC0415

        spaces = {job["metadata"]["namespace"] for job in jobs}
        try:
            waiting = by_name(who_waits(self._session, spaces.pop() if len(spaces) == 1 else None))
        except Forbidden:
            return []
        found = []
        for job in jobs:
            row = waiting.get((job["metadata"]["namespace"], (job.get("status") or {}).get("workload") or ""))
            if row is not None and not row.can_ever_run:
                found.append((job, plain(row.message)))
        return found


def cannot_run(
    session: Session,
    job: Manifest,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Why a job can never run as things are; empty if it can, or if that is not decided within a moment."""
    from fairway.cli.waiting import waiting_job  # noqa: PLC0415 - not for those who follow

    until = now() + _MOST_SECONDS
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    while True:
        try:
            job = session.rest.get(paths.job(namespace, name))
            status = job.get("status") or {}
            if phase_of(job) != "PENDING" or status.get("infra") or job["spec"].get("hold"):
                return ""
            # Nothing if it is not queued yet, or already admitted.
            waiting = (status.get("workload") and waiting_job(session, namespace, status["workload"])) or {}
        except NotFound:
            waiting = {}
        except ApiError:
            return ""  # without the permission there is no hint
        if waiting.get("outcome", "") not in _UNTRIED:
            return "" if waiting.get("canEverRun", True) else plain(str(waiting.get("message") or "it is refused"))
        if now() > until:
            return ""
        sleep(_STEP_SECONDS)
