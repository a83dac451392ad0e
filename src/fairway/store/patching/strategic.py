"""Strategic merge patch: a merge patch with list merging and directives.

Lists whose schema has the merge strategy are merged element by element, those of objects by the merge key and those of
scalars by value; all other lists are replaced. Directives, all consumed here:

    $patch: replace | delete            in an object: take the patch instead; have none of it
    $patch: replace | delete            in an element: drop all other elements; drop the element with this merge key
    $retainKeys: [a, b]                 clear every other field of the object
    $setElementOrder/field: […]         the order of a merged list (of merge keys, or of scalars)
    $deleteFromPrimitiveList/field: […] take these scalars out of the list

Elements of the patch come in the order of the patch and, where the object had them already, stay on their side of the
elements that only the object has. A patch that cannot be understood is a `BadRequest`, one that this object's lists do
not allow is `Invalid`.
"""

from collections.abc import Callable
from typing import Any

from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import BadRequest, Invalid
from fairway.store.patching.comparing import ANYTHING, child_schema

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER_PREFIX = "$setElementOrder/"
_DELETE_PREFIX = "$deleteFromPrimitiveList/"

_DIRECTIVES = (_RETAIN_KEYS, _ORDER_PREFIX, _DELETE_PREFIX)

_NOTHING: Any = object()


def strategic_merge(document: dict[str, Any], patch: object, schema: Schema) -> dict[str, Any]:
    """The document with the patch laid over it by the strategies of its schema; neither argument is changed."""
    if not isinstance(patch, dict):
        raise BadRequest("a strategic merge patch is an object")
    return _merged(document, patch, schema)


