"""How many pods a job has: which are made, which are deleted, and how long a failure is waited out."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob.decide import NewPod
from fairway.controllers.batchjob.ledgers import NOTHING_YET, Ledger, Streak

from .things import NOW, ago, indexed, indexes, job, lost, names, plan_for, pod


def test_a_pod_that_somebody_told_to_go_is_replaced_while_it_ends() -> None:
    plan = plan_for(job(podReplacementPolicy="TerminatingOrFailed"), pod("a", told_to_go=11), ledger=NOTHING_YET)

    assert plan.create == (NewPod(),)


@pytest.mark.parametrize(
    ("manifest", "pods", "want_new"),
    [
        pytest.param(job(), [], 1, id="a plain job gets one pod"),
        pytest.param(job(parallelism=3, completions=5), [], 3, id="no more pods than parallelism"),
        pytest.param(job(parallelism=5, completions=2), [], 2, id="no more pods than completions"),
        pytest.param(job(parallelism=4), [], 4, id="without completions as many as parallelism"),
        pytest.param(job(parallelism=0, completions=3), [], 0, id="parallelism 0 pauses a job"),
        pytest.param(job(parallelism=2, completions=2), [pod("a")], 1, id="what is missing is made"),
        pytest.param(
            job({"succeeded": 1}, parallelism=2, completions=2), [], 1, id="what succeeded before is not made again"
        ),
        pytest.param(
            job(parallelism=2, completions=2),
            [pod("a", "Succeeded")],
            1,
            id="what succeeded just now is not made again",
        ),
        pytest.param(job(parallelism=2), [pod("a", "Succeeded"), pod("b")], 0, id="one success is enough for a queue"),
        pytest.param(job(suspend=True), [], 0, id="a suspended job gets none"),
        pytest.param(job(), [pod("a", "Pending", node="")], 0, id="a pod that waits for a node is a pod"),
        pytest.param(job(parallelism=1000, completions=1000), [], 500, id="at most 500 at once"),
        pytest.param(
            job({"failed": 1}), [pod("a", "Failed", ended=11)], 1, id="after the back-off a failed pod is replaced"
        ),
        pytest.param(
            job({"failed": 1}), [pod("a", "Failed", ended=9)], 0, id="during the back-off a failed pod is not replaced"
        ),
        pytest.param(
            job({"failed": 3}),
            [pod("a", "Failed", ended=200), pod("b", "Failed", ended=100), pod("c", "Failed", ended=39)],
            0,
            id="the third failure waits 40 s",
        ),
        pytest.param(
            job({"failed": 3}),
            [pod("a", "Failed", ended=200), pod("b", "Failed", ended=100), pod("c", "Failed", ended=41)],
            1,
            id="the third failure waits no longer than 40 s",
        ),
        pytest.param(
            job({"failed": 2, "succeeded": 1}, parallelism=1, completions=3),
            [pod("a", "Failed", ended=30), pod("b", "Succeeded", ended=20), pod("c", "Failed", ended=12)],
            1,
            id="a success starts the back-off anew",
        ),
        pytest.param(
            job({"failed": 1}),
            [pod("a", "Failed", ended=1, conditions=[lost()])],
            1,
            id="what was lost is not waited for",
        ),
        pytest.param(
            job(podReplacementPolicy="TerminatingOrFailed"),
            [pod("a", told_to_go=11)],
            0,
            id="after a restart, none in the place of one that the job itself may have told to go",
        ),
        pytest.param(
            job(podReplacementPolicy="Failed"),
            [pod("a", told_to_go=11)],
            0,
            id="or only when it has ended, if so wished",
        ),
        pytest.param(
            job(podReplacementPolicy="Failed", parallelism=3, completions=3),
            [pod("a", told_to_go=11), pod("b")],
            1,
            id="others are made beside one that ends",
        ),
    ],
)
def test_pods_that_are_made(manifest: Manifest, pods: list[Manifest], want_new: int) -> None:
    plan = plan_for(manifest, *pods)

    assert plan.create == (NewPod(),) * want_new
    assert plan.delete == ()


@pytest.mark.parametrize(
    ("manifest", "pods", "want_indexes"),
    [
        pytest.param(indexed(), [], [0, 1, 2], id="every index gets a pod"),
        pytest.param(indexed(completions=5, parallelism=2), [], [0, 1], id="the lowest indexes first"),
        pytest.param(indexed(), [pod("a", index=1)], [0, 2], id="not an index that somebody works on"),
        pytest.param(indexed({"completedIndexes": "0,2", "succeeded": 2}), [], [1], id="not one that succeeded"),
        pytest.param(indexed(), [pod("a", "Succeeded", index=0)], [1, 2], id="nor one that succeeded just now"),
        pytest.param(
            indexed({"failedIndexes": "1"}, backoffLimitPerIndex=0), [], [0, 2], id="not one that was given up"
        ),
        pytest.param(
            indexed({"failed": 1}), [pod("a", "Failed", index=1, ended=20)], [0, 1, 2], id="one that failed again"
        ),
        pytest.param(
            indexed(podReplacementPolicy="Failed"),
            [pod("a", index=1, told_to_go=20)],
            [0, 2],
            id="not one whose pod still ends, if so wished",
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=3),
            [pod("a", "Failed", index=1, ended=5, failures=0)],
            [0, 2],
            id="an index that waits holds up no other",
        ),
        pytest.param(
            indexed({"failed": 1}, backoffLimitPerIndex=3),
            [pod("a", "Failed", index=1, ended=11, failures=0)],
            [0, 1, 2],
            id="an index is tried again after its own back-off",
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=3),
            [pod("a", "Failed", index=1, ended=1, failures=0, conditions=[lost()])],
            [0, 1, 2],
            id="an index whose pod was lost at once",
        ),
    ],
)
def test_indexes_that_get_a_pod(manifest: Manifest, pods: list[Manifest], want_indexes: list[int]) -> None:
    assert indexes(plan_for(manifest, *pods).create) == want_indexes


@pytest.mark.parametrize(
    ("last", "want"),
    [
        pytest.param(None, NewPod(1, 0), id="a first try has no failures"),
        pytest.param(pod("a", "Failed", index=1, ended=700, failures=0), NewPod(1, 1), id="a failure is counted on"),
        pytest.param(pod("a", "Failed", index=1, ended=700, failures=2), NewPod(1, 3), id="and on"),
        pytest.param(
            pod("a", "Failed", index=1, ended=700, failures=2, conditions=[lost()]),
            NewPod(1, 2, 1),
            id="a lost pod is counted beside",
        ),
        pytest.param(
            pod("a", "Failed", index=1, ended=700, failures=2, ignored=4, exit_code=42),
            NewPod(1, 2, 5),
            id="an ignored failure is counted beside",
        ),
    ],
)
def test_how_often_an_index_failed_is_handed_on(last: Manifest | None, want: NewPod) -> None:
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]
    manifest = indexed(
        {"completedIndexes": "0,2", "succeeded": 2}, backoffLimitPerIndex=9, podFailurePolicy={"rules": rules}
    )

    assert plan_for(manifest, *([last] if last else [])).create == (want,)


def test_a_departed_failure_of_an_index_is_counted_on() -> None:
    gone = pod("a", "Failed", index=1, ended=700, failures=2)
    manifest = indexed({"completedIndexes": "0,2", "succeeded": 2, "failed": 1}, backoffLimitPerIndex=9)

    ledger = Ledger(counted=frozenset({"a"})).without(gone)

    assert plan_for(manifest, ledger=ledger).create == (NewPod(1, 3),)


YOUNG = 10.0


@pytest.mark.parametrize(
    ("manifest", "pods", "want_deleted"),
    [
        pytest.param(job(suspend=True), [pod("a"), pod("b", "Succeeded")], ["a"], id="all active ones on suspension"),
        pytest.param(job(parallelism=1), [pod("a"), pod("b", node="")], ["b"], id="without a node before with one"),
        pytest.param(job(parallelism=1), [pod("a"), pod("b", "Pending")], ["b"], id="pending before running"),
        pytest.param(job(parallelism=1), [pod("a", ready=True), pod("b")], ["b"], id="not ready before ready"),
        pytest.param(job(parallelism=1), [pod("a", restarts=3), pod("b")], ["a"], id="more restarts before fewer"),
        pytest.param(job(parallelism=1), [pod("a"), pod("b", created=YOUNG)], ["b"], id="younger before older"),
        pytest.param(job(parallelism=0), [pod("a")], ["a"], id="all when parallelism is 0"),
        pytest.param(
            job({"succeeded": 2}, parallelism=2, completions=2), [pod("a")], ["a"], id="all when enough have succeeded"
        ),
        pytest.param(
            indexed(), [pod("a", index=0), pod("b", index=0, created=YOUNG)], ["b"], id="a second of an index"
        ),
        pytest.param(indexed(), [pod("a", index=0), pod("b", index=3)], ["b"], id="an index that does not exist"),
        pytest.param(indexed(), [pod("a", index=0), pod("b")], ["b"], id="one without an index"),
        pytest.param(
            indexed(parallelism=1),
            [pod("a", index=0), pod("b", index=1, created=YOUNG)],
            ["b"],
            id="indexes beyond parallelism",
        ),
        pytest.param(job(parallelism=1), [pod("a"), pod("b", told_to_go=5)], [], id="none that was told already"),
    ],
)
def test_pods_that_are_deleted(manifest: Manifest, pods: list[Manifest], want_deleted: list[str]) -> None:
    plan = plan_for(manifest, *pods)

    assert names(plan.delete) == want_deleted
    assert plan.excuses == bool(want_deleted)
    assert plan.create == ()


@pytest.mark.parametrize(
    ("failures", "want_seconds"),
    [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (8, 600), (5000, 600)],
)
def test_the_backoff_doubles_from_ten_seconds_to_ten_minutes(failures: int, want_seconds: float) -> None:
    plan = plan_for(job({"startTime": ago(9)}, backoffLimit=9999), ledger=Ledger(streak=Streak(failures, NOW)))

    assert plan.again_seconds == want_seconds


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"activeDeadlineSeconds": 60}, 50, id="at the deadline"),
        pytest.param({"activeDeadlineSeconds": 60, "suspend": True}, None, id="never while it is suspended"),
        pytest.param({}, None, id="never, if there is nothing to wait for"),
    ],
)
def test_when_to_look_again(spec: dict[str, Any], want: float | None) -> None:
    running = [] if spec.get("suspend") else [pod("a")]

    assert plan_for(job({"startTime": ago(10)}, **spec), *running).again_seconds == want
