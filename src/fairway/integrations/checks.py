"""Sentences about the admission checks of a Workload. Pure."""

from collections.abc import Callable
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions

_PROVISIONING: Final = "kueue.x-k8s.io/provisioning-request"
_RETRIED: Final = "AdmissionCheck"
_REJECTED: Final = "DeactivatedDueToAdmissionCheck"
_NEXT: Final = {
    "Retry": "its quota is released and it is retried",
    "Rejected": "its quota is released and it is deactivated",
}


def waits_for_checks(workload: Manifest) -> bool:
    """Whether a Workload has its quota and is not admitted: its checks are not all ready."""
    return (
        conditions.is_true(workload, conditions.QUOTA_RESERVED)
        and not conditions.is_true(workload, conditions.ADMITTED)
        and not conditions.is_true(workload, conditions.FINISHED)
    )


def message(workload: Manifest) -> str:
    """What a Workload with quota waits for, check by check, with each check's own message."""
    waiting = [check for check in _checks(workload) if check["state"] != "Ready"]
    if not waiting:
        return "has its quota and waits for its admission checks"
    return f"has its quota and {'; '.join(_sentence(check) for check in waiting)}"


def hints(workload: Manifest, admission_check: Callable[[str], Manifest | None]) -> list[str]:
    """Who decides about each check, and where to look."""
    found = []
    for check in _checks(workload):
        if check["state"] != "Pending":
            continue
        name = check["name"]
        stored = admission_check(name)
        controller = "" if stored is None else (stored.get("spec") or {}).get("controllerName") or ""
        if controller == _PROVISIONING:
            namespace = workload["metadata"]["namespace"]
            look = f"`fairway get provisioningrequests --namespace {namespace}` shows what it asked for"
        else:
            look = f"`fairway describe admissionchecks {name}` shows it"
        by = f" (decided by {controller})" if controller else ""
        found.append(f"starts when check {name}{by} is ready: {look}")
    return found


def last_verdict(workload: Manifest | None) -> list[str]:
    """Why a Workload gave its quota back, if a check asked for another try or rejected it."""
    evicted = None if workload is None else conditions.find(workload, conditions.EVICTED)
    if evicted is None or evicted["status"] != "True":
        return []
    said = f": {evicted['message']}" if evicted.get("message") else ""
    if evicted["reason"] == _RETRIED:
        return [f"its quota was released because a check asked for a retry{said}"]
    if evicted["reason"] == _REJECTED:
        return [f"a check rejected it{said}; it is retried only after spec.active is set to true"]
    return []


def _sentence(check: dict[str, Any]) -> str:
    name, said = check["name"], check.get("message") or ""
    following = _NEXT.get(check["state"])
    if following is None:
        return f"waits for check {name}: {said}" if said else f"waits for check {name}, which has not answered yet"
    return f"check {name} says {check['state']}{f' ({said})' if said else ''}: {following}"


def _checks(workload: Manifest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (workload.get("status") or {}).get("admissionChecks") or []
    return found
