"""RayCluster and RayJob as kinds of the queue."""

import copy
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.framework import CanBeOnHold, CanBeSkipped, Framework, StopProgress, StopStep
from fairway.integrations.injection import InjectionConflict
from fairway.integrations.ray_cluster import RayCluster
from fairway.integrations.ray_job import RayJob
from fairway.store.patching.merge import merge_patch

from .ray_objects import FLAVOR_LABELS, TOLERATIONS, cluster_spec, group, infos, ray_cluster, ray_job, template

CLUSTERS, JOBS = RayCluster(), RayJob()
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
SUBMITTER = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}


def _sizes(framework: Framework, manifest: Manifest) -> dict[str, int]:
    return {one["name"]: one["count"] for one in framework.pod_sets(manifest)}


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(ray_cluster(), {"head": 1}, id="a head alone"),
        pytest.param(ray_cluster(group(replicas=3)), {"head": 1, "workers": 3}, id="replicas"),
        pytest.param(ray_cluster(group()), {"head": 1, "workers": 1}, id="one replica if none is said"),
        pytest.param(ray_cluster(group(replicas=0)), {"head": 1, "workers": 0}, id="no replica"),
        pytest.param(
            ray_cluster(group(replicas=3, numOfHosts=4)), {"head": 1, "workers": 12}, id="several hosts a replica"
        ),
        pytest.param(ray_cluster(group(numOfHosts=0, replicas=2)), {"head": 1, "workers": 2}, id="one host at least"),
        pytest.param(
            ray_cluster(group(replicas=1, minReplicas=2, maxReplicas=5)),
            {"head": 1, "workers": 1},
            id="the least and the most replicas do not count",
        ),
        pytest.param(
            ray_cluster(group("GPU", replicas=1), group("cpu", replicas=2)),
            {"head": 1, "gpu": 1, "cpu": 2},
            id="names in lower case, in the order of the groups",
        ),
    ],
)
def test_the_pod_sets_of_a_cluster(manifest: Manifest, want: dict[str, int]) -> None:
    assert _sizes(CLUSTERS, manifest) == want


@pytest.mark.parametrize(
    ("mode", "want", "containers"),
    [
        pytest.param("K8sJobMode", {"head": 1, "workers": 2, "submitter": 1}, ["ray"], id="a Job submits"),
        pytest.param("HTTPMode", {"head": 1, "workers": 2}, ["ray"], id="the operator submits"),
        pytest.param("InteractiveMode", {"head": 1, "workers": 2}, ["ray"], id="the user submits"),
        pytest.param("SidecarMode", {"head": 1, "workers": 2}, ["ray", "ray-job-submitter"], id="a sidecar submits"),
    ],
)
def test_the_submitter_of_a_job_by_submission_mode(mode: str, want: dict[str, int], containers: list[str]) -> None:
    job = ray_job(group(replicas=2), submissionMode=mode)
    before = copy.deepcopy(job)

    made = JOBS.pod_sets(job)

    assert {one["name"]: one["count"] for one in made} == want
    assert [one["name"] for one in made[0]["template"]["spec"]["containers"]] == containers
    assert job == before


def test_a_submitter_without_a_template_has_the_image_of_the_head_and_the_resources_of_kuberay() -> None:
    made = JOBS.pod_sets(ray_job())[-1]["template"]["spec"]

    assert made["restartPolicy"] == "Never"
    assert made["containers"] == [
        {"name": "ray-job-submitter", "image": "rayproject/ray:2.52.0", "resources": SUBMITTER}
    ]


def test_a_submitter_has_the_template_that_is_given() -> None:
    given = template("3", labels={"mine": "yes"})

    assert JOBS.pod_sets(ray_job(submitterPodTemplate=given))[-1]["template"] == given


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(
            ray_cluster(enableInTreeAutoscaling=True, annotations=ELASTIC),
            [{"cpu": "1"}, {"cpu": "500m", "memory": "512Mi"}],
            id="an autoscaler as KubeRay makes it",
        ),
        pytest.param(
            ray_cluster(
                enableInTreeAutoscaling=True, autoscalerOptions={"resources": {"requests": {"cpu": "2"}}}
            ),
            [{"cpu": "1"}, {"cpu": "2"}],
            id="an autoscaler of the size that is given",
        ),
        pytest.param(ray_cluster(enableInTreeAutoscaling=False), [{"cpu": "1"}], id="no autoscaler"),
        pytest.param(
            ray_cluster(head=template("100m"), gcsFaultToleranceOptions={"redisAddress": "redis:6379"}),
            [{"cpu": "200m", "memory": "256Mi"}],
            id="a head at least as large as the clean-up of Redis",
        ),
        pytest.param(
            ray_cluster(head=template("4"), annotations={"ray.io/ft-enabled": "True"}),
            [{"cpu": "4", "memory": "256Mi"}],
            id="a larger head stays, by annotation",
        ),
        pytest.param(
            ray_cluster(annotations={"ray.io/ft-enabled": "false"}), [{"cpu": "1"}], id="fault tolerance switched off"
        ),
    ],
)  # fmt: skip
def test_what_kuberay_adds_to_the_head_counts(manifest: Manifest, want: list[Any]) -> None:
    before = copy.deepcopy(manifest)
    containers = CLUSTERS.pod_sets(manifest)[0]["template"]["spec"]["containers"]

    assert [one["resources"]["requests"] for one in containers] == want
    assert manifest == before


