"""Manifests to typed values and back.

`decode` asks only whether a manifest has the shape of its kind; the value it returns carries the defaults of the API's
schema. `load` is what a create request goes through: decode, the remaining defaults, validation. `encode` writes a
value in the version that is asked for. What is wrong is reported with the paths of the manifest's own version.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fairway.apis.kueue import conversion, validation
from fairway.apis.kueue import defaults as defaulting
from fairway.apis.kueue.objects import KINDS, AnyObject, Workload
from fairway.apis.machinery import problems, shapes
from fairway.apis.machinery.metadata import GROUP, Object
from fairway.errors import FieldError, ValidationError

Kind = TypeVar("Kind", bound=Object)

SERVED_VERSIONS: Final = ("v1beta2", "v1beta1")
_ALPHA_KINDS: Final = frozenset({"Cohort", "Topology"})
"""The kinds that Kueue 0.11 still served as `v1alpha1`; their manifests are read, but nothing is written in it."""


def decode(manifest: Mapping[str, Any]) -> AnyObject:
    """The typed value of a manifest; `ValidationError` if it is not of a known kind or not of that kind's shape."""
    kind, version = _identified(manifest)
    data: dict[str, Any] = {name: part for name, part in manifest.items() if name not in {"apiVersion", "kind"}}
    errors: list[FieldError] = []
    if version != conversion.STORED:
        errors = conversion.wrong_in_old_version(kind, version, data)
        data = conversion.to_stored(kind, version, data)
    value, wrong = shapes.read(data, KINDS[kind])
    errors += [_by_old_path(error, kind, version) for error in wrong]
    if value is not None:
        errors += [error for path, part in _raw_parts(value) for error in shapes.not_json(part, path)]
    if value is None or errors:
        raise ValidationError(kind, _name(manifest), errors)
    return value


def load(manifest: Mapping[str, Any]) -> AnyObject:
    """The object that creating this manifest would store; `ValidationError` with all that is wrong if it is refused."""
    value = defaulting.default(decode(manifest))
    try:
        validation.validate(value)
    except ValidationError as error:
        version = str(manifest["apiVersion"]).rpartition("/")[2]
        if version == conversion.STORED:
            raise
        errors = [_by_old_path(one, value.KIND, version) for one in error.errors]
        raise ValidationError(error.kind, error.name, errors) from error
    return value


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
    data = shapes.write(value)
    if version != conversion.STORED:
        data = conversion.from_stored(value.KIND, version, data)
    return {"apiVersion": f"{GROUP}/{version}", "kind": value.KIND, **data}


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
    group, _, version = api_version.rpartition("/")
    versions = (*SERVED_VERSIONS, "v1alpha1") if kind in _ALPHA_KINDS else SERVED_VERSIONS
    if group != GROUP or version not in versions:
        served = [f"{GROUP}/{one}" for one in versions]
        raise ValidationError(kind, _name(manifest), [problems.not_supported("apiVersion", api_version, served)])
    if kind not in KINDS:
        raise ValidationError(kind, _name(manifest), [problems.not_supported("kind", kind, sorted(KINDS))])
    return kind, version


def _raw_parts(value: AnyObject) -> list[tuple[str, object]]:
    """The parts that are kept as they were written, with their paths."""
    parts: list[tuple[str, object]] = [("metadata.managedFields", value.metadata.managed_fields)]
    if isinstance(value, Workload):
        parts += [
            (f"spec.podSets[{position}].template.spec", pod_set.template.spec)
            for position, pod_set in enumerate(value.spec.pod_sets)
        ]
    return parts


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    name = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def _by_old_path(error: FieldError, kind: str, version: str) -> FieldError:
    if version == conversion.STORED:
        return error
    return FieldError(conversion.old_path(kind, version, error.path), error.value, error.rule, error.message)
