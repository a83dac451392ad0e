"""The runner's state of a pod; everything in it can be rebuilt after a restart."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from fairway.runner.pods.attempts import ContainerRun, parse_process_id
from fairway.runner.pods.planning import Health
from fairway.runner.pods.troubles import Trouble
from fairway.runner.processes import Process


class PodRecord(Struct):
    """One pod that is not over yet."""

    since: float
    """When this machine took it over."""

    volumes: dict[str, Path] | None = None
    """Where its volumes are; `None` until they are made."""

    requests: dict[str, int] | None = None
    """What it takes of the machine; `None` until the machine has accepted it."""

    troubles: dict[str, Trouble] = field(default_factory=dict)
    try_again_at: float = 0.0
    """When to try to start again in spite of them."""

    shortages: int = 0
    """How often in a row the machine had run out of something."""

    never_started: dict[str, ContainerRun] = field(default_factory=dict)
    """Containers that will never be started, as attempts that failed."""

    failures: dict[str, int] = field(default_factory=dict)
    probed: bool = False
    """Whether one of its containers has probes."""

    health: dict[str, Health] = field(default_factory=dict)
    stopping: dict[str, float] = field(default_factory=dict)
    """Processes that are being stopped, and the ends of their grace periods."""

    unwritten_since: float | None = None
    """Since when the status says less than is known."""

    told: set[str] = field(default_factory=set)
    """Events that were emitted for it: each only once."""


class Processes:
    """All processes that the supervisor knows, by pod and container."""

    def __init__(self) -> None:
        self._by_pod: dict[str, dict[str, dict[int, Process]]] = {}

    def fill(self, known: Mapping[str, Process]) -> None:
        """Begin anew with what the supervisor holds."""
        self._by_pod.clear()
        for process in known.values():
            self.note(process)

    def note(self, process: Process) -> str | None:
        """Take in the state of a process; the UID of its pod, if it is one's."""
        parts = parse_process_id(process.id)
        if parts is None:
            return None
        uid, container, number = parts
        self._by_pod.setdefault(uid, {}).setdefault(container, {})[number] = process
        return uid

    def knows(self, process_id: str) -> bool:
        parts = parse_process_id(process_id)
        return parts is not None and parts[2] in self._by_pod.get(parts[0], {}).get(parts[1], {})

    def of(self, uid: str) -> Mapping[str, Mapping[int, Process]]:
        return self._by_pod.get(uid, {})

    def all_of(self, uid: str) -> list[Process]:
        return [process for starts in self.of(uid).values() for process in starts.values()]

    def pods(self) -> list[str]:
        return list(self._by_pod)

    def drop(self, process_id: str) -> None:
        """The supervisor need not know of it any more."""
        parts = parse_process_id(process_id)
        if parts is None:
            return
        uid, container, number = parts
        containers = self._by_pod.get(uid, {})
        containers.get(container, {}).pop(number, None)
        if not containers.get(container):
            containers.pop(container, None)
        if not containers:
            self._by_pod.pop(uid, None)
