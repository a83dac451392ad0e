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

LONGEST_TEMP_DIR: Final = 36
"""Characters: below it Ray opens Unix sockets (`session_<date>_<pid>/sockets/…`), whose paths have at most 107."""

FIRST_PORT: Final = 20_000
PORTS: Final = 12_000
"""Below the ports that the system gives to outgoing connections (32768 and above)."""

_LEAST_OBJECT_STORE: Final = 75 << 20
_OBJECT_STORE_SHARE: Final = 0.3
"""Ray's own default, of the memory of the machine."""


class HeadPorts(NamedTuple):
    """The ports of a head that are not chosen by Ray."""

    gcs: int
    dashboard: int
    client: int
    agent: int
    metrics: int


class WorkerPorts(NamedTuple):
    """The same of a worker."""

    agent: int
    metrics: int


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


def environment(temp_dir: str) -> dict[str, str]:
    """The variables of every process of a cluster, besides its token (`RAY_AUTH_TOKEN`)."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_TMPDIR": temp_dir,
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


def head_parameters(ports: HeadPorts, temp_dir: str) -> dict[str, str]:
    """Parameters of `ray start --head` that this machine decides."""
    return {
        **_node_parameters(ports.agent, ports.metrics, temp_dir),
        "head": "true",
        "port": str(ports.gcs),
        "dashboard-host": ADDRESS,
        "dashboard-port": str(ports.dashboard),
        "ray-client-server-port": str(ports.client),
    }


def worker_parameters(ports: WorkerPorts, temp_dir: str, gcs_port: int) -> dict[str, str]:
    """Parameters of `ray start` of a worker that this machine decides. One log monitor reads the logs of all nodes."""
    return {
        **_node_parameters(ports.agent, ports.metrics, temp_dir),
        "address": f"{ADDRESS}:{gcs_port}",
        "include-log-monitor": "false",
    }


def _node_parameters(agent: int, metrics: int, temp_dir: str) -> dict[str, str]:
    return {
        "block": "true",
        "node-ip-address": ADDRESS,
        "dashboard-agent-listen-port": str(agent),
        "metrics-export-port": str(metrics),
        "temp-dir": temp_dir,
        "log-color": "false",
        "disable-usage-stats": "true",
    }


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


def ray_start(*parameters: Mapping[str, str]) -> str:
    """The command line; later parameters replace earlier ones. Booleans are bare flags, as KubeRay writes them."""
    merged: dict[str, str] = {}
    for one in parameters:
        merged |= one
    head = ["--head"] if merged.pop("head", "") == "true" else []
    flags = [_flag(name, value) for name, value in sorted(merged.items()) if name in _VALUED or value != "false"]
    return " ".join(["ray start", *head, *flags])


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
