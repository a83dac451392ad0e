"""Priority classes: names for the priority of pods."""

from datetime import datetime
from typing import Final

from fairway.apis.core import checks
from fairway.apis.core.pod_specs import PREEMPTION_POLICIES
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE, text_at
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError

_MOST_FOR_USERS: Final = 1_000_000_000
_SYSTEM_PREFIX: Final = "system-"
_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _default(manifest: Manifest) -> None:
    if not manifest.get("preemptionPolicy"):
        manifest["preemptionPolicy"] = "PreemptLowerPriority"
    manifest.setdefault("value", 0)


def _prepare_create(manifest: Manifest) -> None:
    # It never counts on: what would count cannot change.
    manifest["metadata"]["generation"] = 1


def _validate(manifest: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata(manifest)
    name, value = manifest["metadata"].get("name") or "", manifest.get("value") or 0
    if name.startswith(_SYSTEM_PREFIX):
        if _SYSTEM.get(name) != value or manifest.get("globalDefault"):
            rule = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only"
            errors.append(problems.forbidden("metadata.name", name, rule))
    elif value > _MOST_FOR_USERS:
        rule = f"maximum allowed value of a user defined priority is {_MOST_FOR_USERS}"
        errors.append(problems.forbidden("value", value, rule))
    return errors + checks.wrong_choice(manifest.get("preemptionPolicy"), "preemptionPolicy", PREEMPTION_POLICIES)


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata_update(old, new)
    if (old.get("value") or 0) != (new.get("value") or 0):
        errors.append(problems.forbidden("value", new.get("value"), "may not be changed in an update."))
    errors += changed(old.get("preemptionPolicy"), new.get("preemptionPolicy"), "preemptionPolicy")
    return errors + metadata.wrong_metadata(new)


def _value(manifest: Manifest, _now: datetime) -> int:
    return int(manifest.get("value") or 0)


def _global_default(manifest: Manifest, _now: datetime) -> bool:
    return bool(manifest.get("globalDefault"))


PRIORITY_CLASS: Final = Kind(
    group="scheduling.k8s.io",
    kind="PriorityClass",
    plural="priorityclasses",
    versions=("v1",),
    stored="v1",
    short_names=("pc",),
    namespaced=False,
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.scheduling.v1.PriorityClass")},
    columns={
        "v1": (
            Column(name="Value", value=_value, type="integer", description="The priority that pods get."),
            Column(
                name="Global-Default",
                value=_global_default,
                type="boolean",
                description="Whether pods without a class get it.",
            ),
            AGE,
            Column(
                name="PreemptionPolicy",
                value=text_at("preemptionPolicy"),
                description="Whether such pods push others out.",
            ),
        )
    },
    rules=Rules(
        default=_default,
        prepare_create=_prepare_create,
        validate=_validate,
        validate_update=_validate_update,
    ),
)

KINDS: Final[tuple[Kind, ...]] = (PRIORITY_CLASS,)
