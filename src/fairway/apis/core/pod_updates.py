"""Rules about changes of a pod: its spec is as good as fixed, its status follows what its containers can do."""

from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.core import checks, placement
from fairway.apis.core.checks import Part
from fairway.apis.core.pod_specs import wrong_pod
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed, same
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError

_CHANGEABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_MOST_SECONDS: Final = 2**31 - 1
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_STATUSES: Final = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)


def wrong_pod_update(old: Manifest, new: Manifest) -> list[FieldError]:
    """What is wrong with a changed pod. A part that did not change is not looked at again."""
    errors = metadata.wrong_metadata_update(old, new)
    errors += metadata.wrong_metadata(new) if new["spec"] == old["spec"] else _wrong_spec_update(old, new)
    if new.get("status") != old.get("status"):
        errors += _wrong_status_update(old, new)
    return errors


def _wrong_spec_update(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = old["spec"], new["spec"]
    errors = wrong_pod(new)
    for field in ("containers", "initContainers"):
        if len(after.get(field) or ()) != len(before.get(field) or ()):
            rule = "pod updates may not add or remove containers"
            return [*errors, problems.forbidden(f"spec.{field}", None, rule)]
    deadline = _wrong_deadline(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds"))
    if deadline and after.get("activeDeadlineSeconds") is not None:
        return errors + deadline
    errors += deadline
    errors += _wrong_tolerations(before.get("tolerations") or [], after.get("tolerations") or [])
    errors += _wrong_gates(before.get("schedulingGates") or [], after.get("schedulingGates") or [])
    if before.get("schedulingGates"):
        errors += _wrong_directions(before, after)
    if not same(_as_before(before, after), before):
        differing = sorted(
            field for field in before.keys() | after.keys() if not same(before.get(field), after.get(field))
        )
        rule = f"pod updates may not change fields other than {','.join(_CHANGEABLE)}; changed: {', '.join(differing)}"
        errors.append(problems.forbidden("spec", None, rule))
    return errors


def _as_before(before: Part, after: Part) -> Part:
    """The new spec with everything that may change as it was; whatever still differs may not change."""
    spec = dict(after)
    for field in ("containers", "initContainers"):
        if after.get(field):
            spec[field] = [
                {**container, "image": (before.get(field) or [])[position].get("image")}
                for position, container in enumerate(after[field])
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        spec[field] = before.get(field)
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and after.get("terminationGracePeriodSeconds") == 1:
        spec["terminationGracePeriodSeconds"] = grace
    if before.get("schedulingGates"):
        spec["nodeSelector"] = before.get("nodeSelector")
        affinity = dict(after.get("affinity") or {})
        affinity["nodeAffinity"] = (before.get("affinity") or {}).get("nodeAffinity")
        spec["affinity"] = affinity
    return spec


def _wrong_deadline(before: int | None, after: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if after is None:
        if before is None:
            return []
        return [problems.invalid(path, after, "must not update from a positive integer to nil value")]
    if not 0 <= after <= _MOST_SECONDS:
        return [problems.invalid(path, after, f"must be between 0 and {_MOST_SECONDS}, inclusive")]
    if before is not None and before < after:
        return [problems.invalid(path, after, "must be less than or equal to previous value")]
    return []


def _wrong_tolerations(before: list[Part], after: list[Part]) -> list[FieldError]:
    kept = {_without_seconds(toleration) for toleration in after}
    if all(_without_seconds(toleration) in kept for toleration in before):
        return placement.wrong_tolerations(after, "spec.tolerations")
    rule = "existing toleration can not be modified except its tolerationSeconds"
    return [problems.forbidden("spec.tolerations", None, rule)]


def _without_seconds(toleration: Part) -> frozenset[tuple[str, Any]]:
    return frozenset((field, value) for field, value in toleration.items() if value and field != "tolerationSeconds")


def _wrong_gates(before: list[Part], after: list[Part]) -> list[FieldError]:
    known = {gate.get("name") for gate in before}
    return [
        problems.forbidden(
            f"spec.schedulingGates[{position}].name",
            gate.get("name"),
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for position, gate in enumerate(after)
        if gate.get("name") not in known
    ]


def _wrong_directions(before: Part, after: Part) -> list[FieldError]:
    """While a pod is gated, where it may run can be narrowed, never widened."""
    errors = []
    selector = after.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (before.get("nodeSelector") or {}).items()):
        rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(problems.invalid("spec.nodeSelector", selector, rule))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    old_terms, new_terms = _required_terms(before), _required_terms(after)
    if not old_terms:
        return errors
    if len(old_terms) != len(new_terms):
        rule = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [*errors, problems.invalid(path, new_terms, rule)]
    rule = "only additions are allowed (no mutations or deletions)"
    errors += [
        problems.invalid(problems.index(path, position), new_terms[position], rule)
        for position, term in enumerate(old_terms)
        if not _narrowed(term, new_terms[position])
    ]
    return errors


def _required_terms(spec: Mapping[str, Any]) -> list[Part]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[Part] = selector.get("nodeSelectorTerms") or []
    return terms


def _narrowed(old: Part, new: Part) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        return not any(new.get(field) for field in fields)
    for field in fields:
        before, after = old.get(field) or [], new.get(field) or []
        if before and not same(after[: len(before)], before):
            return False
    return True


def _wrong_status_update(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = old.get("status") or {}, new.get("status") or {}
    errors: list[FieldError] = []
    for position, condition in enumerate(after.get("conditions") or ()):
        where = f"status.conditions[{position}]"
        errors += checks.negatives(condition, where, ("observedGeneration",))
        if condition.get("type") not in _SYSTEM_CONDITIONS:
            errors += names.wrong_key(condition.get("type") or "", f"{where}.Type")
    nominated = after.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        errors += checks.wrong_subdomain(nominated, "status.nominatedNodeName")
        if old["spec"].get("nodeName"):
            rule = "may not be set on pods that are already bound to a node"
            errors.append(problems.forbidden("status.nominatedNodeName", nominated, rule))
    errors += checks.negatives(after, "status", ("observedGeneration",))
    errors += changed(before.get("qosClass"), after.get("qosClass"), "status.qosClass")
    for statuses, containers in _STATUSES:
        errors += _wrong_restarts(
            before.get(statuses) or [], after.get(statuses) or [], old["spec"], statuses, containers
        )
    for field in ("podIPs", "hostIPs"):
        for position, entry in enumerate(after.get(field) or ()):
            errors += checks.wrong_address(entry.get("ip") or "", f"status.{field}[{position}]")
    return errors


def _wrong_restarts(
    before: list[Part], after: list[Part], spec: Part, statuses: str, containers: str
) -> list[FieldError]:
    """A container that ended may only run again if the restart policy allows it."""
    errors: list[FieldError] = []
    by_name = {container.get("name"): container for container in spec.get(containers) or ()}
    now = {status.get("name"): status for status in after}
    for position, status in enumerate(before):
        ended = (status.get("state") or {}).get("terminated")
        successor = now.get(status.get("name"))
        if not ended or successor is None or (successor.get("state") or {}).get("terminated"):
            continue
        container = by_name.get(status.get("name"))
        if container is None or not _restarted(container, spec, ended.get("exitCode") or 0):
            rule = "may not be transitioned to non-terminated state"
            errors.append(problems.forbidden(f"status.{statuses}[{position}].state", None, rule))
    return errors


def _restarted(container: Part, spec: Part, exit_code: int) -> bool:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
