"""The whole runner on real processes: store, caches, supervisor, files."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.runner.machine import Machine
from fairway.runner.runner import Runner
from fairway.runner.servicenames import ServiceNames
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import SystemClock
from fairway.testing.clock import VirtualClock
from fairway.testing.clusters import cluster_on
from fairway.testing.stores import LocalApi, local_api

from .worlds import NODE, container, play, pod

MACHINE_MOUNTS = str(Path("/proc/self/ns/mnt").readlink())
MACHINE_HOSTS = Path("/etc/hosts").read_text().rstrip("\n").split("\n")
MACHINE = Machine(cores_milli=2000, memory_bytes=4 << 30, gpus=2, hostname=NODE)


@dataclass
class Machinery:
    """An API that outlives servers, and the state directory that they share."""

    api: LocalApi
    state: Path
    uids: dict[str, str] = field(default_factory=dict)

    async def create(self, manifest: Manifest) -> str:
        created = await self.api.create("pods", manifest)
        uid = str(created["metadata"]["uid"])
        self.uids[created["metadata"]["name"]] = uid
        return uid

    def phase(self, name: str = "p") -> str:
        found = self.api.get("pods", name)
        return str(found["status"]["phase"]) if found else "gone"

    def terminated(self, name: str = "p") -> Manifest:
        found = self.api.get("pods", name)
        assert found is not None
        state: Manifest = found["status"]["containerStatuses"][0]["state"]["terminated"]
        return state

    def output(self, name: str = "p", part: str = "main", number: int = 0) -> list[str]:
        path = self.state / "logs" / "default" / self.uids[name] / part / f"{number}.log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.api.until(condition)

    @asynccontextmanager
    async def server(self) -> AsyncIterator[LocalSupervision]:
        """A server; at the end it is gone, and its processes are not."""
        clock = SystemClock()
        cluster = cluster_on(self.api, clock)
        supervision = LocalSupervision(self.state, clock)
        environment = {"PATH": os.environ["PATH"], "SECRET_OF_THE_SERVER": "x"}
        names, recorder = ServiceNames(cluster, self.state), Recorder(cluster, "runner")
        runner = Runner(cluster, supervision, MACHINE, self.state, recorder, environment)
        runner.use_hosts(names.file)
        running = [asyncio.create_task(cluster.run())]
        await cluster.synced()
        running += [asyncio.create_task(part.run()) for part in (names, runner)]
        try:
            yield supervision
        finally:
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
            await supervision.close()
            assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


@asynccontextmanager
async def machinery(state: Path) -> AsyncIterator[Machinery]:
    async with local_api(clock=VirtualClock(datetime.now(UTC)), keepers=True) as api:
        try:
            yield Machinery(api, state)
        finally:
            last = LocalSupervision(state, SystemClock())
            await last.connect()
            await last.shutdown()


async def eventually(condition: Callable[[], bool]) -> None:
    """For what nobody tells: files that a thread removes, what the supervisor forgets."""
    while not condition():  # noqa: ASYNC110 - there is nothing to wait on
        await asyncio.sleep(0)


def shell(script: str, name: str = "main", **fields: Any) -> Manifest:
    return container(name, "sh", "-c", script, **fields)


def test_jobs_run_and_their_ends_are_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world, world.server() as supervision:
            await world.create(
                pod(
                    "good",
                    shell(
                        'echo "$HOSTNAME $GREETING"; env | grep -c SECRET',
                        env=[{"name": "GREETING", "value": "says hello"}],
                    ),
                )
            )
            await world.create(pod("bad", shell("exit 7")))
            await world.create(pod("killed", shell("kill -9 $$$$")))
            await world.create(pod("absent", container("main", "no-such-program")))
            await world.until(lambda: all(world.phase(n) in {"Succeeded", "Failed"} for n in world.uids))
            assert world.output("good") == ["good says hello", "0"]
            assert world.phase("good") == "Failed", "grep found nothing"
            assert (world.terminated("bad")["exitCode"], world.terminated("bad")["reason"]) == (7, "Error")
            assert (world.terminated("killed")["exitCode"], world.terminated("killed")["signal"]) == (137, 9)
            assert (world.terminated("absent")["exitCode"], world.terminated("absent")["reason"]) == (128, "StartError")
            assert "no-such-program" in world.terminated("absent")["message"]
            await eventually(lambda: not supervision.processes)

    play(story())


def service(name: str, **spec: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}


RESOLVE = """python3 -c 'import socket, sys
for name in sys.argv[1:]: print(socket.gethostbyname(name))' """


