"""Server-side apply: a manager declares the fields that it wants, and the object follows.

Declared fields are merged into the object, and the manager owns them. A field that another manager owns with another
value is a conflict, unless forced; with the same value, both own it. A field that the manager declared last time and no
longer declares is removed, unless another manager owns it. Everything else stays as it is. The rules are those of
Kubernetes' structured merge; ownership that is recorded in another version of the kind is judged in that version.

Defaults are not set here: a default has no owner until a client writes it, so the caller sets defaults afterwards.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import BadRequest
from fairway.store.patching.comparing import check_configuration, configured_fields
from fairway.store.patching.conflicts import ApplyConflict, FieldConflict
from fairway.store.patching.fieldsets import FieldSet, contains, difference, intersection, paths, union
from fairway.store.patching.jsonpatch import same_json
from fairway.store.patching.managedfields import (
    UNTRACKED_METADATA,
    Comparisons,
    Entry,
    Versions,
    compare_objects,
    entries_of,
    fresh,
    identity,
    new_entry,
    order,
    without_lost_fields,
)
from fairway.store.patching.merging import structured_merge, without_fields, without_nulls
from fairway.store.patching.pruning import without_given_up

BEFORE_FIRST_APPLY = "before-first-apply"
"""The manager of everything in an object whose ownership was not tracked until now."""

CLIENT_SIDE_APPLIER = "kubectl"
"""The manager that may take over what it applied from the client's side before."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

_UNTRACKED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{f"f:{name}": {} for name in UNTRACKED_METADATA}},
}


_IDENTITY: Final[FieldSet] = {"f:metadata": {"f:name": {}}}
"""What keeps `metadata` in place when everything else in it is given up."""


def apply(  # noqa: PLR0913 - one request, described
    live: Manifest | None,
    applied: Manifest,
    *,
    schema_for: Callable[[str], Schema],
    convert: Callable[[Manifest, str], Manifest],
    manager: str,
    force: bool,
    subresource: str,
    now: str,
    reset: FieldSet | None = None,
) -> Manifest:
    """The object after `manager` applied this configuration to `live` (`None`: there is no such object yet).

    Both are in the version of the request. `reset` are fields that this request cannot set, such as
    `{"f:status": {}}`; they are left out of the configuration. `schema_for` raises `LookupError` for a version that is
    not served, and ownership recorded in one is dropped. Raises `ApplyConflict`, and `BadRequest` for a configuration
    that is none. Gives `live` itself back if nothing changes.
    """
    version = str(applied.get("apiVersion", ""))
    if live is not None and live.get("apiVersion") != version:
        raise BadRequest(f"the configuration is for version {version!r}, the object is in {live.get('apiVersion')!r}")
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    schema = schema_for(version)
    try:
        check_configuration(applied, schema)
    except BadRequest as error:
        raise BadRequest(f"failed to create typed patch object ({_title(applied)}): {error.message}") from error
    request = _Request(
        config=without_fields(applied, reset or {}, schema), version=version, schema=schema,
        versions=Versions(schema_for, convert), manager=manager, subresource=subresource, now=now,
    )  # fmt: skip
    if live is None:
        result = request.on_nothing()
    else:
        entries = entries_of(live) or request.untracked_until_now(live)
        try:
            result = request.on(live, entries, force=force)
        except ApplyConflict as conflict:
            if manager != CLIENT_SIDE_APPLIER:
                raise
            if conflicts := _still_conflicting(conflict, live, schema):
                raise ApplyConflict(conflicts) from None
            result = request.on(live, entries, force=True)
    return _with_last_applied(result, applied) if manager == CLIENT_SIDE_APPLIER else result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    config: Manifest
    version: str
    schema: Schema
    versions: Versions
    manager: str
    subresource: str
    now: str

    def on_nothing(self) -> Manifest:
        merged: Manifest = without_nulls(self.config, self.config, self.schema)
        mine = self._mine(self._declared(), time=self.now)
        return _with_entries(merged, [mine] if mine["fieldsV1"] else [])

    def on(self, live: Manifest, entries: list[Entry], *, force: bool) -> Manifest:
        declared = self._declared()
        mine = self._mine(declared, time=self.now)
        last = next((entry for entry in entries if identity(entry) == identity(mine)), None)
        others = [entry for entry in entries if entry is not last]
        unmanaged = _with_entries(live, None)
        merged: Manifest = structured_merge(unmanaged, self.config, self.schema)
        if last is not None:
            wanted = {**mine, "fieldsV1": union(declared, _IDENTITY)}
            pruned = without_given_up(merged, last, [*others, wanted], self.versions)
            if pruned is not merged:
                # Empty containers are no fields, so they went with what was around them; but they are declared.
                merged = structured_merge(pruned, self.config, self.schema)
        comparisons = Comparisons(unmanaged, merged, self.version, self.schema, self.versions)
        conflicts = [] if force else _conflicts(others, comparisons)
        if conflicts:
            raise ApplyConflict(conflicts)
        unchanged = same_json(unmanaged, merged)
        if unchanged:
            mine = self._mine(declared, time=(last or {}).get("time") or "")
        entries = without_lost_fields(others, comparisons)
        if mine["fieldsV1"]:
            entries.append(mine)
        entries.sort(key=order)
        result = without_nulls(merged, self.config, self.schema)
        if result is not merged:
            unchanged = same_json(unmanaged, result)
        if unchanged and _without_times(entries) == _without_times(entries_of(live)):
            return live
        return _with_entries(result, entries)

    def untracked_until_now(self, live: Manifest) -> list[Entry]:
        """The entry for all that is in an object without owners; none if there is nothing to own."""
        fields, _ = compare_objects(fresh(self.schema), live, self.schema)
        entry = new_entry(BEFORE_FIRST_APPLY, "Update", self.version, self.now, self.subresource)
        return [{**entry, "fieldsV1": fields}] if fields else []

    def _declared(self) -> FieldSet:
        return configured_fields(self.config, self.schema)

    def _mine(self, declared: FieldSet, *, time: str) -> Entry:
        entry = new_entry(self.manager, "Apply", self.version, time, self.subresource)
        return {**entry, "fieldsV1": difference(declared, _UNTRACKED)}


