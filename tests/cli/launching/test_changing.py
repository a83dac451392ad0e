"""`fairway jobs cancel|hold|release|retry|priority`: which jobs are meant, what is said, and what becomes of them."""

from collections.abc import Iterator

import pytest

from .conftest import Commands, masked, until

SLEEP = "exec sleep 1000"


@pytest.fixture
def three(fairway: Commands) -> Iterator[list[int]]:
    """Jobs that wait: they ask for more than there is room for, but not for more than there is."""
    fairway("jobs", "cancel", "-u", "-y")
    blocker = fairway.submitted("-n", "blocker", "--cpus", "4", "--priority", "1000", SLEEP)
    fairway.until(blocker, "RUNNING")
    yield [fairway.submitted("-n", name, SLEEP) for name in ("alpha", "beta", "alpha")]
    fairway("jobs", "cancel", "-u", "-y")


def test_one_job_is_cancelled_and_waited_for(fairway: Commands, three: list[int]) -> None:
    assert fairway("jobs", "cancel", "-y", str(three[0])) == f"Job {three[0]} (alpha) cancelled.\n"

    assert [fairway.phase(number) for number in three] == ["CANCELLED", "PENDING", "PENDING"]


def test_a_job_that_runs_is_over_when_cancel_returns(fairway: Commands) -> None:
    number = fairway.submitted("trap 'echo asked to end; exit 0' TERM; echo up; while :; do sleep 0.02; done")
    fairway.until(number, "RUNNING")
    with fairway.process("jobs", "logs", str(number)) as following:
        following.reads("up")
        fairway("jobs", "cancel", "-y", str(number))
        said, code = following.rest()

    assert code == 0
    assert "asked to end" in said
    assert fairway.phase(number) == "CANCELLED"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["{0}-{2}"], [0, 1, 2], id="a range"),
        pytest.param(["{0}", "{1}", "{0}"], [0, 1], id="two ids, one of them twice"),
        pytest.param(["alpha"], [0, 2], id="a name that two jobs have"),
        pytest.param(["-n", "beta"], [1], id="a name, with the flag"),
        pytest.param(["alph*"], [0, 2], id="a pattern"),
        pytest.param(["beta-{1}"], [1], id="the name of the object"),
        pytest.param(["*-{2}", "beta"], [1, 2], id="a pattern and a name"),
    ],
)
def test_jobs_are_meant_by_ids_names_ranges_and_patterns(
    fairway: Commands, three: list[int], words: list[str], want: list[int]
) -> None:
    told = fairway.json("jobs", "cancel", "-y", "--async", *(word.format(*three) for word in words))

    assert sorted(one["id"] for one in told if one["id"] in three) == [three[index] for index in want]
    assert [bool(fairway.job(number)["spec"].get("cancel")) for number in three] == [
        index in want for index in range(3)
    ]


def test_all_of_mine_are_cancelled_at_once(fairway: Commands, three: list[int]) -> None:
    said = fairway("jobs", "cancel", "-a", "-y")

    assert masked(said) == "N jobs (N-N) cancelled.\n"
    assert said.startswith(f"4 jobs ({three[0] - 1}-{three[2]})")
    versions = {fairway.job(number)["metadata"]["generation"] for number in three}
    assert versions == {2}
    assert fairway("jobs", "cancel", "-a", "-y") == "No job to cancel.\n"


def test_those_who_do_not_wait_are_told_what_happens(fairway: Commands, three: list[int]) -> None:
    assert fairway("jobs", "cancel", "-y", "--async", str(three[0])) == f"Job {three[0]} (alpha) is being cancelled.\n"
    fairway.until(three[0], "CANCELLED")


def test_cancelling_what_has_ended_changes_nothing(fairway: Commands) -> None:
    number = fairway.submitted("-n", "short", "true")
    fairway.until(number, "SUCCEEDED")

    said = fairway.run("jobs", "cancel", "-y", str(number))

    assert (said.code, said.output) == (0, "No job to cancel.\n")
    assert said.errors == f"Job {number} (short) has ended already: SUCCEEDED.\n"


def test_unknown_jobs_are_named_all_at_once_and_nothing_is_done(fairway: Commands, three: list[int]) -> None:
    said = fairway.refused("jobs", "cancel", "-y", "99998", str(three[0]), "nobody", "no-*")

    assert said == (
        "error: there is no job '99998', 'nobody' or 'no-*' in namespace default; `fairway jobs queue -a` lists "
        "all jobs"
    )
    assert fairway.phase(three[0]) == "PENDING"


@pytest.mark.parametrize("command", ["cancel", "hold", "release"])
@pytest.mark.parametrize("words", [[], ["1", "-a"], ["-n", "x", "-a"]], ids=["none", "some and all", "name and all"])
def test_it_must_be_clear_which_jobs_are_meant(fairway: Commands, command: str, words: list[str]) -> None:
    assert "say which jobs" in fairway.refused("jobs", command, *words, code=2)


