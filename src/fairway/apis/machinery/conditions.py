"""Conditions on plain manifests: finding them, and setting one as Kubernetes does.

The time of a condition moves only with its status. Nothing here writes; writers send the whole list.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

Condition: TypeAlias = dict[str, Any]

_LONGEST_MESSAGE: Final = 32 * 1024
_CUT: Final = " ..."


def of(manifest: Mapping[str, Any]) -> list[Condition]:
    """All conditions of an object; shared, so not to be changed."""
    found: list[Condition] = (manifest.get("status") or {}).get("conditions") or []
    return found


def find(manifest: Mapping[str, Any], kind: str) -> Condition | None:
    """The condition of this type, the first if there are several."""
    return find_in(manifest.get("status") or {}, kind)


def is_true(manifest: Mapping[str, Any], kind: str) -> bool:
    return is_true_in(manifest.get("status") or {}, kind)


def find_in(status: Mapping[str, Any], kind: str) -> Condition | None:
    """The same for a status."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            found: Condition = condition
            return found
    return None


def is_true_in(status: Mapping[str, Any], kind: str) -> bool:
    condition = find_in(status, kind)
    return condition is not None and condition.get("status") == "True"


def with_condition(
    conditions: Iterable[Condition],
    kind: str,
    status: str,
    reason: str,
    message: str,
    now_text: str,
    generation: int | None = None,
) -> list[Condition]:
    """These conditions with one set; what is given is not changed."""
    fresh: Condition = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": shortened(message, _LONGEST_MESSAGE),
        "lastTransitionTime": now_text,
    }
    if generation is not None:
        fresh["observedGeneration"] = generation
    result, known = [], False
    for condition in conditions:
        if condition["type"] != kind:
            result.append(condition)
            continue
        known = True
        if condition["status"] == status:
            fresh["lastTransitionTime"] = condition["lastTransitionTime"]
        result.append({**condition, **fresh})
    return result if known else [*result, fresh]


def shortened(message: str, longest: int) -> str:
    """A message cut to a number of bytes; those that are cut say so."""
    encoded = message.encode()
    if len(encoded) <= longest:
        return message
    return encoded[: longest - len(_CUT)].decode(errors="ignore") + _CUT
