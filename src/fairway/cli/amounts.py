"""Amounts as task files give them: CPUs, memory and accelerators as numbers."""

import re
from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.machinery.amounts import GI

_TASK_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGTP]?)(I?B?)(\+?)", re.IGNORECASE)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def task_memory(value: Any) -> float | None:
    """The memory of a task file (`16`, `16+`, `16GB`, `512M`) in Gi; `None` if it is no amount."""
    found = _TASK_MEMORY.fullmatch(str(value).strip())
    if found is None or isinstance(value, bool):
        return None
    power = found[2].upper() or ("" if found[3] else "G")
    size: float = float(found[1]) * 1024.0 ** _POWERS[power]
    return round(size / GI, 6)


def task_cpus(value: Any) -> float | None:
    """The CPUs of a task file (`4`, `4+`, `500m`)."""
    text = str(value).strip().removesuffix("+")
    try:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return None


def task_accelerators(value: Any) -> dict[str, int | float]:
    """The accelerators of a task file by model; several models are alternatives. A number alone is of any model."""
    if isinstance(value, Mapping):
        return {str(name): _count(count) for name, count in value.items()}
    found: dict[str, int | float] = {}
    for one in value if isinstance(value, list) else [value]:
        model, _, count = str(one).partition(":")
        if model.isdecimal():
            found["gpu"] = int(model)
        elif model:
            found[model] = _count(count or 1)
    return found


def _count(value: Any) -> int | float:
    try:
        count = float(1 if value is None else value)
        return int(count) if count.is_integer() else count
    except (TypeError, ValueError):
        return 1
