"""How to say what is wrong with a field: one maker of `FieldError` per kind of rule, worded as Kubernetes words it.

Paths are written here too, so that they look the same everywhere: `spec.podSets[0].template.metadata.labels[app]`.
"""

from collections.abc import Iterable
from dataclasses import replace

from fairway.errors import SCHEMA, FieldError


def child(path: str, *names: str) -> str:
    """The path of a field inside an object."""
    inner = names[0] if len(names) == 1 else ".".join(names)
    return f"{path}.{inner}" if path else inner


def index(path: str, position: int) -> str:
    """The path of an item of a list."""
    return f"{path}[{position}]"


def key(path: str, name: str) -> str:
    """The path of an entry of a map."""
    return f"{path}[{name}]"


def invalid(path: str, value: object, message: str) -> FieldError:
    return FieldError(path, value, "FieldValueInvalid", message)


def wrong_type(path: str, value: object, message: str) -> FieldError:
    return FieldError(path, value, "FieldValueTypeInvalid", message)


def required(path: str, message: str = "") -> FieldError:
    return FieldError(path, None, "FieldValueRequired", message)


def duplicate(path: str, value: object, message: str = "") -> FieldError:
    return FieldError(path, value, "FieldValueDuplicate", message)


def not_supported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    quoted = ", ".join(f'"{one}"' for one in supported)
    return FieldError(path, value, "FieldValueNotSupported", f"supported values: {quoted}" if quoted else "")


def not_found(path: str, value: object) -> FieldError:
    return FieldError(path, value, "FieldValueNotFound", "")


def forbidden(path: str, value: object, message: str) -> FieldError:
    return FieldError(path, value, "FieldValueForbidden", message)


def too_long(path: str, value: str, longest: int) -> FieldError:
    return FieldError(path, value, "FieldValueTooLong", f"may not be more than {longest} bytes")


def too_many(path: str, count: int, most: int) -> FieldError:
    return FieldError(path, count, "FieldValueTooMany", f"must have at most {most} items")


def unknown(path: str, value: object, message: str) -> FieldError:
    return FieldError(path, value, "FieldUnknown", message)


def of_schema(*errors: FieldError) -> list[FieldError]:
    """Errors that the definition of a kind finds (`x-kubernetes-validations`), before any webhook is asked."""
    return [replace(error, by=SCHEMA) for error in errors]


def denied(webhook: str, errors: Iterable[FieldError]) -> list[FieldError]:
    """The errors with the webhook that finds them on a cluster, where nothing else does."""
    return [error if error.by else replace(error, by=webhook) for error in errors]


def webhook_of(kind: str) -> str:
    """The name of Kueue's validating webhook of a kind."""
    return f"v{kind.lower()}.kb.io"
