"""The API as an ASGI application: who asks, may they, what for, and the answer.

Every request ends in an answer: what is refused on purpose becomes a `Status` with its reason, whatever else goes wrong
is logged and becomes a 500 that says so. Nothing here knows a kind by name.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from fairway.admission.port import WaitingExplainer
from fairway.errors import (
    ApiError,
    FairwayError,
    Forbidden,
    MethodNotAllowed,
    OperationRefused,
    TooManyRequests,
    ValidationError,
)
from fairway.server import reading, reviewing, visibility, watching, writing
from fairway.server.access.audit import AuditEntry, AuditLog
from fairway.server.access.authentication import Authentication
from fairway.server.access.authorization import authorize, authorize_path
from fairway.server.access.roles import User
from fairway.server.access.users import Users
from fairway.server.accounts import GroupAccounts, UserAccounts
from fairway.server.archives import Archives
from fairway.server.limits import Limits
from fairway.server.metrics import Metrics
from fairway.server.plain import Plain
from fairway.server.podlogs import Logs
from fairway.server.requests import Head, OpenRequest, Receive, Request, Scope, Send, too_large
from fairway.server.responses import Response, encode, failure, ok, status_of
from fairway.server.routes import Place, Route, attempted, place, route
from fairway.server.streams import Streams
from fairway.server.telling import STREAMED, TELLERS
from fairway.server.transactions import Transactions
from fairway.server.virtual import VirtualResource
from fairway.server.waitingjobs import WaitingJobs
from fairway.store.verbs import Objects, PatchType, Written, when_durable

_log = logging.getLogger(__name__)

_REVIEWS: Final = {"authentication.k8s.io", "authorization.k8s.io"}
_METHODS: Final = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
_AUDITED: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_WRITE_METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_MOST_KNOWN: Final = 1024
_GOODBYE_SECONDS: Final = 0.3


def _told(method: str) -> str:
    """What metrics call a request that was not understood: not what clients make up."""
    method = method.lower()
    return method if method in _METHODS else "other"


async def _end_stream(request: OpenRequest, asked: Route, send: Send) -> None:
    """End a stream that the client may no longer have."""
    if task := asyncio.current_task():
        task.uncancel()
    if asked.subresource not in STREAMED:
        with suppress(Exception):  # the client may be gone, or take nothing
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await send({"type": "http.response.body", "body": b""})
            return
    request.cut_off()


class _Exchange:
    """One request on its way: what is known of it for metrics and audit."""

    __slots__ = ("code", "method", "request", "route", "started", "verb", "written")

    def __init__(self, method: str) -> None:
        self.started = time.perf_counter()
        self.method = method
        self.request: Request | None = None
        self.verb = ""
        self.route: Place | None = None
        self.code = 0
        self.written: Written | None = None


class Api:
    """The ASGI application."""

    def __init__(
        self, objects: Objects, users: Users, audit: AuditLog, state: Path, limits: Limits | None = None
    ) -> None:
        self.objects = objects
        self._users = users
        self._authentication = Authentication(users)
        self._audit = audit
        self._logs = Logs(state)
        self.limits = limits or Limits()
        self.metrics = Metrics(objects.store)
        self.explainer: WaitingExplainer | None = None
        """The decider: who waits in a queue, in which order, and why."""

        self.not_ready = ""
        """What is still missing before requests should come; empty when nothing is."""

        self._virtual: dict[tuple[str, str, str], VirtualResource] = {
            ("fairway.dev", "v1alpha1", "archives"): Archives(objects, state, self.limits),
            ("fairway.dev", "v1alpha1", "groups"): GroupAccounts(objects, state, users),
            ("fairway.dev", "v1alpha1", "transactions"): Transactions(objects, audit, self.limits),
            ("fairway.dev", "v1alpha1", "users"): UserAccounts(objects, state, users),
            ("fairway.dev", "v1alpha1", "waitingjobs"): WaitingJobs(objects, lambda: self.explainer),
        }
        """By group, version and resource."""

        self._plain = Plain(objects.registry, self.metrics, lambda: self.not_ready, objects.store.check_writable)
        self._resources: frozenset[str] = frozenset()
        """What metrics are told by: not by whatever clients make up."""

        self._known: dict[tuple[User, str, tuple[str, ...], str, bool], Route] = {}
        """What was allowed before, by whom, how and where it was asked for. With other roles a user is another one."""

        objects.registry.observe(self._on_kinds_changed)
        self._on_kinds_changed("")
        self._streams = Streams(self._authentication, objects.now, self.limits.watches)

    def _on_kinds_changed(self, _group: str) -> None:
        """Forget routes to kinds that are others now, or gone."""
        self._known.clear()
        plurals = {kind.plural for kind in self.objects.registry.kinds}
        self._resources = frozenset(plurals | {resource for _, _, resource in self._virtual})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = _Exchange(scope["method"])
        response: Response | reading.Streamed | None
        try:
            limits = self.limits
            request = exchange.request = OpenRequest(scope, receive, limits.body_bytes, limits.body_seconds)
            response = await self._answered(request, exchange, send)
        except asyncio.CancelledError:
            if not self._streams.ending:
                raise
            response = None
            await send({"type": "http.response.body", "body": b""})
        except Exception as error:  # noqa: BLE001 - whoever asked must get an answer
            response = self._refusal(error, exchange.method, scope.get("path", ""))
        await self._respond(scope, response, exchange, send)
        self._note(exchange)

    def take(self, head: Head, body: bytes, respond: Callable[[Response], None]) -> bool:
        """Answer a write whose body is here at once, by calling `respond`; false if the request is of another sort.

        It takes no task and waits for nothing but the disk: such writes are most of what keeps a busy server busy.
        """
        exchange = _Exchange(head[0])
        try:
            request = exchange.request = Request(*head)
            where = exchange.route = place(request.segments)
            if where is None or not self._is_stored(where):
                return False
            asked = self._admitted(request, where, exchange)
            if asked.verb not in _WRITES:
                return False
            self._check_room(len(body))
            written = exchange.written = writing.stage(self.objects, request, asked, body)
        except Exception as error:  # noqa: BLE001 - whoever asked must get an answer
            self._conclude(exchange, self._refusal(error, head[0], head[1].decode("latin-1")), respond)
            return True
        self.metrics.in_flight += 1

        def durable(done: asyncio.Future[None] | None) -> None:
            self.metrics.in_flight -= 1
            try:
                if done is not None:
                    done.result()
                response = writing.answer(self.objects, request, asked, written)
            except Exception as error:  # noqa: BLE001 - whoever asked must get an answer
                response = self._refusal(error, request.method, request.path)
            self._conclude(exchange, response, respond)

        if written.durable is None:
            durable(None)
        else:
            written.durable.add_done_callback(durable)
        return True

    def _conclude(self, exchange: _Exchange, response: Response, respond: Callable[[Response], None]) -> None:
        exchange.code = response.code
        respond(response)
        self._note(exchange)

    def _refusal(self, error: Exception, method: str, path: str) -> Response:
        """The answer to a request that failed."""
        if isinstance(error, ApiError | ValidationError | OperationRefused):
            status = status_of(error, self.objects.registry)
        elif isinstance(error, FairwayError):
            status = failure(500, "InternalError", str(error))
        else:
            _log.error("%s %s failed", method, path, exc_info=error)
            status = failure(500, "InternalError", "an internal error occurred; see the server's log")
        headers = ((b"retry-after", b"1"),) if status["code"] == 429 else ()
        return Response(status["code"], encode(status), headers=headers)

    def end_streams(self) -> None:
        """End watches and followed logs: the server is going down, and clients will find the next one."""
        self._streams.end_all()
        for virtual in self._virtual.values():
            virtual.close()
        self._logs.close()

    async def _answered(
        self, request: OpenRequest, exchange: _Exchange, send: Send
    ) -> Response | reading.Streamed | None:
        where = exchange.route = place(request.segments)
        if where is not None and self._is_stored(where):
            return await self._carried_out(request, self._admitted(request, where, exchange), exchange, send)
        self._identify(request)
        if where is None:
            authorize_path(request.user, verb=request.method.lower(), path=request.path)
            return await self._plain.answer(request)
        if where.group in _REVIEWS:
            return await self._review(request, where, exchange)
        if where.group == visibility.GROUP:
            exchange.verb = "get"
            self._authorize(request, exchange.verb, where)
            if request.method != "GET":
                raise MethodNotAllowed("pending workloads can only be read")
            pending = self.explainer.pending if self.explainer is not None else None
            return ok(await visibility.pending_workloads(self.objects, request, where, pending))
        virtual = self._virtual[where.group, where.version, where.resource]
        exchange.verb = virtual.verb(request, where)
        self._authorize(request, exchange.verb, where)
        response = await virtual.answer(request, where)
        if isinstance(response, Response) and response.created:
            exchange.route = where._replace(name=response.created)
        return response

    def _is_stored(self, where: Place) -> bool:
        """Whether a path leads to objects of the store, if to any."""
        group = where.group
        return (
            group not in _REVIEWS
            and group != visibility.GROUP
            and (group, where.version, where.resource) not in self._virtual
        )

    def _identify(self, request: Request) -> None:
        headers = request.headers
        request.user = self._authentication.user(headers.get(b"authorization", b""))
        if b"impersonate-user" in headers or b"impersonate-group" in headers:
            raise Forbidden("impersonation is not supported; use a token of that user (`fairway users token NAME`)")

    def _admitted(self, request: Request, where: Place, exchange: _Exchange) -> Route:
        """What a request for stored objects asks for, if whoever sends it may."""
        self._identify(request)
        asked = self._routed(request, where, exchange)
        if asked.verb == "patch" and not where.subresource and self._would_create(request, asked):
            self._authorize(request, "create", where)
        return asked

    def _routed(self, request: Request, where: Place, exchange: _Exchange) -> Route:
        """The same, remembered: neither what a write in a namespace is nor whether it is allowed hangs on a name."""
        may_be_known = bool(where.namespace) and request.method in _WRITE_METHODS
        asking = (request.user, request.method, where[:4], where.subresource, bool(where.name))
        known = self._known.get(asking) if may_be_known else None
        if known is not None:
            exchange.verb = known.verb
            return Route(known.verb, known.kind, where.version, where.namespace, where.name, where.subresource)
        asked = route(self.objects.registry, request, where)
        exchange.verb = asked.verb
        self._authorize(request, asked.verb, where)
        if may_be_known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[asking] = asked
        return asked

    def _would_create(self, request: Request, asked: Route) -> bool:
        """Whether a patch makes a new object, as an apply may."""
        if request.content_type != PatchType.APPLY:
            return False
        return self.objects.store.head(asked.kind.resource, (asked.namespace, asked.name)) is None

    @staticmethod
    def _authorize(request: Request, verb: str, where: Place) -> None:
        authorize(
            request.user,
            verb=verb,
            group=where.group,
            resource=where.resource,
            subresource=where.subresource,
            namespace=where.namespace,
            name=where.name,
        )

    async def _carried_out(
        self, request: OpenRequest, asked: Route, exchange: _Exchange, send: Send
    ) -> Response | reading.Streamed | None:
        if asked.verb == "watch" or asked.subresource in STREAMED:
            return await self._streamed(request, asked, exchange, send)
        self._check_room()
        self.metrics.in_flight += 1
        try:
            return await self._answered_at_once(request, asked, exchange)
        finally:
            self.metrics.in_flight -= 1

    def _check_room(self, body_bytes: int = 0) -> None:
        if body_bytes > self.limits.body_bytes:
            raise too_large(self.limits.body_bytes)
        if self.metrics.in_flight >= self.limits.requests:
            raise TooManyRequests(f"{self.limits.requests} requests are in progress; try again in a second")

    async def _answered_at_once(
        self, request: OpenRequest, asked: Route, exchange: _Exchange
    ) -> Response | reading.Streamed:
        objects = self.objects
        if asked.verb == "get":
            return reading.get(objects, request, asked)
        if asked.verb == "list":
            return await reading.list_objects(objects, request, asked, self.limits)
        if asked.verb == "deletecollection":
            return await writing.delete_collection(objects, request, asked)
        written = exchange.written = writing.stage(objects, request, asked, await request.body())
        return writing.answer(objects, request, asked, await when_durable(written))

    async def _streamed(
        self, request: OpenRequest, asked: Route, exchange: _Exchange, send: Send
    ) -> Response | reading.Streamed | None:
        """Answer with a stream, for as long as the client listens and may see what is in it."""

        def start() -> None:
            exchange.code = 200
            self.metrics.watches += 1

        limits = self.limits
        longest = limits.longest_watch_seconds if asked.verb == "watch" else limits.log_seconds
        with self._streams.open(lambda: self._authorize_stream(request, asked), longest) as stream:
            try:
                if asked.verb == "watch":
                    await watching.watch(self.objects, request, asked, limits, start, send)
                    return None
                tell = TELLERS[asked.kind.resource, asked.subresource]
                return await tell(self.objects, request, asked, self._logs, limits, start, send)
            except asyncio.CancelledError:
                if not stream.is_over:
                    raise
                await _end_stream(request, asked, send)
                return None
            finally:
                if exchange.code:
                    self.metrics.watches -= 1

    def _authorize_stream(self, request: Request, asked: Route) -> datetime | None:
        """Whether a stream is allowed to its user as they are now, and until when."""
        header = request.headers.get(b"authorization", b"")
        authorize(
            self._authentication.user(header),
            verb=asked.verb,
            group=asked.kind.group,
            resource=asked.kind.plural,
            subresource=asked.subresource,
            namespace=asked.namespace,
            name=asked.name,
        )
        return self._authentication.expires(header)

    async def _review(self, request: OpenRequest, where: Place, exchange: _Exchange) -> Response:
        exchange.verb = "create"
        self._authorize(request, exchange.verb, where)
        if request.method != "POST" or where.name:
            raise MethodNotAllowed(f"{where.resource} can only be created (POST)")
        return ok(await reviewing.answer(request, where, self._users, self.objects.now()), 201)

    async def _respond(
        self, scope: Scope, response: Response | reading.Streamed | None, exchange: _Exchange, send: Send
    ) -> None:
        if response is None or exchange.code:
            return
        if isinstance(response, reading.Streamed):
            exchange.code = response.code
            kind = [(b"content-type", response.content_type), *response.headers]
            await send({"type": "http.response.start", "status": response.code, "headers": kind})
            async for piece in response.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return
        exchange.code = response.code
        body = response.body
        headers = [
            (b"content-type", response.content_type),
            (b"content-length", str(len(body)).encode()),
            *response.headers,
        ]
        await send({"type": "http.response.start", "status": response.code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _note(self, exchange: _Exchange) -> None:
        seconds = time.perf_counter() - exchange.started
        where, verb = exchange.route, exchange.verb
        resource = where.resource if where is not None and verb and where.resource in self._resources else ""
        self.metrics.count(verb or _told(exchange.method), resource, exchange.code, seconds)
        request = exchange.request
        if where is None or request is None or where.group in _REVIEWS:
            return
        verb = verb or attempted(request.method, where)
        if verb in _AUDITED:
            self._record(request, where, verb, exchange, seconds)

    def _record(self, request: Request, where: Place, verb: str, exchange: _Exchange, seconds: float) -> None:
        entry = exchange.written.entry if exchange.written is not None else None
        self._audit.record(
            AuditEntry(
                time=self.objects.now(),
                user=request.user.name if request.user is not None else "",
                verb=verb,
                group=where.group,
                resource=where.resource,
                code=exchange.code,
                subresource=where.subresource,
                namespace=where.namespace,
                name=entry.name if entry is not None else where.name,
                source=request.client,
                dry_run=bool(request.query.get("dryRun")) or (entry is not None and not entry.revision),
                resource_version=str(entry.revision) if entry is not None and entry.revision else "",
                duration=round(seconds, 6),
            )
        )
