"""Computes a pod's status as a kubelet does: container states, phase and conditions."""

from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.core.pod_parts import is_sidecar
from fairway.apis.machinery.kind import Manifest
from fairway.runner.pods.attempts import LOST, ContainerHistory, container_id, process_id, stamp
from fairway.runner.pods.fields import ADDRESS
from fairway.runner.pods.planning import (
    HEALTHY,
    OVER,
    PodObservation,
    PodPlan,
    has_failed_to_initialize,
    is_initialized,
    next_delay,
)
from fairway.runner.pods.restarts import is_restarted

IMAGE_ID: Final = "not used: the command runs directly on this machine"
_EXPIRED: Final = {
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}
_STOPPED: Final = {
    "reason": "Stopped",
    "message": "Pod was stopped before it ended",
}
"""Whatever its exit code: a stopped pod counts neither as succeeded nor as failed by itself."""

_UNKNOWN_MESSAGE: Final = "The container could not be located when the pod was terminated"
_DISRUPTED: Final = "The pod's processes were lost together with their supervisor or with the machine"

_Part = dict[str, Any]


def status_of(seen: PodObservation, plan: PodPlan) -> _Part:
    """The whole status as it is now; what others wrote into it stays."""
    old = seen.pod.get("status") or {}
    initialized = is_initialized(seen)
    inits = [_container_status(seen, plan, one, init=True) for one in seen.init_containers]
    mains = [_container_status(seen, plan, one, init=False) for one in seen.containers]
    phase = _phase(seen, plan, mains, initialized=initialized)
    status: _Part = {
        **old,
        "phase": phase,
        "observedGeneration": seen.pod["metadata"].get("generation", 1),
        "hostIP": ADDRESS,
        "hostIPs": [{"ip": ADDRESS}],
        "podIP": ADDRESS,
        "podIPs": [{"ip": ADDRESS}],
        "startTime": old.get("startTime") or stamp(seen.since),
        "containerStatuses": mains,
    }
    if inits:
        status["initContainerStatuses"] = inits
    if plan.expired and phase == "Failed":
        status.update(_EXPIRED)
    elif phase in OVER and _was_stopped(seen):
        status.update(_STOPPED)
    wanted = _conditions(seen, phase, inits, mains, initialized=initialized)
    if phase == "Failed" and _was_lost(seen):
        wanted.append(("DisruptionTarget", "True", "TerminationByKubelet", _DISRUPTED))
    status["conditions"] = _merged(old.get("conditions") or [], wanted, stamp(seen.now))
    return status


def rejected_status(pod: Manifest, reason: str, message: str, now: float) -> _Part:
    """Of a pod that this machine does not take."""
    old = pod.get("status") or {}
    status: _Part = {
        **old,
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": old.get("startTime") or stamp(now),
    }
    wanted = [("Ready", "False", "PodFailed", ""), ("ContainersReady", "False", "PodFailed", "")]
    status["conditions"] = _merged(old.get("conditions") or [], wanted, stamp(now))
    return status


def status_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> _Part:
    """What has to be written to get from one to the other; empty if nothing has."""
    return {name: value for name, value in new.items() if old.get(name) != value}


def _container_status(seen: PodObservation, plan: PodPlan, container: Mapping[str, Any], *, init: bool) -> _Part:
    name, life = container["name"], seen.life(container)
    running = life.is_going and life.latest is not None and life.latest.started_at is not None
    state, last, restarts = _state(seen, plan, container, life, init=init)
    health = seen.health.get(name, HEALTHY)
    ready = running and health.ready
    if init and not is_sidecar(container):
        ready = life.end is not None and life.end.exit_code == 0
    status: _Part = {
        "name": name,
        "state": state,
        "lastState": {"terminated": last} if last else {},
        "ready": ready,
        "started": running and health.started,
        "restartCount": restarts,
        "image": container.get("image") or "",
        "imageID": IMAGE_ID,
    }
    if life.latest is not None:
        status["containerID"] = container_id(process_id(seen.pod["metadata"]["uid"], name, restarts))
    return status


def _state(
    seen: PodObservation, plan: PodPlan, container: Mapping[str, Any], life: ContainerHistory, *, init: bool
) -> tuple[_Part, _Part | None, int]:
    """The state of a container, the end of its attempt before, and how often it was restarted."""
    latest, name = life.latest, container["name"]
    trouble = seen.troubles.get(name)
    if latest is None:
        if plan.over and _has_begun(seen) and not has_failed_to_initialize(seen):
            return {"terminated": {"exitCode": 137, "reason": LOST, "message": _UNKNOWN_MESSAGE}}, None, 0
        if trouble is not None:
            return {"waiting": {"reason": trouble.reason, "message": trouble.message}}, None, 0
        return {"waiting": {"reason": _coming(seen)}}, None, 0
    if latest.end is None:
        if latest.started_at is None:
            return {"waiting": {"reason": _coming(seen)}}, life.previous, max(0, latest.number - 1)
        return {"running": {"startedAt": stamp(latest.started_at)}}, life.previous, latest.number
    comes_back = (
        not plan.over and not plan.stops and is_restarted(container, seen.pod["spec"], latest.end.exit_code, init=init)
    )
    if not comes_back:
        return {"terminated": latest.end.terminated}, life.previous, latest.number
    if trouble is not None:
        return {"waiting": {"reason": trouble.reason, "message": trouble.message}}, latest.end.terminated, latest.number
    pod = seen.pod["metadata"]
    delay = duration(next_delay(seen, container, life))
    message = f"back-off {delay} restarting failed container={name} pod={pod['name']}_{pod['namespace']}({pod['uid']})"
    waiting = {"reason": "CrashLoopBackOff", "message": message}
    return {"waiting": waiting}, latest.end.terminated, latest.number


