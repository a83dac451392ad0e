"""Decides the next step of a pod: containers to start and to stop, and its status.

Init containers run one after the other, then the containers of the pod side by side; sidecars start in between and stay
until those are done. A container that ended is started again as its restart policy says, later and later. A pod that is
being deleted, or has had its time, ends: everything is stopped and nothing started.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from fairway.apis.core.pod_parts import is_sidecar
from fairway.apis.machinery.kind import Manifest
from fairway.runner.pods.attempts import NEVER_STARTED, ContainerHistory, read_stamp
from fairway.runner.pods.restarts import delay_seconds, failures_after, is_restarted
from fairway.runner.pods.troubles import Trouble

LEAST_GRACE_SECONDS: Final = 2.0
"""What everybody gets to clean up, however little was granted, as from a kubelet."""

OVER: Final = frozenset({"Succeeded", "Failed"})


class Health(Struct, frozen=True):
    """What the probes of a running container say."""

    started: bool
    ready: bool


HEALTHY: Final = Health(started=True, ready=True)


class PodObservation(Struct, frozen=True, kw_only=True):
    """All that is known of a pod at one moment."""

    pod: Manifest
    lives: Mapping[str, ContainerHistory]
    now: float
    since: float
    """When this machine took the pod over."""

    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    """Of containers that cannot be started for now."""

    failures: Mapping[str, int] = field(default_factory=dict)
    """How many ends in a row came before the latest start of a container, if known."""

    health: Mapping[str, Health] = field(default_factory=dict)
    """Of running containers that have probes."""

    def life(self, container: Mapping[str, Any]) -> ContainerHistory:
        return self.lives.get(container["name"], NEVER_STARTED)

    @property
    def is_starting(self) -> bool:
        """Whether a container was asked for that does not run yet."""
        return any(
            life.is_going and life.latest is not None and life.latest.started_at is None for life in self.lives.values()
        )

    @property
    def containers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.pod["spec"].get("containers") or []
        return found

    @property
    def init_containers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.pod["spec"].get("initContainers") or []
        return found


class ContainerStart(Struct, frozen=True, kw_only=True):
    """A container to start, and how many failures in a row came before."""

    container: str
    number: int
    failures: int = 0


class ContainerStop(Struct, frozen=True, kw_only=True):
    container: str
    number: int
    grace_seconds: float


class PodPlan(Struct, frozen=True, kw_only=True):
    """What comes next."""

    starts: tuple[ContainerStart, ...] = ()
    stops: tuple[ContainerStop, ...] = ()
    over: bool = False
    """Nothing runs, and nothing will be started again."""

    expired: bool = False
    """It had its time (`activeDeadlineSeconds`)."""

    again_seconds: float | None = None
    """When to look again if nothing happens before."""


class _Course:
    """Starts, and the earliest moment to look again, as they are collected."""

    __slots__ = ("again", "starts")

    def __init__(self) -> None:
        self.starts: list[ContainerStart] = []
        self.again: float | None = None

    def look_again(self, seconds: float) -> None:
        self.again = seconds if self.again is None else min(self.again, seconds)


def decide(seen: PodObservation) -> PodPlan:
    """The next steps of a pod."""
    if (seen.pod.get("status") or {}).get("phase") in OVER:
        stops = _stops(seen, _grace_seconds(seen.pod, seen.now))
        return PodPlan(stops=tuple(stops), over=not stops)
    if has_finished(seen):
        stops = _stops(seen, _grace_seconds(seen.pod, seen.now))  # of sidecars, if any
        return PodPlan(stops=tuple(stops), over=not stops, expired=_outlived_its_time(seen))
    left = _seconds_left(seen)
    expired = left is not None and left <= 0
    if expired or "deletionTimestamp" in seen.pod["metadata"]:
        stops = _stops(seen, _grace_seconds(seen.pod, seen.now))
        return PodPlan(stops=tuple(stops), over=not stops, expired=expired)
    course = _Course()
    _go_on(seen, course)
    if left is not None:
        course.look_again(left)
    return PodPlan(starts=tuple(course.starts), again_seconds=course.again)


def has_finished(seen: PodObservation) -> bool:
    """Whether the containers of the pod are done for good, or will never be started."""
    return has_failed_to_initialize(seen) or all(_is_done(seen, one) for one in seen.containers)


def has_failed_to_initialize(seen: PodObservation) -> bool:
    spec = seen.pod["spec"]
    for container in seen.init_containers:
        end = seen.life(container).end
        if end is not None and end.exit_code and not is_sidecar(container):
            return not is_restarted(container, spec, end.exit_code, init=True)
    return False


def is_initialized(seen: PodObservation) -> bool:
    """Whether the pod's own containers may run: once one has been started, they may for ever."""
    return any(seen.life(one).latest is not None for one in seen.containers) or all(
        _is_passed(seen, one) for one in seen.init_containers
    )


