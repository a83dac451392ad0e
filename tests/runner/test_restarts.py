"""The server dies and comes back: nothing is started twice, nothing is lost, nothing is left over."""

from collections.abc import Iterable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.runner.machine import Machine
from fairway.store.entries import Change

from .worlds import MACHINE, World, a_world, container, play, pod


def starts(world: World) -> list[str]:
    return [one.id for one in world.supervision.launches]


def test_running_processes_are_found_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                await world.create(pod())
                await world.until(lambda: world.phase() == "Running")
            async with world.running():
                await world.pass_time(5)
                assert starts(world) == [world.id("p")]
                world.supervision.end(world.id("p"), 0)
                await world.until(lambda: world.phase() == "Succeeded")

    play(story())


def test_what_ended_meanwhile_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                await world.create(pod())
                await world.until(lambda: bool(world.supervision.launches))
            world.supervision.end(world.id("p"), 5)
            async with world.running():
                await world.until(lambda: world.phase() == "Failed")
                assert world.state_of()["state"]["terminated"]["exitCode"] == 5
                assert starts(world) == [world.id("p")]
                assert world.supervision.processes == {}

    play(story())


def test_an_end_is_not_forgotten_before_it_is_written(tmp_path: Path) -> None:
    """A process that ended while an older state of it was being written was once forgotten with it, and ran again."""

    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            world.supervision.slow = True

            def end_while_it_is_written(change: Change) -> None:
                if b"ContainerCreating" in change.entry.data and world.supervision.running():
                    world.supervision.end(world.id("p"), 0)

            world.api.store.observe(end_while_it_is_written)
            await world.create(pod())
            await world.until(lambda: world.phase() == "Succeeded", patience_seconds=3)
            assert starts(world) == [world.id("p")]

    play(story())


