"""One pass over a manifest: what is wrong with it, what is unknown in it, and, in place, what is missing from it.

`inspect` finds values of the wrong type or outside their limits and fields that are required and absent; it removes
unknown fields and nulls and fills in the schema's defaults, as an API server does before the rules of the kind are
asked. It knows nothing of names, references or how fields depend on each other: that is for those rules.

It runs on every write, so a schema is turned once into nested functions that do nothing for a value that is fine:
no path is built and nothing is allocated. Only where something is off does an answer travel up, and each level puts
its own name before the paths in it. A manifest is a tree of JSON values that belongs to the caller.

Depth is bounded by the schema. Where a schema says nothing (open parts), it is bounded here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.contentcache import Familiar, written
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.schemas.metering import METER, MOST_STEPS, TooMuchWork
from fairway.apis.machinery.schemas.scalars import Check, Instead, Outcome, scalar, wrong_type, zero
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.validations import validation
from fairway.errors import FieldError

DEEPEST: Final = 100
"""How deep maps and lists may be nested inside an open part."""

_MOST_PROBLEMS: Final = 100
"""More are not reported: the first hundred are enough to see what is wrong."""

_UNKNOWN: Final = "FieldUnknown"
_IN_BODY: Final = "in body "
_BUILTIN: Final = ("io.k8s.api.", "io.k8s.apimachinery.", "io.k8s.apiextensions-apiserver.")
_METADATA: Final = "io.k8s.apimachinery."
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_IMMEDIATE: Final = {"string": str, "boolean": bool}

_OFTEN_THE_SAME: Final = frozenset({"io.k8s.api.core.v1.PodSpec"})
"""What is large and comes again and again in one object after another; what was fine once is not walked again."""


class Origin(IntEnum):
    """Whose type a schema is: a definition's, Kubernetes' own, or the latter as part of a definition."""

    CUSTOM = 0
    KUBERNETES = 1
    EMBEDDED = 2


_checks: dict[tuple[Schema, Origin], Check] = {}
_changes: dict[tuple[Schema, Origin], Callable[[Any, Any], Outcome]] = {}
"""The same for objects and lists that were right before: `(value, before)`."""


@dataclass(slots=True)
class Findings:
    """What `inspect` found."""

    errors: list[FieldError] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """The paths of fields that the schema does not know; they are removed."""


def inspect(schema: Schema, manifest: Any, path: str = "", before: Any = None) -> Findings:
    """Check the manifest, or the part of it at `path`; complete and prune it in place.

    Where it was right `before`, fields that are the very same as then are not looked at again, nor are elements of its
    lists.
    """
    builtin = Origin.KUBERNETES if schema.name.startswith(_BUILTIN) else Origin.CUSTOM
    METER.left = MOST_STEPS
    check = _compiled(schema, builtin=builtin)
    check_change = None if before is None else _changes.get((schema, builtin))
    try:
        outcome = check(manifest) if check_change is None else check_change(manifest, before)
    except TooMuchWork:
        outcome = [problems.invalid("", "…", "the patterns and alternatives of its schema take too long to evaluate")]
    findings = Findings()
    if type(outcome) is list:
        for found in _below(path, outcome) if path else outcome:
            if found.rule == _UNKNOWN:
                findings.unknown.append(found.path)
            elif found.message.startswith(_IN_BODY):
                findings.errors.append(replace(found, message=f"{found.path} {found.message}"))
            else:
                findings.errors.append(found)
    return findings


def _compiled(schema: Schema, *, builtin: Origin) -> Check:
    if schema.name:
        if not schema.name.startswith(_BUILTIN):
            builtin = Origin.CUSTOM
        elif builtin is not Origin.KUBERNETES:  # metadata is decoded, whatever the kind
            builtin = Origin.KUBERNETES if schema.name.startswith(_METADATA) else Origin.EMBEDDED
    known = _checks.get((schema, builtin))
    if known is None:
        # A definition that contains itself is open where it does, so that the depth stays bounded.
        _checks[schema, builtin] = _anything
        known = _compile(schema, builtin=builtin)
        if schema.also:
            known = _with_validations(known, schema)
            _changes.pop((schema, builtin), None)  # they are about the whole value
        _checks[schema, builtin] = known
    return known


def _with_validations(check: Check, schema: Schema) -> Check:
    """The same check, and what `also` asks of the value as it is then."""
    validate = validation(schema.also)

    def check_both(value: Any) -> Outcome:
        outcome = check(value)
        if isinstance(outcome, list) and any(one.rule != _UNKNOWN for one in outcome):
            return outcome
        wrong = validate(outcome.value if isinstance(outcome, Instead) else value)
        return (outcome if isinstance(outcome, list) else []) + wrong if wrong else outcome

    return check_both


def forget(schema: Schema) -> None:
    """Drop the compiled checks of a schema that is no longer used, and of its unnamed parts."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        for builtin in Origin:
            _checks.pop((part, builtin), None)
            _changes.pop((part, builtin), None)
        inner = [*part.properties.values(), *(one for one in (part.values, part.items) if one is not None)]
        waiting += [one for one in inner if not one.name]


