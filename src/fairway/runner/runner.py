"""The runner: runs the pods that are bound to this machine, and writes their status.

For each pod it asks `pods.planning` what comes next and does it: starts and stops processes through the supervisor,
writes the status, deletes what has ended. It can be killed between any two of these steps. A new one finds the same
processes under the same identities, and so starts none a second time. The supervisor forgets a process only
when its end is durable in the pod's status, or the pod is gone.

A short job costs one write: what happens within `SETTLE_SECONDS` is written together.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairway.apis.core.accelerators import GPU
from fairway.apis.core.pod_parts import containers_of, statuses_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.runner.attending import Attending
from fairway.runner.declared import DeclaredNodes
from fairway.runner.devices import Devices, NotEnough
from fairway.runner.directories import Directories
from fairway.runner.enforcement import Enforcement
from fairway.runner.fitting import Misfit, misfit, requests_of
from fairway.runner.launching import Launching
from fairway.runner.machine import Machine
from fairway.runner.node import NodeKeeper, capacity_of, lasting_name
from fairway.runner.pods.attempts import (
    ContainerHistory,
    last_written_end,
    lives_of,
    process_id,
    read_stamp,
)
from fairway.runner.pods.environment import Sources
from fairway.runner.pods.planning import LEAST_GRACE_SECONDS, OVER, PodObservation, PodPlan, decide
from fairway.runner.pods.statuses import rejected_status, status_of, status_patch
from fairway.runner.probing import first_health, has_probes
from fairway.runner.processes import Process, Supervision
from fairway.runner.records import PodRecord, Processes
from fairway.runner.starting import Starting
from fairway.runtime.worker import Worker

SETTLE_SECONDS: Final = 0.025
"""How long a change that is not the last may wait to be written: most are overtaken by then."""

_STARTING_SECONDS: Final = 1.0
"""How long it may wait while a container is about to start: that it is, is hardly ever news."""

_PARALLEL: Final = 64
_SHORTER_SECONDS: Final = 1.0
"""By how much a grace period must shrink before the supervisor gets it again."""

LINGER_SECONDS: Final = 1.0
"""How long a deleted pod stays that succeeded before it was stopped, so that others see it."""

UNCOUNTED_SECONDS: Final = 60.0
"""The same of a pod with a controller, which must have counted it, also if its process is being started again on a busy
machine. The pod holds nothing of the machine by then."""

_log = logging.getLogger(__name__)


class Runner:
    """This machine as a node."""

    def __init__(
        self,
        cluster: Cluster,
        supervision: Supervision,
        machine: Machine,
        state: Path,
        recorder: Recorder,
        environment: Mapping[str, str] = os.environ,
        enforcement: Enforcement = Enforcement(),  # noqa: B008 - it cannot change
        taints: Sequence[Manifest] = (),
    ) -> None:
        """`state` is the server's state directory; of `environment` containers get the few variables they may have;
        `taints` are those of a new Node."""
        self._cluster = cluster
        self._clock = cluster.clock
        self._supervision = supervision
        self._recorder = recorder
        self._writer = cluster.writer("fairway-runner")
        self._node = NodeKeeper(cluster, machine, lasting_name(state, machine), taints)
        self._declared = DeclaredNodes(cluster, ())
        self._registered = False
        self._machine = machine
        self._directories = Directories(state)
        self._devices = Devices(machine.gpus, machine.gpu_models)
        config_maps, secrets = cluster.cache("configmaps"), cluster.cache("secrets")
        sources = Sources(config_maps.get, secrets.get, capacity_of(machine))
        self._pods: dict[str, Manifest] = {}
        self._namespaces: dict[str, str] = {}
        """Of pods that are gone and whose processes or files are not."""
        self._records: dict[str, PodRecord] = {}
        self._lingering: dict[str, float] = {}
        """Pods that are left for a while, and until when."""
        self._short: dict[str, None] = {}
        """Pods that wait for resources of the machine, those that wait the longest first."""
        self._concluding: set[str] = set()
        """Pods whose end the runner is writing itself."""
        self._processes = Processes()
        self._launching = Launching(self._directories, sources, self._devices, environment, enforcement)
        self._starting = Starting(
            supervision,
            self._processes,
            self._launching,
            self._devices,
            self._directories,
            recorder,
            self._clock,
        )
        self._worker: Worker[str] = Worker("pod", self._clock, self._look_at, parallel=_PARALLEL)
        self._attending = Attending(supervision, self._starting, recorder, self._worker, self._clock)
        cluster.cache("pods").on_change(self._on_pod)
        for cache in (config_maps, secrets):
            cache.on_change(self._on_config)

    def use_hosts(self, hosts: Callable[[str], str]) -> None:
        """Take from it the file that pods of a namespace see as /etc/hosts; an empty path is the machine's own."""
        self._launching.hosts = hosts

    def declare(self, nodes: Sequence[Manifest]) -> None:
        """Have these nodes, too, whose pods run here; before the caches are filled."""
        self._declared = DeclaredNodes(self._cluster, nodes)

    async def register(self) -> None:
        """Make the Node, or bring it up to date, once; the caches must be full."""
        if not self._registered:
            await self._node.register()
            await self._declared.register()
            self._registered = True

    async def run(self) -> None:
        """Run pods until cancelled; their processes run on."""
        await self._cluster.synced()
        self._directories.make()
        self._supervision.on_change(self._on_process)
        self._supervision.on_lost(self._on_supervisor_lost)
        await self._supervision.connect()
        self._recall()
        await self.register()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._node.run())
                group.create_task(self._directories.run())
                group.create_task(self._worker.run())
        finally:
            await self._attending.close()

    def _recall(self) -> None:
        """Get to know what ran before: processes, files and GPUs of pods that are there and of those that are gone."""
        self._processes.fill(self._supervision.processes)
        left = self._directories.uids()
        for uid in left | set(self._processes.pods()):
            pod = self._pods.get(uid)
            runs = any(process.ended is None for process in self._processes.all_of(uid))
            if runs or (pod is not None and not _is_over(pod)):
                self._devices.restore(uid, self._directories.pod(uid))
            if pod is None:
                self._namespaces.setdefault(uid, "")
            if pod is None or self._processes.of(uid):
                self._worker.add(uid)

    async def _on_supervisor_lost(self) -> None:
        """The supervisor died and another one runs; the processes of the first are reported as ended."""
        for uid in self._processes.pods():
            self._worker.add(uid)

    # What happens

    def _on_pod(self, old: Manifest | None, new: Manifest | None) -> None:
        known = new if new is not None else old
        if known is None or not self._runs_here(known):
            return
        uid = known["metadata"]["uid"]
        if new is None:
            self._pods.pop(uid, None)
            self._namespaces[uid] = known["metadata"]["namespace"]
            self._worker.add(uid)
            return
        self._pods[uid] = new
        if old is None:
            if not _is_over(new) or "deletionTimestamp" in new["metadata"]:
                self._worker.add(uid)
        elif _matters(old, new) or (_is_over(new) and not _is_over(old) and uid not in self._concluding):
            self._worker.add(uid)

    def _runs_here(self, pod: Manifest) -> bool:
        node = pod["spec"].get("nodeName")
        return node == self._node.name or node in self._declared

    def _on_process(self, process: Process) -> None:
        uid = self._processes.note(process)
        if process.ended is not None:
            self._try_next_short()
        if uid is None:
            return
        pod = self._pods.get(uid)
        record = self._records.get(uid)
        if process.ended is not None or pod is None or pod["spec"].get("initContainers") or (record and record.probed):
            self._worker.add(uid)
        else:
            self._worker.add_after(uid, SETTLE_SECONDS)

    def _on_config(self, _old: Manifest | None, new: Manifest | None) -> None:
        """A config map or a secret that came or changed may be what a container waits for."""
        if new is None:
            return
        namespace = new["metadata"]["namespace"]
        for uid, record in self._records.items():
            pod = self._pods.get(uid)
            if record.troubles and pod is not None and pod["metadata"]["namespace"] == namespace:
                record.troubles.clear()
                self._worker.add(uid)

    # What is done about it

    async def _look_at(self, uid: str) -> float | None:
        pod = self._pods.get(uid)
        if pod is None:
            await self._clear_away(uid)
            return None
        if _is_over(pod):
            return await self._finish(pod)
        record = self._records.get(uid)
        if record is None:
            record = self._records[uid] = self._new_record(pod)
        self._drop_old_troubles(record)
        seen = self._see(pod, record)
        plan = decide(seen)
        if plan.starts:
            misfit = self._accept(pod, record)
            if misfit is not None:
                await self._refuse(pod, *misfit)
                return None
            try:
                self._starting.provide(pod, record, gpus=pod["spec"]["nodeName"] not in self._declared)
            except NotEnough as lack:
                return await self._reject(pod, lack)
            await self._starting.start_all(pod, record, plan.starts)
            if self._pods.get(uid) is pod and not record.troubles and not record.never_started:
                return self._begun(record, plan)
            pod = self._pods.get(uid)
            if pod is None or _is_over(pod):
                return 0.0
            seen = self._see(pod, record)
            plan = decide(seen)
        if plan.starts:
            return 0.0
        await self._stop(uid, plan, record)
        if record.probed:
            self._attending.attend(pod, record, seen)
        if plan.over:
            return await self._conclude(pod, seen, plan)
        wait = await self._write_progress(pod, record, seen, plan)
        return _earliest(plan.again_seconds, wait, self._seconds_until_next_try(uid, record))

    def _begun(self, record: PodRecord, plan: PodPlan) -> float | None:
        """Whether all containers are started and the pod is unchanged, so that process events suffice.

        A pod that changed meanwhile is looked at again at once: one that is to end should not run a moment longer.
        """
        if record.unwritten_since is None:
            record.unwritten_since = self._clock.monotonic()
        return _earliest(plan.again_seconds, _STARTING_SECONDS)

    def _drop_old_troubles(self, record: PodRecord) -> None:
        """What kept containers from being started may be over: not all of it is an object that can be watched."""
        if record.troubles and self._clock.monotonic() >= record.try_again_at:
            record.troubles.clear()

    def _seconds_until_next_try(self, uid: str, record: PodRecord) -> float | None:
        if not record.troubles:
            return None
        if any(trouble.shortage for trouble in record.troubles.values()):
            self._short.setdefault(uid)
        return max(0.0, record.try_again_at - self._clock.monotonic())

    def _try_next_short(self) -> None:
        """A process has ended: what it held may be what the pod that waits the longest needs."""
        while self._short:
            uid = next(iter(self._short))
            del self._short[uid]
            if (record := self._records.get(uid)) is not None and record.troubles:
                record.try_again_at = 0.0
                self._worker.add(uid)
                return

    def _see(self, pod: Manifest, record: PodRecord) -> PodObservation:
        now = self._now()
        lives = lives_of(pod, self._processes.of(pod["metadata"]["uid"]), now)
        for name, attempt in record.never_started.items():
            if lives[name].latest is None or lives[name].end is not None:
                lives[name] = ContainerHistory(latest=attempt)
        return PodObservation(
            pod=pod,
            lives=lives,
            now=now,
            since=record.since,
            troubles=record.troubles,
            failures=record.failures,
            health=record.health,
        )

    async def _stop(self, uid: str, plan: PodPlan, record: PodRecord) -> None:
        now = self._now()
        for stop in plan.stops:
            identity = process_id(uid, stop.container, stop.number)
            until = now + stop.grace_seconds
            asked = record.stopping.get(identity)
            if asked is None or until < asked - _SHORTER_SECONDS:
                record.stopping[identity] = until
                await self._supervision.stop(identity, stop.grace_seconds)

    async def _write_progress(
        self, pod: Manifest, record: PodRecord, seen: PodObservation, plan: PodPlan
    ) -> float | None:
        """Write what has changed, once it has had time to settle; how long that takes still."""
        now = self._clock.monotonic()
        if record.unwritten_since is None:
            record.unwritten_since = now
        wait = record.unwritten_since + (_STARTING_SECONDS if seen.is_starting else SETTLE_SECONDS) - now
        if wait > 0.001:
            return wait
        record.unwritten_since = None
        patch = status_patch(pod.get("status") or {}, status_of(seen, plan))
        if patch.keys() <= {"observedGeneration"}:  # not worth a write of its own
            return None
        self._record_back_off(pod, patch)
        written = await self._write(pod, patch)
        await self._forget_ended(written)
        return None

    async def _conclude(self, pod: Manifest, seen: PodObservation, plan: PodPlan) -> float | None:
        """Nothing of this pod runs any more: say how it ended, and let go of what it held."""
        self._release_devices(pod["metadata"]["uid"])
        deleted = "deletionTimestamp" in pod["metadata"]
        if not deleted or any(life.latest is not None for life in seen.lives.values()):
            pod = await self._write_end(pod, status_of(seen, plan))
        return await self._finish(pod)

    async def _finish(self, pod: Manifest) -> float | None:
        """What is left to do for a pod whose end is written; how long the last of it has to wait."""
        uid = pod["metadata"]["uid"]
        self._drop_record(uid)
        if await self._end_processes(uid, float(pod["spec"].get("terminationGracePeriodSeconds") or 0)):
            return None  # it comes here again when they have ended
        self._release_devices(uid)
        if pod["spec"].get("volumes"):
            self._directories.remove_volumes(uid)
        metadata = pod["metadata"]
        if "deletionTimestamp" not in metadata or not metadata.get("deletionGracePeriodSeconds"):
            return None
        if _is_done(pod):
            now = self._clock.monotonic()
            stays = UNCOUNTED_SECONDS if _has_controller(pod) else LINGER_SECONDS
            wait = self._lingering.setdefault(uid, now + stays) - now
            if wait > 0:
                return wait
        await self._writer.delete("pods", pod, grace_seconds=0)
        return None

    async def _clear_away(self, uid: str) -> None:
        """The pod is gone: end its processes, then remove its files."""
        self._lingering.pop(uid, None)
        if uid not in self._namespaces and not self._processes.of(uid):
            return
        self._drop_record(uid)
        if await self._end_processes(uid, LEAST_GRACE_SECONDS):
            return  # it comes here again when they have ended
        self._release_devices(uid)
        self._directories.remove(uid, self._namespaces.pop(uid, ""))

    async def _end_processes(self, uid: str, grace_seconds: float) -> bool:
        """Stop what runs and forget what has ended; whether something still runs."""
        runs = False
        for process in self._processes.all_of(uid):
            if process.ended is None:
                runs = True
                await self._supervision.stop(process.id, max(LEAST_GRACE_SECONDS, grace_seconds))
            else:
                await self._forget(process.id)
        return runs

    async def _reject(self, pod: Manifest, lack: NotEnough) -> float | None:
        """Handle a request for more GPUs than are free: wait for terminating pods, else reject the pod."""
        leaving = sum(
            len(indices) for uid, indices in self._devices.holders.items() if uid not in self._pods or self._ends(uid)
        )
        if lack.asked <= lack.free + leaving:
            return None  # looked at again when they are free
        message = (
            f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {GPU}. "
            f"Requested: {lack.asked}, Available: {lack.free}, which is unexpected"
        )
        await self._refuse(pod, "UnexpectedAdmissionError", message)
        return None

    def _accept(self, pod: Manifest, record: PodRecord) -> Misfit | None:
        """Count what a pod takes; why not, if it came without the scheduler and does not fit."""
        if record.requests is not None:
            return None
        if pod["spec"]["nodeName"] in self._declared:
            record.requests = {}
            return None
        requests = requests_of(pod)
        others = (
            other.requests
            for uid, other in self._records.items()
            if other.requests and (there := self._pods.get(uid)) is not None and not _is_over(there)
        )
        found = misfit(requests, others, self._machine)
        if found is None:
            record.requests = requests
        return found

    async def _refuse(self, pod: Manifest, reason: str, message: str) -> None:
        """The pod has failed, and nothing of it is started."""
        self._recorder.warning(pod, reason, message)
        status = rejected_status(pod, reason, message, self._now())
        await self._finish(await self._write_end(pod, status))

    # Small things

    async def _write(self, pod: Manifest, patch: dict[str, Any]) -> Manifest:
        return await self._writer.patch("pods", pod, {"status": patch}, subresource="status", locked=True)

    async def _write_end(self, pod: Manifest, status: dict[str, Any]) -> Manifest:
        uid = pod["metadata"]["uid"]
        self._concluding.add(uid)
        try:
            return await self._write(pod, status_patch(pod.get("status") or {}, status))
        finally:
            self._concluding.discard(uid)

    async def _forget_ended(self, pod: Manifest) -> None:
        """Whatever has its end in the status that was written."""
        uid = pod["metadata"]["uid"]
        for status in statuses_of(pod):
            ended = last_written_end(status)
            for number, process in list(self._processes.of(uid).get(status["name"], {}).items()):
                if number <= ended:
                    await self._forget(process.id)

    async def _forget(self, identity: str) -> None:
        self._processes.drop(identity)
        await self._supervision.forget(identity)

    def _drop_record(self, uid: str) -> None:
        record = self._records.pop(uid, None)
        self._short.pop(uid, None)
        if record is not None and record.probed:
            for process in self._processes.all_of(uid):
                self._attending.leave(process.id)

    def _release_devices(self, uid: str) -> None:
        if self._devices.release(uid):
            for other, record in self._records.items():
                if record.volumes is None:
                    self._worker.add(other)

    def _ends(self, uid: str) -> bool:
        return "deletionTimestamp" in self._pods[uid]["metadata"] or _is_over(self._pods[uid])

    def _new_record(self, pod: Manifest) -> PodRecord:
        probed = [one for one in containers_of(pod["spec"]) if has_probes(one)]
        health = {one["name"]: first_health(one) for one in probed}
        accepted = (pod.get("status") or {}).get("startTime") or self._processes.of(pod["metadata"]["uid"])
        requests = requests_of(pod) if accepted else None
        return PodRecord(since=self._since(pod), requests=requests, probed=bool(probed), health=health)

    def _since(self, pod: Manifest) -> float:
        """When the pod was taken over: as it says itself, else when its first process started, else now."""
        written = read_stamp((pod.get("status") or {}).get("startTime"))
        if written is not None:
            return written
        starts = [
            one.started_at for one in self._processes.all_of(pod["metadata"]["uid"]) if one.started_at is not None
        ]
        return min(starts, default=self._now())

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _record_back_off(self, pod: Manifest, patch: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        for status in statuses_of({"status": patch}):
            if (status["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff":
                message = (
                    f"Back-off restarting failed container {status['name']} in pod "
                    f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
                )
                self._recorder.warning(pod, "BackOff", message)


def _is_over(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in OVER


def _is_done(pod: Manifest) -> bool:
    """Whether it ended well, and by itself."""
    status = pod.get("status") or {}
    return status.get("phase") == "Succeeded" and not status.get("reason")


def _has_controller(pod: Manifest) -> bool:
    return any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ())


def _matters(old: Manifest, new: Manifest) -> bool:
    """Whether a change of a pod is anything but what the runner itself wrote."""
    before, after = old["metadata"], new["metadata"]
    return (
        before.get("generation") != after.get("generation")
        or before.get("deletionTimestamp") != after.get("deletionTimestamp")
        or before.get("deletionGracePeriodSeconds") != after.get("deletionGracePeriodSeconds")
        or old["spec"].get("nodeName") != new["spec"].get("nodeName")
        or (bool(new["spec"].get("readinessGates")) and old.get("status") != new.get("status"))
    )


def _earliest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)
