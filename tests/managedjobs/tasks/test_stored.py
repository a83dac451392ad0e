"""Tasks of a ManagedJob: what is written is read back, and whatever else is there is refused by its path."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.managedjobs.tasks import parse, writing
from fairway.managedjobs.tasks.documents import Document, TaskFile
from fairway.managedjobs.tasks.envs import envs
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.places import SourceMap, Where
from fairway.managedjobs.tasks.task import (
    Candidate,
    CheckpointVolume,
    Files,
    FilesVolume,
    RayWorkers,
    Recovery,
    Task,
)

FULL = Task(
    name="train",
    num_nodes=2,
    envs={"A": "1"},
    secrets=("TOKEN",),
    files=(Files(archive="ab" * 32, path="."), Files(archive="cd" * 32, path="~/data")),
    setup="pip install .",
    run="python train.py",
    candidates=(
        Candidate(infra="lab", cpus="500m", memory="1000", gpus=2, accelerators=("T4", "V100")),
        Candidate(cpus="4", gpus=1, image="img", labels={"team": "a"}),
    ),
    recovery=Recovery(max_restarts_on_errors=3, exit_codes=frozenset({33})),
    priority=-5,
    max_duration_seconds=60,
    pod_config={"spec": {"nodeSelector": {"disk": "ssd"}}},
    service_account="trainer",
    provision_timeout_seconds=-1,
    queue="user-queue",
)


def job(*tasks: Any) -> dict[str, Any]:
    return {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "spec": {"tasks": list(tasks)}}


CHECKPOINTS = [
    Task(checkpoints=CheckpointVolume(claim="shared")),
    Task(checkpoints=CheckpointVolume(size="5Gi", storage_class="fast", access_mode="ReadWriteMany")),
    Task(checkpoints=CheckpointVolume()),
]
LARGE = Task(
    files=(Files(archive="ab" * 32, path=".", size=9_000_000, claim="fairway-files-ab"),),
    files_volume=FilesVolume(storage_class="fast", access_mode="ReadWriteMany", image="mirror/busybox:1"),
)


RAY = [
    Task(num_nodes=3, ray=RayWorkers(count=2, cpus="500m", memory="2Gi", gpus=1, accelerators=("T4",))),
    Task(num_nodes=1, ray=RayWorkers(count=0, gpus=2)),
]


@pytest.mark.parametrize(
    "task",
    [FULL, Task(run="x"), Task(), *CHECKPOINTS, LARGE, *RAY],
    ids=[
        "with everything",
        "with little",
        "with nothing",
        "a claim",
        "a volume",
        "the default volume",
        "large files",
        "ray",
        "a head",
    ],
)
def test_a_task_is_read_back_as_it_was_written(task: Task) -> None:
    assert parse.stored_tasks(job(writing.mapping_of(task))) == (task,)
    assert parse.wrong_tasks(job(writing.mapping_of(task))) == []


def test_the_form_is_the_one_of_task_files() -> None:
    assert writing.mapping_of(FULL) == {
        "name": "train",
        "num_nodes": 2,
        "resources": {
            "ordered": [
                {
                    "infra": "k8s/lab",
                    "cpus": "500m",
                    "memory": "1000B",
                    "accelerators": {"T4": 2, "V100": 2},
                },
                {"cpus": "4", "accelerators": {"gpu": 1}, "image_id": "img", "labels": {"team": "a"}},
            ],
            "job_recovery": {"max_restarts_on_errors": 3, "recover_on_exit_codes": [33]},
            "priority": -5,
        },
        "envs": {"A": "1"},
        "secrets": ["TOKEN"],
        "files": [{"archive": "ab" * 32, "path": "."}, {"archive": "cd" * 32, "path": "~/data"}],
        "setup": "pip install .",
        "run": "python train.py",
        "max_duration": 60,
        "config": {
            "kubernetes": {
                "pod_config": {"spec": {"nodeSelector": {"disk": "ssd"}}},
                "provision_timeout": -1,
                "remote_identity": "trainer",
                "kueue": {"local_queue_name": "user-queue"},
            }
        },
    }


MANY = [f"T{number}:1" for number in range(2000)]


@pytest.mark.parametrize(
    ("tasks", "field", "words"),
    [
        pytest.param([{"run": "x"}] * 101, "spec.tasks", "a job has at most 100 tasks, and here are 101", id="tasks"),
        pytest.param(
            [{"run": "x", "resources": {"accelerators": MANY, "any_of": [{"cpus": 1}] * 2000}}],
            "spec.tasks[0].resources",
            "stands for more than 50 candidates",
            id="candidates",
        ),
        pytest.param(
            [{"run": "x", "resources": {"labels": {f"a{n}": "b" for n in range(501)}, "any_of": [{"cpus": 1}] * 50}}],
            "spec.tasks[0].resources.labels",
            "has 501 labels, and at most 500 fit",
            id="labels",
        ),
    ],
)
def test_a_small_job_that_stands_for_much_is_refused_at_once(tasks: list[Any], field: str, words: str) -> None:
    """Four million candidates were written out before they were counted: half a minute for a body of 30 KB."""
    began = time.process_time()
    (wrong,) = parse.wrong_tasks(job(*tasks))

    assert time.process_time() - began < 1
    assert wrong.path == field
    assert words in wrong.message


def test_what_people_write_by_hand_is_read_too() -> None:
    mapping = {
        "run": "x",
        "resources": {"cpus": 4, "use_spot": True, "accelerators": "T4:4"},
        "envs": {"A": 1, "B": True},
    }

    assert parse.stored_tasks(job(mapping)) == (
        Task(run="x", candidates=(Candidate(cpus="4", gpus=4, accelerators=("T4",)),), envs={"A": "1", "B": "true"}),
    )


@pytest.mark.parametrize(
    ("mapping", "want"),
    [
        pytest.param(
            {"resources": {"cpus": 0}},
            "spec.tasks[1].resources.cpus: Invalid value: 0: 0 CPUs cannot run anything; ask for more than 0, such as "
            "0.5 or 1",
            id="no CPUs",
        ),
        pytest.param(
            {"rum": "x"},
            "spec.tasks[1].rum: Unknown field: there is no such field; did you mean run?",
            id="a typo",
        ),
        pytest.param(
            {"workdir": "."},
            "spec.tasks[1].workdir: Forbidden: is for task files; a stored task has `files: [{archive: SHA-256, path: "
            "data}]`",
            id="a directory",
        ),
        pytest.param(
            {"secrets": {"A": "hunter2"}},
            "spec.tasks[1].secrets: Forbidden: must be a list of names; their values are in the Secret of "
            "spec.secretName",
            id="the values of secrets",
        ),
        pytest.param(
            {"envs": {"A": None}},
            "spec.tasks[1].envs.A: Invalid value: null: has no value; a job that is launched has all of them",
            id="a variable without a value",
        ),
        pytest.param(
            {"files": [{"archive": "abc", "path": "."}]},
            'spec.tasks[1].files[0].archive: Invalid value: "abc": "abc" is no SHA-256; write its 64 digits in hex',
            id="an archive that is none",
        ),
        pytest.param(
            {"files": [{"archive": "ab" * 32, "path": "/etc"}]},
            'spec.tasks[1].files[0].path: Invalid value: "/etc": "/etc" is an absolute path, and jobs share the files '
            "of this machine; write etc (below the working directory) or ~/etc",
            id="files in a place of others",
        ),
        pytest.param(
            {"files": {}},
            "spec.tasks[1].files: Invalid value: {}: must be a list of at most 100 entries like {archive: SHA-256, "
            "path: data}",
            id="files that are no list",
        ),
        pytest.param(
            {"run": "a\0b"},
            "spec.tasks[1].run: Invalid value: null: holds a NUL character, which no process can be given; remove it",
            id="a NUL",
        ),
        pytest.param(
            "x",
            'spec.tasks[1]: Invalid value: "x": must be a map, but is text; write for example {run: echo hello}',
            id="text",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(mapping: Any, want: str) -> None:
    (error,) = parse.wrong_tasks(job({"run": "x"}, mapping))

    assert str(error) == want


def test_every_task_is_asked() -> None:
    assert [error.path for error in parse.wrong_tasks(job({"a": 1}, {"run": "x"}, {"b": 1}))] == [
        "spec.tasks[0].a",
        "spec.tasks[2].b",
    ]


@pytest.mark.parametrize("manifest", [{}, {"spec": None}, {"spec": {"tasks": []}}, {"spec": {"tasks": "x"}}])
def test_a_job_without_tasks_has_none_to_give(manifest: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match=r"^spec\.tasks: must be a list of at least one task$"):
        parse.stored_tasks(manifest)


_NAMES = st.sampled_from(
    [
        *(
            "name",
            "num_nodes",
            "workdir",
            "envs",
            "secrets",
            "file_mounts",
            "setup",
            "run",
            "config",
            "resources",
            "pool",
        ),
        *(
            "max_duration",
            "files",
            "cpus",
            "memory",
            "accelerators",
            "labels",
            "priority",
            "image_id",
            "infra",
            "cloud",
        ),
        *("region", "any_of", "ordered", "disk_size", "use_spot", "job_recovery", "strategy", "max_restarts_on_errors"),
        *(
            "recover_on_exit_codes",
            "kubernetes",
            "pod_config",
            "provision_timeout",
            "metadata",
            "spec",
            "archive",
            "path",
        ),
    ]
)
_WORDS = st.sampled_from(
    [
        *("4", "4+", "16GB", "T4:4", "T4", "k8s", "k8s/lab", "aws", "1h", ".", "~/x", "none", "", "a b", "ab" * 32),
        *("\0", "é", "\ud800", "user-queue", "kueue.x-k8s.io/queue-name"),
    ]
)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.text(max_size=5)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def as_file(mapping: dict[str, Any]) -> Task | str:
    """The task that a file with these fields gives, or what is said about it."""
    try:
        found = parse.tasks_of(TaskFile(file="task.yaml", tasks=(Document(mapping, SourceMap("task.yaml")),)))
    except TaskError as error:
        return str(error)
    return found.tasks[0].task


@given(value=_VALUES, tasks=st.dictionaries(_NAMES, _VALUES, max_size=6))
@settings(max_examples=100, deadline=None)
def test_nothing_that_is_stored_or_read_crashes_the_reader(value: Any, tasks: dict[str, Any]) -> None:
    for one in (value, tasks, {**tasks, "resources": value}, {"config": {"kubernetes": value}}):
        found = parse.wrong_tasks(job(one))
        assert all(error.path.startswith("spec.tasks[0]") for error in found)
        if not found:
            (task,) = parse.stored_tasks(job(one))
            assert parse.stored_tasks(job(writing.mapping_of(task))) == (task,)
        read = as_file(one) if type(one) is dict else ""
        if isinstance(read, Task):
            assert parse.task_of(writing.mapping_of(read), Where(SourceMap())) == read
        else:
            assert read.isprintable()


_LABELS = st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.from_regex(r"[a-z0-9]{0,5}", fullmatch=True))
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
_RECOVERIES = st.builds(
    Recovery, max_restarts_on_errors=st.integers(0, 9), exit_codes=st.frozensets(st.integers(0, 255))
)
_CANDIDATES = st.builds(
    Candidate,
    infra=st.sampled_from(["", "lab", "arn:x/y"]),
    cpus=st.integers(1, 10**6).map(lambda milli: f"{milli}m" if milli % 1000 else str(milli // 1000)),
    memory=st.sampled_from(["", "16Gi", "1536Mi", "1000", "1Ki", "1Pi"]),
    gpus=st.just(0),
    image=st.sampled_from(["", "img:1"]),
    labels=_LABELS,
)
_GPU_CANDIDATES = st.builds(
    Candidate, gpus=st.integers(1, 8), accelerators=st.sampled_from([(), ("T4",), ("T4", "V100")]), labels=_LABELS
)


@given(
    task=st.builds(
        Task,
        name=st.sampled_from(["", "train", "Été 1"]),
        num_nodes=st.integers(1, 1000),
        envs=st.dictionaries(st.sampled_from(["A", "B_1"]), _TEXTS),
        secrets=st.sampled_from([(), ("TOKEN",)]),
        setup=st.sampled_from(["", "x"]),
        run=st.sampled_from(["", "echo\n"]),
        candidates=st.lists(_CANDIDATES | _GPU_CANDIDATES, min_size=1, max_size=3, unique_by=repr).map(tuple),
        recovery=_RECOVERIES,
        priority=st.none() | st.integers(-(2**31), 2**31 - 1),
        max_duration_seconds=st.none() | st.integers(1, 10**6),
        provision_timeout_seconds=st.none() | st.integers(-1, 10**6),
        queue=st.sampled_from(["", "user-queue"]),
    )
)
@settings(max_examples=50, deadline=None)
def test_every_task_survives_being_stored(task: Task) -> None:
    assert parse.stored_tasks(job(writing.mapping_of(task))) == (task,)


def test_a_variable_that_no_process_can_be_given_is_refused_and_one_byte_less_is_not() -> None:
    where = Where(SourceMap())
    assert envs({"A": "x" * (128 * 1024 - 3)}, where)
    with pytest.raises(TaskError, match="no process can be given"):
        envs({"A": "x" * (128 * 1024 - 2)}, where)
