"""The one exception tree of Fairway.

    FairwayError
    ├── ValidationError      an object breaks the rules of its kind; it stays wrong until it is changed
    ├── OperationRefused     one of the two others, about one operation of a transaction, of which nothing was done
    └── ApiError             the API says no: carries the HTTP code and Kubernetes' reason for it
        ├── BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404, MethodNotAllowed 405, NotAcceptable 406
        ├── Conflict 409 (read again, then try again), AlreadyExists 409, Expired 410 (list again)
        ├── TooLarge 413, UnsupportedMediaType 415, Invalid 422
        └── temporary: TooManyRequests 429, Unavailable 503, StorageFailed 500 (nothing was written), NoRoom 507

Callers decide by the type of an error whether trying again can help, so a new branch hangs below `FairwayError`
as temporary or permanent by what it means, not by the module that raises it. What is wrong is carried as data
(`FieldError`); sentences are made here, from that data, and nowhere else.
"""

from collections.abc import Iterable
from dataclasses import dataclass

_VALUE_LENGTH_SHOWN = 256
"""A value is quoted back only this far: manifests can be large, and they can hold what should not be in a log."""

_TITLES = {
    "FieldUnknown": "Unknown field",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotFound": "Not found",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueRequired": "Required value",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
}

_WITHOUT_VALUE = frozenset({"FieldUnknown", "FieldValueForbidden", "FieldValueRequired", "FieldValueTooLong"})


class FairwayError(Exception):
    """The root: whatever Fairway raises on purpose is one of these."""


SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that breaks one rule."""

    path: str
    """Where, as Kubernetes writes it: `spec.podSets[0].count`; empty for the object as a whole."""

    value: object
    """What was found there, `None` if nothing was."""

    rule: str
    """Which kind of rule, by the name that Kubernetes gives the cause: `FieldValueInvalid`, `FieldValueRequired` …"""

    message: str
    """What is expected instead; empty where the rule alone says it all."""

    by: str = ""
    """The webhook that refuses it on a cluster, `vworkload.kb.io`; `SCHEMA` where the definition of the kind does;
    empty for a rule of the API server."""

    def __str__(self) -> str:
        parts = [self.path] if self.path else []
        parts.append(_TITLES.get(self.rule, self.rule))
        if self.rule not in _WITHOUT_VALUE:
            parts.append(_shown(self.value))
        if self.message:
            parts.append(self.message)
        return ": ".join(parts)


class ValidationError(FairwayError):
    """An object is rejected, with every rule that it breaks."""

    def __init__(self, kind: str, name: str, errors: Iterable[FieldError]) -> None:
        self.kind = kind
        self.name = name
        self.errors: tuple[FieldError, ...] = tuple(errors)
        if not self.errors:
            raise ValueError("a ValidationError needs at least one FieldError")
        super().__init__(kind, name, self.errors)

    @property
    def webhook(self) -> str:
        """The webhook that refuses it on a cluster, where an API server asks it last; empty if something else does."""
        return "" if any(error.by in ("", SCHEMA) for error in self.errors) else self.errors[0].by

    @property
    def reasons(self) -> str:
        """All rules that it breaks, in one text."""
        found = list(dict.fromkeys(str(error) for error in self.errors))
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]"

    def __str__(self) -> str:
        import json  # noqa: PLC0415 - commands without an error need not wait for it

        if self.webhook:
            return f"admission webhook {json.dumps(self.webhook)} denied the request: {self.reasons}"
        return f"{self.kind} {json.dumps(self.name, ensure_ascii=False)} is invalid: {self.reasons}"


class ApiError(FairwayError):
    """The API refuses a request, in Kubernetes' terms."""

    code = 500
    reason = "InternalError"

    def __init__(self, message: str, *, details: dict[str, object] | None = None) -> None:
        self.message = message
        self.details = details
        super().__init__(message)


class OperationRefused(FairwayError):
    """A transaction was not carried out, because of one of its operations."""

    def __init__(self, number: int, cause: "ApiError | ValidationError") -> None:
        self.number = number
        """Which, counted from 1."""

        self.cause = cause
        super().__init__(number, cause)

    def __str__(self) -> str:
        return f"operation {self.number}: {self.cause}"


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class Conflict(ApiError):
    """The object changed meanwhile, or another manager owns a field; read again and decide again."""

    code, reason = 409, "Conflict"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Expired(ApiError):
    """The revision is compacted away; list again and watch from there."""

    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """A request that is well formed but cannot be carried out; for broken objects see `ValidationError`."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class StorageFailed(ApiError):
    """The write could not be made durable, and is not there."""

    code, reason = 500, "InternalError"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class NoRoom(ApiError):
    """The disk is too full for what was sent."""

    code, reason = 507, "InsufficientStorage"


def _shown(value: object) -> str:
    import json  # noqa: PLC0415 - commands without an error need not wait for it

    try:
        simple = value is None or isinstance(value, bool | int | float | dict | list | tuple)
        text = json.dumps(value if simple else str(value), ensure_ascii=False, default=str, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):  # such as an object that contains itself
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _VALUE_LENGTH_SHOWN else f"{text[:_VALUE_LENGTH_SHOWN]}…"
