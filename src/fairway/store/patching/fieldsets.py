"""Sets of field paths, as `managedFields` writes them (`FieldsV1`), and the algebra on them.

A set *is* the JSON that stands in `fieldsV1`: nested dicts, one level per path element. An element is

    f:replicas              a field or a key of a map
    k:{"name":"main"}       an element of a list that is matched by key fields (sorted by name)
    v:"example.com/hold"    an element of a list of distinct scalars
    i:3                     a position

and what it leads to is a node: `{}` is a member with nothing below, `{".": {}, …}` a member with members below, any
other dict is only a way to the members below. So nothing has to be parsed or written where ownership is counted on
every write. Sets are never changed in place, and results share parts with the arguments.

What belongs here is paths and nothing else: what a value or a schema has to do with them is in `comparing`.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from fairway.errors import BadRequest

FieldSet: TypeAlias = dict[str, Any]
"""Element to node. The empty dict is the empty set (while an empty *node* is a member)."""

Path: TypeAlias = tuple[str, ...]
"""Elements from the root, such as `("f:spec", "f:replicas")`."""

_MAX_DEPTH = 200
"""No schema is that deep; a deeper set was made to exhaust the stack."""

_ESCAPED_BY_GO = "<>&\u2028\u2029"

_KINDS = "fkvi"
"""The order of elements in a listing, as API servers have it."""


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths that are in either."""
    if not right:
        return left
    if not left:
        return right
    result = dict(left)
    for element, theirs in right.items():
        ours = result.get(element)
        result[element] = theirs if ours is None else _united(ours, theirs)
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths of `left` that are not in `right`; what is below a path of `right` stays. `left` itself if all are."""
    result = left
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None:
            continue
        rest = _reduced(ours, theirs)
        if rest is ours:
            continue
        if result is left:
            result = left.copy()
        if rest is None:
            del result[element]
        else:
            result[element] = rest
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths that are in both."""
    result = {}
    for element, ours in left.items():
        theirs = right.get(element)
        common = None if theirs is None else _common(ours, theirs)
        if common is not None:
            result[element] = common
    return result


def without_prefixes(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths of `left` that neither are in `right` nor lie below a path that is."""
    result = {}
    for element, ours in left.items():
        theirs = right.get(element)
        if theirs is None:
            result[element] = ours
        elif theirs and "." not in theirs:
            rest = without_prefixes(ours, theirs)
            if rest or not ours:
                result[element] = rest
    return result


def contains(fields: FieldSet, path: Path) -> bool:
    """Whether this very path is in the set."""
    node: Any = fields
    for element in path:
        node = node.get(element)
        if node is None:
            return False
    return bool(path) and is_member(node)


def is_member(node: FieldSet) -> bool:
    """Whether the path that leads to this node is itself in the set."""
    return not node or "." in node


def covers(left: FieldSet, right: FieldSet) -> bool:
    """Whether every path of `right` is in `left`."""
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None:
            return False
        if theirs:
            if not covers(ours, theirs):
                return False
        elif ours and "." not in ours:
            return False
    return True


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Every path: at each level first those that end there, then those that go deeper, each in the order of names."""
    elements = sorted((element for element in fields if element != "."), key=_order)
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
        if fields[element]:
            yield from paths(fields[element], (*prefix, element))


def parse(data: object) -> FieldSet:
    """A set that came from outside: checked, each element in its one spelling."""
    if not isinstance(data, dict):
        raise BadRequest(f"fieldsV1: expected an object, got {type(data).__name__}")
    result = _parsed(data, 0)
    result.pop(".", None)
    return result


def shown(path: Path) -> str:
    """A path as Kubernetes shows it to people: `.spec.containers[name="main"].image`."""
    return "".join(map(_shown, path))


def value_element(value: object) -> str:
    """The element for a member of a list of distinct scalars."""
    return f"v:{spelled(value)}"


def key_element(keys: dict[str, Any]) -> str:
    """The element for a member of a list that is matched by key fields."""
    return f"k:{{{','.join([f'{spelled(name)}:{spelled(keys[name])}' for name in sorted(keys)])}}}"


@lru_cache(maxsize=8192)
def single_key_element(name: str, value: str) -> str:
    """`key_element` for one key field that is a string: nearly all lists, with few different values."""
    return f"k:{{{spelled(name)}:{spelled(value)}}}"


def spelled(value: object) -> str:
    """A scalar as JSON, in the spelling that Go's encoder has."""
    if type(value) is not str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    text = encode_basestring(value)
    for character in _ESCAPED_BY_GO:
        if character in text:
            text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _united(left: FieldSet, right: FieldSet) -> FieldSet:
    if left == right:
        return left
    if not left:
        return right if "." in right else {".": {}, **right}
    if not right:
        return left if "." in left else {".": {}, **left}
    return union(left, right)


def _reduced(left: FieldSet, right: FieldSet) -> FieldSet | None:
    """A node without what is in another: itself if it has nothing of that, `None` if nothing is left of it."""
    rest = difference(left, right)
    if is_member(right):
        if not left or rest.keys() == {"."}:
            return None
        if "." in rest:
            rest = {element: node for element, node in rest.items() if element != "."}
        return rest or None
    if rest.keys() == {"."}:
        return {}
    return rest if rest or not left else None


def _common(left: FieldSet, right: FieldSet) -> FieldSet | None:
    itself = is_member(left) and is_member(right)
    children = {}
    for element, ours in left.items():
        theirs = None if element == "." else right.get(element)
        common = None if theirs is None else _common(ours, theirs)
        if common is not None:
            children[element] = common
    if itself:
        return {".": {}, **children} if children else {}
    return children or None


def _parsed(data: dict[Any, Any], depth: int) -> FieldSet:
    if depth > _MAX_DEPTH:
        raise BadRequest(f"fieldsV1: deeper than {_MAX_DEPTH} levels")
    result: FieldSet = {}
    for element, node in data.items():
        if not isinstance(node, dict):
            raise BadRequest(f"fieldsV1: expected an object below {element!r}")
        if element == ".":
            result["."] = {}
        else:
            result[_canonical(element)] = _parsed(node, depth + 1)
    return {} if result.keys() == {"."} and depth else result


def _canonical(element: str) -> str:
    kind, separator, content = element[:1], element[1:2], element[2:]
    if separator != ":" or kind not in _KINDS:
        raise BadRequest(f"fieldsV1: {element!r} is no path element")
    if kind == "f":
        return element
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"fieldsV1: {element!r} is no path element") from error
    if kind == "k":
        if not isinstance(value, dict):
            raise BadRequest(f"fieldsV1: {element!r} needs an object of key fields")
        return key_element(value)
    if kind == "i" and type(value) is not int:
        raise BadRequest(f"fieldsV1: {element!r} needs a position")
    return f"{kind}:{spelled(value)}"


def _order(element: str) -> tuple[int, str]:
    return _KINDS.find(element[0]), element


def _shown(element: str) -> str:
    kind, content = element[0], element[2:]
    if kind == "f":
        return f".{content}"
    if kind == "k":
        keys = json.loads(content)
        return f"[{','.join(f'{name}={_for_people(value)}' for name, value in keys.items())}]"
    if kind == "v":
        return f"[={_for_people(json.loads(content))}]"
    return f"[{content}]"


def _for_people(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
