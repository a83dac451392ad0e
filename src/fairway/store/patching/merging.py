"""Merges a declared configuration into an object, and removes fields, by the schema.

Values in, values out: who owns what is decided elsewhere (`apply`), here it is only carried out. Arguments are not
changed; results share parts with them.
"""

from operator import is_
from typing import Any

from fairway.apis.machinery.schemas.schema import Schema
from fairway.store.patching.comparing import ANYTHING, child_schema, element_of, elements
from fairway.store.patching.fieldsets import FieldSet, is_member

ABSENT: Any = object()
"""In place of a value: there is none."""


def structured_merge(live: Any, config: Any, schema: Schema) -> Any:
    """`live` with `config` in it: maps and lists with keys are merged, everything else is replaced.

    `null` leaves a container that has content alone, and otherwise stands in the result: it is a value that differs
    from others, until `without_nulls` has made it what it means.
    """
    if config is None:
        return live if _holds_fields(live, schema) else None
    if isinstance(config, dict):
        return config if schema.atomic else _merged_maps(live if isinstance(live, dict) else {}, config, schema)
    if isinstance(config, list) and schema.list_type != "atomic":
        return _merged_lists(live if isinstance(live, list) else [], config, schema)
    return config


def without_nulls(merged: Any, config: Any, schema: Schema) -> Any:
    """What was merged, without the `null`s of the configuration, which mean nothing but where the schema takes them.

    The same value if there are none.
    """
    if not _has_null(config):
        return merged
    if isinstance(config, dict) and isinstance(merged, dict) and not schema.atomic:
        return _map_without_nulls(merged, config, schema)
    if isinstance(config, list) and isinstance(merged, list) and schema.list_type != "atomic":
        items = schema.items or ANYTHING
        theirs = dict(elements(config, schema))
        pairs = _elements_with_positions(merged, schema)
        result = [without_nulls(item, theirs.get(element), items) for element, item in pairs]
        return merged if all(map(is_, result, merged)) else result
    return merged


def without_fields(value: Any, fields: FieldSet, schema: Schema) -> Any:
    """The value without these fields. What has no fields of its own stays whole, containers stay even if empty."""
    if isinstance(value, dict) and fields and not schema.atomic:
        return _reduced_map(value, fields, schema)
    if isinstance(value, list) and fields and schema.list_type != "atomic":
        return _reduced_list(value, fields, schema)
    return value


def _has_null(config: Any) -> bool:
    if isinstance(config, dict):
        return any(map(_has_null, config.values()))
    return any(map(_has_null, config)) if isinstance(config, list) else config is None


def _holds_fields(live: Any, schema: Schema) -> bool:
    """Whether `live` is a container whose content has owners of its own."""
    if isinstance(live, dict):
        return bool(live) and not schema.atomic
    return isinstance(live, list) and bool(live) and schema.list_type != "atomic"


def _merged_maps(live: dict[str, Any], config: dict[str, Any], schema: Schema) -> dict[str, Any]:
    result = live.copy()
    for name, theirs in config.items():
        result[name] = structured_merge(live.get(name, ABSENT), theirs, child_schema(schema, name))
    return result


def _map_without_nulls(merged: dict[str, Any], config: dict[str, Any], schema: Schema) -> dict[str, Any]:
    result = merged
    for name, theirs in config.items():
        if name not in merged:
            continue
        part = child_schema(schema, name)
        ours = merged[name]
        is_void = theirs is None and ours is None and not (part.nullable or part.open)
        rest = ABSENT if is_void else without_nulls(ours, theirs, part)
        if rest is ours:
            continue
        if result is merged:
            result = merged.copy()
        if is_void:
            del result[name]
        else:
            result[name] = rest
    return result


def _merged_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    """Elements of both: `config`'s in its order, and among them those that only `live` has.

    Shared elements that come in the order of `config` hold the two together: what only `live` has stays behind the
    last of them that it stands behind in `live`, or at the front.
    """
    items = schema.items or ANYTHING
    theirs = dict(elements(config, schema))
    ours = _elements_with_positions(live, schema)
    by_element: dict[str, Any] = {}
    for element, item in ours:
        # Elements with the same key are not merged, only replaced.
        by_element[element] = ABSENT if element in by_element else item
    behind: dict[str, list[Any]] = {}
    result: list[Any] = []
    group = result
    in_order = (element for element in theirs if element in by_element)
    expected = next(in_order, None)
    for element, item in ours:
        if element not in theirs:
            group.append(item)
        elif element == expected:
            group = behind[element] = []
            expected = next(in_order, None)
    for element, item in theirs.items():
        result.append(structured_merge(by_element.get(element, ABSENT), item, items))
        result += behind.get(element, ())
    return result


def _elements_with_positions(live: list[Any], schema: Schema) -> list[tuple[str, Any]]:
    """Like `elements`, but what has no element stays, under a name that no configuration can have."""
    result = []
    for index, item in enumerate(live):
        try:
            result.append((element_of(item, schema), item))
        except ValueError:
            result.append((f"i:{index}", item))
    return result


def _reduced_map(value: dict[str, Any], fields: FieldSet, schema: Schema) -> dict[str, Any]:
    result = {}
    for name, child in value.items():
        node = fields.get(f"f:{name}")
        if node is None:
            result[name] = child
        elif not is_member(node):
            result[name] = without_fields(child, node, child_schema(schema, name))
    return result


def _reduced_list(value: list[Any], fields: FieldSet, schema: Schema) -> list[Any]:
    result = []
    for element, item in _elements_with_positions(value, schema):
        node = fields.get(element)
        if node is None:
            result.append(item)
        elif not is_member(node):
            result.append(without_fields(item, node, schema.items or ANYTHING))
    return result
