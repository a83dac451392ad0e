"""batch/v1 Job as a kind of the queue."""

import copy
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.batch_job import BatchJob
from fairway.integrations.framework import Reclaims, StopProgress, StopStep
from fairway.integrations.injection import InjectionConflict, PodSetInfo
from fairway.integrations.topology import topology_request
from fairway.store.patching.merge import merge_patch

from .stored import stored_job

JOBS = BatchJob()
PARTIAL = {"kueue.x-k8s.io/job-min-parallelism": "2"}
EQUAL = {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}
STOPPING = {"kueue.x-k8s.io/stopping": "true"}
GENERATED = {
    "batch.kubernetes.io/job-name": "train",
    "job-name": "train",
    "batch.kubernetes.io/controller-uid": "job-uid",
    "controller-uid": "job-uid",
}


@pytest.mark.parametrize(
    ("job", "count", "fewest"),
    [
        pytest.param(stored_job(), 1, None, id="one by default"),
        pytest.param(stored_job(parallelism=3), 3, None, id="as many as run at once"),
        pytest.param(stored_job(parallelism=5, completions=2), 2, None, id="no more than are to complete"),
        pytest.param(stored_job(parallelism=0), 0, None, id="none"),
        pytest.param(stored_job(annotations=PARTIAL, parallelism=5), 5, 2, id="fewer if need be"),
        pytest.param(stored_job(annotations={"kueue.x-k8s.io/job-min-parallelism": "x"}), 1, None, id="nonsense"),
    ],
)
def test_pod_sets(job: Manifest, count: int, fewest: int | None) -> None:
    [made] = JOBS.pod_sets(job)

    assert (made["name"], made["count"], made.get("minCount")) == ("main", count, fewest)


def test_a_pod_set_has_the_template_without_what_kubernetes_adds_for_itself() -> None:
    job = stored_job(template={"metadata": {"labels": {"mine": "yes"}}})
    before = copy.deepcopy(job)
    [made] = JOBS.pod_sets(job)

    assert made["template"]["metadata"]["labels"] == {"mine": "yes", "batch.kubernetes.io/job-name": "train"}
    assert made["template"]["spec"] == job["spec"]["template"]["spec"]
    assert "topologyRequest" not in made
    assert job == before


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({"kueue.x-k8s.io/podset-required-topology": "rack"}, {"required": "rack"}, id="required"),
        pytest.param({"kueue.x-k8s.io/podset-preferred-topology": "rack"}, {"preferred": "rack"}, id="preferred"),
        pytest.param({"kueue.x-k8s.io/podset-unconstrained-topology": "1"}, {"unconstrained": True}, id="anywhere"),
        pytest.param(
            {"kueue.x-k8s.io/podset-slice-required-topology": "host", "kueue.x-k8s.io/podset-slice-size": "2"},
            {"podSetSliceRequiredTopology": "host", "podSetSliceSize": 2},
            id="slices",
        ),
        pytest.param(
            {"kueue.x-k8s.io/podset-required-topology": "rack", "kueue.x-k8s.io/podset-group-name": "g"},
            {"required": "rack", "podSetGroupName": "g"},
            id="together with others",
        ),
    ],
)
def test_nearness_that_is_asked_for(annotations: dict[str, str], want: dict[str, Any]) -> None:
    [made] = JOBS.pod_sets(stored_job(template={"metadata": {"annotations": annotations}}))

    assert made["topologyRequest"] == {"podIndexLabel": "batch.kubernetes.io/job-completion-index", **want}


