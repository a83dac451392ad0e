"""Plain writes and applied configurations give the objects, owners and conflicts that a real API server gave."""

from typing import Any

import pytest

from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import ApiError, BadRequest
from fairway.store.patching.apply import apply
from fairway.store.patching.conflicts import ApplyConflict
from fairway.store.patching.managedfields import after_write

from .recordings import differences, recorded

_RECORDS = recorded("scenarios.json")

_SERVERS_OWN = ("resourceVersion", "uid", "creationTimestamp", "generation", "namespace", "managedFields")


@pytest.mark.parametrize("record", _RECORDS, ids=lambda record: record["name"])
def test_replayed_scenario_has_the_recorded_outcome(record: dict[str, Any]) -> None:
    schema = definition(record["definition"])
    live: dict[str, Any] | None = None
    for number, step in enumerate(record["steps"]):
        context = f"step {number} by {step['manager']}"
        reset = _reset(record, step)
        now = f"2026-01-01T00:00:{number:02}Z"
        if step["verb"] == "apply":
            _check_apply(schema, live, step, reset, now, context)
        else:
            _check_write(schema, live, step, reset, now, context)
        if step["answer"]["kind"] != "Status":
            live = step["answer"]


def test_the_recording_is_large_enough() -> None:
    assert len(_RECORDS) >= 60
    assert sum(len(record["steps"]) for record in _RECORDS) >= 180


def _reset(record: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    if step["subresource"] == "status":
        return {"f:spec": {}, "f:metadata": {}}
    return {"f:status": {}} if record["status"] else {}


def _check_write(
    schema: Schema, live: dict[str, Any] | None, step: dict[str, Any], reset: dict[str, Any], now: str, context: str
) -> None:
    answer = step["answer"]
    assert answer["kind"] != "Status", f"{context} was refused: {answer}"
    entries = (live or {}).get("metadata", {}).get("managedFields")
    if isinstance(step["body"], dict):
        entries = step["body"].get("metadata", {}).get("managedFields", entries)
    written = {**answer, "metadata": {**answer["metadata"], "managedFields": entries}}
    entries = after_write(
        live, written, schema=schema, manager=step["manager"], subresource=step["subresource"],
        api_version=answer["apiVersion"], now=now, reset=reset,
    )  # fmt: skip
    assert entries == answer["metadata"].get("managedFields", []), context


def _check_apply(
    schema: Schema, live: dict[str, Any] | None, step: dict[str, Any], reset: dict[str, Any], now: str, context: str
) -> None:
    answer = step["answer"]

    def applied() -> dict[str, Any]:
        return apply(
            live, step["body"], schema_for=lambda _version: schema, convert=_no_conversion, manager=step["manager"],
            force=step["force"], subresource=step["subresource"], now=now, reset=reset,
        )  # fmt: skip

    if answer["kind"] == "Status":
        _check_refusal(applied, answer, context)
        return
    result = applied()
    assert result["metadata"].get("managedFields", []) == answer["metadata"].get("managedFields", []), context
    assert differences(_without(result), _without(answer), _without(live or {})) == [], context
    if live is not None and live["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]:
        assert result is live, f"{context} changes nothing"


def _check_refusal(applied: Any, answer: dict[str, Any], context: str) -> None:
    with pytest.raises(ApiError) as caught:
        applied()
    error = caught.value
    if answer["code"] != 409:
        # The real server answers some malformed configurations with 500; they are the client's fault.
        assert isinstance(error, BadRequest), context
        return
    assert isinstance(error, ApplyConflict), context
    assert error.message == answer["message"], context
    causes: Any = (error.details or {})["causes"]
    assert sorted(causes, key=_by_content) == sorted(answer["details"]["causes"], key=_by_content), context


def _by_content(cause: dict[str, str]) -> list[str]:
    return sorted(cause.values())


def _no_conversion(_manifest: dict[str, Any], version: str) -> dict[str, Any]:
    raise AssertionError(f"nothing here is recorded in another version, but {version} was asked for")


def _without(manifest: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in manifest.get("metadata", {}).items() if name not in _SERVERS_OWN}
    return {**manifest, "metadata": metadata}
