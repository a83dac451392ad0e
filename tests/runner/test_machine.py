"""What this machine has, found out or declared, and the node that says so."""

import os
from pathlib import Path

import pytest

from fairway.kinds.kind import Manifest
from fairway.runner.machine import Machine, MachineError, node_name
from fairway.runner.node import LEASES, capacity_of, labels_of

from .worlds import MACHINE, World, a_world, play


def test_this_machine_is_found_out() -> None:
    machine = Machine.detect()
    assert 0 < machine.cores_milli <= len(os.sched_getaffinity(0)) * 1000
    assert machine.memory_bytes > 1 << 20
    assert machine.disk_bytes > 1 << 20
    assert machine.kernel
    assert machine.name


def test_what_is_declared_counts() -> None:
    machine = Machine.detect(cpus="9500m", memory="36Gi", gpus=8)
    assert (machine.cores_milli, machine.memory_bytes, machine.gpus) == (9500, 36 << 30, 8)


@pytest.mark.parametrize(
    ("declared", "want"),
    [
        pytest.param({"cpus": "many"}, "cpu 'many'", id="no quantity"),
        pytest.param({"memory": "0"}, "more than none", id="nothing"),
        pytest.param({"gpus": -1}, "-1 GPUs", id="less than nothing"),
    ],
)
def test_what_cannot_be_declared(declared: dict[str, object], want: str) -> None:
    with pytest.raises(MachineError, match=want):
        Machine.detect(**declared)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hostname", "want"),
    [
        pytest.param("Box", "box", id="lower case"),
        pytest.param("my_laptop.local", "my-laptop.local", id="no underscores"),
        pytest.param("-a-.-b.", "a.b", id="labels begin and end well"),
        pytest.param("日本", "localhost", id="nothing usable"),
        pytest.param("x" * 300, "x" * 63, id="not too long"),
    ],
)
def test_a_hosts_name_becomes_a_nodes(hostname: str, want: str) -> None:
    assert node_name(hostname) == want


def test_capacity_and_labels() -> None:
    assert capacity_of(MACHINE) == {
        "cpu": "8",
        "memory": "16Gi",
        "pods": "500",
        "ephemeral-storage": "100Gi",
        "nvidia.com/gpu": "4",
    }
    with_model = Machine(cores_milli=1, memory_bytes=1, gpus=1, gpu_model="NVIDIA A100 80GB", hostname="H")
    assert labels_of(with_model) == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "h",
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.product": "NVIDIA-A100-80GB",
    }


def _node(world: World) -> Manifest:
    node = world.api.get("nodes", "box")
    assert node is not None
    return node


def test_a_node_is_registered_and_follows_the_machine(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world:
            async with world.running():
                node = _node(world)
                assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
                ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
                assert ready["status"] == "True"
            await world.api.patch(
                "nodes", "box", {"metadata": {"labels": {"mine": "1"}}, "spec": {"unschedulable": True}}
            )
            world.machine = Machine(cores_milli=2000, memory_bytes=1 << 30, hostname="box")
            async with world.running():
                await world.until(lambda: _node(world)["status"]["capacity"]["cpu"] == "2")
                node = _node(world)
                assert "nvidia.com/gpu" not in node["status"]["allocatable"]
                assert node["metadata"]["labels"]["mine"] == "1"
                assert node["spec"]["unschedulable"] is True, "what people did stays"
                changed = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
                assert changed["lastTransitionTime"] == ready["lastTransitionTime"]

    play(story())


def test_the_lease_is_renewed_and_the_node_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_world(tmp_path) as world, world.running():
            await world.until(lambda: world.api.get("leases", "box", LEASES) is not None)
            lease = world.api.get("leases", "box", LEASES)
            await world.pass_time(10.1)
            renewed = world.api.get("leases", "box", LEASES)
            assert lease is not None
            assert renewed is not None
            assert renewed["spec"]["renewTime"] > lease["spec"]["renewTime"]
            await world.api.delete("nodes", "box")
            await world.pass_time(10.1)
            assert world.api.get("nodes", "box") is not None

    play(story())
