"""Whether a job that was only just launched can ever run, for those who do not stay to see it."""

import time
from collections.abc import Callable
from typing import Final

from fairway.cli.choosing import Manifest, phase_of
from fairway.cli.session import Session
from fairway.cli.tables import plain
from fairway.client.rest import paths
from fairway.errors import ApiError, NotFound

_MOST_SECONDS: Final = 3.0
_STEP_SECONDS: Final = 0.02
_UNTRIED: Final = frozenset({"NotTried", ""})


def cannot_run(
    session: Session,
    job: Manifest,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Why a job can never run as things are; empty if it can, or if that is not decided within a moment."""
    until = now() + _MOST_SECONDS
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    while True:
        try:
            job = session.rest.get(paths.job(namespace, name))
            status = job.get("status") or {}
            if phase_of(job) != "PENDING" or status.get("infra") or job["spec"].get("hold"):
                return ""
            waiting = session.rest.get(paths.waiting(namespace, status["workload"])) if status.get("workload") else {}
        except NotFound:
            waiting = {}  # it is not queued yet, or already admitted
        except ApiError:
            return ""  # whoever may not look is told nothing
        if waiting.get("outcome", "") not in _UNTRIED:
            return "" if waiting.get("canEverRun", True) else plain(str(waiting.get("message") or "it is refused"))
        if now() > until:
            return ""
        sleep(_STEP_SECONDS)