def test_names_of_services_resolve_in_pods_also_those_that_come_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world:
            async with world.server():
                await world.api.create("services", service("web", clusterIP="None"))
                await world.api.create("services", service("other", type="ExternalName", externalName="a.example"))
                await world.api.create("services", service("built-in") | {"spec": None})
                await world.create(pod("first", shell(f"{RESOLVE} web web.default.svc web.default.svc.cluster.local")))
                later = f"until {RESOLVE} later.default.svc.cluster.local 2> error; do sleep 0.05; done; cat /etc/hosts"
                await world.create(pod("second", shell(later)))
                await world.until(lambda: world.phase("first") == "Succeeded" and world.phase("second") == "Running")
                assert world.output("first") == ["127.0.0.1"] * 3
            async with world.server():
                await world.api.create("services", service("later"))
                await world.until(lambda: world.phase("second") == "Succeeded")
            said = world.output("second")
            assert said[0] == "127.0.0.1"
            assert not any("other" in line for line in said)
            assert said[1 : 1 + len(MACHINE_HOSTS)] == MACHINE_HOSTS, "names of the machine stay"

    play(story())


def test_a_namespace_without_services_has_the_hosts_of_the_machine(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world, world.server():
            await world.create(pod("p", shell("readlink /proc/self/ns/mnt")))
            await world.until(lambda: world.phase() == "Succeeded")
            assert world.output() == [MACHINE_MOUNTS]

    play(story())


def test_the_longest_values_that_are_let_through_can_be_started(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as machine, machine.server():
            data = {f"V{number}": "a" * (128 * 1024 - 1 - len("Vn=")) for number in range(7)}
            await machine.api.create("configmaps", {"metadata": {"name": "c", "namespace": "default"}, "data": data})
            await machine.create(
                pod(
                    "p",
                    container("main", command=["sh", "-c", "echo ${#V6}"], envFrom=[{"configMapRef": {"name": "c"}}]),
                )
            )
            await machine.until(lambda: machine.phase() == "Succeeded")
            assert machine.output() == ["131068"]

    play(story())


def test_init_containers_share_a_volume_with_those_that_follow(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world, world.server():
            mounts = [{"name": "shared", "mountPath": "shared"}]
            manifest = pod(
                "p",
                shell("cat shared/word; cat $FAIRWAY_VOLUME_SHARED/word", volumeMounts=mounts),
                initContainers=[shell("echo ready > shared/word", "first", volumeMounts=mounts)],
                volumes=[{"name": "shared", "emptyDir": {}}],
            )
            await world.create(manifest)
            await world.until(lambda: world.phase() == "Succeeded")
            assert world.output() == ["ready", "ready"]
            volumes = tmp_path / "pods" / world.uids["p"] / "volumes"
            await eventually(lambda: not volumes.is_dir())

    play(story())


def test_a_deleted_pod_may_clean_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world, world.server():
            done = tmp_path / "done"
            await world.create(pod("p", shell(f"trap 'echo bye > {done}; exit 0' TERM; while :; do sleep 0.01; done")))
            await world.until(lambda: world.phase() == "Running")
            await world.api.delete("pods", "p")
            await world.until(lambda: world.phase() == "gone")
            assert done.read_text() == "bye\n"
            await eventually(lambda: not any((tmp_path / "work").iterdir()))
            await eventually(lambda: not any((tmp_path / "logs").glob("default/*")))

    play(story())


def test_a_failed_container_is_started_again_in_its_directory(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world, world.server():
            script = "echo try; test -e been || { touch been; exit 1; }"
            await world.create(pod("p", shell(script), restartPolicy="OnFailure"))
            await world.until(lambda: world.phase() == "Succeeded")
            assert (world.output(number=0), world.output(number=1)) == (["try"], ["try"])

    play(story())


def test_a_job_runs_on_while_the_server_is_away_and_is_found_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world:
            gate = tmp_path / "gate"
            os.mkfifo(gate)
            async with world.server():
                await world.create(pod("p", shell(f"echo begun; read word < {gate}; echo $word; exit 4")))
                await world.until(lambda: world.phase() == "Running")
            async with world.server():
                await asyncio.to_thread(gate.write_text, "go\n")
                await world.until(lambda: world.phase() == "Failed")
            assert world.output() == ["begun", "go"], "it ran once"
            assert world.terminated()["exitCode"] == 4

    play(story())


def test_gpus_are_shown_to_those_who_have_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world, world.server():
            one = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
            say = 'echo "[$CUDA_VISIBLE_DEVICES]"'
            await world.create(pod("p", shell(say, "a", **one), shell(say, "b", **one), shell(say, "c")))
            await world.until(lambda: world.phase() == "Succeeded")
            assert [world.output(part=name) for name in "abc"] == [["[0]"], ["[1]"], ["[]"]]

    play(story())


def test_the_supervisors_death_ends_attempts_as_lost(tmp_path: Path) -> None:
    async def story() -> None:
        async with machinery(tmp_path) as world, world.server() as supervision:
            await world.create(pod("never", shell("sleep 1000")))
            again = pod("again", shell("test -e been && exit 0; touch been; sleep 1000"), restartPolicy="OnFailure")
            await world.create(again)
            await world.until(lambda: world.phase("never") == world.phase("again") == "Running")
            assert supervision.supervisor_pid is not None
            os.kill(supervision.supervisor_pid, signal.SIGKILL)
            await world.until(lambda: world.phase("never") == "Failed")
            assert world.terminated("never")["reason"] == "ContainerStatusUnknown"
            await world.until(lambda: world.phase("again") == "Succeeded")

    play(story())
