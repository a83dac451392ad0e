"""JSON Patch (RFC 6902): a list of operations, applied one after the other, all or none.

Two readings follow API servers instead of the letter of the RFC, because clients count on them: `replace` of a member
that an object does not have adds it, and `test` for `null` holds where nothing stands.

A patch that is not one at all is a `BadRequest`; a patch that this document cannot take is `Invalid`.
"""

from typing import Any

import msgspec

from fairway.errors import BadRequest, Invalid, TooLarge

MAX_OPERATIONS = 10_000

_MAX_CARRIED_NODES = 50_000
_MAX_CARRIED_BYTES = 3 << 20
"""`copy` can double a document each time. As in kube-apiserver, no more is copied than a body may hold."""

_MAX_SHIFTED = 50_000_000
"""Elements of lists that make room for others, or close up, in all operations together."""

_MAX_DEPTH = 200
"""How deep a patch may build: beyond that, others who walk the document would run out of stack."""

_WITH_VALUE = frozenset({"add", "replace", "test"})
_WITH_FROM = frozenset({"move", "copy"})
_END = "-"
"""The token for the place behind the last element."""

_MISSING: Any = object()

_encode = msgspec.json.Encoder(order="deterministic").encode


def json_patch(document: Any, operations: object) -> Any:
    """The document after all operations; the one given is not changed, and parts may be shared with it."""
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(f"a JSON patch has at most {MAX_OPERATIONS} operations, this one has {len(operations)}")
    patching = _Patching(document)
    for index, operation in enumerate(operations):
        if not isinstance(operation, dict):
            raise BadRequest(f"operation {index} of the JSON patch is not an object")
        patching.carry_out(operation, index)
    return patching.root


def same_json(left: Any, right: Any) -> bool:
    """JSON equality: unlike Python's, `true` is not 1."""
    # Large values are nearly always either different or the same to the letter, which needs no walk in Python.
    return left is right or (left == right and (_encode(left) == _encode(right) or _same(left, right)))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(child, right[key]) for key, child in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