def next_delay(seen: PodObservation, container: Mapping[str, Any], life: ContainerHistory) -> float:
    """The back-off before a container that ended is started again, counted from its end."""
    if life.latest is None:
        return 0.0
    return delay_seconds(failures_after(life.latest, seen.failures.get(container["name"])))


def _is_done(seen: PodObservation, container: Mapping[str, Any]) -> bool:
    end = seen.life(container).end
    return end is not None and not is_restarted(container, seen.pod["spec"], end.exit_code)


def _is_passed(seen: PodObservation, container: Mapping[str, Any]) -> bool:
    """Of an init container: whether the next one may come."""
    life = seen.life(container)
    if is_sidecar(container):
        running = life.latest is not None and life.latest.end is None and life.latest.started_at is not None
        return running and seen.health.get(container["name"], HEALTHY).started
    return life.end is not None and life.end.exit_code == 0


def _go_on(seen: PodObservation, course: _Course) -> None:
    begun = any(seen.life(one).latest is not None for one in seen.containers)
    for container in seen.init_containers:
        if begun and not is_sidecar(container):
            continue
        if not _is_passed(seen, container):
            _start_if_due(seen, container, course)
            if not begun:
                return
    for container in seen.containers:
        if not _is_done(seen, container):
            _start_if_due(seen, container, course)


def _start_if_due(seen: PodObservation, container: Mapping[str, Any], course: _Course) -> None:
    name, life = container["name"], seen.life(container)
    if life.is_going or name in seen.troubles:
        return
    latest = life.latest
    if latest is None or latest.end is None:
        course.starts.append(ContainerStart(container=name, number=0))
        return
    wait = latest.end.at + next_delay(seen, container, life) - seen.now
    if wait > 0:
        course.look_again(wait)
        return
    failures = failures_after(latest, seen.failures.get(name)) + 1
    course.starts.append(ContainerStart(container=name, number=latest.number + 1, failures=failures))


def _stops(seen: PodObservation, grace_seconds: float) -> list[ContainerStop]:
    return [
        ContainerStop(container=name, number=life.latest.number, grace_seconds=grace_seconds)
        for name, life in seen.lives.items()
        if life.latest is not None and life.latest.end is None
    ]


def _grace_seconds(pod: Manifest, now: float) -> float:
    """How long containers have to end: what is left of what the deletion granted, else what the pod asks for."""
    metadata = pod["metadata"]
    until = read_stamp(metadata.get("deletionTimestamp"))
    if until is None:
        granted = float(pod["spec"].get("terminationGracePeriodSeconds") or 0)
    else:
        # Times of deletion are cut to whole seconds; the grace period must not lose the rest of one.
        granted = min(float(metadata.get("deletionGracePeriodSeconds") or 0), until + 1 - now)
    return max(LEAST_GRACE_SECONDS, granted)


def _seconds_left(seen: PodObservation) -> float | None:
    """How long the pod may still be active; `None` if for ever."""
    limit = seen.pod["spec"].get("activeDeadlineSeconds")
    return None if limit is None else seen.since + limit - seen.now


def _outlived_its_time(seen: PodObservation) -> bool:
    """Whether a container of a finished pod was still there when the pod's time was over: then it was stopped."""
    limit = seen.pod["spec"].get("activeDeadlineSeconds")
    if limit is None:
        return False
    return any(life.end is not None and life.end.at >= seen.since + limit for life in seen.lives.values())
