"""The controllers in a process of their own (`fairway controller`), on an API server that is reached over HTTP.

Part of the composition root. One process works at a time (`client.election`); each term begins with caches and
controllers of its own, so what a former term knew or was about to do ends with it.
"""

import asyncio
import base64
import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import Registry, default_registry
from fairway.client.cluster import Cluster
from fairway.client.election import LeaderElection, LostLeaseError
from fairway.client.explainer import NAMESPACE, secret_of
from fairway.client.http.client import HttpClient
from fairway.client.http.transport import Transport, open_transport
from fairway.controllers.managedjob.plugin import Ids
from fairway.controllers.metrics import QueueMetrics
from fairway.errors import NotFound
from fairway.manager import SERVER_CONFIG_MAP, ControllerManager, admission_plugins, admission_resources
from fairway.runtime.clock import SystemClock
from fairway.runtime.garbage import GarbageKeeper
from fairway.runtime.lease import AlreadyRunning, Hold
from fairway.runtime.parts import running
from fairway.runtime.privacy import make_private
from fairway.server.admissionreview import MASTERS, AdmissionReviews, webhook_configurations
from fairway.server.certificates import own_certificate
from fairway.server.endpoint import ControllerEndpoint
from fairway.server.listening import bound_socket
from fairway.server.metrics import exposition
from fairway.settings import Settings

_log = logging.getLogger(__name__)
_ENDING = (signal.SIGINT, signal.SIGTERM)
_PAUSE_SECONDS = 0.25
CONTROLLER_USER = "system:serviceaccount:kueue-system:fairway-controller"
"""The user of this process on a cluster, whose writes no webhook judges."""


class RunsInServerError(LostLeaseError):
    """The server runs a controller itself that this process was to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a process of controllers is started."""

    settings: Settings
    """State directory, address of the endpoint, and the selected controllers."""

    kubeconfig: Path | str
    context: str = ""
    lease: str = "fairway-controller"
    webhooks: bool = False
    """Serve the admission plugins as webhooks."""


async def run_controllers(options: ControllerOptions, announce: Callable[[str, str], None]) -> None:
    """Run until SIGTERM or SIGINT; `announce` gets what happened (`listening`, `leading`) and the endpoint's URL."""
    settings = options.settings
    make_private(settings.state)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in _ENDING:
        loop.add_signal_handler(number, stop.set)
    with bound_socket(settings.host, settings.port) as listening:
        certificate = own_certificate(settings.state / "controller-tls", settings.host, SystemClock().now())
        process = _Process(options, announce, _url(settings.host, listening), certificate.authority.read_bytes())
        server = await process.endpoint.serve(listening, certificate)
        announce("listening", process.url)
        working = asyncio.create_task(process.run())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            stopping.cancel()
            ended, _ = await asyncio.gather(working, stopping, return_exceptions=True)
            server.close()
        if isinstance(ended, Exception):
            raise ended


