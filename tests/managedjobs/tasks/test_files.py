"""Task files as people write them, and what they ask for."""

from typing import Any

import pytest

from fairway.managedjobs.tasks import documents, parse
from fairway.managedjobs.tasks.overrides import Overrides
from fairway.managedjobs.tasks.parse import ParsedFile
from fairway.managedjobs.tasks.task import Candidate, Recovery, Task

QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"


def parsed(text: str, **overrides: Any) -> ParsedFile:
    return parse.tasks_of(documents.read(text, "task.yaml"), Overrides(**overrides))


def task(text: str, **overrides: Any) -> Task:
    (one,) = parsed(text, **overrides).tasks
    return one.task


def candidates(text: str) -> tuple[Candidate, ...]:
    indented = "\n".join(f"  {line}" for line in text.splitlines())
    return task(f"run: train\nresources:\n{indented}\n").candidates


def test_the_task_of_the_first_guide() -> None:
    text = """
name: sky-kueue-task
resources:
  cpus: 6
  cloud: kubernetes
  labels:
    kueue.x-k8s.io/queue-name: user-queue
    kueue.x-k8s.io/priority-class: low-priority
setup: |
  echo "Running setup."
run: |
  echo "Hello, world"
  sleep 1000
"""
    want = Task(
        name="sky-kueue-task",
        candidates=(Candidate(cpus="6", labels={QUEUE: "user-queue", CLASS: "low-priority"}),),
        setup='echo "Running setup."\n',
        run='echo "Hello, world"\nsleep 1000\n',
    )

    assert task(text) == want
    assert parsed(text).warnings == ()


@pytest.mark.parametrize("name", ["low", "high"])
def test_the_tasks_of_the_third_guide(name: str) -> None:
    text = f"""
# {name}.yaml
resources:
    accelerators: T4:4
    labels:
        kueue.x-k8s.io/queue-name: user-queue # this is assigned by your admin
        kueue.x-k8s.io/priority-class: {name}-priority # specify {name} priority workload

run: |
    echo "hi i'm a {name} priority job"
    sleep 1000000
"""
    labels = {QUEUE: "user-queue", CLASS: f"{name}-priority"}

    assert task(text) == Task(
        candidates=(Candidate(gpus=4, accelerators=("T4",), labels=labels),),
        run=f'echo "hi i\'m a {name} priority job"\nsleep 1000000\n',
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("cpus: 4", Candidate(cpus="4"), id="CPUs"),
        pytest.param("cpus: 4+", Candidate(cpus="4"), id="at least so many CPUs"),
        pytest.param('cpus: "4"', Candidate(cpus="4"), id="CPUs as text"),
        pytest.param("cpus: 0.5", Candidate(cpus="500m"), id="half a CPU"),
        pytest.param("cpus: 1.0005", Candidate(cpus="1001m"), id="CPUs are rounded up"),
        pytest.param("cpus: 500m", Candidate(cpus="500m"), id="CPUs as Kubernetes writes them"),
        pytest.param("memory: 16", Candidate(memory="16Gi"), id="memory in GiB"),
        pytest.param("memory: 16+", Candidate(memory="16Gi"), id="at least so much memory"),
        pytest.param("memory: 64GB+", Candidate(memory="64Gi"), id="memory with a unit"),
        pytest.param("memory: 1.5", Candidate(memory="1536Mi"), id="memory with a fraction"),
        pytest.param("memory: 512mb", Candidate(memory="512Mi"), id="memory in small letters"),
        pytest.param("memory: 16Gi", Candidate(memory="16Gi"), id="memory as Kubernetes writes it"),
        pytest.param("memory: 2T", Candidate(memory="2Ti"), id="memory in TiB"),
        pytest.param("memory: 1000B", Candidate(memory="1000"), id="memory in bytes"),
        pytest.param("disk_size: 256", Candidate(), id="a disk, which nobody has to give"),
        pytest.param("image_id: docker:ubuntu:22.04", Candidate(image="ubuntu:22.04"), id="an image"),
        pytest.param("labels: {team: 5, on-call: yes}", Candidate(labels={"team": "5", "on-call": "yes"}), id="labels"),
        pytest.param("priority_class: high", Candidate(labels={CLASS: "high"}), id="a class of the queue"),
        pytest.param("infra: k8s", Candidate(), id="Kubernetes is here"),
        pytest.param("infra: kubernetes/*", Candidate(), id="any context is here"),
        pytest.param('infra: "*"', Candidate(), id="anywhere is here"),
        pytest.param("infra: k8s/lab", Candidate(infra="lab"), id="another context"),
        pytest.param("infra: fairway/arn:x/lab", Candidate(infra="arn:x/lab"), id="a context with a slash"),
        pytest.param("cloud: Kubernetes\nregion: lab", Candidate(infra="lab"), id="the region is the context"),
        pytest.param("", Candidate(), id="nothing"),
    ],
)
def test_what_a_node_needs(text: str, want: Candidate) -> None:
    assert candidates(text) == (want,)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("T4", [(("T4",), 1)], id="a model"),
        pytest.param("T4:4", [(("T4",), 4)], id="a model and a number"),
        pytest.param("A100-80GB:8", [(("A100-80GB",), 8)], id="a model with a dash"),
        pytest.param("{T4: 4}", [(("T4",), 4)], id="a map"),
        pytest.param("{T4: 4.0}", [(("T4",), 4)], id="a whole number with a point"),
        pytest.param("{T4:1, V100:1}", [(("T4", "V100"), 1)], id="a set of equal numbers is one candidate"),
        pytest.param("{T4: 2, V100: 2}", [(("T4", "V100"), 2)], id="a map of equal numbers is one candidate"),
        pytest.param("{T4:4, V100:1}", [(("T4",), 4), (("V100",), 1)], id="a set of several numbers is several"),
        pytest.param("[V100:2, T4:2]", [(("V100",), 2), (("T4",), 2)], id="a list is in order"),
        pytest.param("[T4, T4:1, {V100: 1}]", [(("T4",), 1), (("V100",), 1)], id="a list names each once"),
        pytest.param("gpu:2", [((), 2)], id="whatever model there is"),
        pytest.param("!!set {T4, V100}", [(("T4", "V100"), 1)], id="a set that is called one"),
    ],
)
def test_accelerators(text: str, want: list[tuple[tuple[str, ...], int]]) -> None:
    assert [(one.accelerators, one.gpus) for one in candidates(f"accelerators: {text}")] == want


