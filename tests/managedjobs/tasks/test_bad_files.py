"""Whatever is wrong with a task file is said in one sentence, with file, line and way out."""

import pytest

from fairway.managedjobs.tasks import documents, parse
from fairway.managedjobs.tasks.errors import TaskError

from .bad_files import BAD_FILES


@pytest.mark.parametrize(("text", "want"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_task_file_is_refused_with_one_sentence(text: str | bytes, want: str) -> None:
    with pytest.raises(TaskError) as refusal:
        parse.tasks_of(documents.read(text, "task.yaml"))

    assert str(refusal.value) == want


@pytest.mark.parametrize("want", [want for _text, want in BAD_FILES.values()], ids=BAD_FILES)
def test_every_sentence_names_file_and_line_and_is_one_line_without_secrets(want: str) -> None:
    assert want.startswith("task.yaml:")
    assert want.split(":")[1].isdecimal()
    assert want.isprintable()
    assert "hunter2" not in want


def test_a_file_that_is_too_large_is_not_read() -> None:
    with pytest.raises(TaskError) as refusal:
        documents.read("run: |\n  #" + "x" * documents.LARGEST, "task.yaml")

    assert str(refusal.value) == (
        "task.yaml: the file has 1000010 bytes, and at most 1000000 are read; put data into `workdir` or `file_mounts`"
    )


def test_aliases_that_multiply_are_not_written_out() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(TaskError) as refusal:
        documents.read("\n".join(lines), "task.yaml")

    assert str(refusal.value) == (
        "task.yaml:5:25: the YAML stands for more than 50000 values once its aliases are written out; use fewer of them"
    )


def test_a_pipeline_without_end_is_refused() -> None:
    with pytest.raises(TaskError) as refusal:
        documents.read("---\nrun: train\n" * 101, "task.yaml")

    assert str(refusal.value) == "task.yaml:202: the pipeline has more than 100 tasks; split it into several files"


def test_directives_without_end_are_refused() -> None:
    with pytest.raises(TaskError) as refusal:
        documents.read("%TAG ! x\n" * 30 + "---\nrun: train\n", "task.yaml")

    assert str(refusal.value) == "task.yaml: more than 20 lines begin with %; a task file needs none of them"
