"""Differences between the objects of a definition and those that exist.

Quantities are compared by value, Kueue's defaults count as said, and an object that would be empty counts as present:
a Cohort without a spec is the same as none. Labels alone are no difference: `apply` adopts such an object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from fairway.apis.fairway.quotas import QUOTA_LABEL
from fairway.apis.fairway.teams import LABEL as TEAM_LABEL
from fairway.apis.fairway.teams import ORGANIZATION_LABEL
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Format, Quantity

_AMOUNTS: Final = frozenset({"nominalQuota", "borrowingLimit", "lendingLimit", "weight"})
_BY_NAME: Final = frozenset(
    {"resources", "coveredResources", "values", "subjects", "resourceGroups", "admissionChecks"}
)
"""Lists whose order means nothing."""

_MEBI_NANOS: Final = (1 << 20) * 10**9
DEFAULTS: Final[Mapping[str, Manifest]] = {
    "ClusterQueue": {
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": "Never",
        },
        "stopPolicy": "None",
    },
    "LocalQueue": {"stopPolicy": "None"},
}
"""What Kueue sets in a spec where nothing is said; written out, because its schemas take long to load."""

_CONTENT: Final = ("spec", "roleRef", "subjects", "data")
_MARKS: Final = (QUOTA_LABEL, ORGANIZATION_LABEL, TEAM_LABEL)


class ObjectKey(NamedTuple):
    """One object of those that a definition is rendered into."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Action(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RELEASE = "release"
    """A namespace loses the definition's labels and stays with what is in it."""

    ADOPT = "adopt"
    """It is as defined; only the definition's labels are missing."""


class FieldDifference(NamedTuple):
    path: str
    live: Any
    """`None` where there is nothing."""

    defined: Any


class ObjectDifference(NamedTuple):
    key: ObjectKey
    action: Action
    fields: tuple[FieldDifference, ...] = ()
    blocked: str = ""
    """Why it cannot be done."""

    desired: Manifest | None = None
    live: Manifest | None = None

    @property
    def is_drift(self) -> bool:
        return self.action is not Action.ADOPT


Live = Mapping[ObjectKey, Manifest]


def key_of(manifest: Manifest) -> ObjectKey:
    metadata = manifest["metadata"]
    return ObjectKey(manifest["kind"], metadata.get("namespace", ""), metadata["name"])


def compare(desired: Sequence[Manifest], live: Live, name: str) -> list[ObjectDifference]:
    """How objects differ from the definition `name`: first what to create and change, then what to delete."""
    wanted = {key_of(one): one for one in desired}
    found = [one for key, manifest in wanted.items() if (one := difference(key, manifest, live.get(key), name))]
    gone = [key for key, manifest in live.items() if key not in wanted and owner(manifest) == name]
    order = ("LocalQueue", "RoleBinding", "ClusterQueue", "AdmissionCheck", "Cohort", "ResourceFlavor", "Namespace")
    gone.sort(key=lambda key: (order.index(key.kind), key))
    return [*found, *(extra(key, live[key]) for key in gone)]


def extra(key: ObjectKey, live: Manifest) -> ObjectDifference:
    """An object of the definition that is no longer in it."""
    action = Action.RELEASE if key.kind == "Namespace" else Action.DELETE
    return ObjectDifference(key, action, live=live)


def difference(key: ObjectKey, desired: Manifest, live: Manifest | None, name: str) -> ObjectDifference | None:
    """How one object differs; `None` if it does not."""
    if live is None:
        empty = key.kind == "Cohort" and not desired["spec"]
        return ObjectDifference(key, Action.ADOPT if empty else Action.CREATE, desired=desired)
    held = owner(live)
    fields = (*_labels(desired, live), *_content(desired, live))
    if held not in ("", name):
        blocked = f"it belongs to the definition {held!r}"
        return ObjectDifference(key, Action.UPDATE, fields, blocked, desired, live)
    if key.kind == "LocalQueue" and any(one.path == "spec.clusterQueue" for one in fields):
        other = live["spec"]["clusterQueue"]
        blocked = f"it leads to {other!r}, and a LocalQueue cannot change that: delete it first, or name another type"
        return ObjectDifference(key, Action.UPDATE, fields, blocked, desired, live)
    if fields:
        return ObjectDifference(key, Action.UPDATE, fields, desired=desired, live=live)
    return None if held else ObjectDifference(key, Action.ADOPT, desired=desired, live=live)


def owner(manifest: Manifest) -> str:
    """The definition that an object belongs to; empty for none."""
    return str((manifest["metadata"].get("labels") or {}).get(QUOTA_LABEL, ""))