INFO = PodSetInfo(
    name="main",
    count=3,
    labels={"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/cluster-queue-name": "team"},
    annotations={"kueue.x-k8s.io/workload": "job-train-1"},
    node_selector={"kind": "spot"},
    tolerations=[{"key": "spot", "operator": "Exists"}],
)
ADDED = {
    "metadata": {"labels": INFO.labels, "annotations": INFO.annotations},
    "spec": {"nodeSelector": INFO.node_selector, "tolerations": INFO.tolerations},
}


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(stored_job(suspend=True), {"suspend": False, "template": ADDED}, id="what admission adds"),
        pytest.param(
            stored_job(suspend=True, parallelism=5, annotations=PARTIAL),
            {"suspend": False, "template": ADDED, "parallelism": 3},
            id="fewer pods",
        ),
        pytest.param(
            stored_job(
                suspend=True, parallelism=5, completions=5, completionMode="Indexed", annotations=PARTIAL | EQUAL
            ),
            {"suspend": False, "template": ADDED, "parallelism": 3, "completions": 3},
            id="fewer pods and completions",
        ),
    ],
)
def test_start(job: Manifest, want: Manifest) -> None:
    before = copy.deepcopy(job)

    assert JOBS.start(job, [INFO]) == {"spec": want}
    assert job == before


def test_a_start_that_can_never_be() -> None:
    with pytest.raises(InjectionConflict, match="invalid podset infos: expecting 1 podset, got 0"):
        JOBS.start(stored_job(suspend=True), [])
    with pytest.raises(InjectionConflict, match="conflict for key=kind, value1=other, value2=spot"):
        JOBS.start(stored_job(suspend=True, template={"spec": {"nodeSelector": {"kind": "other"}}}), [INFO])


def _started(**options: Any) -> tuple[Manifest, list[Manifest]]:
    """A job that runs, and the pod sets of its workload."""
    job = stored_job(suspend=True, **options)
    pod_sets = copy.deepcopy(JOBS.pod_sets(job))
    return merge_patch(job, JOBS.start(job, [INFO])), pod_sets


def _with_status(job: Manifest, **status: Any) -> Manifest:
    return {**job, "status": status}


@pytest.mark.parametrize("options", [
    pytest.param({}, id="a plain job"),
    pytest.param({"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"c": "d"}}}},
                 id="with labels and a selector of its own"),
    pytest.param({"parallelism": 5, "annotations": PARTIAL}, id="admitted with fewer pods"),
    pytest.param({"parallelism": 5, "completions": 5, "completionMode": "Indexed", "annotations": PARTIAL | EQUAL},
                 id="and fewer completions"),
])  # fmt: skip
def test_stop_and_back_again(options: dict[str, Any]) -> None:
    original = stored_job(suspend=True, **options)
    job, pod_sets = _started(**options)
    job = _with_status(job, active=1, startTime="2026-01-01T00:00:00Z")

    told = JOBS.stop(job, pod_sets)
    assert told == StopStep(patch={"spec": {"suspend": True}, "metadata": {"annotations": STOPPING}}, stops=True)
    job = merge_patch(job, told.patch)
    assert not JOBS.is_suspended(job)
    assert JOBS.stop(job, pod_sets) is StopProgress.STOPPING

    job["status"]["active"] = 0
    reset = JOBS.stop(job, pod_sets)
    assert reset == StopStep(patch={"status": {"startTime": None}}, subresource="status")
    job = merge_patch(job, reset.patch)
    last = JOBS.stop(job, pod_sets)
    assert isinstance(last, StopStep)
    job = merge_patch(job, last.patch)

    assert JOBS.stop(job, pod_sets) is StopProgress.STOPPED
    assert JOBS.is_suspended(job)
    assert {**job["spec"], "template": None} == {**original["spec"], "template": None}
    assert job["spec"]["template"]["spec"] == original["spec"]["template"]["spec"]
    before, after = original["spec"]["template"]["metadata"], job["spec"]["template"]["metadata"]
    assert (after["labels"], after.get("annotations") or None) == (before["labels"], before.get("annotations"))


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(stored_job(suspend=True), StopProgress.STOPPED, id="suspended already"),
        pytest.param(stored_job(suspend=False), StopStep(patch={"spec": {"suspend": True}}, stops=True),
                     id="nothing to restore"),
        pytest.param(stored_job(suspend=True, annotations=STOPPING),
                     StopStep(patch={"metadata": {"annotations": {"kueue.x-k8s.io/stopping": None}}}),
                     id="only the mark is left"),
        pytest.param(stored_job(suspend=True, status={"startTime": "t", "active": 1}), StopProgress.STOPPING,
                     id="suspended by a user while pods run"),
        pytest.param(stored_job(suspend=True, status={"startTime": "t"}),
                     StopStep(patch={"status": {"startTime": None}}, subresource="status"),
                     id="only the start is left"),
    ],
)  # fmt: skip
def test_stopping_from_where_it_was_left(job: Manifest, want: StopStep | StopProgress) -> None:
    assert JOBS.stop(job, JOBS.pod_sets(stored_job())) == want


