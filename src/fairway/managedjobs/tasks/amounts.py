"""Parses amounts of task files (`4`, `4+`, `16GB`, `1h30m`) into quantities and seconds, exactly.

What is asked for with a `+` ("at least") is asked for as the amount: a job on a shared machine gets what it asked for.
"""

import re
from typing import Any, Final

from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.values import shown

_NUMBER: Final = r"([0-9]{1,15})(?:\.([0-9]{0,15}))?"
_CPUS: Final = re.compile(rf"{_NUMBER}(m?)(\+?)")
_BYTES: Final = re.compile(rf"{_NUMBER} ?(?:([KMGTP]?)(?:I?B)?|([KMGTP])I)(\+?)", re.IGNORECASE)
_DURATION: Final = re.compile(
    r"(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s?)?", re.IGNORECASE
)
_SECONDS: Final = (7 * 86400, 86400, 3600, 60, 1)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}

_MOST_MILLI_CPUS: Final = 1_000_000 * 1000
_MOST_BYTES: Final = 1024**5
_LONGEST_SECONDS: Final = 10 * 366 * 86400


def cpus(value: Any, where: Where) -> str:
    """CPUs of a node, as a quantity."""
    found = _CPUS.fullmatch(_number(value))
    if not found:
        raise where.error(f'{shown(value)} is no number of CPUs; write for example 4, 0.5 or "4+"', value)
    milli = _scaled(found, 1 if found[3] else 1000)
    if milli < 1:
        raise where.error(f"{shown(value)} CPUs cannot run anything; ask for more than 0, such as 0.5 or 1", value)
    if milli > _MOST_MILLI_CPUS:
        raise where.error(f"{shown(value)} CPUs is more than any machine has; ask for at most 1000000", value)
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def memory(value: Any, where: Where) -> str:
    """Memory of a node, as a quantity; a number alone means GiB."""
    return _bytes(value, where, "amount of memory", '16, "16+" or 16GB')


def duration(value: Any, where: Where) -> int:
    """Seconds; a number alone means seconds."""
    found = _DURATION.fullmatch(_number(value))
    if not found or not any(found.groups()):
        raise where.error(f"{shown(value)} is no duration; write for example 90s, 30m, 2h, 1d or 1h30m", value)
    seconds = sum(int(number) * unit for number, unit in zip(found.groups(), _SECONDS, strict=True) if number)
    if not 1 <= seconds <= _LONGEST_SECONDS:
        raise where.error(f"{shown(value)} is too short or too long; write 1s to ten years, such as 2h", value)
    return seconds


def _bytes(value: Any, where: Where, what: str, examples: str) -> str:
    found = _BYTES.fullmatch(_number(value))
    if not found:
        raise where.error(f"{shown(value)} is no {what}; write for example {examples}", value)
    unit = (found[3] or found[4] or "").upper()
    if not unit and not found[0].upper().rstrip("+").endswith("B"):
        unit = "G"
    count = _scaled(found, 1024 ** _POWERS[unit])
    if count < 1:
        raise where.error(f"{shown(value)} is no {what}; ask for more than 0, such as {examples}", value)
    if count > _MOST_BYTES:
        raise where.error(f"{shown(value)} is more than any machine has; ask for at most 1PB", value)
    return _as_quantity(count)


def _as_quantity(count: int) -> str:
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if count % 1024:
            return f"{count}{suffix}"
        count //= 1024
    return f"{count}Pi"


def _number(value: Any) -> str:
    """The text of a number or of text; what is neither matches nothing."""
    if type(value) is float:
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value).strip() if type(value) is str or type(value) is int else "-"


def _scaled(found: re.Match[str], factor: int) -> int:
    """The number times a factor, rounded up."""
    fraction = found[2] or ""
    divisor: int = 10 ** len(fraction)
    return -(-int(found[1] + fraction) * factor // divisor)
