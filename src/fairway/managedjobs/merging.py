"""Merges partial pods: layers of configuration, and tasks over them.

Maps are merged key by key, and what is above wins. Lists of things with a name (containers, volumes, variables) are
merged by name, mounts by their path, a thing without a name with the one at its place; any other list is appended to
the one below it, without what is there already. A `null` above takes away what is below.
"""

from typing import Any, Final

_BY_PLACE: Final = frozenset({"containers", "initContainers", "ephemeralContainers"})
"""Lists whose items are merged by place where they have no name."""


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both together; neither is changed, and parts of them may be shared."""
    result = dict(below)
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
            continue
        old = result.get(key)
        if type(old) is dict and type(value) is dict:
            result[key] = merged(old, value)
        elif type(old) is list and type(value) is list:
            result[key] = _merged_lists(old, value, by_place=key in _BY_PLACE)
        else:
            result[key] = value
    return result


def _merged_lists(below: list[Any], above: list[Any], *, by_place: bool) -> list[Any]:
    result = list(below)
    places = {name: place for place, one in enumerate(below) if (name := _name(one)) is not None}
    for place, one in enumerate(above):
        name = _name(one)
        at = places.get(name) if name is not None else None
        if at is None and by_place and place < len(below) and (name is None or _name(below[place]) is None):
            at = place
        if at is not None and type(one) is dict and type(result[at]) is dict:
            result[at] = merged(result[at], one)
        elif one not in result:
            result.append(one)
    return result


def _name(value: Any) -> str | None:
    name = value.get("mountPath") or value.get("name") if type(value) is dict else None
    return name if type(name) is str else None
