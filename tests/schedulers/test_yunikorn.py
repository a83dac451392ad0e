"""What the YuniKorn plugin writes, and where."""

import json
import re
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.walk import inspect
from fairway.apis.registry import default_registry
from fairway.entrypoints import OWN, scheduler_plugin
from fairway.errors import ValidationError
from fairway.schedulers import scheduling
from fairway.schedulers.config import QueueConfig, read_queue_config
from fairway.schedulers.kinds import KINDS, kind_of
from fairway.schedulers.plugin import SchedulingError
from fairway.schedulers.scheduling import Author
from schedulers import gangs, samples

Y = "yunikorn.apache.org/"
GUIDE = {
    "scheduler": "yunikorn",
    "jobs": [
        {
            "type": "ray",
            "gangscheduling": "placeholderTimeoutInSeconds=60 gangSchedulingStyle=hard",
            "allow-preemption": False,
        },
        {
            "type": "spark",
            "gangscheduling": "placeholderTimeoutInSeconds=30 gangSchedulingStyle=hard",
            "allow-preemption": True,
        },
    ],
}
USER1 = Author(user="user1", namespace_labels={"fairway.dev/organization": "organization1"})


def configured(**fields: Any) -> QueueConfig:
    return read_queue_config({"scheduler": "yunikorn", **fields}, OWN)


def scheduled(
    *manifests: Manifest, config: QueueConfig | None = None, author: Author = USER1, unique: str = "0001"
) -> list[str]:
    known = config or read_queue_config(GUIDE, OWN)
    return scheduling.schedule_all(manifests, known, scheduler_plugin, author, lambda: unique)


def pods_of(manifest: Manifest) -> dict[str, Manifest]:
    """The metadata that the pods of each role get, with their schedulerName; as the operators pass it on."""
    kind = kind_of(manifest)
    assert kind is not None
    found = {}
    for role in kind.roles(manifest):
        found[role.name] = {
            "labels": dict(role.read("labels")),
            "annotations": dict(role.read("annotations")),
            "scheduler": role.scheduler_name,
        }
    return found


def groups_of(manifest: Manifest) -> list[tuple[str, int, str, str]]:
    """Name, members, cpu and memory of the task groups; the same ones on every pod."""
    texts = {pod["annotations"][f"{Y}task-groups"] for pod in pods_of(manifest).values()}
    assert len(texts) == 1
    return [
        (one["name"], one["minMember"], one["minResource"]["cpu"], one["minResource"]["memory"])
        for one in json.loads(texts.pop())
    ]


def test_the_ray_job_of_user1_is_in_the_queue_of_its_organization_and_type() -> None:
    """Guide 004: `root.organization1.ray` is the queue of the ray job submitted by user1 belonging organization1."""
    job = samples.ray_job()
    assert scheduled(job) == []
    for name, pod in pods_of(job).items():
        assert pod["labels"] == {f"{Y}app-id": "ray-0001", f"{Y}queue": "root.organization1.ray"}, name
        assert pod["scheduler"] == "yunikorn"
        assert json.loads(pod["annotations"][f"{Y}user.info"]) == {"user": "user1", "groups": ["organization1"]}
        assert pod["annotations"][f"{Y}allow-preemption"] == "false"
        assert (
            pod["annotations"][f"{Y}schedulingPolicyParameters"]
            == "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"
        )
        assert pod["annotations"][f"{Y}task-group-name"] == name
    assert job["metadata"]["labels"] == {
        f"{Y}app-id": "ray-0001",
        f"{Y}queue": "root.organization1.ray",
        "ray.io/gang-scheduling-enabled": "true",
    }
    passed_on = job["metadata"]["annotations"][f"{Y}task-groups"]
    assert passed_on == job["spec"]["submitterPodTemplate"]["metadata"]["annotations"][f"{Y}task-groups"]


def test_the_spark_job_may_be_preempted_and_has_its_own_parameters() -> None:
    job = samples.spark()
    scheduled(job)
    driver = job["spec"]["driver"]
    assert driver["schedulerName"] == "yunikorn"
    assert driver["labels"][f"{Y}queue"] == "root.organization1.spark"
    assert driver["annotations"][f"{Y}allow-preemption"] == "true"
    assert driver["annotations"][f"{Y}schedulingPolicyParameters"] == (
        "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard"
    )


def test_a_kind_that_is_not_configured_is_in_the_default_queue() -> None:
    job = samples.pytorch()
    scheduled(job)
    assert pods_of(job)["worker"]["labels"][f"{Y}queue"] == "root.organization1.default"


