"""Logs of ended attempts on a cluster."""

from hypothesis import given
from hypothesis import strategies as st

from fairway.managedjobs import keptlogs
from fairway.managedjobs.keptlogs import LogTail

JOB = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "metadata": {"name": "train", "uid": "u1"}}
POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u2", "labels": {"fairway.dev/job": "train", "app": "x"}}}
LINES = b"2026-01-01T00:00:00Z one\n2026-01-01T00:00:01Z two\n"


def test_a_log_is_kept_as_it_was_and_owned_by_the_job() -> None:
    kept = keptlogs.config_map(JOB, POD, {"run": LINES})
    assert keptlogs.log_of(kept, "run", timestamps=True) == LINES
    assert keptlogs.log_of(kept, "run", timestamps=False) == b"one\ntwo\n"
    assert keptlogs.log_of(kept, "files", timestamps=False) == b""
    metadata = kept["metadata"]
    assert metadata["ownerReferences"][0]["uid"] == "u1"
    assert metadata["labels"] == {"fairway.dev/job": "train"}


def test_what_is_missing_is_said() -> None:
    kept = keptlogs.config_map(JOB, POD, {}, "its node no longer exists")
    assert kept["metadata"]["annotations"] == {keptlogs.MISSING: "its node no longer exists"}


@given(
    st.lists(st.binary(max_size=40).map(lambda one: b"t " + one.replace(b"\n", b"") + b"\n"), max_size=60), st.data()
)
def test_the_end_of_a_log_is_bounded_and_begins_with_a_line(lines: list[bytes], data: st.DataObject) -> None:
    whole, tail = b"".join(lines), LogTail(200)
    at = 0
    while at < len(whole):
        size = data.draw(st.integers(1, 300))
        tail.add(whole[at : at + size])
        at += size
    kept = tail.read()
    if len(whole) <= 200:
        assert kept == whole
    elif kept != whole:
        note, _, rest = kept.partition(b"\n")
        assert b"earlier bytes were not kept" in note
        assert whole.endswith(rest)
        assert len(rest) <= 400
        assert rest == b"" or whole[: len(whole) - len(rest)].endswith(b"\n")
