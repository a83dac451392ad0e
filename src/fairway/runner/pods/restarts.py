"""Restart policy and back-off of containers."""

from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.core.pod_parts import is_sidecar
from fairway.runner.pods.attempts import ContainerRun

FIRST_SECONDS: Final = 10.0
MOST_SECONDS: Final = 300.0
FORGIVEN_SECONDS: Final = 600.0
"""Who ran this long has paid for his earlier failures."""


def is_restarted(container: Mapping[str, Any], spec: Mapping[str, Any], exit_code: int, *, init: bool = False) -> bool:
    """Whether a container that ended so is started again."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    if policy == "Always" and init and not is_sidecar(container):
        policy = "OnFailure"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def delay_seconds(failures: int) -> float:
    """How long to wait after an end before the next start; the first time not at all, then longer and longer."""
    return 0.0 if failures <= 0 else min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 32))


def failures_after(attempt: ContainerRun, failures: int | None) -> int:
    """How many ends in a row came before this one; `failures` is what was counted when it started.

    After a restart of the server, all earlier starts count as failures.
    """
    if attempt.end is not None and (attempt.end.lost or attempt.ran_seconds > FORGIVEN_SECONDS):
        return 0
    return attempt.number if failures is None else failures
