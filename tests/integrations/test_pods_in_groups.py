"""Groups of pods: who counts, who is too many, who has been replaced, and when a group is over."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import pod_groups
from fairway.integrations.pod_groups import Stock, Uncomposable
from fairway.integrations.pods import JobOutcome
from fairway.integrations.priorities import Priority

_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_GATE = {"name": "kueue.x-k8s.io/admission"}
_TOTAL = "kueue.x-k8s.io/pod-group-total-count"


def ago(seconds: float) -> str:
    return (_NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    name: str,
    phase: str = "Running",
    *,
    role: str = "worker",
    total: str | None = "2",
    created: float = 100,
    gated: bool = False,
    node: str = "node",
    deleted: float | None = None,
    failed: float | None = None,
    ready: bool = False,
    held: bool = True,
    queue: str = "q",
    labels: dict[str, str] | None = None,
    **annotations: str,
) -> Manifest:
    """A pod of the group `g`; times are in seconds before now."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": ago(created),
        "labels": {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/queue-name": queue, **(labels or {})},
        "annotations": {
            "kueue.x-k8s.io/role-hash": role,
            **{f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()},
        },
    }
    if total is not None:
        metadata["annotations"][_TOTAL] = total
    if held:
        metadata["finalizers"] = ["kueue.x-k8s.io/managed"]
    if deleted is not None:
        metadata |= {"deletionTimestamp": ago(deleted), "deletionGracePeriodSeconds": 30}
    conditions = []
    if failed is not None:
        phase = "Failed"
        conditions.append(
            {"type": "ContainersReady", "status": "False", "reason": "Failed", "lastTransitionTime": ago(failed)}
        )
    if ready:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": ago(1)})
    spec: dict[str, Any] = {"containers": [{"name": "c"}]}
    if gated:
        spec["schedulingGates"] = [_GATE]
        phase = "Pending"
    elif node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "conditions": conditions},
    }


def _names(stock: Stock) -> tuple[list[str], list[str], list[str], int]:
    kept, excess, replaced = (
        [one["metadata"]["name"] for one in part] for part in (stock.kept, stock.excess, stock.replaced)
    )
    return kept, excess, replaced, stock.absent


@pytest.mark.parametrize(
    ("members", "evicted", "want"),
    [
        pytest.param([pod("a"), pod("b")], False, (["a", "b"], [], [], 0), id="a full group is kept"),
        pytest.param([pod("a")], False, (["a"], [], [], 1), id="a missing pod is absent"),
        pytest.param(
            [pod("a", created=3), pod("b", created=1), pod("c", created=2)],
            False,
            (["a", "c"], ["b"], [], 0),
            id="of too many the youngest goes",
        ),
        pytest.param(
            [pod("a", created=9, gated=True), pod("b", created=1), pod("c", created=2)],
            False,
            (["c", "b"], ["a"], [], 0),
            id="one that waits goes before those that run",
        ),
        pytest.param(
            [pod("a", created=9, held=False), pod("b", created=1), pod("c", created=2)],
            False,
            (["c", "b"], ["a"], [], 0),
            id="one without a finalizer goes first",
        ),
        pytest.param([pod("a"), pod("b", failed=5)], False, (["a", "b"], [], [], 1), id="a failed pod is waited for"),
        pytest.param(
            [pod("a"), pod("b", failed=5), pod("c", gated=True)],
            False,
            (["a", "c"], [], ["b"], 0),
            id="a failed pod is replaced",
        ),
        pytest.param(
            [pod("a"), pod("b", failed=5), pod("c", failed=9)],
            False,
            (["a", "b"], [], ["c"], 1),
            id="of those that failed the last one stays",
        ),
        pytest.param(
            [pod("a"), pod("b", gated=True, deleted=0)],
            False,
            (["a", "b"], [], [], 1),
            id="a pod deleted before it had a node is absent",
        ),
        pytest.param(
            [pod("a"), pod("b", deleted=-30)], False, (["a", "b"], [], [], 0), id="a pod that ends still counts"
        ),
        pytest.param(
            [pod("a", deleted=-30), pod("b", deleted=-30), pod("c", gated=True)],
            True,
            (["c", "a"], [], ["b"], 1),
            id="after an eviction those that end count as gone",
        ),
        pytest.param(
            [pod("a", "Succeeded", deleted=0), pod("b", gated=True)],
            True,
            (["a", "b"], [], [], 0),
            id="after an eviction one that succeeded counts",
        ),
        pytest.param([pod("a", role="other")], False, ([], [], [], 2), id="a pod of another role is nobody's"),
        pytest.param(
            [pod("a", gated=True, pod_group_fast_admission="true")],
            False,
            (["a"], [], [], 0),
            id="a group that is admitted fast misses none while one is there",
        ),
    ],
)
def test_stock(members: list[Manifest], want: tuple[list[str], list[str], list[str], int], *, evicted: bool) -> None:
    found = pod_groups.stock(members, [{"name": "worker", "count": 2}], evicted=evicted, now=_NOW)
    assert _names(found) == want


