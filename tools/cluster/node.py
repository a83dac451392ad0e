"""Process 1 of a node: runs in mount, pid, network, uts and ipc namespaces of its own, which `lifecycle` makes.

All daemons and containers are its descendants, and all mounts and interfaces are in its namespaces: when it is killed,
the kernel removes everything. A daemon that ends is started again, as a service manager would.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tools.cluster import versions
from tools.cluster.controlplane import Addresses, Command, ControlPlane
from tools.cluster.machine import CGROUPS, cni
from tools.cluster.places import Cache

NODE: Final = "node1"
NODE_IP: Final = "10.99.0.1"
PODS: Final = "10.98.0.0/16"
SERVICES: Final = "10.97.0.0/16"
DNS: Final = "10.97.0.10"
PORT: Final = 6443
_REGISTRY: Final = 5000
_AGAIN_SECONDS: Final = 1.0
_SOCKET: Final = Path("/run/containerd/containerd.sock")
_TUNABLES: Final = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What the kubelet sets for the whole machine; here it sets files that are bound over the real ones."""

NAMES: Final = (
    "127.0.0.1",
    NODE_IP,
    "10.97.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What a node is started with; travels as JSON on its command line."""

    cache: str
    directory: str
    cgroup: str
    cpus: int
    """What the kubelet is to believe it has; 0 for the truth."""

    listening: int
    """The file descriptor of the socket on the host that leads to kube-apiserver."""

    def command(self) -> Command:
        return [sys.executable, "-m", "tools.cluster.node", json.dumps(asdict(self))]


class Node:
    """Sets the machine up, starts the daemons, and keeps them running."""

    def __init__(self, options: NodeOptions) -> None:
        self._options = options
        self._cache = Cache(Path(options.cache))
        self._state = Path(options.directory)
        self._logs = self._state / "logs"
        self._logs.mkdir(exist_ok=True)
        self._commands: dict[str, Command] = {}
        self._pids: dict[int, str] = {}
        self._due: dict[str, float] = {}
        """Daemons that ended, and when they are started again."""

    def run(self) -> None:
        """Never returns."""
        self._mount()
        self._connect()
        plane = self._control_plane()
        self._daemon(
            "registry", [sys.executable, "-m", "tools.cluster.registry", str(self._cache.images), str(_REGISTRY)]
        )
        self._daemon("containerd", ["containerd", "--config", str(self._containerd())])
        self._daemon("etcd", plane.etcd())
        kubelet = plane.authority.issue("kube-apiserver-kubelet", "kube-apiserver-kubelet", ["system:masters"])
        to_kubelet = [
            f"--kubelet-client-certificate={kubelet.certificate}",
            f"--kubelet-client-key={kubelet.key}",
            f"--kubelet-certificate-authority={plane.authority.pair.certificate}",
            "--kubelet-preferred-address-types=InternalIP",
        ]
        self._daemon("kube-apiserver", plane.kube_apiserver(*to_kubelet))
        self._daemon("relay", [sys.executable, "-m", "tools.cluster.node", "relay", str(self._options.listening)])
        self._until(plane.is_ready)
        self._daemon("kube-controller-manager", plane.kube_controller_manager())
        self._daemon("kube-scheduler", plane.kube_scheduler())
        self._daemon("kube-proxy", [str(self._cache.binary("kube-proxy")), f"--config={self._proxy(plane)}"])
        self._until(_SOCKET.exists)
        self._daemon("kubelet", self._kubelet(plane))
        (self._state / "started").touch()
        self._until(lambda: False)

    # The machine

    def _mount(self) -> None:
        own = self._state / "mounts"
        cgroups = own / "cgroup"
        cgroups.mkdir(parents=True, exist_ok=True)
        _run("mount", "--rbind", CGROUPS, cgroups)
        _run("mount", "-t", "sysfs", "sysfs", "/sys")  # shows this network namespace
        _run("mount", "--rbind", cgroups, CGROUPS)
        _run("umount", "-R", cgroups)
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        Path("/run/lock").mkdir()
        Path("/run/netns").mkdir()
        for folder in ("lib", "log"):
            (own / folder).mkdir(exist_ok=True)
            _run("mount", "--bind", own / folder, f"/var/{folder}")
        for name, value in _TUNABLES.items():
            tunable = own / name.replace("/", ".")
            tunable.write_text(f"{value}\n")
            _run("mount", "--bind", tunable, f"/proc/sys/{name}")
        if self._options.cpus:
            self._pretend_cpus(own)
        # Last, because an umount would reach the copies: the kubelet's mounts must reach the containers.
        _run("mount", "--make-rshared", "/")

    def _pretend_cpus(self, own: Path) -> None:
        """cAdvisor counts the folders `cpu*` where there is no NUMA node. Only the real ones get a topology, because
        the kubelet writes the numbers with a topology into cpuset.cpus and the kernel refuses others."""
        real = Path("/sys/devices/system/cpu")
        for number in range(self._options.cpus):
            (own / "cpu" / f"cpu{number}").mkdir(parents=True, exist_ok=True)
        for number in range(os.cpu_count() or 1):
            topology = own / "cpu" / f"cpu{number}" / "topology"
            topology.mkdir(parents=True, exist_ok=True)
            (topology / "core_id").write_text(f"{number}\n")
            (topology / "physical_package_id").write_text("0\n")
        for name in ("online", "possible", "present"):
            (own / "cpu" / name).write_text((real / name).read_text())
        (own / "numa").mkdir(exist_ok=True)
        _run("mount", "--bind", own / "cpu", real)
        _run("mount", "--bind", own / "numa", "/sys/devices/system/node")

    def _connect(self) -> None:
        """The node's address is on a veth pair, which every kernel with containers has; pods reach each other and
        Services, and nothing outside."""
        socket.sethostname(NODE)
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node0p")
        _run("ip", "addr", "add", f"{NODE_IP}/24", "dev", "node0")
        for end in ("node0", "node0p"):
            _run("ip", "link", "set", end, "up")
        _run("ip", "route", "add", "default", "dev", "node0")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        bridge = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
        if bridge.exists():
            bridge.write_text("1")

    # Configurations

    def _control_plane(self) -> ControlPlane:
        addresses = Addresses(
            host=NODE_IP,
            port=PORT,
            etcd=2379,
            etcd_peer=2380,
            services=SERVICES,
            names=NAMES,
            advertised=NODE_IP,
        )
        plane = ControlPlane(self._cache, self._state, addresses)
        port = socket.socket(fileno=os.dup(self._options.listening)).getsockname()[1]
        plane.kubeconfig("kubeconfig", plane.admin, f"https://127.0.0.1:{port}")
        return plane

    def _containerd(self) -> Path:
        networks = self._file(
            "cni/10-bridge.conflist",
            {
                "cniVersion": "1.0.0",
                "name": "pods",
                "plugins": [
                    {
                        "type": "bridge",
                        "bridge": "cni0",
                        "isGateway": True,
                        "hairpinMode": True,
                        "ipam": {
                            "type": "host-local",
                            "ranges": [[{"subnet": PODS}]],
                            "routes": [{"dst": "0.0.0.0/0"}],
                        },
                    },
                    {"type": "portmap", "capabilities": {"portMappings": True}},
                ],
            },
        )
        hosts = f'[host."http://127.0.0.1:{_REGISTRY}"]\n  capabilities = ["pull", "resolve"]\n'
        registries = self._file("registries/_default/hosts.toml", hosts).parents[1]
        text = _CONTAINERD.format(
            pause=f"registry.k8s.io/pause:{versions.PAUSE}",
            registries=registries,
            plugins=cni(),
            networks=networks.parent,
            snapshotter=_snapshotter(self._state),
        )
        return self._file("containerd.toml", text)

    def _kubelet(self, plane: ControlPlane) -> Command:
        pair = plane.authority.issue("kubelet", f"system:node:{NODE}", ["system:nodes"], [NODE, NODE_IP])
        resolver = self._file("resolv.conf", "nameserver 127.0.0.1\n")
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": NODE_IP,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(plane.authority.pair.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(pair.certificate),
            "tlsPrivateKeyFile": str(pair.key),
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._options.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,  # a negative one needs CAP_SYS_RESOURCE
            "resolvConf": str(resolver),
            "clusterDNS": [DNS],
            "clusterDomain": "cluster.local",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "maxPods": 250,
            "syncFrequency": "5s",  # how soon changed Secrets reach pods: Kueue waits for its certificate
        }
        return [
            str(self._cache.binary("kubelet")),
            f"--config={self._file('kubelet.yaml', configuration)}",
            f"--kubeconfig={plane.kubeconfig('kubelet.kubeconfig', pair)}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_IP}",
        ]

    def _proxy(self, plane: ControlPlane) -> Path:
        user = plane.authority.issue("kube-proxy", "system:kube-proxy")
        configuration = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(plane.kubeconfig("kube-proxy.kubeconfig", user))},
            "mode": "iptables",
            "clusterCIDR": PODS,
            "hostnameOverride": NODE,
            "conntrack": {"maxPerCore": 0, "min": 0},  # nf_conntrack_max belongs to the whole machine
        }
        return self._file("kube-proxy.yaml", configuration)

    def _file(self, name: str, content: object) -> Path:
        path = self._state / "config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return path

    # Daemons

    def _daemon(self, name: str, command: Command) -> None:
        self._commands[name] = command
        self._start(name)

    def _start(self, name: str) -> None:
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command lines
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[self._options.listening] if name == "relay" else [],
            )
        self._pids[process.pid] = name
        process.returncode = 0  # reaped below, with what containers leave behind

    def _until(self, reached: object) -> None:
        """Reap and restart until this is so."""
        while not reached():  # type: ignore[operator]
            self._reap()
            now = time.monotonic()
            for name in [name for name, due in self._due.items() if due <= now]:
                del self._due[name]
                self._start(name)
            time.sleep(0.1)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if name := self._pids.pop(pid, ""):
                print(f"{name} ended with status {status}; starting it again", flush=True)
                self._due[name] = time.monotonic() + _AGAIN_SECONDS


def _snapshotter(state: Path) -> str:
    """overlayfs does not lie on overlayfs, as in a container."""
    command = ["stat", "--file-system", "--format=%T", str(state)]
    kind = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    return "native" if "overlay" in kind else "overlayfs"


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise SystemExit(f"`{' '.join(words)}` failed: {ended.stderr.strip()}")


async def _relay(listening: socket.socket) -> None:
    """Connections to the host's port, whose socket was opened there, go to kube-apiserver in this network namespace."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, sink = await asyncio.open_connection(NODE_IP, PORT)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, sink), copy(upstream, writer))

    server = await asyncio.start_server(serve, sock=listening)
    await server.serve_forever()


_CONTAINERD: Final = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{registries}"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def main(arguments: Sequence[str]) -> None:
    """As process 1 with its options, or as the relay with the number of its socket."""
    if arguments[0] == "relay":
        asyncio.run(_relay(socket.socket(fileno=int(arguments[1]))))
    else:
        Node(NodeOptions(**json.loads(arguments[0]))).run()


if __name__ == "__main__":
    main(sys.argv[1:])
