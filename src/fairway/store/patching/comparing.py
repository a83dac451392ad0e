"""Values as sets of fields: the fields of a value, and the differences of two values.

The schema says where fields end. An atomic list or map is one field, and so is an empty one; elements of a list with
`list_type` `map` or `set` are fields of their own, found by key or by value and not by position; what the schema does
not describe is a map of maps down to its scalars, with atomic lists. There are two ways to read a value as fields:

- *written*: a client sends the value and changes everything in it, containers too (`all_fields`, `compare`);
- *configured*: a manager declares the value and owns its leaves, list elements and map keys, but not the
  objects around them (`configured_fields`).

Equal parts are skipped by `==` before anything is built, so that a small change to a large object costs little.
"""

from functools import lru_cache
from typing import Any

from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import BadRequest
from fairway.store.patching.fieldsets import (
    FieldSet,
    Path,
    key_element,
    shown,
    single_key_element,
    spelled,
    value_element,
)

ANYTHING = Schema(open=True)
"""What stands where the schema says nothing."""

_MISSING: Any = object()


def child_schema(schema: Schema, name: str) -> Schema:
    """The schema of a field or of a map's value."""
    return schema.properties.get(name) or schema.values or ANYTHING


def element_of(item: Any, schema: Schema) -> str:
    """The path element of a member of a list that is a map or a set by `schema`; `ValueError` says why it has none."""
    keys = schema.list_keys
    if len(keys) == 1 and type(item) is dict and type(value := item.get(keys[0])) is str:
        return single_key_element(keys[0], value)
    if schema.list_type == "set":
        if item is None or isinstance(item, dict | list):
            raise ValueError("a list of distinct scalars has an element that is not a scalar")
        return value_element(item)
    if type(item) is not dict:
        raise ValueError("a list with key fields has an element that is not an object")
    properties = schema.items.properties if schema.items else {}
    found = {}
    for key in keys:
        if key in item:
            found[key] = item[key]
        elif key in properties and properties[key].default is not None:
            found[key] = properties[key].default
    if not found:
        raise ValueError(f"a list with key fields has an element without any of {', '.join(keys)}")
    return key_element(found)


def elements(items: list[Any], schema: Schema) -> list[tuple[str, Any]]:
    """Each member of a list with its path element; those without one are left out."""
    key = schema.list_keys[0] if len(schema.list_keys) == 1 else None
    result = []
    for item in items:
        # What `element_of` does for nearly all lists, without the call.
        if key is not None and type(item) is dict and type(value := item.get(key)) is str:
            result.append((single_key_element(key, value), item))
            continue
        try:
            result.append((element_of(item, schema), item))
        except ValueError:
            continue
    return result


def all_fields(value: Any, schema: Schema) -> FieldSet:
    """The node of a value that was written as a whole: itself, and everything in it."""
    if type(value) is dict:
        if not value or schema.atomic:
            return {}
        node: FieldSet = {".": {}}
        known, properties, others = _children(schema)
        for name, child in value.items():
            kind = type(child)
            if (kind is dict or kind is list) and child:
                node[known.get(name) or f"f:{name}"] = all_fields(child, properties.get(name) or others)
            else:
                node[known.get(name) or f"f:{name}"] = {}
        return node
    if type(value) is list and value and schema.list_type != "atomic":
        node = {".": {}}
        items = schema.items or ANYTHING
        for element, item in elements(value, schema):
            # Elements with the same key have one owner together.
            node[element] = {} if element in node else all_fields(item, items)
        return node
    return {}


@lru_cache(maxsize=16384)
def _children(schema: Schema) -> tuple[dict[str, str], dict[str, Schema], Schema]:
    """The path elements of the described fields, made once; their schemas; and the schema of all others."""
    return {name: f"f:{name}" for name in schema.properties}, schema.properties, schema.values or ANYTHING


def configured_fields(value: dict[str, Any] | list[Any], schema: Schema) -> FieldSet:
    """The fields in a declared value; the value itself is not among them."""
    result: FieldSet = {}
    if isinstance(value, dict):
        known, properties, others = _children(schema)
        for name, child in value.items():
            if name in known:
                node = _configured(child, properties[name])
                if node is not None:
                    result[known[name]] = node
            else:
                node = _configured(child, others)
                result[f"f:{name}"] = {".": {}, **node} if node else {}
        return result
    items = schema.items or ANYTHING
    for element, item in elements(value, schema):
        inside = _configured(item, items) if element not in result else None
        result[element] = {".": {}, **inside} if inside else {}
    return result


def compare(old: Any, new: Any, schema: Schema) -> tuple[FieldSet, FieldSet]:
    """The fields of `new` that `old` does not have or has otherwise, and the fields of `old` that are gone."""
    if old == new:
        return {}, {}
    changed, gone = _compared(old, new, schema)
    return changed or {}, gone or {}


def with_named_fields(fields: FieldSet, schema: Schema) -> FieldSet:
    """The set with each described field on the way to a member made a member; list elements and map keys are not."""
    result = {}
    for element, node in fields.items():
        if element[:2] == "f:":
            name = element[2:]
            lower = with_named_fields(node, child_schema(schema, name))
            if node and "." not in node and name in schema.properties:
                lower = {".": {}, **lower}
            result[element] = lower
        else:
            result[element] = with_named_fields(node, schema.items or ANYTHING)
    return result