@pytest.mark.parametrize(
    ("members", "want"),
    [
        pytest.param([pod("a", "Succeeded"), pod("b")], None, id="not while one runs"),
        pytest.param(
            [pod("a", "Succeeded"), pod("b", "Succeeded")],
            JobOutcome(succeeded=True, message="Pods succeeded: 2/2."),
            id="when all succeeded",
        ),
        pytest.param(
            [pod("a", "Succeeded"), pod("b", "Succeeded"), pod("c", failed=1)],
            JobOutcome(succeeded=True, message="Pods succeeded: 2/2."),
            id="when enough succeeded",
        ),
        pytest.param([pod("a", "Succeeded"), pod("b", failed=1)], None, id="not when one may be replaced"),
        pytest.param(
            [pod("a", "Succeeded"), pod("b", failed=1, retriable_in_group="false")],
            JobOutcome(succeeded=True, message="Pods succeeded: 1/2."),
            id="when one may not be replaced and none runs",
        ),
        pytest.param(
            [pod("a"), pod("b", failed=1, retriable_in_group="false")],
            None,
            id="not while one runs though another may not be replaced",
        ),
        pytest.param(
            [pod("a", "Succeeded", total="1", pod_group_serving="true")], None, id="never when the group serves"
        ),
    ],
)
def test_when_a_group_is_over(members: list[Manifest], want: JobOutcome | None) -> None:
    assert pod_groups.outcome(members) == want


@pytest.mark.parametrize(
    ("members", "want"),
    [
        pytest.param([pod("a"), pod("b")], float("inf"), id="as long as they run"),
        pytest.param([pod("a", "Pending"), pod("b", failed=1)], None, id="not while none runs"),
        pytest.param([pod("a", deleted=-10)], 40.0, id="until twice their grace is over"),
        pytest.param([pod("a", deleted=31)], None, id="not once they should have ended long ago"),
        pytest.param([pod("a", deleted=-10), pod("b", deleted=-20)], 50.0, id="as long as the last of them"),
    ],
)
def test_how_long_quota_is_used(members: list[Manifest], want: float | None) -> None:
    assert pod_groups.uses_quota_for(members, _NOW) == want


def _workload(*conditions: tuple[str, str, str, str], **status: Any) -> Manifest:
    found = [
        {"type": kind, "status": value, "reason": reason, "message": message}
        for kind, value, reason, message in conditions
    ]
    return {
        "metadata": {"name": "g"},
        "spec": {"podSets": [{"name": "worker", "count": 2}]},
        "status": {"conditions": found, **status},
    }


_EVICTED = ("Evicted", "True", "Preempted", "make room")
_BACK = ("Evicted", "False", "QuotaReserved", "Previously: make room")
_FAILED = ("WaitingForReplacementPods", "True", "PodsFailed", "Some Failed pods need replacement")
_REPLACED = ("WaitingForReplacementPods", "False", "PodsReady", "No pods need replacement")


@pytest.mark.parametrize(
    ("workload", "absent", "want"),
    [
        pytest.param(_workload(), 0, None, id="nothing is said of a group that never missed a pod"),
        pytest.param(_workload(), 1, _FAILED[1:], id="a missing pod is said to have failed"),
        pytest.param(_workload(_FAILED), 1, None, id="and only once"),
        pytest.param(_workload(_EVICTED), 2, ("True", "Preempted", "make room"), id="unless the group was evicted"),
        pytest.param(
            _workload(_EVICTED, _FAILED), 2, ("True", "Preempted", "make room"), id="an eviction is the better reason"
        ),
        pytest.param(_workload(_BACK, _FAILED), 1, None, id="the reason stays after the group is admitted again"),
        pytest.param(_workload(_FAILED), 0, _REPLACED[1:], id="all pods are there again"),
        pytest.param(_workload(_REPLACED), 0, None, id="and that is said once"),
        pytest.param(_workload(_REPLACED), 1, _FAILED[1:], id="until the next one is missing"),
    ],
)
def test_what_is_said_of_missing_pods(workload: Manifest, absent: int, want: tuple[str, str, str] | None) -> None:
    assert pod_groups.waiting_condition(workload, absent) == want


