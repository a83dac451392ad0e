"""etcd and kube-apiserver on loopback, without a node: a real API with RBAC, CRDs, webhooks and admission.

    with ApiServer(directory) as api:
        ... api.kubeconfig ...

With `controllers` also kube-controller-manager (garbage collection, Jobs, service accounts), with `scheduler`
kube-scheduler. All of them end when the context is left or this process ends. About 500 MB of memory.
"""

import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tools.cluster.controlplane import Addresses, ControlPlane
from tools.cluster.places import Cache, ClusterError
from tools.cluster.processes import Daemons

_SERVICES = "10.97.0.0/16"
_START_SECONDS = 120.0
_POLL_SECONDS = 0.1


class ApiServer:
    """A control plane of its own. A context manager."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        controllers: bool = False,
        scheduler: bool = False,
        options: tuple[str, ...] = (),
        cache: Cache | None = None,
    ) -> None:
        """`port` 0 is a free one; `options` are more arguments for kube-apiserver."""
        self._directory = directory.absolute()
        self._port = port
        self._controllers = controllers
        self._scheduler = scheduler
        self._options = options
        self._cache = cache or Cache.default()
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as starting:
            self._daemons = starting.enter_context(Daemons(self._directory / "logs"))
            self._start()
            self._exit = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @property
    def url(self) -> str:
        return self._plane.addresses.server

    @property
    def plane(self) -> ControlPlane:
        """Its keys: `plane.authority.issue(…)` and `plane.kubeconfig(…)` make other users."""
        return self._plane

    def stop(self, name: str, *, kill: bool = True) -> None:
        """End `etcd`, `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`, by SIGKILL unless told."""
        self._daemons.stop(name, kill=kill)

    def start(self, name: str) -> None:
        """Start one that was stopped, with the same data and ports; the API is ready again when this returns."""
        self._daemons.start(name)
        self._wait()

    def restart(self, name: str) -> None:
        """Kill one and start it again."""
        self.stop(name)
        self.start(name)

    def _start(self) -> None:
        port, etcd, peer = _free_ports(self._port)
        addresses = Addresses(
            host="127.0.0.1",
            port=port,
            etcd=etcd,
            etcd_peer=peer,
            services=_SERVICES,
            names=("127.0.0.1", "localhost"),
            advertised="",
        )
        self._plane = ControlPlane(self._cache, self._directory, addresses)
        self.kubeconfig = self._plane.kubeconfig("kubeconfig", self._plane.admin)
        """Of a user in `system:masters`."""
        self._daemons.start("etcd", self._plane.etcd())
        self._daemons.start("kube-apiserver", self._plane.kube_apiserver(*self._options))
        self._wait()
        if self._controllers:
            self._daemons.start("kube-controller-manager", self._plane.kube_controller_manager())
        if self._scheduler:
            self._daemons.start("kube-scheduler", self._plane.kube_scheduler())

    def _wait(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while not self._plane.is_ready():
            self._daemons.check()
            if time.monotonic() > until:
                raise ClusterError(
                    f"kube-apiserver was not ready within {_START_SECONDS:.0f} s; see {self._directory / 'logs'}"
                )
            time.sleep(_POLL_SECONDS)


def _free_ports(first: int) -> list[int]:
    """The ports of kube-apiserver and etcd: three different ones, the first as asked for."""
    sockets = [socket.socket() for _ in range(3)]
    try:
        for number, one in enumerate(sockets):
            try:
                one.bind(("127.0.0.1", first if number == 0 else 0))
            except OSError as error:
                raise ClusterError(
                    f"port {first} of 127.0.0.1 is in use; choose another one, or 0 for a free one"
                ) from error
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
