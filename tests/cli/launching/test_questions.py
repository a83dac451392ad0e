"""Which commands ask before they act, what they ask, and what they do where nobody can answer."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .conftest import JOBS, Commands

SLEEP = "exec sleep 1000"


class Terminal:
    """Standard input of somebody who answers; without an answer a question is a failure of the test."""

    def __init__(self, answer: str | None = None) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self, _size: int = -1) -> str:
        assert self._answer is not None, "nothing should be asked"
        return f"{self._answer}\n"


class Jobs(NamedTuple):
    mine: int
    other: int
    ended: int
    others_ended: int


@pytest.fixture
def jobs(fairway: Commands) -> Iterator[Jobs]:
    """One of mine and one of ben's that wait, and one of each that has ended."""
    fairway("jobs", "cancel", "-u", "-y")
    mine = fairway.submitted("-n", "mine", "--cpus", "0.1", SLEEP)
    ended = fairway.submitted("-n", "ended", "true")
    numbers = []
    for name, run in (("bens", SLEEP), ("bens-ended", "true")):
        spec = {"name": name, "user": "ben", "tasks": [{"run": run, "resources": {"cpus": 0.1}}]}
        answer = fairway.server.call("POST", JOBS, {"metadata": {"generateName": f"{name}-"}, "spec": spec})
        assert answer.code == 201, answer
        numbers.append(int(answer.body["spec"]["id"]))
    fairway.until(ended, "SUCCEEDED")
    fairway.until(numbers[1], "SUCCEEDED")
    yield Jobs(mine, numbers[0], ended, numbers[1])
    fairway("jobs", "cancel", "-u", "-y")


def test_a_launch_asks_nothing(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())

    for words in (["jobs", "launch"], ["jobs", "launch", "--num-jobs", "3"], ["launch"]):
        assert fairway.run(*words, "-d", "true").code == 0


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        pytest.param(["cancel", "{mine}"], "Cancelling job {mine} (mine). Proceed? [Y/n]", id="cancel, mine"),
        pytest.param(["cancel", "-u"], "Cancelling 2 jobs ({mine}, {other}), 1 of other users (ben)", id="cancel, all"),
        pytest.param(["cancel", "{other}"], "Cancelling job {other} (bens) of ben. Proceed? [y/N]", id="cancel, other"),
        pytest.param(["hold", "-a", "-u"], "Holding 2 jobs ({mine}, {other}), 1 of other users (ben)", id="hold, all"),
        pytest.param(["retry", "{others_ended}"], "Running again: job {others_ended} (bens-ended) of ben", id="retry"),
        pytest.param(["retry", "{ended}", "{others_ended}"], "1 of other users (ben). Proceed? [y/N]", id="retry, two"),
    ],
)
def test_what_is_asked_on_a_terminal_and_no_changes_nothing(
    fairway: Commands, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, words: list[str], asked: str
) -> None:
    before = [fairway.job(number)["spec"] for number in jobs]
    monkeypatch.setattr("sys.stdin", Terminal("n"))

    said = fairway.run("jobs", *(word.format(**jobs._asdict()) for word in words))

    assert (said.code, said.output) == (1, "")
    assert asked.format(**jobs._asdict()) in said.errors
    assert said.errors.endswith("Nothing was changed.\n")
    assert [fairway.job(number)["spec"] for number in jobs] == before


@pytest.mark.parametrize(
    "words", [["cancel", "-u"], ["cancel", "{other}"], ["hold", "-a", "-u"], ["retry", "{others_ended}"]], ids=" ".join
)
def test_without_a_terminal_jobs_of_others_need_a_yes(fairway: Commands, jobs: Jobs, words: list[str]) -> None:
    before = [fairway.job(number)["spec"] for number in jobs]
    words = [word.format(**jobs._asdict()) for word in words]

    said = fairway.refused("jobs", *words, code=2)

    assert said.startswith("error: ")
    assert "this needs a confirmation, and there is no terminal to ask on; add -y" in said
    assert [fairway.job(number)["spec"] for number in jobs] == before
    assert fairway.run("jobs", *words, "-y").code == 0


def test_without_a_terminal_my_own_jobs_need_none(fairway: Commands, jobs: Jobs) -> None:
    assert fairway.run("jobs", "hold", str(jobs.mine)).code == 0
    assert fairway.run("jobs", "release", str(jobs.mine)).code == 0
    assert fairway.run("jobs", "cancel", "-a").code == 0
    assert fairway.run("jobs", "retry", str(jobs.ended), str(jobs.mine)).code == 0


def test_my_own_are_held_without_a_question(fairway: Commands, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())

    assert fairway.run("jobs", "hold", "-a").code == 0
    assert fairway.run("jobs", "retry", str(jobs.ended)).code == 0


def test_deleting_all_of_a_kind_needs_a_yes(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    fairway.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "away"}})
    for name in ("one", "two"):
        fairway.server.call("POST", "/api/v1/namespaces/away/configmaps", {"metadata": {"name": name}})

    said = fairway.refused("delete", "configmaps", "--all", "-n", "away", code=2)
    assert said.startswith("error: deleting 2 configmap in namespace away: this needs a confirmation")
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdin", Terminal("n"))
        assert fairway.run("delete", "configmaps", "--all", "-n", "away").code == 1
    assert fairway("delete", "configmaps", "one", "-n", "away") == 'configmap "one" deleted\n', "by name, none"
    assert fairway("delete", "configmaps", "--all", "-n", "away", "-y") == 'configmap "two" deleted\n'


def test_shutting_down_with_the_jobs_of_others_needs_a_yes(fairway: Commands, jobs: Jobs) -> None:
    fairway.until(jobs.other, "RUNNING")

    said = fairway.refused("shutdown", "--jobs", code=2)

    assert "of other users (ben): this needs a confirmation" in said
    assert fairway.phase(jobs.other) == "RUNNING"


def test_an_empty_queue_names_the_namespaces_where_my_jobs_are(fairway: Commands) -> None:
    fairway("jobs", "cancel", "-u", "-y")
    assert fairway.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "far"}}).code in {201, 409}
    fairway.run("jobs", "launch", "-d", "--namespace", "far", "-n", "away", SLEEP)

    done = fairway.run("jobs", "queue")
    assert "No running or waiting jobs in namespace default." in done.output
    assert "1 of your jobs is in other namespaces (far: 1): -A." in done.errors
    fairway("jobs", "cancel", "-u", "-y", "-A")
