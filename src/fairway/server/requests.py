"""What comes in: one HTTP request, taken apart but not yet understood."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from fairway.errors import BadRequest, TooLarge

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

Head = tuple[str, bytes, bytes, dict[bytes, bytes], str]
"""What a `Request` is made of: method, path, query, headers, the client's address."""

CUT_OFF: Final = "fairway.cut_off"
"""The extension by which the web server lets a connection be ended at once."""

_MOST_PARAMETERS: Final = 100
_LONGEST_PATH: Final = 4096


class Request:
    """One HTTP request up to its body."""

    __slots__ = ("client", "content_type", "headers", "method", "path", "query", "raw_query", "segments", "user")

    def __init__(self, method: str, path: bytes, query: bytes, headers: dict[bytes, bytes], client: str) -> None:
        self.method = method
        self.headers = headers
        self.client = client
        self.path, self.segments = _parse_path(path)
        self.raw_query = query
        self.query: dict[str, str] = _parameters(query) if query else {}
        self.user: Any = None
        self.content_type = self.header(b"content-type").partition(";")[0].strip().lower()
        """The media type of the body, without parameters."""

    def header(self, name: bytes) -> str:
        """A header's value, empty if it is not there."""
        return self.headers.get(name, b"").decode("latin-1")

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false."""
        value = self.query.get(name, "")
        if value in {"", "0", "false", "False", "f", "F", "FALSE"}:
            return False
        if value in {"1", "true", "True", "t", "T", "TRUE"}:
            return True
        raise BadRequest(f"{name}: Invalid value: {value[:80]!r}: must be true or false")

    def number(self, name: str) -> int | None:
        """A query parameter that is a whole number, `None` if it is not there."""
        value = self.query.get(name, "")
        if not value:
            return None
        if len(value) > 19 or not (value.isascii() and value.removeprefix("-").isdigit()):
            raise BadRequest(f"{name}: Invalid value: {value[:80]!r}: must be an integer")
        return int(value)


class OpenRequest(Request):
    """A request whose body may still be coming, and whose client may hang up."""

    __slots__ = ("_cut_off", "_receive", "body_seconds", "max_body")

    def __init__(self, scope: Scope, receive: Receive, max_body: int, body_seconds: float = 60.0) -> None:
        client = scope["client"][0] if scope.get("client") else ""
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        super().__init__(scope["method"], path, scope["query_string"], _only_one_user(scope["headers"]), client)
        self.max_body = max_body
        self.body_seconds = body_seconds
        self._cut_off: Callable[[], None] | None = (scope.get("extensions") or {}).get(CUT_OFF)
        self._receive = receive

    async def body(self) -> bytes:
        """The whole body; `TooLarge` beyond the limit, `BadRequest` if it does not come."""
        if self._is_here():
            return await self._whole_body()
        try:
            async with asyncio.timeout(self.body_seconds):
                return await self._whole_body()
        except TimeoutError:
            raise BadRequest(f"the body did not arrive within {self.body_seconds:g} seconds") from None

    def _is_here(self) -> bool:
        """Whether the web server has the whole body already, as it mostly does: then nobody need watch the clock."""
        return getattr(getattr(self._receive, "__self__", None), "more_body", True) is False

    async def _whole_body(self) -> bytes:
        length = self.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.max_body:
            raise too_large(self.max_body)
        message = await self._next()
        data: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(data) > self.max_body:
                raise too_large(self.max_body)
            return data
        chunks, size = [data], len(data)
        while message.get("more_body"):
            message = await self._next()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self.max_body:
                raise too_large(self.max_body)
        return b"".join(chunks)

    async def pieces(self, idle_seconds: float) -> AsyncIterator[bytes]:
        """The body as it arrives, of any size; `BadRequest` if it ends early, or nothing comes for so long."""
        more = True
        while more:
            try:
                async with asyncio.timeout(idle_seconds):
                    message = await self._next()
            except TimeoutError:
                raise BadRequest(f"no data of the body arrived for {idle_seconds:g} seconds") from None
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def _next(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("the connection was closed before the end of the body")
        return message

    def cut_off(self) -> bool:
        """End the connection at once, whatever is still to be sent; false if that is not possible."""
        if self._cut_off is None:
            return False
        self._cut_off()
        return True

    async def gone(self) -> None:
        """Returns when the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _only_one_user(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Two that say who asks are refused: a proxy may have read the other one."""
    headers = dict(pairs)
    if len(headers) < len(pairs) and sum(name == b"authorization" for name, _ in pairs) > 1:
        raise BadRequest("the request has more than one Authorization header; send one")
    return headers


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than the limit of {limit} bytes")


def _parse_path(raw: bytes) -> tuple[str, list[str]]:
    if len(raw) > _LONGEST_PATH:
        raise BadRequest(f"the path is longer than {_LONGEST_PATH} bytes")
    path = raw.partition(b"?")[0].decode("latin-1")
    if "%" in path:
        try:
            segments = [unquote(part, errors="strict") if "%" in part else part for part in path.split("/")]
        except UnicodeDecodeError:
            raise BadRequest("the path has escaped bytes in it that are not UTF-8") from None
        if any("/" in part or "\x00" in part for part in segments):
            raise BadRequest("the path has an escaped slash or a zero byte in it")
        path = "/".join(segments)
    else:
        segments = path.split("/")
    return path, [part for part in segments if part]


def _parameters(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict"
        )
    except ValueError:
        raise BadRequest(
            f"the query cannot be read: it must be ASCII, with at most {_MOST_PARAMETERS} fields"
        ) from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        parameters.setdefault(name, value)
    return parameters
