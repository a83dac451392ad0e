"""Commands and environment of Ray's processes on one machine.

All Ray nodes of a machine share its address, so what differs between hosts on a cluster differs by port here: every
cluster and every node of it has ports of its own. Ray listens on a loopback address. Two of its servers ignore that and
listen everywhere, so every cluster has a token without which Ray answers nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.quantities import Quantity

ADDRESS: Final = "127.0.0.2"
"""Of every Ray node. Ray replaces 127.0.0.1 by an address that other machines reach, and no other loopback address."""

VOLUME: Final = "fairway-ray"
VOLUME_VARIABLE: Final = "FAIRWAY_VOLUME_FAIRWAY_RAY"
"""The volume of a node for its temporary files, and the variable with its path. Nodes that start together in one
directory can choose the same names of sockets."""

FIRST_PORT: Final = 20_000
PORTS: Final = 12_000
"""Below the ports that the system gives to outgoing connections (32768 and above)."""

_LEAST_OBJECT_STORE: Final = 75 << 20
_OBJECT_STORE_SHARE: Final = 0.3
"""Ray's own default, of the memory of the machine."""


class WorkerPorts(NamedTuple):
    """The ports of a worker that are chosen before it starts: Ray gives up if its choice takes half a minute."""

    agent: int
    agent_grpc: int
    runtime_env: int
    metrics: int


class HeadPorts(NamedTuple):
    """The same of a head."""

    gcs: int
    dashboard: int
    client: int
    agent: int
    agent_grpc: int
    runtime_env: int
    metrics: int


PORT_PARAMETERS: Final = {
    "gcs": "port",
    "dashboard": "dashboard-port",
    "client": "ray-client-server-port",
    "agent": "dashboard-agent-listen-port",
    "agent_grpc": "dashboard-agent-grpc-port",
    "runtime_env": "runtime-env-agent-port",
    "metrics": "metrics-export-port",
}
"""The parameter of `ray start` for each of the ports."""


def choose_ports(count: int, start: int, is_free: Callable[[int], bool]) -> tuple[int, ...]:
    """This many ports, searched from `start` (any number) on; `ValueError` if there are not so many."""
    found: list[int] = []
    for step in range(PORTS):
        if len(found) == count:
            break
        port = FIRST_PORT + (start + step) % PORTS
        if is_free(port):
            found.append(port)
    if len(found) == count:
        return tuple(found)
    raise ValueError(f"{count} free ports are needed, and there are {len(found)} from {FIRST_PORT} on")


def environment() -> dict[str, str]:
    """The variables of every process of a cluster, besides its token (`RAY_AUTH_TOKEN`)."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A raylet gives up if its agent, a Python program, has not started within half a minute: too soon on a busy
        # machine with a few cores.
        "RAY_agent_register_timeout_ms": "300000",
        # Any free port: several heads would have the same one.
        "AUTOSCALER_METRIC_PORT": "0",
        "DASHBOARD_METRIC_PORT": "0",
        "PYTHONUNBUFFERED": "1",
        # Ray's own 30 seconds are too few on a machine that is busy with other jobs.
        "RAY_raylet_start_wait_time_s": "300",
    }


def head_parameters() -> dict[str, str]:
    """Parameters of `ray start --head` that this machine decides, besides ports and the temporary directory."""
    return {**_NODE_PARAMETERS, "head": "true", "dashboard-host": ADDRESS}


def worker_parameters() -> dict[str, str]:
    """The same of a worker."""
    return dict(_NODE_PARAMETERS)


_NODE_PARAMETERS: Final = {
    "block": "true",
    "node-ip-address": ADDRESS,
    "log-color": "false",
    "disable-usage-stats": "true",
    # Any free port: Ray's own choice is the same for all nodes.
    "min-worker-port": "0",
    "max-worker-port": "0",
    "node-manager-port": "0",
    "object-manager-port": "0",
}


def port_parameters(ports: HeadPorts | WorkerPorts) -> dict[str, str]:
    return {PORT_PARAMETERS[field]: str(port) for field, port in zip(ports._fields, ports, strict=True)}


def resource_parameters(resources: Mapping[str, Any]) -> dict[str, str]:
    """CPUs, GPUs and memory of a node, from the `resources` of its container.

    As KubeRay: limits before requests, CPUs rounded up. Memory that is only requested counts here, because no cgroup
    tells Ray how much it has; the object store gets the share that Ray would take of a container's memory.
    """
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    found: dict[str, str] = {}
    cpu, memory = (limits.get(name) or requests.get(name) for name in ("cpu", "memory"))
    if cpu is not None:
        found["num-cpus"] = str(_whole(cpu))
    if memory is not None and (amount := _whole(memory)):
        found["memory"] = str(amount)
        found["object-store-memory"] = str(max(_LEAST_OBJECT_STORE, int(amount * _OBJECT_STORE_SHARE)))
    gpus = sum(_whole(amount) for name, amount in {**requests, **limits}.items() if name.endswith("gpu"))
    if gpus:
        found["num-gpus"] = str(gpus)
    return found


def ray_start(*parameters: Mapping[str, str], program: str = "ray start") -> str:
    """The command line; later parameters replace earlier ones. Booleans are bare flags, as KubeRay writes them."""
    merged: dict[str, str] = {}
    for one in parameters:
        merged |= one
    head = ["--head"] if merged.pop("head", "") == "true" else []
    flags = [_flag(name, value) for name, value in sorted(merged.items()) if name in _VALUED or value != "false"]
    return " ".join([program, *head, *flags])


_VALUED: Final = frozenset({"include-dashboard", "include-log-monitor", "log-color"})
"""Flags that take `true` and `false` as values."""


def _flag(name: str, value: str) -> str:
    flag = f"--{name}" if value == "true" and name not in _VALUED else f"--{name}={value}"
    return flag if _is_plain(flag) else quoted(flag)


def _is_plain(word: str) -> bool:
    return all(char.isalnum() or char in "-_./:,+@%=" for char in word)


def quoted(text: str) -> str:
    """A word for the shell."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def start_script(command: str, interpreter_directory: str, *, wait_for_port: int | None = None) -> str:
    """What the shell of a Ray node runs: `command`, with the programs of the Python environment that has Ray.

    A worker waits for the port of its head first; `ray start` itself would give up after a while. Some processes of Ray
    ignore SIGTERM and would stay until the end of the grace period: they go with `ray start`. Drivers are in sessions
    of their own and keep the grace period.
    """
    waiting = f"{_wait(wait_for_port)}; " if wait_for_port is not None else ""
    return (
        f"export PATH={quoted(interpreter_directory)}:$PATH; "
        f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}} 2>/dev/null; {waiting}"
        f"{command} & ray=$!; trap 'wait $ray; kill -KILL 0' TERM; wait $ray"
    )


def _wait(port: int) -> str:
    return f"until (exec 3<>/dev/tcp/{ADDRESS}/{port}) 2>/dev/null; do sleep 0.1; done"


def _whole(amount: str | float) -> int:
    nanos = Quantity.parse(amount).nanos
    return -(-nanos // 10**9)
