"""The API with those who work on managed jobs: numbers, queues, the controller. Only pods are not run."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.admission import AdmissionChain
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.client.recorder import Recorder
from fairway.client.remotes import KubeconfigRemotes
from fairway.controllers.admission.controller import QueueingController
from fairway.controllers.admission.waiting import WaitingWorkloads
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.managedjob.controller import ManagedJobController
from fairway.controllers.managedjob.plugin import Ids, ManagedJobAdmission
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.controllers.workload.controller import WorkloadLifecycle
from fairway.managedjobs.machine import ThisMachine
from fairway.runtime.clock import SystemClock
from fuzz.world import World

_TURNS: Final = 60


class ManagedWorld(World):
    """A world in which jobs are taken up as soon as they are there."""

    async def _start(self) -> None:
        await super()._start()
        cluster = Cluster(
            lambda manager: LocalClient(self.objects, manager, trusted=True), self.objects.registry, SystemClock()
        )
        configuration, recorder = FixedConfiguration(Configuration()), Recorder(cluster, "fairway")
        queueing, ids = QueueingController(cluster, configuration, recorder), Ids(cluster)
        places = ThisMachine(archives=str(self.state / "archives"), checkpoint_root=str(self.state / "checkpoints"))
        remotes = KubeconfigRemotes(self.state / "nobody", self.state / "archives", SystemClock())
        self.objects.use_admission(AdmissionChain(QueueAdmission(cluster, configuration), ManagedJobAdmission(ids)))
        self.api.explainer = WaitingWorkloads(cluster, queueing)
        parts: list[Coroutine[Any, Any, None]] = [
            part.run()
            for part in (
                recorder,
                queueing,
                WorkloadLifecycle(cluster, queueing, configuration, recorder),
                ids,
                remotes,
                ManagedJobController(cluster, configuration, recorder, queueing, places, remotes),
            )
        ]
        self._keepers.append(asyncio.create_task(cluster.run()))
        await cluster.synced()
        self._keepers += [asyncio.create_task(part) for part in parts]

    def let_them_work(self) -> None:
        """Give everybody some turns, and see that nobody stumbled."""

        async def turns() -> None:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
                await self.store.settled()

        self.run(turns())
        self.check_calm()
