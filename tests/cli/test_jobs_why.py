"""`fairway jobs why`: the sentences, case by case."""

from typing import Any

import pytest

from fairway.cli.jobs.records import JobWithAttempts, WaitingInDetail
from fairway.cli.jobs.why import as_text, record
from fairway.cli.jobs.wording import in_short, preemptors, priority, said, story

from .looking import NOW, PAPER, ago, golden, job, waiting

PREEMPTED = (
    "Preempted to accommodate a workload (UID: 34daad49, JobUID: uid-9) due to prioritization in the ClusterQueue; "
    "preemptor path: /cluster-queue; preemptee path: /cluster-queue"
)
RUNS_AGAIN = (
    "Job 1 (train) of ana has been running for 90s (attempt 3). It has priority 60: 50, plus 10 for 1 preemption."
)
SIX = {"tasks": [{"resources": {"cpus": 6}}]}


def opening(one: JobWithAttempts, entry: WaitingInDetail | None = None) -> list[str]:
    """What is said before the first heading."""
    return list(story(one, entry, NOW)[0].lines)


def headed(heading: str, one: JobWithAttempts, entry: WaitingInDetail | None = None) -> list[str]:
    return [line for part in story(one, entry, NOW) if part.heading == heading for line in part.lines]


def test_the_whole_story_of_a_job_that_waits() -> None:
    one = job(
        2,
        "job2",
        "RECOVERING",
        priority=60,
        preemptions=1,
        recoveries=1,
        ranSeconds=120,
        queuedAt=ago(200),
        attempt=1,
        spec=SIX,
        attempts=[
            {
                "task": 0,
                "attempt": 1,
                "cause": "start",
                "priority": 50,
                "startedAt": ago(500),
                "endedAt": ago(380),
                "outcome": "Preempted",
                "message": PREEMPTED,
            }
        ],
    )
    holder = {"clusterQueue": "cluster-queue", "amount": "6"}
    entry = waiting(
        one,
        2,
        shortages=[
            {
                "podSet": "main",
                "flavor": "default-flavor",
                "resource": "cpu",
                "missing": "3",
                "requested": "6",
                "holders": [
                    {**holder, "shown": "job high-9", "workload": "default/x", "priority": 500},
                    {**holder, "shown": "a job of another team", "workload": None, "priority": 10, "evicting": True},
                ],
            }
        ],
        ahead=[{"shown": "job big-3", "workload": "default/y", "priority": 100}],
        obstacles=[
            {
                "podSet": "main",
                "flavor": "default-flavor",
                "resource": "cpu",
                "code": "InsufficientUnused",
                "message": "x",
            },
            {
                "podSet": "main",
                "flavor": "spot",
                "code": "UntoleratedTaint",
                "message": "flavor spot has the taint spot",
            },
        ],
        hints=["would start when job high-9 (6 CPUs, priority 500) ends", "raise the priority above 500"],
    )

    assert as_text(story(one, entry, NOW, {"uid-9": "job high-9"}), PAPER) == golden("why.txt")


