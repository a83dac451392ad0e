"""What the condition `PodsReady` of a workload should say, and since when it should.

The condition is for people and for timeouts that are minutes long. So it is written only once it has been wanted for a
moment: a job that ends in between costs no write, and neither do pods that come and go. Before a workload is
first admitted it has no such condition. Where a timeout is shorter than a minute it is written at once, as in Kueue.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from fairway.apis.kueue.configuration import WaitForPodsReady
from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions

NOT_READY: Final = "Not all pods are ready or succeeded"
_RECOVERING: Final = "At least one pod has failed, waiting for recovery"
_READY: Final = "All pods reached readiness and the workload is running"

_FIRST_SECONDS: Final = 1.0
_SECONDS: Final = 0.25
_SHORT_SECONDS: Final = 60.0


class Readiness(NamedTuple):
    status: str
    reason: str
    message: str


WAITING: Final = Readiness("False", "WaitForStart", NOT_READY)


def readiness(workload: Manifest, *, ready: bool) -> Readiness | None:
    """What the condition should be; `None` if there should be none yet."""
    held = conditions.find(workload, conditions.PODS_READY)
    reason = None if held is None else held["reason"]
    if not conditions.is_true(workload, conditions.ADMITTED):
        return None if held is None else WAITING
    if ready:
        recovered = reason in {"WaitForRecovery", "Recovered"}
        return Readiness("True", "Recovered" if recovered else "Started", _READY)
    if held is not None and (held["status"] == "True" or reason == "WaitForRecovery"):
        return Readiness("False", "WaitForRecovery", _RECOVERING)
    return WAITING


def _is_short(waiting: WaitForPodsReady) -> bool:
    """Whether a workload may be evicted before people would look."""
    recovery = waiting.recovery_timeout_seconds
    return min(waiting.timeout_seconds, waiting.timeout_seconds if recovery is None else recovery) < _SHORT_SECONDS


class Settling:
    """Remembers since when each workload wants another condition than it has."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wanted: dict[str, tuple[Readiness, float]] = {}

    def due(
        self, workload: Manifest, waiting: WaitForPodsReady | None, *, ready: bool
    ) -> tuple[Readiness | None, float | None]:
        """The condition that is to be written now, or in how many seconds there may be one; neither if all is well."""
        uid = workload["metadata"]["uid"]
        wanted = None if waiting is None else readiness(workload, ready=ready)
        if waiting is not None and wanted is None and _is_short(waiting):
            wanted = WAITING
        held = conditions.find(workload, conditions.PODS_READY)
        if waiting is None or wanted is None or (held is not None and (held["status"], held["reason"]) == wanted[:2]):
            self.forget(uid)
            return None, None
        at_once = _is_short(waiting) or (waiting.block_admission and wanted.status == "True")
        left = self._seconds_left(uid, wanted, at_once=at_once, first=held is None)
        if left > 0:
            return None, left
        self.forget(uid)
        return wanted, None

    def _seconds_left(self, uid: str, wanted: Readiness, *, at_once: bool, first: bool) -> float:
        """How long the condition is still to wait; nothing if it is to be written now."""
        now = self._monotonic()
        known = self._wanted.get(uid)
        if known is None or known[0] != wanted:
            known = self._wanted[uid] = (wanted, now)
        if at_once:
            return 0.0
        patience = _FIRST_SECONDS if first and wanted is WAITING else _SECONDS
        return max(0.0, known[1] + patience - now)

    def forget(self, uid: str) -> None:
        self._wanted.pop(uid, None)
