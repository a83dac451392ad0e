"""Amounts of resources for people and programs: CPUs and devices as counts, memory and disk in Gi, everywhere.

The one formatter for tables, sentences and `-o json`; Kueue's own messages use `quantities.format_amount`.
"""

from typing import Final

GI: Final = 1 << 30
_NANOS: Final = 10**9
_UNLIMITED: Final = 10**9
"""A quota of a thousand million or more is no limit."""

_UNLIMITED_GI: Final = 1 << 30
_BINARY: Final = frozenset({"memory", "ephemeral-storage"})


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


def readable(resource: str, nanos: int, *, down: bool = False) -> str:
    """An amount in nano-units as text: `5.5`, `23.5Gi`, `unlimited`.

    `down` rounds down, for what is free or the most there is: a request for the printed amount then fits.
    """
    if down:
        one = _NANOS * GI if is_binary(resource) else _NANOS
        step = one // 10 ** _digits(nanos / one)
        nanos = nanos // step * step
    found = number(resource, nanos)
    if found is None:
        return "unlimited"
    if is_binary(resource):
        return "<0.001Gi" if 0 < nanos < GI * _NANOS // 1000 else f"{_short(found)}Gi"
    return _short(found)


def of_quantity(resource: str, text: str) -> tuple[float | int | None, str]:
    """A quantity of the API (`16Gi`, `500m`) as a number and as text; as it is if it cannot be read."""
    from fairway.apis.machinery.quantities import Quantity  # noqa: PLC0415 - the command line imports this module

    try:
        nanos = Quantity.parse(text).nanos
    except ValueError:
        return None, text
    return number(resource, nanos), readable(resource, nanos)


def gi(amount: float) -> str:
    """`16Gi`, `0.5Gi`."""
    return f"{_short(amount)}Gi"


def _plain(amount: float) -> int | float:
    return int(amount) if amount == int(amount) else amount


def _digits(amount: float) -> int:
    """Digits after the point: at most three, fewer for large amounts."""
    if abs(amount) >= 100:
        return 0
    return 2 if abs(amount) >= 1 else 3


def _short(amount: float) -> str:
    if amount == int(amount):
        return f"{amount:.0f}"
    text = f"{amount:.{_digits(amount)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
