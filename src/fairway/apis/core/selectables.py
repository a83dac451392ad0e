"""Values of fields as field selectors compare them: always text, empty where there is nothing."""

from collections.abc import Callable
from typing import Any

from fairway.apis.machinery.kind import Manifest


def string_at(*path: str) -> Callable[[Manifest], str]:
    """The text of a field."""

    def value(manifest: Manifest) -> str:
        found = _at(manifest, path)
        return "" if found is None else str(found)

    return value


def flag_at(*path: str) -> Callable[[Manifest], str]:
    """`true` or `false`; a flag that is not there is false."""

    def value(manifest: Manifest) -> str:
        return "true" if _at(manifest, path) else "false"

    return value


def number_at(*path: str) -> Callable[[Manifest], str]:
    """A number in digits; one that is not there is 0."""

    def value(manifest: Manifest) -> str:
        return str(_at(manifest, path) or 0)

    return value


def _at(manifest: Manifest, path: tuple[str, ...]) -> Any:
    found: Any = manifest
    for name in path:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found
