"""What this machine has, found out or declared, and the node that says so."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from fairway.apis.core.accelerators import model_of
from fairway.apis.machinery.kind import Manifest
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
    machine = Machine.detect(cpus="9500m", memory="36Gi", gpus="8")
    assert (machine.cores_milli, machine.memory_bytes, machine.gpus) == (9500, 36 << 30, 8)
    assert (machine.gpu_model, machine.accelerator) == ("", "")


@pytest.mark.parametrize(
    ("declared", "want"),
    [
        pytest.param("T4:8", (8, "T4", "t4"), id="a model and a number"),
        pytest.param("A100-80GB:4", (4, "A100-80GB", "a100-80gb"), id="a model with its memory"),
        pytest.param("H100-MEGA-80GB:2", (2, "H100-MEGA-80GB", "h100-mega-80gb"), id="whatever it is called"),
        pytest.param("T4:0", (0, "", ""), id="none of a model"),
    ],
)
def test_gpus_are_declared_with_their_model(declared: str, want: tuple[int, str, str]) -> None:
    machine = Machine.detect(gpus=declared)
    assert (machine.gpus, machine.gpu_model, machine.accelerator) == want


@pytest.mark.parametrize(
    ("driver", "want"),
    [
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla V100-SXM2-32GB", "v100-32gb"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 NVL", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx3080-ti"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("Quadro RTX 6000", "rtx6000"),
        ("RTX", "rtx"),
        ("NVIDIA Graphics Device", ""),
        ("", ""),
    ],
)
def test_what_a_driver_calls_a_gpu_and_what_people_do(driver: str, want: str) -> None:
    assert model_of(driver) == want


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["Tesla T4"] * 4, (4, "Tesla T4", "t4"), id="all the same"),
        pytest.param([b"Tesla T4"], (1, "Tesla T4", "t4"), id="an old driver library"),
        pytest.param(["Tesla T4", "NVIDIA L4"], (2, "", ""), id="of several kinds"),
        pytest.param([], (0, "", ""), id="a driver without GPUs"),
    ],
)
def test_gpus_are_found_by_their_driver(
    monkeypatch: pytest.MonkeyPatch, names: list[str | bytes], want: tuple[int, str, str]
) -> None:
    driver: Any = ModuleType("pynvml")
    driver.NVMLError = RuntimeError
    driver.nvmlInit = driver.nvmlShutdown = lambda: None
    driver.nvmlDeviceGetCount = lambda: len(names)
    driver.nvmlDeviceGetHandleByIndex = lambda index: index
    driver.nvmlDeviceGetName = lambda handle: names[handle]
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    machine = Machine.detect()
    assert (machine.gpus, machine.gpu_model, machine.accelerator) == want


@pytest.mark.parametrize(
    ("declared", "want"),
    [
        pytest.param({"cpus": "many"}, "cpu 'many'", id="no quantity"),
        pytest.param({"memory": "0"}, "greater than 0", id="nothing"),
        pytest.param({"gpus": "-1"}, "'-1': give a number", id="less than nothing"),
        pytest.param({"gpus": "T4:1,T4:2"}, "each model once", id="a model twice"),
        pytest.param({"gpus": "4,T4:2"}, "each model once", id="a number beside a model"),
        pytest.param({"gpus": "T4"}, "a model and a number such as T4:8", id="a model and no number"),
        pytest.param({"gpus": "T4:many"}, "a model and a number", id="a model and no number that can be read"),
        pytest.param({"gpus": "-x-:2"}, "a model and a number", id="a model that cannot be a label"),
    ],
)
def test_what_cannot_be_declared(declared: dict[str, str], want: str) -> None:
    with pytest.raises(MachineError, match=want):
        Machine.detect(declared.get("cpus"), declared.get("memory"), declared.get("gpus"))


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
    with_model = Machine(
        cores_milli=1, memory_bytes=1, gpus=1, gpu_model="NVIDIA A100 80GB", hostname="H", accelerator="a100-80gb"
    )
    assert labels_of(with_model) == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "h",
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.product": "NVIDIA-A100-80GB",
        "skypilot.co/accelerator": "a100-80gb",
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


def test_the_node_says_what_its_gpus_are_for_as_long_as_they_are_that(tmp_path: Path) -> None:
    accelerator, product = "skypilot.co/accelerator", "nvidia.com/gpu.product"

    async def labels(world: World, gpus: str) -> dict[str, str]:
        world.machine = msgspec.structs.replace(Machine.detect("1", "1Gi", gpus), hostname="box")
        async with world.running():
            await world.until(lambda: _node(world)["status"]["capacity"].get("nvidia.com/gpu", "0") == gpus[-1])
            found: dict[str, str] = _node(world)["metadata"]["labels"]
            return {name: value for name, value in found.items() if name in {accelerator, product}}

    async def story() -> None:
        async with a_world(tmp_path) as world:
            assert await labels(world, "T4:8") == {accelerator: "t4", product: "T4"}
            assert await labels(world, "A100-80GB:4") == {accelerator: "a100-80gb", product: "A100-80GB"}
            assert await labels(world, "6") == {}, "nobody says what they are any more"
            await world.api.patch("nodes", "box", {"metadata": {"labels": {accelerator: "l4"}}})
            assert await labels(world, "5") == {accelerator: "l4"}, "what people say stays"
            assert await labels(world, "0") == {accelerator: "l4"}

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


def test_several_models_are_told_apart_by_index_and_label() -> None:
    machine = Machine.detect(gpus="V100:2,T4:1")

    assert (machine.gpus, machine.gpu_models, machine.accelerator) == (3, ("v100", "v100", "t4"), "")
    assert {name: value for name, value in labels_of(machine).items() if "gpu" in name} == {
        "gpu.fairway.dev/v100": "2",
        "gpu.fairway.dev/t4": "1",
    }
