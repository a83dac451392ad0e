"""What the custom kinds beside Kueue's share: how their schemas are called, and rules around those of their own."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.metadata_rules import SUBDOMAIN, NameRule, wrong_metadata, wrong_metadata_update
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import FieldError

_NO_RULES = Rules()


def definition_name(group: str, version: str, kind: str) -> str:
    """The name of a custom kind's OpenAPI definition: the parts of the group from last to first, version and kind."""
    return ".".join([*reversed(group.split(".")), version, kind])


def custom_schemas(group: str, versions: Sequence[str], kind: str) -> Mapping[str, Callable[[], Schema]]:
    """A loader for each version."""
    return {version: partial(definition, definition_name(group, version, kind)) for version in versions}


def custom_rules(
    *,
    name_rule: NameRule = SUBDOMAIN,
    wrong: Callable[[Manifest], list[FieldError]] = _NO_RULES.validate,
    changed: Callable[[Manifest, Manifest], list[FieldError]] = _NO_RULES.validate_update,
    convert: Callable[[Manifest, str], Manifest] = _NO_RULES.convert,
) -> Rules:
    """The rules about metadata, then the kind's own: what is wrong with an object, and with a change to one."""

    def validate(manifest: Manifest) -> list[FieldError]:
        return [*wrong_metadata(manifest, name_rule, builtin=False), *wrong(manifest)]

    def validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
        return [*validate(new), *wrong_metadata_update(old, new), *changed(old, new)]

    return Rules(validate=validate, validate_update=validate_update, convert=convert)


def operator_kind(group: str, version: str, kind: str, operator: str, columns: Sequence[Column], **fields: Any) -> Kind:
    """A kind of an operator, from its recorded definition: stored, and run by that operator alone.

    The definition that comes with the operator takes the place of this record when it is applied.
    """
    warning = f"this {kind} is stored, and nothing in this server runs it: start {operator} beside it, or run a Job"
    return Kind(
        group=group,
        kind=kind,
        plural=f"{kind.lower()}s",
        versions=(version,),
        stored=version,
        yields=True,
        schemas=custom_schemas(group, (version,), kind),
        columns={version: tuple(columns)},
        rules=custom_rules(),
        warn=lambda _manifest: (warning,),
        **{"status": True, **fields},
    )