@pytest.mark.parametrize(
    ("one", "entry", "want"),
    [
        pytest.param(
            job(1, phase="", workload="", submitted=3),
            None,
            [
                "Job 1 (train) of ana was submitted 3s ago and is about to be queued.",
                "It asks for 1 cpu, with priority 0.",
            ],
            id="nobody has looked at it yet",
        ),
        pytest.param(
            job(1, spec={"user": ""}, message="names no queue, and there is no LocalQueue `default`"),
            None,
            [
                "Job 1 (train) was submitted 10m ago and is about to be queued.",
                "It asks for 1 cpu, with priority 0.",
                "Names no queue, and there is no LocalQueue `default`.",
            ],
            id="there is no queue for it",
        ),
        pytest.param(
            job(1, spec={"hold": True}),
            None,
            [
                "Job 1 (train) of ana is held; `fairway jobs release 1` queues it again.",
                "It asks for 1 cpu, with priority 0.",
            ],
            id="it is held",
        ),
        pytest.param(
            job(1, phase="STARTING", attempt=1, message="image x cannot be found"),
            None,
            [
                "Job 1 (train) of ana has its quota, and its processes are starting.",
                "It asks for 1 cpu, with priority 0.",
                "Image x cannot be found.",
            ],
            id="it starts",
        ),
        pytest.param(
            job(
                1,
                phase="RUNNING",
                attempt=3,
                runningSince=ago(90),
                priority=60,
                preemptions=1,
                restartsOnErrors=1,
                recoveries=2,
            ),
            None,
            [
                RUNS_AGAIN,
                "It was restarted 2 times, after 1 preemption and 1 error.",
            ],
            id="it runs, for the third time",
        ),
        pytest.param(
            job(1, phase="RUNNING", runningSince=ago(90), infra="k8s/other", priority=None),
            None,
            ["Job 1 (train) of ana has been running on k8s/other for 90s."],
            id="it runs elsewhere",
        ),
        pytest.param(
            job(1, infra="k8s/other", message="waits there"),
            None,
            ["Job 1 (train) of ana waits on k8s/other.", "It asks for 1 cpu, with priority 0.", "Waits there."],
            id="it waits elsewhere",
        ),
        pytest.param(
            job(1, phase="RECOVERING", attempts=[{"task": 0, "attempt": 1, "stopping": "Preempted"}]),
            None,
            [
                "Job 1 (train) of ana is recovering: the processes of attempt 1 are being stopped.",
                "It asks for 1 cpu, with priority 0.",
            ],
            id="its processes are ending",
        ),
        pytest.param(
            job(1, phase="RECOVERING", attempts=[{"task": 0, "attempt": 2}]),
            None,
            ["Job 1 (train) of ana is recovering: attempt 2 is starting.", "It asks for 1 cpu, with priority 0."],
            id="its next attempt starts",
        ),
        pytest.param(
            job(1, phase="RECOVERING", attempts=[{"task": 0, "attempt": 1, "endedAt": ago(3)}]),
            None,
            [
                "Job 1 (train) of ana is recovering: its next attempt is about to start.",
                "It asks for 1 cpu, with priority 0.",
            ],
            id="between two attempts",
        ),
        pytest.param(
            job(1, phase="CANCELLING", spec={"cancel": True}),
            None,
            ["Job 1 (train) of ana was cancelled; its processes are being stopped."],
            id="it is being cancelled",
        ),
        pytest.param(
            job(1, phase="SUCCEEDED", endedAt=ago(60), ranSeconds=200),
            None,
            ["Job 1 (train) of ana succeeded 60s ago, after running for 3m20s."],
            id="it succeeded",
        ),
        pytest.param(
            job(1, phase="FAILED", endedAt=ago(60), ranSeconds=2, message="run failed on a-head (exit code 3)"),
            None,
            ["Job 1 (train) of ana failed 60s ago, after running for 2s.", "Run failed on a-head (exit code 3)."],
            id="it failed",
        ),
        pytest.param(
            job(1, phase="FAILED_NO_RESOURCE", endedAt=ago(60), message="here: can never run"),
            None,
            [
                "Job 1 (train) of ana failed, because no node or quota is large enough for it, 60s ago.",
                "here: can never run.",
            ],
            id="nobody has what it asks for",
        ),
        pytest.param(
            job(1, phase="CANCELLED", endedAt=ago(60)),
            None,
            ["Job 1 (train) of ana was cancelled 60s ago."],
            id="it was cancelled before it ran",
        ),
    ],
)
def test_where_a_job_stands(one: JobWithAttempts, entry: WaitingInDetail | None, want: list[str]) -> None:
    assert opening(one, entry) == want


@pytest.mark.parametrize(
    ("fields", "entry", "want"),
    [
        pytest.param({}, {"position": 1}, "in queue user-queue (ClusterQueue cluster-queue), next in line.", id="next"),
        pytest.param({}, {"position": 7}, "in queue user-queue (ClusterQueue cluster-queue), position 7.", id="later"),
        pytest.param(
            {},
            {"position": None, "clusterQueue": ""},
            "has waited for 10m in queue user-queue.",
            id="in no ClusterQueue",
        ),
        pytest.param(
            {},
            {"clusterQueue": "vision", "team": "vision", "organization": "ml"},
            "in queue user-queue (ClusterQueue vision, team vision of organization ml)",
            id="in the queue of an organization",
        ),
        pytest.param({"queuedAt": ago(30)}, {}, "has waited for 30s in queue", id="since it was queued"),
        pytest.param({"phase": "RECOVERING"}, {}, "has waited for 10m to run again in queue", id="again"),
    ],
)
def test_where_it_waits(fields: dict[str, Any], entry: dict[str, Any], want: str) -> None:
    one = job(1, **fields)

    assert want in opening(one, waiting(one, **entry))[0]


