"""Pods on this machine: what is started and stopped, when, and what their status says of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.runner.runner import LINGER_SECONDS, UNCOUNTED_SECONDS

from .worlds import World, a_world, container, play, pod


async def started(world: World, manifest: Manifest, *containers: str) -> Manifest:
    """A pod whose containers run, and whose status says so."""
    created = await world.create(manifest)
    name = created["metadata"]["name"]
    await world.until(lambda: world.phase(name) == "Running")
    for one in containers or ("main",):
        assert world.id(name, one) in world.supervision.running()
    return created


def events(world: World, reason: str) -> list[str]:
    found = [world.api.get("events", name) for name in world.api.names("events")]
    return [one["message"] for one in found if one is not None and one["reason"] == reason]


def test_a_short_job_costs_one_write(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            created = await world.create(pod())
            await world.until(lambda: bool(world.supervision.launches))
            world.supervision.end(world.id("p"), 0)
            await world.until(lambda: world.phase() == "Succeeded")
            await world.pass_time(1.0)
            assert world.state_of()["state"]["terminated"]["reason"] == "Completed"
            assert world.supervision.forgotten == [world.id("p")]
            writes = int(world.get()["metadata"]["resourceVersion"]) - int(created["metadata"]["resourceVersion"])
            assert writes == 1

    play(story())


def test_a_longer_job_is_seen_running(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod())
            assert world.condition("Ready") is not None
            assert world.supervision.forgotten == []
            world.supervision.end(world.id("p"), 3)
            await world.until(lambda: world.phase() == "Failed")
            assert world.state_of()["state"]["terminated"]["exitCode"] == 3

    play(story())


def test_what_is_launched(tmp_path: Path) -> None:
    """Arguments, environment, directory, log and limits of a process."""

    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            main = container(
                "main",
                "python",
                "$(SCRIPT)",
                args=["--rate=$(RATE)", "$$(RATE)"],
                env=[{"name": "SCRIPT", "value": "train.py"}, {"name": "RATE", "value": "0.1"}],
                resources={"limits": {"cpu": "1500m", "memory": "1Gi"}},
            )
            await started(world, pod("p", main))
            (launch,) = world.supervision.launches
            uid = world.uids["p"]
            assert launch.id == f"{uid}/main/0"
            assert launch.argv == ("python", "train.py", "--rate=0.1", "$(RATE)")
            assert launch.env == {
                "PATH": "/usr/bin:/bin",
                "HOME": "/home/someone",
                "HOSTNAME": "p",
                "SCRIPT": "train.py",
                "RATE": "0.1",
                "CUDA_VISIBLE_DEVICES": "",
                "NVIDIA_VISIBLE_DEVICES": "void",
            }
            assert launch.cwd == launch.home == str(tmp_path / "work" / uid)
            assert launch.log == str(tmp_path / "logs" / "default" / uid / "main" / "0.log")
            assert (launch.limits.cpu_millis, launch.limits.memory_bytes) == (1500, 1 << 30)

    play(story())


def test_pods_of_other_nodes_and_pods_without_one_are_left_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(pod("elsewhere", nodeName="other"))
            await world.create(pod("nowhere", nodeName=""))
            await world.create(pod("here"))
            await world.until(lambda: bool(world.supervision.launches))
            await world.pass_time(1.0)
            assert [one.id for one in world.supervision.launches] == [world.id("here")]

    play(story())


def test_a_pod_is_run_once_it_is_bound(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            created = await world.create(pod("p", nodeName=""))
            writer = world.cluster.cluster.writer("scheduler")
            await writer.bind(created, "box")
            await world.until(lambda: bool(world.supervision.launches))

    play(story())


def test_a_deleted_pod_is_stopped_then_its_end_is_written_then_it_goes(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod(terminationGracePeriodSeconds=7))
            seen: list[Any] = []
            world.api.store.observe(lambda change: seen.append((change.type, change.entry)))
            await world.api.delete("pods", "p")
            await world.until(lambda: bool(world.supervision.stops))
            assert world.supervision.stops == [(world.id("p"), 7.0)]
            await world.pass_time(3)
            assert len(world.supervision.stops) == 1, "it is not told again"
            world.supervision.end(world.id("p"), None, signal=15)
            await world.until(lambda: world.api.get("pods", "p") is None)
            kinds = [kind for kind, entry in seen if entry.resource == "pods"]
            assert kinds == ["MODIFIED", "MODIFIED", "DELETED"], "marked, ended, gone"
            assert world.supervision.processes == {}

    play(story())


@pytest.mark.parametrize("grace_seconds", [30, 0])
def test_a_pod_that_is_deleted_while_it_is_being_started_is_stopped(tmp_path: Path, grace_seconds: int) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            world.supervision.hesitates = asyncio.Event()
            await world.create(pod())
            await world.pass_time(0.1)
            await world.api.delete("pods", "p", grace_seconds=grace_seconds)
            await world.pass_time(0.1)
            assert (world.supervision.launches, world.supervision.stops) == ([], [])

            world.supervision.hesitates.set()
            await world.until(lambda: [one for one, _ in world.supervision.stops] == [world.id("p")])
            world.supervision.end(world.id("p"), None, signal=15)
            await world.until(lambda: world.api.get("pods", "p") is None)
            await world.until(lambda: world.supervision.processes == {})

    play(story())


def test_a_process_that_has_ended_when_its_start_is_answered_ends_its_pod(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            world.supervision.on_change(
                lambda process: world.supervision.end(process.id, 3) if process.ended is None else None
            )
            await world.create(pod())
            await world.until(lambda: world.phase() == "Failed", patience_seconds=0.02)
            assert world.state_of()["state"]["terminated"]["exitCode"] == 3

    play(story())


def test_a_shorter_grace_period_counts_when_it_comes_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod())
            await world.api.delete("pods", "p")
            await world.until(lambda: len(world.supervision.stops) == 1)
            await world.api.delete("pods", "p", grace_seconds=5)
            await world.until(lambda: len(world.supervision.stops) == 2)
            assert world.supervision.stops[1] == (world.id("p"), 5.0)

    play(story())


def test_a_pod_that_is_gone_at_once_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod())
            log = tmp_path / "logs" / "default" / world.uids["p"]
            log.mkdir(parents=True)
            await world.api.delete("pods", "p", grace_seconds=0)
            await world.until(lambda: bool(world.supervision.stops))
            assert world.supervision.stops == [(world.id("p"), 2.0)]
            await world.pass_time(1)
            assert [one.name for one in log.parent.iterdir()] == [log.name], "it still writes"
            world.supervision.end(world.id("p"), None, signal=9)
            await world.until(lambda: not world.supervision.processes)
            while list((tmp_path / "pods").iterdir()) or list((tmp_path / "logs" / "default").iterdir()):
                await world.pass_time(0.01)

    play(story())


@pytest.mark.parametrize(("owned", "seconds"), [(False, LINGER_SECONDS), (True, UNCOUNTED_SECONDS)])
def test_a_deleted_pod_that_ended_well_before_it_could_be_told_stays_for_a_while(
    tmp_path: Path, *, owned: bool, seconds: float
) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            made = pod()
            if owned:
                job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
                made["metadata"]["ownerReferences"] = [job]
            await started(world, made)
            await world.api.delete("pods", "p")
            world.supervision.end(world.id("p"), 0)
            await world.until(lambda: world.phase() == "Succeeded")
            assert "reason" not in world.status()
            await world.pass_time(seconds / 2)
            assert world.phase() == "Succeeded"
            await world.pass_time(seconds / 2 + 0.01)
            await world.until(lambda: world.api.get("pods", "p") is None)

    play(story())


def test_a_pod_that_is_deleted_before_it_could_start_just_goes(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            waiting = container("main", envFrom=[{"secretRef": {"name": "none"}}])
            await world.create(pod("p", waiting))
            await world.until(lambda: world.status().get("containerStatuses") is not None)
            await world.api.delete("pods", "p")
            await world.until(lambda: world.api.get("pods", "p") is None)
            assert world.supervision.launches == []

    play(story())


def test_a_pod_with_a_finalizer_waits_for_it_after_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            manifest = pod()
            manifest["metadata"]["finalizers"] = ["example.org/hold"]
            await started(world, manifest)
            await world.api.delete("pods", "p")
            await world.until(lambda: bool(world.supervision.stops))
            world.supervision.end(world.id("p"), 0, told=True)
            await world.until(lambda: world.get()["metadata"]["deletionGracePeriodSeconds"] == 0)
            assert world.phase() == "Succeeded"
            version = world.get()["metadata"]["resourceVersion"]
            await world.pass_time(5)
            assert world.get()["metadata"]["resourceVersion"] == version, "there is nothing more to write"

    play(story())


def test_a_crashing_container_is_restarted_later_and_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod(restartPolicy="Always"))
            world.supervision.end(world.id("p"), 1)
            await world.until(lambda: world.state_of()["restartCount"] == 1)
            assert world.state_of()["lastState"]["terminated"]["exitCode"] == 1
            await world.until(lambda: world.supervision.forgotten == [world.id("p")])
            world.supervision.end(world.id("p", number=1), 1)
            await world.until(lambda: "waiting" in world.state_of()["state"])
            assert world.state_of()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            assert world.phase() == "Running"
            await world.pass_time(9.5)
            assert len(world.supervision.launches) == 2
            await world.pass_time(1)
            assert [one.id[-1] for one in world.supervision.launches] == ["0", "1", "2"]
            await world.until(lambda: world.state_of()["restartCount"] == 2)
            assert world.supervision.launches[2].log.endswith("/main/2.log")
            message = f"Back-off restarting failed container main in pod p_default({world.uids['p']})"
            assert events(world, "BackOff") == [message]

    play(story())


def test_a_pod_ends_when_its_time_is_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod(activeDeadlineSeconds=60))
            await world.pass_time(59)
            assert world.supervision.stops == []
            await world.pass_time(2)
            assert world.supervision.stops == [(world.id("p"), 30.0)]
            assert world.phase() == "Running"
            world.supervision.end(world.id("p"), None, signal=15)
            await world.until(lambda: world.phase() == "Failed")
            assert world.status()["reason"] == "DeadlineExceeded"

    play(story())


def test_init_containers_run_one_after_the_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            inits = [container("one"), container("two")]
            await world.create(pod("p", container("main"), initContainers=inits))
            for name in ("one", "two"):
                await world.until(lambda name=name: world.id("p", name) in world.supervision.running())  # type: ignore[misc]
                assert len(world.supervision.running()) == 1
                world.supervision.end(world.id("p", name), 0)
            await world.until(lambda: world.phase() == "Running")
            assert [one.id.split("/")[1] for one in world.supervision.launches] == ["one", "two", "main"]
            world.supervision.end(world.id("p"), 0)
            await world.until(lambda: world.phase() == "Succeeded")
            assert world.supervision.processes == {}

    play(story())


def test_what_a_container_waits_for_lets_it_start_when_it_comes(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            main = container("main", env=[{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}])
            await world.create(pod("p", main))
            await world.until(lambda: "containerStatuses" in world.status())
            assert world.state_of()["state"]["waiting"] == {
                "reason": "CreateContainerConfigError",
                "message": 'configmap "c" not found',
            }
            await world.until(lambda: events(world, "Failed") == ['Error: configmap "c" not found'])
            await world.api.create(
                "configmaps", {"metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}}
            )
            await world.until(lambda: world.phase() == "Running")
            assert world.supervision.launches[0].env["V"] == "v"

    play(story())


LONGEST = 128 * 1024 - 1 - len("V=")
"""The longest value of a variable V, in bytes."""


@pytest.mark.parametrize("restart", ["Never", "Always"])
@pytest.mark.parametrize(
    ("data", "args", "message"),
    [
        pytest.param({"V": "a\0b"}, [], "environment variable 'V' cannot be set: it contains NUL", id="a NUL"),
        pytest.param(
            {"V": "a" * (LONGEST + 1)}, [], "environment variable V has 131072 bytes, and no process", id="too long"
        ),
        pytest.param({"V": "é" * (LONGEST // 2 + 1)}, [], "environment variable V has", id="too long in bytes"),
        pytest.param(
            {"V": "a" * 100_000}, ["$(V)$(V)"], "argument 1 of the command has 200000 bytes", id="an argument"
        ),
        pytest.param(
            {f"V{number}": "a" * 100_000 for number in range(10)}, [], "its command and environment have", id="too much"
        ),
    ],
)
def test_values_of_a_config_map_that_no_process_can_get(
    tmp_path: Path, data: dict[str, str], args: list[str], message: str, restart: str
) -> None:
    """Nothing is started, so nothing fails again and again; another value lets it start."""

    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            made = {"metadata": {"name": "c", "namespace": "default"}, "data": data}
            await world.api.create("configmaps", made)
            main = container(
                "main",
                command=["run"],
                args=args,
                envFrom=[{"configMapRef": {"name": "c"}, "prefix": prefix} for prefix in ("", "A", "B")],
            )
            await world.create(pod("p", main, restartPolicy=restart))
            await world.until(lambda: "containerStatuses" in world.status())
            await world.pass_time(600)
            state = world.state_of()
            assert state["state"]["waiting"]["reason"] == "CreateContainerConfigError"
            assert state["state"]["waiting"]["message"].startswith(message)
            assert (state["restartCount"], world.supervision.launches) == (0, [])

            patch = {"data": dict.fromkeys(data, "fine")}
            await world.api.patch("configmaps", "c", patch)
            await world.until(lambda: world.phase() == "Running")

    play(story())


@pytest.mark.parametrize("mounts", [pytest.param([], id="by the supervisor"), pytest.param(["data"], id="for a link")])
def test_a_container_whose_directory_cannot_be_made_waits_until_it_can(tmp_path: Path, mounts: list[str]) -> None:
    """By whom it is made shows in nothing."""
    fault = f"cannot create the working directory: {tmp_path}/work/"

    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            (tmp_path / "work").rmdir()
            world.supervision.no_home = f"{fault}…'"
            main = container("main", volumeMounts=[{"name": "vol", "mountPath": path} for path in mounts])
            volumes = [{"name": "vol", "emptyDir": {}} for _ in mounts]
            await world.create(pod("p", main, volumes=volumes, restartPolicy="OnFailure"))
            await world.until(lambda: "containerStatuses" in world.status())
            waiting = world.state_of()["state"]["waiting"]
            assert waiting["reason"] == "CreateContainerError"
            assert waiting["message"].startswith(fault)
            assert world.state_of()["restartCount"] == 0
            await world.until(lambda: events(world, "Failed") == [f"Error: {waiting['message']}"])
            assert world.supervision.launches == []

            (tmp_path / "work").mkdir()
            world.supervision.no_home = ""
            await world.until(lambda: world.phase() == "Running", patience_seconds=30)
            assert [one.id for one in world.supervision.launches] == [world.id("p")]

    play(story())


def test_a_start_that_the_machine_has_no_resources_for_is_tried_again_later_and_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            world.supervision.no_home = "no file descriptors are left for it (ulimit -n)"
            await world.create(pod("p", restartPolicy="Never"))
            for _ in range(300):  # in steps, so that each write is durable before the next retry is due
                await world.pass_time(1)
            assert world.phase() == "Pending"
            assert world.state_of()["state"]["waiting"] == {
                "reason": "CreateContainerError",
                "message": "no file descriptors are left for it (ulimit -n); retrying",
            }
            assert events(world, "Failed") == ["Error: no file descriptors are left for it (ulimit -n); retrying"]
            assert 10 <= world.supervision.refusals <= 18, "after 1, 2, 5, 10, 20 and then every 30 seconds"

            world.supervision.no_home = ""
            await world.until(lambda: world.phase() == "Running", patience_seconds=31)
            assert world.state_of()["restartCount"] == 0

    play(story())


def test_when_a_process_ends_the_pod_that_waited_longest_for_resources_is_tried_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(pod("first"))
            await world.until(lambda: world.phase("first") == "Running")
            world.supervision.no_home = "there is not enough memory"
            for name in ("second", "third"):
                await world.create(pod(name))
                await world.pass_time(60)
            world.supervision.no_home = ""
            world.supervision.end(world.id("first"))
            await world.until(lambda: world.phase("second") == "Running")
            assert world.phase("third") == "Pending"
            await world.until(lambda: world.phase("third") == "Running", patience_seconds=31)

    play(story())


def test_a_container_without_a_command_fails_with_advice(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(pod("p", {"name": "main", "image": "nginx"}))
            await world.until(lambda: world.phase() == "Failed")
            terminated = world.state_of()["state"]["terminated"]
            assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
            assert "Set `command`" in terminated["message"]
            await world.create(pod("q", {"name": "main", "image": "nginx"}, restartPolicy="Always"))
            await world.until(lambda: "containerStatuses" in world.status("q"))
            waiting = world.state_of(name="q")["state"]["waiting"]
            assert waiting["reason"] == "CreateContainerConfigError"
            assert world.supervision.launches == []

    play(story())


def test_a_program_that_is_not_there_is_a_start_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            world.supervision.slow = True
            await world.create(pod())
            await world.until(lambda: bool(world.supervision.launches))
            world.supervision.end(world.id("p"), None, error="nosuch: no such file or directory")
            await world.until(lambda: world.phase() == "Failed")
            terminated = world.state_of()["state"]["terminated"]
            assert (terminated["reason"], terminated["exitCode"]) == ("StartError", 128)
            assert terminated["message"] == "nosuch: no such file or directory"

    play(story())


def test_running_out_of_memory_has_its_own_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod())
            world.supervision.end(world.id("p"), None, signal=9, out_of_memory=True)
            await world.until(lambda: world.phase() == "Failed")
            terminated = world.state_of()["state"]["terminated"]
            assert (terminated["reason"], terminated["exitCode"], terminated["signal"]) == ("OOMKilled", 137, 9)

    play(story())


def test_somebody_else_ends_a_pod_by_its_status(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await started(world, pod())
            await world.api.patch("pods", "p", {"status": {"phase": "Failed"}}, subresource="status")
            await world.until(lambda: bool(world.supervision.stops))
            world.supervision.end(world.id("p"), None, signal=15)
            await world.until(lambda: not world.supervision.processes)

    play(story())


@pytest.mark.parametrize("user", [0, 1000])
def test_a_container_that_asks_for_another_user_does_not_run_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)

    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(pod("p", securityContext={"runAsUser": user}))
            if user == 0:
                await world.until(lambda: world.phase() == "Running")
                return
            await world.until(lambda: world.phase() == "Failed")
            terminated = world.state_of()["state"]["terminated"]
            assert terminated["reason"] == "StartError"
            assert "runAsUser 1000" in terminated["message"]
            assert world.supervision.launches == []

    play(story())
