"""Columns of custom kinds: cells found by JSONPath, typed as an API server types them.

Only the forms that printer columns use are known: `.spec.queueName`, `.metadata.labels['app.kubernetes.io/name']`,
`.items[0]`, `.items[*]` (the first), `.items[-1:]`, `.labels.a\\.b` and
`.status.conditions[?(@.type=='Admitted')].status`. Each path is compiled once; asking it for a cell
walks the manifest and nothing else.
"""

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from fairway.apis.machinery.kind import Column, Manifest
from fairway.apis.machinery.printing import INVALID, humanised, read_time

_Step: TypeAlias = Callable[[Any], Any]

_STEP: Final = re.compile(
    r"""
    \.(?P<name>[A-Za-z_](?:[\w-]|\\.)*)
    | \[ (?P<quote>['"]) (?P<key>.*?) (?P=quote) \]
    | \[ (?P<index>-?\d+) :? \]
    | (?P<every>\[\*\])
    | \[ \?\( \s* @\.(?P<field>[A-Za-z_]\w*) \s* == \s* (?P<mark>['"]) (?P<wanted>.*?) (?P=mark) \s* \) \]
    """,
    re.VERBOSE,
)


def compiled(path: str) -> Callable[[Manifest], Any]:
    """What finds the first thing at this path in a manifest, or `None`; `ValueError` if the path has another form."""
    steps = _steps(path)
    names = [name for name, _ in steps if name is not None]
    if len(names) == len(steps):
        return _plain(names)
    walks = [walk for _, walk in steps]

    def find(manifest: Manifest) -> Any:
        found: Any = manifest
        for walk in walks:
            found = walk(found)
            if found is None:
                return None
        return found

    return find


def custom_column(name: str, path: str, kind: str = "string", *, priority: int = 0, description: str = "") -> Column:
    """A column as a custom resource definition declares it; `kind` is its type there."""
    find = compiled(path)
    if kind not in _CELLS:
        raise ValueError(f"{kind!r} is not a type of columns; the types are {', '.join(_CELLS)}")
    cell = _CELLS[kind]

    def value(manifest: Manifest, now: datetime) -> Any:
        found = find(manifest)
        return None if found is None else cell(found, now)

    said = description or f"From {path}."
    return Column(name=name, value=value, type=kind, priority=priority, description=said, path=path)


def _steps(path: str) -> list[tuple[str | None, _Step]]:
    """Each step, with the name of the field where it is nothing but a field."""
    steps: list[tuple[str | None, _Step]] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"the JSONPath {path!r} cannot be read from {path[position:]!r} on")
        steps.append(_step(match))
        position = match.end()
    if not steps:
        raise ValueError("an empty JSONPath leads nowhere")
    return steps


def _step(match: re.Match[str]) -> tuple[str | None, _Step]:
    if match["index"] is not None:
        return None, _item(int(match["index"]))
    if match["field"] is not None:
        return None, _first_where(match["field"], match["wanted"])
    if match["every"] is not None:
        return None, _item(0)
    name = match["name"].replace("\\", "") if match["name"] is not None else match["key"]
    return name, _plain([name])


def _plain(names: Sequence[str]) -> _Step:
    def find(found: Any) -> Any:
        for name in names:
            if not isinstance(found, dict):
                return None
            found = found.get(name)
        return found

    return find


def _item(index: int) -> _Step:
    def find(found: Any) -> Any:
        return found[index] if isinstance(found, list) and -len(found) <= index < len(found) else None

    return find


def _first_where(field: str, wanted: str) -> _Step:
    def find(found: Any) -> Any:
        if isinstance(found, list):
            for item in found:
                if isinstance(item, dict) and item.get(field) == wanted:
                    return item
        return None

    return find


def _string(found: Any, _now: datetime) -> str:
    return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def _integer(found: Any, _now: datetime) -> int | None:
    return int(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _number(found: Any, _now: datetime) -> float | None:
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _boolean(found: Any, _now: datetime) -> bool | None:
    return found if isinstance(found, bool) else None


def _date(found: Any, now: datetime) -> str | None:
    if not isinstance(found, str):
        return None
    instant = read_time(found)
    return INVALID if instant is None else humanised(now - instant)


_CELLS: Final[dict[str, Callable[[Any, datetime], Any]]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
