"""Whether a job still matches its workload.

What decides is what quota depends on: how many pods, and their containers; tolerations too, as long as nothing was
admitted. The rest of a job may change freely.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity
from fairway.integrations import conditions, injection, webhooks
from fairway.integrations.workloads import sanitized

_CONTAINERS: Final = ("containers", "initContainers")


def is_equivalent(
    job: Manifest,
    pod_sets: Sequence[Manifest],
    workload: Manifest,
    flavors: Callable[[str], Manifest | None],
    *,
    suspended: bool,
) -> bool:
    """Whether a workload of this job still stands for it; `pod_sets` are those that the job has now."""
    spec = workload["spec"]
    if spec.get("maximumExecutionTimeSeconds") != webhooks.maximum_seconds(job):
        return False
    waiting: Sequence[Manifest] = spec["podSets"]
    admitted = conditions.is_true(workload, conditions.ADMITTED)
    running = _running(workload, flavors, admitted=admitted)
    if running is None:
        return _are_alike(pod_sets, waiting, tolerations=not admitted)
    if _are_alike(pod_sets, running, tolerations=not admitted):
        return True
    return suspended and _are_alike(pod_sets, waiting, tolerations=not admitted)


def _running(
    workload: Manifest, flavors: Callable[[str], Manifest | None], *, admitted: bool
) -> Sequence[Manifest] | None:
    """The pod sets as they are while the job runs, `None` where that cannot be said or makes no difference."""
    if not conditions.is_true(workload, conditions.QUOTA_RESERVED):
        return None
    pod_sets: Sequence[Manifest] = workload["spec"]["podSets"]
    if admitted and all(pod_set.get("minCount") is None for pod_set in pod_sets):
        return None
    try:
        infos = {info.name: info for info in injection.infos_of(workload, flavors)}
        return [_with(pod_set, infos[pod_set["name"]]) for pod_set in pod_sets]
    except (injection.InjectionConflict, injection.FlavorMissing, KeyError):
        return None


def _with(pod_set: Manifest, info: injection.PodSetInfo) -> Manifest:
    count = pod_set["count"] if pod_set.get("minCount") is None else info.count
    return {**pod_set, "template": injection.injected(pod_set["template"], info), "count": count}


def _are_alike(ones: Sequence[Manifest], others: Sequence[Manifest], *, tolerations: bool) -> bool:
    return len(ones) == len(others) and all(
        one["count"] == other["count"]
        and one.get("minCount") == other.get("minCount")
        and _templates_are_alike(one["template"], other["template"], tolerations=tolerations)
        for one, other in zip(ones, others, strict=True)
    )


def _templates_are_alike(one: Manifest, other: Manifest, *, tolerations: bool) -> bool:
    ours, theirs = one.get("spec") or {}, other.get("spec") or {}
    if tolerations and (ours.get("tolerations") or []) != (theirs.get("tolerations") or []):
        return False
    if all((ours.get(field) or []) == (theirs.get(field) or []) for field in _CONTAINERS):
        return True
    return bool(_meant(one) == _meant(other))


def _meant(template: Manifest) -> Any:
    """The containers without the ways to write the same thing differently."""
    spec = sanitized(copied(template)).get("spec") or {}
    return [_plain(spec.get(field) or []) for field in _CONTAINERS]


def _plain(value: Any, *, amounts: bool = False) -> Any:
    """Without empty fields, and with amounts as numbers."""
    if isinstance(value, dict):
        parts = {key: _plain(part, amounts=amounts or key in {"requests", "limits"}) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, "", [], {})}
    if isinstance(value, list):
        return [_plain(part, amounts=amounts) for part in value]
    return Quantity.parse(value) if amounts and isinstance(value, str | int | float) else value
