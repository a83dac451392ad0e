"""Fields that may not change."""

from typing import Any

import msgspec

from fairway.apis.machinery import problems, shapes
from fairway.errors import FieldError

IMMUTABLE = "field is immutable"


def changed(old: object, new: object, path: str, rule: str = IMMUTABLE) -> list[FieldError]:
    """The error if the two differ."""
    return [] if old == new else [problems.invalid(path, shown(new), rule)]


def shown(value: object) -> Any:
    """The value as it would stand in a manifest."""
    if isinstance(value, msgspec.Struct):
        return shapes.write(value)
    if isinstance(value, tuple):
        return [shown(item) for item in value]
    return value if isinstance(value, str | int | float | dict | list) or value is None else str(value)
