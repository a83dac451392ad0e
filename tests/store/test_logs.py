"""The contract of a revision log, kept by both: what is appended stays, what is dropped goes, nothing goes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import StorageFailed
from fairway.store.log import Batch, Log, Row
from fairway.testing.stores import OpenLog, log_in_memory, log_on_a_file


@contextmanager
def opened(open_log: OpenLog) -> Iterator[Log]:
    log = open_log()
    try:
        yield log
    finally:
        log.close()


def row(
    revision: int = 1,
    *,
    resource: str = "boats",
    namespace: str = "harbour",
    name: str = "boat",
    deleted: bool = False,
    data: bytes = b"{}",
) -> Row:
    return Row(revision, resource, namespace, name, deleted, data)


def rows(first: int, last: int) -> list[Row]:
    return [row(revision) for revision in range(first, last + 1)]


def revisions(log: Log) -> list[int]:
    return [one.revision for one in log.rows()]


def test_a_fresh_log_has_nothing(open_log: OpenLog) -> None:
    with opened(open_log) as log:
        assert (list(log.rows()), log.floor(), log.last()) == ([], 0, 0)


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(row(data=b'{"a":1}'), id="an object"),
        pytest.param(row(7, deleted=True), id="a deletion"),
        pytest.param(row(namespace=""), id="an object without a namespace"),
        pytest.param(row(namespace="ä'\"", name="日本 %_;--", data="é…".encode()), id="names of any letters"),
        pytest.param(row(data=b""), id="no data"),
        pytest.param(row(data=bytes(range(256))), id="bytes that are no text"),
        pytest.param(row(2**53 + 1), id="a revision that a float cannot hold"),
        pytest.param(row(data=b"x" * 3_000_000), id="three megabytes"),
    ],
)
def test_a_row_comes_back_as_it_was_given(open_log: OpenLog, kept: Row) -> None:
    with opened(open_log) as log:
        log.append(Batch([kept]))
        assert (list(log.rows()), log.last()) == ([kept], kept.revision)

    with opened(open_log) as log:
        assert (list(log.rows()), log.last()) == ([kept], kept.revision)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 129, 1000])
def test_a_batch_of_any_size_is_there_in_order(open_log: OpenLog, count: int) -> None:
    with opened(open_log) as log:
        log.append(Batch(rows(1, count)))
        log.append(Batch(rows(count + 1, count + 3)))

    with opened(open_log) as log:
        assert (revisions(log), log.last()) == (list(range(1, count + 4)), count + 3)


def test_a_batch_may_have_gaps_where_revisions_failed(open_log: OpenLog) -> None:
    with opened(open_log) as log:
        log.append(Batch([row(3)]))
        log.append(Batch([row(9), row(20)]))

        assert (revisions(log), log.last()) == ([3, 9, 20], 20)


def test_dropped_rows_go_and_the_others_stay(open_log: OpenLog) -> None:
    with opened(open_log) as log:
        log.append(Batch(rows(1, 6)))
        log.append(Batch([row(7)], [1, 3, 4], 4))
        assert (revisions(log), log.floor(), log.last()) == ([2, 5, 6, 7], 4, 7)

    with opened(open_log) as log:
        assert (revisions(log), log.floor(), log.last()) == ([2, 5, 6, 7], 4, 7)


@pytest.mark.parametrize("count", [1, 499, 500, 501, 1000, 1201])
def test_however_many_are_dropped_only_those_go(open_log: OpenLog, count: int) -> None:
    dropped = list(range(1, 2 * count, 2))
    with opened(open_log) as log:
        log.append(Batch(rows(1, 2 * count)))
        log.append(Batch([row(2 * count + 1)], dropped, 2 * count))
        assert revisions(log) == [*range(2, 2 * count + 1, 2), 2 * count + 1]


def test_dropping_what_is_not_there_changes_nothing(open_log: OpenLog) -> None:
    with opened(open_log) as log:
        log.append(Batch(rows(1, 3)))
        log.append(Batch([], [2]))
        log.append(Batch([], [2]))

        assert (revisions(log), log.last()) == ([1, 3], 3)


def test_the_newest_revision_is_remembered_when_its_row_is_dropped(open_log: OpenLog) -> None:
    with opened(open_log) as log:
        log.append(Batch(rows(1, 9)))
        log.append(Batch([], [8, 9], 9))

    with opened(open_log) as log:
        assert (revisions(log), log.last()) == (list(range(1, 8)), 9)


def test_the_newest_revision_is_remembered_when_everything_is_dropped(open_log: OpenLog) -> None:
    with opened(open_log) as log:
        log.append(Batch(rows(1, 5)))
        log.append(Batch([row(6)], [1, 2, 3, 4, 5], 5))
        log.append(Batch([], [6], 6))

    with opened(open_log) as log:
        assert (revisions(log), log.floor(), log.last()) == ([], 6, 6)


@pytest.mark.parametrize(
    ("floors", "want"),
    [
        pytest.param([5], 5, id="it rises"),
        pytest.param([5, 0], 5, id="nothing said leaves it where it is"),
        pytest.param([5, 3], 5, id="it never falls"),
        pytest.param([5, 8], 8, id="it rises again"),
    ],
)
def test_the_floor_only_rises(open_log: OpenLog, floors: list[int], want: int) -> None:
    with opened(open_log) as log:
        for position, floor in enumerate(floors):
            log.append(Batch([row(10 + position)], [], floor))

    with opened(open_log) as log:
        assert log.floor() == want


def test_a_copy_of_a_file_has_the_same_rows(tmp_path: Path) -> None:
    with opened(log_on_a_file(tmp_path / "fairway.db")) as log:
        log.append(Batch(rows(1, 200)))
        log.append(Batch([row(201)], [1, 2, 200], 2))
        log.backup(tmp_path / "copy.db")
        expected = (list(log.rows()), log.floor(), log.last())
        log.append(Batch([row(202)]))

    with opened(log_on_a_file(tmp_path / "copy.db")) as copy:
        assert (list(copy.rows()), copy.floor(), copy.last()) == expected


def test_what_is_only_in_memory_cannot_be_copied(tmp_path: Path) -> None:
    with opened(log_in_memory()) as log, pytest.raises(StorageFailed, match="lives in memory only"):
        log.backup(tmp_path / "copy.db")

    assert list(tmp_path.iterdir()) == []


@dataclass
class Model:
    """What a log must answer, kept the simplest way."""

    rows: dict[int, Row] = field(default_factory=dict)
    floor: int = 0
    last: int = 0

    def append(self, batch: Batch) -> None:
        for one in batch.rows:
            self.rows[one.revision] = one
        self.last = max([self.last, *(one.revision for one in batch.rows)])
        for revision in batch.dropped:
            self.rows.pop(revision, None)
        self.floor = max(self.floor, batch.floor)


@st.composite
def batches(draw: st.DrawFn) -> list[Batch | None]:
    """Batches as the store makes them; `None` closes the log and opens it again."""
    made: list[Batch | None] = []
    last, there = 0, set[int]()
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 4)) == 0:
            made.append(None)
            continue
        new = [row(last + 1 + step, data=b"%d" % step) for step in range(draw(st.sampled_from([0, 1, 2, 5, 64, 70])))]
        last += len(new)
        dropped = draw(st.lists(st.sampled_from(sorted(there)), unique=True)) if there else []
        if not new and not dropped:
            continue
        there = (there | {one.revision for one in new}) - set(dropped)
        made.append(Batch(new, dropped, draw(st.sampled_from([0, last])) if dropped else 0))
    return made


@settings(max_examples=40, deadline=None)
@given(batches())
def test_both_logs_answer_as_the_model_does(made: list[Batch | None]) -> None:
    with TemporaryDirectory() as directory:
        for open_log in (log_on_a_file(Path(directory) / "fairway.db"), log_in_memory()):
            model, log = Model(), open_log()
            for batch in [*made, None]:
                if batch is None:
                    log.close()
                    log = open_log()
                else:
                    log.append(batch)
                    model.append(batch)
                assert list(log.rows()) == [model.rows[revision] for revision in sorted(model.rows)]
                assert (log.floor(), log.last()) == (model.floor, model.last)
            log.close()