def test_a_job_that_is_held_waits_outside_the_queue_until_it_is_released(fairway: Commands, three: list[int]) -> None:
    first = str(three[0])
    said = fairway("jobs", "hold", first)
    assert said == f"Job {first} (alpha) held; `fairway jobs release` puts held jobs back into the queue.\n"
    fairway("jobs", "cancel", "-y", "blocker")
    fairway.until(three[1], "RUNNING")
    assert fairway.phase(three[0]) == "PENDING"

    assert fairway("jobs", "release", first) == f"Job {first} (alpha) released; `fairway jobs queue` shows the place.\n"
    fairway.until(three[0], "RUNNING")


def test_releasing_what_is_not_held_is_said_and_harmless(fairway: Commands, three: list[int]) -> None:
    said = fairway.run("jobs", "release", str(three[0]))
    assert (said.code, said.output, said.errors) == (0, "", f"Job {three[0]} (alpha) is not held.\n")
    assert fairway("jobs", "release", "-a") == "No job is held.\n"


def test_what_has_ended_can_begin_again_and_nothing_else_can(fairway: Commands, three: list[int]) -> None:
    number = str(three[0])
    fairway("jobs", "cancel", "-y", number)
    assert "has ended: CANCELLED. `fairway jobs retry" in fairway.refused("jobs", "hold", number)
    assert "has ended: CANCELLED" in fairway.refused("jobs", "priority", number, "5")

    assert fairway("jobs", "retry", number) == f"Job {number} (alpha) queued again.\n"

    fairway.until(three[0], "PENDING")
    assert fairway.refused("jobs", "retry", number) == (
        f"Job {number} (alpha) has not ended: PENDING. `fairway jobs cancel {number}` stops it."
    )
    assert "say which jobs to run again" in fairway.refused("jobs", "retry", code=2)


def test_a_job_that_failed_runs_again_and_keeps_what_it_wrote(fairway: Commands) -> None:
    fairway("jobs", "cancel", "-u", "-y")
    number = fairway.submitted("echo attempt $FAIRWAY_ATTEMPT; test $FAIRWAY_ATTEMPT = 2")
    fairway.until(number, "FAILED")

    fairway("jobs", "retry", str(number))

    fairway.until(number, "SUCCEEDED")
    assert fairway("jobs", "logs", str(number), "--attempt", "all") == "attempt 1\nattempt 2\n"


@pytest.mark.parametrize(
    ("value", "number", "of_class", "words"),
    [
        pytest.param(["50"], 50, None, "priority 50", id="a number"),
        pytest.param(["-5"], -5, None, "priority -5", id="a negative number"),
        pytest.param(["urgent"], None, "urgent", "priority urgent", id="a class"),
        pytest.param(["none"], None, None, "the default priority", id="neither"),
    ],
)
def test_a_priority_is_a_number_or_a_class(
    fairway: Commands, three: list[int], value: list[str], number: int | None, of_class: str | None, words: str
) -> None:
    fairway.server.call(
        "POST", "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses", {"metadata": {"name": "urgent"}, "value": 77}
    )

    said = fairway("jobs", "priority", str(three[0]), *value)

    assert said == f"Job {three[0]} (alpha): {words}, from now on.\n"
    spec = fairway.job(three[0])["spec"]
    assert (spec.get("priority"), spec.get("priorityClass")) == (number, of_class)


def test_who_is_more_important_goes_first(fairway: Commands, three: list[int]) -> None:
    def last() -> int:
        positions = {one["id"]: one["position"] or 0 for one in fairway.json("jobs", "queue", *map(str, three))}
        return max(three, key=lambda number: positions[number])

    fairway("jobs", "priority", str(three[1]), str(three[2]), "10")
    until(lambda: last() == three[0])
    fairway("jobs", "priority", str(three[0]), "20")
    until(lambda: last() != three[0])


def test_changes_are_told_as_json(fairway: Commands, three: list[int]) -> None:
    number = str(three[0])
    for command in (["hold", number], ["release", number], ["priority", number, "9"]):
        (told,) = fairway.json("jobs", *command)
        assert (told["id"], told["name"]) == (three[0], "alpha")
    (told,) = fairway.json("jobs", "cancel", "-y", number)
    assert told["status"] == "CANCELLED"
    (told,) = fairway.json("jobs", "retry", number)
    assert told["priority"] == 9


def test_a_priority_that_is_none_changes_nothing(fairway: Commands, three: list[int]) -> None:
    before = fairway.job(three[0])["spec"]

    said = fairway.refused("jobs", "priority", str(three[0]), "no-such-class")
    assert said.startswith("error: there is no WorkloadPriorityClass 'no-such-class'; there ")
    said = fairway.refused("jobs", "priority", str(three[0]), "99999999999999", code=2)
    assert "99999999999999: a priority is a number from -2147483648 to 2147483647" in said

    assert fairway.job(three[0])["spec"] == before
