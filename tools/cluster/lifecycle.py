"""The one-node cluster as a whole: starting, finding and removing it. Several run beside each other, each by its name.

A cluster is a set of namespaces, a control group and a directory; on the host it has one port on 127.0.0.1. Nothing of
it is left when it is down.
"""

import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from tools.cluster.machine import hierarchies, require_disk, require_node
from tools.cluster.node import NODE, NodeOptions
from tools.cluster.places import ROOT, Cache, ClusterError

DEFAULT_NAME: Final = "fairway"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_START_SECONDS: Final = 300.0
_END_SECONDS: Final = 60.0
_HIDDEN: Final = tuple(map(Path, ("/run", "/var/run", "/var/lib", "/var/log", "/sys", "/proc")))
"""Where the node has mounts of its own."""

_NAMESPACES: Final = ("--mount", "--uts", "--ipc", "--net", "--pid")


@dataclass(frozen=True, slots=True)
class Place:
    """What a cluster of this name has, up or not."""

    name: str
    cache: Cache

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ClusterError(f"{self.name!r} is no name for a cluster: use lower-case letters, digits and dashes")

    @property
    def directory(self) -> Path:
        return self.cache.cluster(self.name)

    @property
    def cgroup(self) -> str:
        return f"fairway-cluster-{self.name}"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def cgroups(self) -> list[Path]:
        """Its control groups that exist, one in each hierarchy."""
        return [folder / self.cgroup for folder in hierarchies() if (folder / self.cgroup).exists()]

    def process(self) -> psutil.Process | None:
        """The process on the host that holds the node's namespaces, if it runs."""
        try:
            noted = json.loads((self.directory / "process.json").read_text())
            process = psutil.Process(noted["pid"])
            same = abs(process.create_time() - noted["created"]) < 1
        except (OSError, ValueError, psutil.NoSuchProcess):
            return None
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None

    def leftovers(self) -> list[str]:
        """What there still is of this cluster: processes, mounts, control groups, files."""
        files = [f"directory {self.directory}"] if self.directory.exists() else []
        return [*self.processes(), *(f"control group {path}" for path in self.cgroups), *files]

    def processes(self) -> list[str]:
        """Processes that run with a file of this cluster, or see a mount of it."""
        found = []
        for status in Path("/proc").glob("[0-9]*"):
            try:
                words = (status / "cmdline").read_bytes().decode(errors="replace").split("\0")
                mounts = (status / "mountinfo").read_text()
            except OSError:
                continue
            if int(status.name) != os.getpid() and any(f"{self.directory}/" in word for word in words):
                found.append(f"process {status.name}: {' '.join(words)[:120]}")
            elif f"{self.directory}/" in mounts:
                found.append(f"process {status.name} with mounts of {self.directory}")
        return found


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that is up."""

    place: Place

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def kubeconfig(self) -> Path:
        """Of a user in `system:masters`."""
        return self.place.kubeconfig

    @classmethod
    def find(cls, name: str = DEFAULT_NAME, cache: Cache | None = None) -> "RunningCluster":
        """The cluster of this name; an error if it is not up."""
        place = Place(name, cache or Cache.default())
        if place.process() is None or not place.kubeconfig.exists():
            raise ClusterError(f"the cluster {name} is not up; start it with `make cluster NAME={name}`")
        return cls(place)

    def pid(self, program: str) -> int:
        """The process on the host of one of the node's programs."""
        holder = self.place.process()
        for process in [] if holder is None else holder.children(recursive=True):
            try:
                if Path(process.exe()).name == program:
                    return process.pid
            except psutil.Error:
                continue
        raise ClusterError(f"{program} does not run in the cluster {self.name}")

    def kill(self, program: str) -> None:
        """SIGKILL one of `etcd`, `kube-apiserver`, `kubelet` …, once it runs; the node starts it again after 1 s."""
        until = time.monotonic() + _END_SECONDS
        while True:
            try:
                os.kill(self.pid(program), signal.SIGKILL)
            except (ClusterError, ProcessLookupError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
            else:
                return

    def shell(self, *command: str) -> list[str]:
        """The command line that runs this inside the node: `ctr`, `iptables-save`, `ip addr`."""
        holder = self.place.process()
        first = holder.children()[0].pid if holder is not None else 0
        return ["nsenter", "-t", str(first), "-m", "-u", "-i", "-n", "-p", "--", *command]


def up(place: Place, say: Callable[[str], None], *, port: int = 0, cpus: int = 16) -> RunningCluster:
    """Start a cluster, or find it running. It is removed again if it does not start."""
    if place.process() is not None:
        return RunningCluster.find(place.name, place.cache)
    require_node()
    for program in PROGRAMS:
        place.cache.binary(program)
    require_disk(place.cache.root, 3)
    if any(place.directory.is_relative_to(folder) for folder in _HIDDEN):
        raise ClusterError(f"{place.directory} is hidden inside the node; set $FAIRWAY_CLUSTER_CACHE to another place")
    down(place)
    began = time.monotonic()
    try:
        _start(place, port, cpus)
        _await(place, "kube-apiserver", (place.directory / "started").exists)
        say(f"{time.monotonic() - began:5.1f} s  kube-apiserver ready, daemons started")
        _await(place, f"node {NODE}", lambda: _ready(place))
    except BaseException:
        _keep_logs(place)
        down(place)
        raise
    say(f"{time.monotonic() - began:5.1f} s  node {NODE} Ready")
    return RunningCluster.find(place.name, place.cache)


_SHARES: Final = 10 * 1024
"""All pods of a node together are one group, which by default has the weight of one busy process of the host."""


def _start(place: Place, port: int, cpus: int) -> None:
    place.directory.mkdir(mode=0o755, parents=True)
    for folder in hierarchies():
        (folder / place.cgroup).mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, and then no process may enter
        for folder in (folder for folder in hierarchies() if (folder / name).exists()):
            (folder / place.cgroup / name).write_text((folder / name).read_text())
    for folder in (folder for folder in hierarchies() if (folder / "cpu.shares").exists()):
        (folder / place.cgroup / "cpu.shares").write_text(str(_SHARES))
    with socket.create_server(("127.0.0.1", port)) as listening, (place.directory / "node.log").open("wb") as log:
        os.set_inheritable(listening.fileno(), True)  # noqa: FBT003
        options = NodeOptions(
            cache=str(place.cache.root),
            directory=str(place.directory),
            cgroup=place.cgroup,
            cpus=cpus,
            listening=listening.fileno(),
        )
        command = ["unshare", *_NAMESPACES, "--fork", "--kill-child=KILL", "--mount-proc", *options.command()]
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[listening.fileno()],
        )
    noted = {"pid": process.pid, "created": psutil.Process(process.pid).create_time()}
    process.returncode = 0  # it outlives this process, and `down` waits for it
    (place.directory / "process.json").write_text(json.dumps(noted))


