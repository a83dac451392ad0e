"""Leases: who leads, and until when."""

from typing import Final

from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import problems
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE, text_at
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError


def _default(manifest: Manifest) -> None:
    manifest.setdefault("spec", {})


def _validate(manifest: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata(manifest)
    spec = manifest["spec"]
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(problems.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(problems.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return errors


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    return [*metadata.wrong_metadata_update(old, new), *_validate(new)]


LEASE: Final = Kind(
    group="coordination.k8s.io",
    kind="Lease",
    plural="leases",
    versions=("v1",),
    stored="v1",
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.coordination.v1.Lease")},
    columns={
        "v1": (Column(name="Holder", value=text_at("spec", "holderIdentity"), description="Who has it."), AGE),
    },
    rules=Rules(default=_default, validate=_validate, validate_update=_validate_update),
)

KINDS: Final[tuple[Kind, ...]] = (LEASE,)