def patch_of(one: ObjectDifference) -> Manifest:
    """The merge patch that makes the live object what is defined."""
    if one.desired is None or one.live is None:
        return {"metadata": {"labels": dict.fromkeys(_MARKS)}}
    patch: Manifest = {"metadata": {"labels": one.desired["metadata"]["labels"]}}
    for part in _CONTENT:
        if part in one.desired and any(field.path.partition(".")[0].partition("[")[0] == part for field in one.fields):
            patch[part] = _merge_patch(one.live.get(part), one.desired[part])
    return patch


def _merge_patch(live: Any, desired: Any) -> Any:
    if not isinstance(live, dict) or not isinstance(desired, dict):
        return desired
    gone = {name: None for name in live if name not in desired}
    return gone | {name: _merge_patch(live.get(name), value) for name, value in desired.items()}


def _labels(desired: Manifest, live: Manifest) -> Iterator[FieldDifference]:
    """Labels that were changed on an object of ours; on others they are what adoption adds."""
    if not owner(live):
        return
    wanted, has = desired["metadata"]["labels"], live["metadata"].get("labels") or {}
    for label in _MARKS[1:]:
        if wanted.get(label) != has.get(label):
            yield FieldDifference(f"metadata.labels[{label}]", has.get(label), wanted.get(label))


def _content(desired: Manifest, live: Manifest) -> Iterator[FieldDifference]:
    for part in _CONTENT:
        if part not in desired:
            continue
        has, wants = live.get(part) or {}, completed(desired)[part]
        if has != wants:  # most are written alike, which is seen at once
            yield from _walk(part, _normal(has), _normal(wants), DEFAULTS.get(desired["kind"], {}))


def completed(manifest: Manifest) -> Manifest:
    """With Kueue's defaults."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict) or manifest["kind"] == "Namespace":
        return manifest
    return {**manifest, "spec": _filled(spec, DEFAULTS.get(manifest["kind"], {}))}


def _filled(value: Manifest, base: Manifest) -> Manifest:
    return base | {
        name: _filled(part, base[name]) if isinstance(part, dict) and isinstance(base.get(name), dict) else part
        for name, part in value.items()
    }


def _normal(value: Any, name: str = "") -> Any:
    """Equal for equal meaning: amounts by value, lists without an order sorted, nothing empty."""
    if isinstance(value, dict):
        parts = {key: _normal(part, key) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in ({}, [], None)}
    if isinstance(value, list):
        items = [_normal(one) for one in value]
        return sorted(items, key=_sort_key) if name in _BY_NAME else items
    if name in _AMOUNTS:
        try:
            amount = Quantity.parse(value)
        except ValueError:
            return value
        binary = amount.nanos and not amount.nanos % _MEBI_NANOS
        return str(Quantity(amount.nanos, Format.BINARY_SI if binary else Format.DECIMAL_SI))
    return value


def _sort_key(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name") or value.get("coveredResources") or value)
    return str(value)


def _walk(path: str, live: Any, desired: Any, base: Any) -> Iterator[FieldDifference]:
    """The places where two values differ, as deep as both have the same shape."""
    if live == desired:
        return
    if isinstance(live, dict) and isinstance(desired, dict):
        for name in dict.fromkeys((*desired, *live)):
            default = base.get(name) if isinstance(base, dict) else None
            has, wants = live.get(name, default), desired.get(name, default)
            yield from _walk(f"{path}.{name}", has, wants, default)
    elif _named(live) and _named(desired) and [one["name"] for one in live] == [one["name"] for one in desired]:
        for has, wants in zip(live, desired, strict=True):
            yield from _walk(f"{path}[{wants['name']}]", has, wants, None)
    elif _groups(live) and _groups(desired) and len(live) == len(desired):
        for number, (has, wants) in enumerate(zip(live, desired, strict=True)):
            yield from _walk(f"{path}[{number}]", has, wants, None)
    else:
        yield FieldDifference(path, live, desired)


def _named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "name" in one for one in value)


def _groups(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and "coveredResources" in one for one in value)


def blocked_by_workloads(
    found: Iterable[ObjectDifference], held: Mapping[ObjectKey, int], used: Mapping[ObjectKey, Sequence[str]]
) -> list[ObjectDifference]:
    """The same, where an object that holds workloads or is used by others that stay is not deleted."""

    def checked(one: ObjectDifference) -> ObjectDifference:
        count, users = held.get(one.key, 0), used.get(one.key, ())
        if one.action not in (Action.DELETE, Action.RELEASE) or not (count or users):
            return one
        why = f"has {count} unfinished workload{'s' if count > 1 else ''}" if count else f"is used by {users[0]}"
        return one._replace(blocked=f"it stays, because it {why}")

    return [checked(one) for one in found]
