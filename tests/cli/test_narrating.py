"""What is said about a job that somebody follows: in place on a terminal, a line for each reason elsewhere."""

import io
import re

import pytest

from fairway.cli.narrating import Narrator


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def shown(self) -> list[str]:
        """The lines that a terminal shows in the end."""
        lines = self.getvalue().split("\n")
        return [re.sub(r"\x1b\[\d*m", "", line.rpartition("\r\x1b[2K")[2]) for line in lines]


@pytest.fixture(params=[True, False], ids=["on a terminal", "elsewhere"])
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    return Screen(terminal=request.param)


def test_a_place_that_changes_is_written_over_or_said_once(screen: Screen) -> None:
    narrator = Narrator("3 (train)", screen)
    for place in (3, 2, 1):
        narrator.waiting("PENDING", f"position {place} in team-a", "needs 4 CPUs, 2 free in default-flavor")

    why = "in team-a: needs 4 CPUs, 2 free in default-flavor"
    if screen.isatty():
        assert screen.shown == [f"Job 3 (train) waits, position 1 {why}"]
    else:
        assert screen.getvalue() == f"Job 3 (train) waits, position 3 {why}\n"


def test_the_line_is_gone_when_others_write(screen: Screen) -> None:
    narrator = Narrator("3 (train)", screen)
    narrator.waiting("PENDING", "", "it is held")
    narrator.pause()

    assert screen.shown == ([""] if screen.isatty() else ["Job 3 (train) waits: it is held", ""])


def test_a_new_reason_is_said_again(screen: Screen) -> None:
    narrator = Narrator("3 (train)", screen)
    for why in ("too little CPU", "too little memory"):
        narrator.waiting("RECOVERING", "", why)

    want = [f"Job 3 (train) waits to run again: {why}" for why in ("too little CPU", "too little memory")]
    assert screen.shown == (want[-1:] if screen.isatty() else [*want, ""])


def test_a_job_that_was_only_just_submitted_needs_no_words(screen: Screen) -> None:
    Narrator("3 (train)", screen).waiting("PENDING", "", "")

    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    ("found", "want"),
    [
        ({"outcome": "Preempted", "message": "by job 4"}, "--- attempt 2 was preempted: by job 4 ---"),
        ({"outcome": "Failed", "exitCode": 3}, "--- attempt 2 failed with exit code 3 ---"),
        ({"outcome": "Lost", "exitCode": 137}, "--- attempt 2 was lost ---"),
        ({"outcome": "Odd", "message": "with\x1b[2Jcontrol"}, "--- attempt 2 ended (Odd): with [2Jcontrol ---"),
        ({}, "--- attempt 2 ended ---"),
    ],
    ids=["preempted", "failed", "lost", "something new", "nothing is known"],
)
def test_how_an_attempt_ended(screen: Screen, found: dict[str, object], want: str) -> None:
    Narrator("3 (train)", screen).ends(None, 2, found)

    assert screen.shown == [want, ""]


def test_a_task_of_a_pipeline_that_is_done_is_called_so(screen: Screen) -> None:
    Narrator("3 (train)", screen).ends(0, 1, {"outcome": "Succeeded"})

    assert screen.shown == ["--- task 1 succeeded ---", ""]


def test_what_ended_an_attempt_is_not_said_again_as_what_is_waited_for(screen: Screen) -> None:
    narrator = Narrator("3 (train)", screen)
    narrator.ends(None, 1, {"outcome": "Failed", "exitCode": 7, "message": "the task failed"})
    narrator.waiting("PENDING", "", "the task failed")

    assert screen.shown == ["--- attempt 1 failed with exit code 7: the task failed ---", ""]


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen(terminal=True)
    Narrator("3 (train)", screen).waiting("PENDING", "", "it is held")

    assert screen.getvalue() == "Job 3 (train) waits: it is held\n"


def test_that_the_server_is_away_is_said_once_until_it_is_back(screen: Screen) -> None:
    narrator = Narrator("3 (train)", screen)
    narrator.away()
    narrator.away()
    narrator.begins(None, 2)
    narrator.away()

    away = "The server does not answer; the job keeps running. Retrying ..."
    assert screen.shown == [away, "--- attempt 2 ---", away, ""]


@pytest.mark.parametrize(
    ("task", "attempt", "want"),
    [(None, 1, ""), (None, 2, "--- attempt 2 ---"), (0, 1, "--- task 1 ---"), (1, 3, "--- task 2, attempt 3 ---")],
)
def test_what_begins_is_named_where_there_is_more_than_one(
    screen: Screen, task: int | None, attempt: int, want: str
) -> None:
    Narrator("3 (train)", screen).begins(task, attempt)

    assert screen.shown == ([want, ""] if want else [""])
