"""The pods of one attempt: who they are, what they are told, what admission adds."""

import json

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.injection import InjectionConflict, PodSetInfo
from fairway.managedjobs.pods import pod_template
from fairway.managedjobs.tasks.task import Candidate, Files, Task

from .jobs import DIGEST, PLACES, UID, container_of, main_of, managed_job, pods_of, values_of

GANG = Task(num_nodes=3, setup="true", run="true")


def test_a_gang_has_a_head_and_workers_that_differ_in_their_rank_alone() -> None:
    head, *workers = pods_of(GANG)
    assert [pod["metadata"]["name"] for pod in (head, *workers)] == [
        "train-7-1-head",
        "train-7-1-worker1",
        "train-7-1-worker2",
    ]
    assert head["metadata"] == {
        "name": "train-7-1-head",
        "namespace": "default",
        "labels": {
            "fairway.dev/job": "train-7",
            "fairway.dev/job-id": "7",
            "fairway.dev/task": "0",
            "fairway.dev/attempt": "1",
            "fairway.dev/rank": "0",
        },
        "annotations": {"fairway.dev/keep-logs": "true"},
        "ownerReferences": [
            {
                "apiVersion": "fairway.dev/v1alpha1",
                "kind": "ManagedJob",
                "name": "train-7",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    for rank, worker in enumerate(workers, start=1):
        assert worker["metadata"]["labels"].pop("fairway.dev/rank") == str(rank)
        assert _without_rank(worker) == _without_rank(head)


def _without_rank(pod: Manifest) -> list[Manifest]:
    containers = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    return [
        {**one, "env": [variable for variable in one["env"] if not variable["name"].endswith("NODE_RANK")]}
        for one in containers
    ]


def test_what_the_first_attempt_is_told_in_run() -> None:
    task = Task(num_nodes=2, envs={"EPOCHS": "3"}, candidates=(Candidate(gpus=4),))
    pods = pods_of(task, managed_job(rank=2, numJobs=5))
    task_id = "sky-managed-2026-09-01-10-20-30_train_7-0"
    twins = {
        "NODE_RANK": "1",
        "NODE_IPS": "127.0.0.1\n127.0.0.1",
        "NUM_NODES": "2",
        "NUM_GPUS_PER_NODE": "4",
        "TASK_ID": task_id,
        "TASK_IDS": task_id,
        "MANAGED_JOB_ID": "7",
        "INTERNAL_JOB_ID": "7",
        "CLUSTER_INFO": '{"cluster_name":"train-7-1","cloud":"Kubernetes","region":"fairway","zone":null}',
        "USER": "ada",
        "JOB_RANK": "2",
        "NUM_JOBS": "5",
    }
    assert values_of(main_of(pods[1])) == {
        **{f"SKYPILOT_{name}": value for name, value in twins.items()},
        **{f"FAIRWAY_{name}": value for name, value in twins.items()},
        "FAIRWAY_JOB_ID": "7",
        "FAIRWAY_JOB_NAME": "train-7",
        "FAIRWAY_ATTEMPT": "1",
        "FAIRWAY_RESTART_CAUSE": "",
        "FAIRWAY_CHECKPOINT_DIR": f"/state/checkpoints/{UID}/0",
        "PYTHONUNBUFFERED": "1",
        "EPOCHS": "3",
    }


def test_setup_is_told_about_nodes_by_other_names() -> None:
    (pod,) = pods_of(Task(setup="true", candidates=(Candidate(gpus=1),)))
    run, setup = values_of(main_of(pod)), values_of(container_of(pod, "setup"))
    moved = {
        f"{brand}_{name}": f"{brand}_SETUP_{name}"
        for brand in ("SKYPILOT", "FAIRWAY")
        for name in ("NODE_RANK", "NODE_IPS", "NUM_GPUS_PER_NODE")
    }
    assert setup == {moved.get(name, name): value for name, value in run.items()}


def test_a_later_attempt_is_told_why_and_keeps_its_id_and_its_directory() -> None:
    first, second = (
        values_of(main_of(pods_of(attempt=attempt, cause=cause)[0])) for attempt, cause in ((1, ""), (2, "preempted"))
    )
    assert {name for name in first if first[name] != second[name]} == {
        "FAIRWAY_ATTEMPT",
        "FAIRWAY_RESTART_CAUSE",
        "SKYPILOT_CLUSTER_INFO",
        "FAIRWAY_CLUSTER_INFO",
    }
    assert (second["FAIRWAY_ATTEMPT"], second["FAIRWAY_RESTART_CAUSE"]) == ("2", "preempted")
    assert json.loads(second["SKYPILOT_CLUSTER_INFO"])["cluster_name"] == "train-7-2"


def test_the_tasks_of_a_pipeline_know_each_other() -> None:
    job = managed_job(tasks=2)
    (pod,) = pods_of(Task(), job, task_index=1)
    values = values_of(main_of(pod))
    ids = [f"sky-managed-2026-09-01-10-20-30_train_step-{number}_7-{number}" for number in range(2)]
    assert (values["SKYPILOT_TASK_ID"], values["SKYPILOT_TASK_IDS"].split("\n")) == (ids[1], ids)
    assert values["FAIRWAY_CHECKPOINT_DIR"] == PLACES.checkpoints(job, 1, Task())
    assert (pod["metadata"]["name"], pod["metadata"]["labels"]["fairway.dev/task"]) == ("train-7-t1-1-head", "1")


def test_who_wins_where_a_variable_is_set_twice() -> None:
    """What Fairway tells, over secrets, over `envs`, over a `pod_config`, over our one default."""
    names = ("FAIRWAY_ATTEMPT", "SECRET", "PLAIN", "CONFIGURED", "PYTHONUNBUFFERED")
    config = {"spec": {"containers": [{"env": [{"name": name, "value": "config"} for name in names]}]}}
    task = Task(
        envs=dict.fromkeys(names[:3], "env"), secrets=names[:2], setup="true", files=(Files(archive=DIGEST, path="."),)
    )
    (pod,) = pods_of(task, managed_job(podConfig=config, secretName="train-secrets"))
    for name in ("setup", "run"):
        variables = {one["name"]: one for one in container_of(pod, name)["env"]}
        assert len(variables) == len(container_of(pod, name)["env"]), "each is declared once"
        assert [variables[name] for name in names] == [
            {"name": "FAIRWAY_ATTEMPT", "value": "1"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "train-secrets", "key": "SECRET"}}},
            {"name": "PLAIN", "value": "env"},
            {"name": "CONFIGURED", "value": "config"},
            {"name": "PYTHONUNBUFFERED", "value": "config"},
        ]
    assert "env" not in container_of(pod, "files")


@pytest.mark.parametrize(
    ("path", "envs", "target"),
    [
        pytest.param(".", {}, ".", id="the working directory"),
        pytest.param("data/raw", {}, "data/raw", id="below it"),
        pytest.param("~/data", {}, ".home/data", id="a home of its own"),
        pytest.param("~", {}, ".home", id="that home itself"),
        pytest.param("~/data", {"HOME": "/srv/me"}, "/srv/me/data", id="the home that the task names"),
        pytest.param("~x/data", {}, "~x/data", id="only ~ by itself is home"),
    ],
)
def test_where_files_are_unpacked(path: str, envs: dict[str, str], target: str) -> None:
    (pod,) = pods_of(Task(files=(Files(archive=DIGEST, path=path),), envs=envs))
    command = container_of(pod, "files")["command"]
    assert command[-2:] == [f"/state/archives/default/{DIGEST}.tar.gz", target]
    assert ("HOME=" in main_of(pod)["command"][3]) is target.startswith(".home")


@pytest.mark.parametrize(
    ("task", "waits"),
    [
        pytest.param(Task(num_nodes=2, setup="true"), True, id="nodes with a setup wait for each other"),
        pytest.param(Task(num_nodes=2), False, id="without setup there is nothing to wait for"),
        pytest.param(Task(setup="true"), False, id="one node waits for nobody"),
    ],
)
def test_who_waits_for_whom(task: Task, *, waits: bool) -> None:
    for pod in pods_of(task):
        assert ("mkfifo" in main_of(pod)["command"][3]) is waits


def test_admission_adds_to_every_pod_and_to_nothing_else() -> None:
    info = PodSetInfo(
        name="main",
        count=3,
        labels={"kueue.x-k8s.io/podset": "main"},
        annotations={"kueue.x-k8s.io/workload": "w"},
        node_selector={"zone": "a"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
    )
    job = managed_job(podConfig={"spec": {"nodeSelector": {"disk": "fast"}}})
    before = pod_template(job, GANG, 0, Candidate(), PLACES)
    for pod in pods_of(GANG, job, info=info):
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "w"
        assert pod["spec"]["nodeSelector"] == {"disk": "fast", "zone": "a"}
        assert pod["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert pod_template(job, GANG, 0, Candidate(), PLACES) == before
    assert info.node_selector == {"zone": "a"}


def test_a_flavor_that_contradicts_the_task_is_told() -> None:
    job = managed_job(podConfig={"spec": {"nodeSelector": {"zone": "b"}}})
    with pytest.raises(InjectionConflict, match="zone"):
        pods_of(job=job, info=PodSetInfo(name="main", count=1, node_selector={"zone": "a"}))


def test_labels_of_the_task_cannot_change_who_a_pod_is() -> None:
    task = Task(candidates=(Candidate(labels={"fairway.dev/rank": "9", "team": "vision"}),))
    (pod,) = pods_of(task)
    assert pod["metadata"]["labels"]["fairway.dev/rank"] == "0"
    assert pod["metadata"]["labels"]["team"] == "vision"


def test_other_containers_of_a_pod_config_stay_as_they_are() -> None:
    beside = {"name": "beside", "image": "b", "command": ["true"]}
    before = {"name": "before", "image": "b", "command": ["true"]}
    job = managed_job(podConfig={"spec": {"containers": [{"image": "x"}, beside], "initContainers": [before]}})
    (pod,) = pods_of(job=job)
    assert (container_of(pod, "beside"), container_of(pod, "before")) == (beside, before)
