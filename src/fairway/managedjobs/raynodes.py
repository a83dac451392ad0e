"""The nodes of a task's Ray cluster: how `programs/ray_node.py` is called in their pods."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from fairway.managedjobs.scripts import MOST_SECONDS_TO_MEET, NOT_TOGETHER, verbatim
from fairway.managedjobs.tasks.task import Task
from fairway.ray import commands
from fairway.ray.commands import HeadPorts, WorkerPorts

PORT: Final = 6379
"""Of a head that has an address of its own."""


def arguments_on_machine(task: Task, rank: int, container: Mapping[str, Any], meeting: str) -> list[str]:
    """The program and its parameters where all nodes share a machine and choose their ports themselves.

    Without a dashboard: it is half of the memory and the start time, and its port would be unknown.
    """
    if rank:
        of_node, ports = commands.worker_parameters(), set(WorkerPorts._fields)
    else:
        of_node = commands.head_parameters() | {"include-dashboard": "false"}
        ports = set(HeadPorts._fields) - {"dashboard"}
    needs = commands.resource_parameters(container.get("resources") or {})
    given = {
        "start": commands.ray_start(of_node, needs, {"block": "false"}),
        "ports": sorted(commands.PORT_PARAMETERS[port] for port in ports),
        "range": (commands.FIRST_PORT, commands.FIRST_PORT + commands.PORTS),
        "meeting": meeting,
        "files": commands.VOLUME_VARIABLE,
    }
    return _arguments(task, given)


def arguments_on_cluster(task: Task, rank: int, container: Mapping[str, Any]) -> list[str]:
    """The same where each node has an address of its own."""
    resources_of = commands.resource_parameters(container.get("resources") or {})
    head = {} if rank else {"head": "true", "port": str(PORT)}
    start = commands.ray_start({"disable-usage-stats": "true", "log-color": "false"}, head, resources_of)
    return _arguments(task, {"start": start, "port": PORT})


def _arguments(task: Task, given: dict[str, Any]) -> list[str]:
    given |= {"nodes": task.num_nodes, "seconds": MOST_SECONDS_TO_MEET, "missing": NOT_TOGETHER}
    return [verbatim(_program()), verbatim(msgspec.json.encode(given).decode())]


@cache
def _program() -> str:
    return resources.files(__package__).joinpath("programs", "ray_node.py").read_text()
