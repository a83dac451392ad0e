"""Suspension: pods go and count for nothing, the start is forgotten, and both are said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob.decide import NOTHING, is_at_rest

from .things import RESUMED, SUSPENDED, Play, ago, condition, conditions_of, job, plan_for, pod

RESTING = {"conditions": [SUSPENDED], "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
SPECS = st.fixed_dictionaries(
    {"suspend": st.booleans()},
    optional={
        "parallelism": st.integers(0, 3),
        "completions": st.sampled_from([0, 1, 3]),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed"]),
        "backoffLimit": st.integers(0, 2),
        "backoffLimitPerIndex": st.integers(0, 1),
        "activeDeadlineSeconds": st.integers(1, 100),
        "successPolicy": st.just({"rules": [{"succeededCount": 1}]}),
    },
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "ready": st.integers(0, 1),
        "terminating": st.integers(0, 1),
        "uncountedTerminatedPods": st.sampled_from([{}, {"succeeded": ["a"]}]),
        "conditions": st.lists(
            st.sampled_from([SUSPENDED, RESUMED, condition("FailureTarget", "BackoffLimitExceeded")]), max_size=2
        ),
        "active": st.integers(0, 1),
        "succeeded": st.integers(0, 2),
        "failed": st.integers(0, 3),
        "startTime": st.sampled_from([ago(5), ago(500)]),
    },
)


def stopped_while_running(*names: str, **spec: Any) -> Play:
    """A job that was suspended while these pods ran: they are told to go."""
    play = Play(job(**spec))
    play.sync()
    for name in names:
        play.start(name)
    play.change(suspend=True)
    play.sync()
    return play


def test_a_suspended_job_says_so_once() -> None:
    first = plan_for(job(suspend=True))
    second = plan_for(
        job({"conditions": [SUSPENDED], "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}, suspend=True)
    )

    assert conditions_of(first) == {"Suspended": ("True", "JobSuspended", "Job suspended")}
    assert first.status is not None
    assert "startTime" not in first.status
    assert [notice.reason for notice in first.notices] == ["Suspended"]
    assert second.status is None


def test_a_job_that_was_never_suspended_says_nothing_of_it() -> None:
    assert conditions_of(plan_for(job(), pod("a"))) == {}


def test_a_resumed_job_starts_anew() -> None:
    plan = plan_for(job({"conditions": [SUSPENDED], "startTime": ago(500)}), pod("a"))

    assert conditions_of(plan) == {"Suspended": ("False", "JobResumed", "Job resumed")}
    assert plan.status is not None
    assert plan.status["startTime"] == ago(0)
    assert [notice.reason for notice in plan.notices] == ["Resumed"]


def test_a_job_suspended_again_forgets_its_start() -> None:
    plan = plan_for(job({"conditions": [RESUMED], "startTime": ago(50), "active": 1}, suspend=True))

    assert conditions_of(plan) == {"Suspended": ("True", "JobSuspended", "Job suspended")}
    assert plan.status is not None
    assert {"startTime", "active"}.isdisjoint(plan.status)


def test_a_short_job_is_resumed_and_complete_in_one_write() -> None:
    plan = plan_for(job({"conditions": [SUSPENDED]}), pod("a", "Succeeded"))

    assert list(conditions_of(plan)) == ["Suspended", "SuccessCriteriaMet", "Complete"]
    assert [notice.reason for notice in plan.notices] == ["Resumed", "Completed"]


def test_pods_of_a_suspended_job_count_for_nothing_however_they_end() -> None:
    play = stopped_while_running("p1", "p2", parallelism=3, completions=3, backoffLimit=0)
    assert (play.active(), play.job["status"]["terminating"]) == ([], 2)

    play.end("p1", well=True)
    play.end("p2", well=False)
    play.sync()
    play.change(suspend=False)
    play.sync()

    assert {"succeeded", "failed"}.isdisjoint(play.job["status"])
    assert play.active() == ["p4", "p5", "p6"]


def test_a_pod_that_was_done_before_it_could_be_told_to_stop_counts() -> None:
    """It was preempted in the moment of its success: to run it again would do its work twice."""
    play = stopped_while_running("p1", "p2", parallelism=2, completions=2, backoffLimit=0)

    play.end("p1", well=True, by_itself=True)
    play.end("p2", well=True)
    play.sync()
    play.change(suspend=False)
    play.sync()

    assert play.job["status"]["succeeded"] == 1
    assert play.active() == ["p3"]


def test_a_job_that_was_done_before_it_could_be_stopped_is_complete_though_suspended() -> None:
    play = stopped_while_running("p1", backoffLimit=0)
    play.end("p1", well=True, by_itself=True)
    play.sync()

    assert [one["type"] for one in play.job["status"]["conditions"] if one["status"] == "True"][-1] == "Complete"


def test_nobody_takes_the_place_of_a_pod_that_was_told_to_go_before_it_has_ended() -> None:
    """It may be done before it hears of it: two would do the same work."""
    play = stopped_while_running("p1", backoffLimit=0)
    play.change(suspend=False)
    play.sync()
    assert play.active() == []

    play.end("p1", well=True, by_itself=True)
    play.sync()

    assert play.job["status"]["succeeded"] == 1
    assert play.made == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_indexes_whose_pods_are_on_their_way_out_wait_while_others_go_on(*, restarted: bool) -> None:
    play = stopped_while_running("p1", parallelism=3, completions=3, completionMode="Indexed")
    play.change(suspend=False)
    if restarted:
        play.forget()
    play.sync()
    assert [facts.index(play.pods[name]) for name in play.active()] == [1, 2]

    play.end("p1", well=False)
    play.sync()

    assert [facts.index(play.pods[name]) for name in play.active()] == [1, 2, 0]


def test_a_restart_between_suspension_and_resumption_charges_nobody() -> None:
    play = stopped_while_running("p1", backoffLimit=0)
    play.change(suspend=False)
    play.forget()
    play.sync()
    play.end("p1", well=False)
    play.sync()

    assert "failed" not in play.job["status"]
    assert play.active() == ["p2"]


def test_a_success_that_came_before_the_deletion_counts() -> None:
    """The pod ended by itself while the suspension was on its way, so the deletion took it at once."""
    play = Play(job())
    play.sync()
    play.start("p1")
    play.change(suspend=True)
    plan = play.plan()
    play.ledger = play.ledger.excusing(["p1"]) if play.ledger else None
    play.end("p1", well=True)
    play.delete(plan.delete[0]["metadata"]["name"])
    play.sync()

    assert play.job["status"]["succeeded"] == 1
    assert play.job["status"]["conditions"][-1]["type"] == "Complete"


@given(spec=SPECS, status=STATUSES | st.just(RESTING))
def test_nothing_is_ever_decided_about_a_job_at_rest(spec: dict[str, Any], status: dict[str, Any]) -> None:
    manifest = job(dict(status), **spec)

    assert not is_at_rest(manifest) or plan_for(manifest) == NOTHING


@pytest.mark.parametrize(
    ("spec", "status", "rests"),
    [
        ({"suspend": True}, RESTING, True),
        ({"suspend": True, "completionMode": "Indexed", "completions": 2}, RESTING, True),
        ({"suspend": False}, RESTING, False),
        ({"suspend": True, "completions": 0}, RESTING, False),
        ({"suspend": True}, {}, False),
        ({"suspend": True}, {**RESTING, "conditions": [RESUMED]}, False),
        ({"suspend": True}, {**RESTING, "active": 1}, False),
        ({"suspend": True}, {**RESTING, "terminating": 1}, False),
    ],
)
def test_a_job_rests_only_if_it_never_ran_and_says_that_it_waits(
    *, spec: dict[str, Any], status: dict[str, Any], rests: bool
) -> None:
    assert is_at_rest(job(status, **spec)) is rests
