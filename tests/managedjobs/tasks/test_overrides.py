"""What the command line says wins over the file, and is named as the flag that it is."""

from typing import Any

import pytest

from fairway.managedjobs.tasks import documents, overrides, parse
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.overrides import Overrides
from fairway.managedjobs.tasks.task import Candidate

FILE = """
run: train
num_nodes: 2
envs: {EPOCHS: 1, SEED: null}
secrets: [TOKEN]
workdir: src
max_duration: 1h
resources:
  cpus: 2
  memory: 4
  accelerators: T4:1
  infra: k8s/lab
  priority: 5
  any_of:
  - {cpus: 3, labels: {team: a}}
  - {cloud: kubernetes, memory: 8}
"""
GIVEN: dict[str, Any] = {"envs": {"SEED": "7"}, "secrets": {"TOKEN": "hunter2"}}


def parsed(**given: Any) -> parse.ParsedTask:
    (one,) = parse.tasks_of(documents.read(FILE, "task.yaml"), Overrides(**GIVEN | given)).tasks
    return one


def test_without_flags_the_file_says_it_all() -> None:
    found = parsed()

    assert found.task.envs == {"EPOCHS": "1", "SEED": "7"}
    assert found.task.candidates == (
        Candidate(infra="lab", cpus="3", memory="4Gi", gpus=1, accelerators=("T4",), labels={"team": "a"}),
        Candidate(cpus="2", memory="8Gi", gpus=1, accelerators=("T4",)),
    )
    assert (found.task.num_nodes, found.task.priority, found.task.max_duration_seconds) == (2, 5, 3600)


def test_flags_win_in_every_candidate() -> None:
    found = parsed(
        num_nodes=4, cpus="8+", memory="1GB", gpus="V100:2", infra="k8s/other", image_id="docker:img", workdir="code",
        max_duration="30m", labels={"team": "b"},
    )  # fmt: skip

    assert found.task.num_nodes == 4
    assert found.task.max_duration_seconds == 1800
    assert [(one.source, one.path) for one in found.mounts] == [("code", ".")]
    assert found.task.candidates == (
        Candidate(
            infra="other", cpus="8", memory="1Gi", gpus=2, accelerators=("V100",), image="img", labels={"team": "b"},
        ),
    )  # fmt: skip


def test_none_takes_back_what_the_file_says() -> None:
    found = parsed(cpus="none", memory="None", gpus="none", infra="none", max_duration="none")

    assert found.task.candidates == (Candidate(labels={"team": "a"}), Candidate())
    assert found.task.max_duration_seconds is None


def test_a_strategy_leaves_the_rules_of_the_file() -> None:
    text = "run: x\nresources: {job_recovery: {max_restarts_on_errors: 2}}\n"
    found = parse.tasks_of(documents.read(text, "task.yaml"), Overrides(job_recovery="FAILOVER"))

    assert found.tasks[0].task.recovery.max_restarts_on_errors == 2
    assert found.warnings == ("task.yaml: resources.job_recovery.strategy (line 2) means nothing here and is left out",)


def test_a_secret_by_flag_is_no_variable_any_more() -> None:
    found = parsed(secrets={"TOKEN": "a", "EPOCHS": "b"})

    assert found.task.envs == {"SEED": "7"}
    assert found.secrets == {"TOKEN": "a", "EPOCHS": "b"}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            {"cpus": "lots"}, '--cpus: "lots" is no number of CPUs; write for example 4, 0.5 or "4+"', id="--cpus"
        ),
        pytest.param(
            {"num_nodes": 0}, "--num-nodes: must be from 1 to 1000, but is 0; write for example 2", id="--num-nodes"
        ),
        pytest.param(
            {"gpus": "T4:0"},
            "--gpus: 0 accelerators cannot be had; ask for 1 to 1024, or leave the field out",
            id="--gpus",
        ),
        pytest.param(
            {"max_duration": "soon"},
            '--max-duration: "soon" is no duration; write for example 90s, 30m, 2h, 1d or 1h30m',
            id="--max-duration",
        ),
        pytest.param(
            {"job_recovery": "FAILVOER"},
            '--job-recovery: "FAILVOER" is no strategy; did you mean FAILOVER?',
            id="--job-recovery",
        ),
        pytest.param(
            {"envs": {"A-B": "1"}},
            '--env A-B: "A-B" is not the name of a variable; use letters, digits and `_`, such as A_B',
            id="--env with a dash",
        ),
        pytest.param(
            {"workdir": "s3://b"},
            '--workdir: "s3://b" is not on this machine, and buckets cannot be mounted here; download it, and name the '
            "local directory",
            id="--workdir",
        ),
        pytest.param(
            {"envs": {"TOKEN": "hunter2"}},
            "task.yaml:5: secrets: TOKEN is a secret; pass it with --secret TOKEN=… instead of --env",
            id="--env for a secret",
        ),
    ],
)
def test_a_wrong_flag_is_called_by_its_name(given: dict[str, Any], want: str) -> None:
    with pytest.raises(TaskError) as refusal:
        parsed(**given)

    assert str(refusal.value) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [("A=b", ("A", "b")), ("A=", ("A", "")), ("A=b=c", ("A", "b=c")), ("HOME", ("HOME", "/root"))],
)
def test_a_variable_of_the_command_line(text: str, want: tuple[str, str]) -> None:
    assert overrides.env_pair(text, "--env", {"HOME": "/root"}) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("NOPE", "--env: NOPE is not set here; pass --env NOPE=…"),
        ("A-B=c", '--env: "A-B" is not the name of a variable; use letters, digits and `_`, such as A_B'),
        ("", '--env: "" is not the name of a variable; use letters, digits and `_`, such as MY_NAME'),
    ],
)
def test_a_variable_of_the_command_line_that_is_none(text: str, want: str) -> None:
    with pytest.raises(TaskError) as refusal:
        overrides.env_pair(text, "--env", {})

    assert str(refusal.value) == want


def test_a_file_of_variables() -> None:
    text = "# comment\nA=1\nexport B = two words # said\n\nC='x # y'\nD=\"q\" # z\nE=\n"

    assert overrides.env_file(text, ".env") == {"A": "1", "B": "two words", "C": "x # y", "D": "q", "E": ""}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("A=1\nhunter2\n", ".env:2: this line is not NAME=value; write one variable a line"),
        ("A='hunter2\n", ".env:1: the quotes of the value do not match; close them at its end"),
        ("A B=hunter2\n", ".env:1: this line is not NAME=value; write one variable a line"),
        ("A-B=hunter2\n", '.env:1: "A-B" is not the name of a variable; use letters, digits and `_`, such as A_B'),
    ],
)
def test_a_file_of_variables_that_is_none(text: str, want: str) -> None:
    with pytest.raises(TaskError) as refusal:
        overrides.env_file(text, ".env")

    assert str(refusal.value) == want


def test_a_size_of_the_disk_is_named_as_what_means_nothing_here() -> None:
    found = parse.tasks_of(documents.read("run: x\n", "task.yaml"), Overrides(disk_size="100"))

    assert found.tasks[0].task.candidates == (Candidate(),)
    assert found.warnings == ("task.yaml: --disk-size means nothing here and is left out",)
