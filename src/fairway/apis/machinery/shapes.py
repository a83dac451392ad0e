"""From loose data to typed values: does it have the shape of the type, and if not, where and why not.

Good data takes the fast way, one `msgspec.convert`. Only if that refuses is the data walked beside its type. The walk
finds every mistake, not only the first, with its path, its value and what was expected. It also takes what Kubernetes
takes although it is not exact: `null` for what is not set, and `3.0` for `3`.

Limits of lengths and numbers are not shape; `validation` checks those on the typed value.
"""

import datetime as dt
import difflib
import math
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from fairway.apis.machinery import problems
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.structs import whole_seconds_utc
from fairway.errors import FieldError

_T = TypeVar("_T", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode

_CONTAINERS = frozenset({dict, list, tuple})
_PLAIN_SCALARS = frozenset({str, int, bool, type(None)})
_DEEPEST = 100
_NAMES_ARE_STRINGS = "field names must be strings; put quotes around it"


def read(data: object, expected: type[_T], path: str = "") -> tuple[_T | None, list[FieldError]]:
    """The data as a value of this type, or else all reasons why it is none."""
    value = read_exact(data, expected)
    if value is not None:
        return value, []
    errors: list[FieldError] = []
    cleaned = _walk(data, _type_info(expected), path, errors)
    if errors:
        return None, errors
    try:
        return msgspec.convert(cleaned, expected, dec_hook=_from_data), []
    except msgspec.ValidationError as error:
        # The walk should have found it; better a vague error than none.
        return None, [problems.wrong_type(path, data, str(error))]


def read_exact(data: object, expected: type[_T]) -> _T | None:
    """The data as a value of this type, if it has exactly its shape; parts of it may be values already."""
    try:
        return msgspec.convert(data, expected, dec_hook=_from_data)
    except msgspec.ValidationError:
        return None


def same(left: object, right: object) -> bool:
    """Whether two values are one and the same in JSON, too: to Python, `1`, `1.0` and `true` are equal."""
    return left is right or (left == right and _encode(left) == _encode(right))


def write(value: msgspec.Struct) -> dict[str, Any]:
    """The value as plain data, as the API writes it."""
    data: dict[str, Any] = _plain(msgspec.to_builtins(value, enc_hook=_to_data))
    return data


def _plain(data: Any) -> Any:
    """The data with lists where it has tuples, as JSON would read it."""
    if type(data) is dict:
        return {name: _plain(item) if type(item) in _CONTAINERS else item for name, item in data.items()}
    return [_plain(item) if type(item) in _CONTAINERS else item for item in data]


def not_json(data: object, path: str, depth: int = 0) -> list[FieldError]:
    """What JSON could not say in a part that is kept as written: YAML and Python can say more."""
    if isinstance(data, dict):
        if depth == _DEEPEST:
            return [problems.invalid(path, None, f"must not be nested more than {_DEEPEST} levels deep")]
        errors: list[FieldError] = []
        for name, item in data.items():
            if not isinstance(name, str):
                errors.append(problems.wrong_type(path, name, _NAMES_ARE_STRINGS))
            elif type(item) not in _PLAIN_SCALARS:
                errors += not_json(item, problems.child(path, name), depth + 1)
        return errors
    if isinstance(data, list | tuple):
        if depth == _DEEPEST:
            return [problems.invalid(path, None, f"must not be nested more than {_DEEPEST} levels deep")]
        return [
            error
            for position, item in enumerate(data)
            if type(item) not in _PLAIN_SCALARS
            for error in not_json(item, problems.index(path, position), depth + 1)
        ]
    if isinstance(data, float) and not math.isfinite(data):
        return [problems.invalid(path, str(data), "must be a finite number")]
    if data is None or isinstance(data, str | int | float | dt.date):
        return []
    return [problems.wrong_type(path, str(data), f"{_named(data)} cannot be written as JSON")]


def _from_data(expected: type, data: Any) -> Any:
    if expected is Quantity:
        return quantity(data)
    raise NotImplementedError(f"no way to read a {expected.__name__}")


def _to_data(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(f"no way to write a {type(value).__name__}")


def quantity(data: object) -> Quantity:
    """The quantity that a manifest says: a string or a whole number."""
    if isinstance(data, str):
        return Quantity.parse(data)
    if isinstance(data, float) and not data.is_integer():
        raise ValueError("must be a string or an integer; put quotes around a number with a fraction")
    if isinstance(data, int | float) and not isinstance(data, bool):
        return Quantity.parse(int(data))
    raise ValueError(f"must be a string or an integer, not {_named(data)}")


@cache
def _type_info(expected: Any) -> inspect.Type:
    return inspect.type_info(expected)


def _walk(data: Any, node: inspect.Type, path: str, errors: list[FieldError]) -> Any:
    """The data without what need not be said; appends to `errors` what is wrong with it."""
    while isinstance(node, inspect.Metadata):
        node = node.type
    if isinstance(node, inspect.UnionType):
        if data is None:
            return None
        return _walk(data, next(one for one in node.types if not isinstance(one, inspect.NoneType)), path, errors)
    if isinstance(node, inspect.StructType):
        return _walk_struct(data, node, path, errors)
    if isinstance(node, inspect.VarTupleType):
        if not isinstance(data, list | tuple):
            return _mismatch(data, "an array", path, errors)
        return [_walk(item, node.item_type, problems.index(path, i), errors) for i, item in enumerate(data)]
    if isinstance(node, inspect.DictType):
        if not _is_object(data, path, errors):
            return data
        return {
            name: _walk(item, node.value_type, problems.key(path, name), errors)
            for name, item in data.items()
            if item is not None or isinstance(node.value_type, inspect.AnyType)
        }
    return _walk_scalar(data, node, path, errors)


def _walk_struct(data: Any, node: inspect.StructType, path: str, errors: list[FieldError]) -> Any:
    if not _is_object(data, path, errors):
        return data
    fields = {field.encode_name: field for field in node.fields}
    cleaned = {}
    for name, item in data.items():
        if name not in fields:
            errors.append(unknown_field(problems.child(path, name), item, name, fields))
        elif item is not None:
            cleaned[name] = _walk(item, fields[name].type, problems.child(path, name), errors)
    errors.extend(
        problems.required(problems.child(path, name))
        for name, field in fields.items()
        if field.required and name not in cleaned
    )
    return cleaned


def unknown_field(path: str, value: object, name: str, known: Mapping[str, object]) -> FieldError:
    """The error for a field that the kind does not have, with the name that was probably meant."""
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return problems.unknown(path, value, f'did you mean "{folded[near[0]]}"?' if near else "")


def _walk_scalar(data: Any, node: inspect.Type, path: str, errors: list[FieldError]) -> Any:
    if isinstance(node, inspect.StrType):
        if not isinstance(data, str):
            return _mismatch(data, "a string", path, errors)
        if len(data) < (node.min_length or 0):
            errors.append(problems.invalid(path, data, "must not be empty; leave the field out instead"))
        return data
    if isinstance(node, inspect.IntType):
        return _walk_integer(data, node, path, errors)
    if isinstance(node, inspect.BoolType):
        return data if isinstance(data, bool) else _mismatch(data, "a boolean", path, errors)
    if isinstance(node, inspect.EnumType):
        return _walk_enum(data, node.cls, path, errors)
    if isinstance(node, inspect.DateTimeType):
        return _walk_time(data, path, errors)
    if isinstance(node, inspect.CustomType) and node.cls is Quantity:
        try:
            quantity(data)
        except ValueError as error:
            make = problems.invalid if isinstance(data, str) else problems.wrong_type
            errors.append(make(path, data, str(error)))
    return data


def _walk_integer(data: Any, node: inspect.IntType, path: str, errors: list[FieldError]) -> Any:
    if isinstance(data, float) and data.is_integer():
        data = int(data)
    if isinstance(data, bool) or not isinstance(data, int):
        return _mismatch(data, "an integer", path, errors)
    if node.ge is not None and node.le is not None and not node.ge <= data <= node.le:
        errors.append(problems.invalid(path, data, f"must be between {node.ge} and {node.le}"))
    return data


def _walk_enum(data: Any, cls: type[Enum], path: str, errors: list[FieldError]) -> Any:
    if not isinstance(data, str):
        return _mismatch(data, "a string", path, errors)
    supported = [str(member.value) for member in cls]
    if data not in supported:
        errors.append(problems.not_supported(path, data, supported))
    return data


def _walk_time(data: Any, path: str, errors: list[FieldError]) -> Any:
    if not isinstance(data, str | dt.datetime):
        return _mismatch(data, "a string with a time in it", path, errors)
    try:
        return whole_seconds_utc(msgspec.convert(data, dt.datetime))
    except (msgspec.ValidationError, ValueError):
        errors.append(problems.invalid(path, data, "must be a time in RFC 3339 form, such as 2026-01-02T03:04:05Z"))
    return data


def _is_object(data: object, path: str, errors: list[FieldError]) -> bool:
    if not isinstance(data, Mapping):
        _mismatch(data, "an object", path, errors)
        return False
    wrong = [name for name in data if not isinstance(name, str)]
    errors.extend(problems.wrong_type(path, name, _NAMES_ARE_STRINGS) for name in wrong)
    return not wrong


def _mismatch(data: Any, expected: str, path: str, errors: list[FieldError]) -> Any:
    errors.append(problems.wrong_type(path, data, f"must be {expected}, not {_named(data)}"))
    return data


def _named(data: object) -> str:
    names = ((bool, "a boolean"), (int, "an integer"), (float, "a number"), (str, "a string"))
    if data is None:
        return "null"
    if isinstance(data, Mapping):
        return "an object"
    if isinstance(data, list | tuple):
        return "an array"
    return next((name for kind, name in names if isinstance(data, kind)), f"a {type(data).__name__}")
