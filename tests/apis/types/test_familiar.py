"""What is kept about a value is found for that value and for no other, however alike they look."""

import datetime as dt
from typing import Any

import pytest

from fairway.apis.machinery import contentcache as familiar
from fairway.apis.machinery.contentcache import Familiar, written

VALUES: list[Any] = [
    {"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": None}, {"a": float("nan")}, {"a": []}, {"a": {}}, {"a": [1]},
    {"a": (1,)}, {1: 1}, {"1": 1}, {"a": 2**70}, {"a": float(2**70)},
    {"a": dt.date(2026, 1, 2)}, {"a": "2026-01-02"}, {"a": 0.0}, {"a": -0.0}, {},
]  # fmt: skip
NOT_JSON = {"{'a': nan}", "{'a': (1,)}", "{1: 1}", "{'a': datetime.date(2026, 1, 2)}"}
"""Nothing is kept about these: they are written as something else."""


@pytest.mark.parametrize("kept", range(len(VALUES)))
def test_what_is_kept_is_found_for_that_value_alone(kept: int) -> None:
    known: Familiar[str] = Familiar()
    data = written(VALUES[kept])
    assert data is not None
    known.keep(data, VALUES[kept], "found")
    for at, value in enumerate(VALUES):
        asked = written(value)
        assert asked is not None
        is_the_one = at == kept and repr(value) not in NOT_JSON
        assert known.get(asked, value) == ("found" if is_the_one else None), (VALUES[kept], value)


@pytest.mark.parametrize("value", [object(), "\ud800", {"a": "x" * familiar.LARGEST}])
def test_what_json_does_not_have_or_is_too_large_is_not_looked_for(value: Any) -> None:
    assert written(value) is None


def test_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(familiar, "MOST_BYTES", 30)
    known: Familiar[int] = Familiar()
    texts = ["a" * 8, "b" * 8, "c" * 8, "d" * 8]
    for number, text in enumerate(texts[:3]):
        known.keep(f'"{text}"'.encode(), text, number)
    assert known.get(b'"aaaaaaaa"', "aaaaaaaa") == 0  # now `b` is the one that was asked for longest ago
    known.keep(b'"dddddddd"', "dddddddd", 3)
    assert [known.get(f'"{text}"'.encode(), text) for text in texts] == [0, None, 2, 3]
