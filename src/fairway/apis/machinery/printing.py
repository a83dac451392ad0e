"""How the columns of `kubectl get` write times, labels and what is not there."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from fairway.apis.machinery.kind import Column, Manifest

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

_SCALES: Final = (
    # Below this many seconds: how many seconds the large unit has, and the small unit that is shown beside it.
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def humanised(duration: timedelta) -> str:
    """Two or three significant figures: `5s`, `2m10s`, `3h`, `4d12h`; a clock may be a second off, no more."""
    seconds = int(duration.total_seconds())  # towards zero
    if seconds < -1:
        return INVALID
    seconds = max(seconds, 0)
    for limit, large, unit, small, small_unit in _SCALES:
        if seconds < limit:
            rest = seconds % large // small if small else 0
            return f"{seconds // large}{unit}{rest}{small_unit}" if rest else f"{seconds // large}{unit}"
    return f"{seconds // _YEAR}y"


def read_time(text: str | None) -> datetime | None:
    """The instant that a manifest's timestamp names; nothing if there is none or it cannot be read."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None


def since(timestamp: str | None, now: datetime) -> str:
    """How long ago a timestamp of a manifest was."""
    instant = read_time(timestamp)
    return UNKNOWN if instant is None else humanised(now - instant)


def age(manifest: Manifest, now: datetime) -> str:
    return since(manifest["metadata"].get("creationTimestamp"), now)


AGE: Final = Column(name="Age", value=age, description="How long ago the object was created.")


def text_at(*path: str, otherwise: str = "") -> Callable[[Manifest, datetime], str]:
    """The cell of a column that shows one string field."""

    def cell(manifest: Manifest, _now: datetime) -> str:
        value: Any = manifest
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return str(value) if value else otherwise

    return cell


def labels_text(labels: Mapping[str, str] | None) -> str:
    """`app=web,tier=front`, in the order of the keys."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as `kubectl` takes it: `app=web,tier in (back,front),!canary`."""
    if not selector:
        return NONE
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = ",".join(sorted(expression.get("values") or ()))
        written = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(operator)
        if written is None:
            return "<error>"
        parts.append((key, written))
    return ",".join(written for _, written in sorted(parts, key=lambda part: part[0])) or NONE


def container_names(containers: Sequence[Mapping[str, Any]] | None) -> str:
    return ",".join(container.get("name", "") for container in containers or ())


def container_images(containers: Sequence[Mapping[str, Any]] | None) -> str:
    return ",".join(container.get("image", "") for container in containers or ())
