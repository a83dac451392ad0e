"""Topology requests in the annotations of a pod template; they become the `topologyRequest` of the pod set."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairway.apis.machinery import problems
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.names import wrong_key
from fairway.apis.machinery.selectors import as_int64
from fairway.errors import FieldError
from fairway.integrations import names

TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The truth values that Go reads."""

_INT32: Final = 2**31


def topology_request(template: Mapping[str, Any], pod_index_label: str | None = None) -> Manifest | None:
    """The request of a valid pod template."""
    asked = (template.get("metadata") or {}).get("annotations") or {}
    request: Manifest = {}
    if names.REQUIRED_TOPOLOGY in asked:
        request["required"] = asked[names.REQUIRED_TOPOLOGY]
    elif names.PREFERRED_TOPOLOGY in asked:
        request["preferred"] = asked[names.PREFERRED_TOPOLOGY]
    elif names.UNCONSTRAINED_TOPOLOGY in asked:
        request["unconstrained"] = TRUTHS.get(asked[names.UNCONSTRAINED_TOPOLOGY], False)
    if names.SLICE_TOPOLOGY in asked and names.SLICE_SIZE in asked:
        request["podSetSliceRequiredTopology"] = asked[names.SLICE_TOPOLOGY]
        request["podSetSliceSize"] = as_int64(asked[names.SLICE_SIZE]) or 0
    layers = _layers(asked.get(names.SLICE_CONSTRAINTS))
    if layers:
        request["podsetSliceRequiredTopologyConstraints"] = layers
    if not request:
        return None
    if names.GROUP_NAME in asked and ("required" in request or "preferred" in request):
        request["podSetGroupName"] = asked[names.GROUP_NAME]
    if pod_index_label is not None:
        request["podIndexLabel"] = pod_index_label
    return request


class _Layer(msgspec.Struct, frozen=True):
    topology: str
    size: int


def _layers(text: str | None) -> list[Manifest]:
    """Slices within slices, as JSON: `[{"topology": "cloud/rack", "size": 4}]`; nothing of a text that is not that."""
    if text is None:
        return []
    try:
        found = msgspec.json.decode(text, type=list[_Layer])
    except msgspec.MsgspecError:
        return []
    return [{"topology": one.topology, "size": one.size} for one in found]


def is_placed(pod: Mapping[str, Any]) -> bool:
    """Whether admission decides on which nodes a pod may run."""
    asked = pod["metadata"].get("annotations") or {}
    return not _PLACED.isdisjoint(asked)


def wrong_topology(template: Mapping[str, Any], path: str, count: int) -> list[FieldError]:
    """What is wrong with the annotations of a template whose metadata is at `path`, for a pod set of `count` pods."""
    asked = (template.get("metadata") or {}).get("annotations") or {}
    if ASKED.isdisjoint(asked):
        return []
    where = problems.child(path, "annotations")
    errors = [
        *_wrong_levels(asked, where),
        *_wrong_group(asked, where),
        *_wrong_unconstrained(asked, where),
        *_wrong_slices(asked, where),
    ]
    return errors or _too_large_slices(asked, where, count)


def wrong_groups(placed: Sequence[tuple[str, Mapping[str, Any], int]]) -> list[FieldError]:
    """What is wrong with groups of pod sets to be placed together; of each, the path of its metadata, its template and
    its number of pods.
    """
    groups: dict[str, list[tuple[str, Manifest, int]]] = {}
    for path, template, count in placed:
        request = topology_request(template) or {}
        if "podSetGroupName" in request:
            where = problems.child(path, "annotations")
            groups.setdefault(request["podSetGroupName"], []).append((where, request, count))
    return [error for name, members in groups.items() for error in _wrong_members(name, members)]


