"""From a task file, the configuration and flags to the objects that are sent to the server."""

from typing import Any

import pytest

from fairway.managedjobs import config, making
from fairway.managedjobs.configured import LaunchConfig
from fairway.managedjobs.making import Launch
from fairway.managedjobs.tasks import documents, parse
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.overrides import Overrides
from fairway.managedjobs.tasks.task import Files

QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"
GUIDE = """
name: sky-kueue-task
resources:
  cpus: 6
  cloud: kubernetes
  labels:
    kueue.x-k8s.io/queue-name: user-queue
    kueue.x-k8s.io/priority-class: low-priority
run: sleep 1000
"""
PIPELINE = "run: a\nresources: {labels: {kueue.x-k8s.io/queue-name: one}}\n---\nrun: b\n"


def launched(
    text: str = "run: train\n", settings: LaunchConfig | None = None, *, file: str = "jobs/my_task.yaml", **flags: Any
) -> Launch:
    overrides = Overrides(**flags)
    parsed = parse.tasks_of(documents.read(text, file), overrides)
    return making.job_manifests(
        parsed,
        settings or LaunchConfig(),
        overrides,
        secret_name="train-secrets" if parsed.has_secrets else "",
        array="a1",
    )


def spec(text: str = "run: train\n", settings: LaunchConfig | None = None, **flags: Any) -> dict[str, Any]:
    (job,) = launched(text, settings, **flags).jobs
    found: dict[str, Any] = job["spec"]
    return found


def labels(job_spec: dict[str, Any]) -> list[dict[str, str]]:
    return [task["resources"].get("labels", {}) for task in job_spec["tasks"]]


def test_the_job_of_the_first_guide() -> None:
    assert launched(GUIDE).jobs == [
        {
            "apiVersion": "fairway.dev/v1alpha1",
            "kind": "ManagedJob",
            "metadata": {"generateName": "sky-kueue-task-", "labels": {QUEUE: "user-queue"}},
            "spec": {
                "name": "sky-kueue-task",
                "queue": "user-queue",
                "priorityClass": "low-priority",
                "tasks": [{"name": "sky-kueue-task", "resources": {"cpus": "6"}, "run": "sleep 1000"}],
            },
        }
    ]


def test_everything_that_is_said_reaches_the_job() -> None:
    settings = LaunchConfig(
        aging_step=5,
        aging_cap=50,
        provision_timeout_seconds=-1,
        service_account="trainer",
        pod_config={"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": {"disk": "ssd"}}},
        warnings=("w",),
    )
    found = launched(
        "run: x\nresources: {use_spot: true}\n", settings, user="ann", recover=False, hold=True, cluster="low"
    )

    assert found.jobs[0]["metadata"] == {"name": "low"}
    assert found.jobs[0]["spec"] == {
        "name": "low",
        "user": "ann",
        "recover": False,
        "hold": True,
        "aging": {"step": 5, "cap": 50},
        "provisionTimeoutSeconds": -1,
        "podConfig": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {"serviceAccountName": "trainer", "nodeSelector": {"disk": "ssd"}},
        },
        "tasks": [{"resources": {"cpus": "1"}, "run": "x"}],
    }
    assert found.warnings == (
        "w",
        "jobs/my_task.yaml: resources.use_spot (line 2) means nothing here and is left out",
    )


@pytest.mark.parametrize(
    ("text", "flags", "want"),
    [
        pytest.param("name: a\nrun: x\n", {"name": "b"}, "b", id="the flag"),
        pytest.param("name: a\nrun: x\n", {"cluster": "c"}, "a", id="the task's name"),
        pytest.param("name: p\n---\nname: a\nrun: x\n---\nrun: y\n", {}, "p", id="the pipeline's name"),
        pytest.param("run: x\n", {"cluster": "c"}, "c", id="the name of the job itself"),
        pytest.param("name: a\nrun: x\n---\nrun: y\n", {}, "my_task", id="the file's name"),
    ],
)
def test_what_the_job_is_called(text: str, flags: dict[str, Any], want: str) -> None:
    assert spec(text, **flags)["name"] == want


@pytest.mark.parametrize("file", ["", "-", "...", "dir/.yaml"])
def test_a_job_without_any_name_is_called_something(file: str) -> None:
    assert launched(file=file).jobs[0]["spec"]["name"] in {"job", "yaml"}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("train", "train-"),
        ("My Train_v2!", "my-train-v2-"),
        ("Ünïcode", "unicode-"),
        ("обучение", "job-"),
        ("2024.01", "2024-01-"),
        ("-", "job-"),
        ("x" * 100, "x" * 39 + "-"),
        ("a" * 38 + "-bcd", "a" * 38 + "-"),
    ],
)
def test_the_beginning_of_the_name_is_one_that_kubernetes_takes(name: str, want: str) -> None:
    assert making.generate_name(name) == want


