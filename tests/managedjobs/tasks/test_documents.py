"""Texts of any sort become documents or one `TaskError`, in bounded time; every key and value has its line."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.managedjobs.tasks import documents, parse
from fairway.managedjobs.tasks.errors import TaskError

TEXT = """
# a comment
name: train

resources:
  cpus:
    4
  any_of:
  - infra: k8s
  -
    infra: aws
envs: {A: 1,
  B: 2}
"""


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("name",), 3, 3),
        (("resources",), 5, 5),
        (("resources", "cpus"), 6, 7),
        (("resources", "any_of"), 8, 8),
        (("resources", "any_of", 0), 9, 9),
        (("resources", "any_of", 1, "infra"), 11, 11),
        (("envs", "A"), 12, 12),
        (("envs", "B"), 13, 13),
        (("envs", "C"), 12, 12),
    ],
)
def test_every_key_and_value_has_its_line(path: tuple[str | int, ...], key: int, value: int) -> None:
    where = documents.read(TEXT, "task.yaml").tasks[0].where.at(*path)

    assert where.error("x", of_key=True).line == key
    assert where.error("x").line == value


@pytest.mark.parametrize(
    "text",
    [
        "[" * 900_000,
        "{" * 900_000,
        "- " * 400_000,
        "? " * 400_000,
        "a: " * 300_000,
        "&a " * 300_000,
        "run: '" + "\\" * 900_000,
        "run: " + "[x, " * 200_000,
        "\n".join(f"k{n}: {n}" for n in range(60_000)),
        "--- a\n" * 100_000,
        "!" * 900_000,
    ],
    ids=lambda text: text[:6],
)
def test_a_text_made_to_hurt_is_refused_in_good_time(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(TaskError):
        documents.read(text, "task.yaml")

    assert time.process_time() - begun < 5


def refusal(text: str | bytes) -> str:
    """What is said about a text; empty if it is a task file. Any other error is a crash."""
    try:
        parse.tasks_of(documents.read(text, "task.yaml"))
    except TaskError as error:
        return str(error)
    return ""


_PIECES = st.sampled_from(
    [
        "run:", "resources:", "cpus:", " ", "  ", "\n", "\n  ", "\n- ", "\t", "4", "T4:4", "{", "}", "[", "]", ",", ":",
        "'", '"', "|", ">", "&a", "*a", "<<:", "!", "!!str", "#", "---", "...", "%", "@", "\\", "é", "~", "null", "\0",
        "\ufeff",
    ]
)  # fmt: skip


@given(text=st.lists(_PIECES, max_size=25).map("".join) | st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_no_text_crashes_the_reader(text: str) -> None:
    assert "\n" not in refusal(text)
    assert "\n" not in refusal(text.encode(errors="surrogatepass"))


@given(data=st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    assert "\n" not in refusal(data)
