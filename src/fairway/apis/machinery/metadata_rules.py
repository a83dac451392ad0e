"""Rules about `metadata` that hold for every kind, with the paths and messages of kube-apiserver.

What only the store can know (whether a name is taken, whether a revision is current) is not checked here.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError

NameRule: TypeAlias = Callable[[str], Sequence[str]]
"""What is wrong with a name, as sentences; empty if it is valid."""

SUBDOMAIN: Final[NameRule] = names.subdomain_faults
LABEL: Final[NameRule] = names.label_faults

_PLAIN_FINALIZERS: Final = frozenset(
    {"kubernetes", "orphan", "foregroundDeletion", "customresourcecleanup.apiextensions.k8s.io"}
)
_FIXED: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def wrong_metadata(manifest: Manifest, name_rule: NameRule = SUBDOMAIN, *, builtin: bool = True) -> list[FieldError]:
    """Errors in the metadata of an object that is about to be stored.

    Only Kubernetes' own kinds (`builtin`) require a finalizer to have a domain; custom resources take any name.
    """
    metadata = manifest.get("metadata") or {}
    errors = _wrong_name(metadata, name_rule)
    namespace = metadata.get("namespace")
    if namespace:
        errors += [problems.invalid("metadata.namespace", namespace, fault) for fault in LABEL(namespace)]
    generation = metadata.get("generation") or 0
    if generation < 0:
        errors.append(problems.invalid("metadata.generation", generation, "must be greater than or equal to 0"))
    errors += wrong_labels_and_annotations(metadata, "metadata")
    if owners := metadata.get("ownerReferences"):
        errors += _wrong_owners(owners)
    if finalizers := metadata.get("finalizers"):
        errors += _wrong_finalizers(finalizers, builtin=builtin)
    return errors


def wrong_metadata_update(old: Manifest, new: Manifest) -> list[FieldError]:
    """Errors in a change of metadata. A field that the new object leaves out is unchanged: the store keeps the old."""
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    errors: list[FieldError] = []
    for field in _FIXED:
        value = after.get(field)
        if value:
            errors += changed(before.get(field), value, problems.child("metadata", field))
    generation = after.get("generation") or 0
    if generation and generation < (before.get("generation") or 0):
        errors.append(problems.invalid("metadata.generation", generation, "must not be decremented"))
    if before.get("deletionTimestamp"):
        known = frozenset(before.get("finalizers") or ())
        added = [finalizer for finalizer in after.get("finalizers") or () if finalizer not in known]
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added[:20])
            rule = "no new finalizers can be added if the object is being deleted, found new finalizers"
            errors.append(problems.forbidden("metadata.finalizers", added, f"{rule} []string{{{listed}}}"))
    return errors


def wrong_labels_and_annotations(metadata: dict[str, Any], path: str) -> list[FieldError]:
    """Also for the metadata of a pod template."""
    errors: list[FieldError] = []
    if labels := metadata.get("labels"):
        errors += names.wrong_labels(labels, problems.child(path, "labels"))
    if annotations := metadata.get("annotations"):
        errors += names.wrong_annotations(annotations, problems.child(path, "annotations"))
    return errors


def is_finalizer(name: str) -> bool:
    """Whether this is a name with a domain, or one of Kubernetes' own finalizers."""
    return "/" in name or name in _PLAIN_FINALIZERS


def _wrong_name(metadata: dict[str, Any], name_rule: NameRule) -> list[FieldError]:
    errors = []
    stem = metadata.get("generateName")
    if stem:
        # Random characters follow it, so a dash at its end is fine.
        whole = stem[:-2] + "a" if len(stem) > 1 and stem.endswith("-") else stem
        errors += [problems.invalid("metadata.generateName", stem, fault) for fault in name_rule(whole)]
    name = metadata.get("name")
    if name:
        errors += [problems.invalid("metadata.name", name, fault) for fault in name_rule(name)]
    elif not stem:
        errors.append(problems.required("metadata.name", "name or generateName is required"))
    return errors


def _wrong_owners(owners: list[dict[str, Any]]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    errors = []
    controllers = []
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version.rpartition("/")[2]:
            errors.append(problems.invalid(f"{path}.apiVersion", version, "version must not be empty"))
        errors += [
            problems.invalid(f"{path}.{field}", owner.get(field), "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if version == "v1" and owner.get("kind") == "Event":
            errors.append(problems.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        rule = 'Only one reference can have Controller set to true. Found "true" in references for'
        errors.append(problems.invalid(path, controllers, f"{rule} {controllers[0]} and {controllers[1]}"))
    return errors


def _wrong_finalizers(finalizers: list[str], *, builtin: bool) -> list[FieldError]:
    path = "metadata.finalizers"
    errors = [error for finalizer in finalizers for error in names.wrong_key(finalizer, path)]
    rule = "name is neither a standard finalizer name nor is it fully qualified"
    errors += [
        problems.invalid(problems.index(path, position), finalizer, rule)
        for position, finalizer in enumerate(finalizers)
        if builtin and not is_finalizer(finalizer)
    ]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        rule = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(problems.invalid(path, finalizers, rule))
    return errors