GROUPS = {
    "Job": [("main", 3, "2", "4Gi")],
    # A worker waits for the head in an init container, which is smaller than it here.
    "RayCluster": [("headgroup", 1, "1", "2Gi"), ("gpus", 4, "8", "16Gi")],
    "RayJob": [("headgroup", 1, "1", "2Gi"), ("gpus", 4, "8", "16Gi"), ("submittergroup", 1, "500m", "200Mi")],
    # 512m + 384Mi and the sidecar; 2g + 40 %, 256m for Python, 128m off the heap.
    "SparkApplication": [("spark-driver", 1, "1100m", "960Mi"), ("spark-executor", 2, "1500m", "3251Mi")],
    "PyTorchJob": [("master", 1, "2", "4Gi"), ("worker", 3, "4", "8Gi")],
    "TFJob": [("ps", 1, "2", "4Gi"), ("worker", 2, "4", "4Gi")],
    "MPIJob": [("launcher", 1, "1", "4Gi"), ("worker", 4, "4", "4Gi")],
    "DaskCluster": [("scheduler", 1, "1", "1Gi"), ("worker", 3, "2", "4Gi")],
    "DaskJob": [("scheduler", 1, "1", "1Gi"), ("worker", 3, "2", "4Gi"), ("runner", 1, "500m", "512Mi")],
    "JobSet": [("driver", 1, "1", "4Gi"), ("workers", 4, "4", "4Gi")],
    "Pod": [("main", 1, "1", "4Gi")],
}


@pytest.mark.parametrize("kind", GROUPS)
def test_a_task_group_a_role_as_large_as_its_pods(kind: str) -> None:
    job = samples.ALL[kind]()
    scheduled(job)
    assert groups_of(job) == GROUPS[kind]


def ray_with(**fields: Any) -> Manifest:
    job = samples.ray_job()
    job["spec"]["rayClusterSpec"].update(fields)
    return job


def worker_group(**fields: Any) -> Manifest:
    job = samples.ray_job()
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0].update(fields)
    return job


def with_pod(**spec: Any) -> Manifest:
    job = samples.job()
    job["spec"]["template"]["spec"].update(spec)
    return job


def with_conf(role: dict[str, Any] | None = None, **conf: str) -> Manifest:
    """A SparkApplication whose executor says little itself."""
    job = samples.spark()
    job["spec"]["executor"] = role or {}
    job["spec"]["sparkConf"] = {f"spark.{key.replace('_', '.')}": value for key, value in conf.items()}
    return job


def mpi_job_of_training_operator() -> Manifest:
    job = samples.mpi_job()
    job["apiVersion"] = "kubeflow.org/v1"
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"] = samples.template("50m", "64Mi")
    return job


