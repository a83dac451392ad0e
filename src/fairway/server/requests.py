"""One HTTP request, parsed but not yet understood."""

from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from fairway.errors import BadRequest
from fairway.server.http.exchange import Exchange
from fairway.server.limits import Limits

_MOST_PARAMETERS: Final = 100
_LONGEST_PATH: Final = 4096
_LIMITS: Final = Limits()


class Request:
    """One HTTP request: what its head says, and the body on demand."""

    __slots__ = (
        "_limits", "client", "content_type", "exchange", "headers", "method", "path", "query", "raw_query", "repeated",
        "segments", "user",
    )  # fmt: skip

    def __init__(self, exchange: Exchange, limits: Limits = _LIMITS) -> None:
        self.exchange = exchange
        self._limits = limits
        self.method = exchange.method
        self.headers = _only_one_user(exchange.headers)
        self.client = exchange.client
        self.path, self.segments = _parse_path(exchange.path)
        self.raw_query = query = exchange.query
        self.query: dict[str, str] = _parameters(query) if query else {}
        self.user: Any = None
        self.repeated: tuple[str, ...] = ()
        """Fields that its body gives twice, to be warned of."""

        self.content_type = self.header(b"content-type").partition(";")[0].strip().lower()
        """The media type of the body, without parameters."""

    def header(self, name: bytes) -> str:
        """A header's value, empty if it is not there."""
        return self.headers.get(name, b"").decode("latin-1")

    def body_bytes(self, limit: int) -> int:
        """How large the body is, as the head says; `limit` if it does not say and more of the body is to come."""
        length = self.headers.get(b"content-length", b"")
        if length.isdigit():
            return min(int(length[:20]), limit)
        return 0 if self.exchange.complete else limit

    async def body(self, limit: int = 0) -> bytes:
        """The whole body; `TooLarge` beyond the limit, `BadRequest` if it does not come."""
        return await self.exchange.body(limit or self._limits.body_bytes, self._limits.body_seconds)

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


def _only_one_user(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Two Authorization headers are refused: a proxy may have read the other one."""
    headers = dict(pairs)
    if len(headers) < len(pairs) and sum(name == b"authorization" for name, _ in pairs) > 1:
        raise BadRequest("the request has more than one Authorization header; send one")
    return headers


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