def _coming(seen: PodObservation) -> str:
    return "PodInitializing" if seen.init_containers else "ContainerCreating"


def _has_begun(seen: PodObservation) -> bool:
    return any(life.latest is not None for life in seen.lives.values())


def _phase(seen: PodObservation, plan: PodPlan, mains: list[_Part], *, initialized: bool) -> str:
    if plan.over:
        return "Succeeded" if _all_done_well(seen) else "Failed"
    if not initialized:
        return "Pending"
    waits = any("waiting" in one["state"] and not one["lastState"] for one in mains)
    return "Pending" if waits else "Running"


def _all_done_well(seen: PodObservation) -> bool:
    ends = [seen.life(one).end for one in seen.containers]
    return all(end is not None and end.exit_code == 0 for end in ends)


def _was_stopped(seen: PodObservation) -> bool:
    """Whether a container was stopped before it ended; sidecars always are, after the others have ended."""
    ends = [seen.life(one).end for one in (*seen.init_containers, *seen.containers) if not is_sidecar(one)]
    return any(end is not None and end.told for end in ends)


def _was_lost(seen: PodObservation) -> bool:
    return any(life.end is not None and life.end.lost for life in seen.lives.values())


_Wanted = tuple[str, str, str, str]


def _conditions(
    seen: PodObservation, phase: str, inits: list[_Part], mains: list[_Part], *, initialized: bool
) -> list[_Wanted]:
    """The conditions that this machine answers for, but for their times."""
    over = phase in OVER
    ended = {"Failed": "PodFailed", "Succeeded": "PodCompleted"}.get(phase, "")
    sidecars = {one["name"] for one in seen.init_containers if is_sidecar(one)}
    unready = [
        one["name"] for one in (*inits, *mains) if not one["ready"] and (one in mains or one["name"] in sidecars)
    ]
    if over:
        containers_ready: _Wanted = ("ContainersReady", "False", ended, "")
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        containers_ready = ("ContainersReady", "False", "ContainersNotReady", message)
    else:
        containers_ready = ("ContainersReady", "True", "", "")
    return [
        ("PodReadyToStartContainers", "False" if over else "True", "", ""),
        _initialized(seen, phase, inits, initialized=initialized),
        _ready(seen, containers_ready),
        containers_ready,
        ("PodScheduled", "True", "", ""),
    ]


def _initialized(seen: PodObservation, phase: str, inits: list[_Part], *, initialized: bool) -> _Wanted:
    if phase == "Succeeded":
        return ("Initialized", "True", "PodCompleted", "")
    if initialized:
        return ("Initialized", "True", "", "")
    sidecars = {one["name"] for one in seen.init_containers if is_sidecar(one)}
    waiting = [one["name"] for one in inits if not one["started" if one["name"] in sidecars else "ready"]]
    message = f"containers with incomplete status: [{' '.join(waiting)}]"
    return ("Initialized", "False", "ContainersNotInitialized", message)


def _ready(seen: PodObservation, containers_ready: _Wanted) -> _Wanted:
    _, status, reason, message = containers_ready
    gates = seen.pod["spec"].get("readinessGates")
    if status == "True" and gates:
        known = {one["type"]: one["status"] for one in (seen.pod.get("status") or {}).get("conditions") or ()}
        closed = []
        for gate in gates:
            kind = gate["conditionType"]
            if kind not in known:
                closed.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
            elif known[kind] != "True":
                closed.append(f'the status of pod readiness gate "{kind}" is not "True", but {known[kind]}')
        if closed:
            return ("Ready", "False", "ReadinessGatesNotReady", ", ".join(closed))
    return ("Ready", status, reason, message)


def _merged(old: list[_Part], wanted: list[_Wanted], now: str) -> list[_Part]:
    """The conditions in a kubelet's order; a time of transition moves only with the status."""
    before = {one["type"]: one for one in old}
    merged = []
    for kind, status, reason, message in wanted:
        known = before.pop(kind, None)
        since = known["lastTransitionTime"] if known is not None and known["status"] == status else now
        condition: _Part = {"type": kind, "status": status, "lastTransitionTime": since}
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        merged.append(condition)
    return merged + list(before.values())


def duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: `40s`, `1m20s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
