"""Pods of managed jobs on the kubelets of a cluster."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs import clusterscripts, gpulabels
from fairway.managedjobs.kubernetes import OnKubernetes, claim_name, service_name
from fairway.managedjobs.tasks.task import Candidate, CheckpointVolume, Files, Task

from .jobs import DIGEST, container_of, main_of, managed_job, pods_of, values_of

CLUSTER = OnKubernetes()


def pods(task: Task, platform: OnKubernetes = CLUSTER, **attempt: Any) -> list[Manifest]:
    return pods_of(task, platform=platform, **attempt)


@pytest.mark.parametrize(
    ("task", "platform", "image"),
    [
        pytest.param(Task(), CLUSTER, "python:3.11", id="the default"),
        pytest.param(Task(), OnKubernetes(image="team/base:1"), "team/base:1", id="the configured default"),
        pytest.param(
            Task(pod_config={"spec": {"containers": [{"image": "pod:1"}]}}), CLUSTER, "pod:1", id="of the pod_config"
        ),
        pytest.param(
            Task(candidates=(Candidate(image="task:1"),), pod_config={"spec": {"containers": [{"image": "pod:1"}]}}),
            CLUSTER,
            "task:1",
            id="the task's image_id before the pod_config",
        ),
    ],
)
def test_the_image(task: Task, platform: OnKubernetes, image: str) -> None:
    (pod,) = pods(task, platform)
    assert main_of(pod)["image"] == image
    assert "imagePullPolicy" not in main_of(pod), "Kubernetes' default: Always for :latest, else IfNotPresent"


def test_files_are_unpacked_from_secrets_by_a_container_of_the_same_image() -> None:
    files = (Files(archive=DIGEST, path="data", size=2_500_000), Files(archive="cd" * 32, path="~/x", size=1))
    (pod,) = pods(Task(files=files, candidates=(Candidate(image="task:1"),)))
    unpacking = container_of(pod, "files")
    assert unpacking["image"] == "task:1"
    assert unpacking["command"][4:] == [
        "/fairway-files/0", "/fairway/work/data", "/fairway-files/1", "/fairway/work/.home/x"
    ]  # fmt: skip
    first = next(one for one in pod["spec"]["volumes"] if one["name"] == "fairway-files-0")
    assert [one["secret"]["name"][-2:] for one in first["projected"]["sources"]] == ["-0", "-1", "-2"]
    assert main_of(pod)["workingDir"] == "/fairway/work"


def test_a_task_without_files_starts_in_the_directory_of_its_image() -> None:
    (pod,) = pods(Task(run="ls"))
    assert "workingDir" not in main_of(pod)
    assert "initContainers" not in pod["spec"]


def test_setup_and_run_are_one_container_so_that_what_is_installed_stays() -> None:
    (pod,) = pods(Task(setup="pip install torch", run="python train.py"))
    assert [one["name"] for one in pod["spec"]["containers"]] == ["run"]
    assert main_of(pod)["command"][-2:] == ["pip install torch", "python train.py"]


def test_secrets_are_references_and_never_values() -> None:
    (pod,) = pods(Task(secrets=("TOKEN",)), job=managed_job(secretName="s"))
    variable = next(one for one in main_of(pod)["env"] if one["name"] == "TOKEN")
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "s", "key": "TOKEN"}}


@pytest.mark.parametrize(
    ("volume", "nodes", "claim", "mode"),
    [
        pytest.param(CheckpointVolume(size="5Gi"), 1, "", "ReadWriteOnce", id="one node"),
        pytest.param(CheckpointVolume(size="5Gi"), 2, "", "ReadWriteMany", id="several nodes"),
        pytest.param(CheckpointVolume(access_mode="ReadWriteOnce"), 2, "", "ReadWriteOnce", id="as it is said"),
        pytest.param(CheckpointVolume(claim="shared"), 2, "shared", None, id="an existing claim"),
    ],
)
def test_checkpoints_are_on_a_claim_of_the_job(
    volume: CheckpointVolume, nodes: int, claim: str, mode: str | None
) -> None:
    job, task = managed_job(), Task(checkpoints=volume, num_nodes=nodes)
    job["spec"]["tasks"] = [{"num_nodes": nodes}]
    first, second = (pods(task, job=job, attempt=number)[0] for number in (1, 2))
    used = next(one for one in first["spec"]["volumes"] if one["name"] == "fairway-checkpoints")
    assert used["persistentVolumeClaim"]["claimName"] == (claim or claim_name(job))
    assert values_of(main_of(first))["FAIRWAY_CHECKPOINT_DIR"] == "/fairway-checkpoints/0"
    assert first["spec"]["volumes"] == second["spec"]["volumes"], "kept over attempts"
    made = [one for one in CLUSTER.needed(job, 0, task) if one["kind"] == "PersistentVolumeClaim"]
    assert [one["spec"]["accessModes"] for one in made] == ([[mode]] if mode else [])
    assert all(one["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"] for one in made)


def test_without_a_checkpoint_volume_no_directory_is_promised() -> None:
    (pod,) = pods(Task())
    assert "FAIRWAY_CHECKPOINT_DIR" not in values_of(main_of(pod))


def test_several_nodes_have_stable_names_in_a_headless_service() -> None:
    job, task = managed_job(), Task(num_nodes=2, setup="true")
    made = pods(task, job=job)
    service = service_name(job, 0)
    assert [(one["spec"]["hostname"], one["spec"]["subdomain"]) for one in made] == [
        ("train-7-1-head", service),
        ("train-7-1-worker1", service),
    ]
    named, ready = (one for one in CLUSTER.needed(job, 0, task) if one["kind"] == "Service")
    assert (named["spec"]["clusterIP"], named["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert (ready["metadata"]["name"], ready["spec"]["publishNotReadyAddresses"]) == (f"{service}-ready", False)
    labels = made[1]["metadata"]["labels"]
    assert all(labels[key] == value for key, value in named["spec"]["selector"].items())
    assert CLUSTER.needed(job, 0, Task()) == [], "one node needs no Service"


# GPUs

NODES: tuple[dict[str, str], ...] = (
    {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
    {"nvidia.com/gpu.product": "Tesla-T4", "kubernetes.io/os": "linux"},
    {"cloud.google.com/gke-accelerator": "nvidia-l4"},
    {"karpenter.k8s.aws/instance-gpu-name": "a10g"},
    {},
)


@pytest.mark.parametrize(
    ("model", "key", "value"),
    [
        ("A100-80GB", "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("t4", "nvidia.com/gpu.product", "Tesla-T4"),
        ("T4", "cloud.google.com/gke-accelerator", "nvidia-tesla-t4"),
        ("L4", "cloud.google.com/gke-accelerator", "nvidia-l4"),
        ("A10G", "karpenter.k8s.aws/instance-gpu-name", "a10g"),
        ("H100", "skypilot.co/accelerator", "h100"),
    ],
)
def test_a_model_is_found_by_any_form_of_label(model: str, key: str, value: str) -> None:
    assert value in gpulabels.labels_for([model], NODES)[key]


def test_a_node_of_another_model_never_matches() -> None:
    labels = gpulabels.labels_for(["A100"], NODES)
    assert "nvidia.com/gpu.product" not in labels, "an A100-80GB is another model, and so is a T4"


def test_a_node_without_a_label_does_not_match_on_a_cluster() -> None:
    platform = OnKubernetes(node_labels=lambda: NODES)
    (pod,) = pods(Task(candidates=(Candidate(gpus=1, accelerators=("T4",)),)), platform)
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    operators = {one["operator"] for term in required["nodeSelectorTerms"] for one in term["matchExpressions"]}
    assert operators == {"In"}


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (["T4"], ""),
        (["H100"], "no node has H100 GPUs: nodes have a100-80gb, a10g, l4, t4"),
        (["H100", "T4"], ""),
    ],
)
def test_a_sentence_says_when_no_node_has_the_model(models: list[str], sentence: str) -> None:
    assert gpulabels.missing(models, NODES) == sentence


# The scripts, run by real shells

SHELLS = [shell for shell in (["dash"], ["bash"], ["busybox", "sh"]) if shutil.which(shell[0])]
SAVES = "trap 'echo saved; exit 5' TERM; echo up; while :; do sleep 0.05; done"
_LONGEST_SECONDS = 60


@pytest.fixture(params=SHELLS, ids=lambda shell: str(shell[0]))
def shell(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    return found


def started(shell: list[str], command: list[str], where: Path) -> "subprocess.Popen[str]":
    command = [part.replace("/dev/termination-log", f"{where}/said").replace("$$", "$") for part in command[2:]]
    variables = {"PATH": os.environ["PATH"], "FAIRWAY_POD_IP": "10.1.2.3", "HOME": str(where)}
    return subprocess.Popen(  # noqa: S603 - our own script
        [*shell, "-c", *command], cwd=where, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def command(setup: str, run: str) -> list[str]:
    return clusterscripts.run_command(setup, run, own_home=False, nodes=1, checkpoints=False)


@pytest.mark.parametrize(
    ("setup", "run", "code", "output"),
    [
        pytest.param("", "echo $0 $FAIRWAY_NODE_IPS; exit 3", 3, "run 10.1.2.3\n", id="run alone"),
        pytest.param("echo s $SKYPILOT_SETUP_NODE_IPS", "echo r", 0, "s 10.1.2.3\nr\n", id="setup, then run"),
        pytest.param("exit 7", "echo never", 7, "", id="no run after a failed setup"),
        pytest.param("", "echo '$(HOME)' \"$(echo x)\" $((1+1))", 0, "$(HOME) x 2\n", id="as it was written"),
    ],
)
def test_a_shell_runs_the_scripts(
    shell: list[str], tmp_path: Path, setup: str, run: str, code: int, output: str
) -> None:
    process = started(shell, command(setup, run), tmp_path)
    assert process.communicate(timeout=_LONGEST_SECONDS)[0] == output
    assert process.returncode == code
    said = (tmp_path / "said").read_text() if (tmp_path / "said").exists() else ""
    assert said.startswith(clusterscripts.SETUP_FAILED) == (setup == "exit 7")


def test_a_signal_reaches_the_program_and_its_exit_code_counts(shell: list[str], tmp_path: Path) -> None:
    assert stopped(shell, command("", SAVES), tmp_path) == ("saved\n", 5)


def test_a_program_that_does_not_care_ends_at_once(shell: list[str], tmp_path: Path) -> None:
    assert stopped(shell, command("", "echo up; exec sleep 600"), tmp_path)[1] == 143


def test_a_signal_before_the_shell_knows_its_child_reaches_the_program(shell: list[str], tmp_path: Path) -> None:
    """Found by a container that was stopped as it started: its shell ended, its program did not."""
    slow = [part.replace("_fairway_child=$!", "sleep 0.5; _fairway_child=$!") for part in command("", SAVES)]
    assert stopped(shell, slow, tmp_path) == ("saved\n", 5)


def stopped(shell: list[str], command: list[str], where: Path) -> tuple[str, int]:
    """What a program writes that gets a SIGTERM when it is up, and the exit code."""
    with started(shell, command, where) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        return process.communicate(timeout=_LONGEST_SECONDS)[0], process.returncode


def test_a_script_beyond_the_longest_argument_is_several_arguments(tmp_path: Path) -> None:
    long = f"# {'x' * 200_000}\necho done"
    made = command("", long)
    assert max(len(part.encode()) for part in made) < 128 * 1024
    made = [part.replace("/fairway/run", f"{tmp_path}/run") for part in made]
    assert started(["sh"], made, tmp_path).communicate(timeout=_LONGEST_SECONDS)[0] == "done\n"