def _compile(schema: Schema, *, builtin: Origin) -> Check:
    if schema.type == "array":
        return _array(schema, builtin=builtin)
    if schema.type == "object":
        if schema.properties or (schema.values is None and not schema.open):
            check = _object(schema, builtin=builtin)
            return _remembering(check) if schema.name in _OFTEN_THE_SAME else check
        return _map(schema, schema.values, builtin=builtin) if schema.values is not None else _any_object
    if not schema.type and not schema.format:
        return _anything
    return scalar(schema, builtin=bool(builtin))


def _object(schema: Schema, *, builtin: Origin) -> Check:
    checks = {name: _property(part, builtin=builtin) for name, part in schema.properties.items()}
    immediate = {name: _all(part) for name, part in schema.properties.items() if _all(part) is not None}
    settle, complete = _settler(schema, builtin=builtin), _completer(schema, checks, builtin=builtin)
    type_of, check_of = immediate.get, checks.get

    def check(value: Any) -> Outcome:
        if type(value) is not dict:
            return wrong_type("object", value)
        unsettled: list[tuple[Any, Outcome]] | None = None
        for name, found in value.items():
            if type(found) is type_of(name):
                continue
            inner = check_of(name)
            if inner is None or found is None:
                outcome = None
            else:
                outcome = inner(found)
                if outcome is None:
                    continue
            if unsettled is None:
                unsettled = []
            unsettled.append((name, outcome))
        wrong = None if unsettled is None else settle(value, unsettled)
        return wrong if complete is None else complete(value, wrong)

    change_of = {name: _changes.get((part, builtin)) for name, part in schema.properties.items()}.get

    def check_change(value: Any, before: Any) -> Outcome:
        if type(value) is not dict or type(before) is not dict:
            return check(value)
        unsettled: list[tuple[Any, Outcome]] = []
        for name, found in value.items():
            ours = before.get(name)
            if found is None:
                unsettled.append((name, None))
            elif found is not ours:
                change = change_of(name) if type(found) is list else None
                inner = check_of(name)
                outcome = change(found, ours) if change else inner(found) if inner else None
                if outcome is not None or inner is None:
                    unsettled.append((name, outcome))
        wrong = settle(value, unsettled) if unsettled else None
        return wrong if complete is None else complete(value, wrong)

    _changes[schema, builtin] = check_change
    return check


def _remembering(check: Check) -> Check:
    """The same check, where values that were fine as they are come again and again."""
    fine: Familiar[bool] = Familiar()

    def check_once(value: Any) -> Outcome:
        before = written(value)
        if before is not None and fine.get(before, value):
            return None
        outcome = check(value)
        if before is not None and outcome is None and written(value) == before:
            fine.keep(before, value, found=True)
        return outcome

    return check_once


def _completer(
    schema: Schema, checks: dict[str, Check], *, builtin: Origin
) -> Callable[[dict[Any, Any], list[FieldError] | None], list[FieldError] | None] | None:
    """What happens for the fields that an object does not have; `None` if it need not have any."""
    makers = {name: _maker(part, checks[name]) for name, part in schema.properties.items() if part.default is not None}
    required = [name for name in schema.required if name not in makers]
    # Go cannot tell an empty string from none; the schema of a custom kind can.
    decoded = builtin is Origin.KUBERNETES
    non_empty = tuple(name for name in required if decoded and schema.properties[name].type == "string")
    expected = (*makers.items(), *((name, None) for name in required if name not in non_empty))

    def complete(value: dict[Any, Any], wrong: list[FieldError] | None) -> list[FieldError] | None:
        for name in non_empty:
            if value.get(name, "") == "":
                wrong = _added(wrong, name, [problems.required("")])
        for name, make in expected:
            if name not in value:
                if make is None:
                    wrong = _added(wrong, name, [problems.required("")])
                else:
                    value[name] = make()
        return wrong

    return complete if non_empty or expected else None