def test_nearness_that_is_asked_for() -> None:
    near = template(annotations={"kueue.x-k8s.io/podset-required-topology": "rack"})
    job = ray_job(group(pod=near), submitterPodTemplate=near)

    requests = [one.get("topologyRequest") for one in JOBS.pod_sets(job)]
    assert requests == [None, {"required": "rack"}, {"required": "rack"}]


STORIES = [
    pytest.param(CLUSTERS, ray_cluster(suspend=True), ("head",), id="a cluster with a head"),
    pytest.param(
        CLUSTERS,
        ray_cluster(group("a", replicas=2), group("b", pod=template(labels={"mine": "yes"})), suspend=True),
        ("head", "a", "b"),
        id="a cluster with two groups, one with labels of its own",
    ),
    pytest.param(JOBS, ray_job(group(), suspend=True), ("head", "workers", "submitter"), id="a job"),
    pytest.param(
        JOBS,
        ray_job(group(), suspend=True, submitterPodTemplate=template(annotations={"mine": "yes"})),
        ("head", "workers", "submitter"),
        id="a job with a submitter of its own",
    ),
    pytest.param(
        JOBS, ray_job(group(), suspend=True, submissionMode="HTTPMode"), ("head", "workers"), id="without a submitter"
    ),
]


@pytest.mark.parametrize(("framework", "manifest", "names"), STORIES)
def test_a_start_adds_the_flavors_to_every_group(framework: Framework, manifest: Manifest, names: list[str]) -> None:
    before = copy.deepcopy(manifest)
    started = merge_patch(manifest, framework.start(manifest, infos(*names)))

    assert manifest == before
    assert not framework.is_suspended(started)
    for pod_set, name in zip(framework.pod_sets(started), names, strict=True):
        template_now = pod_set["template"]
        assert template_now["spec"]["nodeSelector"] == FLAVOR_LABELS
        assert template_now["spec"]["tolerations"] == TOLERATIONS
        assert template_now["metadata"]["labels"]["kueue.x-k8s.io/podset"] == name
        assert template_now["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "rayjob-train-1"


@pytest.mark.parametrize(("framework", "manifest", "names"), STORIES)
def test_a_stop_is_one_write_and_restores_every_group(
    framework: Framework, manifest: Manifest, names: list[str]
) -> None:
    pod_sets = copy.deepcopy(framework.pod_sets(manifest))
    started = merge_patch(manifest, framework.start(manifest, infos(*names)))

    step = framework.stop(started, pod_sets)

    assert isinstance(step, StopStep)
    assert step.stops
    stopped = merge_patch(started, step.patch)
    assert framework.is_suspended(stopped)
    assert [_plain(one) for one in framework.pod_sets(stopped)] == [_plain(one) for one in pod_sets]
    assert framework.stop(stopped, pod_sets) is StopProgress.STOPPED


@pytest.mark.parametrize(("framework", "manifest", "names"), STORIES)
def test_without_a_workload_only_the_names_of_queues_are_taken_away(
    framework: Framework, manifest: Manifest, names: list[str]
) -> None:
    started = merge_patch(manifest, framework.start(manifest, infos(*names)))

    step = framework.stop(started, None)

    assert isinstance(step, StopStep)
    stopped = merge_patch(started, step.patch)
    for one in framework.pod_sets(stopped):
        metadata = one["template"]["metadata"]
        assert not any(key.startswith("kueue.x-k8s.io/") for key in (metadata.get("labels") or {}))
        assert "kueue.x-k8s.io/workload" not in (metadata.get("annotations") or {})
        assert one["template"]["spec"]["nodeSelector"] == FLAVOR_LABELS
    assert framework.stop(stopped, None) is StopProgress.STOPPED


@pytest.mark.parametrize(("framework", "manifest", "names"), STORIES)
def test_groups_that_are_others_than_those_that_were_admitted_stay_as_they_are(
    framework: Framework, manifest: Manifest, names: list[str]
) -> None:
    started = merge_patch(manifest, framework.start(manifest, infos(*names)))
    others = [{"name": "other", "template": template(), "count": 1}] * (len(names) + 1)

    step = framework.stop(started, others)

    assert isinstance(step, StopStep)
    assert step.patch == {"spec": {"suspend": True}}


def test_a_start_that_can_never_be() -> None:
    with pytest.raises(InjectionConflict, match="invalid podset infos: expecting 3 podset, got 2"):
        JOBS.start(ray_job(group(), suspend=True), infos("head", "workers"))
    with pytest.raises(InjectionConflict, match="invalid podset infos: expecting 1 podset, got 2"):
        CLUSTERS.start(ray_cluster(suspend=True), infos("head", "workers"))
    pinned = template()
    pinned["spec"]["nodeSelector"] = {"instance": "on-demand"}
    with pytest.raises(InjectionConflict, match="conflict for key=instance, value1=on-demand, value2=spot"):
        CLUSTERS.start(ray_cluster(group(pod=pinned)), infos("head", "workers"))


def _plain(pod_set: Manifest) -> Manifest:
    """A pod set without empty parts of its template."""
    made = copy.deepcopy(pod_set)
    metadata = {key: value for key, value in (made["template"].pop("metadata", None) or {}).items() if value}
    return {**made, "metadata": metadata}


@pytest.mark.parametrize(
    ("status", "active", "on_hold", "finished"),
    [
        pytest.param({}, False, False, None, id="new"),
        pytest.param({"jobDeploymentStatus": "Initializing"}, True, False, None, id="its cluster starts"),
        pytest.param({"jobDeploymentStatus": "Waiting"}, True, False, None, id="waits for the user's job"),
        pytest.param({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, True, False, None, id="runs"),
        pytest.param({"jobDeploymentStatus": "Running", "jobStatus": "SUCCEEDED"}, True, False, None, id="follows"),
        pytest.param({"jobDeploymentStatus": "Suspending"}, True, False, None, id="stops"),
        pytest.param({"jobDeploymentStatus": "Suspended"}, False, False, None, id="has stopped"),
        pytest.param({"jobDeploymentStatus": "Retrying"}, True, False, None, id="tries again"),
        pytest.param({"jobDeploymentStatus": "ValidationFailed"}, True, True, None, id="refused by KubeRay"),
        pytest.param(
            {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "Job finished successfully."},
            True, False, (True, "Job finished successfully."), id="succeeded",
        ),
        pytest.param(
            {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, True, False, (False, ""), id="stopped by hand"
        ),
        pytest.param(
            {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "exit 1"},
            True, False, (False, "exit 1"), id="failed",
        ),
        pytest.param({"jobDeploymentStatus": "Failed", "message": "late"}, True, False, (False, "late"), id="late"),
    ],
)  # fmt: skip
def test_the_state_of_a_job(
    status: Manifest,
    *,
    active: bool,
    on_hold: bool,
    finished: tuple[bool, str] | None,
) -> None:
    job = ray_job(status=status)

    assert (JOBS.is_active(job), JOBS.is_on_hold(job), JOBS.finished(job)) == (active, on_hold, finished)
    assert isinstance(JOBS, CanBeOnHold)


@pytest.mark.parametrize(
    ("state", "ready"),
    [
        pytest.param("ready", True, id="all pods run"),
        pytest.param("suspended", False, id="suspended"),
        pytest.param("", False, id="some pods start"),
        pytest.param(None, False, id="new"),
    ],
)
def test_pods_are_ready_when_the_cluster_says_so(state: str | None, *, ready: bool) -> None:
    status = {} if state is None else {"state": state}

    assert CLUSTERS.pods_ready(ray_cluster(status=status)) is ready
    assert CLUSTERS.is_active(ray_cluster(status=status)) is ready
    assert CLUSTERS.finished(ray_cluster(status=status)) is None
    assert JOBS.pods_ready(ray_job(status={"rayClusterStatus": status})) is ready


@pytest.mark.parametrize(
    ("fields", "skipped"),
    [
        pytest.param({}, False, id="with a cluster of its own"),
        pytest.param({"clusterSelector": {"ray.io/cluster": "c"}, "rayClusterSpec": None}, True, id="on another's"),
        pytest.param({"rayClusterSpec": None}, True, id="without any"),
    ],
)
def test_a_job_without_a_cluster_of_its_own_is_left_alone(fields: dict[str, Any], *, skipped: bool) -> None:
    assert JOBS.is_skipped(ray_job(**fields)) is skipped
    assert isinstance(JOBS, CanBeSkipped)
    assert not isinstance(CLUSTERS, CanBeSkipped)


TWO_LARGE = (
    "can only define groups where at least one pod set has only 1 replica, got:"
    " 2 replica(s) and 3 replica(s) in the group"
)
MANY = [group(f"g{number}") for number in range(18)]
GROUPED = {"kueue.x-k8s.io/podset-required-topology": "rack", "kueue.x-k8s.io/podset-group-name": "g"}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, [], id="right"),
        pytest.param({"groups": MANY[:17]}, [], id="as many groups as a Workload takes"),
        pytest.param({"groups": MANY}, [("workerGroupSpecs", "must have at most 18 items")], id="too many groups"),
        pytest.param(
            {"groups": [group(), group("head")]},
            [("workerGroupSpecs[1].groupName", '"head" is reserved for the head group')],
            id="a group with the head's name",
        ),
        pytest.param(
            {"groups": [group(pod=template(annotations={"kueue.x-k8s.io/podset-unconstrained-topology": "x"}))]},
            [
                (
                    "workerGroupSpecs[0].template.metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]",
                    "must be a boolean value",
                )
            ],
            id="an annotation about topology",
        ),
        pytest.param(
            {"groups": [group(replicas=2, pod=template(annotations=GROUPED))], "head": template(annotations=GROUPED)},
            [],
            id="head and workers near each other",
        ),
        pytest.param(
            {"groups": [group(replicas=2, pod=template(annotations=GROUPED))]},
            [
                (
                    "workerGroupSpecs[0].template.metadata.annotations[kueue.x-k8s.io/podset-group-name]",
                    "can only define groups of exactly 2 pod sets, got: 1 pod set(s)",
                )
            ],
            id="one alone near each other",
        ),
        pytest.param(
            {
                "groups": [
                    group("a", replicas=2, pod=template(annotations=GROUPED)),
                    group("b", replicas=3, pod=template(annotations=GROUPED)),
                ]
            },
            [
                (
                    f"workerGroupSpecs[{position}].template.metadata.annotations[kueue.x-k8s.io/podset-group-name]",
                    TWO_LARGE,
                )
                for position in (0, 1)
            ],
            id="two large ones near each other",
        ),
    ],
)
def test_what_a_queue_refuses_of_clusters_and_of_those_of_jobs(
    fields: dict[str, Any], want: list[tuple[str, str]]
) -> None:
    groups, head = fields.get("groups", ()), fields.get("head")

    wrong = CLUSTERS.wrong_on_create(ray_cluster(*groups, head=head))
    assert [(one.path, one.message) for one in wrong] == [(f"spec.{path}", message) for path, message in want]
    wrong = JOBS.wrong_on_create(ray_job(*groups, head=head))
    assert [(one.path, one.message) for one in wrong] == [
        (f"spec.rayClusterSpec.{path}", message) for path, message in want
    ]


