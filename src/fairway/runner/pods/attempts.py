"""Attempts of containers: each start is an attempt, the last one counts.

Two witnesses tell of attempts: the supervisor, who knows every process that he was not told to forget, and the pod's
stored status, which knows the end of those that he was. Where both speak of the same attempt, an end that was written
stays as it was written.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from fairway.apis.core.pod_parts import containers_of, statuses_of
from fairway.apis.machinery import timestamps
from fairway.apis.machinery.kind import Manifest
from fairway.runner.processes import Ended, Process

LOST: Final = "ContainerStatusUnknown"
_LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"
_LOST_EXIT_CODE: Final = 137
_START_EXIT_CODE: Final = 128


class End(Struct, frozen=True, kw_only=True):
    """How an attempt ended."""

    at: float
    exit_code: int
    terminated: dict[str, Any]
    """As a container's status shows it."""

    lost: bool = False
    told: bool = False
    """It was stopped before it ended."""


class ContainerRun(Struct, frozen=True, kw_only=True):
    """One start of a container."""

    number: int
    started_at: float | None = None
    """`None` while it is only asked for."""

    end: End | None = None

    @property
    def ran_seconds(self) -> float:
        """How long it ran until it ended."""
        return 0.0 if self.end is None or self.started_at is None else self.end.at - self.started_at


class ContainerHistory(Struct, frozen=True, kw_only=True):
    """What a container has been through."""

    latest: ContainerRun | None = None
    previous: dict[str, Any] | None = None
    """The end of the attempt before, as a status shows it."""

    @property
    def is_going(self) -> bool:
        """Whether a process runs, or is about to."""
        return self.latest is not None and self.latest.end is None

    @property
    def end(self) -> End | None:
        return self.latest.end if self.latest is not None else None


NEVER_STARTED: Final = ContainerHistory()
Starts = Mapping[int, Process]
"""The processes of one container by attempt."""


def process_id(uid: str, container: str, number: int) -> str:
    return f"{uid}/{container}/{number}"


def parse_process_id(text: str) -> tuple[str, str, int] | None:
    """The pod, container and attempt of a process; `None` if its identity is not a pod's."""
    parts = text.split("/")
    if len(parts) != 3 or not parts[2].isdecimal():
        return None
    return parts[0], parts[1], int(parts[2])


def lives_of(pod: Manifest, processes: Mapping[str, Starts], now: float) -> dict[str, ContainerHistory]:
    """The lives of all containers of a pod."""
    stored = {one["name"]: one for one in statuses_of(pod)}
    uid = pod["metadata"]["uid"]
    return {
        container["name"]: _life(uid, container["name"], stored.get(container["name"]), processes, now)
        for container in containers_of(pod["spec"])
    }


def last_written_end(status: Mapping[str, Any]) -> int:
    """The last attempt whose end is in a container's status, and need not be kept elsewhere; -1 if none."""
    state, number = status["state"], int(status["restartCount"])
    if "running" in state:
        return number - 1
    return number if "terminated" in state or status["lastState"] else -1


def failed_to_start(number: int, message: str, now: float) -> ContainerRun:
    """An attempt that never became a process."""
    ended = Ended(at=now, error=message)
    return ContainerRun(number=number, end=_end(None, ended, ""))


def _life(
    uid: str, name: str, stored: Mapping[str, Any] | None, processes: Mapping[str, Starts], now: float
) -> ContainerHistory:
    starts = processes.get(name) or {}
    written = _written(stored) if stored else None
    number = max(starts) if starts else -1
    if written is not None and written.number >= number and (written.end is not None or number != written.number):
        if written.end is None:  # the supervisor knows nothing of what was running
            lost = Ended(at=now, lost=True)
            end = _end(written.started_at, lost, process_id(uid, name, written.number))
            written = ContainerRun(number=written.number, started_at=written.started_at, end=end)
        return ContainerHistory(latest=written, previous=_last_state(stored))
    if number < 0:
        return NEVER_STARTED
    latest = _attempt(number, starts[number])
    before = starts.get(number - 1)
    if written is not None and written.number == number - 1 and written.end is not None:
        previous: dict[str, Any] | None = written.end.terminated
    elif before is not None and before.ended is not None:
        previous = _end(before.started_at, before.ended, before.id).terminated
    else:
        previous = _last_state(stored) if written is not None and written.number == number else None
    return ContainerHistory(latest=latest, previous=previous)


def _attempt(number: int, process: Process) -> ContainerRun:
    end = None if process.ended is None else _end(process.started_at, process.ended, process.id)
    return ContainerRun(number=number, started_at=process.started_at, end=end)


def _end(started_at: float | None, ended: Ended, identity: str) -> End:
    code, reason, message = _outcome(ended)
    terminated: dict[str, Any] = {
        "exitCode": code,
        "reason": reason,
        "startedAt": stamp(ended.at if started_at is None else started_at),
        "finishedAt": stamp(ended.at),
    }
    if ended.signal:
        terminated["signal"] = ended.signal
    if message:
        terminated["message"] = message
    if identity:
        terminated["containerID"] = container_id(identity)
    return End(at=ended.at, exit_code=code, terminated=terminated, lost=ended.lost, told=ended.told)


def _outcome(ended: Ended) -> tuple[int, str, str]:
    """Exit code, reason and message, as Kubernetes has them."""
    if ended.error:
        return _START_EXIT_CODE, "StartError", ended.error
    if ended.lost:
        return _LOST_EXIT_CODE, LOST, _LOST_MESSAGE
    code = ended.exit_code if ended.exit_code is not None else 128 + (ended.signal or 9)
    if ended.out_of_memory:
        return code or _LOST_EXIT_CODE, "OOMKilled", ""
    return code, "Completed" if code == 0 else "Error", ""


def _written(stored: Mapping[str, Any]) -> ContainerRun | None:
    """The last attempt that the stored status knows of."""
    state, number = stored.get("state") or {}, stored.get("restartCount") or 0
    if running := state.get("running"):
        return ContainerRun(number=number, started_at=read_stamp(running.get("startedAt")))
    terminated = state.get("terminated") or _last_state(stored)
    if not terminated:
        return None
    ended_at = read_stamp(terminated.get("finishedAt")) or 0.0
    end = End(
        at=ended_at,
        exit_code=terminated.get("exitCode") or 0,
        terminated=terminated,
        lost=terminated.get("reason") == LOST,
    )
    return ContainerRun(number=number, started_at=read_stamp(terminated.get("startedAt")), end=end)


def _last_state(stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = ((stored or {}).get("lastState") or {}).get("terminated")
    return found


def container_id(identity: str) -> str:
    return f"fairway://{identity}"


def stamp(at: float) -> str:
    """A time as objects carry it: whole seconds, UTC."""
    return _stamp(int(at))


@lru_cache(maxsize=64)  # most are of this second
def _stamp(seconds: int) -> str:
    return timestamps.stamp(datetime.fromtimestamp(seconds, UTC))


def read_stamp(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None
