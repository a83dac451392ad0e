"""The template that a job waits with: what the task asks for, over what configuration says about every pod."""

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.errors import ValidationError
from fairway.integrations.priorities import Priority
from fairway.integrations.workloads import new_workload, pod_set
from fairway.managedjobs.pods import pod_template
from fairway.managedjobs.tasks.task import Candidate, Files, Task
from fairway.testing.clusters import local_cluster

from .jobs import DIGEST, PLACES, UID, container_of, main_of, managed_job, pods_of, template_of

FILES = (Files(archive=DIGEST, path="."),)

EVERYTHING = Task(
    name="train",
    num_nodes=2,
    envs={"EPOCHS": "3", "LONG": "a\nb"},
    secrets=("API_KEY",),
    files=(*FILES, Files(archive=DIGEST, path="~/data")),
    setup="pip install .",
    run="python train.py",
    service_account="trainer",
    candidates=(
        Candidate(
            cpus="4",
            memory="16Gi",
            gpus=2,
            accelerators=("T4", "A100-80GB"),
            image="pytorch/pytorch:2",
            labels={"team": "vision", "kueue.x-k8s.io/queue-name": "user-queue"},
        ),
    ),
    pod_config={
        "metadata": {"labels": {"team": "nobody", "tier": "2"}, "annotations": {"note": "of the task"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "containers": [{"env": [{"name": "LEVEL", "value": "info"}], "resources": {"limits": {"memory": "32Gi"}}}],
        },
    },
)


def test_what_the_template_of_a_task_with_everything_is() -> None:
    resources = {
        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "32Gi", "nvidia.com/gpu": "2"},
    }
    env = [{"name": "LEVEL", "value": "info"}]
    accelerator = "skypilot.co/accelerator"
    terms = [
        {"matchExpressions": [{"key": accelerator, "operator": "In", "values": ["t4", "a100-80gb"]}]},
        {"matchExpressions": [{"key": accelerator, "operator": "DoesNotExist"}]},
    ]
    assert pod_template(managed_job(), EVERYTHING, 0, EVERYTHING.candidates[0], PLACES) == {
        "metadata": {"labels": {"team": "vision", "tier": "2"}, "annotations": {"note": "of the task"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "serviceAccountName": "trainer",
            "nodeSelector": {"disk": "fast"},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            },
            "initContainers": [
                {"name": "files", "image": "pytorch/pytorch:2"},
                {"name": "setup", "image": "pytorch/pytorch:2", "env": env, "resources": resources},
            ],
            "containers": [{"name": "run", "image": "pytorch/pytorch:2", "env": env, "resources": resources}],
        },
    }


def test_a_template_says_no_more_than_admission_needs() -> None:
    """Jobs wait by the thousand; what they run is in the job."""
    assert template_of(Task(run="python train.py", envs={"A": "b"}, secrets=("C",))) == {
        "metadata": {},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "run", "image": "local", "resources": {"requests": {"cpu": "1"}}}],
        },
    }


@pytest.mark.parametrize(
    ("config", "of_the_task", "own", "labels"),
    [
        pytest.param({"team": "a"}, {}, {}, {"team": "a"}, id="configuration labels every pod"),
        pytest.param(
            {"team": "a"}, {"team": "b"}, {}, {"team": "b"}, id="the task's pod_config wins over configuration"
        ),
        pytest.param({"team": "a"}, {"team": "b"}, {"team": "c"}, {"team": "c"}, id="the task's labels win over both"),
        pytest.param({"x": "1"}, {"y": "2"}, {"z": "3"}, {"x": "1", "y": "2", "z": "3"}, id="different labels add up"),
        pytest.param(
            {"kueue.x-k8s.io/queue-name": "q"},
            {"kueue.x-k8s.io/pod-group-name": "g"},
            {"kueue.x-k8s.io/priority-class": "high", "a": "b"},
            {"a": "b"},
            id="labels of the queue are not the pods'",
        ),
    ],
)
def test_labels_come_from_three_places(
    config: dict[str, str], of_the_task: dict[str, str], own: dict[str, str], labels: dict[str, str]
) -> None:
    task = Task(pod_config={"metadata": {"labels": of_the_task}})
    template = template_of(task, Candidate(labels=own), podConfig={"metadata": {"labels": config}})
    assert template["metadata"].get("labels", {}) == labels


_LABELS = st.dictionaries(st.sampled_from(["a", "b", "c/d", "kueue.x-k8s.io/queue-name"]), st.sampled_from("xyz"))


