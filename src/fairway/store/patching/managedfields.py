"""Field ownership: `metadata.managedFields` after create, update and patch.

A write that changes a field owns it exclusively; a write that sends it unchanged keeps the owners; a removed field has
no owner. There is one entry for each manager, operation, version and subresource. This runs on
every write, so everything works on the JSON that is stored, shares what does not change, and looks only at what does.

Applied configurations are not handled here but in `apply`, on top of this.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from fairway.apis.machinery.contentcache import Familiar, written
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import BadRequest
from fairway.store.patching.comparing import all_fields, child_schema, compare
from fairway.store.patching.fieldsets import FieldSet, difference, parse, union, without_prefixes

Entry: TypeAlias = dict[str, Any]
"""One entry of `metadata.managedFields`; never changed in place."""

MAX_UPDATE_MANAGERS = 10
ANCIENT = "ancient-changes"

UNTRACKED_METADATA: Final = frozenset({
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
})  # fmt: skip
"""The server's own part of an object, which no client can own."""

_POD_SPEC: Final[Mapping[str, Any]] = {"containers": None}
_FRESH: Final[Mapping[str, Mapping[str, Any]]] = {
    "io.k8s.api.batch.v1.Job": {"spec": {"template": {"metadata": {}, "spec": _POD_SPEC}}, "status": {}},
    "io.k8s.api.coordination.v1.Lease": {"spec": {}},
    "io.k8s.api.core.v1.Event": {
        "involvedObject": {}, "source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None,
        "reportingComponent": "", "reportingInstance": "",
    },
    "io.k8s.api.core.v1.Namespace": {"spec": {}, "status": {}},
    "io.k8s.api.core.v1.Node": {"spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {}}, "nodeInfo": {}}},
    "io.k8s.api.core.v1.Pod": {"spec": _POD_SPEC, "status": {}},
    "io.k8s.api.scheduling.v1.PriorityClass": {"value": 0},
}  # fmt: skip
"""What an object of a built-in kind has before the first write, so that these parts have no owner.
Custom kinds begin with nothing."""

_TYPE_FIELDS: Final = frozenset({"apiVersion", "kind"})

_specs: Final[dict[Schema, Familiar[FieldSet]]] = {}
"""By the schema of a kind: the fields of new objects' specs."""


@dataclass(slots=True)
class Versions:
    """How to see an object in another version; without, all versions are taken to have the same fields."""

    schema_for: Callable[[str], Schema]
    """By `apiVersion`; raises `LookupError` for one that is not served (any more)."""

    convert: Callable[[Manifest, str], Manifest]
    """Only asked for versions that `schema_for` knows, and other than the object's own."""

    def schema(self, version: str) -> Schema | None:
        """`None` for a version that is not served."""
        try:
            return self.schema_for(version)
        except LookupError:
            return None

    def seen(self, manifest: Manifest, version: str) -> Manifest:
        """The object in this version, which must be served."""
        return manifest if manifest["apiVersion"] == version else self.convert(manifest, version)


@dataclass(slots=True)
class Comparisons:
    """How an object changes by one write, in each version that has managedFields entries."""

    old: Manifest
    new: Manifest
    version: str
    """The one that `old` and `new` are in."""

    schema: Schema
    versions: Versions | None = None
    reset: FieldSet = field(default_factory=dict)
    """Fields that this write cannot change, whatever it sends."""

    _found: dict[str, tuple[FieldSet, FieldSet] | None] = field(default_factory=dict)

    def in_version(self, version: str) -> tuple[FieldSet, FieldSet] | None:
        """The changed and the vanished fields; `None` if there is no such version."""
        if self.versions is None:
            version = self.version
        if version not in self._found:
            self._found[version] = self._compared(version)
        return self._found[version]

    def _compared(self, version: str) -> tuple[FieldSet, FieldSet] | None:
        if version == self.version or self.versions is None:
            changed, gone = compare_objects(self.old, self.new, self.schema)
        else:
            schema = self.versions.schema(version)
            if schema is None:
                return None
            old, new = self.versions.convert(self.old, version), self.versions.convert(self.new, version)
            changed, gone = compare_objects(old, new, schema)
        if self.reset:
            return without_prefixes(changed, self.reset), without_prefixes(gone, self.reset)
        return changed, gone


def after_write(  # noqa: PLR0913 - one write, described
    old: Manifest | None,
    new: Manifest,
    *,
    schema: Schema,
    manager: str,
    subresource: str,
    api_version: str,
    now: str,
    reset: FieldSet | None = None,
    versions: Versions | None = None,
) -> list[Entry]:
    """`metadata.managedFields` of `new`, which `manager` is about to write over `old` (`None`: to create).

    Both are in `api_version`. `reset` are fields that this write cannot change and does not own, such as
    `{"f:status": {}}` for a kind whose status is a door of its own. With `versions`, entries of other versions are
    judged in their own version, and dropped where that is not served.

    The list is the one of `old` itself if nothing changes. An object whose ownership was reset stays without, until
    the next apply.
    """
    if old is None and not reset and versions is None:
        taken = _fields_of_new(new, schema)
        entry = new_entry(manager, "Update", api_version, now, subresource)
        return [{**entry, "fieldsV1": taken}] if taken else []
    before = _entries_to_start_from(old, new, subresource)
    if old is None:
        old = fresh(schema)
    elif not before:
        return before
    comparisons = Comparisons(old, new, api_version, schema, versions, reset or {})
    found = comparisons.in_version(api_version)
    changed = found[0] if found else {}
    entries = without_lost_fields(before, comparisons)
    if changed:
        entries = _with_taken(entries, changed, new_entry(manager, "Update", api_version, now, subresource))
        if len(entries) > 1:
            entries = sorted(_capped(entries), key=order)
    return before if entries == before else entries


def fresh(schema: Schema) -> Manifest:
    """An object of this kind before the first write."""
    return dict(_FRESH.get(schema.name, {}))


def _fields_of_new(new: Manifest, schema: Schema) -> FieldSet:
    """The fields of a new object that are its creator's; those of a spec that came before are known."""
    before, spec = fresh(schema), new.get("spec")
    data = written(spec) if type(spec) is dict else None
    if data is None:
        return compare_objects(before, new, schema)[0]
    known = _specs.setdefault(schema, Familiar())
    of_spec = known.get(data, spec)
    if of_spec is None:
        of_spec = _fields_of_part("spec", spec, before, schema)
        known.keep(data, spec, of_spec)
    taken: FieldSet = {}
    for name, part in new.items():
        if name == "spec":
            taken |= of_spec
        elif name == "metadata":
            taken |= fields_of_metadata(part, schema)
        elif name not in _TYPE_FIELDS:
            taken |= _fields_of_part(name, part, before, schema)
    return taken


def _fields_of_part(name: str, part: Any, before: Manifest, schema: Schema) -> FieldSet:
    return compare({name: before[name]} if name in before else {}, {name: part}, schema)[0]


def fields_of_metadata(metadata: dict[str, Any], schema: Schema) -> FieldSet:
    """The fields of a new object's metadata that are its creator's; `schema` is that of the whole object."""
    described = child_schema(schema, "metadata")
    owned = {
        f"f:{name}": all_fields(part, child_schema(described, name))
        for name, part in metadata.items()
        if name not in UNTRACKED_METADATA
    }
    return {"f:metadata": owned} if owned else {}


def compare_objects(old: Manifest, new: Manifest, schema: Schema) -> tuple[FieldSet, FieldSet]:
    """The changed and the removed fields between two states of an object, as far as they can have owners."""
    return compare(_tracked(old), _tracked(new), schema)


def without_lost_fields(entries: list[Entry], comparisons: Comparisons) -> list[Entry]:
    """The entries without the fields that the write changes or removes; those that are left with none are dropped."""
    result = []
    for entry in entries:
        found = comparisons.in_version(entry["apiVersion"])
        if found is None:
            continue
        fields = entry["fieldsV1"]
        rest = difference(difference(fields, found[0]), found[1])
        if rest is fields:
            result.append(entry)
        elif rest:
            result.append({**entry, "fieldsV1": rest})
    return result


def new_entry(manager: str, operation: str, api_version: str, time: str, subresource: str) -> Entry:
    """An entry without fields yet; its parts in the order that API servers have."""
    entry: Entry = {"manager": manager, "operation": operation, "apiVersion": api_version}
    if time:
        entry["time"] = f"{time.partition('.')[0]}Z" if "." in time else time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": {}}
    if subresource:
        entry["subresource"] = subresource
    return entry


def identity(entry: Entry) -> tuple[str, str, str, str]:
    """The key of a manager's entry. Server-side apply has one entry per manager, whatever the version."""
    version = "" if entry["operation"] == "Apply" else entry["apiVersion"]
    return entry.get("manager", ""), entry["operation"], version, entry.get("subresource", "")


def order(entry: Entry) -> tuple[str, str, str, str, str]:
    return (
        entry["operation"], entry.get("time") or "", entry.get("manager", ""), entry["apiVersion"],
        entry.get("subresource", ""),
    )  # fmt: skip


def entries_of(manifest: Manifest | None) -> list[Entry]:
    """The managers of a stored object."""
    entries: list[Entry] | None = ((manifest or {}).get("metadata") or {}).get("managedFields")
    return entries or []


def _tracked(manifest: Manifest) -> Manifest:
    """The part of an object that can have owners; `metadata` as such has none, so it is always there."""
    result = {**manifest, "metadata": {}}
    result.pop("apiVersion", None)
    result.pop("kind", None)
    if metadata := manifest.get("metadata"):
        result["metadata"] = {name: value for name, value in metadata.items() if name not in UNTRACKED_METADATA}
    return result


def _entries_to_start_from(old: Manifest | None, new: Manifest, subresource: str) -> list[Entry]:
    """Those of `old`, unless the writer sends others on purpose. Nonsense is taken for ignorance, not for a purpose."""
    live = entries_of(old)
    if subresource or old is None:
        return live
    given = (new.get("metadata") or {}).get("managedFields")
    if given is None or given is live or given == live:
        return live
    if given in ([], [{}]):
        return []
    try:
        return _parsed(given)
    except BadRequest:
        return live


def _parsed(given: object) -> list[Entry]:
    if not isinstance(given, list):
        raise BadRequest("metadata.managedFields: expected a list")
    result = {}
    for entry in given:
        if not isinstance(entry, dict) or entry.get("operation") not in {"Apply", "Update"}:
            raise BadRequest("metadata.managedFields: operation must be Apply or Update")
        if entry.get("fieldsType") != "FieldsV1" or not _is_text(entry.get("apiVersion")):
            raise BadRequest("metadata.managedFields: fieldsType must be FieldsV1, apiVersion must not be empty")
        words = [entry.get(word) or "" for word in ("manager", "time", "subresource")]
        if not all(isinstance(word, str) for word in words):
            raise BadRequest("metadata.managedFields: manager, time and subresource must be strings")
        manager, time, subresource = words
        parsed = new_entry(manager, entry["operation"], entry["apiVersion"], time, subresource)
        parsed["fieldsV1"] = parse(entry.get("fieldsV1") or {})
        result[identity(parsed)] = parsed
    return sorted(result.values(), key=order)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _with_taken(entries: list[Entry], taken: FieldSet, template: Entry) -> list[Entry]:
    """The entries, with these fields in the one that `template` is for."""
    me = identity(template)
    for index, entry in enumerate(entries):
        if identity(entry) == me:
            mine = {**template, "fieldsV1": union(entry["fieldsV1"], taken)}
            return [*entries[:index], mine, *entries[index + 1 :]]
    return [*entries, {**template, "fieldsV1": taken}]


def _capped(entries: list[Entry]) -> list[Entry]:
    """At most so many entries of plain writes: the oldest ones of a version become one, without a name."""
    updates = [entry for entry in entries if entry["operation"] == "Update"]
    excess = len(updates) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    updates = sorted(updates, key=order)
    remaining = {identity(entry): entry for entry in entries}
    oldest: dict[str, Entry] = {}
    for entry in updates:
        version = entry["apiVersion"]
        if excess <= 0:
            break
        if version in oldest:
            older = oldest[version]
            bucket = new_entry(ANCIENT, "Update", version, entry.get("time") or "", "")
            bucket["fieldsV1"] = union(older["fieldsV1"], entry["fieldsV1"])
            del remaining[identity(older)], remaining[identity(entry)]
            if named := remaining.get(identity(bucket)):
                bucket["fieldsV1"] = union(bucket["fieldsV1"], named["fieldsV1"])
            remaining[identity(bucket)] = oldest[version] = bucket
            excess -= 1
        else:
            oldest[version] = entry
    return list(remaining.values())
