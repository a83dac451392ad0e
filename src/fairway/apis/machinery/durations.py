"""Durations as Go writes them: `5m`, `1h30m`, `250ms`."""

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"[+-]?(?:{_PART.pattern})+")


def parse_duration(text: str) -> float:
    """The number of seconds; `ValueError` if it is no duration."""
    if text in {"0", "+0", "-0"}:
        return 0.0
    if len(text) > 100 or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a duration; write it like 30s, 5m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return -seconds if text.startswith("-") else seconds
