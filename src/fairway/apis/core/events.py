"""Events: what happened to other objects."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from fairway.apis.core import checks
from fairway.apis.core.selectables import string_at
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import since, text_at
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError

_MOST_CHARACTERS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_NEW: Final = "events.k8s.io/v1"
_SYSTEM_NAMESPACES: Final = ("default", "kube-system")


def _default(manifest: Manifest) -> None:
    for field in ("source", "involvedObject"):
        manifest.setdefault(field, {})
    for field in ("reportingComponent", "reportingInstance"):
        manifest.setdefault(field, "")
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        manifest.setdefault(field, None)


def _validate(manifest: Manifest) -> list[FieldError]:
    namespace = manifest["metadata"].get("namespace") or ""
    about = (manifest.get("involvedObject") or {}).get("namespace") or ""
    errors: list[FieldError] = []
    if manifest.get("eventTime"):
        fitting = bool(about) or namespace in _SYSTEM_NAMESPACES
        errors += _wrong_new_style(manifest)
    else:
        fitting = namespace == about if about else namespace in ("", "default")
    if not fitting:
        errors.append(problems.invalid("involvedObject.namespace", about, "does not match event.namespace"))
    return errors + checks.wrong_subdomain(namespace, "namespace")


def _wrong_new_style(manifest: Manifest) -> list[FieldError]:
    """Events with `eventTime` say who reports and what was done; older ones need not."""
    errors = [
        problems.required(field)
        for field in ("reportingComponent", "reportingInstance", "action", "reason")
        if not manifest.get(field)
    ]
    errors += names.wrong_key(manifest.get("reportingComponent") or "", "reportingComponent")
    errors += [
        problems.invalid(field, "", f"can have at most {most} characters")
        for field, most in _MOST_CHARACTERS.items()
        if len((manifest.get(field) or "").encode()) > most
    ]
    return errors


def _validate_update(_old: Manifest, new: Manifest) -> list[FieldError]:
    return _validate(new)


_NEW_NAMES: Final = {
    "reportingComponent": "reportingController",
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""What `events.k8s.io/v1` calls the fields that `v1` calls otherwise."""

_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}


def _convert(manifest: Manifest, version: str) -> Manifest:
    names, api_version = (_OLD_NAMES, "v1") if version == "v1" else (_NEW_NAMES, _NEW)
    return {**{names.get(name, name): value for name, value in manifest.items()}, "apiVersion": api_version}


def _series(manifest: Manifest) -> dict[str, Any]:
    return manifest.get("series") or {}


def _first_seen(manifest: Manifest, now: datetime) -> str:
    return since(manifest.get("firstTimestamp") or manifest.get("eventTime"), now)


def _last_seen(manifest: Manifest, now: datetime) -> str:
    if manifest.get("series") is not None:
        return since(_series(manifest).get("lastObservedTime"), now)
    last = manifest.get("lastTimestamp")
    return since(last, now) if last else _first_seen(manifest, now)


def _count(manifest: Manifest, _now: datetime) -> int:
    if manifest.get("series") is not None:
        return int(_series(manifest).get("count") or 0)
    return int(manifest.get("count") or 1)


def _object(manifest: Manifest, _now: datetime) -> str:
    about = manifest.get("involvedObject") or {}
    kind = (about.get("kind") or "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _source(manifest: Manifest, _now: datetime) -> str:
    source = manifest.get("source") or {}
    component = source.get("component") or manifest.get("reportingComponent") or ""
    instance = source.get("host") or manifest.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _message(manifest: Manifest, _now: datetime) -> str:
    return (manifest.get("message") or "").strip()


def _selected_source(manifest: Manifest) -> str:
    return (manifest.get("source") or {}).get("component") or manifest.get("reportingComponent") or ""


def _requested_path(version: str, path: str) -> str:
    field, dot, rest = path.partition(".")
    return path if version == "v1" else f"{_NEW_NAMES.get(field, field)}{dot}{rest}"


def _of_new(column: Column) -> Column:
    return replace(column, value=lambda manifest, now: column.value(_convert(manifest, "v1"), now))


_COLUMNS: Final = (
    Column(name="Last Seen", value=_last_seen, description="How long ago it happened last."),
    Column(name="Type", value=text_at("type"), description="Normal or Warning."),
    Column(name="Reason", value=text_at("reason"), description="What happened, in one word."),
    Column(name="Object", value=_object, description="What it happened to."),
    Column(
        name="Subobject", value=text_at("involvedObject", "fieldPath"), priority=1, description="Which part of that."
    ),
    Column(name="Source", value=_source, priority=1, description="Who reports it, and from where."),
    Column(name="Message", value=_message, description="What happened, for people."),
    Column(name="First Seen", value=_first_seen, priority=1, description="How long ago it happened first."),
    Column(name="Count", value=_count, priority=1, description="How often it happened."),
    # An event's name says nothing, so it stands last, where other kinds have it first.
    Column(name="Name", value=text_at("metadata", "name"), format="name", priority=1, description="The event's name."),
)

EVENT: Final = Kind(
    group="",
    kind="Event",
    plural="events",
    versions=("v1", _NEW),
    stored="v1",
    short_names=("ev",),
    generation=False,
    builtin=True,
    schemas={
        "v1": lambda: definition("io.k8s.api.core.v1.Event"),
        _NEW: lambda: definition("io.k8s.api.events.v1.Event"),
    },
    columns={"v1": _COLUMNS, _NEW: tuple(map(_of_new, _COLUMNS))},
    selectable={
        **{
            f"involvedObject.{field}": string_at("involvedObject", field)
            for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": string_at("reason"),
        "reportingComponent": string_at("reportingComponent"),
        "source": _selected_source,
        "type": string_at("type"),
    },
    rules=Rules(
        default=_default,
        validate=_validate,
        validate_update=_validate_update,
        convert=_convert,
        request_path=_requested_path,
    ),
)