@given(_LABELS, _LABELS, _LABELS)
def test_of_every_label_the_last_word_counts(
    config: dict[str, str], of_the_task: dict[str, str], own: dict[str, str]
) -> None:
    task = Task(pod_config={"metadata": {"labels": of_the_task}})
    job = managed_job(podConfig={"metadata": {"labels": config}})
    before = deepcopy((job, task, own))
    template = pod_template(job, task, 0, Candidate(labels=own), PLACES)
    expected = {**config, **of_the_task, **own}
    expected.pop("kueue.x-k8s.io/queue-name", None)
    assert template["metadata"].get("labels", {}) == expected
    assert (job, task, own) == before, "what it is made from stays as it was"


def test_annotations_about_the_queue_are_left_out_but_for_topology() -> None:
    annotations = {
        "kueue.x-k8s.io/pod-suspending-parent": "x",
        "kueue.x-k8s.io/pod-group-total-count": "2",
        "kueue.x-k8s.io/podset-required-topology": "rack",
        "note": "kept",
    }
    template = template_of(podConfig={"metadata": {"annotations": annotations}})
    assert template["metadata"] == {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack", "note": "kept"}}


CONFIGURED = {
    "spec": {
        "terminationGracePeriodSeconds": 300,
        "serviceAccountName": "everybody",
        "restartPolicy": "Always",
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "cache", "emptyDir": {"medium": "Memory"}}],
        "containers": [
            {
                "name": "ray-node",
                "image": "of/configuration",
                "command": ["sleep"],
                "args": ["forever"],
                "volumeMounts": [{"name": "cache", "mountPath": "cache"}],
                "resources": {"requests": {"cpu": "64", "memory": "1Gi"}},
            },
            {"name": "sidecar", "image": "side", "command": ["true"]},
        ],
    }
}


def test_configuration_speaks_where_the_task_does_not() -> None:
    task = Task(
        setup="true", files=FILES, pod_config={"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
    )
    spec = template_of(task, podConfig=CONFIGURED)["spec"]
    assert spec["terminationGracePeriodSeconds"] == 300
    assert spec["serviceAccountName"] == "everybody"
    assert spec["restartPolicy"] == "Never", "attempts are the job's business"
    assert [one["key"] for one in spec["tolerations"]] == ["gpu", "spot"]
    mounts = [{"name": "cache", "mountPath": "cache"}]
    main, beside = spec["containers"]
    assert main == {
        "name": "run",
        "image": "of/configuration",
        "volumeMounts": mounts,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    assert beside == {"name": "sidecar", "image": "side", "command": ["true"]}
    assert spec["initContainers"] == [
        {"name": "files", "image": "of/configuration", "volumeMounts": mounts},
        {**main, "name": "setup"},
    ], "what comes before sees the same files"


def test_a_task_has_the_last_word_on_image_and_account() -> None:
    task = Task(service_account="mine")
    spec = template_of(task, Candidate(image="mine:1"), podConfig=CONFIGURED)["spec"]
    assert (spec["serviceAccountName"], spec["containers"][0]["image"]) == ("mine", "mine:1")


@pytest.mark.parametrize(
    ("containers", "image"),
    [
        pytest.param([{"image": "a"}], "a", id="the first is the main one, without a name"),
        pytest.param([{"name": "x", "image": "a"}, {"name": "y", "image": "b"}], "a", id="or with any"),
        pytest.param([{"name": "x", "image": "a"}, {"name": "run", "image": "b"}], "b", id="or the one called run"),
        pytest.param([], "local", id="none says nothing"),
    ],
)
def test_the_main_container_is_known(containers: list[Manifest], image: str) -> None:
    template = template_of(podConfig={"spec": {"containers": containers}})
    assert main_of(template)["image"] == image
    assert template["spec"]["containers"][0]["name"] == "run"


def test_init_containers_of_configuration_come_first() -> None:
    config = {"spec": {"initContainers": [{"name": "mount", "image": "m", "command": ["true"]}]}}
    template = template_of(Task(setup="x"), podConfig=config)
    assert [one["name"] for one in template["spec"]["initContainers"]] == ["mount", "setup"]


def test_accelerators_narrow_what_configuration_demands_of_nodes() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone, named]}}
    }
    template = template_of(None, Candidate(gpus=1, accelerators=("T4",)), podConfig={"spec": {"affinity": affinity}})
    required = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    one = {"key": "skypilot.co/accelerator", "operator": "In", "values": ["t4"]}
    unknown = {"key": "skypilot.co/accelerator", "operator": "DoesNotExist"}
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [*zone["matchExpressions"], one]},
        {"matchExpressions": [*zone["matchExpressions"], unknown]},
        {"matchExpressions": [one], **named},
        {"matchExpressions": [unknown], **named},
    ]


