"""Decodes, converts and validates the manifest of a request."""

from typing import Any, NamedTuple

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.schemas.walk import Findings, inspect
from fairway.errors import BadRequest, FieldError, ValidationError

_MOST_SHOWN = 20
"""More unknown fields than this are not listed one by one."""


def identified(kind: Kind, version: str, manifest: object) -> Manifest:
    """The manifest, if it is an object of this kind and version at all."""
    if not isinstance(manifest, dict):
        raise BadRequest(f"the body must be a {kind.kind} object, not {_named(manifest)}")
    expected = kind.api_version(version)
    given_version, given_kind = manifest.get("apiVersion"), manifest.get("kind")
    if given_version is None and given_kind is None:
        manifest["apiVersion"], manifest["kind"] = expected, kind.kind
    elif given_version != expected or given_kind != kind.kind:
        raise BadRequest(
            f"the object in the body ({given_version!s:.80}, {given_kind!s:.80}) is not of the kind that the path "
            f"asks for ({expected}, {kind.kind})"
        )
    metadata = manifest.get("metadata")
    if metadata is None:
        manifest["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise BadRequest(f"metadata: Invalid value: must be an object, not {_named(metadata)}")
    return manifest


def check_place(kind: Kind, manifest: Manifest, namespace: str, name: str) -> None:
    """Whether the manifest names the same object as the request; what it leaves out is filled in."""
    metadata = manifest["metadata"]
    given = metadata.get("namespace")
    if kind.namespaced:
        if given and given != namespace:
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request "
                f"({given!s:.80} and {namespace})"
            )
        metadata["namespace"] = namespace
    elif given:
        raise BadRequest(f"metadata.namespace: {kind.resource} belong to no namespace, but {given!s:.80} is given")
    else:
        metadata.pop("namespace", None)
    if name:
        given = metadata.get("name")
        if given and given != name:
            raise BadRequest(f"the name of the object ({given!s:.253}) does not match the name on the URL ({name})")
        metadata["name"] = name


class Checked(NamedTuple):
    """A manifest in the stored version, pruned and with the schema's defaults."""

    manifest: Manifest
    warnings: tuple[str, ...]
    errors: list[FieldError]
    """What the schema of one of Kubernetes' own kinds misses; the kind's rules may say it better."""


def checked(
    kind: Kind, version: str, manifest: Manifest, field_validation: str, *, with_status: bool = True
) -> Checked:
    """Check a manifest against the schema, and change it in place.

    With `with_status=False` an invalid status is removed, because the request does not set it. In
    Kubernetes' own kinds it must be an object all the same.
    """
    findings = inspect(kind.schemas[version](), manifest)
    if not with_status and not kind.builtin:
        right = [error for error in findings.errors if not _is_of_status(error)]
        if len(right) < len(findings.errors):
            manifest.pop("status")
            findings = Findings(right, findings.unknown)
    warnings, errors = judged(kind, version, manifest, findings, field_validation)
    if version != kind.stored:
        manifest = kind.rules.convert(manifest, kind.stored)
        again = inspect(kind.schemas[kind.stored](), manifest)
        if again.errors and not kind.defined:  # without conversion, only the version of the request is asked
            raise refused(kind, version, manifest, again.errors)
    return Checked(manifest, warnings, errors)


def _is_of_status(error: FieldError) -> bool:
    return error.path == "status" or error.path.startswith(("status.", "status["))


def checked_status(kind: Kind, manifest: Manifest, field_validation: str) -> tuple[tuple[str, ...], list[FieldError]]:
    """The same where only the status is new and the version is the stored one: what to warn of, what is missed."""
    status, schema = manifest.get("status"), kind.schemas[kind.stored]().properties.get("status")
    if status is None or schema is None:
        return (), []
    return judged(kind, kind.stored, manifest, inspect(schema, status, "status"), field_validation)


def judged(
    kind: Kind, version: str, manifest: Manifest, findings: Findings, field_validation: str
) -> tuple[tuple[str, ...], list[FieldError]]:
    """What to warn of, and what the rules may say better; all that cannot wait for them is refused."""
    warnings = _about_unknown(kind, manifest, findings.unknown, field_validation)
    errors = findings.errors
    if errors and (not kind.builtin or any(error.rule == "FieldValueTypeInvalid" for error in errors)):
        raise refused(kind, version, manifest, errors)
    return warnings, errors


def refused(kind: Kind, version: str, manifest: Manifest, errors: list[FieldError]) -> Exception:
    """The answer to a manifest that is not of its kind's shape."""
    broken = [error for error in errors if error.rule == "FieldValueTypeInvalid"]
    if kind.builtin and broken:
        shown = "; ".join(str(error) for error in broken[:_MOST_SHOWN])
        return BadRequest(f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: {shown}')
    return ValidationError(kind.kind, name_of(manifest), errors)


def name_of(manifest: Manifest) -> str:
    metadata: Any = manifest.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    return str(metadata.get("name") or metadata.get("generateName") or "")


def _about_unknown(kind: Kind, manifest: Manifest, unknown: list[str], field_validation: str) -> tuple[str, ...]:
    if not unknown or field_validation == "Ignore":
        return ()
    sentences = [f'unknown field "{path}"' for path in unknown[:_MOST_SHOWN]]
    if len(unknown) > _MOST_SHOWN:
        sentences.append(f"and {len(unknown) - _MOST_SHOWN} more")
    if field_validation == "Strict":
        subject = f'{kind.kind} "{name_of(manifest)}"' if name_of(manifest) else kind.kind
        raise BadRequest(f"{subject}: strict decoding error: {', '.join(sentences)}")
    return tuple(sentences)


def _named(value: object) -> str:
    names = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}
    return names.get(type(value), type(value).__name__)
