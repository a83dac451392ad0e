"""Recordings of a real API server (see `tools/kinds/record.py`), and how the rules answer the same requests."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairway.apis.batch import records as batch
from fairway.apis.coordination import records as coordination
from fairway.apis.core import records as core
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.schemas.walk import inspect
from fairway.apis.node import records as node
from fairway.apis.scheduling import records as scheduling
from fairway.errors import FieldError

DATA: Final = Path(__file__).parent / "data"
KINDS: Final = {
    kind.kind: kind
    for kind in (*core.KINDS, *batch.KINDS, *coordination.KINDS, *scheduling.KINDS, *node.KINDS)
    if (DATA / f"{kind.plural}.json").exists()
}
"""Those that were recorded."""

NOW: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)

_GIVEN: Final = ("name", "generateName", "namespace", "uid", "creationTimestamp")
"""What the store has set in an object's metadata before the rules of its kind are asked."""


_FOUND_TWICE: Final = ("FieldValueRequired", "FieldValueNotSupported")


@dataclass(frozen=True)
class Step:
    """One request of a recorded case: what was sent to an object, and what came back."""

    verb: str
    sent: Manifest
    before: Manifest
    answer: Manifest | None
    causes: frozenset[tuple[str, str]]

    @property
    def kind(self) -> Kind:
        return KINDS[self.sent["kind"]]


def steps() -> Iterator[tuple[str, Step]]:
    """Every recorded request, with a name for it."""
    for file in sorted(DATA.glob("*.json")):
        if file.stem == "discovery":
            continue
        for case in json.loads(file.read_text()):
            before: Manifest = {}
            for number, step in enumerate(case["steps"], start=1):
                if "sent" in step:
                    causes = frozenset((reason, field) for reason, field in step.get("causes", ()))
                    name = f"{file.stem}: {case['name']}, step {number} ({step['verb']})"
                    yield name, Step(step["verb"], step["sent"], before, step.get("object"), causes)
                before = step.get("object", before)


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every recorded row of `kubectl get`, with a name for it."""
    for file in sorted(DATA.glob("*.json")):
        if file.stem != "discovery":
            for case in json.loads(file.read_text()):
                if "table" in case:
                    yield f"{file.stem}: {case['name']}", case["table"]


def discovered() -> list[dict[str, Any]]:
    resources: list[dict[str, Any]] = json.loads((DATA / "discovery.json").read_text())
    return resources


def answered(step: Step) -> tuple[Manifest, list[FieldError]]:
    """The object that comes of the request, and what is wrong with it: what the store does around the rules."""
    manifest = copy.deepcopy(step.sent)
    kind, rules = step.kind, step.kind.rules
    findings = inspect(kind.schemas[kind.stored](), manifest)
    # What the schema misses or does not know, the rules must find too, and with it all the rest that is wrong.
    assert not [error for error in findings.errors if error.rule not in _FOUND_TWICE]
    assert not findings.unknown
    if step.verb == "create":
        given = (step.answer or {"metadata": {"uid": "u", "namespace": "kinds-recorded"}})["metadata"]
        manifest.setdefault("metadata", {})
        if kind.status:
            manifest.pop("status", None)
        manifest["metadata"].update({field: given[field] for field in _GIVEN if field in given})
        if not kind.namespaced:
            manifest["metadata"].pop("namespace", None)
        rules.default(manifest)
        rules.prepare_create(manifest)
        return manifest, rules.validate(manifest)
    old = copy.deepcopy(step.before)
    if step.verb == "status":
        manifest["spec"] = copy.deepcopy(old["spec"])
        if kind.kind == "Pod" and "deletionTimestamp" not in manifest["metadata"]:
            manifest["metadata"].pop("deletionGracePeriodSeconds", None)
    elif kind.status:
        manifest["status"] = copy.deepcopy(old.get("status", {}))
    rules.default(manifest)
    rules.prepare_update(old, manifest)
    return manifest, rules.validate_update(old, manifest)


def comparable(manifest: Manifest) -> Any:
    """The object without what the store counts, and without empty parts, which say nothing."""
    kept = copy.deepcopy(manifest)
    kept["metadata"].pop("generation", None)
    kept["metadata"].pop("namespace", None)
    status = kept.get("status") or {}
    for condition in status.get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    if kept["kind"] == "Job":
        kept["status"] = {field: value for field, value in status.items() if value != 0}
    if kept["kind"] == "Node":
        # Nobody would take the taint away again: there is no controller that watches over nodes.
        taints = kept.get("spec", {}).get("taints") or []
        kept["spec"]["taints"] = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
        status.pop("daemonEndpoints", None)
    return filled(kept)


def filled(value: Any) -> Any:
    """The value without nulls and empty parts."""
    if isinstance(value, dict):
        parts = {key: filled(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, {}, [], "")}
    return [filled(part) for part in value] if isinstance(value, list) else value


def row(kind: Kind, manifest: Manifest, now: datetime) -> dict[str, Any]:
    """What `kubectl get` shows of an object, by column."""
    cells = {"Name": manifest["metadata"]["name"]}
    return cells | {column.name: column.value(manifest, now) for column in kind.columns[kind.stored]}
