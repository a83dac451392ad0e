"""Amounts of resources for people and programs: CPUs as they are, memory in Gi, everywhere.

In `-o json` an amount is a number: CPUs, GPUs and other devices are counted, memory and disk are in Gi.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

GI: Final = 1 << 30
_NANOS: Final = 10**9
_UNLIMITED: Final = 10**9
"""A quota beyond a thousand million of anything is meant to bound nothing."""

_UNLIMITED_GI: Final = 1 << 30
_BINARY: Final = frozenset({"memory", "ephemeral-storage"})
_TASK_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGTP]?)(I?B?)(\+?)", re.IGNORECASE)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def is_binary(resource: str) -> bool:
    """Whether a resource is counted in bytes, and so shown in Gi."""
    return resource in _BINARY or resource.startswith("hugepages-")


def unit(resource: str) -> str:
    """The unit of the number that `number` gives: `Gi`, or nothing."""
    return "Gi" if is_binary(resource) else ""


def number(resource: str, nanos: int) -> float | int | None:
    """An amount in nano-units as a number: CPUs, devices, or Gi; `None` for an amount that bounds nothing."""
    amount = nanos / _NANOS
    if is_binary(resource):
        amount /= GI
        return None if amount >= _UNLIMITED_GI else _plain(round(amount, 6))
    return None if amount >= _UNLIMITED else _plain(round(amount, 6))


def readable(resource: str, nanos: int) -> str:
    """An amount in nano-units as text: `5.5`, `23.5Gi`, `unlimited`."""
    found = number(resource, nanos)
    if found is None:
        return "unlimited"
    if is_binary(resource):
        return "<0.001Gi" if 0 < nanos < GI * _NANOS // 1000 else f"{_short(found)}Gi"
    return _short(found)


def of_quantity(resource: str, text: str) -> tuple[float | int | None, str]:
    """A quantity of the API (`16Gi`, `500m`) as a number and as text; as it is if it cannot be read."""
    from fairway.model.quantities import Quantity  # noqa: PLC0415 - only for those who have one

    try:
        nanos = Quantity.parse(text).nanos
    except ValueError:
        return None, text
    return number(resource, nanos), readable(resource, nanos)


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


def gi(amount: float) -> str:
    """`16Gi`, `0.5Gi`."""
    return f"{_short(amount)}Gi"


def _count(value: Any) -> int | float:
    try:
        return _plain(float(1 if value is None else value))
    except (TypeError, ValueError):
        return 1


def _plain(amount: float) -> int | float:
    return int(amount) if amount == int(amount) else amount


def _short(amount: float) -> str:
    """At most three figures after the point, fewer for large amounts."""
    if abs(amount) >= 100 or amount == int(amount):
        return f"{amount:.0f}"
    return f"{amount:.{2 if abs(amount) >= 1 else 3}f}".rstrip("0").rstrip(".")