class _Patching:
    """A document in the middle of being patched.

    Containers are copied once, on the way to the first change below them; `_own` remembers which are ours already.
    """

    def __init__(self, document: Any) -> None:
        self.root = document
        self._own: dict[int, Any] = {}
        self._carried_nodes = 0
        self._carried_bytes = 0
        self._shifted = 0

    def carry_out(self, operation: dict[str, Any], index: int) -> None:
        name = operation.get("op")
        if not isinstance(name, str):
            raise BadRequest(f"operation {index} of the JSON patch does not say which one it is")
        path = _pointer(operation, "path", index)
        value = operation.get("value", _MISSING)
        if name in _WITH_VALUE and value is _MISSING:
            raise BadRequest(f"operation {index} of the JSON patch ({name}) has no value")
        if name in _WITH_FROM:
            origin = _pointer(operation, "from", index)
            self._carry_from(name, origin, path)
        elif name == "test":
            self._test(path, value)
        elif name in {"add", "replace"}:
            self._put(path, value, replace=name == "replace")
        elif name == "remove":
            self._take(path)
        else:
            raise BadRequest(f"operation {index} of the JSON patch: unknown operation {name!r}")

    def _carry_from(self, name: str, origin: list[str], path: list[str]) -> None:
        if name == "move":
            if path[: len(origin)] == origin and len(path) > len(origin):
                raise Invalid(f"cannot move {_written(origin)} into itself")
            self._count(self._find(origin), len(path))
            if path != origin:
                self._put(path, self._take(origin), replace=False)
            return
        found = self._find(origin)
        self._count(found, len(path))
        # Copied as a whole: containers that are ours already must not stand at two places.
        self._put(path, _copied(found), replace=False)

    def _count(self, value: Any, depth: int) -> None:
        level = [value]
        while level:
            self._carried_nodes += len(level)
            self._carried_bytes += sum(len(node) for node in level if isinstance(node, str))
            if self._carried_nodes > _MAX_CARRIED_NODES or self._carried_bytes > _MAX_CARRIED_BYTES:
                raise TooLarge(
                    f"the JSON patch copies and moves too much: at most {_MAX_CARRIED_NODES} values and "
                    f"{_MAX_CARRIED_BYTES} bytes in all operations together"
                )
            if depth > _MAX_DEPTH:
                raise Invalid(f"the JSON patch would make the object deeper than {_MAX_DEPTH} levels")
            children: list[Any] = []
            for node in level:
                if isinstance(node, dict):
                    children.extend(node.values())
                elif isinstance(node, list):
                    children.extend(node)
            level = children
            depth += 1

    def _find(self, path: list[str]) -> Any:
        found = self.root
        for depth, token in enumerate(path):
            if isinstance(found, dict) and token in found:
                found = found[token]
            elif isinstance(found, list) and (position := _position(token, len(found) - 1)) is not None:
                found = found[position]
            else:
                raise Invalid(f"nothing stands at {_written(path[: depth + 1])}")
        return found

    def _test(self, path: list[str], value: Any) -> None:
        try:
            found = self._find(path)
        except Invalid:
            if value is None:
                return
            raise
        if not same_json(found, value):
            raise Invalid(f"the test of {_written(path)} failed: the value is another one")

    def _put(self, path: list[str], value: Any, *, replace: bool) -> None:
        if not path:
            self.root = value
            return
        parent = self._owned_parent(path)
        token = path[-1]
        if isinstance(parent, dict):
            parent[token] = value
            return
        if replace:
            position = _position(token, len(parent) - 1)
        else:
            position = len(parent) if token == _END else _position(token, len(parent))
        if position is None:
            raise Invalid(f"{_written(path)} is no position in a list of {len(parent)}")
        if replace:
            parent[position] = value
        else:
            self._shift(len(parent) - position)
            parent.insert(position, value)

    def _take(self, path: list[str]) -> Any:
        if not path:
            raise Invalid("cannot remove the whole document")
        parent = self._owned_parent(path)
        token = path[-1]
        if isinstance(parent, dict):
            if token not in parent:
                raise Invalid(f"nothing stands at {_written(path)}")
            return parent.pop(token)
        position = _position(token, len(parent) - 1)
        if position is None:
            raise Invalid(f"{_written(path)} is no position in a list of {len(parent)}")
        self._shift(len(parent) - position)
        return parent.pop(position)

    def _shift(self, elements: int) -> None:
        self._shifted += elements
        if self._shifted > _MAX_SHIFTED:
            raise TooLarge("the JSON patch inserts and removes too often near the beginning of long lists")

    def _owned_parent(self, path: list[str]) -> Any:
        """The container that holds the last token, with every container on the way ours to change."""
        self.root = parent = self._owned(self.root, [])
        for depth, token in enumerate(path[:-1]):
            here = path[: depth + 1]
            if isinstance(parent, dict):
                if token not in parent:
                    raise Invalid(f"nothing stands at {_written(here)}")
                parent[token] = parent = self._owned(parent[token], here)
            else:
                position = _position(token, len(parent) - 1)
                if position is None:
                    raise Invalid(f"{_written(here)} is no position in a list of {len(parent)}")
                parent[position] = parent = self._owned(parent[position], here)
        return parent

    def _owned(self, container: Any, path: list[str]) -> Any:
        if id(container) in self._own:
            return container
        if not isinstance(container, dict | list):
            raise Invalid(f"nothing can stand below {_written(path)}, it is neither an object nor a list")
        copy = container.copy()
        self._own[id(copy)] = copy
        return copy


def _pointer(operation: dict[str, Any], member: str, index: int) -> list[str]:
    pointer = operation.get(member)
    if not isinstance(pointer, str):
        raise BadRequest(f"operation {index} of the JSON patch has no {member!r}")
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise BadRequest(f"operation {index} of the JSON patch: {pointer!r} does not begin with a slash")
    tokens = pointer[1:].split("/")
    if len(tokens) > _MAX_DEPTH:
        raise BadRequest(f"operation {index} of the JSON patch: {member!r} is deeper than {_MAX_DEPTH} levels")
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens]


def _written(path: list[str]) -> str:
    pointer = "".join(f"/{token.replace('~', '~0').replace('/', '~1')}" for token in path)
    return repr(pointer)


def _position(token: str, last: int) -> int | None:
    """The index that a token says, if it says one from 0 to `last`: digits alone, no leading zeros."""
    if not token.isascii() or not token.isdigit() or (token[0] == "0" and len(token) > 1) or len(token) > 9:
        return None
    position = int(token)
    return position if position <= last else None


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_copied(child) for child in value]
    return value