@pytest.mark.parametrize(
    ("text", "settings", "flags", "want"),
    [
        pytest.param(GUIDE, "jobs: {queue: c}", {"queue": "f"}, "f", id="the flag"),
        pytest.param(GUIDE, "jobs: {queue: c}", {}, "user-queue", id="the task's label"),
        pytest.param(
            "run: x\nconfig: {kubernetes: {kueue: {local_queue_name: t}}}", "jobs: {queue: c}", {}, "t", id="its config"
        ),
        pytest.param("run: x", "jobs: {queue: c}", {}, "c", id="the configuration"),
        pytest.param(
            "run: x", f"kubernetes: {{pod_config: {{metadata: {{labels: {{{QUEUE}: c}}}}}}}}", {}, "c", id="its labels"
        ),
        pytest.param("run: x", "", {}, None, id="nobody"),
    ],
)
def test_who_says_the_queue(text: str, settings: str, flags: dict[str, Any], want: str | None) -> None:
    found = spec(text, config.parse(settings, "c.yaml"), **flags)

    assert found.get("queue") == want
    assert labels(found) == [{}]
    assert "podConfig" not in found
    assert "config" not in found["tasks"][0]


@pytest.mark.parametrize(
    ("text", "settings", "flags", "want"),
    [
        pytest.param(GUIDE, "jobs: {priority: 7}", {"priority": 9}, {"priority": 9}, id="a number by flag"),
        pytest.param(GUIDE, "", {"priority": "0"}, {"priority": 0}, id="a number in text by flag"),
        pytest.param(GUIDE, "", {"priority": "high"}, {"priorityClass": "high"}, id="a class by flag"),
        pytest.param(GUIDE, "jobs: {priority: 7}", {"priority": "none"}, {}, id="none by flag"),
        pytest.param(GUIDE, "jobs: {priority: 7}", {}, {"priorityClass": "low-priority"}, id="the task's label"),
        pytest.param("run: x\nresources: {priority: -5}", "jobs: {priority: a}", {}, {"priority": -5}, id="its number"),
        pytest.param(
            "run: x\nresources: {priority: -5}",
            "",
            {"priority": "high"},
            {"priorityClass": "high"},
            id="over its number",
        ),
        pytest.param("run: x", "jobs: {priority: 7}", {}, {"priority": 7}, id="the configuration"),
        pytest.param("run: x", "jobs: {priority: a}", {}, {"priorityClass": "a"}, id="the configuration, by class"),
    ],
)
def test_who_says_the_priority(text: str, settings: str, flags: dict[str, Any], want: dict[str, Any]) -> None:
    found = spec(text, config.parse(settings, "c.yaml"), **flags)

    assert {name: found[name] for name in ("priority", "priorityClass") if name in found} == want
    assert labels(found) == [{}]
    assert "priority" not in found["tasks"][0]["resources"]


def test_tasks_that_differ_in_their_queue_keep_it_themselves() -> None:
    found = spec(PIPELINE, LaunchConfig(queue="two"))

    assert "queue" not in found
    assert labels(found) == [{QUEUE: "one"}, {QUEUE: "two"}]
    assert spec(PIPELINE, LaunchConfig(queue="one"))["queue"] == "one"
    assert spec(PIPELINE, queue="three")["queue"] == "three"


def test_tasks_that_differ_in_their_priority_keep_it_themselves() -> None:
    text = f"run: a\nresources: {{labels: {{{CLASS}: high}}}}\n---\nrun: b\nresources: {{priority: 5}}\n---\nrun: c\n"
    found = spec(text, LaunchConfig(priority=7))

    assert "priority" not in found
    assert "priorityClass" not in found
    assert labels(found) == [{CLASS: "high"}, {}, {}]
    assert [task["resources"].get("priority") for task in found["tasks"]] == [None, 5, 7]


def test_every_job_that_is_made_can_be_read_by_the_server() -> None:
    for text in (GUIDE, PIPELINE):
        (job,) = launched(text, LaunchConfig(queue="two")).jobs
        assert parse.wrong_tasks(job) == []


def test_secrets_are_in_a_secret_and_nowhere_else() -> None:
    text = "run: x\nsecrets: {A: hunter2}\n---\nrun: y\nsecrets: [A, B]\n"
    found = launched(text, secrets={"A": "hunter2", "B": "é"})

    assert found.secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "train-secrets", "labels": {"fairway.dev/secrets-of": "managed-jobs"}},
        "type": "Opaque",
        "data": {"A": "aHVudGVyMg==", "B": "w6k="},
    }
    assert found.jobs[0]["spec"]["secretName"] == "train-secrets"
    assert "hunter2" not in repr(found.jobs)
    assert launched().secret is None