def check_configuration(value: Any, schema: Schema, path: Path = ()) -> None:
    """Refuse a configuration with ambiguous fields: wrong containers, double or keyless elements.

    The types of scalars and unknown fields are for those who check whole objects.
    """
    if value is None:
        return
    if isinstance(value, dict):
        if schema.type not in {"", "object"} or schema.format:
            raise BadRequest(f"{shown(path)}: expected {_expected(schema)}, got an object")
        for name, child in value.items():
            check_configuration(child, child_schema(schema, name), (*path, f"f:{name}"))
    elif isinstance(value, list):
        if schema.type not in {"", "array"} or schema.format:
            raise BadRequest(f"{shown(path)}: expected {_expected(schema)}, got a list")
        _check_items(value, schema, path)
    elif schema.type in {"object", "array"}:
        raise BadRequest(f"{shown(path)}: expected {_expected(schema)}, got {spelled(value)}")


def _check_items(values: list[Any], schema: Schema, path: Path) -> None:
    items = schema.items or ANYTHING
    seen = set()
    for index, item in enumerate(values):
        element = f"i:{index}"
        if schema.list_type != "atomic":
            try:
                element = element_of(item, schema)
            except ValueError as error:
                raise BadRequest(f"{shown(path)}: element {index}: {error}") from error
            if element in seen:
                raise BadRequest(f"{shown(path)}: duplicate entries for key {shown((element,))}")
            seen.add(element)
        check_configuration(item, items, (*path, element))


def _expected(schema: Schema) -> str:
    return {"object": "an object", "array": "a list"}.get(schema.type) or schema.format or schema.type


def _configured(value: Any, schema: Schema) -> FieldSet | None:
    """The node of one declared value: `{}` for a field of its own, `None` for a container with no field in it."""
    if type(value) is dict:
        if not value or schema.atomic:
            return {}
    elif type(value) is not list or schema.list_type == "atomic":
        return {}
    return configured_fields(value, schema) or None


def _compared(old: Any, new: Any, schema: Schema) -> tuple[FieldSet | None, FieldSet | None]:
    """Two values that are not equal, as nodes; `None` where there is no difference of that kind.

    `null` is an empty container where a container stands on the other side.
    """
    old_type, new_type = type(old), type(new)
    if old_type is dict or new_type is dict:
        if (old is None or old_type is dict) and (new is None or new_type is dict):
            if schema.atomic or (not old and not new):
                return {}, None
            return _compared_maps(old or {}, new or {}, schema)
    elif old_type is list or new_type is list:
        if (old is None or old_type is list) and (new is None or new_type is list):
            if schema.list_type == "atomic" or (not old and not new):
                return {}, None
            return _compared_lists(old or [], new or [], schema)
    else:
        return {}, None
    # One kind of value instead of another: what was in the old one is gone, and the new one is written as a whole.
    inside = {element: node for element, node in all_fields(old, schema).items() if element != "."}
    return all_fields(new, schema), inside or None


def _compared_maps(old: dict[str, Any], new: dict[str, Any], schema: Schema) -> tuple[FieldSet | None, FieldSet | None]:
    changed: FieldSet = {}
    gone: FieldSet = {}
    for name, theirs in new.items():
        ours = old.get(name, _MISSING)
        if ours is theirs:
            continue
        if ours is _MISSING:
            changed[f"f:{name}"] = all_fields(theirs, child_schema(schema, name))
        elif ours != theirs:
            more, less = _compared(ours, theirs, child_schema(schema, name))
            if more is not None:
                changed[f"f:{name}"] = more
            if less is not None:
                gone[f"f:{name}"] = less
    for name, ours in old.items():
        if name not in new:
            gone[f"f:{name}"] = all_fields(ours, child_schema(schema, name))
    return changed or None, gone or None


def _compared_lists(old: list[Any], new: list[Any], schema: Schema) -> tuple[FieldSet | None, FieldSet | None]:
    changed: FieldSet = {}
    gone: FieldSet = {}
    items = schema.items or ANYTHING
    ours_by_element, theirs_by_element = _indexed(old, schema), _indexed(new, schema)
    for element, theirs in theirs_by_element.items():
        ours = ours_by_element.get(element)
        if ours == theirs:
            continue
        if len(theirs) > 1:
            changed[element] = {}
            if ours and len(ours) == 1:
                gone[element] = all_fields(ours[0], items)
        elif ours is None or len(ours) > 1:
            changed[element] = all_fields(theirs[0], items)
            if ours:
                gone[element] = {}
        else:
            more, less = _compared(ours[0], theirs[0], items)
            if more is not None:
                changed[element] = more
            if less is not None:
                gone[element] = less
    for element, ours in ours_by_element.items():
        if element not in theirs_by_element:
            gone[element] = all_fields(ours[0], items) if len(ours) == 1 else {}
    return changed or None, gone or None


def _indexed(values: list[Any], schema: Schema) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for element, item in elements(values, schema):
        found.setdefault(element, []).append(item)
    return found
