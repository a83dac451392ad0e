"""The HTTPS endpoint of a process that serves no API: health, metrics, and the decider's answers for the API server.

    GET  /healthz /livez /readyz        without authentication
    GET  /metrics                       with the token of this endpoint, as all that follow
    POST /explainer/pending|page|one    `fairway.admission.port.WaitingExplainer`
    POST /mutate /validate /convert     webhooks, without authentication (`admissionreview`, `conversionreview`)
    GET  /apis…                         the aggregated API, for the front proxy of kube-apiserver (`aggregated`)

It has few clients, so what is answered at once is bounded more tightly than in the API server.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from socket import socket
from typing import Any, Final

import msgspec

from fairway.admission.port import WaitingExplainer, WaitingPage
from fairway.apis.registry import Registry
from fairway.errors import ApiError, BadRequest, FairwayError, NotFound, Unauthorized, Unavailable
from fairway.server.admissionreview import ACTIONS, LARGEST_BODY, AdmissionReviews
from fairway.server.aggregated import ROOTS, AggregatedApi
from fairway.server.certificates import Certificate
from fairway.server.conversionreview import LARGEST_BODY as LARGEST_CONVERSION
from fairway.server.conversionreview import converted
from fairway.server.crds import CONVERSION_PATH
from fairway.server.http import Exchange
from fairway.server.http.connection import OpenConnections
from fairway.server.limits import Limits
from fairway.server.listening import HttpServer
from fairway.server.requests import Request
from fairway.server.responses import Response, ok

_log = logging.getLogger(__name__)
_TEXT: Final = b"text/plain; charset=utf-8"
_METRICS_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = 10.0
_MOST_AT_ONCE: Final = 64
_MOST_CONVERSIONS: Final = 2
_LIMITS: Final = Limits(body_bytes=1 << 20, body_seconds=_SECONDS)
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})


class ControllerEndpoint:
    """Answers on one socket."""

    def __init__(self, token: str, metrics: Callable[[], bytes], registry: Registry) -> None:
        """`metrics` gives the text of `/metrics`."""
        self._registry = registry
        self.token = token
        """The bearer token that metrics and questions need."""

        self._metrics = metrics
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)
        self._conversions = asyncio.Semaphore(_MOST_CONVERSIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.explainer: WaitingExplainer | None = None
        """Set while this process decides."""

        self.reviews: AdmissionReviews | None = None
        """Set while this process serves webhooks."""

        self.api: AggregatedApi | None = None
        """Set while this process serves an aggregated API."""

        self.unhealthy = ""
        """Why `/readyz` says no; empty if it does not."""

    async def serve(self, listening: socket, certificate: Certificate) -> HttpServer:
        """Begin to listen; the server that is given back is to be closed."""
        connections = OpenConnections(self.handle, header_seconds=_SECONDS)
        return await HttpServer.start(connections, listening, certificate)

    def handle(self, exchange: Exchange) -> None:
        """Answer a request."""
        task = asyncio.create_task(self._run(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, exchange: Exchange) -> None:
        try:
            async with self._slots, asyncio.timeout(_SECONDS):
                response = await self._answer(Request(exchange, _LIMITS))
        except ApiError as error:
            response = Response(error.code, error.message.encode(), _TEXT)
        except TimeoutError:
            response = Response(504, f"there was no answer within {_SECONDS:g} seconds".encode(), _TEXT)
        except FairwayError as error:
            response = Response(500, str(error).encode(), _TEXT)
        except Exception:  # noqa: BLE001 - the client must get a response
            _log.exception("%s %s failed", exchange.method, exchange.path.decode("latin-1"))
            response = Response(500, b"an internal error occurred; see the log of this process", _TEXT)
        exchange.respond(response)

    async def _answer(self, request: Request) -> Response:
        method, path = request.method, request.path
        if method == "GET" and path in _HEALTH:
            if path == "/readyz" and self.unhealthy:
                raise Unavailable(self.unhealthy)
            return Response(200, b"ok", _TEXT)
        if request.segments and request.segments[0] in ACTIONS:
            return await self._review(request)
        if self.api is not None and request.segments and request.segments[0] in ROOTS:
            return await self.api.answer(request)
        if method == "POST" and path == CONVERSION_PATH:
            async with self._conversions:  # large bodies, and no authentication
                return Response(200, converted(self._registry, await request.body(LARGEST_CONVERSION)))
        if not hmac.compare_digest(request.headers.get(b"authorization", b""), f"Bearer {self.token}".encode()):
            raise Unauthorized("a token is needed")
        if method == "GET" and path == "/metrics":
            return Response(200, self._metrics(), _METRICS_TYPE)
        question = _QUESTIONS.get(path) if method == "POST" else None
        if question is None:
            raise NotFound("there is no such path")
        return await self._explain(question, await request.body())

    async def _review(self, request: Request) -> Response:
        if self.reviews is None:
            raise Unavailable("this process serves no webhooks")
        body = await request.body(LARGEST_BODY)
        await self.reviews.prepare(request.path)
        return Response(*self.reviews.answer(request.method, request.path, body))

    async def _explain(self, question: "_Question", body: bytes) -> Response:
        if self.explainer is None:
            raise Unavailable("this process does not lead")
        try:
            answer = await question(self.explainer, msgspec.json.decode(body, type=dict[str, Any]))
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise BadRequest(f"not a question: {error}") from error
        return ok({"answer": answer})


_Question = Callable[[WaitingExplainer, dict[str, Any]], Awaitable[Any]]


async def _pending(explainer: WaitingExplainer, asked: dict[str, Any]) -> list[list[Any]] | None:
    found = await explainer.pending(asked["clusterQueue"])
    return None if found is None else [[one.namespace, one.name, one.local_queue_name, one.priority] for one in found]


async def _page(explainer: WaitingExplainer, asked: dict[str, Any]) -> WaitingPage:
    return await explainer.page(asked["namespace"], asked["first"], asked["limit"])


async def _one(explainer: WaitingExplainer, asked: dict[str, Any]) -> dict[str, Any] | None:
    readable = frozenset(asked["readable"])
    return await explainer.one(
        asked["namespace"],
        asked["name"],
        readable.__contains__,
        may_change=asked["mayChange"],
        any_priority=asked["anyPriority"],
    )


_QUESTIONS: Final[dict[str, _Question]] = {
    "/explainer/pending": _pending,
    "/explainer/page": _page,
    "/explainer/one": _one,
}
