"""What a real API server answered (`tools/patching/record.py` writes it), and how to compare with it."""

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"
_MISSING: Any = object()


def recorded(name: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((_DATA / name).read_text())
    return records


def differences(ours: Any, theirs: Any, before: Any = _MISSING, path: str = "") -> list[str]:
    """Where a result differs from the recorded one, which has defaults filled in.

    A default is what the server has and we have not, at a place where it was not before either. A container that is
    empty or `null` on one side and missing on the other is no difference: Go leaves those out.
    """
    if theirs is _MISSING:
        return [] if _is_nothing(ours) else [f"{path}: {ours!r} should not be there"]
    if ours is _MISSING:
        return [] if before != theirs or _is_nothing(theirs) else [f"{path}: {theirs!r} is missing"]
    if isinstance(ours, dict) and isinstance(theirs, dict):
        inner = before if isinstance(before, dict) else {}
        return [
            difference
            for name in sorted(ours.keys() | theirs.keys())
            for difference in differences(
                ours.get(name, _MISSING), theirs.get(name, _MISSING), inner.get(name, _MISSING), f"{path}.{name}"
            )
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        found = []
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            found += differences(our, their, _counterpart(their, before), f"{path}[{index}]")
        return found
    return [] if ours == theirs else [f"{path}: {ours!r} should be {theirs!r}"]


def _is_nothing(value: Any) -> bool:
    return value is None or value in ({}, [])


def _counterpart(item: Any, before: Any) -> Any:
    """The element of the former list that this one was, if it was there."""
    if not isinstance(before, list):
        return _MISSING
    for key in ("name", "type", "containerPort", "mountPath", "key"):
        if isinstance(item, dict) and key in item:
            return next((each for each in before if isinstance(each, dict) and each.get(key) == item[key]), _MISSING)
    return item if item in before else _MISSING