def test_what_can_never_run_is_told_so() -> None:
    one = job(1)

    assert opening(one, waiting(one, canEverRun=False))[2:] == [
        "It can never run with the current nodes and quotas.",
        "Needs 6 CPUs, 3 free in default-flavor.",
    ]


@pytest.mark.parametrize(
    ("spec", "candidate", "want"),
    [
        pytest.param(
            {}, 0, "After 1d in this queue it tries the next entry of its resources, k8s/other.", id="after a day"
        ),
        pytest.param({"provisionTimeoutSeconds": 300}, 0, "After 5m in this queue", id="after what was said"),
        pytest.param({"provisionTimeoutSeconds": -1}, 0, "", id="never"),
        pytest.param({}, 1, "", id="there is no other"),
    ],
)
def test_where_it_goes_next(spec: dict[str, Any], candidate: int, want: str) -> None:
    choices = {"tasks": [{"resources": {"ordered": [{"cpus": 1}, {"infra": "k8s/other"}]}}]}
    one = job(1, spec=choices | spec, candidate=candidate)
    found = [line for line in opening(one, waiting(one)) if line.startswith("After")]

    assert bool(found) == bool(want)
    assert "".join(found).startswith(want)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"phase": "SUCCEEDED", "attempt": 1},
            ["- `fairway jobs files 1` lists its files."],
            id="results after a success",
        ),
        pytest.param(
            {"phase": "FAILED", "attempt": 1},
            [
                "- `fairway jobs files 1` lists its files.",
                "- `fairway jobs logs 1` prints its log.",
                "- `fairway jobs retry 1` runs it again.",
            ],
            id="logs and a new try",
        ),
        pytest.param({"phase": "CANCELLED"}, ["- `fairway jobs retry 1` runs it again."], id="it never wrote"),
        pytest.param(
            {"phase": "FAILED_PRECHECKS", "attempt": 1},
            ["- `fairway jobs retry 1` runs it again."],
            id="nor here",
        ),
    ],
)
def test_what_one_can_do_after_the_end(fields: dict[str, Any], want: list[str]) -> None:
    assert headed("Next steps", job(1, **fields)) == want


@pytest.mark.parametrize(
    ("attempt", "want"),
    [
        pytest.param({"cause": "start"}, "1: not started yet", id="not started"),
        pytest.param(
            {"cause": "start", "startedAt": ago(200)}, "1: started 3m20s ago, has run for 3m20s", id="it runs"
        ),
        pytest.param(
            {"cause": "preempted", "startedAt": ago(50), "endedAt": ago(40), "outcome": "Succeeded", "exitCode": 0},
            "1: restarted after a preemption; started 50s ago, ran for 10s; succeeded (exit code 0)",
            id="it came back and succeeded",
        ),
        pytest.param(
            {
                "cause": "lost",
                "infra": "k8s/other",
                "startedAt": ago(50),
                "stopping": "Preempted",
                "message": PREEMPTED,
            },
            "1: restarted after its pods were lost; on k8s/other; started 50s ago, has run for 50s; "
            "preempted: made room for another job (prioritization in the ClusterQueue)",
            id="it is being stopped",
        ),
        pytest.param(
            {"cause": "retry", "startedAt": ago(9), "endedAt": ago(4), "outcome": "MaxDurationExceeded", "priority": 5},
            "1: restarted by `jobs retry`; started 9s ago, ran for 5s, priority 5; max duration exceeded",
            id="it ran too long",
        ),
    ],
)
def test_what_an_attempt_was(attempt: dict[str, Any], want: str) -> None:
    one = job(1, phase="RUNNING", attempts=[{"task": 0, "attempt": 1, **attempt}])

    assert headed("Attempts", one) == [want]


def test_an_attempt_that_is_starting_has_not_run() -> None:
    one = job(1, phase="STARTING", attempts=[{"task": 0, "attempt": 1, "startedAt": ago(20)}])

    assert headed("Attempts", one) == ["1: started 20s ago"]


def test_files_are_not_offered_where_they_are_not_kept() -> None:
    parts = story(job(1, phase="SUCCEEDED", attempt=1), None, NOW, files=False)

    assert [part.heading for part in parts] == [""]


