"""The sums and the list of attempts agree: who follows a number finds as many attempts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from accounting.records import START, attempts
from fairway.accounting import reports
from fairway.accounting.attempts import AttemptEnd, AttemptRecord
from fairway.accounting.books import AccountBooks
from fairway.errors import BadRequest

_NOW = START + 5 * 86400 + 1234


def _books(lines: list[AttemptRecord], nameless: int, running: int) -> AccountBooks:
    """Some of the attempts have no user, some still run."""
    lines = [replace(line, user="") if index < nameless else line for index, line in enumerate(lines)]
    open_ones = [replace(line, ended=0, outcome=AttemptEnd.RUNNING.value) for line in lines[:running]]
    books = AccountBooks()
    books.add(books.ledger.observe([*open_ones, *lines[running:]]))
    return books


def _count(books: AccountBooks, said: dict[str, str]) -> int:
    found = reports.attempts(books, reports.attempt_query(said, _NOW), "", _NOW)
    return sum(isinstance(one, dict) for one in found)


@settings(max_examples=60, deadline=None)
@given(
    lines=attempts(),
    nameless=st.integers(0, 5),
    running=st.integers(0, 5),
    ago=st.integers(0, 30 * 86400),
    by=st.sampled_from(["user", "queue", "flavor"]),
)
def test_a_sum_counts_the_attempts_that_are_listed_for_its_group_and_time(
    lines: list[AttemptRecord], nameless: int, running: int, ago: int, by: str
) -> None:
    books = _books(lines, nameless, running)
    found = reports.usage(books, reports.usage_query({"since": reports.rfc3339(_NOW - ago), "by": by}, _NOW), "", _NOW)
    for row in found["items"]:
        of_row = {"since": found["since"], by: row[by] or "-"}
        assert _count(books, of_row) == row["ended"] + row["running"]
        for end in AttemptEnd:
            assert _count(books, {**of_row, "outcome": end}) == row[end.lower()], end
    total = found["total"]
    assert _count(books, {"since": found["since"]}) == total["ended"] + total["running"]


def test_an_outcome_cannot_be_left_out() -> None:
    with pytest.raises(BadRequest, match="outcome: Unsupported value"):
        reports.attempt_query({"outcome": "-"}, _NOW)
