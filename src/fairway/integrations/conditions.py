"""Conditions on plain manifests: finding them, and setting one as Kubernetes does.

The time of a condition moves only with its status. Nothing here writes; writers send the whole list.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from fairway.apis.machinery.kind import Manifest

Condition: TypeAlias = dict[str, Any]

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
REQUEUED: Final = "Requeued"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"
WAITING_FOR_NODE: Final = "WaitingForNode"
"""Fairway's own: it has its quota, and pods of it fit on no node."""

_LONGEST_MESSAGE: Final = 32 * 1024
_CUT: Final = " ..."


def find(manifest: Manifest, kind: str) -> Condition | None:
    """The condition of this type, if there is one."""
    for condition in (manifest.get("status") or {}).get("conditions") or ():
        if condition["type"] == kind:
            found: Condition = condition
            return found
    return None


def is_true(manifest: Manifest, kind: str) -> bool:
    condition = find(manifest, kind)
    return condition is not None and condition["status"] == "True"


def of(manifest: Manifest) -> list[Condition]:
    """All conditions; shared, so not to be changed."""
    found: list[Condition] = (manifest.get("status") or {}).get("conditions") or []
    return found


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