SIDECAR = {**samples.container("proxy", "250m", "128Mi"), "restartPolicy": "Always"}
SIZES: dict[str, tuple[Manifest, str, tuple[int, str, str]]] = {
    "the autoscaler runs beside the head": (
        ray_with(enableInTreeAutoscaling=True), "headgroup", (1, "1500m", "2560Mi")
    ),
    "an autoscaler of another size": (
        ray_with(
            enableInTreeAutoscaling=True,
            autoscalerOptions={"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
        ),
        "headgroup",
        (1, "2", "3Gi"),
    ),
    "in sidecar mode the submitter runs beside the head": (
        samples.ray_job(submissionMode="SidecarMode"), "headgroup", (1, "1500m", "2248Mi")
    ),
    "a small worker is as large as the container that waits for the head": (
        worker_group(template=samples.template("100m", "100Mi")), "gpus", (4, "200m", "256Mi")
    ),
    "workers are as many as the smallest number allows": (
        worker_group(replicas=0, minReplicas=3), "gpus", (6, "8", "16Gi")
    ),
    "and as the largest": (worker_group(replicas=9), "gpus", (8, "8", "16Gi")),
    "a submitter of the user": (
        samples.ray_job(submitterPodTemplate=samples.template("3", "1Gi")), "submittergroup", (1, "3", "1Gi")
    ),
    "overhead counts": (with_pod(overhead={"cpu": "250m", "memory": "120Mi"}), "main", (3, "2250m", "4216Mi")),
    "a large init container counts": (
        with_pod(initContainers=[samples.container("fetch", "4", "1Gi")]), "main", (3, "4", "4Gi")
    ),
    "sidecars count": (with_pod(initContainers=[SIDECAR]), "main", (3, "2250m", "4224Mi")),
    "a limit is a request where there is none": (
        with_pod(containers=[{"name": "a", "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}}]),
        "main",
        (3, "3", "1Gi"),
    ),
    "Spark's configuration counts where an executor says nothing": (
        with_conf(executor_instances="3", executor_memory="2g", executor_memoryOverhead="1g", executor_cores="2"),
        "spark-executor",
        (3, "2", "3Gi"),
    ),
    "and what it says itself is before it": (
        with_conf({"memory": "1g", "cores": 3}, executor_memory="9g", executor_memoryOverheadFactor="0.5"),
        "spark-executor",
        (2, "3", "1536Mi"),
    ),
    "executors that Spark allocates by its configuration": (
        with_conf(
            {"memory": "1g"},
            dynamicAllocation_enabled="true",
            dynamicAllocation_minExecutors="4",
            kubernetes_executor_request_cores="750m",
        ),
        "spark-executor",
        (4, "750m", "1433Mi"),
    ),
    "the launcher of the training operator's MPIJob first fetches kubectl": (
        mpi_job_of_training_operator(), "launcher", (1, "100m", "512Mi")
    ),
    "requests of the pod as a whole": (
        with_pod(resources={"requests": {"cpu": "6", "memory": "5Gi"}}), "main", (3, "6", "5Gi")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_no_placeholder_is_too_small(name: str) -> None:
    job, group, expected = SIZES[name]
    scheduled(job)
    assert {one: rest for one, *rest in groups_of(job)}[group] == list(expected)


def test_a_small_pytorch_worker_is_as_large_as_the_container_that_waits_for_the_master() -> None:
    job = samples.pytorch()
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = samples.template("10m", "8Mi")
    scheduled(job)
    assert groups_of(job)[1] == ("worker", 3, "50m", "10Mi")


@pytest.mark.parametrize(
    ("job", "names"),
    [
        (worker_group(replicas=0, minReplicas=0), ["headgroup", "submittergroup"]),
        (worker_group(suspend=True), ["headgroup", "submittergroup"]),
        (samples.ray_job(submissionMode="HTTPMode"), ["headgroup", "gpus"]),
        (
            samples.ray_job(
                rayClusterSpec=None,
                clusterSelector={"ray.io/cluster": "a"},
                submitterPodTemplate=samples.template(),
            ),
            ["submittergroup"],
        ),
    ],
)
def test_a_group_without_pods_is_left_out(job: Manifest, names: list[str]) -> None:
    scheduled(job)
    texts = {pod["annotations"].get(f"{Y}task-groups") for pod in pods_of(job).values()}
    assert [one["name"] for one in json.loads(texts.pop() or "")] == names
    for name, pod in pods_of(job).items():
        assert (f"{Y}task-group-name" in pod["annotations"]) == (name in names)


def test_pods_that_start_when_others_have_ended_reserve_nothing() -> None:
    job = samples.job_set()
    job["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Complete"}]
    scheduled(job)
    assert groups_of(job) == [("driver", 1, "1", "4Gi")]


def test_placeholders_go_where_the_pods_may_go() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    places: dict[str, Any] = {
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": spread,
    }
    job = with_pod(**places)
    job["spec"]["template"]["metadata"] = {"labels": {"app": "train"}}
    scheduled(job)
    group = json.loads(job["spec"]["template"]["metadata"]["annotations"][f"{Y}task-groups"])[0]
    assert {name: group.get(name) for name in places} == places
    assert group["labels"] == {"app": "train"}, "the place of a pod depends on the labels of the others"


def test_labels_of_pods_are_not_given_to_placeholders_without_need() -> None:
    job = samples.job()
    job["spec"]["template"]["metadata"] = {"labels": {"app": "train"}}
    scheduled(job)
    group = json.loads(job["spec"]["template"]["metadata"]["annotations"][f"{Y}task-groups"])[0]
    assert "labels" not in group, "a Service would select them"


def test_the_overhead_of_a_runtime_class_is_configured_or_warned_about() -> None:
    job = with_pod(runtimeClassName="kata")
    warnings = scheduled(job)
    assert "RuntimeClass kata" in warnings[0]
    job = with_pod(runtimeClassName="kata")
    known = configured(**{"runtime-classes": {"kata": {"cpu": "250m", "memory": "120Mi"}}})
    assert scheduled(job, config=known) == []
    assert groups_of(job) == [("main", 3, "2250m", "4216Mi")]


def test_pods_of_a_group_are_one_application_with_a_group_for_each_shape() -> None:
    pods = [samples.pod("a", "1", "g"), samples.pod("b", "2", "g"), samples.pod("c", "2", "g")]
    alone = samples.pod("d")
    scheduled(*pods, alone)
    applications = {pod["metadata"]["labels"][f"{Y}app-id"] for pod in pods}
    assert applications == {"pod-0001"}
    groups = json.loads(pods[0]["metadata"]["annotations"][f"{Y}task-groups"])
    assert [(one["minMember"], one["minResource"]["cpu"]) for one in groups] == [(1, "1"), (2, "2")]
    named = [pod["metadata"]["annotations"][f"{Y}task-group-name"] for pod in pods]
    assert named == [groups[0]["name"], groups[1]["name"], groups[1]["name"]]


def test_a_pod_of_a_group_that_comes_alone_is_no_gang_and_says_so() -> None:
    one = samples.pod("a", "1", "g")
    warnings = scheduled(one)
    assert "pod group g" in warnings[0]
    assert one["metadata"]["labels"][f"{Y}app-id"] == "pod-team-a-g", "the others have the same"
    assert f"{Y}task-groups" not in one["metadata"]["annotations"]


def test_gang_scheduling_can_be_turned_off() -> None:
    job = samples.job()
    scheduled(job, config=configured(gangscheduling=False))
    assert pods_of(job)["main"]["annotations"].keys() == {f"{Y}user.info"}


def test_a_team_is_a_level_between_its_organization_and_the_job_type() -> None:
    author = USER1._replace(namespace_labels={"fairway.dev/organization": "ml", "fairway.dev/team": "vision"})
    job = samples.job()
    scheduled(job, author=author)
    assert pods_of(job)["main"]["labels"][f"{Y}queue"] == "root.ml.vision.default"
    author = author._replace(namespace_labels={"fairway.dev/organization": "ml", "fairway.dev/team": "ml"})
    job = samples.job()
    scheduled(job, author=author)
    assert pods_of(job)["main"]["labels"][f"{Y}queue"] == "root.ml.default", "an organization that is one team"


@pytest.mark.parametrize(
    ("organization", "words"),
    [("a.b", "no dots"), ("o" * 60, "longer than 63")],
)
def test_a_name_that_yunikorn_cannot_use_is_refused(organization: str, words: str) -> None:
    author = USER1._replace(namespace_labels={"fairway.dev/organization": organization})
    with pytest.raises(SchedulingError, match=words):
        scheduled(samples.job(), author=author)


def test_nobody_submits_in_the_name_of_others() -> None:
    job = samples.job()
    job["spec"]["template"]["metadata"] = {"annotations": {f"{Y}user.info": '{"user":"boss","groups":[]}'}}
    with pytest.raises(SchedulingError, match="boss"):
        scheduled(job, author=USER1._replace(may_impersonate=False))
    assert scheduled(job) == [], "an administrator may"


def test_the_user_can_be_left_to_yunikorns_own_webhook() -> None:
    job = samples.job()
    scheduled(job, config=configured(jobs=[{"type": "batch", "user-info": False}]))
    assert f"{Y}user.info" not in pods_of(job)["main"]["annotations"]


MEMBER = USER1._replace(may_impersonate=False, groups=("web",))


def with_user(text: str) -> Manifest:
    job = samples.job()
    job["spec"]["template"]["metadata"] = {"annotations": {f"{Y}user.info": text}}
    return job


def user_of(job: Manifest) -> Any:
    (pods,) = pods_of(job).values()
    return json.loads(pods["annotations"].get(f"{Y}user.info", "null"))


def test_nobody_claims_groups_that_the_server_does_not_know_of() -> None:
    job = with_user('{"user":"user1","groups":["ml-leads"]}')
    scheduled(job, author=MEMBER)
    assert user_of(job) == {"user": "user1", "groups": ["organization1", "web"]}


@pytest.mark.parametrize("scheduler", ["kueue", None])
def test_the_user_is_checked_whatever_scheduler_is_configured(scheduler: str | None) -> None:
    job = with_user('{"user":"boss","groups":[]}')
    job["spec"]["template"]["spec"]["schedulerName"] = "yunikorn"
    with pytest.raises(SchedulingError, match="boss"):
        scheduled(job, config=configured(scheduler=scheduler), author=MEMBER)


@pytest.mark.parametrize("text", ['{"user":"boss","groups":[]}', '{"user":"user1","groups":["ml-leads"]}'])
def test_a_later_write_does_not_change_the_user(text: str) -> None:
    old, new = samples.job(), with_user(text)
    scheduled(old, author=MEMBER)
    scheduling.keep(old, new, may_impersonate=False)
    assert user_of(new) == {"user": "user1", "groups": ["organization1", "web"]}
    scheduling.keep(samples.job(), new := with_user(text), may_impersonate=False)
    assert user_of(new) is None


def test_a_job_of_another_scheduler_is_left_as_it_is() -> None:
    job = with_pod(schedulerName="volcano")
    before = json.dumps(job)
    assert "volcano" in scheduled(job)[0]
    assert json.dumps(job) == before


def test_what_a_controller_made_is_left_as_it_is() -> None:
    one = samples.pod("a")
    one["metadata"]["ownerReferences"] = [{"controller": True}]
    before = json.dumps(one)
    assert scheduled(one) == []
    assert json.dumps(one) == before


@pytest.mark.parametrize("scheduler", OWN)
@pytest.mark.parametrize("kind", samples.ALL)
def test_every_manifest_is_valid_and_to_complete_it_twice_is_the_same_as_once(kind: str, scheduler: str) -> None:
    record = next(one for one in default_registry().kinds if one.kind == kind)
    job = samples.ALL[kind]()
    config = configured(scheduler=scheduler, **{"priority-class": "high", "allow-preemption": False})
    scheduled(job, config=config)
    found = inspect(record.schemas[record.stored](), json.loads(json.dumps(job)))
    assert not found.errors
    assert not found.unknown
    once = json.dumps(job)
    scheduled(job, config=config, unique="0002")
    assert json.dumps(job) == once


def test_a_second_write_without_the_labels_keeps_them() -> None:
    for kind in set(samples.ALL) - {"ManagedJob"}:
        old = samples.ALL[kind]()
        scheduled(old)
        new = samples.ALL[kind]()
        if kind == "RayJob":
            new["spec"]["submitterPodTemplate"] = samples.template()
        scheduling.keep(old, new)
        assert pods_of(new) == pods_of(old), kind


def test_a_managed_job_gets_a_new_application_for_every_attempt() -> None:
    job = samples.managed_job()
    scheduled(job)
    config = job["spec"]["podConfig"]
    assert job["metadata"]["annotations"] == {"fairway.dev/scheduler": "yunikorn"}
    assert config["metadata"]["labels"] == {f"{Y}queue": "root.organization1.default"}
    assert config["spec"] == {"schedulerName": "yunikorn"}
    job["metadata"]["uid"] = "1234"
    seen: list[str] = []
    for attempt in ("0-1", "0-2"):
        pods = [samples.pod(f"p{rank}") for rank in range(2)]
        for pod in pods:
            pod["metadata"] |= json.loads(json.dumps(config["metadata"]))
        scheduling.complete_attempt(job, pods, attempt, scheduler_plugin)
        applications = {pod["metadata"]["labels"][f"{Y}app-id"] for pod in pods}
        seen += applications
        group = json.loads(pods[1]["metadata"]["annotations"][f"{Y}task-groups"])[0]
        assert (group["name"], group["minMember"], group["minResource"]["cpu"]) == ("main", 2, "1")
        assert pods[0]["metadata"]["labels"][f"{Y}queue"] == "root.organization1.default"
    assert seen == ["managed-1234-0-1", "managed-1234-0-2"]


def test_every_kind_of_the_table_is_served() -> None:
    served = {kind.resource for kind in default_registry().kinds}
    assert {kind.resource for kind in KINDS} <= served


def test_a_managed_job_knows_the_overhead_of_its_runtime_class_for_every_attempt() -> None:
    job = samples.managed_job()
    job["spec"]["podConfig"] = {"spec": {"runtimeClassName": "kata"}}
    scheduled(job, config=configured(**{"runtime-classes": {"kata": {"cpu": "250m"}}}))
    assert job["spec"]["podConfig"]["spec"]["overhead"] == {"cpu": "250m"}


@pytest.mark.parametrize(
    ("queue", "found"), [("root.ml.My_Batch", "root.ml.My_Batch"), ("ml.batch", ""), ("root", ""), ("root.a..b", "")]
)
def test_a_configured_queue_is_a_whole_path(queue: str, found: str) -> None:
    """YuniKorn would make root.ml_dot_batch of ml.batch."""
    job = samples.job()
    if not found:
        with pytest.raises((SchedulingError, ValidationError), match=re.escape(queue)):
            scheduled(job, config=configured(queue=queue))
        return
    scheduled(job, config=configured(queue=queue))
    assert pods_of(job)["main"]["labels"][f"{Y}queue"] == found


def test_pods_of_a_group_say_how_many_they_are_because_a_kueue_beside_it_asks_for_that() -> None:
    pods = gangs.pod_group("three", 3)
    scheduled(*pods)
    assert [pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] for pod in pods] == ["3"] * 3
    assert all("kueue.x-k8s.io/queue-name" not in pod["metadata"]["labels"] for pod in pods), "Kueue leaves them alone"
