"""The journal: a successor reads what its predecessor knew, also when the disk was full at times."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.runner.processes import Ended, Process
from fairway.runner.supervising.journal import Journal, Trace

NOW = 1000.0
STEPS = ("begun", "started", "over", "forgotten")


def reopened(path: Path, machine: str = "here") -> Journal:
    return Journal(path, machine, NOW)


def test_a_successor_knows_what_its_predecessor_knew(tmp_path: Path) -> None:
    first = reopened(tmp_path / "journal")
    for name in ("begun", "running", "over", "forgotten"):
        first.begun(name)
    for name in ("running", "over", "forgotten"):
        first.started(name, 10, 5.0, 77)
    for name in ("over", "forgotten"):
        first.over(name, Ended(at=6.0, exit_code=2))
    first.forgotten("forgotten")

    second = reopened(tmp_path / "journal")

    assert second.token == first.token
    assert second.traces == {"begun": Trace(), "running": Trace(10, 77)}
    assert (
        second.processes
        == first.processes
        == {
            "begun": Process(id="begun"),
            "running": Process(id="running", pid=10, started_at=5.0),
            "over": Process(id="over", pid=10, started_at=5.0, ended=Ended(at=6.0, exit_code=2)),
        }
    )
    first.close()
    second.close()


def test_on_another_machine_everything_that_ran_is_lost(tmp_path: Path) -> None:
    first = reopened(tmp_path / "journal")
    first.begun("running")
    first.close()

    second = reopened(tmp_path / "journal", "elsewhere")
    second.close()

    assert second.traces == {}
    assert second.processes == {"running": Process(id="running", ended=Ended(at=NOW, lost=True))}


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    journal = reopened(tmp_path / "journal")
    journal.begun("stays")
    largest = 0
    for number in range(8000):
        name = f"{number}" * 20
        journal.begun(name)
        journal.over(name, Ended(at=1.0, exit_code=0))
        journal.forgotten(name)
        largest = max(largest, (tmp_path / "journal").stat().st_size)
    journal.close()

    assert largest < 1_200_000
    assert list(reopened(tmp_path / "journal").processes) == ["stays"]


@settings(max_examples=150)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["begun", "started", "over", "forgotten"]), st.integers(0, 3)), max_size=25
    ),
    room=st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=40),
)
def test_on_a_full_disk_nothing_is_begun_unnoted_and_nothing_noted_is_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], room: list[int | None]
) -> None:
    """Writes fail after some bytes, as long as `room` says so; when there is room again, all is as it should be."""
    path = tmp_path_factory.mktemp("full") / "journal"
    journal, real_write, left = reopened(path), os.write, list(room)

    def write(file: int, data: bytes) -> int:
        if left and file == journal._file:
            there = left.pop()
            if there is not None and there < len(data):
                if there:
                    return real_write(file, data[:there])
                raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(file, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        for step, number in steps:
            name = f"p{number}"
            known = journal.processes.get(name)
            if step == "begun" and known is None:
                try:
                    journal.begun(name)
                except OSError:
                    assert name not in journal.processes
            elif step == "started" and known is not None and known.pid is None and known.ended is None:
                journal.started(name, 7, 1.0, 9)
            elif step == "over" and known is not None and known.ended is None:
                journal.over(name, Ended(at=2.0, exit_code=0))
            elif step == "forgotten" and known is not None and known.ended is not None:
                journal.forgotten(name)
        left.clear()
        journal.begun("last")
    journal.close()

    after = reopened(path)
    after.close()
    assert {
        name: process for name, process in after.processes.items() if name in journal.processes
    } == journal.processes
    assert all(after.processes[name].pid is None for name in after.processes.keys() - journal.processes.keys())
