"""Fields that may not change."""

from typing import Final

from fairway.apis.machinery import problems
from fairway.errors import FieldError

IMMUTABLE: Final = "field is immutable"


def changed(old: object, new: object, path: str, rule: str = IMMUTABLE) -> list[FieldError]:
    """The error if the two differ."""
    return [] if same(old, new, flags=False) else [problems.invalid(path, new, rule)]


def same(one: object, other: object, *, flags: bool = True) -> bool:
    """Whether two parts of manifests are semantically equal: a field that is left out equals an empty one.

    With `flags` it also equals `false`, as in Kubernetes' own kinds, where defaults have been filled in.
    """
    if one is other or one == other:
        return True
    if isinstance(one, dict | None) and isinstance(other, dict | None):
        left, right = one or {}, other or {}
        return all(same(left.get(key), right.get(key), flags=flags) for key in left.keys() | right.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b, flags=flags) for a, b in zip(one, other, strict=True))
    return _empty(one, flags=flags) and _empty(other, flags=flags)


def _empty(value: object, *, flags: bool) -> bool:
    return value is None or (flags and value is False) or value in ("", {}, [])