def _property(part: Schema, *, builtin: Origin) -> Check:
    check = _compiled(part, builtin=builtin)
    if not builtin or not part.enum:
        return check

    def unless_empty(value: Any) -> Outcome:
        return _ABSENT if value == "" else check(value)

    return unless_empty


_ABSENT: Final = Instead(None)


def _settler(
    schema: Schema, *, builtin: Origin
) -> Callable[[dict[Any, Any], list[tuple[Any, Outcome]]], list[FieldError] | None]:
    """What happens to the fields of an object that are not simply fine."""
    known = schema.properties
    other = _compiled(schema.values, builtin=builtin) if schema.values else (_anything if schema.open else None)

    def settle(value: dict[Any, Any], unsettled: list[tuple[Any, Outcome]]) -> list[FieldError] | None:
        wrong: list[FieldError] | None = None
        for name, found in unsettled:
            outcome = found
            if name not in known:
                if type(name) is not str:
                    wrong = _added(wrong, "", [_not_a_string(name)])
                    continue
                if other is None:
                    wrong = _added(wrong, name, [problems.unknown("", None, "")])
                    del value[name]
                    continue
                outcome = other(value[name])
            elif outcome is None:  # a null
                if not known[name].nullable:
                    del value[name]
                continue
            if outcome is _ABSENT:
                del value[name]
            elif isinstance(outcome, Instead):
                value[name] = outcome.value
            elif outcome is not None:
                wrong = _added(wrong, name, outcome)
        return wrong

    return settle


def _maker(part: Schema, check: Check) -> Callable[[], Any]:
    """Makes the default of a field, with the defaults of what it holds."""
    default = copied(part.default)
    check(default)
    return (lambda: copied(default)) if isinstance(default, dict | list) else lambda: default


def _map(schema: Schema, values: Schema, *, builtin: Origin) -> Check:
    fits = _all(values)
    inner = _compiled(values, builtin=builtin)
    fallback = _for_null(values, builtin=builtin)
    most: int = schema.limits.get("maxProperties", 2**63)
    least: int = schema.limits.get("minProperties", 0)

    def check(value: Any) -> Outcome:
        if type(value) is not dict:
            return wrong_type("object", value)
        wrong = None
        for name, found in value.items():
            if type(name) is not str:
                wrong = _added(wrong, "", [_not_a_string(name)])
            elif type(found) is not fits:
                outcome = fallback if found is None else inner(found)
                if outcome is not None:
                    wrong = _settled(value, name, outcome, wrong)
        if not least <= len(value) <= most:
            too_few = problems.invalid("", len(value), f"in body should have at least {least} properties")
            wrong = _added(wrong, "", [too_few if len(value) < least else problems.too_many("", len(value), most)])
        return wrong

    return check


def _array(schema: Schema, *, builtin: Origin) -> Check:
    items = schema.items or Schema()
    fits = _all(items)
    inner = _compiled(items, builtin=builtin)
    fallback = _for_null(items, builtin=builtin)
    most: int = schema.limits.get("maxItems", 2**63)
    least: int = schema.limits.get("minItems", 0)
    # Kubernetes' own kinds leave doubles to their validation, which knows where they do harm.
    repeated = None if builtin else _repeated(schema)

    def check(value: Any) -> Outcome:
        if type(value) is not list:
            return wrong_type("array", value)
        wrong = None
        for position, found in enumerate(value):
            if type(found) is not fits:
                outcome = fallback if found is None else inner(found)
                if outcome is not None:
                    wrong = _settled(value, position, outcome, wrong)
        return counted(value, wrong)

    def counted(value: list[Any], wrong: list[FieldError] | None) -> Outcome:
        count = len(value)
        if not least <= count <= most:
            too_few = problems.invalid("", count, f"in body should have at least {least} items")
            wrong = _added(wrong, "", [too_few if count < least else problems.too_many("", count, most)])
        if repeated is not None and count > 1 and wrong is None:
            wrong = repeated(value)
        return wrong

    def check_change(value: Any, before: Any) -> Outcome:
        if type(value) is not list or type(before) is not list:
            return check(value)
        wrong = None
        for position, found in enumerate(value):
            if found is None or position >= len(before) or found is not before[position]:
                outcome = fallback if found is None else inner(found)
                if outcome is not None:
                    wrong = _settled(value, position, outcome, wrong)
        return counted(value, wrong)

    _changes[schema, builtin] = check_change
    return check


