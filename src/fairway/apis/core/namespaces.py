"""Namespaces: the rooms that other objects live in."""

from typing import Final

from fairway.apis.core.selectables import string_at
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE, text_at
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_FINALIZER: Final = "kubernetes"


def _default(manifest: Manifest) -> None:
    name = manifest["metadata"].get("name")
    if name:
        labels = manifest["metadata"].get("labels") or {}
        manifest["metadata"]["labels"] = {**labels, _NAME_LABEL: name}
    manifest.setdefault("spec", {})
    status = manifest.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Active"


def _prepare_create(manifest: Manifest) -> None:
    finalizers = manifest["spec"].get("finalizers") or []
    if _FINALIZER not in finalizers:
        manifest["spec"]["finalizers"] = [*finalizers, _FINALIZER]


def _prepare_update(old: Manifest, new: Manifest) -> None:
    kept = (old.get("spec") or {}).get("finalizers")
    if new["spec"].get("finalizers") != kept:
        rest = {field: value for field, value in new["spec"].items() if field != "finalizers"}
        new["spec"] = {**rest, "finalizers": kept} if kept else rest


def _validate(manifest: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata(manifest, metadata.LABEL)
    path = "spec.finalizers"
    for finalizer in (manifest.get("spec") or {}).get("finalizers") or ():
        errors += names.wrong_key(finalizer, path)
        if not metadata.is_finalizer(finalizer):
            rule = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(problems.invalid(path, finalizer, rule))
    return errors


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    errors = [*metadata.wrong_metadata_update(old, new), *_validate(new)]
    phase = (new.get("status") or {}).get("phase")
    expected = "Terminating" if new["metadata"].get("deletionTimestamp") else "Active"
    if phase != expected and new.get("status") != old.get("status"):
        state = "not empty" if expected == "Terminating" else "empty"
        rule = f"may only be '{expected}' if `deletionTimestamp` is {state}"
        errors.append(problems.invalid("status.Phase", phase, rule))
    return errors


NAMESPACE: Final = Kind(
    group="",
    kind="Namespace",
    plural="namespaces",
    versions=("v1",),
    stored="v1",
    short_names=("ns",),
    namespaced=False,
    status=True,
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.Namespace")},
    columns={
        "v1": (
            Column(name="Status", value=text_at("status", "phase"), description="Whether it is in use or going away."),
            AGE,
        )
    },
    selectable={"status.phase": string_at("status", "phase")},
    rules=Rules(
        default=_default,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate=_validate,
        validate_update=_validate_update,
    ),
)
