"""Runtime classes: what running pods in a certain way costs, and where it is possible.

Pods are processes here, whatever their class: its handler is not used, its overhead and its placement are.
"""

from typing import Final

from fairway.apis.core.placement import wrong_tolerations
from fairway.apis.core.resources import canonical, wrong_resources
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE, text_at
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError


def _default(manifest: Manifest) -> None:
    canonical({"podFixed": (manifest.get("overhead") or {}).get("podFixed")})


def _validate(manifest: Manifest) -> list[FieldError]:
    handler = manifest.get("handler") or ""
    errors = metadata.wrong_metadata(manifest)
    errors += [problems.invalid("handler", handler, fault) for fault in names.label_faults(handler)]
    overhead = (manifest.get("overhead") or {}).get("podFixed")
    if overhead:
        errors += wrong_resources({"limits": overhead}, "overhead", frozenset())
    scheduling = manifest.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        errors += names.wrong_labels(scheduling["nodeSelector"], "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    errors += wrong_tolerations(tolerations, "scheduling.tolerations")
    errors += [
        problems.duplicate(problems.index("scheduling.tolerations", position), one)
        for position, one in enumerate(tolerations)
        if one in tolerations[:position]
    ]
    return errors


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    return [
        *metadata.wrong_metadata_update(old, new),
        *changed(old.get("handler"), new.get("handler"), "handler"),
        *_validate(new),
    ]


RUNTIME_CLASS: Final = Kind(
    group="node.k8s.io",
    kind="RuntimeClass",
    plural="runtimeclasses",
    versions=("v1",),
    stored="v1",
    namespaced=False,
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.node.v1.RuntimeClass")},
    columns={
        "v1": (
            Column(name="Handler", value=text_at("handler"), description="How such pods are run."),
            AGE,
        )
    },
    rules=Rules(default=_default, validate=_validate, validate_update=_validate_update),
)

KINDS: Final[tuple[Kind, ...]] = (RUNTIME_CLASS,)
