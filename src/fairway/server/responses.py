"""What goes back: JSON bodies and `Status` objects."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fairway.apis.registry import Registry
from fairway.errors import ApiError, OperationRefused, ValidationError

JSON_TYPE: Final = b"application/json"
encode = msgspec.json.Encoder().encode


class Response(msgspec.Struct, frozen=True):
    """A complete answer."""

    code: int
    body: bytes
    content_type: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()
    created: str = ""
    """The name of what was created where the path does not have it, for the audit log."""


def ok(body: Any, code: int = 200, *, created: str = "") -> Response:
    """An answer with this value as JSON."""
    return Response(code, encode(body), created=created)


def status_of(error: ApiError | ValidationError | OperationRefused, registry: Registry) -> dict[str, Any]:
    """The `Status` object that tells of a refusal."""
    if isinstance(error, OperationRefused):
        status = status_of(error.cause, registry)
        status["message"] = f"operation {error.number}: {status['message']}"
        return status
    if isinstance(error, ValidationError):
        kind = next((one for one in registry.kinds if one.kind == error.kind), None)
        details: dict[str, Any] = {
            "name": error.name,
            "group": kind.group if kind else "",
            "kind": error.kind,
            "causes": [{"reason": e.rule, "message": _cause(str(e), e.path), "field": e.path} for e in error.errors],
        }
        if error.webhook:
            return failure(403, "Forbidden", str(error), details)
        subject = f"{error.kind}.{kind.group}" if kind and kind.group else error.kind
        message = str(error).replace(error.kind, subject, 1)
        return failure(422, "Invalid", message, details)
    return failure(error.code, error.reason, error.message, error.details)


def failure(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A `Status` object that says no."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if details:
        status["details"] = {name: value for name, value in details.items() if value}
    if code == 429:
        status.setdefault("details", {})["retryAfterSeconds"] = 1
    return status


def success(details: dict[str, Any]) -> dict[str, Any]:
    """A `Status` object that says done."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[bytes, bytes], ...]:
    """What the client prints as `Warning:`."""
    return tuple((b"warning", f'299 - "{_quoted(text)}"'.encode("latin-1", "replace")) for text in warnings)


def _quoted(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text[:1000])
    return printable.replace("\\", "\\\\").replace('"', '\\"')


def _cause(message: str, path: str) -> str:
    return message.removeprefix(f"{path}: ") if path else message