def test_a_group_near_each_other_must_agree_how_near() -> None:
    other = {**GROUPED, "kueue.x-k8s.io/podset-required-topology": "block"}
    wrong = CLUSTERS.wrong_on_create(
        ray_cluster(group(pod=template(annotations=other)), head=template(annotations=GROUPED))
    )

    assert len(wrong) == 2
    assert all("topology consistent with" in one.message for one in wrong)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"shutdownAfterJobFinishes": False},
            [("spec.shutdownAfterJobFinishes", "a kueue managed job should delete the cluster after finishing")],
            id="a cluster that stays",
        ),
        pytest.param(
            {"clusterSelector": {"ray.io/cluster": "c"}},
            [("spec.clusterSelector", "a kueue managed job should not use an existing cluster")],
            id="two clusters",
        ),
        pytest.param(
            {"clusterSelector": {"ray.io/cluster": "c"}, "rayClusterSpec": None, "shutdownAfterJobFinishes": False},
            [],
            id="an existing cluster is not the queue's",
        ),
        pytest.param(
            {"rayClusterSpec": None},
            [
                (
                    "spec.rayClusterSpec",
                    "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector",
                )
            ],
            id="no cluster",
        ),
        pytest.param(
            {"rayClusterSpec": cluster_spec(enableInTreeAutoscaling=True)},
            [
                (
                    "spec.rayClusterSpec.enableInTreeAutoscaling",
                    "a kueue managed job should only use autoscaling when workload slicing is enabled",
                )
            ],
            id="autoscaling",
        ),
    ],
)
def test_what_a_queue_refuses_of_jobs(fields: dict[str, Any], want: list[tuple[str, str]]) -> None:
    job = ray_job(**fields)

    assert [(one.path, one.message) for one in JOBS.wrong_on_create(job)] == want
    assert [(one.path, one.message) for one in JOBS.wrong_on_update(ray_job(), job)] == want


def test_a_cluster_with_autoscaling_has_to_be_an_elastic_job() -> None:
    [wrong] = CLUSTERS.wrong_on_create(ray_cluster(enableInTreeAutoscaling=True))

    assert wrong.path == "spec.enableInTreeAutoscaling"
    assert wrong.message.startswith("a kueue-managed RayCluster can use autoscaling only as an elastic job")
    assert not CLUSTERS.wrong_on_create(ray_cluster(enableInTreeAutoscaling=True, annotations=ELASTIC))