def test_gpus_of_any_model_ask_nothing_of_the_node_but_their_number() -> None:
    template = template_of(None, Candidate(gpus=3))
    assert "affinity" not in template["spec"]
    assert main_of(template)["resources"] == {
        "requests": {"cpu": "1", "nvidia.com/gpu": "3"},
        "limits": {"nvidia.com/gpu": "3"},
    }


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        pytest.param(
            {"spec": []}, "spec.podConfig.spec: Invalid value: []: must be of type object", id="not an object"
        ),
        pytest.param(
            {"spec": {"containers": [{"env": [{"name": 3}]}]}},
            "spec.podConfig.spec.containers[0].env[0].name: Invalid value: 3: must be of type string",
            id="not a string",
        ),
        pytest.param(
            {"spec": {"containers": "all"}},
            'spec.podConfig.spec.containers: Invalid value: "all": must be of type array',
            id="not a list",
        ),
        pytest.param({"labels": {}}, "spec.podConfig.labels: Unknown field: pods have no such field", id="unknown"),
    ],
)
def test_a_pod_config_that_is_no_part_of_a_pod_is_refused(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        template_of(podConfig=config)
    assert str(refusal.value) == f'ManagedJob "train-7" is invalid: {sentence}'


def test_the_tasks_own_pod_config_is_named_by_its_place() -> None:
    with pytest.raises(ValidationError, match=r"spec\.tasks\[1\]\.config\.kubernetes\.pod_config\.sepc: Unknown field"):
        pod_template(managed_job(tasks=2), Task(pod_config={"sepc": {}}), 1, Candidate(), PLACES)


def test_nulls_take_away_what_configuration_says_and_are_not_left_behind() -> None:
    config = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeSelector": {"disk": "fast"}}}
    task = Task(pod_config={"metadata": {"labels": {"a": None}}, "spec": {"nodeSelector": None, "affinity": None}})
    template = template_of(task, podConfig=config)
    assert template["metadata"] == {"labels": {"b": "2"}}
    assert template["spec"] == template_of()["spec"]


@pytest.mark.parametrize(
    "nothing",
    [
        pytest.param({"metadata": None, "spec": None}, id="no part at all"),
        pytest.param({"spec": {"containers": None, "terminationGracePeriodSeconds": None}}, id="no fields"),
        pytest.param({"spec": {"containers": [None, {"env": None, "image": None}]}}, id="empty elements"),
    ],
)
def test_nulls_cannot_take_away_what_a_pod_needs(nothing: Manifest) -> None:
    assert template_of(podConfig=nothing) == template_of()


def test_one_volume_may_be_mounted_in_two_places_by_two_layers() -> None:
    def mounting(path: str) -> Manifest:
        return {"spec": {"containers": [{"volumeMounts": [{"name": "data", "mountPath": path}]}]}}

    template = template_of(Task(pod_config=mounting("b")), podConfig=mounting("a"))
    assert [mount["mountPath"] for mount in main_of(template)["volumeMounts"]] == ["a", "b"]


_PARTS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["run", "a", "1"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            ["metadata", "spec", "labels", "containers", "initContainers", "name", "env", "value", "resources",
             "limits", "volumes", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
             "nodeSelectorTerms", "matchExpressions", "tolerations", "key", "image"]
        ),
        inner,
        max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), _PARTS), _PARTS)
def test_whatever_a_pod_config_is_it_is_refused_or_laid_under(config: dict[str, Any], of_the_task: Any) -> None:
    task = Task(setup="x", pod_config={"spec": of_the_task})
    try:
        template = template_of(task, Candidate(gpus=1, accelerators=("T4",)), podConfig=config)
    except ValidationError:
        return
    assert template["spec"]["restartPolicy"] == "Never"
    assert main_of(template)["resources"]["requests"]["cpu"] == "1"
    assert container_of(template, "setup")["resources"] == main_of(template)["resources"]


def test_the_api_takes_the_workload_and_the_pods_as_they_are() -> None:
    """Whatever a pod must be, these are: one with everything, one with next to nothing, with and without layers."""
    job = managed_job(secretName="train-secrets", podConfig=CONFIGURED)

    async def story() -> None:
        async with local_cluster(keepers=False) as world:
            await world.api.create("managedjobs", job | {"metadata": {"name": "train-7", "namespace": "default"}})
            for attempt, task in enumerate((EVERYTHING, Task()), start=1):
                template = pod_template(job, task, 0, task.candidates[0], PLACES)
                workload = new_workload(
                    f"w{attempt}", "default", [], [pod_set("main", template, task.num_nodes)], "q", Priority(0, None)
                )
                await world.api.create("workloads", workload)
                for pod in pods_of(task, job, attempt=attempt):
                    created = await world.api.create("pods", pod)
                    assert created["metadata"]["ownerReferences"][0]["uid"] == UID
                    assert main_of(created)["command"] == main_of(pod)["command"]
            assert world.api.names("pods") == {"train-7-1-head", "train-7-1-worker1", "train-7-2-head"}

    asyncio.run(story())
