"""Merge patches of a status, the short way: by far the most writes are these.

Nothing but the status can change, so nothing else is looked at: the spec and the metadata go to the disk as they came
from there, and of the status only what is not the same as before is held against the schema and read for the rules.
What the write before had in hand is taken over (`recent.py`). Whoever is told no, and whoever does anything unusual,
goes the long way (`changing.py`). For kinds only whose rules know how (`Rules.validate_status`; where the author is
trusted and not recorded, it is enough that the status is apart from the rest), and only in the stored version.
"""

from typing import Any, Final

import msgspec

from fairway.kinds.kind import Kind, Manifest
from fairway.kinds.schemas.walk import Findings, inspect
from fairway.model.shapes import same
from fairway.store.entries import MODIFIED, Change, Entry
from fairway.store.objects.intake import judged
from fairway.store.objects.options import PatchType, Target, WriteOptions, Written
from fairway.store.objects.recent import Known, known_of
from fairway.store.objects.writing import (
    LARGEST_OBJECT,
    Context,
    check_preconditions,
    readable_after,
    refuse_invalid,
    unchanged,
)
from fairway.store.patching.claims import StatusWrite, after_status_write
from fairway.store.patching.merge import merge_patch

_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def is_simple(target: Target, patch_type: PatchType, body: Any) -> bool:
    """Whether a patch is about the status alone."""
    kind, version, key, options, subresource = target
    if (
        subresource != "status"
        or patch_type is not PatchType.MERGE
        or not (kind.rules.validate_status or _needs_no_rules(kind, options))
        or version != kind.stored
        or options.dry_run
        or type(body) is not dict
    ):
        return False
    return (
        body.keys() <= _PARTS
        and type(body.get("status", {})) is dict
        and body.get("kind", kind.kind) == kind.kind
        and ("apiVersion" not in body or body["apiVersion"] == kind.api_version(version))
        and ("metadata" not in body or _only_says_which(body["metadata"], key))
    )


def _needs_no_rules(kind: Kind, options: WriteOptions) -> bool:
    return kind.rules.status_is_apart and options.trusted and not options.tracked


def _only_says_which(metadata: Any, key: tuple[str, str]) -> bool:
    """Whether a patch's metadata asks for this object, or a state of it, and for nothing else."""
    return (
        type(metadata) is dict
        and metadata.keys() <= {"name", "namespace", "uid", "resourceVersion"}
        and metadata.get("name", key[1]) == key[1]
        and metadata.get("namespace", key[0]) == key[0]
    )


def patch(context: Context, target: Target, entry: Entry, body: Any) -> Written | None:
    """Lay a patch that is simple over a status; `None` if it has to go the long way, with nothing done."""
    kind, options = target.kind, target.options
    before = known_of(entry)
    if before is None or "deletionTimestamp" in before.metadata:
        return None
    metadata = body.get("metadata")
    if metadata:
        check_preconditions(kind, entry, metadata.get("uid"), metadata.get("resourceVersion"))
    after = Known(before.metadata, before.claims, before.spec, _merged(before.status, body))
    warnings: tuple[str, ...] = ()
    if options.trusted:
        after.is_right = before.is_right or _is_written_as_a_whole(after.status, body.get("status"))
        if kind.rules.status_is_apart:
            if after.status is None:
                return None
            kind.rules.prepare_update(_manifest(kind, before), _manifest(kind, after))
    else:
        warnings = _checked(target, before, after)
    if options.tracked:
        write = StatusWrite(
            before.status, after.status, options.manager, kind.api_version(kind.stored), context.stamp()
        )
        claims = after_status_write(before.claims, write, kind.schemas[kind.stored]())
        if claims is None:
            return None
        after.claims = claims
    if after.claims is before.claims and after.status == before.status:
        return unchanged(context, entry, warnings)
    return _put(context, kind, entry, after, warnings)


def _checked(target: Target, before: Known, after: Known) -> tuple[str, ...]:
    """Hold a new status against the schema and the rules, and raise what is wrong with it; what to warn of."""
    kind = target.kind
    findings = Findings()
    if after.status is not None:
        schema = kind.schemas[kind.stored]().properties["status"]
        if before.is_right:
            findings = inspect(schema, after.status, "status", before.status)
        else:
            after.status = _decode(_encode(after.status))  # it may be completed in place, and others have parts of it
            findings = inspect(schema, after.status, "status")
    # What is found may keep the rest from being found.
    after.is_right = not findings.unknown and not findings.errors
    warnings, missed = judged(kind, target.version, _manifest(kind, after), findings, target.options.field_validation)
    validate_status = kind.rules.validate_status
    if validate_status is not None:
        new = _manifest(kind, after)
        errors, after.reading = validate_status(_manifest(kind, before), new, before.reading)
        refuse_invalid(kind, target.version, new, errors, missed)
    return warnings


def _is_written_as_a_whole(status: Any, patch: Any) -> bool:
    """Whether nothing is left of the status before."""
    if status is None or patch is None:
        return False
    return all(part == patch.get(name) for name, part in status.items())


def _put(context: Context, kind: Kind, previous: Entry, after: Known, warnings: tuple[str, ...]) -> Written | None:
    """Send the new state to the disk; `None` if it is too large."""
    store = context.store
    store.check_room()
    revision = store.next_revision
    metadata = dict(after.metadata)
    if after.claims.entries or "managedFields" in metadata:
        metadata["managedFields"] = after.claims.entries
    metadata["resourceVersion"] = str(revision)
    after.metadata = metadata
    manifest = _manifest(kind, after)
    entry = previous.succeeded_by(revision, _encode(manifest))
    if len(entry.data) > LARGEST_OBJECT:
        return None
    entry.shared = readable_after(manifest, previous)
    durable = store.stage([Change(MODIFIED, entry, previous)])
    context.recent.keep(entry, after, previous)
    return Written(entry, warnings, durable=durable)


def _merged(old: Any, body: Manifest) -> Any:
    """The status with the patch laid over it; what comes out the same as before is the old one's very own."""
    patch = body.get("status")
    if patch is None:
        return old
    new = merge_patch(old, patch)
    if old is None or new is old:
        return new
    return {name: _kept(old.get(name), part) for name, part in new.items()}


def _kept(ours: Any, theirs: Any) -> Any:
    if ours is theirs or same(ours, theirs):
        return ours
    if type(ours) is list and type(theirs) is list:
        return [ours[at] if at < len(ours) and same(ours[at], item) else item for at, item in enumerate(theirs)]
    return theirs


def _manifest(kind: Kind, known: Known) -> Manifest:
    manifest: Manifest = {
        "apiVersion": kind.api_version(kind.stored),
        "kind": kind.kind,
        "metadata": known.metadata,
    }
    if known.spec is not None:
        manifest["spec"] = known.spec
    if known.status is not None:
        manifest["status"] = known.status
    return manifest
