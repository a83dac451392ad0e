"""The rules of Kueue's kinds on manifests: read into the model's types, asked there, and the answers handed on.

The schema has been walked before, so a manifest that comes here is plain JSON without unknown fields and within its
limits. This is the path
of every write, so nothing is read or asked twice: what an update leaves as it was is taken over as it was.

Kueue's webhook also adds a finalizer to queues and flavors. Here whoever takes it away adds it: controllers do both, so
that an API without them deletes what it is told to delete.
"""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, Final

import msgspec

from fairway.apis.kueue import conversion
from fairway.apis.kueue.objects import KINDS as TYPES
from fairway.apis.kueue.objects import AnyObject, Workload
from fairway.apis.kueue.validation import wrong, wrong_update
from fairway.apis.kueue.validation.workloads import GATES_ANNOTATION
from fairway.apis.machinery import shapes
from fairway.apis.machinery.kind import Manifest, Rules
from fairway.apis.machinery.metadata import GROUP, Condition
from fairway.apis.machinery.metadata_rules import wrong_metadata
from fairway.apis.machinery.names import key_faults
from fairway.errors import FieldError, ValidationError

_TYPE_FIELDS: Final = frozenset({"apiVersion", "kind"})
_UNRULED: Final = frozenset({"admission", "requeueState", "resourceRequests", "schedulingStats"})
"""Parts of a Workload's status about which no rule asks anything while they stay the very same."""

_LARGEST_KEPT: Final = 1024
"""In bytes; longer conditions are read again and again."""

_encode = msgspec.json.Encoder().encode


def rules_of(kind: str) -> Rules:
    """The rules of one of Kueue's kinds."""
    return Rules(
        validate=_validator(kind),
        validate_metadata=_metadata_validator(kind),
        validate_update=_update_validator(kind),
        validate_status=_status_validator(kind) if "status" in TYPES[kind].__struct_fields__ else None,
        convert=convert,
        request_path=partial(conversion.old_path, kind),
    )


def convert(manifest: Manifest, version: str) -> Manifest:
    """The object in the other version; `ValidationError`, by the paths of the older, if it has no likeness there."""
    kind, source = manifest["kind"], manifest["apiVersion"].rpartition("/")[2]
    if source == version:
        return manifest
    if source == conversion.STORED:
        converted = conversion.from_stored(kind, version, manifest)
    else:
        errors = conversion.without_likeness(kind, manifest)
        if errors:
            metadata = manifest.get("metadata") or {}
            raise ValidationError(kind, metadata.get("name") or metadata.get("generateName") or "", errors)
        converted = conversion.to_stored(kind, source, manifest)
    converted["apiVersion"] = f"{GROUP}/{version}"
    return converted


def _validator(kind: str) -> Callable[[Manifest], list[FieldError]]:
    expected = TYPES[kind]

    def validate(manifest: Manifest) -> list[FieldError]:
        value, errors = shapes.read(_parts(manifest), expected)
        return errors if value is None else wrong(value, limits=False)

    return validate


def _metadata_validator(kind: str) -> Callable[[Manifest], list[FieldError]]:
    expected = TYPES[kind]

    def validate_metadata(manifest: Manifest) -> list[FieldError]:
        value, errors = shapes.read({"metadata": manifest["metadata"]}, expected)
        return errors if value is None else wrong_metadata(value)

    return validate_metadata


def _update_validator(kind: str) -> Callable[[Manifest, Manifest], list[FieldError]]:
    expected = TYPES[kind]

    def validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
        before, errors = shapes.read(_parts(old), expected)
        if before is None:
            return errors
        value, errors = _read_over(before, old, new)
        return errors if value is None else wrong_update(before, value, limits=False)

    return validate_update


def _status_validator(kind: str) -> Callable[[Manifest, Manifest, Any], tuple[list[FieldError], Any]]:
    expected, validate_update = TYPES[kind], _update_validator(kind)
    is_clearly_right = _has_right_conditions if kind == Workload.KIND else _never

    def validate_status(old: Manifest, new: Manifest, reading: Any) -> tuple[list[FieldError], Any]:
        if is_clearly_right(old, new):
            return [], None
        before = reading or _read_stored(kind, old)
        if before is None:
            return validate_update(_decoded(old), _decoded(new)), None
        parts = {"metadata": before.metadata, "spec": before.spec}
        if "status" in new:
            parts["status"] = _partly_read(before.status, old.get("status") or {}, new["status"])
        after = shapes.read_exact(parts, expected)
        if after is None:
            return validate_update(_decoded(old), _decoded(new)), None
        return wrong_update(before, after, limits=False), after

    return validate_status