def test_attempts_of_a_pipeline_say_of_which_task() -> None:
    one = job(1, phase="RUNNING", spec={"tasks": [{}, {}]}, attempts=[{"task": 1, "attempt": 4}])

    assert headed("Attempts", one) == ["task 2, 4: not started yet"]


def test_of_many_only_some_are_named() -> None:
    one = job(1)
    entry = waiting(one, ahead=[{"shown": f"job j-{number}", "priority": 1} for number in range(20)])

    assert headed("Jobs ahead in the queue", one, entry)[-2:] == ["job j-7 (priority 1)", "and 12 more"]


@pytest.mark.parametrize(
    ("holder", "want"),
    [
        ({"shown": "job a-1"}, "job a-1 holds"),
        ({"workload": "default/w", "owner": {"kind": "Job", "name": "pi"}}, "Job pi holds"),
        ({"workload": "default/w", "owner": {"kind": "ManagedJob", "name": "a-1"}}, "job a-1 holds"),
        ({"workload": "default/w"}, "workload default/w holds"),
        ({}, "another workload holds"),
    ],
)
def test_who_holds_it(holder: dict[str, Any], want: str) -> None:
    one = job(1)
    shortage = {
        "podSet": "main",
        "flavor": "f",
        "resource": "cpu",
        "missing": "1",
        "holders": [{**holder, "amount": "1"}],
    }

    first, second = headed("What is missing", one, waiting(one, shortages=[shortage]))

    assert first == "1 cpu in flavor f"
    assert second.strip().startswith(want)


@pytest.mark.parametrize(
    ("one", "entry", "want"),
    [
        pytest.param(job(1, phase="SUCCEEDED", message="done"), {}, "", id="nothing of a success"),
        pytest.param(job(1, phase="FAILED", reason="Lost"), {}, "Lost", id="the reason where there is no message"),
        pytest.param(
            job(1, phase="FAILED", message=f"{PREEMPTED}; `fairway jobs launch` restarts jobs"),
            {},
            "made room for another job (prioritization in the ClusterQueue); `fairway jobs launch` restarts jobs",
            id="preempted for good",
        ),
        pytest.param(job(1, phase="CANCELLING"), {}, "its processes are being stopped", id="it is being cancelled"),
        pytest.param(job(1, spec={"hold": True}), {}, "held; `fairway jobs release 1` resumes it", id="it is held"),
        pytest.param(job(1, message="first\nsecond"), {}, "first second", id="in one line"),
        pytest.param(job(1), {"message": "x", "canEverRun": False}, "can never run: x", id="it can never run"),
    ],
)
def test_in_a_line(one: JobWithAttempts, entry: dict[str, Any], want: str) -> None:
    assert in_short(one, waiting(one, **entry) if entry else None) == want


def test_who_preempted_it_is_named_where_that_is_known() -> None:
    one = job(1, message=PREEMPTED)

    assert preemptors(one) == {"uid-9"}
    assert said(PREEMPTED, {"uid-9": "job high-9"}) == "made room for job high-9 (prioritization in the ClusterQueue)"


def test_a_priority_that_was_raised_shows_by_how_much() -> None:
    assert priority(job(1, priority=60, preemptions=1)) == "60 (50+10)"
    assert priority(job(1, priority=7)) == "7"
    assert priority(job(1, priority=None)) == "-"


def test_for_scripts() -> None:
    one = job(1, attempts=[{"task": 0, "attempt": 1}])
    found = record(one, waiting(one, 3, hints=["would start soon"]), NOW, {})

    assert (found["position"], found["waiting"]["hints"], found["attempts"][0].attempt) == (3, ["would start soon"], 1)
    assert found["story"][0].startswith("Job 1 (train) of ana has waited")


def test_a_job_that_is_held_is_held_and_that_is_all() -> None:
    one = job(3, phase="RECOVERING", spec={"hold": True})
    entry = waiting(one, None, message="it is deactivated", hints=["release it"])

    assert opening(one, entry) == [
        "Job 3 (train) of ana is held; `fairway jobs release 3` queues it again.",
        "It asks for 1 cpu, with priority 0.",
    ]
    assert headed("What would admit it", one, entry) == []


def test_a_job_that_was_just_released_does_not_say_that_it_is_held() -> None:
    one = job(3, phase="RECOVERING", reason="Held", message="held by its user")

    assert in_short(one, waiting(one, None, message="it is deactivated")) == ""
    assert in_short(one, None) == ""
