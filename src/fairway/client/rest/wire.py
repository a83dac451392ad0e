"""What requests and responses of the API look like on the wire, whichever client sends them."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from fairway.client.rest import refusals
from fairway.client.rest.errors import Garbled

Query = str | int | bool | None

JSON: Final = "application/json"
PATCHES: Final = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",  # JSON is YAML
}
LONGEST_WAIT: Final = 15.0
"""Seconds that a request waits in all for a server that asks for a retry later."""

LONGEST_EVENT: Final = 64 << 20
_SHORTEST_WAIT: Final = 0.2
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})


def query_string(query: Mapping[str, Query], path: str) -> str:
    """The query for a path, with its `?` or `&`; a `_` at the end of a name is cut off, `None` is left out."""
    written = {True: "true", False: "false"}
    pairs = [
        f"{name.rstrip('_')}={quote(written[value] if isinstance(value, bool) else str(value), safe='')}"
        for name, value in query.items()
        if value is not None
    ]
    return ("&" if "?" in path else "?") + "&".join(pairs) if pairs else ""


def retry_after(method: str, status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds after which the server asks for the same request again; `None` if it must not be repeated."""
    # 429 means that nothing was done; a 503 may come from a proxy that does not know.
    if status != 429 and not (status == 503 and method in _REPEATABLE):
        return None
    seconds = headers.get("retry-after", "")
    known = seconds.isascii() and seconds.isdigit() and len(seconds) < 6
    return max(float(seconds), _SHORTEST_WAIT) if known else None


def warnings(headers: Mapping[str, str]) -> list[str]:
    """The texts of `Warning` headers: 299 - "text"."""
    found, rest = [], headers.get("warning", "")
    while rest:
        _, _, rest = rest.partition('"')
        text, position = "", 0
        while position < len(rest) and rest[position] != '"':
            position += rest[position] == "\\"
            text += rest[position : position + 1]
            position += 1
        rest = rest[position + 1 :]
        if text:
            found.append(text)
    return found


def decode(body: bytes, server: str) -> Any:
    """A body as JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Garbled(
            f"{server} answered with something that is not JSON; is it the address of an API server?"
        ) from None


def decode_event(line: bytes, server: str) -> dict[str, Any]:
    """One event of a watch; an ERROR event is raised as the error it stands for, such as `Expired`."""
    event = decode(line, server)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise Garbled(f"{server} sent something in a watch that is not an event")
    if event.get("type") == "ERROR":
        raise refusals.of_status(event["object"])
    return event
