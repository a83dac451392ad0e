"""What runs beside the API in the server's process: webhooks, the node agent, and controllers.

Part of the composition root: it knows everybody, and decides nothing but the order in which things begin.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairway.admission.port import WaitingExplainer
from fairway.apis.core.accelerators import GPU
from fairway.apis.kueue.configuration import NAMESPACE as CONFIGURED_IN
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import format_amount
from fairway.client.cluster import Cluster
from fairway.client.explainer import NAMESPACE, SECRET, RemoteExplainer
from fairway.client.local import LocalClient
from fairway.client.recorder import Recorder
from fairway.contexts import configuration_of, runner_configuration
from fairway.controllers.defaults import Defaults
from fairway.controllers.managedjob.plugin import Ids
from fairway.controllers.webhooks.installing import InstallManifest
from fairway.controllers.webhooks.scheduling import SchedulingAdmission
from fairway.managedjobs.configured import RunnerConfig
from fairway.manager import SERVER_CONFIG_MAP, ControllerManager, server_plugins
from fairway.runner.declared import read_nodes
from fairway.runner.enforcement import Enforcement
from fairway.runner.jobfiles import JobFiles
from fairway.runner.machine import Machine
from fairway.runner.results import Retention
from fairway.runner.runner import Runner
from fairway.runner.servicenames import ServiceNames
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import Clock
from fairway.runtime.parts import Part, running, unless
from fairway.settings import Settings
from fairway.simulate.live import ForecastingExplainer
from fairway.store.verbs import Objects
from fairway.store.verbs.reading import readable

_log = logging.getLogger(__name__)


class Plane:
    """Everything that watches and acts, besides the API itself."""

    def __init__(self, objects: Objects, settings: Settings, clock: Clock) -> None:
        cluster = Cluster(lambda manager: LocalClient(objects, manager, trusted=True), objects.registry, clock)
        self.manager = ControllerManager(cluster, settings, settings.controller_names)
        self._objects = objects
        self._cluster = cluster
        self._controllers = ",".join(sorted(settings.controller_names))
        self._config_maps = cluster.cache("configmaps")
        self._writer = cluster.writer("fairway")
        self.explainer: WaitingExplainer = self.manager.explainer
        if "admission" not in settings.controller_names:
            self.explainer = RemoteExplainer(self._secret, self._namespaces, self.manager.explainer, clock)
        self.simulations = self.manager.add_simulations()
        self.explainer = ForecastingExplainer(self.explainer, self.simulations)
        ids = Ids(cluster)
        self._parts: list[Part] = [*self.manager.parts, ids]
        self._node = None if settings.no_node else OwnNode(cluster, settings, clock, self.manager.recorder)
        if self._node is not None:
            self._parts += self._node.parts
        install = InstallManifest()
        scheduling = SchedulingAdmission(
            cluster, self.manager.recorder, CONFIGURED_IN, configuration_of(settings).queueconfig, own_nodes=True
        )
        plugins = server_plugins(cluster, self.manager.configuration, settings, ids, install, scheduling=scheduling)
        objects.use_admission(plugins, install.before_apply)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Future[None]"]:
        """Everything at work; what is given back never ends unless a part broke, and then with its error."""
        try:
            async with running(self._cluster) as broken:
                await unless(broken, self._begin())
                async with running(*self._parts, broken=broken):
                    yield broken
        finally:
            if self._node is not None:
                await self._node.supervision.close()

    async def _begin(self) -> None:
        await self._cluster.synced()
        if self._node is not None:
            await self._node.begin()
        await self._publish_controllers()

    async def _publish_controllers(self) -> None:
        data, known = {"controllers": self._controllers}, self._config_maps.get(NAMESPACE, SERVER_CONFIG_MAP)
        if known is None:
            metadata = {"name": SERVER_CONFIG_MAP, "namespace": NAMESPACE}
            await self._writer.create("configmaps", {"metadata": metadata, "data": data})
        elif known.get("data") != data:
            await self._writer.patch("configmaps", known, {"data": data})

    def _secret(self) -> Manifest | None:
        entry = self._objects.store.get("secrets", (NAMESPACE, SECRET))
        return None if entry is None else readable(entry)

    def _namespaces(self) -> list[str]:
        return [name for _, name in self._objects.store.collection("namespaces").entries]


class OwnNode:
    """This machine as a node: the runner with its supervisor, the files of jobs, and the queues of a first start."""

    def __init__(self, cluster: Cluster, settings: Settings, clock: Clock, recorder: Recorder) -> None:
        machine = Machine.detect(settings.cpus, settings.memory, settings.gpus, settings.state)
        own = runner_configuration(settings)
        self.supervision = LocalSupervision(settings.state, clock)
        self._defaults = Defaults(cluster, _capacity(machine), Counter(machine.gpu_models))
        self._runner = Runner(
            cluster,
            self.supervision,
            machine,
            settings.state,
            recorder,
            enforcement=_enforcement(own),
        )
        if settings.nodes is not None:
            self._runner.declare(read_nodes(settings.nodes))
        names = ServiceNames(cluster, settings.state)
        self._runner.use_hosts(names.file)
        self.parts: list[Part] = [names, self._runner, JobFiles(cluster, settings.state, _retention(own))]

    async def begin(self) -> None:
        """Before any decision, so that the node is up to date."""
        await self.supervision.connect()
        if self.supervision.limits_note:
            _log.warning("limits of pods are not enforced: %s", self.supervision.limits_note)
        await self._defaults.ensure()
        await self._runner.register()


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
