"""How a job ends: the verdicts, in the order and with the words of Kubernetes, and what has to come first."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest

from .things import (
    SUSPENDED,
    ago,
    condition,
    conditions_of,
    indexed,
    job,
    lost,
    names,
    plan_for,
    pod,
)

STARTED = {"startTime": ago(100)}
REACHED = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
LIMIT = ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("True", "DeadlineExceeded", "Job was active longer than specified deadline")
INDEXES = ("True", "FailedIndexes", "Job has failed indexes")
TOO_MANY = ("True", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")


def on_exit(action: str, *codes: int, operator: str = "In", **more: Any) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes), **more}}


def on_condition(action: str, kind: str, status: str = "True") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": list(rules)}}


@pytest.mark.parametrize(
    ("manifest", "pods"),
    [
        pytest.param(job(), [pod("a", "Succeeded")], id="one success of one"),
        pytest.param(
            job({"succeeded": 1}, completions=2), [pod("b", "Succeeded"), pod("c", "Succeeded")], id="the second"
        ),
        pytest.param(job(parallelism=2), [pod("a", "Succeeded"), pod("b", "Failed")], id="one success of a work queue"),
        pytest.param(job(completions=0), [], id="nothing to do"),
        pytest.param(job(completions=0, suspend=True), [], id="nothing to do, and suspended"),
        pytest.param(
            indexed({"completedIndexes": "0,1", "succeeded": 2}), [pod("a", "Succeeded", index=2)], id="the last index"
        ),
        pytest.param(job({"failed": 1}), [pod("a", "Failed"), pod("b", "Succeeded")], id="a success after a failure"),
        pytest.param(job(), [pod("a", "Succeeded", ended=6, told_to_go=5)], id="a success that was deleted afterwards"),
    ],
)
def test_a_job_completes_in_one_write(manifest: Manifest, pods: list[Manifest]) -> None:
    plan = plan_for(manifest, *pods)

    assert conditions_of(plan) == {"SuccessCriteriaMet": REACHED, "Complete": REACHED}
    assert plan.status is not None
    assert "completionTime" in plan.status
    assert plan.urgent
    assert [notice.reason for notice in plan.notices][-1] == "Completed"


@pytest.mark.parametrize(
    ("manifest", "pods", "want"),
    [
        pytest.param(job(backoffLimit=0), [pod("a", "Failed")], LIMIT, id="one failure too many"),
        pytest.param(
            job({"failed": 1}, backoffLimit=1),
            [pod("a", "Failed", ended=30), pod("b", "Failed")],
            LIMIT,
            id="one more than what was counted before",
        ),
        pytest.param(
            job(STARTED, backoffLimit=0), [pod("a", told_to_go=5, ended=None)], None, id="not a pod that is told to go"
        ),
        pytest.param(
            job(backoffLimit=0), [pod("a", "Failed", conditions=[lost()])], None, id="not a pod that was lost"
        ),
        pytest.param(
            job(backoffLimit=2, restart_policy="OnFailure"),
            [pod("a", restarts=2)],
            LIMIT,
            id="restarts reach the limit",
        ),
        pytest.param(
            job(backoffLimit=2, restart_policy="OnFailure"), [pod("a", restarts=1)], None, id="restarts below the limit"
        ),
        pytest.param(
            job(backoffLimit=0, restart_policy="OnFailure"),
            [pod("a", restarts=1)],
            LIMIT,
            id="a restart, and none allowed",
        ),
        pytest.param(job(backoffLimit=2), [pod("a", restarts=9)], None, id="restarts where none are expected"),
        pytest.param(job(STARTED, activeDeadlineSeconds=100), [pod("a")], DEADLINE, id="the deadline is reached"),
        pytest.param(job(STARTED, activeDeadlineSeconds=101), [pod("a")], None, id="the deadline is not reached"),
        pytest.param(
            job(STARTED, activeDeadlineSeconds=1, suspend=True), [], None, id="no deadline for a suspended job"
        ),
        pytest.param(
            job({**STARTED, "conditions": [SUSPENDED]}, activeDeadlineSeconds=5),
            [],
            None,
            id="the time before a suspension does not count",
        ),
        pytest.param(
            job(activeDeadlineSeconds=59),
            [pod("a")],
            DEADLINE,
            id="the deadline counts from a start not written down yet",
        ),
        pytest.param(
            indexed({"completedIndexes": "0,2"}, backoffLimitPerIndex=1),
            [pod("a", "Failed", index=1, failures=1)],
            INDEXES,
            id="an index failed for good and the others are done",
        ),
        pytest.param(
            indexed({"completedIndexes": "0,2"}, backoffLimitPerIndex=1),
            [pod("a", "Failed", index=1, failures=0)],
            None,
            id="an index may fail once more",
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=0, maxFailedIndexes=1),
            [pod("a", "Failed", index=1, failures=0), pod("b", "Failed", index=2, failures=0), pod("c", index=0)],
            TOO_MANY,
            id="too many indexes failed",
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=0, maxFailedIndexes=1),
            [pod("a", "Failed", index=1, failures=0), pod("b", index=2), pod("c", index=0)],
            None,
            id="as many indexes failed as may",
        ),
        pytest.param(
            indexed({"completedIndexes": "0,2"}, backoffLimitPerIndex=5, **policy(on_exit("FailIndex", 7))),
            [pod("a", "Failed", index=1, failures=0, exit_code=7)],
            INDEXES,
            id="a rule fails the index at once",
        ),
        pytest.param(
            job(**policy(on_exit("FailJob", 42))),
            [pod("a", "Failed", exit_code=42)],
            (
                "True",
                "PodFailurePolicy",
                "Container main for pod default/a failed with exit code 42 matching FailJob rule at index 0",
            ),
            id="a rule fails the job on an exit code",
        ),
        pytest.param(
            job(**policy(on_exit("Ignore", 1), on_condition("FailJob", "ConfigIssue"))),
            [pod("a", "Failed", exit_code=9, conditions=[{"type": "ConfigIssue", "status": "True"}])],
            ("True", "PodFailurePolicy", "Pod default/a has condition ConfigIssue matching FailJob rule at index 1"),
            id="a rule fails the job on a condition",
        ),
        pytest.param(
            job(backoffLimit=0, **policy(on_exit("Ignore", 42), on_exit("FailJob", 42))),
            [pod("a", "Failed", exit_code=42)],
            None,
            id="the first rule that matches decides",
        ),
        pytest.param(
            job(backoffLimit=0, **policy(on_exit("FailJob", 42, operator="NotIn"))),
            [pod("a", "Failed", exit_code=42)],
            LIMIT,
            id="a rule that does not match leaves the limit",
        ),
        pytest.param(
            job(backoffLimit=0, **policy(on_exit("Ignore", 42, containerName="other"))),
            [pod("a", "Failed", exit_code=42)],
            LIMIT,
            id="a rule for another container",
        ),
        pytest.param(
            job(backoffLimit=0, **policy(on_condition("Ignore", "DisruptionTarget"))),
            [pod("a", "Failed", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "X"}])],
            None,
            id="a disruption that a rule ignores",
        ),
        pytest.param(
            job(backoffLimit=0, **policy(on_condition("Count", "DisruptionTarget"))),
            [pod("a", "Failed", conditions=[lost()])],
            LIMIT,
            id="a lost pod that a rule counts",
        ),
        pytest.param(
            job(completions=2, parallelism=2, backoffLimit=0),
            [pod("a", "Succeeded"), pod("b", "Failed")],
            LIMIT,
            id="one failure too many beside a success",
        ),
    ],
)
def test_a_job_fails(manifest: Manifest, pods: list[Manifest], want: tuple[str, str, str] | None) -> None:
    plan = plan_for(manifest, *pods)

    said = conditions_of(plan) if plan.status is not None else {}
    assert said.get("FailureTarget") == want


@pytest.mark.parametrize(
    ("rules", "done", "want"),
    [
        pytest.param([{"succeededIndexes": "0"}], "0", "Matched rules at index 0", id="the index that matters"),
        pytest.param([{"succeededIndexes": "0"}], "1-4", None, id="other indexes"),
        pytest.param([{"succeededCount": 2}], "1,3", "Matched rules at index 0", id="enough indexes"),
        pytest.param([{"succeededCount": 3}], "1,3", None, id="too few indexes"),
        pytest.param(
            [{"succeededIndexes": "1-3", "succeededCount": 2}], "0,2,3", "Matched rules at index 0", id="enough of some"
        ),
        pytest.param([{"succeededIndexes": "1-3", "succeededCount": 2}], "0,3,4", None, id="too few of some"),
        pytest.param(
            [{"succeededIndexes": "0"}, {"succeededCount": 2}], "1,2", "Matched rules at index 1", id="the second rule"
        ),
        pytest.param([{"succeededIndexes": "1-3"}], "1-3", "Matched rules at index 0", id="all of a range"),
    ],
)
def test_a_success_policy_ends_a_job_early(rules: list[dict[str, Any]], done: str, want: str | None) -> None:
    manifest = indexed({"completedIndexes": done}, completions=5, parallelism=1, successPolicy={"rules": rules})

    plan = plan_for(manifest, pod("a", index=4 if "4" not in done else 1))

    if want is None:
        assert "SuccessCriteriaMet" not in conditions_of(plan)
    else:
        assert conditions_of(plan) == {"SuccessCriteriaMet": ("True", "SuccessPolicy", want)}
        assert names(plan.delete) == ["a"]
        assert plan.excuses


def test_a_verdict_is_written_before_pods_are_deleted_for_it() -> None:
    plan = plan_for(job(STARTED, activeDeadlineSeconds=5), pod("a"), pod("b", "Pending"))

    assert conditions_of(plan) == {"FailureTarget": DEADLINE}
    assert plan.status is not None
    assert plan.status["active"] == 2
    assert (names(plan.delete), plan.excuses, plan.urgent) == (["a", "b"], False, True)


VERDICT = condition("FailureTarget", *DEADLINE[1:])


def test_pods_that_a_failed_job_stops_have_failed() -> None:
    manifest = job({**STARTED, "active": 2, "conditions": [VERDICT]}, podReplacementPolicy="Failed")

    plan = plan_for(manifest, pod("a", told_to_go=1), pod("b", told_to_go=1))

    assert plan.status is not None
    assert (plan.status["failed"], plan.status["terminating"]) == (2, 2)
    assert "active" not in plan.status
    assert "Failed" not in conditions_of(plan)


def test_a_job_has_failed_once_its_last_pod_has_ended() -> None:
    manifest = job({**STARTED, "failed": 1, "terminating": 1, "conditions": [VERDICT]})

    plan = plan_for(manifest)

    assert conditions_of(plan) == {"FailureTarget": DEADLINE, "Failed": DEADLINE}
    assert plan.status is not None
    assert plan.status["terminating"] == 0
    assert "completionTime" not in plan.status
    assert [(notice.reason, notice.warning) for notice in plan.notices] == [("DeadlineExceeded", True)]


def test_a_verdict_stands_whatever_comes_after() -> None:
    manifest = job({**STARTED, "conditions": [VERDICT]})

    plan = plan_for(manifest, pod("a", "Succeeded"))

    assert conditions_of(plan) == {"FailureTarget": DEADLINE, "Failed": DEADLINE}


def test_a_job_that_succeeded_is_complete_once_its_last_pod_has_ended() -> None:
    met = condition("SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 0")
    manifest = indexed({**STARTED, "completedIndexes": "0", "succeeded": 1, "conditions": [met]})

    waiting = plan_for(manifest, pod("a", index=1, told_to_go=1))
    over = plan_for(manifest)

    assert waiting.status is not None
    assert "failed" not in waiting.status
    assert "Complete" not in conditions_of(waiting)
    assert conditions_of(over)["Complete"] == ("True", "SuccessPolicy", "Matched rules at index 0")


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_a_job_that_is_over_is_left_alone(kind: str) -> None:
    manifest = job({"conditions": [condition(kind, "Whatever")]}, parallelism=3, completions=9)

    plan = plan_for(manifest, pod("a"), pod("b", "Failed"))

    assert (plan.create, plan.delete, plan.status) == ((), (), None)


def test_more_successes_than_asked_for_are_told() -> None:
    plan = plan_for(job({"succeeded": 1}, completions=1), pod("a", "Succeeded"), pod("b", "Succeeded"))

    assert [notice.reason for notice in plan.notices] == ["TooManySucceededPods", "Completed"]


def test_a_job_never_ends_before_it_began() -> None:
    plan = plan_for(job({"startTime": ago(-3600)}), pod("a", "Succeeded"))

    assert plan.status is not None
    assert plan.status["completionTime"] == plan.status["startTime"]


def test_a_job_that_is_being_deleted_gets_no_new_pods_and_is_still_counted() -> None:
    manifest = job(parallelism=2, completions=2)
    manifest["metadata"]["deletionTimestamp"] = ago(1)

    plan = plan_for(manifest, pod("a", "Succeeded"))

    assert plan.create == ()
    assert plan.status is not None
    assert plan.status["succeeded"] == 1
