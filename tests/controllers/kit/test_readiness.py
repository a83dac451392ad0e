"""When the condition `PodsReady` is written: after a moment, and at once where a timeout is short."""

from typing import Any

import pytest

from fairway.apis.kueue.configuration import WaitForPodsReady
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.readiness import WAITING, Settling

LONG = WaitForPodsReady()
SHORT = WaitForPodsReady(timeout_seconds=5.0)
SHORT_RECOVERY = WaitForPodsReady(recovery_timeout_seconds=5.0)
BLOCKING = WaitForPodsReady(block_admission=True)


def workload(*conditions: dict[str, Any]) -> Manifest:
    return {"metadata": {"uid": "u"}, "status": {"conditions": list(conditions)}}


ADMITTED = {"type": "Admitted", "status": "True", "reason": "Admitted", "message": ""}
STARTED = {"type": "PodsReady", "status": "True", "reason": "Started", "message": ""}


@pytest.mark.parametrize(
    ("waiting", "seen", "ready", "want"),
    [
        pytest.param(LONG, (), False, (None, None), id="nothing before the first admission"),
        pytest.param(SHORT, (), False, ("WaitForStart", None), id="at once, even then, where the timeout is short"),
        pytest.param(LONG, (ADMITTED,), False, (None, 1.0), id="not ready, in a second"),
        pytest.param(SHORT, (ADMITTED,), False, ("WaitForStart", None), id="not ready, at once"),
        pytest.param(LONG, (ADMITTED,), True, (None, 0.25), id="ready, in a moment"),
        pytest.param(BLOCKING, (ADMITTED,), True, ("Started", None), id="ready at once where others wait for it"),
        pytest.param(LONG, (ADMITTED, STARTED), False, (None, 0.25), id="no longer ready, in a moment"),
        pytest.param(SHORT_RECOVERY, (ADMITTED, STARTED), False, ("WaitForRecovery", None), id="no longer, at once"),
    ],
)
def test_when_the_condition_is_written(
    waiting: WaitForPodsReady, seen: tuple[dict[str, Any], ...], *, ready: bool, want: tuple[str | None, float | None]
) -> None:
    found, left = Settling(lambda: 0.0).due(workload(*seen), waiting, ready=ready)

    assert (found and found.reason, left) == want


def test_what_is_written_is_not_written_again() -> None:
    written = {"type": "PodsReady", "status": WAITING.status, "reason": WAITING.reason, "message": WAITING.message}

    assert Settling(lambda: 0.0).due(workload(written), SHORT, ready=False) == (None, None)