def test_without_a_workload_only_what_names_queues_goes() -> None:
    job, _ = _started()
    job = merge_patch(job, {"spec": {"suspend": True}})
    step = JOBS.stop(job, None)
    assert isinstance(step, StopStep)
    template = merge_patch(job, step.patch)["spec"]["template"]

    assert template["metadata"]["labels"] == GENERATED
    assert not template["metadata"].get("annotations")
    assert template["spec"]["nodeSelector"] == {"kind": "spot"}


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([], None, id="not yet"),
        pytest.param([{"type": "SuccessCriteriaMet", "status": "True"}], None, id="not quite"),
        pytest.param([{"type": "Complete", "status": "False"}], None, id="not true"),
        pytest.param([{"type": "Complete", "status": "True", "message": "done"}], (True, "done"), id="well"),
        pytest.param([{"type": "Failed", "status": "True"}], (False, ""), id="badly"),
    ],
)
def test_finished(conditions: list[Manifest], want: tuple[bool, str] | None) -> None:
    assert JOBS.finished(stored_job(status={"conditions": conditions})) == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, False, id="none"),
        pytest.param({"ready": 2}, False, id="some"),
        pytest.param({"ready": 2, "succeeded": 1}, True, id="ready and succeeded"),
        pytest.param({"ready": 1, "uncountedTerminatedPods": {"succeeded": ["a", "b"]}}, True, id="not yet counted"),
    ],
)
def test_pods_ready(status: Manifest, want: bool) -> None:  # noqa: FBT001 - a table
    assert JOBS.pods_ready(stored_job(parallelism=3, status=status)) is want


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({"parallelism": 1, "completions": 1}, {"succeeded": 1}, 0, id="one pod gives nothing back"),
        pytest.param({"parallelism": 3}, {}, 0, id="none over"),
        pytest.param({"parallelism": 3}, {"succeeded": 1}, 1, id="completions as many as pods"),
        pytest.param({"parallelism": 2, "completions": 5}, {"succeeded": 3}, 0, id="work left for all"),
        pytest.param({"parallelism": 2, "completions": 5}, {"succeeded": 4}, 1, id="work left for some"),
        pytest.param({"parallelism": 2, "completions": 5}, {"succeeded": 7}, 2, id="no work left"),
        pytest.param(
            {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
            {"succeeded": 1, "completedIndexes": "0,2-3", "failedIndexes": "1-2"}, 4, id="indexes, each once",
        ),
        pytest.param(
            {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
            {"completedIndexes": "3-9,x,2-1"}, 1, id="indexes that are none do not count",
        ),
    ],
)  # fmt: skip
def test_reclaimable(spec: dict[str, Any], status: Manifest, want: int) -> None:
    assert isinstance(JOBS, Reclaims)
    assert JOBS.reclaimable_pods(stored_job(status=status, **spec)) == ({"main": want} if want else {})


def test_slices_within_slices_are_read_from_their_annotation() -> None:
    key = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
    text = '[{"topology": "cloud/block", "size": 8}, {"topology": "cloud/rack", "size": 4}]'
    request = topology_request({"metadata": {"annotations": {key: text}}})
    layers = [{"topology": "cloud/block", "size": 8}, {"topology": "cloud/rack", "size": 4}]
    assert request == {"podsetSliceRequiredTopologyConstraints": layers}
    assert topology_request({"metadata": {"annotations": {key: "not that"}}}) is None
