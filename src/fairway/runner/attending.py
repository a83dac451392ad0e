"""Runs the probes of containers, and acts on their results."""

from typing import Any, Final

from fairway.apis.core.pod_parts import containers_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.runner.pods.attempts import process_id
from fairway.runner.pods.planning import LEAST_GRACE_SECONDS, Health, PodObservation
from fairway.runner.probing import Probing, Watched, first_health, has_probes
from fairway.runner.processes import ProcessSpec, Supervision
from fairway.runner.records import PodRecord
from fairway.runner.starting import Starting
from fairway.runtime.clock import Clock
from fairway.runtime.worker import Worker

_UNHEALTHY: Final = "Unhealthy"


class Attending:
    """Keeps the probes of running containers going."""

    def __init__(
        self, supervision: Supervision, starting: Starting, recorder: Recorder, worker: Worker[str], clock: Clock
    ) -> None:
        self._supervision = supervision
        self._starting = starting
        self._recorder = recorder
        self._worker = worker
        self._probing = Probing(clock)

    def attend(self, pod: Manifest, record: PodRecord, seen: PodObservation) -> None:
        """Ask the probes of what runs, and of nothing else."""
        uid = pod["metadata"]["uid"]
        for container in containers_of(pod["spec"]):
            name, life = container["name"], seen.life(container)
            if not has_probes(container) or life.latest is None:
                continue
            identity = process_id(uid, name, life.latest.number)
            if life.latest.end is not None or identity in record.stopping:
                self._probing.end(identity)
                record.health[name] = first_health(container)
            elif life.latest.started_at is not None and not self._probing.watches(identity):
                launch = self._starting.prepared(pod, record, name, life.latest.number).launch
                self._probing.watch(self._watched(pod, record, container, launch, life.latest.started_at))

    def leave(self, process_id: str) -> None:
        """There is nothing more to ask."""
        self._probing.end(process_id)

    async def close(self) -> None:
        await self._probing.close()

    def _watched(
        self, pod: Manifest, record: PodRecord, container: dict[str, Any], launch: ProcessSpec, started_at: float
    ) -> Watched:
        uid, name = pod["metadata"]["uid"], container["name"]

        def on_health(health: Health) -> None:
            if record.health.get(name) != health:
                record.health[name] = health
                self._worker.add(uid)

        async def fail(probe: str, grace_seconds: float | None) -> None:
            self._recorder.normal(pod, "Killing", f"Container {name} failed {probe.lower()} probe, will be restarted")
            granted = pod["spec"].get("terminationGracePeriodSeconds") if grace_seconds is None else grace_seconds
            await self._supervision.stop(launch.id, max(LEAST_GRACE_SECONDS, float(granted or 0)))

        def warn(probe: str, why: str) -> None:
            self._recorder.warning(pod, _UNHEALTHY, f"{probe} probe failed: {why}")

        return Watched(container, launch, started_at, on_health, fail, warn)
