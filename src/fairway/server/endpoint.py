"""The HTTPS endpoint of a process that serves no API: health, metrics, and the decider's answers for the API server.

    GET  /healthz /livez /readyz        without authentication
    GET  /metrics                       with the token of this endpoint, as all that follow
    POST /explainer/pending|all|one     `fairway.admission.port.WaitingExplainer`
    POST /mutate /validate              admission webhooks, without authentication (`fairway.server.admissionreview`)

One request a connection, small bodies, bounded in number and time: it has one client, and a few probes.
"""

import asyncio
import hmac
import logging
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from socket import socket
from typing import Any, Final

import msgspec

from fairway.admission.port import WaitingExplainer
from fairway.errors import FairwayError
from fairway.server.admissionreview import ACTIONS, LARGEST_BODY, AdmissionReviews
from fairway.server.certificates import Certificate

_log = logging.getLogger(__name__)
_LARGEST_HEAD: Final = 16 << 10
_LARGEST_BODY: Final = 1 << 20
_SECONDS: Final = 10.0
_MOST_AT_ONCE: Final = 64
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})

Answer = tuple[HTTPStatus, bytes, str]


class ControllerEndpoint:
    """Answers on one socket."""

    def __init__(self, token: str, metrics: Callable[[], bytes]) -> None:
        """`metrics` gives the text of `/metrics`."""
        self._token = token
        self._metrics = metrics
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)
        self.explainer: WaitingExplainer | None = None
        """Set while this process decides."""

        self.reviews: AdmissionReviews | None = None
        """Set while this process serves webhooks."""

        self.unhealthy = ""
        """Why `/readyz` says no; empty if it does not."""

    async def serve(self, listening: socket, certificate: Certificate) -> asyncio.Server:
        """Begin to listen; the server that is given back is to be closed."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_cert_chain(certificate.certificate, certificate.key)
        return await asyncio.start_server(self._connected, sock=listening, ssl=tls, limit=_LARGEST_HEAD)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._slots, asyncio.timeout(_SECONDS):
                code, body, kind = await self._answer(reader)
                head = f"HTTP/1.1 {code.value} {code.phrase}\r\nContent-Type: {kind}\r\n"
                head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            _log.debug("endpoint: %s", error)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.split("\r\n")
        method, target, _ = line.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        path = target.partition("?")[0]
        if method == "GET" and path in _HEALTH:
            if path == "/readyz" and self.unhealthy:
                return HTTPStatus.SERVICE_UNAVAILABLE, self.unhealthy.encode(), "text/plain"
            return HTTPStatus.OK, b"ok", "text/plain"
        length = int(headers.get("content-length") or 0)
        if path[1:].partition("/")[0] in ACTIONS:
            if not 0 <= length <= LARGEST_BODY:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"the review is too large", "text/plain"
            return self._review(method, path, await reader.readexactly(length))
        if not hmac.compare_digest(headers.get("authorization", "").encode(), f"Bearer {self._token}".encode()):
            return HTTPStatus.UNAUTHORIZED, b"a token is needed", "text/plain"
        if method == "GET" and path == "/metrics":
            return HTTPStatus.OK, self._metrics(), "text/plain; version=0.0.4; charset=utf-8"
        question = _QUESTIONS.get(path) if method == "POST" else None
        if question is None:
            return HTTPStatus.NOT_FOUND, b"there is no such path", "text/plain"
        if not 0 <= length <= _LARGEST_BODY:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"the body is too large", "text/plain"
        return await self._explain(question, await reader.readexactly(length))

    def _review(self, method: str, path: str, body: bytes) -> Answer:
        if self.reviews is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, b"this process serves no webhooks", "text/plain"
        code, text = self.reviews.answer(method, path, body)
        return HTTPStatus(code), text, "application/json"

    async def _explain(self, question: "_Question", body: bytes) -> Answer:
        if self.explainer is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, b"this process does not lead", "text/plain"
        try:
            answer = await question(self.explainer, msgspec.json.decode(body, type=dict[str, Any]))
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            return HTTPStatus.BAD_REQUEST, f"not a question: {error}".encode(), "text/plain"
        except FairwayError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, str(error).encode(), "text/plain"
        return HTTPStatus.OK, msgspec.json.encode({"answer": answer}), "application/json"


_Question = Callable[[WaitingExplainer, dict[str, Any]], Awaitable[Any]]


async def _pending(explainer: WaitingExplainer, asked: dict[str, Any]) -> list[list[Any]] | None:
    found = await explainer.pending(asked["clusterQueue"])
    return None if found is None else [[one.namespace, one.name, one.local_queue_name, one.priority] for one in found]


async def _all(explainer: WaitingExplainer, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return await explainer.all(asked["namespace"])


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
    "/explainer/all": _all,
    "/explainer/one": _one,
}