def _conflicts(others: list[Entry], comparisons: Comparisons) -> list[FieldConflict]:
    conflicts = []
    for entry in sorted(others, key=identity):
        found = comparisons.in_version(entry["apiVersion"])
        if found is None:
            continue
        conflicts += [
            FieldConflict(
                path=path, manager=entry.get("manager", ""), operation=entry["operation"],
                api_version=entry["apiVersion"], subresource=entry.get("subresource", ""), time=entry.get("time") or "",
            )
            for path in paths(intersection(entry["fieldsV1"], found[0]))
        ]  # fmt: skip
    return conflicts


def _still_conflicting(conflict: ApplyConflict, live: Manifest, schema: Schema) -> list[FieldConflict]:
    """Those conflicts that are not about what the client itself applied last, by the annotation it left.

    A client-side apply is recorded as a plain update. As long as the object still has those
    values, the same client may continue with server-side apply.
    """
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text or "")
        if last.get("apiVersion") != live.get("apiVersion"):
            return list(conflict.conflicts)
        check_configuration(last, schema)
        changed, gone = compare_objects(last, live, schema)
    except (ValueError, AttributeError, TypeError, RecursionError, BadRequest):
        return list(conflict.conflicts)
    ours = difference(difference(configured_fields(last, schema), changed), gone)
    return [each for each in conflict.conflicts if not contains(ours, each.path)]


def _with_last_applied(result: Manifest, applied: Manifest) -> Manifest:
    """The annotation of client-side apply kept up to date where there is one, for clients that still go by it."""
    metadata = result.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return result
    config = {**applied, "metadata": dict(applied.get("metadata") or {})}
    if config["metadata"].get("annotations"):
        kept = {name: value for name, value in config["metadata"]["annotations"].items() if name != LAST_APPLIED}
        config["metadata"]["annotations"] = kept
    text = json.dumps(config, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    if annotations[LAST_APPLIED] == f"{text}\n":
        return result
    return {**result, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: f"{text}\n"}}}


def _with_entries(manifest: Manifest, entries: list[Entry] | None) -> Manifest:
    metadata = dict(manifest.get("metadata") or {})
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries
    return {**manifest, "metadata": metadata}


def _without_times(entries: list[Entry]) -> list[Entry]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


def _title(manifest: Manifest) -> str:
    metadata = manifest.get("metadata") or {}
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return f"{where}; {manifest.get('apiVersion')}, Kind={manifest.get('kind')}"
