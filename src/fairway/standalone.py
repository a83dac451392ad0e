"""The controllers in a process of their own (`fairway controller`), on an API server that is reached over HTTP.

Part of the composition root. One process works at a time (`client.election`); each term begins with caches and
controllers of its own, so what a former term knew or was about to do ends with it.
"""

import asyncio
import base64
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fairway.admission.port import AdmittedBy
from fairway.apis.kueue.configuration import NAMESPACE as KUEUE_NAMESPACE
from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import Registry, default_registry
from fairway.client.cluster import Cluster
from fairway.client.election import RENEW_SECONDS, LeaderElection, LostLeaseError
from fairway.client.explainer import NAMESPACE, secret_of
from fairway.client.http.client import HttpClient
from fairway.client.http.transport import Transport, open_transport
from fairway.client.recorder import Recorder
from fairway.client.rest.errors import Unreachable
from fairway.controllers.decider.stored import unknown_order
from fairway.controllers.managedjob.plugin import ManagedJobAdmission, ReservedIds
from fairway.controllers.webhooks.scheduling import SchedulingAdmission
from fairway.deploy.names import CONTROLLER_USER
from fairway.errors import FairwayError, NotFound, TooManyRequests, Unavailable
from fairway.leading import FrontProxySource, LeaderCertificate, LeaderLabel, ServingCertificate
from fairway.manager import (
    ON_A_CLUSTER,
    SERVER_CONFIG_MAP,
    ControllerManager,
    reviewed_resources,
    webhook_plugins,
)
from fairway.oncluster import AUTO, AdmissionWatch, Home, KueueOrder, find_home
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import SystemClock
from fairway.runtime.garbage import GarbageKeeper
from fairway.runtime.lease import AlreadyRunning, Hold
from fairway.runtime.parts import running
from fairway.runtime.privacy import make_private
from fairway.runtime.ratelimit import RateLimit
from fairway.runtime.stopping import until_stopped
from fairway.server.admissionreview import (
    MASTERS,
    AdmissionReviews,
    scheduling_rules,
    webhook_configurations,
    webhook_rules,
)
from fairway.server.aggregated import AggregatedApi, FrontProxy, access_review
from fairway.server.certificates import Certificate, own_certificate, write_private
from fairway.server.endpoint import ControllerEndpoint
from fairway.server.listening import HttpServer, bound_socket
from fairway.server.metrics import Collector, exposition
from fairway.settings import Settings
from fairway.simulate.live import ForecastingExplainer

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.25
_LEAVING_SECONDS = 2.0
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_BACKOFF = Backoff(first=0.25, cap=5.0)


class RunsInServerError(LostLeaseError):
    """The server runs a controller itself that this process was to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a process of controllers is started."""

    settings: Settings
    """State directory, address of the endpoint, and the selected controllers."""

    kubeconfig: Path | str
    """Empty for the service account of this pod."""

    context: str = ""
    lease: str = "fairway-controller"
    webhooks: bool = False
    """Serve the admission plugins as webhooks, as is always done on a cluster."""

    qps: float = 100.0
    burst: int = 200
    """The rate limit of requests to a cluster; 0 is none. Fairway's own server is not limited."""

    admission: str = AUTO
    """Who admits: a value of `AdmittedBy`, or `auto` to find out."""


async def run_controllers(options: ControllerOptions, announce: Callable[[str, str], None]) -> None:
    """Run until SIGTERM or SIGINT; `announce` gets what happened (`listening`, `leading`) and the endpoint's URL."""
    await until_stopped(_run(options, announce))


async def _run(options: ControllerOptions, announce: Callable[[str, str], None]) -> None:
    settings = options.settings
    make_private(settings.state)
    with bound_socket(settings.host, settings.port) as listening:
        certificate = own_certificate(settings.state / "controller-tls", settings.host, SystemClock().now())
        process = _Process(options, announce, _url(settings.host, listening), certificate.authority.read_bytes())
        server = await process.endpoint.serve(listening, certificate)
        process.server = server
        announce("listening", process.url)
        try:
            await process.run()
        finally:
            server.close()