class _Process:
    """One term as leader after the other."""

    def __init__(
        self, options: ControllerOptions, announce: Callable[[str, str], None], url: str, authority: bytes
    ) -> None:
        self.url = url
        self._options = options
        self._names = options.settings.controller_names
        self._announce = announce
        self._authority = authority
        self._token = secrets.token_urlsafe(32)
        self._clock = SystemClock()
        self._registry: Registry = default_registry()
        self._metrics: QueueMetrics | None = None
        self.endpoint = ControllerEndpoint(self._token, self._exposition)

    async def run(self) -> None:
        directory = self._options.settings.state / "controllers" / self._options.lease
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with await self._hold(directory):
            async with open_transport(self._options.kubeconfig, self._options.context, self._clock) as transport:
                await self._terms(transport, _identity(directory))

    async def _hold(self, directory: Path) -> Hold:
        """The lock of this state directory: with it, earlier holders of the Lease from here are known to have ended."""
        said = False
        while True:
            try:
                return Hold.acquire(directory)
            except AlreadyRunning as error:
                if not said:
                    _log.info("standing by: %s", error)
                said = True
                await self._clock.sleep(_PAUSE_SECONDS)

    async def _terms(self, transport: Transport, here: str) -> None:
        client = HttpClient(transport, self._clock, "fairway-controller")
        lease = self._registry.named("leases.coordination.k8s.io")
        identity = f"{here}{os.getpid()}-{secrets.token_hex(4)}"
        election = LeaderElection(client, lease, self._clock, self._options.lease, identity, ended=here)
        while True:
            try:
                await self._term(transport, client, election)
            except RunsInServerError:
                raise
            except LostLeaseError as error:
                _log.warning("%s; standing by", error)

    async def _term(self, transport: Transport, client: HttpClient, election: LeaderElection) -> None:
        async with election.leading(lambda: self._check_server(client)) as lease:
            cluster = Cluster(lambda name: HttpClient(transport, self._clock, name), self._registry, self._clock)
            manager = ControllerManager(cluster, self._options.settings, self._names)
            reviews = None
            if self._options.webhooks:
                ids = Ids(cluster)
                manager.parts.append(ids)
                plugins = admission_plugins(cluster, manager.configuration, ids)
                reviews = AdmissionReviews(plugins, self._registry, (MASTERS, CONTROLLER_USER))
            leading = asyncio.create_task(self._lead(manager, client, reviews))
            try:
                await asyncio.wait({lease, leading}, return_when=asyncio.FIRST_COMPLETED)
                (lease if lease.done() else leading).result()
            finally:
                self.endpoint.explainer = self._metrics = self.endpoint.reviews = None
                leading.cancel()
                await asyncio.gather(leading, return_exceptions=True)

    async def _lead(self, manager: ControllerManager, client: HttpClient, reviews: AdmissionReviews | None) -> None:
        async with manager.running() as broken, running(GarbageKeeper(self._clock), broken=broken):
            self.endpoint.reviews = reviews
            self._metrics = manager.metrics
            if "admission" in self._names:
                self.endpoint.explainer = manager.explainer
                await self._publish(client)
            self._announce("leading", self.url)
            await broken

    async def _publish(self, client: HttpClient) -> None:
        """Tell the API server where to ask the decider."""
        kind, secret = self._registry.named("secrets"), secret_of(self.url, self._token, self._authority)
        try:
            await client.patch(kind, NAMESPACE, secret["metadata"]["name"], {"data": secret["data"]})
        except NotFound:
            await client.create(kind, secret)

    async def _check_server(self, client: HttpClient) -> None:
        """No controller runs twice: in the server and here."""
        try:
            found = await client.get(self._registry.named("configmaps"), NAMESPACE, SERVER_CONFIG_MAP)
        except NotFound:
            return
        twice = self._names & set(str((found.get("data") or {}).get("controllers") or "").split(","))
        if twice:
            raise RunsInServerError(
                f"the server runs these controllers itself: {', '.join(sorted(twice))}; start it with "
                "`fairway serve --controllers=none`, or choose others here with --controllers"
            )

    def _exposition(self) -> bytes:
        return exposition(() if self._metrics is None else (self._metrics,))


def _identity(directory: Path) -> str:
    """The beginning of the identities of all processes that had this directory."""
    path = directory / "identity"
    if not path.exists():
        path.write_text(secrets.token_hex(8))
    return f"{socket.gethostname()}_{path.read_text().strip()}_"


def _url(host: str, listening: socket.socket) -> str:
    everywhere = host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    name = socket.gethostname() if everywhere else host
    return f"https://{f'[{name}]' if ':' in name else name}:{listening.getsockname()[1]}"


def webhooks_at(url: str, settings: Settings) -> list[Manifest]:
    """The configurations that make an API server call the webhooks of `fairway controller` at this address."""
    make_private(settings.state)
    host = urlsplit(url).hostname or settings.host
    certificate = own_certificate(settings.state / "controller-tls", host, SystemClock().now())
    bundle = base64.b64encode(certificate.authority.read_bytes()).decode()
    return webhook_configurations(admission_resources(), default_registry(), {"url": url, "caBundle": bundle})
