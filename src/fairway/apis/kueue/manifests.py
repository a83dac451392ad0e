"""Manifests of Kueue's kinds to typed values and back.

`load` is what a create request goes through: schema, conversion, defaults, rules; `decode` is the part of it without
defaults and rules; `typed` only reads an object that was stored. `encode` writes a value in the version that is asked
for. Errors have the paths of the manifest's own version.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from fairway.apis.kueue import conversion
from fairway.apis.kueue.objects import KINDS, AnyObject
from fairway.apis.kueue.rules import convert, rules_of
from fairway.apis.machinery import problems
from fairway.apis.machinery.custom import custom_schemas
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.metadata import GROUP, IN_USE_FINALIZER, Object
from fairway.apis.machinery.schemas.walk import inspect
from fairway.apis.machinery.structs import read, write
from fairway.errors import FieldError, ValidationError

Kind = TypeVar("Kind", bound=Object)

SERVED_VERSIONS: Final = ("v1beta2", "v1beta1")
DEFAULT_NAMESPACE: Final = "default"
_IN_USE: Final = frozenset({"ClusterQueue", "ResourceFlavor"})
"""The kinds that Kueue's webhook gives a finalizer, so that they stay while they are in use."""


def typed(kind: type[Kind], manifest: Manifest) -> Kind:
    """The value of a stored object; `ValidationError` if it does not have the shape of its kind."""
    return read({name: part for name, part in manifest.items() if name not in ("apiVersion", "kind")}, kind)


def decode(manifest: Mapping[str, Any]) -> AnyObject:
    """The value of a manifest of any served version; `ValidationError` if its schema refuses it."""
    kind, _ = _identified(manifest)
    return typed(KINDS[kind], _stored(manifest))


def load(manifest: Mapping[str, Any]) -> AnyObject:
    """The object that creating this manifest would store; `ValidationError` with all that is wrong if it is refused."""
    kind, version = _identified(manifest)
    stored = _stored(manifest)
    metadata = stored.setdefault("metadata", {})
    # The namespace comes from the request: kubectl's is "default", and a cluster-wide kind has none.
    namespace = metadata.pop("namespace", None)
    if KINDS[kind].NAMESPACED:
        metadata["namespace"] = namespace or DEFAULT_NAMESPACE
    finalizers = metadata.get("finalizers") or []
    if kind in _IN_USE and IN_USE_FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, IN_USE_FINALIZER]
    errors = rules_of(kind, status=True).validate(stored)
    if errors:
        raise ValidationError(kind, _name(manifest), _by_own_paths(kind, version, errors))
    return typed(KINDS[kind], stored)


def load_as(kind: type[Kind], manifest: Mapping[str, Any]) -> Kind:
    """The same where only one kind will do."""
    value = load(manifest)
    if not isinstance(value, kind):
        wrong = problems.not_supported("kind", value.KIND, [kind.KIND])
        raise ValidationError(value.KIND, value.metadata.name, [wrong])
    return value


def encode(value: AnyObject, version: str = conversion.STORED) -> dict[str, Any]:
    """The manifest of a value, in one of `SERVED_VERSIONS`."""
    if version not in SERVED_VERSIONS:
        raise ValueError(f"{version!r} is not written; the versions are {', '.join(SERVED_VERSIONS)}")
    data = write(value)
    if version != conversion.STORED:
        data = conversion.from_stored(value.KIND, version, data)
    return {"apiVersion": f"{GROUP}/{version}", "kind": value.KIND, **data}


def _stored(manifest: Mapping[str, Any]) -> Manifest:
    """A copy of the manifest in the stored version, checked against the schema of its own and completed."""
    kind, version = _identified(manifest)
    schemas = custom_schemas(GROUP, SERVED_VERSIONS, kind)
    try:
        stored = copy.deepcopy(dict(manifest))
    except RecursionError:
        raise ValidationError(kind, _name(manifest), [problems.invalid("", "…", "nested too deeply")]) from None
    findings = inspect(schemas[version](), stored)
    errors = [*findings.errors, *(problems.unknown(path, None, "") for path in findings.unknown)]
    if not errors and version != conversion.STORED:
        stored = convert(stored, conversion.STORED)
        errors = _by_own_paths(kind, version, inspect(schemas[conversion.STORED](), stored).errors)
    if errors:
        raise ValidationError(kind, _name(manifest), errors)
    return stored


def _by_own_paths(kind: str, version: str, errors: list[FieldError]) -> list[FieldError]:
    return [replace(error, path=conversion.old_path(kind, version, error.path)) for error in errors]


def _identified(manifest: Mapping[str, Any]) -> tuple[str, str]:
    if not isinstance(manifest, Mapping):
        raise ValidationError("Object", "", [problems.wrong_type("", manifest, "a manifest must be an object")])
    api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
    missing = [
        problems.required(name) if value is None else problems.wrong_type(name, value, "must be a string")
        for name, value in (("apiVersion", api_version), ("kind", kind))
        if not isinstance(value, str)
    ]
    if missing or not isinstance(api_version, str) or not isinstance(kind, str):
        raise ValidationError(kind if isinstance(kind, str) else "Object", _name(manifest), missing)
    served = [f"{GROUP}/{one}" for one in SERVED_VERSIONS]
    if api_version not in served:
        raise ValidationError(kind, _name(manifest), [problems.not_supported("apiVersion", api_version, served)])
    if kind not in KINDS:
        raise ValidationError(kind, _name(manifest), [problems.not_supported("kind", kind, sorted(KINDS))])
    return kind, api_version.rpartition("/")[2]


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    name = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""
