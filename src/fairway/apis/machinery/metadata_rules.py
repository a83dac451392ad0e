"""Rules about metadata, the same for every kind."""

from operator import attrgetter

from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.metadata import Metadata, Object, OwnerReference
from fairway.errors import FieldError

_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_fixed = attrgetter("name", "namespace", "uid", "creation_timestamp", "deletion_timestamp")


def wrong_metadata(value: Object) -> list[FieldError]:
    metadata = value.metadata
    errors = _wrong_name(metadata) + _wrong_namespace(value)
    if metadata.generation < 0:
        path = "metadata.generation"
        errors.append(problems.invalid(path, metadata.generation, "must be greater than or equal to 0"))
    if metadata.labels:
        errors += names.wrong_labels(metadata.labels, "metadata.labels")
    if metadata.annotations:
        errors += names.wrong_annotations(metadata.annotations, "metadata.annotations")
    if metadata.owner_references:
        errors += _wrong_owners(metadata.owner_references)
    if metadata.finalizers:
        errors += _wrong_finalizers(metadata.finalizers)
    return errors


def wrong_metadata_update(old: Object, new: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if _fixed(old.metadata) != _fixed(new.metadata):
        for field, before, after in zip(_FIXED, _fixed(old.metadata), _fixed(new.metadata), strict=True):
            errors += changed(before, after, f"metadata.{field}")
    if new.metadata.generation < old.metadata.generation:
        path = "metadata.generation"
        errors.append(problems.invalid(path, new.metadata.generation, "must not be decremented"))
    if old.metadata.deletion_timestamp is not None:
        added = sorted(set(new.metadata.finalizers) - set(old.metadata.finalizers))
        if added:
            rule = "no new finalizers can be added if the object is being deleted, found new finalizers"
            errors.append(problems.forbidden("metadata.finalizers", added, f"{rule} {', '.join(added)}"))
    return errors


def _wrong_name(metadata: Metadata) -> list[FieldError]:
    errors = []
    if metadata.generate_name:
        # Random characters follow it, so a dash at its end is fine.
        stem = metadata.generate_name[:-1] + "a" if metadata.generate_name.endswith("-") else metadata.generate_name
        path = "metadata.generateName"
        errors += [problems.invalid(path, metadata.generate_name, fault) for fault in names.subdomain_faults(stem)]
    path = "metadata.name"
    if metadata.name:
        errors += [problems.invalid(path, metadata.name, fault) for fault in names.subdomain_faults(metadata.name)]
    elif not metadata.generate_name:
        errors.append(problems.required(path, "name or generateName is required"))
    return errors


def _wrong_namespace(value: Object) -> list[FieldError]:
    path = "metadata.namespace"
    if not value.NAMESPACED:
        return [problems.forbidden(path, value.namespace, "not allowed on this type")] if value.namespace else []
    if not value.namespace:
        return [problems.required(path)]
    return [problems.invalid(path, value.namespace, fault) for fault in names.label_faults(value.namespace)]


def _wrong_owners(owners: tuple[OwnerReference, ...]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    errors = []
    for position, owner in enumerate(owners):
        faults = []
        if not owner.api_version.rpartition("/")[2]:
            faults.append(("apiVersion", owner.api_version, "version must not be empty"))
        for field, text in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not text:
                faults.append((field, text, "must not be empty"))
        where = problems.index(path, position) if faults else ""
        errors += [problems.invalid(problems.child(where, field), text, rule) for field, text, rule in faults]
    controllers = [f"{owner.kind}/{owner.name}" for owner in owners if owner.controller]
    if len(controllers) > 1:
        rule = 'Only one reference can have Controller set to true. Found "true" in references for'
        errors.append(problems.invalid(path, controllers, f"{rule} {controllers[0]} and {controllers[1]}"))
    return errors


def _wrong_finalizers(finalizers: tuple[str, ...]) -> list[FieldError]:
    path = "metadata.finalizers"
    errors = [error for finalizer in finalizers for error in names.wrong_key(finalizer, path)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        rule = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(problems.invalid(path, list(finalizers), rule))
    return errors