def _merged(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    if _PATCH in patch:
        if patch[_PATCH] == "replace":
            return _without_directive(patch)
        if patch[_PATCH] == "delete":
            return {}
        if patch[_PATCH] != "merge":
            raise BadRequest(f"unknown $patch {patch[_PATCH]!r}: replace, delete or merge")
    result = _retained(original, patch)
    ordered = _merge_ordered_lists(result, patch, schema)
    for name, theirs in patch.items():
        if name in ordered or name in {_PATCH, _RETAIN_KEYS} or name.startswith(_ORDER_PREFIX):
            continue
        if name.startswith(_DELETE_PREFIX):
            _delete_scalars(result, name.removeprefix(_DELETE_PREFIX), theirs)
        elif theirs is None:
            result.pop(name, None)
        else:
            merged = _merged_value(result.get(name, _NOTHING), theirs, child_schema(schema, name))
            if merged is _NOTHING:
                result.pop(name, None)
            else:
                result[name] = merged
    return result


def _merged_value(ours: Any, theirs: Any, schema: Schema) -> Any:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return _plain(theirs) if _replaces(schema) else _merged(ours, theirs, schema)
    if isinstance(ours, list) and isinstance(theirs, list):
        return _merged_lists(ours, theirs, schema) if _merges(schema) else _plain(theirs)
    return _plain(theirs)


def _merges(schema: Schema) -> bool:
    return "merge" in schema.merge_strategy.split(",")


def _replaces(schema: Schema) -> bool:
    return "replace" in schema.merge_strategy.split(",")


def _retained(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A copy of the original, with the fields that the patch wants retained."""
    if _RETAIN_KEYS not in patch:
        return original.copy()
    keys = patch[_RETAIN_KEYS]
    if not isinstance(keys, list):
        raise BadRequest("$retainKeys is a list of field names")
    retained = {key for key in keys if isinstance(key, str)}
    for name, value in patch.items():
        if value is None or name.startswith("$") or name in retained:
            continue
        raise BadRequest(f"the patch sets {name!r}, which its $retainKeys does not have")
    return {name: value for name, value in original.items() if name in retained}


def _delete_scalars(result: dict[str, Any], name: str, scalars: object) -> None:
    if not isinstance(scalars, list):
        raise BadRequest(f"{_DELETE_PREFIX}{name} is a list of scalars")
    if isinstance(result.get(name), list):
        deleted = set(map(_scalar, scalars))
        result[name] = [item for item in result[name] if _scalar(item) not in deleted]


def _merge_ordered_lists(result: dict[str, Any], patch: dict[str, Any], schema: Schema) -> set[str]:
    """Merge, in `result`, the lists whose order the patch sets; tells their names."""
    done = set()
    for directive, order in patch.items():
        if not directive.startswith(_ORDER_PREFIX):
            continue
        name = directive.removeprefix(_ORDER_PREFIX)
        ours, theirs = result.get(name), patch.get(name)
        if not all(isinstance(part, list) for part in (order, ours or [], theirs or [])):
            raise BadRequest(f"{directive} is about a list")
        field = child_schema(schema, name)
        identify = _identify(field)
        if theirs is not None:
            _check_order(theirs, order, identify, directive)
            ours, merged = ours or [], _merged_value(_NOTHING if ours is None else ours, theirs, field)
        elif ours is not None:
            merged = ours
        else:
            continue
        result[name] = _ordered(merged, order, ours, identify)
        done.add(name)
    return done


def _check_order(theirs: list[Any], order: list[Any], identify: Callable[[Any], Any], directive: str) -> None:
    """The elements of the patch must be among those ordered, in that order."""
    wanted = [identify(item) for item in theirs if not (isinstance(item, dict) and _PATCH in item)]
    left = iter([identify(item) for item in order])
    if not all(key in left for key in wanted):
        raise BadRequest(f"the list in the patch does not follow its {directive}")


def _merged_lists(ours: list[Any], theirs: list[Any], schema: Schema) -> list[Any]:
    objects = sum(isinstance(item, dict) for item in [*ours, *theirs])
    if 0 < objects < len(ours) + len(theirs):
        raise Invalid("lists that are merged have either objects or scalars as elements, not both")
    identify = _identify(schema)
    if not objects:
        both = list({identify(item): item for item in [*ours, *theirs]}.values())
        return _ordered(both, theirs, ours, identify)
    if not schema.merge_key:
        raise Invalid("a list of objects without a merge key cannot be merged")
    directives = [item.get(_PATCH, "merge") for item in theirs]
    if not {"replace", "delete", "merge"}.issuperset(map(str, directives)):
        raise BadRequest("unknown $patch in an element of a list: replace, delete or merge")
    kept = [_without_directive(item) for item, word in zip(theirs, directives, strict=True) if word == "merge"]
    if "replace" in directives:
        return kept
    deleted = {identify(item) for item, word in zip(theirs, directives, strict=True) if word == "delete"}
    ours = [item for item in ours if identify(item) not in deleted]
    merged = ours.copy()
    positions: dict[Any, int] = {}
    for index, item in enumerate(merged):
        positions.setdefault(identify(item), index)
    for item in kept:
        position = positions.setdefault(identify(item), len(merged))
        if position < len(merged):
            merged[position] = _merged(merged[position], item, schema.items or ANYTHING)
        else:
            merged.append(_plain(item))
    return _ordered(merged, kept, ours, identify)


def _identify(schema: Schema) -> Callable[[Any], Any]:
    """How to tell elements of this list apart."""
    merge_key = schema.merge_key
    if not merge_key:
        return _scalar

    def by_merge_key(item: Any) -> Any:
        if not isinstance(item, dict) or merge_key not in item:
            raise Invalid(f"an element of a merged list does not have its merge key {merge_key!r}")
        return _scalar(item[merge_key])

    return by_merge_key


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise Invalid("an object or a list stands where lists are matched by scalars")
    return value


def _ordered(merged: list[Any], wanted: list[Any], original: list[Any], identify: Callable[[Any], Any]) -> list[Any]:
    """Elements that `wanted` has in its order, the others in the order of `original`, and both woven together.

    An element that only the original has goes first where the original has it in front of the next wanted one.
    """
    wanted_positions = _positions(wanted, identify)
    original_positions = _positions(original, identify)
    keyed = [(identify(item), item) for item in merged]
    ours = [(key, item) for key, item in keyed if key not in wanted_positions]
    theirs = [(key, item) for key, item in keyed if key in wanted_positions]
    theirs.sort(key=lambda pair: wanted_positions[pair[0]])
    result = []
    left = right = 0
    while left < len(ours) and right < len(theirs):
        mine, wish = original_positions.get(ours[left][0]), original_positions.get(theirs[right][0])
        if mine is not None and wish is not None and mine < wish:
            result.append(ours[left])
            left += 1
        else:
            result.append(theirs[right])
            right += 1
    return [item for _, item in [*result, *ours[left:], *theirs[right:]]]


def _positions(items: list[Any], identify: Callable[[Any], Any]) -> dict[Any, int]:
    positions: dict[Any, int] = {}
    for index, item in enumerate(items):
        positions.setdefault(identify(item), index)
    return positions


def _without_directive(patch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in patch.items() if name != _PATCH}


def _plain(patch: Any) -> Any:
    """A part of the patch where the object has nothing to merge it with: without directives and nulls."""
    if isinstance(patch, dict):
        if _PATCH in patch:
            return _NOTHING
        parts = ((name, _plain(value)) for name, value in patch.items() if value is not None)
        return {name: value for name, value in parts if value is not _NOTHING and not name.startswith(_DIRECTIVES)}
    if isinstance(patch, list):
        return [value for value in map(_plain, patch) if value is not _NOTHING]
    return patch
