"""Starts the containers of a pod: prepares volumes, devices and logs, then asks the supervisor.

What cannot be started is noted with the reason, for the pod's status to say; asking the supervisor twice is harmless.
"""

import asyncio
import logging
from typing import Final

from fairway.apis.core.pod_parts import containers_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.errors import FairwayError
from fairway.runner.devices import Devices, models_of, wanted_by
from fairway.runner.directories import Directories
from fairway.runner.launching import Launching, Prepared
from fairway.runner.mounts import variable_of
from fairway.runner.pods.attempts import failed_to_start
from fairway.runner.pods.planning import ContainerStart
from fairway.runner.pods.troubles import OutOfResources, Trouble, Unstartable, from_os_error
from fairway.runner.processes import Process, StartDeferred, Supervision
from fairway.runner.records import PodRecord, Processes
from fairway.runtime.clock import Clock

_CONFIG_SECONDS: Final = 20.0
"""After how long a container is tried again that lacks an object or a file: not all of them can be watched."""

_SHORTAGE_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
"""The same when a resource of the machine has run out; the end of a process triggers an earlier retry."""

_log = logging.getLogger(__name__)


class Starting:
    """Starts containers for the runner."""

    def __init__(
        self,
        supervision: Supervision,
        processes: Processes,
        launching: Launching,
        devices: Devices,
        directories: Directories,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._supervision = supervision
        self._processes = processes
        self._launching = launching
        self._devices = devices
        self._directories = directories
        self._recorder = recorder
        self._clock = clock
        self._said_images = False

    def provide(self, pod: Manifest, record: PodRecord, *, gpus: bool = True) -> None:
        """GPUs, a place for its logs, volumes, before the first container starts; trouble is every container's.

        `NotEnough` if so many GPUs are not free.
        """
        if record.volumes is not None:
            return
        try:
            if gpus:
                self._take_gpus(pod)
            self._keep_logs(pod)
            record.volumes = self._launching.volumes(pod)
        except Unstartable as error:
            for container in containers_of(pod["spec"]):
                self._on_start_failed(pod, record, ContainerStart(container=container["name"], number=0), error)

    def _take_gpus(self, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        try:
            if wanted := wanted_by(pod):
                self._devices.take(uid, wanted, self._directories.pod(uid), models_of(pod))
        except OSError as error:
            raise from_os_error("cannot record the pod's GPUs", error) from error

    def _keep_logs(self, pod: Manifest) -> None:
        try:
            self._directories.keep_logs(pod)
        except OSError as error:
            raise from_os_error("cannot keep the pod's logs", error) from error

    async def start_all(self, pod: Manifest, record: PodRecord, starts: tuple[ContainerStart, ...]) -> None:
        if len(starts) == 1:
            await self._start(pod, record, starts[0])
        else:
            await asyncio.gather(*(self._start(pod, record, start) for start in starts))

    def prepared(self, pod: Manifest, record: PodRecord, name: str, number: int) -> Prepared:
        """The process of a container, as it is or would be started; `ConfigError` if it cannot be."""
        container = next(one for one in containers_of(pod["spec"]) if one["name"] == name)
        if record.volumes is None:
            record.volumes = self._launching.volumes(pod)
        return self._launching.prepare(pod, container, number, record.volumes)

    async def _start(self, pod: Manifest, record: PodRecord, start: ContainerStart) -> None:
        name = start.container
        if name in record.troubles or name in record.never_started:
            return
        try:
            prepared = self.prepared(pod, record, name, start.number)
        except Unstartable as error:
            self._on_start_failed(pod, record, start, error)
            return
        self._warn_missing(pod, record, prepared)
        launch = prepared.launch
        known = self._processes.knows(launch.id)
        if not known:
            self._processes.note(Process(id=launch.id))
        try:
            await self._supervision.start(launch)
        except (FairwayError, OSError) as error:
            if not known and launch.id not in self._supervision.processes:
                self._processes.drop(launch.id)
            if not isinstance(error, StartDeferred):
                raise
            self._on_start_failed(pod, record, start, OutOfResources(str(error)))
        else:
            record.failures[name] = start.failures
            record.shortages = 0

    def _on_start_failed(self, pod: Manifest, record: PodRecord, start: ContainerStart, error: Unstartable) -> None:
        """Note why a container cannot be started; it has failed if waiting cannot help and it is not restarted."""
        trouble = error.trouble
        if trouble.lasting and pod["spec"].get("restartPolicy") == "Never":
            now = self._clock.now().timestamp()
            record.never_started[start.container] = failed_to_start(start.number, trouble.message, now)
        else:
            record.troubles[start.container] = trouble
            record.try_again_at = self._clock.monotonic() + _seconds_until_next_try(trouble, record)
            record.shortages += trouble.shortage
        self._warn_once(pod, record, "Failed", f"Error: {trouble.message}")

    def _warn_missing(self, pod: Manifest, record: PodRecord, prepared: Prepared) -> None:
        if not self._said_images:
            self._said_images = True
            _log.info("images are not used: pods run as processes of this machine (docs/operate/runner.md)")
        for name, path in prepared.missing:
            message = (
                f'volume "{name}" is not at {path}: pods are processes of this machine and share its files. It is at '
                f"${variable_of(name)}; a relative mountPath is linked into the pod's working directory."
            )
            self._warn_once(pod, record, "MountPathNotAvailable", message)

    def _warn_once(self, pod: Manifest, record: PodRecord, reason: str, message: str) -> None:
        if message not in record.told:
            record.told.add(message)
            self._recorder.warning(pod, reason, message)


def _seconds_until_next_try(trouble: Trouble, record: PodRecord) -> float:
    if not trouble.shortage:
        return _CONFIG_SECONDS
    return _SHORTAGE_SECONDS[min(record.shortages, len(_SHORTAGE_SECONDS) - 1)]
