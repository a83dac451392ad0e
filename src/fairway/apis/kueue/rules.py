"""The rules of Kueue's kinds, as the store applies them: metadata, then those of `validation/`; and conversion.

The schema has been applied before, so a manifest here is plain JSON of the right shape and within its limits.

Kueue's webhook also adds a finalizer to queues and flavors: here an admission plugin does, so that an API without
controllers, which would remove it, deletes objects at once.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from fairway.apis.kueue import conversion
from fairway.apis.kueue.validation.flavors import wrong_flavor, wrong_topology
from fairway.apis.kueue.validation.queues import wrong_cluster_queue, wrong_cohort, wrong_local_queue
from fairway.apis.kueue.validation.workload_updates import wrong_workload_update
from fairway.apis.kueue.validation.workloads import wrong_annotations, wrong_workload
from fairway.apis.machinery import problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Manifest, Rules
from fairway.apis.machinery.metadata import GROUP
from fairway.apis.machinery.metadata_rules import wrong_metadata, wrong_metadata_update
from fairway.errors import FieldError, ValidationError

_LARGEST_KEPT: Final = 16 << 10
"""In bytes; larger specs are decoded every time."""

_Rule = Callable[[Manifest, Manifest | None], list[FieldError]]
"""Errors in an object, given the object before a change."""


def _wrong_check(check: Manifest, before: Manifest | None) -> list[FieldError]:
    if before is None:
        return []
    old, new = (one["spec"].get("controllerName") for one in (before, check))
    return problems.of_schema(*changed(old, new, "spec.controllerName"))


def _wrong_workload(workload: Manifest, before: Manifest | None) -> list[FieldError]:
    return wrong_workload(workload) if before is None else wrong_workload_update(before, workload)


def _no_rule(_manifest: Manifest, _before: Manifest | None) -> list[FieldError]:
    return []


_RULES: Final[dict[str, _Rule]] = {
    "AdmissionCheck": _wrong_check,
    "ClusterQueue": wrong_cluster_queue,
    "Cohort": wrong_cohort,
    "LocalQueue": wrong_local_queue,
    "ResourceFlavor": wrong_flavor,
    "Topology": wrong_topology,
    "Workload": _wrong_workload,
}


def rules_of(kind: str, *, status: bool) -> Rules:
    """The rules of one of Kueue's kinds, which has a status subresource or not."""
    broken, is_workload, webhook = _RULES.get(kind, _no_rule), kind == "Workload", problems.webhook_of(kind)

    def wrong(manifest: Manifest, before: Manifest | None) -> list[FieldError]:
        return problems.denied(webhook, broken(manifest, before))

    def validate(manifest: Manifest) -> list[FieldError]:
        return [*wrong_metadata(manifest, builtin=False), *wrong(manifest, None)]

    def validate_metadata(manifest: Manifest) -> list[FieldError]:
        errors = wrong_metadata(manifest, builtin=False)
        return errors + problems.denied(webhook, wrong_annotations(_with_spec(manifest)))

    def validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
        errors = []
        if old.get("metadata") != new.get("metadata"):
            errors = [*wrong_metadata(new, builtin=False), *wrong_metadata_update(old, new)]
        return errors + wrong(new, old)

    return Rules(
        validate=validate,
        validate_metadata=validate_metadata if is_workload else None,
        validate_update=validate_update,
        validate_status=(_validate_workload_status if is_workload else _any_status) if status else None,
        convert=convert,
        request_path=partial(conversion.old_path, kind),
    )


def _validate_workload_status(old: Manifest, new: Manifest) -> list[FieldError]:
    old = _with_spec(old)
    errors = wrong_workload_update(old, {**new, "spec": old.get("spec")})
    return problems.denied(problems.webhook_of("Workload"), errors)


def _any_status(_old: Manifest, _new: Manifest) -> list[FieldError]:
    return []


def _with_spec(manifest: Manifest) -> Manifest:
    """The manifest with a spec that is kept as it is stored decoded."""
    data = bytes(manifest.get("spec") or b"null")
    return {**manifest, "spec": _decoded(data) if len(data) <= _LARGEST_KEPT else msgspec.json.decode(data)}


@lru_cache(maxsize=512)
def _decoded(data: bytes) -> Any:
    """Most workloads have the spec of another one. The result must not be modified."""
    return msgspec.json.decode(data)


def convert(manifest: Manifest, version: str) -> Manifest:
    """The object in the other version; `ValidationError`, by the paths of the older, if it has no likeness there."""
    kind, source = manifest["kind"], manifest["apiVersion"].rpartition("/")[2]
    if source == version:
        return manifest
    if source == conversion.STORED:
        converted = conversion.from_stored(kind, version, manifest)
    else:
        errors = conversion.without_likeness(kind, manifest)
        if errors:
            metadata = manifest.get("metadata") or {}
            raise ValidationError(kind, metadata.get("name") or metadata.get("generateName") or "", errors)
        converted = conversion.to_stored(kind, source, manifest)
    converted["apiVersion"] = f"{GROUP}/{version}"
    return converted
