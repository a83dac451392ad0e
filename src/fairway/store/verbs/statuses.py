"""Shortcut for merge patches of a status, which are most of all writes.

Only the status can change, so nothing else is processed: the spec and the metadata go to the disk as they came
from there, and only the changed parts of the status are validated against the schema and parsed for the rules.
The decoded object of the previous write is reused (`recent.py`). Refusals and unusual patches
take the full path (`changing.py`). Only for kinds whose rules support it (`Rules.validate_status`; where the author is
trusted and not recorded, it is enough that the status is apart from the rest), and only in the stored version.
"""

from typing import Any, Final

import msgspec

from fairway.apis.machinery.contentcache import same
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import Findings, inspect
from fairway.store.entries import MODIFIED, Change, Entry
from fairway.store.patching.claims import Claims, StatusWrite, after_status_write
from fairway.store.patching.merge import merge_patch
from fairway.store.verbs.intake import judged
from fairway.store.verbs.options import PatchType, WriteOptions, WriteTarget, Written
from fairway.store.verbs.partscache import ObjectParts, object_parts
from fairway.store.verbs.writing import WriteContext, check_preconditions, is_surely_small, refuse_invalid, unchanged

_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_WHICH: Final = frozenset({"name", "namespace", "uid", "resourceVersion"})

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def is_simple(target: WriteTarget, patch_type: PatchType, body: Any) -> bool:
    """Whether a patch is about the status alone."""
    kind, version, key, options, subresource = target
    if (
        subresource != "status"
        or patch_type is not PatchType.MERGE
        or not (kind.rules.validate_status or _needs_no_rules(kind, options))
        or version != kind.stored
        or options.dry_run
        or type(body) is not dict
        or not body.keys() <= _PARTS
    ):
        return False
    return (
        type(body.get("status", {})) is dict
        and ("kind" not in body or body["kind"] == kind.kind)
        and ("apiVersion" not in body or body["apiVersion"] == kind.api_version(version))
        and ("metadata" not in body or _only_says_which(body["metadata"], key))
    )


def _needs_no_rules(kind: Kind, options: WriteOptions) -> bool:
    return kind.rules.status_is_apart and options.trusted and not options.tracked


def _only_says_which(metadata: Any, key: tuple[str, str]) -> bool:
    """Whether a patch's metadata asks for this object, or a state of it, and for nothing else."""
    return (
        type(metadata) is dict
        and metadata.keys() <= _WHICH
        and metadata.get("name", key[1]) == key[1]
        and metadata.get("namespace", key[0]) == key[0]
    )


def patch(context: WriteContext, target: WriteTarget, entry: Entry, body: Any) -> Written | None:
    """Lay a patch that is simple over a status; `None` if it has to go the long way, with nothing done."""
    kind, options = target.kind, target.options
    before = object_parts(kind, entry)
    if before is None or "deletionTimestamp" in before.metadata:
        return None
    metadata = body.get("metadata")
    if metadata:
        check_preconditions(kind, entry, metadata.get("uid"), metadata.get("resourceVersion"))
    status = merge_patch(before.status, body["status"]) if "status" in body else before.status
    after = before.with_status(status if options.trusted else _kept(before.status, status))
    warnings: tuple[str, ...] = ()
    if options.trusted:
        after.is_right = before.is_right or _is_written_as_a_whole(status, body.get("status"))
        if kind.rules.status_is_apart:
            if after.status is None:
                return None
            kind.rules.prepare_update(_manifest(kind, before), _manifest(kind, after))
    else:
        warnings = _checked(target, before, after)
    if after.status == before.status:
        return unchanged(context, entry, warnings)
    if options.tracked:
        claims = _owners(context, target, before, after)
        if claims is None:
            return None
        after.give_to(claims, before.claims)
    return _put(context, entry, after, warnings)


def _owners(context: WriteContext, target: WriteTarget, before: ObjectParts, after: ObjectParts) -> Claims | None:
    """Who owns which field afterwards; `None` if that is for the long way to say."""
    kind = target.kind
    try:
        claims = before.claims
    except msgspec.DecodeError:
        return None
    api_version = kind.api_version(kind.stored)
    write = StatusWrite(before.status, after.status, target.options.manager, api_version, context.stamp())
    return after_status_write(claims, write, kind.schemas[kind.stored]())


def _checked(target: WriteTarget, before: ObjectParts, after: ObjectParts) -> tuple[str, ...]:
    """Hold a new status against the schema and the rules, and raise what is wrong with it; what to warn of."""
    kind = target.kind
    schema = kind.schemas[kind.stored]().properties["status"]
    findings = _inspected(schema, before, after)
    new = _manifest(kind, after)
    warnings, missed = judged(kind, target.version, new, findings, target.options.field_validation)
    validate_status = kind.rules.validate_status
    if validate_status is not None:
        refuse_invalid(kind, target.version, new, validate_status(_manifest(kind, before), new), missed)
    return warnings


def _inspected(schema: Schema, before: ObjectParts, after: ObjectParts) -> Findings:
    """What the schema says about a new status, which is completed; `after` knows whether it is right."""
    if after.status is None:
        findings = Findings()
    elif before.is_right:
        findings = inspect(schema, after.status, "status", before.status)
    else:
        after.status = _decode(_encode(after.status))  # it may be completed in place, and others have parts of it
        findings = inspect(schema, after.status, "status")
    # What is found may keep the rest from being found.
    after.is_right = not findings.unknown and not findings.errors
    return findings


def _is_written_as_a_whole(status: Any, patch: Any) -> bool:
    """Whether nothing is left of the status before."""
    if status is None or patch is None:
        return False
    return all(part == patch.get(name) for name, part in status.items())


def _put(context: WriteContext, previous: Entry, after: ObjectParts, warnings: tuple[str, ...]) -> Written | None:
    """Send the new state to the disk; `None` if it is too large."""
    store = context.store
    store.check_room()
    revision = store.next_revision
    entry = previous.succeeded_by(revision, after.stored(revision))
    if not is_surely_small(entry.data):
        return None  # the usual way looks closer
    if previous.shared is not None:
        entry.shared = _readable(previous.shared, after.status, revision)
    durable = store.stage([Change(MODIFIED, entry, previous)])
    context.recent.keep(entry, after, previous)
    return Written(entry, warnings, durable=durable)


def _readable(before: Manifest, status: Any, revision: int) -> Manifest:
    """The object for readers in this process, from the state before."""
    readable = {**before, "metadata": {**before["metadata"], "resourceVersion": str(revision)}}
    if status is not None:
        readable["status"] = status
    return readable


def _kept(old: Any, new: Any) -> Any:
    """A new status with the old one's very own parts, and elements of its lists, where they are the same as before."""
    if old is None or new is old:
        return new
    return {name: _kept_part(old.get(name), part) for name, part in new.items()}


def _kept_part(ours: Any, theirs: Any) -> Any:
    if ours is theirs or same(ours, theirs):
        return ours
    if type(ours) is list and type(theirs) is list:
        return [ours[at] if at < len(ours) and same(ours[at], item) else item for at, item in enumerate(theirs)]
    return theirs


def _manifest(kind: Kind, parts: ObjectParts) -> Manifest:
    manifest: Manifest = {
        "apiVersion": kind.api_version(kind.stored),
        "kind": kind.kind,
        "metadata": parts.metadata,
    }
    if parts.spec is not None:
        manifest["spec"] = parts.spec
    if parts.status is not None:
        manifest["status"] = parts.status
    return manifest