def _wrong_members(name: str, members: Sequence[tuple[str, Manifest, int]]) -> list[FieldError]:
    keys = [problems.key(where, names.GROUP_NAME) for where, _, _ in members]
    if len(members) != _PAIR:
        rule = f"can only define groups of exactly {_PAIR} pod sets, got: {len(members)} pod set(s)"
        return [problems.invalid(key, name, rule) for key in keys]
    errors = []
    (here, one, count), (there, other, other_count) = members
    if count != 1 and other_count != 1:
        rule = (
            "can only define groups where at least one pod set has only 1 replica, got:"
            f" {count} replica(s) and {other_count} replica(s) in the group"
        )
        errors += [problems.invalid(key, name, rule) for key in keys]
    if any(one.get(level) != other.get(level) for level in ("required", "preferred")):
        levels = f"'{names.REQUIRED_TOPOLOGY}' or '{names.PREFERRED_TOPOLOGY}'"
        for path, consistent in ((here, there), (there, here)):
            rule = f"must specify {levels} topology consistent with '{consistent}' in group '{name}'"
            errors.append(problems.invalid(path, None, rule))
    return errors


_PAIR: Final = 2
_LEVELS: Final = (names.REQUIRED_TOPOLOGY, names.PREFERRED_TOPOLOGY, names.UNCONSTRAINED_TOPOLOGY)
_PLACED: Final = frozenset({*_LEVELS, names.SLICE_TOPOLOGY, names.SLICE_CONSTRAINTS})
ASKED: Final = frozenset({*_LEVELS, names.SLICE_TOPOLOGY, names.SLICE_SIZE, names.GROUP_NAME})
"""All annotations that say something about it."""


def _wrong_levels(asked: Mapping[str, str], where: str) -> list[FieldError]:
    errors = []
    if sum(key in asked for key in _LEVELS) > 1:
        quoted = ", ".join(f'"{key}"' for key in _LEVELS)
        rule = f"must not contain more than one topology annotation: [{quoted}]"
        errors.append(problems.invalid(where, None, rule))
    for key in (names.REQUIRED_TOPOLOGY, names.PREFERRED_TOPOLOGY, names.SLICE_TOPOLOGY):
        if key in asked:
            errors += wrong_key(asked[key], problems.key(where, key))
    return errors


def _wrong_group(asked: Mapping[str, str], where: str) -> list[FieldError]:
    group = asked.get(names.GROUP_NAME)
    if group is None:
        return []
    path = problems.key(where, names.GROUP_NAME)
    errors = []
    if group.isascii() and group.isdigit():
        errors.append(problems.invalid(path, group, "must not be a number"))
    errors += [
        problems.forbidden(path, group, f"may not be set when '{key}' is specified")
        for key in (names.SLICE_SIZE, names.SLICE_TOPOLOGY)
        if key in asked
    ]
    if names.PREFERRED_TOPOLOGY not in asked and names.REQUIRED_TOPOLOGY not in asked:
        neither = f"neither '{names.PREFERRED_TOPOLOGY}' nor '{names.REQUIRED_TOPOLOGY}'"
        errors.append(problems.forbidden(path, group, f"may not be set when {neither} is specified"))
    return errors


def _wrong_unconstrained(asked: Mapping[str, str], where: str) -> list[FieldError]:
    text = asked.get(names.UNCONSTRAINED_TOPOLOGY)
    if text is None or text in TRUTHS:
        return []
    return [problems.invalid(problems.key(where, names.UNCONSTRAINED_TOPOLOGY), text, "must be a boolean value")]


def _wrong_slices(asked: Mapping[str, str], where: str) -> list[FieldError]:
    path = problems.key(where, names.SLICE_SIZE)
    size = asked.get(names.SLICE_SIZE)
    if size is None:
        if names.SLICE_TOPOLOGY not in asked:
            return []
        return [problems.required(path, f"must be set when '{names.SLICE_TOPOLOGY}' is specified")]
    errors = []
    number = as_int64(size)
    if number is None or not -_INT32 <= number < _INT32:
        errors.append(problems.invalid(path, size, "must be a numeric value"))
    elif number < 1:
        errors.append(problems.invalid(path, size, "must be greater than or equal to 1"))
    if names.SLICE_TOPOLOGY not in asked:
        rule = f"may not be set when '{names.SLICE_TOPOLOGY}' is not specified"
        errors.append(problems.forbidden(path, size, rule))
    return errors


def _too_large_slices(asked: Mapping[str, str], where: str, count: int) -> list[FieldError]:
    size = asked.get(names.SLICE_SIZE)
    if size is None or (as_int64(size) or 0) <= count:
        return []
    rule = f"must not be greater than pod set count {count}"
    return [problems.invalid(problems.key(where, names.SLICE_SIZE), size, rule)]