class _Process:
    """One term as leader after the other."""

    def __init__(
        self, options: ControllerOptions, announce: Callable[[str, str], None], url: str, authority: bytes
    ) -> None:
        self.url = url
        self.server: HttpServer | None = None
        self._options = options
        self._announce = announce
        self._authority = authority
        self._token = secrets.token_urlsafe(32)
        self._clock = SystemClock()
        self._registry: Registry = default_registry()
        self._collectors: Sequence[Collector] = ()
        self._home = Home()
        self.endpoint = ControllerEndpoint(self._token, self._exposition, self._registry)

    @property
    def _names(self) -> frozenset[str]:
        """The controllers that run."""
        names = self._options.settings.controller_names
        return names & ON_A_CLUSTER[self._home.way] if self._home.on_cluster else names

    async def run(self) -> None:
        directory = self._options.settings.state / "controllers" / self._options.lease
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with await self._hold(directory):
            options = self._options
            # The Lease has connections of its own, so that no other request holds up its renewal.
            electing = open_transport(options.kubeconfig, options.context, self._clock, silent_seconds=RENEW_SECONDS)
            async with electing, open_transport(options.kubeconfig, options.context, self._clock) as transport:
                self._home = await self._find_home(transport)
                if self._home.on_cluster and options.qps > 0:
                    transport.limit = RateLimit(options.qps, options.burst, self._clock)
                await self._terms(transport, electing, _identity(directory))

    async def _find_home(self, transport: Transport) -> Home:
        failures = 0
        while True:
            try:
                return await find_home(transport, self._registry, self._options.admission)
            except (Unreachable, Unavailable, TooManyRequests) as error:
                if not failures:
                    _log.warning("waiting for the API server: %s", error)
                await self._clock.sleep(_BACKOFF.delay(failures))
                failures += 1

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

    async def _terms(self, transport: Transport, electing: Transport, here: str) -> None:
        client = HttpClient(transport, self._clock, "fairway-controller")
        lease = self._registry.named("leases.coordination.k8s.io")
        identity = f"{here}{os.getpid()}-{secrets.token_hex(4)}"
        election = LeaderElection(
            HttpClient(electing, self._clock, "fairway-controller"),
            lease,
            self._clock,
            self._options.lease,
            identity,
            namespace=self._home.namespace,
            ended=here,
        )
        transport.fence = election.check_leading
        while True:
            try:
                await self._term(transport, client, election)
            except RunsInServerError:
                raise
            except LostLeaseError as error:
                _log.warning("%s; standing by", error)

    async def _term(self, transport: Transport, client: HttpClient, election: LeaderElection) -> None:
        check = None if self._home.on_cluster else lambda: self._check_server(client)
        async with election.leading(check) as lease:
            while True:
                if self._home.on_cluster:
                    self._home = await self._find_home(transport)
                changed = await self._work(transport, client, lease)
                _log.warning("%s; starting the controllers again", changed)

    async def _work(self, transport: Transport, client: HttpClient, lease: "asyncio.Task[None]") -> str:
        """Run the controllers until the Lease is lost, which is an error, or another way of admission is right."""
        home = self._home
        cluster = Cluster(
            lambda name: HttpClient(transport, self._clock, name),
            self._registry,
            self._clock,
            namespace=home.namespace,
            scopes=home.scopes,
        )
        manager = ControllerManager(
            cluster,
            self._options.settings,
            self._names,
            admitted_by=home.way,
            configured_in=home.configured_in,
            own_nodes=not home.on_cluster,
            order=KueueOrder(transport) if home.way is AdmittedBy.KUEUE else unknown_order,
        )
        term = LeaderTerm(
            cluster,
            client,
            manager,
            home,
            self._use,
            self._trust,
            webhooks=self._options.webhooks or home.on_cluster,
        )
        watching = AdmissionWatch(cluster, home, self._options.admission).changed() if home.on_cluster else _never()
        changed = asyncio.create_task(watching)
        leading = asyncio.create_task(self._lead(term, client))
        try:
            await asyncio.wait({lease, leading, changed}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (lease, leading):
                if ended.done():
                    ended.result()
            await self._record(client, manager.recorder, changed.result())
            return changed.result()
        finally:
            self.endpoint.explainer = self.endpoint.reviews = self.endpoint.api = None
            self._collectors = ()
            leading.cancel()
            changed.cancel()
            await asyncio.gather(leading, changed, return_exceptions=True)
            await term.leave()

    async def _record(self, client: HttpClient, recorder: Recorder, changed: str) -> None:
        """An Event on the Lease."""
        kind = self._registry.named("leases.coordination.k8s.io")
        recorder.normal(await client.get(kind, self._home.namespace, self._options.lease), "AdmissionChanged", changed)
        await recorder.flush()

    async def _lead(self, term: "LeaderTerm", client: HttpClient) -> None:
        manager = term.manager
        async with manager.running() as broken, running(GarbageKeeper(self._clock), broken=broken):
            self.endpoint.reviews, self.endpoint.api = term.reviews, term.api
            await term.take()
            self._collectors = manager.collectors
            if "admission" in self._names:
                self.endpoint.explainer = manager.explainer
                if not self._home.on_cluster:
                    await self._publish(client)
            self._announce("leading", self.url)
            await broken

    def _use(self, found: ServingCertificate) -> None:
        """Serve the certificate of the cluster's Secret, with the token for metrics that is kept there."""
        directory = self._options.settings.state / "cluster-tls"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = Certificate(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
        for path, data in zip(files, (found.certificate, found.key, found.authorities), strict=True):
            write_private(path, data)
        self.endpoint.token = found.token.decode()
        if self.server is not None:
            self.server.use(files)

    async def _trust(self, authorities: str) -> None:
        """Verify the certificates of clients."""
        if self.server is not None:
            await self.server.trust(authorities)

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
        return exposition(self._collectors)


async def _never() -> str:
    await asyncio.Event().wait()
    return ""


class LeaderTerm:
    """What one term has beside the controllers: webhooks, and on a cluster a certificate and the label of its pod."""

    def __init__(
        self,
        cluster: Cluster,
        client: HttpClient,
        manager: ControllerManager,
        home: Home,
        use: Callable[[ServingCertificate], None],
        trust: Callable[[str], Awaitable[None]],
        *,
        webhooks: bool,
    ) -> None:
        self.manager = manager
        self.reviews: AdmissionReviews | None = None
        self.api: AggregatedApi | None = None
        self._trust = trust
        self._client = client
        self._ids: ReservedIds | None = None
        self._certificate: LeaderCertificate | None = None
        self._label = LeaderLabel(cluster, client, home.way)
        if webhooks:
            ids = self._ids = ReservedIds(cluster, client)
            scheduling = SchedulingAdmission(
                cluster,
                manager.recorder,
                home.namespace if home.on_cluster else KUEUE_NAMESPACE,
                own_nodes=not home.on_cluster,
                writes_users=home.way is AdmittedBy.KUEUE,
            )
            plugins = webhook_plugins(cluster, manager.configuration, ids, home.way, scheduling)
            before = dict.fromkeys(ManagedJobAdmission.resources, ids.reserve)
            self.reviews = AdmissionReviews(plugins, cluster.registry, (MASTERS, CONTROLLER_USER), before)
        if home.on_cluster and os.environ.get("POD_NAME"):
            self._certificate = LeaderCertificate(cluster, client, use)
            self._front = FrontProxySource(cluster, client, self._use_proxy)
            decides = home.way is AdmittedBy.FAIRWAY
            simulations = manager.add_simulations()
            explainer = ForecastingExplainer(manager.explainer, simulations)
            self.api = AggregatedApi(cluster, explainer, simulations, self._review, manager.books, decides=decides)
            manager.parts += [self._certificate, self._front]

    async def take(self) -> None:
        """Make requests come here."""
        if self._certificate is not None:
            await self._certificate.ensure()
            await self._front.ensure()
            await self._label.take()

    async def _use_proxy(self, proxy: FrontProxy | None) -> None:
        if proxy is not None:
            await self._trust(proxy.authorities)
        if self.api is not None:
            self.api.proxy = proxy

    async def _review(self, spec: Manifest) -> bool:
        answer = await self._client.transport.json("POST", _REVIEWS, body=access_review(spec))
        return bool((answer.get("status") or {}).get("allowed"))

    async def leave(self) -> None:
        """Let the next leader begin where this one ends; what fails is done by that one."""
        with suppress(FairwayError, TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                if self._ids is not None:
                    await self._ids.give_back()
                if self._certificate is not None:
                    await self._label.leave()


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


def webhooks_at(url: str, settings: Settings, way: AdmittedBy) -> list[Manifest]:
    """The configurations that make an API server call the webhooks of `fairway controller` at this address."""
    make_private(settings.state)
    host = urlsplit(url).hostname or settings.host
    certificate = own_certificate(settings.state / "controller-tls", host, SystemClock().now())
    bundle = base64.b64encode(certificate.authority.read_bytes()).decode()
    registry = default_registry()
    rules = webhook_rules(reviewed_resources(way), registry)
    return webhook_configurations(rules, {"url": url, "caBundle": bundle}, scheduled=scheduling_rules(registry))