def _all(part: Schema) -> type | None:
    """The Python type that alone makes a value of this schema right; `None` if more is asked of it."""
    return None if part.format or part.enum or part.limits or part.also else _IMMEDIATE.get(part.type)


def _for_null(part: Schema, *, builtin: Origin) -> Outcome:
    """What becomes of a null among the elements of a list or the values of a map."""
    if part.nullable:
        return None
    check = _compiled(part, builtin=builtin)
    if part.default is None and not builtin:
        return check(None)
    made = zero(part) if part.default is None else copied(part.default)
    outcome = check(made)
    return Instead(made, outcome) if isinstance(outcome, list) else outcome or Instead(made)


def _settled(holder: Any, key: Any, outcome: Outcome, wrong: list[FieldError] | None) -> list[FieldError] | None:
    """Write what is kept instead of an element or value, or add what is wrong with it."""
    if isinstance(outcome, Instead):
        holder[key] = copied(outcome.value)
        return _added(wrong, f"[{key}]", outcome.wrong) if outcome.wrong else wrong
    return _added(wrong, f"[{key}]", outcome or [])


def _repeated(schema: Schema) -> Callable[[list[Any]], list[FieldError] | None] | None:
    """Finds the elements that a set or a list with keys has twice."""
    if schema.list_type == "atomic":
        return None
    keys = schema.list_keys

    def identity(item: Any) -> Any:
        return tuple(item.get(key) for key in keys) if keys else repr(item)

    def find(value: list[Any]) -> list[FieldError] | None:
        marks = [item.get(keys[0]) for item in value] if len(keys) == 1 else [identity(item) for item in value]
        if len(set(marks)) == len(marks):
            return None
        wrong = []
        seen = set()
        for position, (mark, item) in enumerate(zip(marks, value, strict=True)):
            if mark in seen:
                shown = {key: item[key] for key in keys if key in item} if keys else item
                wrong.append(problems.duplicate(f"[{position}]", shown))
            seen.add(mark)
        return wrong[:_MOST_PROBLEMS]

    return find


def _any_object(value: Any) -> Outcome:
    return _anything(value) if type(value) is dict else wrong_type("object", value)


def _anything(value: Any) -> Outcome:
    """Whether this is JSON and not nested too deeply."""
    return None if type(value) in _SCALARS or _is_json(value) else _first_trouble(value)


def _is_json(value: Any) -> bool:
    level = [value]
    for _depth in range(DEEPEST):
        deeper: list[Any] = []
        for part in level:
            if type(part) is dict:
                if any(type(name) is not str for name in part):
                    return False
                deeper += [one for one in part.values() if type(one) not in _SCALARS]
            elif type(part) is list:
                deeper += [one for one in part if type(one) not in _SCALARS]
            else:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _first_trouble(value: Any) -> list[FieldError]:
    """Where `_is_json` stopped: the same walk, with paths."""
    level: list[tuple[str, Any]] = [("", value)]
    for _depth in range(DEEPEST):
        deeper: list[tuple[str, Any]] = []
        for path, part in level:
            if type(part) is dict:
                wrong = [_not_a_string(name) for name in part if type(name) is not str]
                if wrong:
                    return _below(path, wrong[:1])
                deeper += [(_joined(path, name), one) for name, one in part.items() if type(one) not in _SCALARS]
            elif type(part) is list:
                deeper += [(f"{path}[{at}]", one) for at, one in enumerate(part) if type(one) not in _SCALARS]
            else:
                return [problems.wrong_type(path, str(part), "must be a value that JSON has")]
        level = deeper
    return [problems.invalid("", "…", f"nested too deeply: at most {DEEPEST} levels of maps and lists are supported")]


def _not_a_string(name: object) -> FieldError:
    return problems.wrong_type("", str(name), "keys must be strings: put this one in quotes")


def _added(wrong: list[FieldError] | None, name: str, more: list[FieldError]) -> list[FieldError]:
    before = wrong or []
    return before + _below(name, more[: _MOST_PROBLEMS - len(before)])


def _below(name: str, found: list[FieldError]) -> list[FieldError]:
    """The same findings, seen from one level further up."""
    return [replace(one, path=_joined(name, one.path)) for one in found]


def _joined(name: str, path: str) -> str:
    if not name or not path:
        return name or path
    return f"{name}{path}" if path.startswith("[") else f"{name}.{path}"