def _await(place: Place, what: str, reached: Callable[[], bool]) -> None:
    until = time.monotonic() + _START_SECONDS
    while not reached():
        if place.process() is None:
            log = (place.directory / "node.log").read_text(errors="replace")[-2000:]
            raise ClusterError(f"the node ended while waiting for {what}:\n{log}")
        if time.monotonic() > until:
            raise ClusterError(f"{what} was not ready within {_START_SECONDS:.0f} s; its log is kept, see below")
        time.sleep(0.2)


def _ready(place: Place) -> bool:
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    ended = kubectl(place, "get", "node", NODE, "-o", f"jsonpath={path}", check=False)
    return ended.stdout == "True"


def kubectl(place: Place, *arguments: str, given: str = "", check: bool = True) -> "subprocess.CompletedProcess[str]":
    """kubectl on this cluster."""
    command = [kubectl_path(), f"--kubeconfig={place.kubeconfig}", *arguments]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)  # noqa: S603
    if check and ended.returncode:
        raise ClusterError(f"`kubectl {' '.join(arguments)}` failed: {ended.stderr.strip()}")
    return ended


@functools.cache
def kubectl_path() -> str:
    """A kubectl of this machine, or one that is built."""
    found = subprocess.run([ROOT / "tools/kubectl/get"], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if found.returncode:
        raise ClusterError("there is no kubectl, see above")
    return found.stdout.strip()


def down(place: Place) -> None:
    """Remove everything of a cluster; an error that names what is left if something is."""
    holder = place.process()
    if holder is not None:
        # With process 1 of its pid namespace every process of the node ends, and with them mounts and interfaces.
        ending = [*holder.children(), holder]
        for process in ending:
            process.kill()
        psutil.wait_procs(ending, timeout=_END_SECONDS)
    until = time.monotonic() + _END_SECONDS
    while True:
        _remove(place)
        left = place.leftovers()
        if not left:
            return
        if time.monotonic() > until:
            raise ClusterError(f"this is left of the cluster {place.name}: {'; '.join(left)}")
        time.sleep(0.2)


def _remove(place: Place) -> None:
    for group in place.cgroups:
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:  # a process that is ending is still in it
                break
    if not place.processes():
        shutil.rmtree(place.directory, ignore_errors=True)


def _keep_logs(place: Place) -> None:
    kept = place.cache.root / "failed" / place.name
    shutil.rmtree(kept, ignore_errors=True)
    if (place.directory / "logs").exists():
        shutil.copytree(place.directory / "logs", kept)
