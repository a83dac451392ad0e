"""Single values: which are right, and which are kept in another spelling."""

from typing import Any

import pytest

from fairway.apis.machinery.schemas.scalars import Check, Instead, scalar
from fairway.apis.machinery.schemas.schema import Schema

WRONG = object()
SAME = object()


def kept(check: Check, value: Any) -> Any:
    outcome = check(value)
    if outcome is None:
        return SAME
    return outcome.value if isinstance(outcome, Instead) else WRONG


@pytest.mark.parametrize(
    ("value", "want_seconds", "want_micros"),
    [
        ("2026-01-31T12:00:00Z", SAME, "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00.123456Z", "2026-01-31T12:00:00Z", SAME),
        ("2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456Z"),
        ("2026-01-31T23:30:00-01:00", "2026-02-01T00:30:00Z", "2026-02-01T00:30:00.000000Z"),
        ("2026-02-30T12:00:00Z", WRONG, WRONG),
        ("2026-01-31T24:00:00Z", WRONG, WRONG),
        ("2026-W05-6T12:00:00Z", WRONG, WRONG),
        ("2026-01-31T120000.0Z", WRONG, WRONG),
        ("2026-01-31 12:00:00Z", WRONG, WRONG),
        ("2026-01-31T12:00:00", WRONG, WRONG),
        ("0001-01-01T00:00:00+01:00", WRONG, WRONG),
        ("2026-01-31", WRONG, WRONG),
        ("", WRONG, WRONG),
        (1769860800, WRONG, WRONG),
    ],
)
def test_times(value: Any, want_seconds: Any, want_micros: Any) -> None:
    seconds = Schema(type="string", format="date-time")
    micros = Schema(type="string", format="micro-time")

    assert kept(scalar(seconds, builtin=True), value) == want_seconds
    assert kept(scalar(micros, builtin=True), value) == want_micros
    assert kept(scalar(seconds, builtin=False), value) is (WRONG if want_seconds is WRONG else SAME)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("1", SAME),
        ("100m", SAME),
        ("1000m", "1"),
        ("0.1", "100m"),
        ("1.5Gi", "1536Mi"),
        (1, "1"),
        (1.5, "1500m"),
        (0, "0"),
        ("1 Gi", WRONG),
        ("", WRONG),
        (True, WRONG),
        (None, WRONG),
        (float("nan"), WRONG),
        (float("inf"), WRONG),
    ],
)
def test_quantities(value: Any, want: Any) -> None:
    assert kept(scalar(Schema(format="quantity"), builtin=True), value) == want


@pytest.mark.parametrize(
    ("value", "want_builtin", "want_custom"),
    [
        (5, SAME, SAME),
        (5.0, WRONG, 5),
        (5.5, WRONG, WRONG),
        (2**31, WRONG, WRONG),
        (-(2**31), SAME, SAME),
        (float("nan"), WRONG, WRONG),
        ("5", WRONG, WRONG),
        (False, WRONG, WRONG),
    ],
)
def test_whole_numbers(value: Any, want_builtin: Any, want_custom: Any) -> None:
    schema = Schema(type="integer", format="int32")

    assert kept(scalar(schema, builtin=True), value) == want_builtin
    assert kept(scalar(schema, builtin=False), value) == want_custom


@pytest.mark.parametrize(
    ("value", "want"), [(0, SAME), (1, SAME), (0.5, SAME), (-0.1, WRONG), (1.1, WRONG), ("1", WRONG)]
)
def test_numbers_within_limits(value: Any, want: Any) -> None:
    schema = Schema(type="number", limits={"minimum": 0, "maximum": 1})

    assert kept(scalar(schema, builtin=False), value) is want


@pytest.mark.parametrize(("value", "want"), [("node", SAME), ("Node", SAME), ("1node", WRONG), ("é", WRONG)])
def test_patterns_may_ignore_case_as_go_writes_it(value: str, want: Any) -> None:
    schema = Schema(type="string", limits={"pattern": "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"})

    assert kept(scalar(schema, builtin=False), value) is want


def test_a_remembered_string_is_still_right_and_others_are_still_wrong() -> None:
    """Strings that matched are looked up from then on; more of them than are remembered change nothing."""
    check = scalar(Schema(type="string", limits={"pattern": "^[a-z0-9]+$", "maxLength": 8}), builtin=False)
    for number in range(2000):
        assert check(f"n{number}") is None
    assert kept(check, "n1") is SAME
    assert kept(check, "N1") is WRONG
    assert kept(check, ["n1"]) is WRONG


def test_a_schema_without_a_meaning_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no check"):
        scalar(Schema(type="colour"), builtin=False)
