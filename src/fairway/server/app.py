"""The API as a handler of HTTP exchanges: authentication, authorization, dispatch, and the response.

Every request ends in an answer: what is refused on purpose becomes a `Status` with its reason, whatever else goes wrong
is logged and becomes a 500 that says so. Nothing here knows a kind by name.
"""

import asyncio
import logging
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from fairway.accounting.books import AccountBooks
from fairway.admission.port import Simulator, WaitingExplainer
from fairway.errors import (
    ApiError,
    FairwayError,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    OperationRefused,
    TooManyRequests,
    ValidationError,
)
from fairway.server import reading, reviewing, visibility, watching, writing
from fairway.server.access.audit import AuditEntry, AuditLog
from fairway.server.access.authentication import Authentication
from fairway.server.access.authorization import authorize, authorize_path
from fairway.server.access.roles import allowed, is_admin
from fairway.server.access.users import Users
from fairway.server.accounting import Accounting, BooksSource
from fairway.server.accounts import GroupAccounts, UserAccounts
from fairway.server.archives import Archives
from fairway.server.http import Exchange
from fairway.server.limits import Limits
from fairway.server.metrics import Metrics
from fairway.server.page import WebPage
from fairway.server.plain import Plain
from fairway.server.podlogs import Logs
from fairway.server.requests import Request
from fairway.server.responses import Response, encode, failure, ok, status_of
from fairway.server.routes import ResourcePath, Route, attempted, place, route
from fairway.server.simulations import WhatIfRuns
from fairway.server.streams import Streams
from fairway.server.telling import STREAMED, TELLERS
from fairway.server.transactions import Transactions
from fairway.server.virtual import StoreView, VirtualResource
from fairway.server.waitingjobs import Onlooker, WaitingJobs
from fairway.store.verbs import Objects, PatchType, Written

_log = logging.getLogger(__name__)

_REVIEWS: Final = {"authentication.k8s.io", "authorization.k8s.io"}
_METHODS: Final = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
_AUDITED: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_GOODBYE_SECONDS: Final = 0.3


def _label(method: str) -> str:
    """What metrics call a request that was not understood: not what clients make up."""
    method = method.lower()
    return method if method in _METHODS else "other"


async def _end_stream(exchange: Exchange, asked: Route) -> None:
    """End a stream that the client may no longer have."""
    if task := asyncio.current_task():
        task.uncancel()
    if asked.subresource not in STREAMED:
        try:
            await exchange.drain(_GOODBYE_SECONDS)
        except TimeoutError:
            pass
        else:
            exchange.end()
            return
    exchange.abort()


async def _onlooker(request: Request, namespace: str) -> Onlooker:
    """The user of a request, by the roles of this server."""
    user = request.user

    def may_read(of: str) -> bool:
        return allowed(user, verb="get", group="kueue.x-k8s.io", resource="workloads", namespace=of)

    may_change = allowed(user, verb="patch", group="fairway.dev", resource="managedjobs", namespace=namespace)
    return Onlooker(may_read, may_change, is_admin(user))


class _Call:
    """What is known of one request for metrics and audit."""

    __slots__ = ("body_bytes", "code", "exchange", "method", "request", "route", "started", "verb", "written")

    def __init__(self, exchange: Exchange) -> None:
        self.started = time.perf_counter()
        self.exchange = exchange
        self.method = exchange.method
        self.request: Request | None = None
        self.verb = ""
        self.route: ResourcePath | None = None
        self.code = 0
        self.written: Written | None = None
        self.body_bytes = 0
        """What its body counts for in `Limits.requests_bytes`."""


