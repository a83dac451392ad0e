"""Service accounts. Here they are only names to refer to; there are no tokens for them."""

from typing import Final

from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery.kind import Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    return [*metadata.wrong_metadata_update(old, new), *metadata.wrong_metadata(new)]


SERVICE_ACCOUNT: Final = Kind(
    group="",
    kind="ServiceAccount",
    plural="serviceaccounts",
    versions=("v1",),
    stored="v1",
    short_names=("sa",),
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.ServiceAccount")},
    columns={"v1": (AGE,)},
    rules=Rules(validate=metadata.wrong_metadata, validate_update=_validate_update),
)