def test_two_values_of_one_secret_are_refused() -> None:
    with pytest.raises(TaskError) as refusal:
        launched("run: x\nsecrets: {A: hunter2}\n---\nrun: y\nsecrets: {A: other}\n")

    assert str(refusal.value) == (
        "jobs/my_task.yaml: secrets: two tasks give the secret A different values; use two names"
    )


def test_an_array_is_so_many_jobs_that_know_their_rank() -> None:
    jobs = launched(num_jobs=3).jobs

    assert [(job["spec"]["rank"], job["spec"]["numJobs"], job["spec"]["array"]) for job in jobs] == [
        (0, 3, "a1"),
        (1, 3, "a1"),
        (2, 3, "a1"),
    ]
    assert "rank" not in spec()


def test_files_are_named_by_their_archives() -> None:
    parsed = parse.tasks_of(documents.read("run: x\nworkdir: .\n---\nrun: y\n", "t.yaml"))
    files = [[Files(archive="ab" * 32, path=".")], []]
    (job,) = making.job_manifests(parsed, LaunchConfig(), Overrides(), files=files).jobs

    assert [task.get("files") for task in job["spec"]["tasks"]] == [[{"archive": "ab" * 32, "path": "."}], None]


def test_candidates_that_the_configuration_does_not_allow_are_left_out() -> None:
    text = "run: x\nresources: {ordered: [{infra: k8s}, {infra: k8s/lab}, {infra: k8s/other}]}\n"
    found = launched(text, LaunchConfig(allowed_contexts=("lab",)))

    assert [one.get("infra") for one in found.jobs[0]["spec"]["tasks"][0]["resources"]["ordered"]] == [None, "k8s/lab"]
    assert found.warnings == (
        "candidates on other are skipped: not among kubernetes.allowed_contexts of the configuration",
    )
    assert launched(text).warnings == launched(text, LaunchConfig(allowed_contexts=("*",))).warnings == ()


@pytest.mark.parametrize(
    ("text", "flags", "want"),
    [
        ("run: x", {"num_jobs": 0}, "--num-jobs: must be from 1 to 10000, but is 0"),
        ("run: x", {"num_jobs": 2, "cluster": "a"}, '--num-jobs: 2 jobs cannot have one name; leave out --cluster "a"'),
        (
            "run: x",
            {"cluster": "My Job"},
            (
                '--cluster: "My Job" cannot be the name of a job; use small letters, digits and '
                "`-`, at most 63, such as my-job"
            ),
        ),
        ("run: x", {"name": "a\nb"}, "--name: must be one line of at most 200 printable characters"),
        (
            "run: x",
            {"name": "7"},
            '--name: "7" looks like the id of a job, or a range of ids; add a letter, such as job-7',
        ),
        (
            "run: x",
            {"cluster": "3-7"},
            '--cluster: "3-7" looks like the id of a job, or a range of ids; add a letter, such as job-3-7',
        ),
        (
            "run: x",
            {"queue": "My Queue"},
            (
                '--queue: "My Queue" is not the name of a queue; use small letters, digits, `-` '
                "and `.`, such as user-queue"
            ),
        ),
        (
            "run: x",
            {"priority": 3_000_000_000},
            (
                "--priority: must be from -2147483648 to 2147483647, but is 3000000000; "
                "write for example 100 (higher goes first)"
            ),
        ),
        (
            "run: x",
            {"priority": "Very High"},
            (
                '--priority: "Very High" is not the name of a priority class; use small '
                "letters, digits, `-` and `.`, such as user-queue"
            ),
        ),
        (
            "run: x\nresources: {infra: k8s/lab}",
            {},
            (
                "infra: lab is not among kubernetes.allowed_contexts of the "
                "configuration; add it there, or remove infra to run here"
            ),
        ),
    ],
)
def test_a_wrong_flag_is_called_by_its_name(text: str, flags: dict[str, Any], want: str) -> None:
    with pytest.raises(TaskError) as refusal:
        launched(text, LaunchConfig(allowed_contexts=("other",)), **flags)

    assert str(refusal.value) == want


@pytest.mark.parametrize(("name", "want"), [("train", "train-"), ("7", "job-7-"), ("2026", "job-2026-"), ("v2", "v2-")])
def test_no_object_has_a_name_like_a_range_of_ids(name: str, want: str) -> None:
    assert making.generate_name(name) == want
