"""Sets of indexes: the text of Kubernetes, and the arithmetic of plain sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.batch.indexes import read_indexes
from fairway.controllers.batchjob.observe import Indexes

COMPLETIONS = 40
SETS = st.sets(st.integers(0, COMPLETIONS - 1))


def plain(indexes: Indexes) -> set[int]:
    return {index for first, last in indexes.intervals for index in range(first, last + 1)}


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([1, 2], "1,2"),
        ([1, 2, 3], "1-3"),
        ([0, 2, 4, 5, 6, 9], "0,2,4-6,9"),
    ],
)
def test_sets_are_written_as_kubernetes_writes_them(indexes: list[int], text: str) -> None:
    assert str(Indexes().with_indexes(indexes)) == text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0-3,7", {0, 1, 2, 3, 7}),
        ("0,1,2", {0, 1, 2}),
        ("2-100", {2, 3, 4, 5, 6, 7, 8, 9}),
        ("12", set()),
        ("x,3,-,4-y", {3}),
        ("", set()),
    ],
)
def test_what_a_job_does_not_have_is_not_read(text: str, want: set[int]) -> None:
    assert plain(Indexes.read(text, 10)) == want


@given(SETS, SETS)
def test_sets_behave_as_sets(one: set[int], other: set[int]) -> None:
    left, right = Indexes().with_indexes(one), Indexes().with_indexes(other)

    assert plain(left.joined(right)) == one | other
    assert plain(left.with_indexes(other)) == one | other
    assert left.shared_with(right) == len(one & other)
    assert len(left) == len(one)
    assert all((index in left) == (index in one) for index in range(-1, COMPLETIONS + 1))
    assert list(left.missing(COMPLETIONS)) == sorted(set(range(COMPLETIONS)) - one)


@given(SETS)
def test_what_is_written_is_read_again_here_and_by_the_server(indexes: set[int]) -> None:
    text = str(Indexes().with_indexes(indexes))

    assert plain(Indexes.read(text, COMPLETIONS)) == indexes
    assert plain(Indexes(tuple(read_indexes(text, COMPLETIONS)))) == indexes
