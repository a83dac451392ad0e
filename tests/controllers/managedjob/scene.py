"""A cluster with a real queue and the controller of managed jobs, where the test plays users and the kubelet.

The kubelet starts every pod that it finds, unless it is told to be slow, and ends those that are deleted.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from controllers.manifests import cluster_queue, flavor, local_queue
from controllers.timeline import catch_up
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.admission import AdmissionChain, UserInfo
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.recorder import Recorder
from fairway.controllers.admission import QueueingController
from fairway.controllers.jobframework.controller import FrameworkController
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.managedjob.controller import ManagedJobController
from fairway.controllers.managedjob.observe import Remotes
from fairway.controllers.managedjob.plugin import Ids, ManagedJobAdmission
from fairway.controllers.pods.controller import PodController
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.controllers.workload.controller import WorkloadLifecycle
from fairway.errors import NotFound
from fairway.integrations import conditions
from fairway.managedjobs.machine import ThisMachine
from fairway.testing.clock import VirtualClock
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster
from fairway.testing.stores import LocalApi

JOBS = "managedjobs"
PLACES = ThisMachine(archives="/state/archives", checkpoint_root="/state/checkpoints")
PREEMPTING: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
_STEP_SECONDS = 0.05


def story(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that waits for things."""

    @functools.wraps(test)
    def told(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return told


def task(cpus: int = 3, **fields: Any) -> Manifest:
    resources = {"cpus": cpus, **fields.pop("resources", {})}
    return {"run": "python train.py", "resources": resources, **fields}


def job(name: str = "train", *tasks: Manifest, **spec: Any) -> Manifest:
    namespace = spec.pop("namespace", "default")
    return {
        "metadata": {"generateName": f"{name}-", "namespace": namespace},
        "spec": {"name": name, "queue": "user-queue", "tasks": list(tasks or (task(),)), **spec},
    }


class Scene:
    """One API, one controller after the other on it."""

    def __init__(self, world: LocalCluster, configuration: FixedConfiguration, remotes: Remotes | None) -> None:
        self.world = world
        self.api: LocalApi = world.api
        self.clock = world.clock
        self.configuration = configuration
        self.remotes = remotes
        self.slow = False
        """Whether pods stay as they are until the test moves them."""

        self.cluster: LocalCluster
        self.recorder: Recorder
        self._running = AsyncExitStack()

    async def start(self) -> None:
        """Everything begins, with caches of its own, as a new process has them."""
        cluster = cluster_on(self.api, self.clock)
        self.cluster = LocalCluster(self.api, cluster, self.clock)
        self.recorder = Recorder(cluster, "fairway")
        queueing = QueueingController(cluster, self.configuration, self.recorder, requeue_batch_seconds=0.02)
        ids = Ids(cluster)
        parts = (
            queueing,
            ids,
            WorkloadLifecycle(cluster, queueing, self.configuration, self.recorder),
            FrameworkController(cluster, self.configuration, self.recorder),
            PodController(cluster, self.configuration, self.recorder),
            ManagedJobController(cluster, self.configuration, self.recorder, queueing, PLACES, self.remotes),
        )
        self.api.objects.use_admission(
            AdmissionChain(QueueAdmission(cluster, self.configuration), ManagedJobAdmission(ids))
        )
        await self._running.enter_async_context(self.cluster.running(*parts))
        await self.rest()

    async def kill(self) -> None:
        """Everything ends, whatever it was about to do."""
        await self._running.aclose()
        self._running = AsyncExitStack()
        await self.api.store.settled()

    # Users

    async def launch(self, manifest: Manifest, user: str = "alice", **options: Any) -> str:
        """The name that a job gets."""
        namespace = manifest["metadata"]["namespace"]
        made = await self.api.create(JOBS, manifest, namespace, user=UserInfo(user), **options)
        await self.rest()
        name: str = made["metadata"]["name"]
        return name

    async def ask(self, name: str, namespace: str = "default", **spec: Any) -> None:
        await self.api.patch(JOBS, name, {"spec": spec}, namespace=namespace)
        await self.rest()

    def status(self, name: str, namespace: str = "default") -> Manifest:
        found = self.api.get(JOBS, name, namespace)
        assert found is not None
        status: Manifest = found["status"]
        return status

    def phase(self, name: str, namespace: str = "default") -> str:
        return str(self.status(name, namespace)["phase"])

    # What there is

    def pods(self, name: str = "", namespace: str = "default") -> list[Manifest]:
        found = [self.api.get("pods", one, namespace) for one in sorted(self.api.names("pods"))]
        return [pod for pod in found if pod and (not name or pod["metadata"]["labels"]["fairway.dev/job"] == name)]

    def pod_names(self, name: str = "") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(name)]

    def workload(self, name: str, namespace: str = "default") -> Manifest:
        found = self.api.get("workloads", self.status(name, namespace)["workload"], namespace)
        assert found is not None
        return found

    def says(self, name: str, condition: str) -> bool:
        return conditions.is_true(self.workload(name), condition)

    # The kubelet

    async def run(self, pod: str, namespace: str = "default") -> None:
        await self.api.objects.bind(self.api.kind("pods"), (namespace, pod), "node")
        await self._tell(pod, namespace, {"phase": "Running"})

    async def end(self, pod: str, exit_code: int = 0, *, told: bool = False, container: str = "run") -> None:
        await self._end(pod, "default", exit_code, told=told, container=container)
        await self.rest()

    async def finish(self, pod: str, exit_code: int, *, container: str = "run") -> None:
        """A pod ends, and nobody has noticed yet."""
        await self._end(pod, "default", exit_code, container=container)

    async def end_all(self, name: str, exit_code: int = 0) -> None:
        for pod in self.pod_names(name):
            await self._end(pod, "default", exit_code)
        await self.rest()

    async def lose(self, pod: str) -> None:
        lost = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "power cut"}
        await self._tell(pod, "default", {"phase": "Failed", "conditions": [self._dated(lost)]})
        await self.rest()

    async def _end(
        self, pod: str, namespace: str, exit_code: int, *, told: bool = False, container: str = "run"
    ) -> None:
        terminated = {"exitCode": exit_code, "finishedAt": stamp(self.clock.now())}
        status = {"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0}
        where = "containerStatuses" if container == "run" else "initContainerStatuses"
        said: Manifest = {
            "phase": "Failed" if exit_code else "Succeeded",
            where: [{**status, "state": {"terminated": terminated}}],
        }
        await self._tell(pod, namespace, said | ({"reason": "Stopped"} if told else {}))

    def _dated(self, condition: Manifest) -> Manifest:
        return {**condition, "lastTransitionTime": stamp(self.clock.now())}

    async def _tell(self, pod: str, namespace: str, status: Manifest) -> None:
        await self.api.patch("pods", pod, {"status": status}, subresource="status", namespace=namespace)

    async def _act(self) -> bool:
        """Do what a kubelet does; whether there was something."""
        acted = False
        for entry in list(self.api.store.collection("pods").entries.values()):
            namespace, name = entry.key
            pod = self.api.get("pods", name, namespace)
            if pod is None:
                continue
            leaving, over = "deletionTimestamp" in pod["metadata"], pod["status"]["phase"] in {"Succeeded", "Failed"}
            if leaving and not over and pod["spec"].get("nodeName") and not self.slow:
                await self._end(name, namespace, 143, told=True)
                acted = True
            elif leaving and over and pod["metadata"].get("deletionGracePeriodSeconds"):
                await self.api.delete("pods", name, namespace, grace_seconds=0)
                acted = True
            elif not leaving and pod["status"]["phase"] == "Pending" and not self.slow and not _is_gated(pod):
                await self.run(name, namespace)
                acted = True
        return acted

    # Time

    async def rest(self) -> None:
        """Let everything happen that needs no time."""
        while True:
            await catch_up(self.world)
            try:
                if not await self._act():
                    return
            except NotFound:
                continue

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, with all that it brings, one timer after the other."""
        end = self.clock.monotonic() + seconds
        await self.rest()
        while (due := self.clock.next_due()) is not None and self.clock.monotonic() + due <= end:
            self.clock.advance(max(0.0, due))
            await self.rest()
        self.clock.advance(max(0.0, end - self.clock.monotonic()))
        await self.rest()

    async def events(self, name: str) -> list[str]:
        """The reasons of what was told about a job, in order."""
        await self.recorder.flush()
        found = [one for one in self.world.events() if one["involvedObject"]["name"] == name]
        found.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [one["reason"] for one in found]


def _is_gated(pod: Manifest) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


@asynccontextmanager
async def a_scene(
    *, clock: VirtualClock | None = None, remotes: Remotes | None = None, **configured: Any
) -> AsyncIterator[Scene]:
    """Everything running, with a queue of four cores that preempts by priority."""
    async with local_cluster(clock=clock) as world:
        scene = Scene(world, FixedConfiguration(Configuration(**configured)), remotes)
        await world.api.create("resourceflavors", flavor(nodeLabels={"pool": "a"}))
        await world.api.create("clusterqueues", cluster_queue(**PREEMPTING))
        await world.api.create("localqueues", local_queue())
        await scene.start()
        try:
            yield scene
        finally:
            await scene.kill()
