"""`fairway jobs queue`: which jobs it shows, in which order, in which words."""

import pytest

from fairway.cli.jobs.queue import as_table, chosen, in_order, record
from fairway.cli.tables import Screen

from .looking import NOW, PAPER, ago, golden, job, known, waiting

RUNNING = job(1, "one", "RUNNING", runningSince=ago(200), priority=50, spec={"tasks": [{"resources": {"cpus": 6}}]})
AGED = job(
    2,
    "two",
    "RECOVERING",
    priority=60,
    preemptions=1,
    recoveries=1,
    ranSeconds=130,
    spec={"priority": 50, "tasks": [{"num_nodes": 2, "resources": {"cpus": 4, "accelerators": "T4:1"}}]},
)
HELD = job(3, "three", spec={"hold": True, "user": "bob"})
NEVER = job(4, "four")
DONE = job(5, "five", "SUCCEEDED", ranSeconds=7500, endedAt=ago(60), submitted=8000)
FAILED = job(6, "six", "FAILED_SETUP", message="setup failed on six-1-head (exit code 3)", endedAt=ago(30))
JOBS = [RUNNING, AGED, HELD, NEVER, DONE, FAILED]
STATES = known(
    waiting(AGED, 2),
    waiting(NEVER, 1, canEverRun=False, message="asks for 20 CPUs, and default-flavor never has more than 9 CPUs"),
)


def test_the_table() -> None:
    shown = as_table(in_order(JOBS, STATES), STATES, NOW, PAPER)

    assert shown == golden("queue.txt")
    assert "\x1b" not in shown


def test_on_a_terminal_it_is_as_wide_as_that_and_has_colours() -> None:
    lines = as_table(in_order(JOBS, STATES), STATES, NOW, Screen(width=150)).splitlines()

    assert max(map(len, lines)) <= 150
    assert lines[2].endswith("…")
    assert "\x1b[32mRUNNING\x1b[0m" in as_table(JOBS, STATES, NOW, Screen(width=150, colours=True))


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_on_a_narrow_terminal_the_less_important_columns_go(width: int) -> None:
    lines = as_table(in_order(JOBS, STATES), STATES, NOW, Screen(width=width)).splitlines()

    assert max(map(len, lines)) <= width
    assert {"ID", "NAME", "STATUS", "WHY"} <= set(lines[0].split())


def test_verbose_cuts_nothing_and_tells_more() -> None:
    pipeline = job(7, "pipe", "RUNNING", task=1, attempt=2, infra="k8s/other", spec={"tasks": [{}, {}, {}]})
    header, line = as_table([pipeline], {}, NOW, Screen(width=40), verbose=True).splitlines()

    assert header.split()[-5:] == ["NAMESPACE", "TASK", "ATTEMPT", "INFRA", "WHY"]
    assert line.split()[-4:] == ["default", "2/3", "2", "k8s/other"]


def test_first_who_runs_then_who_waits_in_order_then_who_ended() -> None:
    assert [one.spec.id for one in in_order(JOBS, STATES)] == [1, 4, 2, 3, 6, 5]


@pytest.mark.parametrize(
    ("statuses", "most", "finished", "want"),
    [
        pytest.param(set(), 50, True, {1, 2, 3, 4, 5, 6}, id="all"),
        pytest.param(set(), 1, True, {1, 2, 3, 4, 6}, id="of those that ended, the last one"),
        pytest.param(set(), 0, True, {1, 2, 3, 4, 5, 6}, id="without a limit"),
        pytest.param(set(), 50, False, {1, 2, 3, 4}, id="none that ended"),
        pytest.param({"PENDING", "SUCCEEDED"}, 50, True, {3, 4, 5}, id="by status"),
        pytest.param({"SUCCEEDED"}, 50, False, set(), id="nothing is left"),
    ],
)
def test_which_jobs_are_shown(statuses: set[str], most: int, finished: bool, want: set[int]) -> None:  # noqa: FBT001
    found = chosen(JOBS, frozenset(statuses), most=most, finished=finished)

    assert {one.spec.id for one in found} == want


def test_for_scripts() -> None:
    found = record(AGED, STATES, NOW)

    assert {
        name: found[name]
        for name in ("id", "name", "object", "queue", "clusterQueue", "position", "priority", "priorityRaisedBy")
    } == {
        "id": 2,
        "name": "two",
        "object": "two-2",
        "queue": "user-queue",
        "clusterQueue": "cluster-queue",
        "position": 2,
        "priority": 60,
        "priorityRaisedBy": 10,
    }
    assert (found["waitedSeconds"], found["ranSeconds"], found["recoveries"]) == (470.0, 130.0, 1)
    assert (found["status"], found["why"]) == ("RECOVERING", "needs 6 CPUs, 3 free in default-flavor")
    assert found["canEverRun"] is True
