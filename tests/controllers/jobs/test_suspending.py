"""Suspension: pods go and count for nothing, the start is forgotten, and both are said."""

from .things import RESUMED, SUSPENDED, Play, ago, conditions_of, job, plan_for, pod


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
    play = Play(job(parallelism=3, completions=3, backoffLimit=0))
    play.sync()
    for name in ("p1", "p2"):
        play.start(name)
    play.change(suspend=True)
    play.sync()
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
    play = Play(job(parallelism=2, completions=2, backoffLimit=0))
    play.sync()
    for name in ("p1", "p2"):
        play.start(name)
    play.change(suspend=True)
    play.sync()

    play.end("p1", well=True, by_itself=True)
    play.end("p2", well=True)
    play.sync()
    play.change(suspend=False)
    play.sync()

    assert play.job["status"]["succeeded"] == 1
    assert play.active() == ["p3"]


def test_a_job_that_was_done_before_it_could_be_stopped_is_complete_though_suspended() -> None:
    play = Play(job(backoffLimit=0))
    play.sync()
    play.start("p1")
    play.change(suspend=True)
    play.sync()
    play.end("p1", well=True, by_itself=True)
    play.sync()

    assert [one["type"] for one in play.job["status"]["conditions"] if one["status"] == "True"][-1] == "Complete"


def test_a_restart_between_suspension_and_resumption_charges_nobody() -> None:
    play = Play(job(backoffLimit=0))
    play.sync()
    play.start("p1")
    play.change(suspend=True)
    play.sync()
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