def test_candidates_have_the_fields_outside_as_defaults() -> None:
    text = """
cpus: 2
infra: aws
labels: {team: a, tier: low}
ordered:
- {infra: k8s, cpus: 4, labels: {tier: high}}
- {cloud: kubernetes, region: lab, accelerators: [T4, V100]}
"""
    labels = {"team": "a", "tier": "low"}

    assert candidates(text) == (
        Candidate(cpus="4", labels={"team": "a", "tier": "high"}),
        Candidate(cpus="2", infra="lab", gpus=1, accelerators=("T4",), labels=labels),
        Candidate(cpus="2", infra="lab", gpus=1, accelerators=("V100",), labels=labels),
    )


def test_candidates_on_other_clouds_are_left_out_and_named() -> None:
    found = parsed("run: x\nresources:\n  any_of:\n  - infra: aws\n  - infra: k8s\n  - cloud: gcp\n")

    assert found.tasks[0].task.candidates == (Candidate(),)
    (warning,) = found.warnings
    assert warning == (
        "task.yaml: resources.any_of[0].infra (line 4), resources.any_of[2].cloud (line 6) mean nothing here and are "
        "left out"
    )


def test_fields_that_mean_nothing_here_are_named_in_one_warning() -> None:
    text = """
run: train
inputs: {bucket: 5}
resources:
  use_spot: true
  disk_size: 100
  ports: 8080
  instance_type: m5.large
  job_recovery: {strategy: FAILOVER, max_restarts_on_errors: 3}
config:
  nvidia_gpus: {disable_ecc: true}
  kubernetes: {autoscaler: gke, namespace: other}
"""
    (warning,) = parsed(text).warnings
    assert warning == (
        "task.yaml: inputs (line 3), resources.use_spot (line 5), resources.disk_size (line 6), resources.ports (line "
        "7), resources.instance_type (line 8), resources.job_recovery.strategy (line 9), config.nvidia_gpus (line 11), "
        "config.kubernetes.autoscaler (line 12), config.kubernetes.namespace (line 12) mean nothing here and are left "
        "out"
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("job_recovery: {max_restarts_on_errors: 3}", Recovery(max_restarts_on_errors=3), id="restarts"),
        pytest.param("job_recovery: {recover_on_exit_codes: 33}", Recovery(exit_codes=frozenset({33})), id="a code"),
        pytest.param(
            "job_recovery: {recover_on_exit_codes: [33, 34]}", Recovery(exit_codes=frozenset({33, 34})), id="codes"
        ),
        pytest.param("job_recovery: EAGER_NEXT_REGION", Recovery(), id="a strategy says nothing"),
        pytest.param(
            "any_of: [{job_recovery: {max_restarts_on_errors: 3}}]", Recovery(max_restarts_on_errors=3), id="in"
        ),
    ],
)
def test_when_a_task_is_started_again(text: str, want: Recovery) -> None:
    assert task(f"run: train\nresources:\n  {text}\n").recovery == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("90", 90),
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1w", 604800),
        ('"45"', 45),
    ],
)
def test_how_long_a_task_may_run(text: str, want: int) -> None:
    assert task(f"run: train\nmax_duration: {text}\n").max_duration_seconds == want
    assert task(f"run: train\nresources: {{max_duration: {text}}}\n").max_duration_seconds == want


