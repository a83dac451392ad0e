"""ProvisioningRequest: what asks a cluster autoscaler whether there is room. Both versions say the same."""

from dataclasses import replace
from functools import cache
from typing import Final

from fairway.apis.machinery.custom import custom_rules, custom_schemas, definition_name
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import FieldError

GROUP: Final = "autoscaling.x-k8s.io"
_KIND: Final = "ProvisioningRequest"
_STORED: Final = "v1"
_OLD: Final = "v1beta1"
_VERSIONS: Final = (_STORED, _OLD)
_FIXED: Final = ("podSets", "provisioningClassName", "parameters")

_stored_schemas = custom_schemas(GROUP, (_STORED,), _KIND)


@cache
def _old_schema() -> Schema:
    return replace(_stored_schemas[_STORED](), name=definition_name(GROUP, _OLD, _KIND))


def _changed_request(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return [
        error
        for name in _FIXED
        if name in before and name in after
        for error in changed(before[name], after[name], f"spec.{name}", "Value is immutable")
    ]


def _convert(manifest: Manifest, version: str) -> Manifest:
    return {**manifest, "apiVersion": f"{GROUP}/{version}"}


_COLUMNS: Final = (custom_column("Age", ".metadata.creationTimestamp", "date"),)

KINDS: Final = (
    Kind(
        group=GROUP,
        kind=_KIND,
        plural="provisioningrequests",
        versions=_VERSIONS,
        stored=_STORED,
        short_names=("provreq", "provreqs"),
        status=True,
        schemas={**_stored_schemas, _OLD: _old_schema},
        columns=dict.fromkeys(_VERSIONS, _COLUMNS),
        rules=custom_rules(changed=_changed_request, convert=_convert),
    ),
)
