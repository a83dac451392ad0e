"""Rules about where a pod may run: node selectors, affinities, tolerations, spreading; and taints of nodes."""

from typing import Final

from fairway.apis.core import checks
from fairway.apis.core.checks import Part
from fairway.apis.machinery import names, problems
from fairway.errors import FieldError

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES: Final = ("Honor", "Ignore")
_OPERATOR_RULE: Final = "not a valid selector operator"


def wrong_affinity(affinity: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity")
    if node:
        errors += _wrong_node_affinity(node, f"{path}.nodeAffinity")
    for field in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(field) or {}
        for position, term in enumerate(part.get(_REQUIRED) or ()):
            errors += _wrong_pod_term(term, f"{path}.{field}.{_REQUIRED}[{position}]")
        for position, weighted in enumerate(part.get(_PREFERRED) or ()):
            where = f"{path}.{field}.{_PREFERRED}[{position}]"
            errors += _wrong_weight(weighted, where)
            errors += _wrong_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return errors


def wrong_tolerations(tolerations: list[Part], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        where = problems.index(path, position)
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            errors += names.wrong_key(key, f"{where}.key")
        elif operator != "Exists":
            rule = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(problems.invalid(f"{where}.operator", operator, rule))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            rule = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(problems.invalid(f"{where}.effect", effect, rule))
        if operator in ("", "Equal"):
            if faults := names.value_faults(value):
                errors.append(problems.invalid(f"{where}.operator", value, ";".join(faults)))
        elif operator == "Exists":
            if value:
                rule = "value must be empty when `operator` is 'Exists'"
                errors.append(problems.invalid(f"{where}.operator", value, rule))
        else:
            errors.append(problems.not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in EFFECTS:
            errors.append(problems.not_supported(f"{where}.effect", effect, EFFECTS))
    return errors


def wrong_taints(taints: list[Part], path: str, *, effects: bool = True) -> list[FieldError]:
    """Errors in taints; without `effects` where their effects have been checked."""
    errors: list[FieldError] = []
    seen = set()
    for position, taint in enumerate(taints):
        where = problems.index(path, position)
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        errors += names.wrong_key(key, f"{where}.key")
        if faults := names.value_faults(value):
            errors.append(problems.invalid(f"{where}.value", value, ";".join(faults)))
        if effects:
            errors += checks.wrong_choice(effect, f"{where}.effect", EFFECTS)
        if (key, effect) in seen:
            errors.append(problems.duplicate(where, taint, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors


def wrong_spread(constraints: list[Part], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    pairs = [(one.get("topologyKey") or "", one.get("whenUnsatisfiable") or "") for one in constraints]
    for position, constraint in enumerate(constraints):
        where = problems.index(path, position)
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
        action, domains = constraint.get("whenUnsatisfiable") or "", constraint.get("minDomains")
        if skew <= 0:
            errors.append(problems.invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not key:
            errors.append(problems.required(f"{where}.topologyKey", "can not be empty"))
        if action not in _UNSATISFIABLE:
            errors.append(problems.not_supported(f"{where}.whenUnsatisfiable", action, _UNSATISFIABLE))
        if (key, action) in pairs[position + 1 :]:
            errors.append(problems.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        if domains is not None:
            if domains <= 0:
                errors.append(problems.invalid(f"{where}.minDomains", domains, "must be greater than zero"))
            if action != "DoNotSchedule":
                rule = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                errors.append(problems.invalid(f"{where}.minDomains", domains, rule))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in _NODE_POLICIES:
                errors.append(problems.not_supported(f"{where}.{field}", policy, _NODE_POLICIES))
        errors += checks.wrong_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")
        errors += _wrong_label_keys(constraint, where)
    return errors


def _wrong_node_affinity(affinity: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    selector = affinity.get(_REQUIRED)
    if selector is not None:
        terms = selector.get("nodeSelectorTerms") or []
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not terms:
            errors.append(problems.required(where, "must have at least one node selector term"))
        for position, term in enumerate(terms):
            errors += _wrong_node_term(term, problems.index(where, position), values=True)
    for position, preference in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{position}]"
        errors += _wrong_weight(preference, where)
        errors += _wrong_node_term(preference.get("preference") or {}, f"{where}.preference", values=False)
    return errors


def _wrong_node_term(term: Part, path: str, *, values: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, expression in enumerate(term.get("matchExpressions") or ()):
        errors += _wrong_expression(expression, f"{path}.matchExpressions[{position}]", values=values)
    for position, expression in enumerate(term.get("matchFields") or ()):
        where = f"{path}.matchFields[{position}]"
        chosen = expression.get("values") or []
        if expression.get("operator") not in ("In", "NotIn"):
            errors.append(problems.invalid(f"{where}.operator", expression.get("operator"), _OPERATOR_RULE))
        elif len(chosen) != 1:
            rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(problems.required(f"{where}.values", rule))
        if expression.get("key") != "metadata.name":
            errors.append(problems.invalid(f"{where}.key", expression.get("key"), "not a valid field selector key"))
            continue
        for place, value in enumerate(chosen):
            errors += checks.wrong_subdomain(value, f"{where}.values[{place}]")
    return errors


def _wrong_expression(expression: Part, path: str, *, values: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    chosen, operator = expression.get("values") or [], expression.get("operator") or ""
    if operator in ("In", "NotIn"):
        if not chosen:
            errors.append(problems.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if chosen:
            rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(problems.forbidden(f"{path}.values", chosen, rule))
    elif operator in ("Gt", "Lt"):
        if len(chosen) != 1:
            rule = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(problems.required(f"{path}.values", rule))
    else:
        errors.append(problems.invalid(f"{path}.operator", operator, _OPERATOR_RULE))
    errors += names.wrong_key(expression.get("key") or "", f"{path}.key")
    for place, value in enumerate(chosen if values else ()):
        errors += [problems.invalid(f"{path}.values[{place}]", value, fault) for fault in names.value_faults(value)]
    return errors


def _wrong_weight(part: Part, path: str) -> list[FieldError]:
    weight = part.get("weight") or 0
    if 1 <= weight <= 100:
        return []
    return [problems.invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _wrong_pod_term(term: Part, path: str) -> list[FieldError]:
    errors = checks.wrong_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += checks.wrong_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        errors += [problems.invalid(f"{path}.namespace", namespace, fault) for fault in names.label_faults(namespace)]
    errors += _wrong_label_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(problems.required(f"{path}.topologyKey", "can not be empty"))
    return errors + names.wrong_key(key, f"{path}.topologyKey")


def _wrong_label_keys(term: Part, path: str) -> list[FieldError]:
    """Keys whose values are taken from the pod itself."""
    errors: list[FieldError] = []
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field)
        if not keys:
            continue
        if term.get("labelSelector") is None:
            rule = "must not be specified when labelSelector is not set"
            errors.append(problems.forbidden(f"{path}.{field}", keys, rule))
            continue
        for position, key in enumerate(keys):
            errors += names.wrong_key(key, f"{path}.{field}[{position}]")
    both = set(term.get("matchLabelKeys") or ()) & set(term.get("mismatchLabelKeys") or ())
    errors += [
        problems.invalid(
            f"{path}.matchLabelKeys[{position}]", key, "exists in both matchLabelKeys and mismatchLabelKeys"
        )
        for position, key in enumerate(term.get("matchLabelKeys") or ())
        if key in both
    ]
    return errors
