"""Pods that name this node themselves and do not fit are refused, as a kubelet does."""

from pathlib import Path

import pytest

from .worlds import a_world, container, play, pod


def asking(name: str, **requests: str) -> dict[str, object]:
    return pod(name, container(resources={"requests": requests}))


@pytest.mark.parametrize(
    ("requests", "reason", "message"),
    [
        pytest.param(
            {"cpu": "3"},
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 6000, capacity: 8000",
            id="cpu",
        ),
        pytest.param(
            {"memory": "17Gi"},
            "OutOfmemory",
            "Pod was rejected: Node didn't have enough resource: memory, "
            f"requested: {17 << 30}, used: 0, capacity: {16 << 30}",
            id="memory",
        ),
    ],
)
def test_one_that_does_not_fit_beside_the_others_fails(
    tmp_path: Path, requests: dict[str, str], reason: str, message: str
) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(asking("a", cpu="6"))
            await world.until(lambda: world.phase("a") == "Running")
            await world.create(asking("b", **requests))
            await world.until(lambda: world.phase("b") == "Failed")
            assert (world.status("b")["reason"], world.status("b")["message"]) == (reason, message)
            assert len(world.supervision.launches) == 1

    play(story())


def test_one_that_has_ended_takes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.create(asking("a", cpu="6"))
            await world.until(lambda: world.phase("a") == "Running")
            world.supervision.end(world.id("a"), 0)
            await world.until(lambda: world.phase("a") == "Succeeded")
            await world.create(asking("b", cpu="8"))
            await world.until(lambda: world.phase("b") == "Running")

    play(story())


def test_one_that_runs_is_never_refused_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                await world.create(asking("a", cpu="6"))
                await world.create(asking("b", cpu="2"))
                await world.until(lambda: {world.phase("a"), world.phase("b")} == {"Running"})
            async with world.running():
                await world.create(asking("c", cpu="1"))
                await world.until(lambda: world.phase("c") == "Failed")
                assert {world.phase("a"), world.phase("b")} == {"Running"}

    play(story())
