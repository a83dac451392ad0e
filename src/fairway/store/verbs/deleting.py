"""Deletes: at once, or after finalizers, dependents and running containers."""

from datetime import timedelta
from typing import Final

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import BadRequest, Forbidden, NotFound
from fairway.runtime.slices import Slice
from fairway.store.entries import Key
from fairway.store.selectors import Selection
from fairway.store.store import Store
from fairway.store.verbs.listing import EVERYTHING, page_in_slices
from fairway.store.verbs.options import DeleteOptions, Written
from fairway.store.verbs.reading import decoded
from fairway.store.verbs.writing import WriteContext, check_preconditions, drafted, put, remove, unchanged

LASTING_NAMESPACES: Final = frozenset({"default", "kube-public", "kube-system"})
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_DEFAULT_POD_GRACE: Final = 30
_LONGEST_GRACE: Final = 100 * 365 * 86400
"""A longer grace period gets a deletion time a hundred years ahead: a year must have four digits."""

_STAGED_AT_ONCE: Final = 500
"""So many deletions of a collection are on their way to the disk at the same time."""

_PROPAGATIONS: Final = ("", "Background", "Foreground", "Orphan")


def is_finished(manifest: Manifest) -> bool:
    """Whether an object that is marked for deletion has nothing left to wait for."""
    metadata = manifest["metadata"]
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("deletionGracePeriodSeconds")
        and not _is_held(manifest)
    )


def _is_held(manifest: Manifest) -> bool:
    if manifest["metadata"].get("finalizers"):
        return True
    return manifest["kind"] == "Namespace" and bool((manifest.get("spec") or {}).get("finalizers"))


def delete(context: WriteContext, kind: Kind, key: Key, options: DeleteOptions) -> Written:
    """Delete an object, or mark it for deletion."""
    if options.propagation not in _PROPAGATIONS:
        known = ", ".join(one for one in _PROPAGATIONS if one)
        raise BadRequest(f"propagationPolicy: Unsupported value: {options.propagation!r}: it is one of {known}")
    if options.grace_seconds is not None and options.grace_seconds < 0:
        raise BadRequest(f"gracePeriodSeconds: Invalid value: {options.grace_seconds}: must not be negative")
    entry = context.head(kind, key)
    if kind.resource == "namespaces" and key[1] in LASTING_NAMESPACES:
        raise Forbidden(
            f'namespaces "{key[1]}" is forbidden: this namespace may not be deleted',
            details={"name": key[1], "kind": kind.plural},
        )
    check_preconditions(kind, entry, options.uid, options.resource_version)
    before = decoded(entry)
    manifest = {**before, "metadata": dict(before["metadata"])}
    _set_finalizers(manifest, options.propagation)
    grace = _grace(kind, manifest, options.grace_seconds)
    if grace == 0 and not _is_held(manifest):
        if options.dry_run:
            return Written(drafted(kind, key, manifest), removed=True)
        return remove(context, kind, key, manifest, entry)
    _mark(context, manifest, grace)
    if manifest == before:
        return unchanged(context, entry, dry_run=options.dry_run)
    if options.dry_run:
        return Written(drafted(kind, key, manifest))
    return put(context, kind, key, manifest, entry)


def finalize_namespace(context: WriteContext, kind: Kind, key: Key) -> Written:
    """Remove `spec.finalizers` of an empty namespace, which no update or patch can."""
    entry = context.head(kind, key)
    before = decoded(entry)
    spec = {field: value for field, value in (before.get("spec") or {}).items() if field != "finalizers"}
    manifest = {**before, "metadata": dict(before["metadata"]), "spec": spec}
    if is_finished(manifest):
        return remove(context, kind, key, manifest, entry)
    if manifest == before:
        return unchanged(context, entry)  # another finalizer holds it
    return put(context, kind, key, manifest, entry)


async def delete_collection(
    context: WriteContext, store: Store, selection: Selection, options: DeleteOptions, work: Slice
) -> list[Written]:
    """Delete all objects that match `selection` now; done when the deletions are durable.

    Each is a write of its own, as in Kubernetes: others may come in between, and a failure leaves the rest undone.
    """
    matching = (await page_in_slices(store, selection, EVERYTHING, work)).entries
    deleted: list[Written] = []
    for entry in matching:
        try:
            written = delete(context, selection.kind, entry.key, options)
        except NotFound:
            continue  # it is on its way out already
        written.entry.shared = None
        deleted.append(written)
        if len(deleted) % _STAGED_AT_ONCE == 0 and written.durable is not None:
            await written.durable  # others need room to write, too
        if work.is_over:
            await work.pause()
    for written in deleted[-_STAGED_AT_ONCE:]:
        if written.durable is not None:
            await written.durable
    return deleted


def _set_finalizers(manifest: Manifest, propagation: str) -> None:
    """Let the collector's finalizers say what is to become of dependents."""
    if not propagation:
        return
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(propagation)
    finalizers = [one for one in manifest["metadata"].get("finalizers") or () if one not in {FOREGROUND, ORPHAN}]
    if wanted:
        finalizers.append(wanted)
    if finalizers:
        manifest["metadata"]["finalizers"] = finalizers
    else:
        manifest["metadata"].pop("finalizers", None)


def _grace(kind: Kind, manifest: Manifest, asked: int | None) -> int:
    """How many seconds the containers of a pod have to end; nothing else needs any."""
    if kind.resource != "pods":
        return 0
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds", _DEFAULT_POD_GRACE)
    running = manifest["metadata"].get("deletionGracePeriodSeconds")
    return asked if running is None else min(asked, running)


def _mark(context: WriteContext, manifest: Manifest, grace: int) -> None:
    metadata = manifest["metadata"]
    if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds", 0) <= grace:
        return
    ends = context.now() + timedelta(seconds=min(grace, _LONGEST_GRACE))
    if "deletionTimestamp" not in metadata and metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata["deletionGracePeriodSeconds"] = grace
    if manifest["kind"] == "Namespace":
        manifest["status"] = {**(manifest.get("status") or {}), "phase": "Terminating"}
