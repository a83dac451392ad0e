"""The composition root: the only place that knows everything.

It opens the state directory, puts the parts together, listens, and takes them apart again in the opposite order.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairway.apis.registry import default_registry
from fairway.runtime.clock import SystemClock
from fairway.runtime.garbage import GarbageKeeper
from fairway.runtime.lease import Hold
from fairway.runtime.parts import unless
from fairway.runtime.privacy import make_private
from fairway.server.access.audit import AuditLog
from fairway.server.access.users import Users
from fairway.server.app import Api
from fairway.server.certificates import Certificate, own_certificate
from fairway.server.kubeconfig import admin_token, write_kubeconfig
from fairway.server.limits import Limits
from fairway.server.listening import Listener, bound_socket
from fairway.settings import Settings
from fairway.store.gc import DefinitionKeeper, EventExpiry, GarbageCollector, NamespaceKeeper
from fairway.store.sqlite import SqliteLog
from fairway.store.store import Store
from fairway.store.verbs import Objects

_log = logging.getLogger(__name__)
_SOON_DAYS = 14
"""A certificate that ends this soon is warned of at every start."""


async def serve(settings: Settings, announce: Callable[[str], None], limits: Limits | None = None) -> None:
    """Run a server until it is stopped; `announce` is called with its URL when it is ready."""
    make_private(settings.state)
    with Hold.acquire(settings.state), bound_socket(settings.host, settings.port) as listening:
        certificate, host = _certificate(settings)
        url = _url(settings, host, listening)
        async with _running_api(settings, limits) as api:
            token = admin_token(settings.kubeconfig, Users(settings.state))
            write_kubeconfig(settings.kubeconfig, url, token, certificate.authority if certificate else None)
            listener = Listener(api, listening, certificate)
            async with _running_plane(settings, api) as broken:
                await unless(broken, listener.run(lambda: _ready(api, url, announce)))


@asynccontextmanager
async def _running_plane(settings: Settings, api: Api) -> "AsyncIterator[asyncio.Future[None]]":
    """Queueing, controllers and jobs, unless the API is served alone; what is given back ends when a part broke."""
    if settings.api_only:
        yield asyncio.get_running_loop().create_future()
        return
    from fairway.plane import Plane  # noqa: PLC0415 - an API alone need not wait for it

    plane = Plane(api.objects, settings, SystemClock())
    api.explainer = plane.explainer
    api.books = plane.manager.books
    api.simulator = plane.simulations
    for collector in plane.manager.collectors:
        api.metrics.add(collector)
    async with plane.running() as broken:
        yield broken


def _certificate(settings: Settings) -> tuple[Certificate | None, str]:
    """What the server shows its clients (`None` if it speaks plain HTTP), and the name that they reach it by."""
    everywhere = settings.host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    host = socket.gethostname() if everywhere else settings.host
    if settings.tls_cert and settings.tls_key:
        from fairway.server.given import check_given, public_name  # noqa: PLC0415 - large, and not for most

        found = check_given(settings.tls_cert, settings.tls_key, SystemClock().now())
        name = public_name(found, settings.tls_cert, settings.public_name, host)
        left = (found.ends - SystemClock().now()).days
        if left < _SOON_DAYS:
            _log.warning("the certificate %s ends in %d days, on %s", settings.tls_cert, left, f"{found.ends:%Y-%m-%d}")
        return Certificate(settings.tls_cert, settings.tls_key, settings.tls_cert), name
    name = settings.public_name or host
    if settings.insecure:
        return None, name
    return own_certificate(settings.own_tls, name, SystemClock().now()), name


def _ready(api: Api, url: str, announce: Callable[[str], None]) -> None:
    api.not_ready = ""
    _log.info("listening on %s (process %d)", url, os.getpid())
    announce(url)


@asynccontextmanager
async def _running_api(settings: Settings, limits: Limits | None) -> AsyncIterator[Api]:
    """The API over the store of a state directory, with everything that keeps it tidy."""
    clock = SystemClock()
    store = Store(SqliteLog(settings.database))
    try:
        await store.start()
        registry = default_registry()
        registry.external = settings.external_groups
        objects = Objects(store, registry, clock.now)
        definitions = DefinitionKeeper(objects)  # first: the others look at all kinds
        namespaces = NamespaceKeeper(objects)
        keepers: list[GarbageCollector | DefinitionKeeper | NamespaceKeeper | EventExpiry | GarbageKeeper] = [
            definitions,
            GarbageCollector(objects),
            namespaces,
            EventExpiry(objects),
            GarbageKeeper(clock),
        ]
        audit = AuditLog(settings.state)
        try:
            await namespaces.make_defaults()
            await definitions.publish()
            api = Api(objects, Users(settings.state), audit, settings.state, limits)
            api.not_ready = "not listening yet"
            chores = [asyncio.create_task(keeper.run()) for keeper in keepers]
            try:
                yield api
            finally:
                for chore in chores:
                    chore.cancel()
                await asyncio.gather(*chores, return_exceptions=True)
        finally:
            await asyncio.to_thread(audit.close)
    finally:
        await store.close()


def _url(settings: Settings, host: str, listening: socket.socket) -> str:
    scheme = "http" if settings.insecure and not settings.tls_cert else "https"
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listening.getsockname()[1]}"