@pytest.mark.parametrize(
    ("members", "before", "want"),
    [
        pytest.param(
            [pod("a"), pod("b", "Succeeded")], [], [{"name": "worker", "count": 1}], id="those that succeeded"
        ),
        pytest.param([pod("a")], [{"name": "worker", "count": 1}], [{"name": "worker", "count": 1}], id="never fewer"),
        pytest.param(
            [pod("a", "Succeeded"), pod("b", "Succeeded"), pod("c", "Succeeded")],
            [],
            [{"name": "worker", "count": 2}],
            id="never more than there are",
        ),
        pytest.param([pod("a", "Succeeded", pod_group_serving="true")], [], [], id="none of a group that serves"),
    ],
)
def test_whose_quota_is_free(members: list[Manifest], before: list[Manifest], want: list[Manifest]) -> None:
    assert pod_groups.reclaimable(members, _workload(reclaimablePods=before)) == want


@pytest.mark.parametrize(
    ("members", "want"),
    [
        pytest.param([pod("a")], "'g' group has fewer runnable pods than expected", id="too few"),
        pytest.param(
            [pod("a"), pod("b", failed=1)], "'g' group has fewer runnable pods than expected", id="too few that can run"
        ),
        pytest.param(
            [pod("a"), pod("b", queue="r")],
            "pods 'a' and 'b' has different queue names: q!=r",
            id="of different queues",
        ),
        pytest.param(
            [pod("a"), pod("b", total="3")],
            f"pods 'a' and 'b' has different '{_TOTAL}' values: 2!=3",
            id="of different sizes",
        ),
        pytest.param(
            [pod("a"), pod("b", total="x")],
            f"failed to extract '{_TOTAL}' annotation from the pod 'b': strconv.Atoi: parsing \"x\": invalid syntax",
            id="of a size that is no number",
        ),
        pytest.param(
            [pod("a", labels={"kueue.x-k8s.io/pod-group-pod-index": "2"}), pod("b")],
            'incorrect label value "2" for Pod "default/a": validation error: value should be less than 2',
            id="with a number beyond the size",
        ),
        pytest.param([pod("a", total=None)], f"failed to extract '{_TOTAL}' annotation", id="without a size"),
    ],
)
def test_pods_that_make_no_workload(members: list[Manifest], want: str) -> None:
    with pytest.raises(Uncomposable) as refused:
        pod_groups.chosen(members)
    assert str(refused.value) == want


def test_a_workload_has_a_pod_set_a_role_in_order() -> None:
    members = [pod("a", role="zz", total="3"), pod("b", role="aa", total="3"), pod("c", role="zz", total="3")]
    made = pod_groups.composed(members, Priority(0, None), [])
    assert [(one["name"], one["count"]) for one in made["spec"]["podSets"]] == [("aa", 1), ("zz", 2)]
    assert [one["name"] for one in made["metadata"]["ownerReferences"]] == ["a", "b", "c"]
    assert made["metadata"]["annotations"] == {"kueue.x-k8s.io/is-group-workload": "true"}


def test_a_group_has_at_most_eighteen_roles() -> None:
    members = [pod(f"p{number}", role=f"r{number}", total="19") for number in range(19)]
    assert len(pod_groups.pod_sets(members[:18])) == 18
    with pytest.raises(Uncomposable, match="pod group can't include more than 18 roles"):
        pod_groups.pod_sets(members)


def test_labels_that_pods_disagree_on_are_refused() -> None:
    members = [pod("a", labels={"team": "red"}), pod("b", labels={"team": "blue"})]
    with pytest.raises(Uncomposable, match="pods have different label values"):
        pod_groups.composed(members, Priority(0, None), ["team"])


def test_readiness_needs_every_pod() -> None:
    assert pod_groups.all_ready([pod("a", ready=True), pod("b", ready=True)])
    assert not pod_groups.all_ready([pod("a", ready=True), pod("b")])
    assert not pod_groups.all_ready([pod("a", ready=True)])
