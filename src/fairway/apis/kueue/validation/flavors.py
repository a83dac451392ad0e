"""Rules about ResourceFlavor and Topology, and about the taints and tolerations that Kueue writes into pods."""

from typing import Final

from fairway.apis.core.checks import Part
from fairway.apis.core.placement import EFFECTS, wrong_taints
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError

_HOSTNAME: Final = "kubernetes.io/hostname"
_LEVELS: Final = "spec.levels"
_EFFECT_RULE: Final = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"


def wrong_flavor(flavor: Manifest, before: Manifest | None = None) -> list[FieldError]:
    spec: Part = flavor.get("spec") or {}
    errors = [
        *names.wrong_labels(spec.get("nodeLabels") or {}, "spec.nodeLabels"),
        *_wrong_taints(spec.get("nodeTaints") or [], "spec.nodeTaints"),
        *wrong_tolerations(spec.get("tolerations") or [], "spec.tolerations"),
    ]
    if spec.get("topologyName") and not spec.get("nodeLabels"):
        rule = "at least one nodeLabel is required when topology is set"
        errors += problems.of_schema(problems.invalid("spec", spec, rule))
    old: Part = (before or {}).get("spec") or {}
    if old.get("topologyName"):
        for field in ("nodeLabels", "tolerations", "topologyName"):
            verb = "is" if field == "topologyName" else "are"
            rule = f"{field} {verb} immutable when topologyName is set"
            errors += problems.of_schema(*changed(old.get(field), spec.get(field), f"spec.{field}", rule))
    return errors


def wrong_topology(topology: Manifest, before: Manifest | None = None) -> list[FieldError]:
    levels = (topology.get("spec") or {}).get("levels") or []
    labels = [level.get("nodeLabel") for level in levels]
    errors = []
    if len(set(labels)) < len(labels):
        errors.append(problems.invalid(_LEVELS, labels, "must be unique"))
    if _HOSTNAME in labels[:-1] and labels[-1] != _HOSTNAME:
        rule = "the kubernetes.io/hostname label can only be used at the lowest level of topology"
        errors.append(problems.invalid(_LEVELS, labels, rule))
    if before is not None:
        errors += changed((before.get("spec") or {}).get("levels"), levels, _LEVELS)
    return problems.of_schema(*errors)


def wrong_tolerations(tolerations: list[Part], path: str) -> list[FieldError]:
    errors = []
    for position, toleration in enumerate(tolerations):
        where = problems.index(path, position)
        if toleration.get("key"):
            errors += names.wrong_key(toleration["key"], f"{where}.key")
        errors += problems.of_schema(*(problems.invalid(where, toleration, rule) for rule in _broken_rules(toleration)))
    return errors


def _broken_rules(toleration: Part) -> list[str]:
    rules = []
    operator, effect = toleration.get("operator") or "", toleration.get("effect") or ""
    if not toleration.get("key") and operator != "Exists":
        rules.append("operator must be Exists when 'key' is empty, which means 'match all values and all keys'")
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        rules.append("effect must be 'NoExecute' when 'tolerationSeconds' is set")
    if operator not in ("", "Equal", "Exists"):
        rules.append("supported toleration values: 'Equal'(default), 'Exists'")
    if operator == "Exists" and toleration.get("value"):
        rules.append("a value must be empty when 'operator' is 'Exists'")
    if effect and effect not in EFFECTS:
        rules.append(_EFFECT_RULE)
    return rules


def _wrong_taints(taints: list[Part], path: str) -> list[FieldError]:
    errors = [
        problems.invalid(f"{path}[{position}].effect", taint.get("effect") or "", _EFFECT_RULE)
        for position, taint in enumerate(taints)
        if taint.get("effect") not in EFFECTS
    ]
    return problems.of_schema(*errors) + wrong_taints(taints, path, effects=False)