def test_what_was_deleted_meanwhile_is_stopped(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                for name in ("marked", "gone"):
                    await world.create(pod(name))
                    await world.until(lambda name=name: world.phase(name) == "Running")  # type: ignore[misc]
            await world.api.delete("pods", "marked")
            await world.api.delete("pods", "gone", grace_seconds=0)
            async with world.running():
                await world.until(lambda: len(world.supervision.stops) >= 2)
                assert {one for one, _ in world.supervision.stops} == {world.id("marked"), world.id("gone")}
                for name in ("marked", "gone"):
                    world.supervision.end(world.id(name), None, signal=15)
                await world.until(lambda: world.api.get("pods", "marked") is None)
                await world.until(lambda: not world.supervision.processes)
                while any((tmp_path / "work").iterdir()):
                    await world.pass_time(0.01)

    play(story())


def test_files_that_a_gone_pod_left_are_removed(tmp_path: Path) -> None:
    async def story() -> None:
        for left in ("work/u1", "logs/default/u2/main", "logs/other/u2/main"):
            (tmp_path / left).mkdir(parents=True)
        async with a_world(tmp_path) as world, world.running():
            while any((tmp_path / "work").iterdir()) or any((tmp_path / "logs" / "other").iterdir()):
                await world.pass_time(0.01)

    play(story())


def test_a_lost_process_ends_a_pod_that_is_not_restarted_without_blame(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(pod("never"))
            await world.create(pod("again", restartPolicy="OnFailure"))
            await world.until(lambda: world.phase("never") == world.phase("again") == "Running")
            await world.supervision.die()
            await world.until(lambda: world.phase("never") == "Failed")
            terminated = world.state_of(name="never")["state"]["terminated"]
            assert (terminated["exitCode"], terminated["reason"]) == (137, "ContainerStatusUnknown")
            disruption = world.condition("DisruptionTarget", "never")
            assert disruption is not None
            assert disruption["status"] == "True"
            await world.until(lambda: world.state_of(name="again")["restartCount"] == 1)
            assert starts(world) == [world.id("never"), world.id("again"), world.id("again", number=1)]

    play(story())


def test_a_process_that_the_supervisor_never_heard_of_is_lost(tmp_path: Path) -> None:
    """The machine went down with everything, and the supervisor's notes with it; the status still says running."""

    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                await world.create(pod())
                await world.until(lambda: world.phase() == "Running")
            world.supervision.end(world.id("p"), None, lost=True)
            await world.supervision.forget(world.id("p"))
            async with world.running():
                await world.until(lambda: world.phase() == "Failed")
                assert world.condition("DisruptionTarget") is not None
                assert starts(world) == [world.id("p")]

    play(story())


def test_a_host_that_is_called_something_else_keeps_its_pods(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                await world.create(pod())
                await world.until(lambda: world.phase() == "Running")
            world.machine = Machine(cores_milli=1000, memory_bytes=1 << 30, hostname="laptop-in-a-cafe")
            async with world.running():
                await world.pass_time(5)
                assert world.supervision.stops == []
                assert world.api.names("nodes") == {"box"}

    play(story())


def gpu_pod(name: str, count: int) -> dict[str, object]:
    return pod(name, container("main", resources={"limits": {"nvidia.com/gpu": str(count)}}))


def visible(world: World, pods: Iterable[str]) -> list[str]:
    by_id = {one.id: one.env["CUDA_VISIBLE_DEVICES"] for one in world.supervision.launches}
    return [by_id[world.id(name)] for name in pods]


def test_gpus_are_handed_out_by_index_also_across_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                await world.create(gpu_pod("a", 1))
                await world.create(gpu_pod("b", 2))
                await world.until(lambda: len(world.supervision.launches) == 2)
                world.supervision.end(world.id("a"), 0)
                await world.until(lambda: world.phase("a") == "Succeeded")
            async with world.running():
                await world.create(gpu_pod("c", 2))
                await world.until(lambda: len(world.supervision.launches) == 3)
                assert visible(world, "abc") == ["0", "1,2", "0,3"]
                assert world.supervision.launches[2].env["NVIDIA_VISIBLE_DEVICES"] == "0,3"

    play(story())


def test_more_gpus_than_are_free_are_refused_as_a_kubelet_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(gpu_pod("a", 3))
            await world.until(lambda: world.phase("a") == "Running")
            await world.create(gpu_pod("b", 2))
            await world.until(lambda: world.phase("b") == "Failed")
            assert world.status("b")["reason"] == "UnexpectedAdmissionError"
            assert world.status("b")["message"] == (
                "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
                "Requested: 2, Available: 1, which is unexpected"
            )

    play(story())


def test_gpus_that_a_gone_pod_still_uses_are_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(gpu_pod("a", 3))
            await world.until(lambda: world.phase("a") == "Running")
            await world.api.delete("pods", "a", grace_seconds=0)
            await world.create(gpu_pod("b", 2))
            await world.pass_time(1)
            assert world.phase("b") == "Pending"
            assert starts(world) == [world.id("a")]
            world.supervision.end(world.id("a"), None, signal=9)
            await world.until(lambda: world.phase("b") == "Running")

    play(story())


_steps = st.lists(
    st.sampled_from(
        ["create", "begin", "crash", "succeed", "delete", "kill", "restart", "die", "slower", "wait", "moment"]
    ),
    max_size=25,
)


@given(steps=_steps)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_nothing_runs_twice_and_nothing_is_left(tmp_path_factory, steps: list[str]) -> None:  # type: ignore[no-untyped-def]
    """Safety: an attempt starts once, no two attempts of a container at a time, no GPU for two. Progress: all ends."""

    async def story() -> None:
        async with a_world(tmp_path_factory.mktemp("state"), MACHINE) as world:
            await _live_through(world, steps)

    play(story())


async def _live_through(world: World, steps: list[str]) -> None:
    created: list[str] = []
    position = 0
    while position < len(steps):
        async with world.running():
            while position < len(steps):
                step = steps[position]
                position += 1
                if step == "restart":
                    break
                await _happen(world, step, created)
                _check(world)
    async with world.running():
        while world.supervision.running():
            for identity in world.supervision.running():
                world.supervision.end(identity, 0)
            await world.pass_time(1)
        await world.pass_time(700)
        _check(world)
        for name in world.api.names("pods"):
            assert world.phase(name) in {"Succeeded", "Failed"}
        assert world.supervision.processes == {}, "everything that is written is forgotten"


async def _happen(world: World, step: str, created: list[str]) -> None:
    running = world.supervision.running()
    if step == "create":
        name = f"p{len(created)}"
        created.append(name)
        policy = "Never" if len(created) % 2 else "OnFailure"
        gpus = {"resources": {"limits": {"nvidia.com/gpu": "1"}}} if len(created) % 3 == 0 else {}
        inits = [container("init")] if len(created) % 4 == 0 else []
        await world.create(pod(name, container("main", **gpus), restartPolicy=policy, initContainers=inits))
    elif step == "slower":
        world.supervision.slow = not world.supervision.slow
    elif step == "begin":
        for identity in running:
            if world.supervision.processes[identity].started_at is None:
                world.supervision.begin(identity)
    elif step == "crash" and running:
        world.supervision.end(running[0], 1)
    elif step == "succeed" and running:
        world.supervision.end(running[-1], 0)
    elif step in ("delete", "kill") and world.api.names("pods"):
        name = min(world.api.names("pods"))
        await world.api.delete("pods", name, grace_seconds=0 if step == "kill" else None)
    elif step == "die":
        await world.supervision.die()
    elif step == "wait":
        await world.pass_time(15)
    elif step == "moment":
        await world.pass_time(0.002)


def _check(world: World) -> None:
    launched = starts(world)
    assert len(launched) == len(set(launched)), "an attempt was started twice"
    running = world.supervision.running()
    containers = [identity.rsplit("/", 1)[0] for identity in running]
    assert len(containers) == len(set(containers)), "two attempts of a container run at a time"
    devices = {one.id: one.env["CUDA_VISIBLE_DEVICES"] for one in world.supervision.launches}
    used = [index for identity in running for index in devices[identity].split(",") if index]
    assert len(used) == len(set(used)), "two pods use one GPU"
