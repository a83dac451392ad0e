"""Every pod that ended is counted once: while the controller runs, and after a restart."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob.ledgers import NOTHING_YET, Ledger, opened
from fairway.controllers.batchjob.observe import JobSpec

from .things import (
    NOW,
    RESUMED,
    SUSPENDED,
    Play,
    ago,
    condition,
    indexed,
    job,
    ledger_of,
    lost,
    plan_for,
    pod,
)

BUSY: dict[str, Any] = {"parallelism": 1, "completions": 9}


def said(manifest: Manifest, *pods: Manifest, ledger: Ledger | None = None) -> dict[str, Any]:
    """The status of a job that has a pod at work beside these."""
    plan = plan_for(manifest, pod("z", index=8, ready=True), *pods, ledger=ledger)
    assert plan.is_last
    return plan.status if plan.status is not None else manifest["status"]


@pytest.mark.parametrize(
    ("manifest", "pods", "want"),
    [
        pytest.param(job(**BUSY), [], {"active": 1, "ready": 1, "terminating": 0}, id="who runs and who is ready"),
        pytest.param(job(**BUSY), [], {"startTime": ago(60), "uncountedTerminatedPods": {}}, id="since its first pod"),
        pytest.param(job({"startTime": ago(99)}, **BUSY), [], {"startTime": ago(99)}, id="a start stays"),
        pytest.param(job(**BUSY), [pod("a", "Succeeded")], {"succeeded": 1}, id="a success"),
        pytest.param(job({"succeeded": 1}, **BUSY), [pod("a", "Succeeded")], {"succeeded": 1}, id="counted before"),
        pytest.param(job({"succeeded": 4}, **BUSY), [pod("a", "Succeeded")], {"succeeded": 4}, id="others are gone"),
        pytest.param(
            job({"succeeded": 1}, **BUSY),
            [pod("a", "Succeeded", ended=3), pod("b", "Succeeded", ended=2)],
            {"succeeded": 2},
            id="one counted before, one not",
        ),
        pytest.param(job(**BUSY), [pod("a", "Failed")], {"failed": 1}, id="a failure"),
        pytest.param(job({"failed": 1}, **BUSY), [pod("a", "Failed")], {"failed": 1}, id="a failure counted before"),
        pytest.param(job(**BUSY), [pod("a", "Failed", conditions=[lost()])], {"failed": 1}, id="a lost pod"),
        pytest.param(
            job(
                **BUSY,
                podFailurePolicy={"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]},
            ),
            [pod("a", "Failed")],
            {"failed": None},
            id="an ignored failure is not in the status",
        ),
        pytest.param(job(**BUSY), [pod("a", told_to_go=5)], {"terminating": 1, "failed": None}, id="told to go before"),
        pytest.param(
            indexed({"completedIndexes": "0,1"}, **BUSY),
            [pod("a", "Succeeded", index=1), pod("b", "Succeeded", index=2), pod("c", "Succeeded", index=5)],
            {"completedIndexes": "0-2,5", "succeeded": 4},
            id="indexes name themselves",
        ),
        pytest.param(
            indexed(**BUSY),
            [pod("a", "Succeeded", index=9), pod("b", "Failed")],
            {"succeeded": None},
            id="no such index",
        ),
        pytest.param(
            indexed({"failedIndexes": "1"}, **BUSY, backoffLimitPerIndex=1),
            [pod("a", "Failed", index=3, failures=1), pod("b", "Failed", index=4, failures=0)],
            {"failedIndexes": "1,3", "failed": 2},
            id="indexes that are given up",
        ),
        pytest.param(
            indexed({"failedIndexes": "1"}, **BUSY, backoffLimitPerIndex=1),
            [pod("a", "Succeeded", index=1)],
            {"failedIndexes": "1", "completedIndexes": None},
            id="an index that was given up stays so",
        ),
    ],
)
def test_the_status_says(manifest: Manifest, pods: list[Manifest], want: dict[str, Any]) -> None:
    status = said(manifest, *pods)

    assert {field: status.get(field) for field in want} == want


@pytest.mark.parametrize(
    ("stored", "gone", "want"),
    [
        pytest.param({}, pod("a", "Succeeded"), {"succeeded": 1}, id="a success that is gone counts"),
        pytest.param({}, pod("a"), {"failed": 1}, id="a pod that vanished has failed"),
        pytest.param({}, pod("a", told_to_go=1), {"failed": 1}, id="a pod that was told to go and went has failed"),
        pytest.param({"failed": 1}, pod("a", "Failed"), {"failed": 2}, id="a failure beyond what was counted"),
    ],
)
def test_a_pod_that_is_gone_before_it_was_counted(stored: dict[str, Any], gone: Manifest, want: dict[str, int]) -> None:
    plan = plan_for(job(stored, **BUSY), pod("z"), ledger=Ledger().without(gone))

    assert plan.status is not None
    assert {field: plan.status.get(field) for field in want} == want
    assert plan.urgent


def test_a_pod_that_is_gone_after_it_was_counted_is_not_run_again() -> None:
    play = Play(job(parallelism=1, completions=2))
    play.sync()
    play.start("p1")
    play.end("p1", well=True)
    play.sync()
    play.delete("p1")
    play.sync()

    assert (play.job["status"]["succeeded"], play.made, play.active()) == (1, 2, ["p2"])


def test_a_restart_counts_nothing_twice() -> None:
    play = Play(job(parallelism=1, completions=3))
    for _ in range(2):
        play.sync()
        play.end(play.active()[0], well=True)
        play.forget()
    play.sync()
    play.forget()
    play.sync()

    assert (play.job["status"]["succeeded"], play.made) == (2, 3)


def test_a_status_that_could_not_be_written_counts_nothing() -> None:
    pods = [pod("a", "Succeeded"), pod("b")]
    manifest = job(parallelism=1, completions=3)
    ledger = ledger_of(manifest, pods)

    first, second = plan_for(manifest, *pods, ledger=ledger), plan_for(manifest, *pods, ledger=ledger)

    assert first == second
    assert first.status is not None
    assert first.status["succeeded"] == 1


def stopped(manifest: Manifest) -> Manifest:
    """A pod that ended well because it was told to."""
    return {**manifest, "status": {**manifest["status"], "reason": facts.STOPPED}}


@pytest.mark.parametrize(
    ("manifest", "want_excused"),
    [
        pytest.param(job(suspend=True), {"stopped", "obedient"}, id="of a suspended job"),
        pytest.param(job({"conditions": [RESUMED]}), {"stopped", "obedient"}, id="of a job that was resumed meanwhile"),
        pytest.param(job({"conditions": [condition("FailureTarget", "X")]}), set(), id="but not of one that failed"),
    ],
)
def test_after_a_restart_pods_that_were_told_to_go_are_excused(manifest: Manifest, want_excused: set[str]) -> None:
    pods = [
        pod("stopped", told_to_go=5),
        stopped(pod("obedient", "Succeeded", ended=4, told_to_go=5)),
        pod("done in that moment", "Succeeded", ended=4, told_to_go=5),
        pod("done", "Succeeded", ended=6, told_to_go=5),
        pod("running"),
    ]

    assert ledger_of(manifest, pods).excused == want_excused


def test_after_a_restart_what_was_lost_is_still_forgiven() -> None:
    manifest = job({"failed": 3}, backoffLimit=1)
    pods = [
        pod("a", "Failed", conditions=[lost()]),
        pod("b", "Failed", conditions=[lost()]),
        pod("c", "Failed", ended=99),
    ]

    assert ledger_of(manifest, pods).forgiven == 2
    assert plan_for(manifest, *pods, pod("d")).delete == ()


def test_what_was_lost_stays_forgiven_when_its_pod_is_gone() -> None:
    play = Play(job(backoffLimit=0))
    for _ in range(3):
        play.sync()
        lost_one = play.active()[0]
        play.lose(lost_one)
        play.sync()
        play.delete(lost_one)
    play.sync()

    assert play.job["status"]["failed"] == 3
    assert play.active() == ["p4"]


def test_after_a_restart_the_backoff_goes_on() -> None:
    pods = [pod("a", "Failed", ended=20), pod("b", "Failed", ended=5)]

    assert plan_for(job({"failed": 2, "startTime": ago(90)}), *pods).again_seconds == 15


@pytest.mark.parametrize(
    ("manifest", "pods", "want"),
    [
        pytest.param(job(), [pod("a")], False, id="how far it has come can wait"),
        pytest.param(job(suspend=True), [], False, id="that a new job is suspended can wait"),
        pytest.param(job({"conditions": [SUSPENDED]}), [pod("a")], False, id="that it is resumed can wait"),
        pytest.param(job({"active": 1}, suspend=True), [], True, id="that a running job stands still can not"),
        pytest.param(job(), [pod("a", "Succeeded")], True, id="that it is over can not"),
    ],
)
def test_what_can_wait(manifest: Manifest, pods: list[Manifest], want: bool) -> None:  # noqa: FBT001 - a column
    plan = plan_for(manifest, *pods, now=NOW)

    assert plan.status is not None
    assert plan.urgent is want


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(job(), id="new"),
        pytest.param(job({"succeeded": 2, "failed": 1}, completions=3), id="pods were counted and are gone"),
        pytest.param(indexed({"completedIndexes": "0,2", "failed": 3}), id="indexes were counted"),
        pytest.param(job({"failed": 1}, podFailurePolicy={"rules": [{"action": "Ignore"}]}), id="with rules"),
    ],
)
def test_there_is_nothing_in_the_ledger_of_a_job_without_pods(manifest: Manifest) -> None:
    for failing in (False, True):
        assert opened(JobSpec.of(manifest), manifest.get("status") or {}, [], failing=failing) == NOTHING_YET
