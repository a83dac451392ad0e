"""`fairway jobs logs` and `fairway logs`: which part of which job."""

import re
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .conftest import JOBS, Commands, until

TWICE = {
    "setup": "echo setting up $FAIRWAY_ATTEMPT",
    "resources": {"job_recovery": {"max_restarts_on_errors": 1}},
    "run": """
for line in 1 2 3; do echo "attempt $FAIRWAY_ATTEMPT line $line"; done
test $FAIRWAY_ATTEMPT = 2
""",
}


@pytest.fixture(scope="module")
def twice(server: Server) -> str:
    """A job that failed once and succeeded then."""
    made = server.call("POST", JOBS, {"metadata": {"generateName": "twice-"}, "spec": {"tasks": [TWICE]}}).body
    path = f"{JOBS}/{made['metadata']['name']}"
    until(lambda: server.call("GET", path).body["status"].get("phase") == "SUCCEEDED")
    return str(made["spec"]["id"])


def lines(attempt: int) -> list[str]:
    return [f"setting up {attempt}", *(f"attempt {attempt} line {line}" for line in (1, 2, 3))]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param([], lines(2), id="the latest attempt"),
        pytest.param(["--no-follow"], lines(2), id="what there is now"),
        pytest.param(["--attempt", "1"], lines(1), id="an attempt that is over"),
        pytest.param(["--attempt", "all"], lines(1) + lines(2), id="all of them"),
        pytest.param(["--tail", "2"], lines(2)[-2:], id="the last lines"),
        pytest.param(["--tail", "1", "--attempt", "all"], [lines(1)[-1], lines(2)[-1]], id="the last of each"),
        pytest.param(["--tail", "0"], lines(2), id="no end of last lines"),
        pytest.param(["--rank", "0", "-f"], lines(2), id="of the head"),
        pytest.param(["--task", "0"], lines(2), id="of the only task"),
    ],
)
def test_of_an_ended_job_everything_can_be_read(
    fairway: Commands, twice: str, words: list[str], want: list[str]
) -> None:
    assert fairway("jobs", "logs", twice, *words).splitlines() == want


def test_between_attempts_it_is_said_what_happened(fairway: Commands, twice: str) -> None:
    said = fairway.run("jobs", "logs", "--attempt", "all", twice).errors.splitlines()

    assert said[0].startswith("--- attempt 1 failed with exit code 1")
    assert said[1:] == ["--- attempt 2 ---"]


def test_times_can_be_shown(fairway: Commands, twice: str) -> None:
    for line in fairway("jobs", "logs", "--timestamps", "--tail", "2", twice).splitlines():
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z attempt 2 line \d", line)


def test_the_newest_job_is_meant_unless_one_is_named(fairway: Commands, twice: str) -> None:
    older, newer = (fairway.submitted("-n", "echo", f"echo {text}") for text in ("older", "newer"))
    fairway.until(older, "SUCCEEDED")
    fairway.until(newer, "SUCCEEDED")

    assert fairway("jobs", "logs") == "newer\n"
    assert fairway("jobs", "logs", "echo") == "newer\n"
    assert fairway("jobs", "logs", "-n", "echo") == "newer\n"
    assert fairway("jobs", "logs", str(older)) == "older\n"


def test_of_a_pipeline_a_task_can_be_read(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: both\n---\nname: a\nrun: echo first\n---\nname: b\nrun: echo second\n")
    number = fairway.submitted("p.yaml")
    fairway.until(number, "SUCCEEDED")

    assert fairway("jobs", "logs", str(number)) == "first\nsecond\n"
    assert fairway("jobs", "logs", str(number), "--task", "0") == "first\n"
    assert fairway("jobs", "logs", str(number), "--task", "b") == "second\n"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["--attempt", "7"], "has the attempts 1, 2; `all` shows every one", id="an attempt that was not"),
        pytest.param(["--attempt", "x"], "has the attempts 1, 2", id="no number"),
        pytest.param(["--task", "3"], "has the tasks 0", id="a task that there is not"),
        pytest.param(["--rank", "3"], "there is only rank 0", id="a node that there is not"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(
    fairway: Commands, twice: str, words: list[str], want: str
) -> None:
    assert want in fairway.refused("jobs", "logs", twice, *words)


def test_of_a_task_that_never_started_that_is_said(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "pipe.yaml").write_text("run: exit 1\n---\nrun: echo never\n")
    number = fairway.submitted("pipe.yaml")
    fairway.until(number, "FAILED")

    said = fairway.run("jobs", "logs", str(number), "--task", "1")

    assert (said.code, said.output) == (0, "")
    assert f"Task 1 of job {number} (pipe) did not start; `fairway jobs why {number}`" in said.errors


def test_of_a_job_that_waits_there_is_nothing_yet(fairway: Commands) -> None:
    blocker = fairway.submitted("--cpus", "4", "--priority", "1000", "exec sleep 1000")
    fairway.until(blocker, "RUNNING")
    number = fairway.submitted("-n", "later", "echo now")

    said = fairway.run("jobs", "logs", "--no-follow", str(number))
    assert (said.code, said.output) == (0, "")
    assert (
        said.errors == f"Job {number} (later) has not started yet; `fairway jobs why {number}` explains why it waits.\n"
    )
    with fairway.process("jobs", "logs", str(number)) as following:
        following.reads("waits")
        fairway("jobs", "cancel", "-y", str(blocker))
        assert "now" in following.rest()[0].splitlines()


def test_last_lines_of_a_job_that_runs_and_then_the_new_ones(fairway: Commands, tmp_path: Path) -> None:
    go = tmp_path / "go"
    number = fairway.submitted(f"for i in 1 2 3 4; do echo $i; done; while [ ! -e {go} ]; do sleep 0.02; done; echo 5")
    fairway.until(number, "RUNNING")
    with fairway.process("jobs", "logs", str(number), "--tail", "1") as following:
        following.reads("4")
        go.touch()
        said, code = following.rest()

    assert (said.splitlines(), code) == (["5"], 0)


def test_a_launch_is_read_by_its_name(fairway: Commands) -> None:
    fairway("launch", "-y", "-c", "reader", "echo of a launch")
    fairway.submitted("echo of a job")

    assert fairway("logs", "reader") == "of a launch\n"
    assert fairway("logs", "--tail", "1") == "of a job\n", "the newest of mine, whatever it is"
    fairway("down", "-y", "reader")
