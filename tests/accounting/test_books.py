"""The books: each attempt is in every sum once, whatever the order and the crashes; and the size is bounded."""

import copy
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from accounting.records import START, attempt, attempts
from fairway.accounting.attempts import AttemptRecord
from fairway.accounting.books import LABEL, AccountBooks, BookWrite, JournalLimits
from fairway.accounting.rollups import TimeStep, UsageSum

_SMALL = JournalLimits(lines=4, segments=6, folded_every=2)
_NOW = START + 5 * 86400


class Stored:
    """The ConfigMaps of an API server."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def apply(self, write: BookWrite) -> None:
        """What the controller does with a write."""
        if write.body is None:
            del self.objects[write.name]
            return
        assert write.create == (write.name not in self.objects)
        found = self.objects.setdefault(write.name, {"metadata": {"name": write.name}})
        for field, value in copy.deepcopy(write.body).items():
            found[field] = {**found.get(field, {}), **value}

    def opened(self) -> AccountBooks:
        books = AccountBooks(_SMALL)
        for _ in books.load(self.objects.values()):
            pass
        return books


def _expected(lines: list[AttemptRecord]) -> dict[str, Any]:
    return {
        "ends": sorted((line.outcome, 1) for line in lines),
        "run": sum(line.ended - line.started for line in lines),
        "waited": sum(line.started - line.queued for line in lines),
        "held": sum(one.amount * (line.ended - line.started) for line in lines for one in line.held),
    }


def _sum(books: AccountBooks, step: TimeStep) -> UsageSum:
    found = UsageSum()
    for _, bucket in books.buckets(step, START - 40 * 86400, _NOW, _NOW):
        for part in bucket.values():
            found.add(part)
    return found


def _as_expected(found: UsageSum) -> dict[str, Any]:
    return {
        "ends": sorted((outcome, 1) for outcome, count in found.ends.items() for _ in range(count)),
        "run": found.run_seconds,
        "waited": found.wait_seconds,
        "held": sum(amount for held in found.held.values() for amount in held.values()),
    }


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data(), lines=attempts())
def test_sums_equal_the_sum_of_attempts_whatever_the_order_and_the_crashes(
    data: st.DataObject, lines: list[AttemptRecord]
) -> None:
    """After a crash between any two writes, everything that was not flushed is derived again, as from the objects."""
    stored, books = Stored(), AccountBooks(_SMALL)
    todo = list(data.draw(st.permutations(lines)))
    while todo:
        batch = todo[: data.draw(st.integers(1, 6))]
        books.add(books.ledger.observe(batch))
        crash_after = data.draw(st.one_of(st.none(), st.integers(0, 8)))
        for number, write in enumerate(books.flush({"jobs": str(len(todo))}, _NOW)):
            if number == crash_after:
                break
            stored.apply(write)
        if crash_after is not None:
            books = stored.opened()
            books.add(books.ledger.observe(lines[: len(lines) // 2]))  # and objects that were seen before come again
        else:
            todo = todo[len(batch) :]
    books.add(books.ledger.observe(lines))
    for step in TimeStep:
        assert _as_expected(_sum(books, step)) == _expected(lines)
    for write in books.flush({}, _NOW):
        stored.apply(write)
    again = stored.opened()
    for step in TimeStep:
        assert _as_expected(_sum(again, step)) == _expected(lines)


def test_what_runs_counts_until_now_and_is_found_again_after_a_restart() -> None:
    stored, books = Stored(), AccountBooks(_SMALL)
    books.add(books.ledger.observe([attempt(ended=0)]))
    for write in books.flush({"jobs": "7"}, _NOW):
        stored.apply(write)
    again = stored.opened()
    assert again.cursors == {"jobs": "7"}
    assert [one.uid for one in again.ledger.open] == ["a"]
    (_, bucket), *_ = again.buckets(TimeStep.DAY, START, START + 86400, START + 120)
    (found,) = bucket.values()
    assert (found.run_seconds, found.running, found.started) == (60, 1, 1)


def test_an_attempt_that_begins_and_ends_between_two_writes_is_one_line() -> None:
    books = AccountBooks(_SMALL)
    books.add(books.ledger.observe([attempt(ended=0)]))
    books.add(books.ledger.observe([attempt()]))
    (write,) = books.flush({}, _NOW)
    assert write.name == "fairway-history-journal-00000001"
    assert [line.outcome for _, line in books.ended()] == ["Succeeded"]
    assert len(books.tail.read()) == 1


def test_the_journal_is_bounded_and_what_left_it_is_not_counted_again() -> None:
    stored, books = Stored(), AccountBooks(_SMALL)
    lines = [attempt(f"u{index}", ended=START + 3660 + index) for index in range(200)]
    for line in lines:
        books.add(books.ledger.observe([line]))
        for write in books.flush({}, _NOW):
            stored.apply(write)
    journal = [name for name, one in stored.objects.items() if one["metadata"]["labels"][LABEL] == "journal"]
    assert len(journal) <= _SMALL.segments + _SMALL.folded_every + 1
    again = stored.opened()
    again.add(again.ledger.observe(lines))
    assert not again.has_changes
    assert _as_expected(_sum(again, TimeStep.MONTH)) == _expected(lines)


def test_old_sums_go_hours_before_days_and_days_before_months() -> None:
    stored, books = Stored(), AccountBooks(_SMALL)
    year = 366 * 86400
    for index in range(60):
        ended = START + index * 30 * 86400
        books.add(books.ledger.observe([attempt(f"u{index}", queued=ended, started=ended, ended=ended)]))
        for write in books.flush({}, ended):
            stored.apply(write)
    names = [name.removeprefix("fairway-history-") for name in stored.objects]
    assert len([name for name in names if name.startswith("hour")]) <= 12
    assert len([name for name in names if name.startswith("day")]) <= 34
    now = START + 60 * 30 * 86400
    kept = [bucket for _, bucket in stored.opened().buckets(TimeStep.MONTH, START, now, now)]
    assert sum(part.started for bucket in kept for part in bucket.values()) == 60
    assert now - START > 4 * year


@pytest.mark.parametrize(("share", "most"), [(0.5, 64), (0.9, 113), (0.99, 124), (1.0, 100)])
def test_percentiles_are_at_most_a_quarter_too_large(share: float, most: int) -> None:
    books = AccountBooks()
    lines = [attempt(f"u{wait}", queued=START, started=START + wait, ended=START + 200) for wait in range(1, 101)]
    books.add(books.ledger.observe(lines))
    found = _sum(books, TimeStep.DAY).percentile(share)
    assert share * 100 <= found <= most


def test_a_bucket_with_too_many_users_keeps_the_sums_without_their_names() -> None:
    stored, books = Stored(), AccountBooks(JournalLimits(lines=3000, segments=3, folded_every=1))
    lines = [attempt(f"u{index}", user=f"user-{index * 7919:x}-{index}", queue=f"q{index}") for index in range(3000)]
    books.add(books.ledger.observe(lines))
    for write in books.flush({}, _NOW):
        stored.apply(write)
    again = stored.opened()
    assert _as_expected(_sum(again, TimeStep.DAY)) == _expected(lines)
    users = {key.user for _, bucket in again.buckets(TimeStep.DAY, START, _NOW, _NOW) for key in bucket}
    assert users == {"(others)"}
    usage = [one for one in stored.objects.values() if one["metadata"]["labels"][LABEL] == "usage"]
    assert all(len(data) < 100_000 for one in usage for data in one["binaryData"].values())
