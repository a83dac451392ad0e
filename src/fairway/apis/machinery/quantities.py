"""Kubernetes quantities, exact, and the whole numbers that Kueue counts with.

A `Quantity` is what a manifest says: `500m`, `1.5Gi`, `2e3`. Kubernetes keeps nothing finer than a nano-unit, so a
whole number of nano-units holds every quantity without loss. It remembers the family of its suffix and prints in that
family's canonical form: no fraction, and the largest suffix that keeps the number whole.

An amount is what admission counts with: an `int` in milli-units for `cpu` and in whole units for everything else, where
`UNLIMITED` stands for whatever does not fit into 63 bits.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

UNLIMITED: Final = 2**63 - 1
"""The amount that no sum reaches: a quota this large or larger bounds nothing."""

_LEAST_AMOUNT: Final = -(2**63)
_CPU: Final = "cpu"
_BINARY_RESOURCES: Final = frozenset({"memory", "ephemeral-storage"})
_HUGE_PAGES_PREFIX: Final = "hugepages-"

_NANO_DIGITS: Final = 9
_NANOS: Final = 10**_NANO_DIGITS
_UNLIMITED_CORES_NANOS: Final = UNLIMITED // 1000 * _NANOS

_MOST_BINARY_NANOS: Final = UNLIMITED * _NANOS
"""Where Kubernetes caps quantities with a binary suffix; decimal ones have no cap."""

_MOST_CHARACTERS: Final = 512
_MOST_EXPONENT: Final = 512
"""Far beyond any use, and small enough that a hostile `1e999999999` costs nothing."""

_PATTERN: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}


class Format(StrEnum):
    """The family of suffixes that a quantity was written with."""

    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"
    DECIMAL_SI = "DecimalSI"


class Quantity:
    """A number as Kubernetes writes it; equal, ordered and hashed by value alone, whatever its suffix was."""

    __slots__ = ("_format", "_nanos")

    _nanos: int
    _format: Format

    def __init__(self, nanos: int, suffixes: Format = Format.DECIMAL_SI) -> None:
        object.__setattr__(self, "_nanos", nanos)
        object.__setattr__(self, "_format", suffixes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Quantity is immutable; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Quantity is immutable; {name} cannot be deleted")

    def __reduce__(self) -> tuple[type[Self], tuple[int, Format]]:
        return type(self), (self._nanos, self._format)

    @staticmethod
    def parse(value: "str | float | Quantity") -> "Quantity":
        """Read a quantity, rounded away from zero to nano-units; ValueError says what is wrong with it."""
        if isinstance(value, str):
            return _parse(value)
        if isinstance(value, Quantity):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is not a quantity: a string or a number is needed")  # noqa: TRY004  one error type
        return _parse(str(value))

    @property
    def nanos(self) -> int:
        """The exact value in nano-units."""
        return self._nanos

    @property
    def format(self) -> Format:
        return self._format

    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _divided_away_from_zero(self._nanos, _NANOS)

    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divided_away_from_zero(self._nanos, _NANOS // 1000)

    def __str__(self) -> str:
        return _canonical(self._nanos, self._format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._nanos < other._nanos if isinstance(other, Quantity) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self._nanos <= other._nanos if isinstance(other, Quantity) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self._nanos > other._nanos if isinstance(other, Quantity) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self._nanos >= other._nanos if isinstance(other, Quantity) else NotImplemented

    def __add__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self._nanos + other._nanos, self._format if self._nanos else other._format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(self._nanos - other._nanos, self._format if self._nanos else other._format)

    def __mul__(self, factor: int) -> "Quantity":
        if isinstance(factor, bool) or not isinstance(factor, int):
            return NotImplemented
        return Quantity(self._nanos * factor, self._format)

    __rmul__ = __mul__

    def __neg__(self) -> "Quantity":
        return Quantity(-self._nanos, self._format)


ZERO: Final = Quantity(0)


def amount_of(resource: str, quantity: Quantity) -> int:
    """The quantity in the unit that admission counts this resource in; what does not fit is `UNLIMITED`."""
    if resource != _CPU:
        return max(_LEAST_AMOUNT, min(quantity.value(), UNLIMITED))
    # Kueue compares whole cores, so the last 807 milli-cores below 2**63 already count as unlimited.
    if quantity.nanos >= _UNLIMITED_CORES_NANOS:
        return UNLIMITED
    return max(_LEAST_AMOUNT, quantity.milli())


def quantity_of(resource: str, amount: int) -> Quantity:
    """The amount as a quantity in the suffixes that people expect of this resource; what `amount_of` undoes."""
    if resource == _CPU:
        return Quantity(amount * (_NANOS // 1000))
    if resource in _BINARY_RESOURCES or resource.startswith(_HUGE_PAGES_PREFIX):
        # Read back from its own text, as Kueue does: 2000 bytes have no binary suffix and become 2k.
        return _parse(_canonical(amount * _NANOS, Format.BINARY_SI))
    return Quantity(amount * _NANOS)


def format_amount(resource: str, amount: int) -> str:
    """The amount as Kueue prints it in messages and status."""
    return "<unlimited>" if amount == UNLIMITED else str(quantity_of(resource, amount))


@lru_cache(maxsize=16384)
def _parse(text: str) -> Quantity:
    match = _PATTERN.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None or not (match[2] or match[3]):
        raise ValueError(_RULE)
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    digits = int(whole + fraction)
    if suffix in _BINARY_SUFFIXES and suffix:
        nanos = _scaled(digits << _BINARY_SUFFIXES[suffix], _NANO_DIGITS - len(fraction))
        nanos = min(nanos, _MOST_BINARY_NANOS)
        suffixes = Format.DECIMAL_SI if 0 < nanos < _NANOS else Format.BINARY_SI
    else:
        exponent = _DECIMAL_SUFFIXES.get(suffix)
        suffixes = Format.DECIMAL_EXPONENT if exponent is None else Format.DECIMAL_SI
        exponent = _exponent(suffix) if exponent is None else exponent
        nanos = _scaled(digits, exponent + _NANO_DIGITS - len(fraction))
    return Quantity(-nanos if sign == "-" else nanos, suffixes)


def _exponent(suffix: str) -> int:
    exponent = int(suffix[1:])
    if exponent > _MOST_EXPONENT:
        raise ValueError(f"the exponent {exponent} is too large: at most {_MOST_EXPONENT} is supported")
    return exponent


def _scaled(digits: int, exponent: int) -> int:
    """`digits` times ten to the `exponent`, rounded up: a very small request is not rounded to zero."""
    if exponent >= 0:
        factor: int = 10**exponent
        return digits * factor
    if -exponent > 2 * _MOST_CHARACTERS:
        return 1 if digits else 0
    divisor: int = 10**-exponent
    return -(-digits // divisor)


def _divided_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _canonical(nanos: int, suffixes: Format) -> str:
    if nanos == 0:
        return "0"
    units, rest = divmod(nanos, _NANOS)
    if suffixes is Format.BINARY_SI and not rest and abs(units) >= 1024:
        exponent = 0
        while exponent < 60 and units % 1024 == 0:
            units //= 1024
            exponent += 10
        return f"{units}{_BINARY_BY_EXPONENT[exponent]}"
    mantissa, exponent = nanos, -_NANO_DIGITS
    bounded = suffixes is not Format.DECIMAL_EXPONENT
    # Kubernetes knows no suffix above E and then prints none at all, which is another number; here E stays.
    while mantissa % 1000 == 0 and not (bounded and exponent == 18):
        mantissa //= 1000
        exponent += 3
    if bounded:
        return f"{mantissa}{_DECIMAL_BY_EXPONENT[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)
