"""The limits that the API's schema states: lengths, patterns, minima, numbers of items, items that must differ.

The limits stand on the types (`schema.Limits`). Each type is compiled once into the checks that it needs, so that a
value is walked only where something can be wrong. Paths are spelled out only where something is: until then a place is
the place of its parent and the step from there.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from fairway.apis.machinery import problems
from fairway.apis.machinery.structs import Limits
from fairway.errors import FieldError

_Place: TypeAlias = tuple[Any, str | int, bool] | None
"""The parent's place; the name, position or key from there; whether it is a key. `None` is the object itself."""

_Check: TypeAlias = Callable[[Any, _Place, list[FieldError]], None]


def beyond_limits(value: msgspec.Struct, before: msgspec.Struct | None = None) -> list[FieldError]:
    """Where the value, or anything in it, is outside the limits of its type.

    A part that `before`, which was accepted, shares with the value is not looked at again.
    """
    errors: list[FieldError] = []
    for name, encoded, skips_empty, check in _field_checks(type(value)):
        part = getattr(value, name)
        if part is None or (skips_empty and not part) or (before is not None and part is getattr(before, name)):
            continue
        check(part, (None, encoded, False), errors)
    return errors


def _spelled(place: _Place) -> str:
    if place is None:
        return ""
    parent, step, is_key = place
    if isinstance(step, int):
        return problems.index(_spelled(parent), step)
    return problems.key(_spelled(parent), step) if is_key else problems.child(_spelled(parent), step)


@cache
def _field_checks(cls: Any) -> tuple[tuple[str, str, bool, _Check], ...]:
    """Per field with limits: its name here and in the API, whether an empty value is no value, and the check."""
    info = inspect.type_info(cls)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{cls.__name__} is no struct")
    return tuple(
        (field.name, field.encode_name, field.default == "" or _may_be_empty(field.type), check)
        for field in info.fields
        if (check := _compiled(field.type)) is not None
    )


def _may_be_empty(node: inspect.Type) -> bool:
    """Whether this is a list or a map that has nothing to check when nothing is in it."""
    least = 0
    while isinstance(node, inspect.Metadata):
        if node.extra and "limits" in node.extra:
            least = max(least, node.extra["limits"].min_items)
        node = node.type
    return not least and isinstance(node, inspect.VarTupleType | inspect.DictType)


def _struct_check(cls: Any) -> _Check | None:
    checks = _field_checks(cls)
    if not checks:
        return None

    def check_struct(value: Any, place: _Place, errors: list[FieldError]) -> None:
        for name, encoded, skips_empty, check in checks:
            part = getattr(value, name)
            if part is None or (skips_empty and not part):
                continue
            check(part, (place, encoded, False), errors)

    return check_struct


def _compiled(node: inspect.Type) -> _Check | None:
    """The check of a type and of what it contains, or nothing if it has no limits."""
    checks: list[_Check] = []
    while isinstance(node, inspect.Metadata):
        if node.extra and "limits" in node.extra:
            checks += _own_checks(node.extra["limits"])
        node = node.type
    if isinstance(node, inspect.UnionType):
        inner = next(one for one in node.types if not isinstance(one, inspect.NoneType))
    else:
        inner = None
    content = _compiled(inner) if inner is not None else _content_check(node)
    if content is not None:
        checks.append(content)
    if not checks:
        return None
    return checks[0] if len(checks) == 1 else _all_of(checks)


def _all_of(checks: list[_Check]) -> _Check:
    def check_all(value: Any, place: _Place, errors: list[FieldError]) -> None:
        for check in checks:
            check(value, place, errors)

    return check_all


def _content_check(node: inspect.Type) -> _Check | None:
    if isinstance(node, inspect.StructType):
        return _struct_check(node.cls)
    if isinstance(node, inspect.VarTupleType):
        check_item = _compiled(node.item_type)
        if check_item is None:
            return None

        def check_items(value: Any, place: _Place, errors: list[FieldError]) -> None:
            for position, item in enumerate(value):
                check_item(item, (place, position, False), errors)

        return check_items
    if isinstance(node, inspect.DictType):
        check_entry = _compiled(node.value_type)
        if check_entry is None:
            return None

        def check_entries(value: Any, place: _Place, errors: list[FieldError]) -> None:
            for name, item in value.items():
                check_entry(item, (place, name, True), errors)

        return check_entries
    return None


def _own_checks(limits: Limits) -> list[_Check]:
    checks: list[_Check] = []
    if limits.min_items or limits.max_items is not None:
        checks.append(_items_check(limits.min_items, limits.max_items))
    if limits.unique_by:
        checks.append(_unique_check(limits.unique_by))
    if limits.min_length or limits.max_length is not None or limits.pattern is not None:
        checks.append(_text_check(limits.min_length, limits.max_length, limits.pattern))
    if limits.minimum is not None:
        checks.append(_minimum_check(limits.minimum))
    if limits.one_of:
        checks.append(_one_of_check(limits.one_of))
    return checks


def _items_check(least: int, most: int | None) -> _Check:
    def check(value: Any, place: _Place, errors: list[FieldError]) -> None:
        if most is not None and len(value) > most:
            errors.append(problems.too_many(_spelled(place), len(value), most))
        if len(value) < least:
            path = _spelled(place)
            errors.append(problems.invalid(path, len(value), f"{path} in body should have at least {least} items"))

    return check


def _unique_check(attributes: tuple[str, ...]) -> _Check:
    names = {name: _camel_case(name) for name in attributes}

    def identity(item: Any) -> dict[str, Any] | str:
        return item if "" in names else {encoded: getattr(item, name) for name, encoded in names.items()}

    def check(value: Any, place: _Place, errors: list[FieldError]) -> None:
        if len(value) < 2:
            return
        seen = []
        for position, item in enumerate(value):
            key = identity(item)
            if key in seen:
                errors.append(problems.duplicate(_spelled((place, position, False)), key))
            else:
                seen.append(key)

    return check


def _text_check(least: int, most: int | None, pattern: str | None) -> _Check:
    matches = re.compile(pattern or ".*", re.DOTALL if pattern is None else 0).fullmatch
    longest = sys.maxsize if most is None else most

    def check(value: Any, place: _Place, errors: list[FieldError]) -> None:
        if least <= len(value) <= longest and matches(value) is not None:
            return
        path = _spelled(place)
        if len(value) > longest:
            errors.append(problems.too_long(path, value, longest))
        if len(value) < least:
            errors.append(problems.invalid(path, value, f"{path} in body should be at least {least} chars long"))
        if matches(value) is None:
            errors.append(problems.invalid(path, value, f"{path} in body should match '^{pattern}$'"))

    return check


def _minimum_check(minimum: int) -> _Check:
    def check(value: Any, place: _Place, errors: list[FieldError]) -> None:
        if value < minimum:
            path = _spelled(place)
            rule = f"{path} in body should be greater than or equal to {minimum}"
            errors.append(problems.invalid(path, value, rule))

    return check


def _one_of_check(supported: tuple[str, ...]) -> _Check:
    def check(value: Any, place: _Place, errors: list[FieldError]) -> None:
        if value not in supported:
            errors.append(problems.not_supported(_spelled(place), str(value), supported))

    return check


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