def _has_right_conditions(old: Manifest, new: Manifest) -> bool:
    """Whether a Workload's conditions alone are new, and no rule has anything to say about these.

    What the rest of the object must be like was asked when it was written. Of the rules that
    `wrong_workload_update` has for a status, only those about the names of conditions and about reserving quota are
    left then; those about gates, or parts that depend on a spec that may have changed, are for the typed way.
    """
    before, after = old.get("status"), new.get("status")
    if before is None or after is None or not before.keys() <= after.keys():
        return False
    for name, part in after.items():
        if name != "conditions" and (part is not before.get(name) or name not in _UNRULED):
            return False
    if GATES_ANNOTATION in (new["metadata"].get("annotations") or ()):
        return False
    earlier, reserves = before.get("conditions") or [], False
    for position, condition in enumerate(after.get("conditions", ())):
        stays = position < len(earlier) and condition is earlier[position]
        if not stays and not _is_condition(condition):
            return False
        if key_faults(condition["type"]):
            return False
        reserves = reserves or (not stays and _reserves_quota(condition))
    return not reserves or any(map(_reserves_quota, earlier))


def _is_condition(data: Any) -> bool:
    text = _encode(data)
    return _is_condition_in(text) if len(text) <= _LARGEST_KEPT else shapes.read_exact(data, Condition) is not None


@lru_cache(maxsize=1024)
def _is_condition_in(text: bytes) -> bool:
    """Whether this reads as a condition: most that are set are those of other workloads, word by word."""
    return shapes.read_exact(msgspec.json.decode(text), Condition) is not None


def _reserves_quota(condition: Any) -> bool:
    return type(condition) is dict and condition.get("type") == "QuotaReserved" and condition.get("status") == "True"


def _never(_old: Manifest, _new: Manifest) -> bool:
    return False


def _decoded(manifest: Manifest) -> Manifest:
    return {**manifest, "spec": msgspec.json.decode(manifest["spec"])} if "spec" in manifest else manifest


def _read_stored(kind: str, manifest: Manifest) -> Any:
    """An object as it is stored, if it has exactly the shape of its kind; without the record of its owners."""
    metadata = {name: part for name, part in manifest["metadata"].items() if name != "managedFields"}
    parts: dict[str, Any] = {"metadata": metadata}
    if "spec" in manifest:
        parts["spec"] = _stored_spec(kind, bytes(manifest["spec"]))
    if "status" in manifest:
        parts["status"] = manifest["status"]
    return shapes.read_exact(parts, TYPES[kind])


def _partly_read(before: msgspec.Struct, old: dict[str, Any], new: Any) -> Any:
    """A new status to be read, with what is the old one's as it was read before."""
    if type(new) is not dict:
        return new
    names = _attributes(type(before))
    parts = {}
    for name, part in new.items():
        ours = old.get(name)
        if name in names and part is ours:
            parts[name] = getattr(before, names[name])
        elif name in names and type(part) is list and type(ours) is list:
            read = getattr(before, names[name])
            parts[name] = [read[at] if at < len(ours) and item is ours[at] else item for at, item in enumerate(part)]
        else:
            parts[name] = part
    return parts


@cache
def _attributes(cls: type[msgspec.Struct]) -> dict[str, str]:
    """The names of a type's fields here, by those in the API."""
    return dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))


@lru_cache(maxsize=512)
def _stored_spec(kind: str, data: bytes) -> Any:
    """A spec as it is stored, read; most objects have that of another one."""
    spec = msgspec.json.decode(data)
    value = shapes.read_exact({"spec": spec}, TYPES[kind])
    return spec if value is None else getattr(value, "spec", spec)


def _parts(manifest: Manifest) -> dict[str, Any]:
    return {name: part for name, part in manifest.items() if name not in _TYPE_FIELDS}


def _read_over(before: AnyObject, old: Manifest, new: Manifest) -> tuple[AnyObject | None, list[FieldError]]:
    """The new object, with the very metadata and spec of the one before where the manifests have the same."""
    parts = _parts(new)
    shared: dict[str, Any] = {
        name: getattr(before, name) for name in ("metadata", "spec") if name in parts and parts[name] == old.get(name)
    }
    if shared:
        value = shapes.read_exact({**parts, **shared}, type(before))
        if value is not None:
            return value, []
    return shapes.read(parts, type(before))