def test_variables_are_text_as_it_was_written() -> None:
    text = 'run: x\nenvs: {A: 1, B: true, C: yes, D: 010, E: 1e3, F: 2024-01-01, G: "x", H: "", I: 12:30, J: n}\n'

    assert task(text).envs == {
        "A": "1", "B": "true", "C": "yes", "D": "010", "E": "1e3", "F": "2024-01-01", "G": "x", "H": "", "I": "12:30",
        "J": "n",
    }  # fmt: skip


def test_secrets_are_kept_apart_and_never_shown() -> None:
    found = parsed("run: x\nsecrets: {A: hunter2, B: null}\nenvs: {C: null}\n", secrets={"B": "x9"}, envs={"C": "c"})

    assert found.has_secrets
    assert found.tasks[0].secrets == {"A": "hunter2", "B": "x9"}
    assert found.tasks[0].task.secrets == ("A", "B")
    assert found.tasks[0].task.envs == {"C": "c"}
    assert "hunter2" not in repr(found)
    assert "x9" not in repr(Overrides(secrets={"B": "x9"}))


def test_files_are_found_with_variables_filled_in() -> None:
    text = """
run: x
envs: {WHERE: here, NAME: images}
workdir: ../$WHERE
file_mounts:
  data//./${NAME}/: ~/$NAME
  ~/x: ./x.txt
  ~/sky_workdir/conf: conf
"""
    assert [(one.source, one.path) for one in parsed(text).tasks[0].mounts] == [
        ("../here", "."),
        ("~/images", "data/images"),
        ("./x.txt", "~/x"),
        ("conf", "conf"),
    ]


def test_the_configuration_of_a_task() -> None:
    text = """
run: x
config:
  kubernetes:
    provision_timeout: 600
    remote_identity: trainer
    kueue: {local_queue_name: user-queue}
    custom_metadata: {labels: {team: a}}
    pod_config:
      metadata: {labels: {tier: low}, annotations: {note: 5}}
      spec: {nodeSelector: {disk: ssd}}
"""
    found = task(text)

    assert (found.provision_timeout_seconds, found.service_account, found.queue) == (600, "trainer", "user-queue")
    assert found.pod_config == {
        "metadata": {"labels": {"team": "a", "tier": "low"}, "annotations": {"note": "5"}},
        "spec": {"nodeSelector": {"disk": "ssd"}},
    }


def test_several_documents_are_a_pipeline() -> None:
    found = parsed("name: all\nexecution: serial\n---\nname: a\nrun: one\n---\n---\nname: b\nrun: two\n")

    assert found.name == "all"
    assert [(one.task.name, one.task.run) for one in found.tasks] == [("a", "one"), ("b", "two")]


def test_a_pipeline_needs_no_header() -> None:
    found = parsed("name: a\nrun: one\n---\nname: b\nrun: two\n")

    assert (found.name, len(found.tasks)) == ("", 2)


def test_a_command_is_a_task() -> None:
    found = parse.tasks_of(documents.of_command("python train.py"))

    assert found.tasks[0].task == Task(run="python train.py")
    assert (found.file, found.name, found.warnings) == ("", "", ())


@pytest.mark.parametrize("text", ["\ufeffrun: train\n", b"\xef\xbb\xbfrun: train\n", "run: train\r\nname:\r\n"])
def test_marks_of_other_editors_do_no_harm(text: str | bytes) -> None:
    assert parse.tasks_of(documents.read(text, "task.yaml")).tasks[0].task.run == "train"


def test_anchors_and_merges_are_written_out() -> None:
    text = (
        "envs: &e {A: 1}\nrun: x\n---\nname: x\nenvs: &b {A: 1, B: 2}\nresources:\n  labels: {<<: *b, B: 3}\nrun: y\n"
    )

    assert parsed(text).tasks[1].task.candidates[0].labels == {"A": "1", "B": "3"}
