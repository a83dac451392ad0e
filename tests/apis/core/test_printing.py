"""How long ago, which labels, which selector: as `kubectl get` writes them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.printing import humanised, labels_text, selector_text, since

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (5, "5s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (4 * DAY + 12 * HOUR, "4d12h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (3 * YEAR + 2 * DAY, "3y2d"),
        (8 * YEAR + 300 * DAY, "8y"),
    ],
)
def test_durations_keep_two_or_three_figures(seconds: float, shown: str) -> None:
    assert humanised(timedelta(seconds=seconds)) == shown


@given(st.integers(0, 20 * YEAR))
def test_a_duration_is_never_shown_longer_than_it_is_nor_much_shorter(seconds: int) -> None:
    units = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}
    shown, number = 0, ""
    for character in humanised(timedelta(seconds=seconds)):
        if character.isdigit():
            number += character
        else:
            shown, number = shown + int(number) * units[character], ""
    assert shown <= seconds <= shown * 1.15 + 1


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        ("2026-01-31T11:59:55Z", "5s"),
        ("2026-01-31T11:59:55.999999Z", "4s"),
        ("2026-01-31T13:59:55+02:00", "5s"),
        (None, "<unknown>"),
        ("", "<unknown>"),
        ("yesterday", "<unknown>"),
        ("2026-01-31T11:59:55", "<unknown>"),
    ],
)
def test_ages_are_counted_from_a_timestamp_with_a_zone(timestamp: str | None, shown: str) -> None:
    assert since(timestamp, NOW) == shown


def test_labels_are_sorted_and_none_is_said() -> None:
    assert labels_text({"b": "2", "a": "1"}) == "a=1,b=2"
    assert labels_text({}) == labels_text(None) == "<none>"


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        (None, "<none>"),
        ({}, "<none>"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["b", "a"]}]}, "k in (a,b)"),
        ({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["a"]}]}, "k notin (a)"),
        ({"matchExpressions": [{"key": "k", "operator": "Exists"}], "matchLabels": {"z": "1"}}, "k,z=1"),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, "!k"),
        ({"matchExpressions": [{"key": "k", "operator": "Near"}]}, "<error>"),
    ],
)
def test_selectors_are_written_as_kubectl_takes_them(selector: dict[str, Any] | None, shown: str) -> None:
    assert selector_text(selector) == shown
