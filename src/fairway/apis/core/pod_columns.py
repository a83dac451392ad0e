"""The columns of `kubectl get pods`."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fairway.apis.core.checks import Part
from fairway.apis.machinery.conditions import find_in, is_true, is_true_in
from fairway.apis.machinery.kind import Column, Manifest
from fairway.apis.machinery.printing import AGE, NONE, humanised, read_time, text_at

_OVER: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Tally:
    """Ready containers, restarts and the latest of them, as they are added up."""

    ready: int = 0
    restarts: int = 0
    last_restart: datetime | None = None

    def add_restarts(self, status: Part) -> None:
        self.restarts += status.get("restartCount") or 0
        ended = (status.get("lastState") or {}).get("terminated") or {}
        finished = read_time(ended.get("finishedAt"))
        if finished is not None and (self.last_restart is None or finished > self.last_restart):
            self.last_restart = finished


def _ready(manifest: Manifest, _now: datetime) -> str:
    spec = manifest.get("spec") or {}
    total = len(spec.get("containers") or ()) + sum(1 for _ in _sidecars(spec))
    return f"{_overview(manifest)[0].ready}/{total}"


def _status(manifest: Manifest, _now: datetime) -> str:
    reason = _overview(manifest)[1]
    if not manifest["metadata"].get("deletionTimestamp"):
        return reason
    status = manifest.get("status") or {}
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return reason if status.get("phase") in _OVER else "Terminating"


def _restarts(manifest: Manifest, now: datetime) -> str:
    tally = _overview(manifest)[0]
    if tally.restarts and tally.last_restart is not None:
        return f"{tally.restarts} ({humanised(now - tally.last_restart)} ago)"
    return str(tally.restarts)


def _address(manifest: Manifest, _now: datetime) -> str:
    status = manifest.get("status") or {}
    addresses = status.get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else status.get("podIP")) or NONE


def _readiness_gates(manifest: Manifest, _now: datetime) -> str:
    gates = (manifest.get("spec") or {}).get("readinessGates")
    if not gates:
        return NONE
    passed = sum(is_true(manifest, gate.get("conditionType")) for gate in gates)
    return f"{passed}/{len(gates)}"


POD_COLUMNS: Final = (
    Column(name="Ready", value=_ready, description="Containers that are ready, of all of them."),
    Column(name="Status", value=_status, description="What the containers are doing, in one word."),
    Column(name="Restarts", value=_restarts, description="How often containers were restarted, and when last."),
    AGE,
    Column(name="IP", value=_address, priority=1, description="The pod's address."),
    Column(
        name="Node", value=text_at("spec", "nodeName", otherwise=NONE), priority=1, description="The node it runs on."
    ),
    Column(
        name="Nominated Node",
        value=text_at("status", "nominatedNodeName", otherwise=NONE),
        priority=1,
        description="The node on which room is being made for it.",
    ),
    Column(name="Readiness Gates", value=_readiness_gates, priority=1, description="Gates that are passed, of all."),
)


def _overview(manifest: Manifest) -> tuple[_Tally, str]:
    """What is shown of the containers: the tally, and the status before a deletion is thought of."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    if (find_in(status, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    tally, initializing = _initialized(spec, status)
    if initializing and not is_true_in(status, "Initialized"):
        return tally, initializing
    # Restarts of plain init containers no longer matter once the containers run.
    settled = _Tally(ready=tally.ready)
    sidecars = set(_sidecars(spec))
    for container in status.get("initContainerStatuses") or ():
        if container.get("name") in sidecars:
            settled.add_restarts(container)
    return settled, _running(status, settled, initializing or reason)


def _initialized(spec: Part, status: Part) -> tuple[_Tally, str]:
    """The tally over the init containers, and what the first that is not through is doing; empty if all are."""
    tally = _Tally()
    sidecars = set(_sidecars(spec))
    for position, container in enumerate(status.get("initContainerStatuses") or ()):
        tally.add_restarts(container)
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            tally.ready += bool(container.get("ready"))
            continue
        waiting = (state.get("waiting") or {}).get("reason")
        if ended is not None:
            return tally, f"Init:{_ending(ended)}"
        if waiting and waiting != "PodInitializing":
            return tally, f"Init:{waiting}"
        return tally, f"Init:{position}/{len(spec.get('initContainers') or ())}"
    return tally, ""


def _running(status: Part, tally: _Tally, reason: str) -> str:
    """What the containers are doing: the first of them has the last word."""
    running = False
    failure = ""
    for container in reversed(status.get("containerStatuses") or ()):
        tally.add_restarts(container)
        state = container.get("state") or {}
        ended = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif ended is not None:
            reason = _ending(ended)
            failure = reason if ended.get("exitCode") else failure
        elif container.get("ready") and state.get("running") is not None:
            running = True
            tally.ready += 1
    if reason != "Completed":
        return reason
    if running and is_true_in(status, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else reason)


def _ending(ended: Part) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode') or 0}"


def _sidecars(spec: Part) -> Iterator[str]:
    """The names of init containers that stay."""
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container.get("name", "")
