"""What the plugins of Kueue, of Fairway and of Kubernetes' own scheduler write."""

import json
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.frameworks import FRAMEWORKS
from fairway.schedulers.kinds import KINDS, kind_of
from schedulers import samples
from schedulers.test_yunikorn import configured, pods_of, scheduled

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
INTEGRATED = [kind.kind for kind in KINDS if kind.integration and not kind.deferred]


def with_kueue(*manifests: Manifest, scheduler: str = "kueue", **fields: Any) -> list[str]:
    known = {"jobs": [{"type": "ray"}, {"type": "kubeflow"}, {"type": "dask"}], "priority-class": "high", **fields}
    return scheduled(*manifests, config=configured(scheduler=scheduler, **known))


@pytest.mark.parametrize("kind", INTEGRATED)
def test_a_kind_that_kueue_knows_is_labelled_itself_and_its_pods_are_not(kind: str) -> None:
    job = samples.ALL[kind]()
    untouched = json.dumps(job["spec"])
    with_kueue(job)
    row = kind_of(job)
    assert row is not None
    expected = next((one for one in row.types if one in {"ray", "kubeflow"}), "default")
    assert job["metadata"]["labels"] == {QUEUE: expected, CLASS: "high"}
    assert json.dumps(job["spec"]) == untouched


def test_dask_has_no_integration_so_its_pods_are_a_group() -> None:
    """The runner is created when the cluster runs: a group that waits for it would never start."""
    job = samples.dask_job()
    warnings = with_kueue(job)
    pods = pods_of(job)
    for name in ("scheduler", "worker"):
        assert pods[name]["labels"] == {QUEUE: "dask", CLASS: "high", GROUP: "dask-0001"}
        assert pods[name]["annotations"] == {TOTAL: "4"}
    assert pods["runner"] == {"labels": {QUEUE: "dask", CLASS: "high"}, "annotations": {}, "scheduler": ""}
    assert "labels" not in job["metadata"], "they would be copied to the Deployments"
    assert "runner" in warnings[0]


def test_pods_of_a_group_get_its_total_count() -> None:
    pods = [samples.pod("a", "1", "g"), samples.pod("b", "2", "g"), samples.pod("c", "2", "g")]
    with_kueue(*pods)
    for pod in pods:
        assert pod["metadata"]["labels"] == {GROUP: "g", QUEUE: "default", CLASS: "high"}
        assert pod["metadata"]["annotations"] == {TOTAL: "3"}


def test_a_single_pod_is_no_group() -> None:
    pod = samples.pod("a")
    with_kueue(pod)
    assert pod["metadata"]["labels"] == {QUEUE: "default", CLASS: "high"}
    assert "annotations" not in pod["metadata"]


def test_without_gang_scheduling_pods_are_queued_one_by_one() -> None:
    job = samples.dask_cluster()
    with_kueue(job, gangscheduling=False)
    assert pods_of(job)["worker"] == {"labels": {QUEUE: "dask", CLASS: "high"}, "annotations": {}, "scheduler": ""}


@pytest.mark.parametrize("scheduler", ["kueue", "fairway"])
def test_a_managed_job_names_its_queue_and_its_class(scheduler: str) -> None:
    job = samples.managed_job()
    with_kueue(job, scheduler=scheduler)
    assert (job["spec"]["queue"], job["spec"]["priorityClass"]) == ("default", "high")
    assert job["metadata"]["labels"] == {QUEUE: "default"}
    assert "podConfig" not in job["spec"]


def test_what_the_author_says_stays() -> None:
    job = samples.managed_job()
    job["spec"] |= {"queue": "mine", "priority": 5}
    with_kueue(job)
    assert job["spec"]["queue"] == "mine"
    assert "priorityClass" not in job["spec"]
    other = samples.job()
    other["metadata"]["labels"] = {QUEUE: "mine"}
    with_kueue(other)
    assert other["metadata"]["labels"][QUEUE] == "mine"


def test_the_configured_queue_is_before_the_job_type() -> None:
    job = samples.job()
    with_kueue(job, queue="batch-queue")
    assert job["metadata"]["labels"][QUEUE] == "batch-queue"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (samples.ray_job(shutdownAfterJobFinishes=False), "shutdownAfterJobFinishes"),
        (samples.ray_job(rayClusterSpec={**samples.RAY_CLUSTER, "enableInTreeAutoscaling": True}), "autoscaling"),
    ],
)
def test_what_kueue_refuses_is_a_warning(job: Manifest, words: str) -> None:
    assert words in with_kueue(job)[0]


def test_fairway_groups_the_pods_of_kinds_that_it_does_not_queue_itself() -> None:
    known = {framework.kind for framework in FRAMEWORKS}
    for kind in set(INTEGRATED) - {"SparkApplication"}:
        job = samples.ALL[kind]()
        with_kueue(job, scheduler="fairway")
        if kind in known:
            assert QUEUE in job["metadata"]["labels"]
            continue
        found = {pod["labels"].get(GROUP) for pod in pods_of(job).values()}
        assert len(found - {None}) == 1, kind


def test_executors_are_created_by_the_driver_so_fairway_queues_them_one_by_one() -> None:
    job = samples.spark()
    warnings = with_kueue(job, scheduler="fairway")
    assert "spark-executor" in warnings[0]
    assert job["spec"]["driver"]["labels"] == {QUEUE: "default", CLASS: "high"}
    assert GROUP not in job["spec"]["executor"]["labels"]


def test_a_launcher_that_waits_for_the_workers_is_not_in_their_group() -> None:
    job = samples.mpi_job(launcherCreationPolicy="WaitForWorkersReady")
    with_kueue(job, scheduler="fairway")
    assert pods_of(job)["worker"]["annotations"] == {TOTAL: "4"}
    assert GROUP not in pods_of(job)["launcher"]["labels"]


@pytest.mark.parametrize("kind", samples.ALL)
def test_the_default_scheduler_changes_nothing(kind: str) -> None:
    job = samples.ALL[kind]()
    before = json.dumps(job)
    assert with_kueue(job, scheduler="default") == []
    assert json.dumps(job) == before
