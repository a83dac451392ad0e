"""Rules about taints and tolerations, where Kueue writes them into pods: flavors and admission checks."""

from fairway.apis.core.taints import Taint, TaintEffect, Toleration, TolerationOperator
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import shown
from fairway.errors import FieldError

_EFFECTS = tuple(effect.value for effect in TaintEffect)
_EFFECT_RULE = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
_OPERATORS = ("", TolerationOperator.EQUAL, TolerationOperator.EXISTS)


def wrong_taints(taints: tuple[Taint, ...], path: str) -> list[FieldError]:
    errors = []
    seen = set()
    for position, taint in enumerate(taints):
        where = problems.index(path, position)
        if taint.effect not in _EFFECTS:
            errors.append(problems.invalid(problems.child(where, "effect"), taint.effect, _EFFECT_RULE))
        errors += names.wrong_key(taint.key, problems.child(where, "key"))
        faults = names.value_faults(taint.value)
        if faults:
            errors.append(problems.invalid(problems.child(where, "value"), taint.value, ";".join(faults)))
        if (taint.key, taint.effect) in seen:
            rule = "taints must be unique by key and effect pair"
            errors.append(problems.duplicate(where, shown(taint), rule))
        seen.add((taint.key, taint.effect))
    return errors


def wrong_tolerations(tolerations: tuple[Toleration, ...], path: str) -> list[FieldError]:
    errors = []
    for position, toleration in enumerate(tolerations):
        where = problems.index(path, position)
        if toleration.key:
            errors += names.wrong_key(toleration.key, problems.child(where, "key"))
        errors += [problems.invalid(where, shown(toleration), rule) for rule in _broken_rules(toleration)]
    return errors


def _broken_rules(toleration: Toleration) -> list[str]:
    rules = []
    if not toleration.key and toleration.operator != TolerationOperator.EXISTS:
        rules.append("operator must be Exists when 'key' is empty, which means 'match all values and all keys'")
    if toleration.toleration_seconds is not None and toleration.effect != TaintEffect.NO_EXECUTE:
        rules.append("effect must be 'NoExecute' when 'tolerationSeconds' is set")
    if toleration.operator not in _OPERATORS:
        rules.append("supported toleration values: 'Equal'(default), 'Exists'")
    if toleration.operator == TolerationOperator.EXISTS and toleration.value:
        rules.append("a value must be empty when 'operator' is 'Exists'")
    if toleration.effect and toleration.effect not in _EFFECTS:
        rules.append(_EFFECT_RULE)
    return rules
