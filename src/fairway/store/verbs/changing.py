"""Updates: whole objects, their status, and patches of every type."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.schemas.walk import inspect
from fairway.errors import BadRequest, FieldError, UnsupportedMediaType, ValidationError
from fairway.store.entries import Entry
from fairway.store.patching.apply import apply
from fairway.store.patching.jsonpatch import json_patch
from fairway.store.patching.managedfields import identity
from fairway.store.patching.merge import merge_patch
from fairway.store.patching.strategic import strategic_merge
from fairway.store.verbs import creating, statuses
from fairway.store.verbs.deleting import is_finished
from fairway.store.verbs.intake import Checked, check_place, checked, checked_status, identified, name_of, refused
from fairway.store.verbs.options import PatchType, WriteTarget, Written
from fairway.store.verbs.reading import decoded, not_found
from fairway.store.verbs.writing import (
    WriteContext,
    check_preconditions,
    drafted,
    owned,
    put,
    refuse_invalid,
    remove,
    unchanged,
)

_KEPT: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
)
"""Metadata that a write cannot change."""


def update(context: WriteContext, target: WriteTarget, body: object) -> Written:
    """Replace an object, or its status."""
    kind, version, key, *_ = target
    entry = context.head(kind, key)
    manifest = identified(kind, version, body)
    check_place(kind, manifest, *key)
    metadata = manifest["metadata"]
    if not metadata.get("resourceVersion") and not kind.builtin:
        wrong = FieldError("metadata.resourceVersion", 0, "FieldValueInvalid", "must be specified for an update")
        raise ValidationError(kind.kind, key[1], [wrong])
    check_preconditions(kind, entry, metadata.get("uid"), metadata.get("resourceVersion"))
    old = decoded(entry)
    found = _checked(target, manifest, old)
    new = _replacement(target, old, found.manifest)
    return _replace(context, target, Before(entry, old), new, found)


def patch(context: WriteContext, target: WriteTarget, patch_type: PatchType, body: Any) -> Written:
    """Change an object, or its status, as a patch describes it."""
    if patch_type is PatchType.APPLY:
        return _apply(context, target, body)
    kind, version, key, options, subresource = target
    entry = context.head(kind, key)
    if statuses.is_simple(target, patch_type, body):
        written = statuses.patch(context, target, entry, body)
        if written is not None:
            return written
    old = decoded(entry)
    live = old if version == kind.stored else kind.rules.convert(old, version)
    patched = identified(kind, version, _patched(kind, version, patch_type, live, body))
    check_place(kind, patched, *key)
    metadata = patched["metadata"]
    check_preconditions(kind, entry, metadata.get("uid"), metadata.get("resourceVersion"))
    if subresource == "status" and version == kind.stored:
        new = _with_status(old, patched)
        if options.trusted:
            return _replace(context, target, Before(entry, old), new, Checked(new, (), []))
        found = Checked(new, *checked_status(kind, new, options.field_validation))
    else:
        found = _checked(target, patched, old)
        new = _replacement(target, old, found.manifest)
    return _replace(context, target, Before(entry, old), new, found)


def _patched(kind: Kind, version: str, patch_type: PatchType, live: Manifest, body: Any) -> Any:
    if patch_type is PatchType.JSON:
        return json_patch(live, body)
    if not isinstance(body, dict):
        raise BadRequest(f"a patch of type {patch_type} must be an object")
    if patch_type is PatchType.MERGE:
        return merge_patch(live, body)
    if not kind.builtin:
        raise UnsupportedMediaType(
            f"{patch_type} is not supported for {kind.resource}; accepted media types include: "
            f"{PatchType.JSON}, {PatchType.MERGE}, {PatchType.APPLY}"
        )
    return strategic_merge(live, body, kind.schemas[version]())


class Before(NamedTuple):
    """An object as it was found."""

    entry: Entry
    manifest: Manifest


def _replace(context: WriteContext, target: WriteTarget, before: Before, new: Manifest, found: Checked) -> Written:
    """The common end of updates and patches: ownership, rules, then the store."""
    kind, old = target.kind, before.manifest
    kind.rules.default(new)
    admitted = _admit(context, target, old, new)
    managed = owned(context, kind, old, new, target.options, target.subresource)
    if target.options.trusted and target.subresource == "status":
        kind.rules.prepare_update(old, new)
    else:
        _obey_rules(kind, target.version, old, new, [*found.errors, *admitted.errors])
    _record(old, new, managed)
    return _store(context, target, before, new, found.warnings + admitted.warnings)


def _record(old: Manifest, new: Manifest, managed: list[dict[str, Any]]) -> None:
    """Update the managedFields; an object without owners before and after does not change."""
    if managed or "managedFields" in old["metadata"]:
        new["metadata"]["managedFields"] = managed
    else:
        new["metadata"].pop("managedFields", None)


def _admit(context: WriteContext, target: WriteTarget, old: Manifest, new: Manifest) -> AdmissionResponse:
    if target.subresource:
        return ALLOWED
    options = target.options
    return context.admission.admit(AdmissionRequest(target.kind, new, old, options.user, options.dry_run))


def _obey_rules(kind: Kind, version: str, old: Manifest, new: Manifest, missed: list[FieldError]) -> None:
    kind.rules.prepare_update(old, new)
    errors = kind.rules.validate_update(old, new) + _late_finalizers(old, new)
    refuse_invalid(kind, version, new, errors, missed)
    if kind.generation and _is_another_spec(old, new):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _store(
    context: WriteContext, target: WriteTarget, before: Before, new: Manifest, warnings: tuple[str, ...]
) -> Written:
    kind, dry_run, entry = target.kind, target.options.dry_run, before.entry
    if new == before.manifest:
        return unchanged(context, entry, warnings, dry_run=dry_run)
    if dry_run:
        return Written(drafted(kind, entry.key, new), warnings)
    if is_finished(new):
        return remove(context, kind, entry.key, new, entry, warnings)
    return put(context, kind, entry.key, new, entry, warnings)


def _checked(target: WriteTarget, manifest: Manifest, old: Manifest) -> Checked:
    """Hold a change against the schema; the record of ownership, where it just comes back, is not looked at again."""
    kind, version, options = target.kind, target.version, target.options
    with_status = not kind.status or bool(target.subresource)
    managed = old["metadata"].get("managedFields")
    if not managed or manifest["metadata"].get("managedFields") != managed:
        return checked(kind, version, manifest, options.field_validation, with_status=with_status)
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
    found = checked(
        kind, version, {**manifest, "metadata": metadata}, options.field_validation, with_status=with_status
    )
    found.manifest["metadata"]["managedFields"] = managed
    return found


def _replacement(target: WriteTarget, old: Manifest, given: Manifest) -> Manifest:
    """What a request may change taken from it, all the rest from what is there."""
    return _with_status(old, given) if target.subresource == "status" else _without_status(target.kind, old, given)


def _with_status(old: Manifest, given: Manifest) -> Manifest:
    new = {**old, "metadata": dict(old["metadata"])}
    if given.get("status") is None:
        new.pop("status", None)
    else:
        new["status"] = given["status"]
    return new


def _without_status(kind: Kind, old: Manifest, given: Manifest) -> Manifest:
    new = dict(given)
    metadata = new["metadata"] = dict(given["metadata"])
    for name in _KEPT:
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
        else:
            metadata.pop(name, None)
    if metadata.get("managedFields") is None:
        metadata["managedFields"] = old["metadata"].get("managedFields", [])
    if kind.status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
    return new


def _is_another_spec(old: Manifest, new: Manifest) -> bool:
    names = (old.keys() | new.keys()) - {"metadata", "status", "apiVersion", "kind"}
    return any(old.get(name) != new.get(name) for name in names)


def _late_finalizers(old: Manifest, new: Manifest) -> list[FieldError]:
    if "deletionTimestamp" not in old["metadata"]:
        return []
    before = frozenset(old["metadata"].get("finalizers") or ())
    added = [one for one in new["metadata"].get("finalizers") or () if one not in before]
    if not added:
        return []
    message = f"no new finalizers can be added if the object is being deleted, found new finalizers {added[:20]}"
    return [FieldError("metadata.finalizers", added, "FieldValueForbidden", message)]


def _apply(context: WriteContext, target: WriteTarget, body: Any) -> Written:
    """Server-side apply; ownership is always recorded in the stored version."""
    kind, version, key, options, subresource = target
    applied = identified(kind, version, body)
    check_place(kind, applied, *key)
    applied = _to_apply(kind, version, applied, subresource)
    entry = context.store.head(kind.resource, key)
    if entry is None:
        if subresource:
            raise not_found(kind, key[1])
        return _apply_first(context, target, applied)
    metadata = applied["metadata"]
    check_preconditions(kind, entry, metadata.pop("uid", None), metadata.pop("resourceVersion", None))
    old = decoded(entry)
    if not subresource and context.before_apply is not None:
        context.before_apply(kind, old, applied)
    merged = _merged(context, target, decoded(entry), applied)  # a copy of its own: it is completed in place
    managed = merged["metadata"].pop("managedFields", [])
    if subresource == "status":
        new = _with_status(old, merged)
        warnings, missed = checked_status(kind, new, options.field_validation)
    else:
        merged, warnings, missed = checked(kind, kind.stored, merged, options.field_validation)
        new = _without_status(kind, old, merged)
    kind.rules.default(new)
    admitted = _admit(context, target, old, new)
    _obey_rules(kind, version, old, new, [*missed, *admitted.errors])
    warnings += admitted.warnings
    _record(old, new, managed)
    if _is_just_later(old, new):
        return unchanged(context, entry, warnings, dry_run=options.dry_run)
    return _store(context, target, Before(entry, old), new, warnings)


def _is_just_later(old: Manifest, new: Manifest) -> bool:
    """Whether only the time of the apply differs: the applied configuration gave the same object as before,
    after defaulting.
    """
    before, after = old["metadata"], new["metadata"]
    owners = before.get("managedFields") or ()
    return (
        {**old, "metadata": {**before, "managedFields": None}} == {**new, "metadata": {**after, "managedFields": None}}
        and len(owners) == len(after.get("managedFields") or ())
        and _timeless(owners) == _timeless(after.get("managedFields") or ())
    )


def _timeless(owners: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
    return {identity(owner): {**owner, "time": None} for owner in owners}


def _apply_first(context: WriteContext, target: WriteTarget, applied: Manifest) -> Written:
    kind, version, key, options, _ = target
    if applied["metadata"].pop("uid", None):  # asks for an object that is there
        raise not_found(kind, key[1])
    creating.check_namespace(context, kind, key[0])
    merged = _merged(context, target, None, applied)
    managed = merged["metadata"].pop("managedFields", [])
    merged, warnings, missed = checked(kind, kind.stored, merged, options.field_validation)
    creating.identify(context, merged, kind)
    warnings += creating.finish(context, kind, version, merged, options, missed)
    merged["metadata"]["managedFields"] = managed
    if options.dry_run:
        return Written(drafted(kind, key, merged), warnings, created=True)
    return put(context, kind, key, merged, None, warnings)


def _merged(context: WriteContext, target: WriteTarget, live: Manifest | None, applied: Manifest) -> Manifest:
    kind = target.kind
    merged: Manifest = apply(
        live,
        applied,
        schema_for=lambda _version: kind.schemas[kind.stored](),
        convert=lambda manifest, _version: manifest,
        manager=target.options.manager,
        force=target.options.force,
        subresource=target.subresource,
        now=context.stamp(),
    )
    return merged


def _to_apply(kind: Kind, version: str, applied: Manifest, subresource: str) -> Manifest:
    """The part of an applied configuration that counts, in the stored version, without defaults."""
    if applied["metadata"].get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    findings = inspect(kind.schemas[version](), copied(applied))
    if findings.unknown:
        shown = ", ".join(f".{path}: field not declared in schema" for path in findings.unknown[:20])
        raise BadRequest(f"failed to create typed patch object ({name_of(applied)}; {kind.kind}): {shown}")
    broken = [error for error in findings.errors if error.rule != "FieldValueRequired"]
    if broken:
        raise refused(kind, version, applied, broken)
    if version != kind.stored:
        applied = kind.rules.convert(applied, kind.stored)
    if subresource == "status":
        return {name: applied[name] for name in ("apiVersion", "kind", "metadata", "status") if name in applied}
    if kind.status:
        applied.pop("status", None)
    return applied