class Api:
    """Answers requests: `handle` is what connections call."""

    def __init__(
        self, objects: Objects, users: Users, audit: AuditLog, state: Path, limits: Limits | None = None
    ) -> None:
        self.objects = objects
        self._users = users
        self._authentication = Authentication(users)
        self._audit = audit
        self._logs = Logs(state)
        self.limits = limits or Limits()
        self._body_bytes = 0
        self.metrics = Metrics(objects.store)
        self.explainer: WaitingExplainer | None = None
        """The decider: who waits in a queue, in which order, and why."""

        self.books: BooksSource = lambda: None
        """The history of attempts, if it is kept in this process."""

        self.simulator: Simulator | None = None
        """Who plays what-if runs."""

        self.not_ready = ""
        """What is still missing before requests should come; empty when nothing is."""

        self._view = StoreView(objects)
        self._virtual: dict[tuple[str, str, str], VirtualResource] = {
            ("fairway.dev", "v1alpha1", "archives"): Archives(objects, state, self.limits),
            ("fairway.dev", "v1alpha1", "attempts"): Accounting(self._view, self._read_books, "attempts"),
            ("fairway.dev", "v1alpha1", "groups"): GroupAccounts(objects, state, users),
            ("fairway.dev", "v1alpha1", "simulations"): WhatIfRuns(self._view, lambda: self.simulator, _onlooker),
            ("fairway.dev", "v1alpha1", "transactions"): Transactions(objects, audit, self.limits),
            ("fairway.dev", "v1alpha1", "usage"): Accounting(self._view, self._read_books, "usage"),
            ("fairway.dev", "v1alpha1", "users"): UserAccounts(objects, state, users),
            ("fairway.dev", "v1alpha1", "waitingjobs"): WaitingJobs(self._view, lambda: self.explainer, _onlooker),
        }
        """By group, version and resource."""

        on_request = {resource for _, _, resource in self._virtual}
        self._page = WebPage(state, users, self._authentication, objects.now, on_request)
        self._plain = Plain(objects.registry, self.metrics, lambda: self.not_ready, objects.store.check_writable)
        self._resources: frozenset[str] = frozenset()
        """The label of metrics: bounded, not chosen by clients."""

        self._tasks: set[asyncio.Task[None]] = set()
        self._streams = Streams(self._authentication, objects.now, self.limits.watches)
        objects.registry.observe(self._on_kinds_changed)
        self._on_kinds_changed("")

    def _read_books(self) -> AccountBooks | None:
        return self.books()

    def _on_kinds_changed(self, _group: str) -> None:
        plurals = {kind.plural for kind in self.objects.registry.kinds}
        self._resources = frozenset(plurals | {resource for _, _, resource in self._virtual})
        self._streams.authorize_soon()

    def handle(self, exchange: Exchange) -> None:
        """Answer a request. What needs no task has none: writes wait for their body and the disk by callbacks."""
        call = _Call(exchange)
        try:
            request = call.request = Request(exchange, self.limits)
            where = call.route = place(request.segments)
            asked = self._admitted(request, where, call) if where is not None and self._is_stored(where) else None
            if asked is not None and asked.verb in _WRITES:
                limits = self.limits
                call.body_bytes = request.body_bytes(limits.body_bytes)
                self._check_room(call.body_bytes)
                self._body_bytes += call.body_bytes
                self.metrics.in_flight += 1
                exchange.collect(limits.body_bytes, limits.body_seconds, partial(self._write, call, request, asked))
                return
            if asked is not None and asked.verb == "get" and asked.subresource not in STREAMED:
                self._check_room()
                self._respond(call, reading.get(self.objects, request, asked))
                return
        except Exception as error:  # noqa: BLE001 - the client must get a response
            self._respond(call, self._refusal(error, call))
            return
        task = asyncio.create_task(self._run(call, request, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _write(self, call: _Call, request: Request, asked: Route, body: bytes | ApiError) -> None:
        """Stage a write now that its body is here; the response follows when it is durable."""
        if isinstance(body, ApiError):
            self._conclude(call, self._refusal(body, call))
            return
        try:
            written = call.written = writing.stage(self.objects, request, asked, body)
        except Exception as error:  # noqa: BLE001 - the client must get a response
            self._conclude(call, self._refusal(error, call))
            return

        def durable(done: asyncio.Future[None] | None) -> None:
            try:
                if done is not None:
                    done.result()
                response = writing.answer(self.objects, request, asked, written)
            except Exception as error:  # noqa: BLE001 - the client must get a response
                response = self._refusal(error, call)
            self._conclude(call, response)

        if written.durable is None:
            durable(None)
        else:
            written.durable.add_done_callback(durable)

    def _conclude(self, call: _Call, response: Response) -> None:
        self.metrics.in_flight -= 1
        self._body_bytes -= call.body_bytes
        self._respond(call, response)

    async def _run(self, call: _Call, request: Request, asked: Route | None) -> None:
        """Answer a request that takes longer: lists, streams, and whatever is not stored."""
        try:
            response = await self._handle(request, asked, call)
        except asyncio.CancelledError:
            if not self._streams.ending:
                raise
            response = None
            call.exchange.end()
        except Exception as error:  # noqa: BLE001 - the client must get a response
            response = self._refusal(error, call)
        if isinstance(response, reading.Streamed):
            await self._send(call, response)
        elif response is not None and not call.code:
            self._respond(call, response)
            return
        self._note(call)

    async def finished(self) -> None:
        """Return when every request that has come is answered, and every write durable."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.objects.store.settled()

    def _refusal(self, error: Exception, call: _Call) -> Response:
        """The response to a request that failed."""
        if isinstance(error, ApiError | ValidationError | OperationRefused):
            status = status_of(error, self.objects.registry)
        elif isinstance(error, FairwayError):
            status = failure(500, "InternalError", str(error))
        else:
            _log.error("%s %s failed", call.method, call.exchange.path.decode("latin-1"), exc_info=error)
            status = failure(500, "InternalError", "an internal error occurred; see the server's log")
        headers = ((b"retry-after", b"1"),) if status["code"] == 429 else ()
        return Response(status["code"], encode(status), headers=headers)

    def end_streams(self) -> None:
        """End watches and followed logs: the server is going down, and clients will find the next one."""
        self._streams.end_all()
        for virtual in self._virtual.values():
            virtual.close()
        self._logs.close()

    async def _handle(self, request: Request, asked: Route | None, call: _Call) -> Response | reading.Streamed | None:
        if asked is not None:
            return await self._execute(request, asked, call)
        where = call.route
        if where is None and self._page.serves(request):
            return await self._page.answer(request)
        self._identify(request)
        if where is None:
            authorize_path(request.user, verb=request.method.lower(), path=request.path)
            return await self._plain.answer(request)
        if where.group in _REVIEWS:
            return await self._review(request, where, call)
        if where.group == visibility.GROUP:
            call.verb = "get"
            self._authorize(request, call.verb, where)
            if request.method != "GET":
                raise MethodNotAllowed("pending workloads can only be read")
            pending = self.explainer.pending if self.explainer is not None else None
            return ok(await visibility.pending_workloads(self._view, request, where, pending))
        virtual = self._virtual[where.group, where.version, where.resource]
        call.verb = virtual.verb(request, where)
        self._authorize(request, call.verb, where)
        response = await virtual.answer(request, where)
        if isinstance(response, Response) and response.created:
            call.route = where._replace(name=response.created)
        return response

    def _is_stored(self, where: ResourcePath) -> bool:
        """Whether a path leads to objects of the store, if to any."""
        group = where.group
        return (
            group not in _REVIEWS
            and group != visibility.GROUP
            and (group, where.version, where.resource) not in self._virtual
        )

    def _identify(self, request: Request) -> None:
        headers = request.headers
        headers[b"authorization"] = self._page.authorization(request)
        request.user = self._authentication.user(headers[b"authorization"])
        if b"impersonate-user" in headers or b"impersonate-group" in headers:
            raise Forbidden("impersonation is not supported; use a token of that user (`fairway users token NAME`)")

    def _admitted(self, request: Request, where: ResourcePath, call: _Call) -> Route:
        """Authorise a request for stored objects."""
        self._identify(request)
        asked = route(self.objects.registry, request, where)
        call.verb = asked.verb
        self._authorize(request, asked.verb, where)
        if asked.verb == "patch" and not where.subresource and self._would_create(request, asked):
            self._authorize(request, "create", where)
        return asked

    def _would_create(self, request: Request, asked: Route) -> bool:
        """Whether a patch makes a new object, as an apply may."""
        if request.content_type != PatchType.APPLY:
            return False
        return self.objects.store.head(asked.kind.resource, (asked.namespace, asked.name)) is None

    @staticmethod
    def _authorize(request: Request, verb: str, where: ResourcePath) -> None:
        authorize(
            request.user,
            verb=verb,
            group=where.group,
            resource=where.resource,
            subresource=where.subresource,
            namespace=where.namespace,
            name=where.name,
        )

    async def _execute(self, request: Request, asked: Route, call: _Call) -> Response | reading.Streamed | None:
        if asked.verb == "watch" or asked.subresource in STREAMED:
            return await self._streamed(request, asked, call)
        self._check_room()
        self.metrics.in_flight += 1
        try:
            if asked.verb == "deletecollection":
                return await writing.delete_collection(self.objects, request, asked)
            return await reading.list_objects(self.objects, request, asked, self.limits)
        finally:
            self.metrics.in_flight -= 1

    def _check_room(self, body_bytes: int = 0) -> None:
        limits = self.limits
        if self.metrics.in_flight >= limits.requests:
            raise TooManyRequests(f"{limits.requests} requests are in progress; try again in a second")
        if self._body_bytes and self._body_bytes + body_bytes > limits.requests_bytes:
            raise TooManyRequests(
                f"requests with bodies of {limits.requests_bytes >> 20} MiB are in progress; try again in a second"
            )

    async def _streamed(self, request: Request, asked: Route, call: _Call) -> Response | reading.Streamed | None:
        """Answer with a stream, for as long as the client listens and may see what is in it."""

        def start() -> None:
            call.code = 200
            self.metrics.watches += 1

        limits = self.limits
        longest = limits.longest_watch_seconds if asked.verb == "watch" else limits.log_seconds
        with self._streams.open(lambda: self._authorize_stream(request, asked), longest) as stream:
            try:
                if asked.verb == "watch":
                    await watching.watch(self.objects, request, asked, limits, start)
                    return None
                tell = TELLERS[asked.kind.resource, asked.subresource]
                return await tell(self.objects, request, asked, self._logs, limits, start)
            except asyncio.CancelledError:
                if not stream.is_over:
                    raise
                await _end_stream(call.exchange, asked)
                return None
            finally:
                if call.code:
                    self.metrics.watches -= 1

    def _authorize_stream(self, request: Request, asked: Route) -> datetime | None:
        """Whether a stream is allowed to its user as they are now, and until when."""
        kind = self.objects.registry.by_resource_name(asked.kind.resource)
        if kind is None or asked.version not in kind.versions:
            raise NotFound(f"{asked.kind.resource} of version {asked.version} is no longer served")
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

    async def _review(self, request: Request, where: ResourcePath, call: _Call) -> Response:
        call.verb = "create"
        self._authorize(request, call.verb, where)
        if request.method != "POST" or where.name:
            raise MethodNotAllowed(f"{where.resource} can only be created (POST)")
        return ok(await reviewing.answer(request, where, self._users, self.objects.now()), 201)

    def _respond(self, call: _Call, response: Response) -> None:
        call.code = response.code
        call.exchange.respond(response)
        self._note(call)

    @staticmethod
    async def _send(call: _Call, response: reading.Streamed) -> None:
        """Send a response in pieces; one that has only one piece is sent as a whole."""
        call.code = response.code
        exchange, begun, last = call.exchange, False, b""
        async for piece in response.pieces:
            if last:
                if not begun:
                    exchange.start(response.code, response.content_type, response.headers)
                    begun = True
                await exchange.send(last)
            if exchange.gone:
                return
            last = piece
        if begun:
            await exchange.send(last)
            exchange.end()
        else:
            exchange.respond(Response(response.code, last, response.content_type, response.headers))

    def _note(self, call: _Call) -> None:
        seconds = time.perf_counter() - call.started
        where, verb = call.route, call.verb
        resource = where.resource if where is not None and verb and where.resource in self._resources else ""
        self.metrics.count(verb or _label(call.method), resource, call.code, seconds)
        request = call.request
        if where is None or request is None or where.group in _REVIEWS:
            return
        verb = verb or attempted(request.method, where)
        if verb in _AUDITED:
            self._record(request, where, verb, call, seconds)

    def _record(self, request: Request, where: ResourcePath, verb: str, call: _Call, seconds: float) -> None:
        entry = call.written.entry if call.written is not None else None
        self._audit.record(
            AuditEntry(
                time=self.objects.now(),
                user=request.user.name if request.user is not None else "",
                verb=verb,
                group=where.group,
                resource=where.resource,
                code=call.code,
                subresource=where.subresource,
                namespace=where.namespace,
                name=entry.name if entry is not None else where.name,
                source=request.client,
                dry_run=bool(request.query.get("dryRun")) or (entry is not None and not entry.revision),
                resource_version=str(entry.revision) if entry is not None and entry.revision else "",
                duration=round(seconds, 6),
            )
        )
