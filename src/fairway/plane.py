"""The control plane of one machine: the caches, the gatekeeper, the controllers and the runner, put together.

Part of the composition root: it knows everybody, and decides nothing but the order in which things begin.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from fairway.apis.core.accelerators import GPU
from fairway.apis.core.node_views import DEFAULT_SCHEDULER
from fairway.apis.machinery.quantities import format_amount
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.client.recorder import Recorder
from fairway.contexts import other_servers, runner_configuration
from fairway.controllers.admission.controller import QueueingController
from fairway.controllers.admission.waiting import WaitingWorkloads
from fairway.controllers.batchjob.controller import JobController
from fairway.controllers.defaults import Defaults
from fairway.controllers.jobframework.controller import FrameworkController
from fairway.controllers.kit.configuration import CurrentConfiguration
from fairway.controllers.managedjob.controller import ManagedJobController
from fairway.controllers.managedjob.gatekeeping import ManagedJobGatekeeper
from fairway.controllers.managedjob.ids import Ids
from fairway.controllers.metrics import QueueMetrics
from fairway.controllers.notrun import NotRunController
from fairway.controllers.placement import WaitingForNode
from fairway.controllers.pods.controller import PodController
from fairway.controllers.provisioning.check_capacity import CheckCapacity
from fairway.controllers.provisioning.controller import ProvisioningController
from fairway.controllers.queuestatus.commitment import Commitment
from fairway.controllers.queuestatus.controller import QueueStatuses
from fairway.controllers.scheduler.scheduler import Scheduler
from fairway.controllers.webhooks.gatekeeper import QueueGatekeeper
from fairway.controllers.webhooks.installing import InstallManifest
from fairway.controllers.webhooks.priority_ranges import PriorityGatekeeper
from fairway.controllers.webhooks.several import Gatekeepers
from fairway.controllers.workload.controller import WorkloadLifecycle
from fairway.managedjobs.configured import RunnerConfig
from fairway.managedjobs.pods import Places
from fairway.runner.enforcement import Enforcement
from fairway.runner.jobfiles import JobFiles
from fairway.runner.machine import Machine
from fairway.runner.results import Retention
from fairway.runner.runner import Runner
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import Clock
from fairway.settings import Settings
from fairway.store.verbs import Objects

_log = logging.getLogger(__name__)


class _Part(Protocol):
    async def run(self) -> None: ...


class Plane:
    """Everything that watches and acts, besides the API itself."""

    def __init__(self, objects: Objects, settings: Settings, clock: Clock) -> None:
        machine = Machine.detect(settings.cpus, settings.memory, settings.gpus, settings.state)
        cluster = Cluster(lambda manager: LocalClient(objects, manager, trusted=True), objects.registry, clock)
        kueue, kubernetes = Recorder(cluster, "kueue"), Recorder(cluster, "fairway")
        configuration = CurrentConfiguration(cluster, kueue)
        self.queueing = QueueingController(cluster, configuration, kueue, schedulers=frozenset({DEFAULT_SCHEDULER}))
        self.explainer = WaitingWorkloads(cluster, self.queueing)
        self.metrics = QueueMetrics(cluster, self.queueing, configuration)
        ids = Ids(cluster)
        places = Places(archives=str(settings.state / "archives"), checkpoints=str(settings.state / "checkpoints"))
        own = runner_configuration(settings)
        remotes = other_servers(settings, os.environ, clock)
        scheduler = Scheduler(cluster, kubernetes)
        self._cluster = cluster
        self._supervision = LocalSupervision(settings.state, clock)
        self._defaults = Defaults(cluster, _capacity(machine), Counter(machine.gpu_models))
        self._runner = Runner(
            cluster, self._supervision, machine, settings.state, kubernetes, enforcement=_enforcement(own)
        )
        self._parts: list[_Part] = [
            kueue,
            kubernetes,
            self.queueing,
            QueueStatuses(cluster, self.queueing, configuration),
            WaitingForNode(cluster),
            WorkloadLifecycle(cluster, self.queueing, configuration, kueue),
            FrameworkController(cluster, configuration, kueue),
            PodController(cluster, configuration, kueue),
            ProvisioningController(cluster, kueue),
            CheckCapacity(cluster, kueue),
            JobController(cluster, kubernetes, scheduler),
            NotRunController(cluster, kubernetes),
            ids,
            ManagedJobController(cluster, configuration, kubernetes, self.queueing, places, remotes),
            scheduler,
            self._runner,
            JobFiles(cluster, settings.state, _retention(own)),
        ]
        objects.advisers["clusterqueues.kueue.x-k8s.io"] = Commitment(cluster).warnings
        objects.ask(
            Gatekeepers(
                PriorityGatekeeper(cluster),
                QueueGatekeeper(cluster, configuration),
                ManagedJobGatekeeper(ids),
                InstallManifest(),
            )
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Future[None]"]:
        """Everything at work; what is given back never ends unless a part broke, and then with its error."""
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks = [_started(self._cluster, broken)]
        try:
            await self._cluster.synced()
            await self._supervision.connect()
            if self._supervision.limits_note:
                _log.warning("limits of pods are not enforced: %s", self._supervision.limits_note)
            await self._defaults.ensure()
            await self._runner.register()  # nobody decides on a machine as it was before
            tasks += [_started(part, broken) for part in self._parts]
            yield broken
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._supervision.close()


def _started(part: _Part, broken: "asyncio.Future[None]") -> "asyncio.Task[None]":
    task = asyncio.create_task(part.run(), name=type(part).__name__)

    def ended(task: "asyncio.Task[None]") -> None:
        if task.cancelled() or broken.done():
            return
        error = task.exception() or RuntimeError(f"{task.get_name()} ended by itself")
        _log.error("%s broke", task.get_name(), exc_info=error)
        broken.set_exception(error)

    task.add_done_callback(ended)
    return task


def _enforcement(own: RunnerConfig) -> Enforcement:
    return Enforcement(**{name: value for name, value in (("cpu", own.cpu), ("memory", own.memory)) if value})


def _retention(own: RunnerConfig) -> Retention:
    said = {
        "max_age_days": own.results_days,
        "max_attempts": own.results_attempts,
        "max_count": own.results_count,
        "max_bytes": own.results_bytes,
    }
    return Retention(**{name: value for name, value in said.items() if value is not None})


def _capacity(machine: Machine) -> dict[str, str]:
    """What the queue of a first start may give away."""
    has = {"cpu": machine.cores_milli, "memory": machine.memory_bytes, GPU: machine.gpus}
    return {resource: format_amount(resource, amount) for resource, amount in has.items()}
