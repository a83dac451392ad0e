"""Workloads as they are made for jobs."""

import copy

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions
from fairway.integrations.priorities import MissingPriorityClass, Priority, resolve
from fairway.integrations.workloads import new_workload, owner_reference, pod_set, workload_name


@pytest.mark.parametrize(
    ("kind", "group", "name", "uid", "want"),
    [
        pytest.param("Job", "batch", "name", "uid", "job-name-ef3a1", id="kind, name and a hash, as Kueue has it"),
        pytest.param("Job", "batch", "name", "other", "job-name-7483f", id="another job of the same name has another"),
        pytest.param("JobSet", "jobset.x-k8s.io", "n", "u", "jobset-n-7e8f9", id="the kind in lower case"),
    ],
)
def test_names(kind: str, group: str, name: str, uid: str, want: str) -> None:
    assert workload_name(kind, group, name, uid) == want


def test_a_long_name_is_cut_so_that_the_hash_has_room() -> None:
    name = workload_name("Job", "batch", "n" * 253, "uid")

    assert len(name) == 253
    assert name.startswith("job-nnn")
    assert name[-6] == "-"


def test_a_pod_set_shares_nothing_with_its_template() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "env": []}]}}
    before = copy.deepcopy(template)
    made = pod_set("main", template, 3, 2)
    made["template"]["metadata"]["labels"]["a"] = "c"
    made["template"]["spec"]["containers"][0]["name"] = "other"

    assert template == before
    assert (made["name"], made["count"], made["minCount"]) == ("main", 3, 2)


def test_of_a_variable_that_is_set_twice_the_last_counts() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    containers = [{"name": "main", "env": twice}]
    template = {"spec": {"containers": containers, "initContainers": copy.deepcopy(containers)}}
    made = pod_set("main", template, 1)["template"]["spec"]

    once = [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]
    assert [made["containers"][0]["env"], made["initContainers"][0]["env"]] == [once, once]


def test_a_new_workload() -> None:
    job: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n", "uid": "u"}}
    priority = Priority(7, {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"})
    made = new_workload(
        "job-j-1", "n", [owner_reference(job)], [{"name": "main"}], "q", priority, labels={"a": "b"},
        maximum_execution_seconds=5,
    )  # fmt: skip

    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    assert made == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "job-j-1",
            "namespace": "n",
            "labels": {"a": "b"},
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {
            "podSets": [{"name": "main"}],
            "queueName": "q",
            "priority": 7,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
            "maximumExecutionTimeSeconds": 5,
        },
    }


class Held:
    """Classes as a cache holds them."""

    def __init__(self, *classes: Manifest) -> None:
        self._classes = {one["metadata"]["name"]: one for one in classes}

    def get(self, _namespace: str, name: str) -> Manifest | None:
        return self._classes.get(name)

    def items(self) -> list[Manifest]:
        return list(self._classes.values())


def _class(name: str, value: int, **more: object) -> Manifest:
    return {"metadata": {"name": name}, "value": value, **more}


OF_THE_QUEUE = Held(_class("urgent", 100))
OF_PODS = Held(_class("low", -5), _class("high", 50))
WITH_DEFAULTS = Held(_class("low", -5), _class("usual", 20, globalDefault=True), _class("calm", 10, globalDefault=True))
URGENT = {"kueue.x-k8s.io/priority-class": "urgent"}
HIGH: list[Manifest] = [{"spec": {}}, {"spec": {"priorityClassName": "high"}}, {"spec": {"priorityClassName": "low"}}]


def _pod_class(name: str) -> dict[str, str]:
    return {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}


@pytest.mark.parametrize(
    ("labels", "templates", "classes", "own", "want"),
    [
        pytest.param(
            URGENT, HIGH, OF_PODS, "low",
            Priority(100, {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "urgent"}),
            id="the label comes first",
        ),
        pytest.param({}, HIGH, OF_PODS, "low", Priority(-5, _pod_class("low")), id="then the job's own class"),
        pytest.param({}, HIGH, OF_PODS, None, Priority(50, _pod_class("high")), id="then the first template with one"),
        pytest.param({}, HIGH, WITH_DEFAULTS, "", Priority(10, _pod_class("calm")),
                     id="a job that names no class of its own gets the default, the lowest of them"),
        pytest.param({}, [{"spec": {}}], WITH_DEFAULTS, None, Priority(10, _pod_class("calm")), id="then the default"),
        pytest.param({}, [{}], OF_PODS, None, Priority(0, None), id="then nothing"),
        pytest.param({}, [{"spec": {"priorityClassName": "system-node-critical"}}], OF_PODS, None,
                     Priority(2_000_001_000, _pod_class("system-node-critical")),
                     id="the system's classes are there without an object"),
    ],
)  # fmt: skip
def test_priorities(
    labels: dict[str, str], templates: list[Manifest], classes: Held, own: str | None, want: Priority
) -> None:
    assert resolve(labels, templates, OF_THE_QUEUE, classes, own_class=own) == want


@pytest.mark.parametrize(
    ("labels", "templates", "want"),
    [
        pytest.param({"kueue.x-k8s.io/priority-class": "gone"}, HIGH,
                     'workloadpriorityclasses.kueue.x-k8s.io "gone" not found', id="of the queue"),
        pytest.param({}, [{"spec": {"priorityClassName": "gone"}}],
                     'priorityclasses.scheduling.k8s.io "gone" not found', id="of pods"),
    ],
)  # fmt: skip
def test_a_missing_class(labels: dict[str, str], templates: list[Manifest], want: str) -> None:
    with pytest.raises(MissingPriorityClass) as missing:
        resolve(labels, templates, OF_THE_QUEUE, OF_PODS)
    assert str(missing.value) == want


def test_the_time_of_a_condition_moves_with_its_status_alone() -> None:
    first = conditions.with_condition([], "Admitted", "False", "A", "one", "t1", 1)
    second = conditions.with_condition(first, "Admitted", "False", "B", "two", "t2", 2)
    third = conditions.with_condition([*second, {"type": "X", "status": "True"}], "Admitted", "True", "C", "", "t3")

    assert [one[0]["lastTransitionTime"] for one in (first, second, third)] == ["t1", "t1", "t3"]
    assert (second[0]["reason"], second[0]["message"], second[0]["observedGeneration"]) == ("B", "two", 2)
    assert first[0]["reason"] == "A"
    assert [one["type"] for one in third] == ["Admitted", "X"]
    assert conditions.is_true({"status": {"conditions": third}}, "Admitted")
    assert not conditions.is_true({}, "Admitted")


def test_a_message_is_cut_at_a_number_of_bytes() -> None:
    assert conditions.shortened("é" * 10, 20) == "é" * 10
    assert conditions.shortened("é" * 10 + "x", 20) == "é" * 8 + " ..."
