"""The server said no: its `Status` object as the exception that means the same on this side."""

from typing import Any, Final

import msgspec

from fairway.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)

_KINDS: Final[tuple[type[ApiError], ...]] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists, Conflict, Expired,
    TooLarge, UnsupportedMediaType, Invalid, TooManyRequests, Unavailable,
)  # fmt: skip
_BY_REASON: Final = {kind.reason: kind for kind in _KINDS}
_BY_CODE: Final = {kind.code: kind for kind in _KINDS}
"""Of those with the same code, the last."""

_MOST_SHOWN: Final = 200
_LONGEST: Final = 20_000
"""Of a message: it is shown to people, and kept in the status of jobs."""


def refusal(code: int, body: bytes, subject: str) -> ApiError:
    """The error for an answer with this code; `subject` says what was asked, for answers that do not say much."""
    try:
        status = msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return of_status(status, code)
    said = " ".join(body[: 4 * _MOST_SHOWN].decode("utf-8", "replace").split())
    said = "".join(letter for letter in said if letter.isprintable())[:_MOST_SHOWN]
    return _error(code, "", f"{subject}: {said or 'no reason was given'} (HTTP {code})", None)


def of_status(status: dict[str, Any], code: int = 500) -> ApiError:
    """The error that a `Status` object stands for; `code` is for one that has none."""
    given, reason, message, details = (status.get(name) for name in ("code", "reason", "message", "details"))
    return _error(
        given if isinstance(given, int) else code,
        reason if isinstance(reason, str) else "",
        (_text(message) if isinstance(message, str) else "") or f"the server refused without a reason (HTTP {code})",
        details if isinstance(details, dict) else None,
    )


def _text(message: str) -> str:
    """Without what would move the cursor of a terminal."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in message[:_LONGEST])


def _error(code: int, reason: str, message: str, details: dict[str, object] | None) -> ApiError:
    kind = _BY_REASON.get(reason)
    if kind is None or kind.code != code:
        kind = _BY_CODE.get(code, ApiError)
    error = kind(message, details=details)
    error.code = code
    if reason:
        error.reason = reason
    return error
