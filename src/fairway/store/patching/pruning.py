"""Removes fields that a manager no longer declares and that have no other owner."""

from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.store.patching.comparing import configured_fields, with_named_fields
from fairway.store.patching.fieldsets import FieldSet, difference, intersection, union
from fairway.store.patching.managedfields import Entry, Versions
from fairway.store.patching.merging import without_fields


def without_given_up(merged: Manifest, last: Entry, entries: list[Entry], versions: Versions) -> Manifest:
    """`merged` without what `last` declared and none of `entries` owns.

    An object around declared fields goes with the last of them, if nothing in it has an owner. Decided in the version
    of `last`; for owners in other versions, by what they would lose in theirs.
    """
    version = last["apiVersion"]
    schema = versions.schema(version)
    if schema is None or not _lacks(last, entries):
        return merged
    owned: dict[str, FieldSet] = {}
    for entry in entries:
        owned[entry["apiVersion"]] = union(owned.get(entry["apiVersion"], {}), entry["fieldsV1"])
    seen = versions.seen(merged, version)
    present = _named(seen, schema)
    declared = with_named_fields(last["fieldsV1"], schema)
    given_up = difference(intersection(present, declared), with_named_fields(owned.pop(version, {}), schema))
    if not given_up:
        return merged
    pruned: Manifest = without_fields(seen, given_up, schema)
    if owned:
        for other, fields in owned.items():
            pruned = _with_owned(pruned, seen, other, fields, versions)
        given_up = intersection(difference(present, _named(pruned, schema)), declared)
        pruned = without_fields(seen, given_up, schema)
    return versions.seen(pruned, merged["apiVersion"])


def _lacks(last: Entry, entries: list[Entry]) -> bool:
    """Whether anything of `last` is owned by none of those who are recorded in the same version."""
    rest = last["fieldsV1"]
    for entry in reversed(entries):
        if rest and entry["apiVersion"] == last["apiVersion"]:
            rest = difference(rest, entry["fieldsV1"])
    return bool(rest)


def _with_owned(pruned: Manifest, whole: Manifest, version: str, fields: FieldSet, versions: Versions) -> Manifest:
    """`pruned`, with the fields of `whole` that it lacks and that have an owner in another version."""
    schema = versions.schema(version)
    if schema is None:
        return pruned
    seen = versions.seen(whole, version)
    lost = difference(_named(seen, schema), _named(versions.seen(pruned, version), schema))
    owned = with_named_fields(fields, schema)
    if not intersection(lost, owned):
        return pruned
    return versions.seen(without_fields(seen, difference(lost, owned), schema), whole["apiVersion"])


def _named(manifest: dict[str, Any], schema: Schema) -> FieldSet:
    return with_named_fields(configured_fields(manifest, schema), schema)
