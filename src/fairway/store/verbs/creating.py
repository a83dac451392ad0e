"""Creates: name, uid, defaults, rules, then the store."""

import random
from collections.abc import Sequence
from typing import Any, Final

from fairway.apis.machinery.admission import AdmissionRequest
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import AlreadyExists, BadRequest, FieldError, Forbidden, NotFound, ValidationError
from fairway.store.entries import Key
from fairway.store.verbs.intake import Checked, check_place, checked, identified
from fairway.store.verbs.options import WriteOptions, Written
from fairway.store.verbs.reading import details_of
from fairway.store.verbs.writing import WriteContext, drafted, owned, put, refuse_invalid

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, so that no word comes out."""

_SUFFIX_LENGTH: Final = 5
_LONGEST_GENERATED: Final = 63
_TRIES: Final = 8


def random_suffix() -> str:
    """The end of a generated name. It need not be secret, only new."""
    return "".join(random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))  # noqa: S311


def create(
    context: WriteContext, kind: Kind, version: str, namespace: str, body: object, options: WriteOptions
) -> Written:
    """Store a new object."""
    manifest = identified(kind, version, body)
    check_place(kind, manifest, namespace, "")
    found = Checked(manifest, (), [])
    if not options.trusted:
        with_status = not kind.status or kind.created_with_status
        found = checked(kind, version, manifest, options.field_validation, with_status=with_status)
    manifest, warnings, missed = found
    identify(context, manifest, kind)
    if kind.status and not kind.created_with_status:
        manifest.pop("status", None)
    check_namespace(context, kind, manifest["metadata"].get("namespace", ""))
    warnings += finish(context, kind, version, manifest, options, missed)
    key = key_of(manifest)
    exists_already(context, kind, key)
    if options.dry_run:
        return Written(drafted(kind, key, manifest), warnings, created=True)
    return put(context, kind, key, manifest, None, warnings)


def identify(context: WriteContext, manifest: Manifest, kind: Kind) -> None:
    """Give a new object its identity; what only the server may set is not taken from the request."""
    metadata = manifest["metadata"]
    if not metadata.get("name") and not metadata.get("generateName"):
        wrong = FieldError("metadata.name", None, "FieldValueRequired", "name or generateName is required")
        raise ValidationError(kind.kind, "", [wrong])
    if metadata.get("resourceVersion"):
        raise BadRequest("metadata.resourceVersion should not be set on objects to be created; leave it out")
    for name in ("resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
        metadata.pop(name, None)
    metadata["uid"] = context.new_uid()
    metadata["creationTimestamp"] = context.stamp()
    if kind.generation:
        metadata["generation"] = 1
    else:
        metadata.pop("generation", None)


def finish(
    context: WriteContext,
    kind: Kind,
    version: str,
    manifest: Manifest,
    options: WriteOptions,
    missed: Sequence[FieldError] = (),
) -> tuple[str, ...]:
    """Set defaults, name and ownership of a new object and validate it; fields that the server adds have no owner.

    Returns the warnings of admission plugins.
    """
    rules = kind.rules
    rules.default(manifest)
    named = bool(manifest["metadata"].get("name"))
    admitted = context.admission.admit(AdmissionRequest(kind, manifest, None, options.user, options.dry_run))
    if not named:
        generate_name(context, kind, manifest["metadata"])
    managed = owned(context, kind, None, _asked_for(kind, manifest), options)
    rules.prepare_create(manifest)
    refuse_invalid(kind, version, manifest, [*rules.validate(manifest), *admitted.errors], missed)
    if managed:
        manifest["metadata"]["managedFields"] = managed
    return admitted.warnings


def _asked_for(kind: Kind, manifest: Manifest) -> Manifest:
    """The fields that the creator owns: not the status, which a create does not set."""
    if "status" not in manifest or not kind.status or kind.created_with_status:
        return manifest
    return {name: part for name, part in manifest.items() if name != "status"}


def exists_already(context: WriteContext, kind: Kind, key: Key) -> None:
    """Raise `AlreadyExists` if there is such an object."""
    if context.store.head(kind.resource, key) is not None:
        raise AlreadyExists(
            f'{kind.resource} "{key[1]}" already exists',
            details=details_of(kind, key[1]),
        )


def check_namespace(context: WriteContext, kind: Kind, namespace: str) -> None:
    """Whether objects may be created in a namespace: it exists and is not on its way out."""
    if not kind.namespaced:
        return
    entry = context.store.head("namespaces", ("", namespace))
    if entry is None:
        raise NotFound(
            f'namespaces "{namespace}" not found', details={"name": namespace, "group": "", "kind": "namespaces"}
        )
    if entry.meta.deletion_timestamp:
        raise Forbidden(
            f"unable to create new content in namespace {namespace} because it is being terminated",
            details={
                "kind": kind.plural,
                "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}],
            },
        )


def generate_name(context: WriteContext, kind: Kind, metadata: dict[str, Any]) -> None:
    """Name an object by its `generateName`; a name that it was given meanwhile is kept unless it is taken."""
    namespace, name = metadata.get("namespace", ""), metadata.get("name")
    if name and context.store.head(kind.resource, (namespace, name)) is None:
        return
    prefix = metadata["generateName"][: _LONGEST_GENERATED - _SUFFIX_LENGTH]
    for _ in range(_TRIES):
        name = f"{prefix}{context.new_suffix()}"
        if context.store.head(kind.resource, (namespace, name)) is None:
            metadata["name"] = name
            return
    raise AlreadyExists(
        f'{kind.resource} "{prefix}…" already exists, and so did {_TRIES} generated names; try again',
        details=details_of(kind, prefix),
    )
