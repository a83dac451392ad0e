"""The harness itself: what is found on a page, and when two outputs are alike."""

import pytest

from .blocks import Before, Command, File, NotRun, steps
from .matching import alike


def block(*rows: str, language: str = "console") -> str:
    return "\n".join([f"```{language}", *rows, "```", ""])


def test_commands_have_the_lines_below_them_as_output() -> None:
    rows = ("$ one", "first", "", "last", "$ two \\", "> more", "$ three   # exits with 2")
    text = "# A page\n\n" + block(*rows)

    assert steps(text) == [
        Command(4, "one", ("first", "", "last")),
        Command(8, "two \\\nmore", ()),
        Command(10, "three   # exits with 2", ()),
    ]
    assert [one.exit_code for one in steps(text) if isinstance(one, Command)] == [0, 0, 2]


def test_comments_say_what_comes_first_and_what_is_left_out() -> None:
    text = (
        "<!-- before:\none\ntwo\n-->\n" + block("$ x") + "<!-- not run: needs a GPU -->\n" + block("$ y") + block("$ z")
    )

    assert steps(text) == [Before(1, "one\ntwo"), Command(6, "x", ()), NotRun(9, "needs a GPU"), Command(13, "z", ())]


def test_a_block_that_begins_with_the_name_of_a_file_is_that_file() -> None:
    text = block("# a/train.yaml", "run: x", language="yaml") + block("# a comment, no name", "x: 1", language="yaml")

    assert steps(text) == [File("a/train.yaml", "# a/train.yaml\nrun: x\n")]


def test_what_is_indented_as_code_is_only_shown() -> None:
    assert steps("    ```console\n    $ x\n    ```\n\n    <!-- not run: why -->\n") == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(block("no prompt"), id="output without a command"),
        pytest.param("<!-- not run: -->\n" + block("$ x"), id="left out without a reason"),
        pytest.param("<!-- not run: why -->\n", id="nothing to leave out"),
    ],
)
def test_what_cannot_be_understood_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"block|reason"):
        steps(text)


@pytest.mark.parametrize(
    ("shown", "printed", "want"),
    [
        pytest.param(["a  b"], ["a b"], True, id="columns may be wider"),
        pytest.param(["a"], ["b"], False, id="another text"),
        pytest.param(["a"], ["a", "b"], False, id="one line more"),
        pytest.param(["a", "b"], ["a"], False, id="one line less"),
        pytest.param(["a", "..."], ["a"], True, id="any number of lines can be none"),
        pytest.param(["...", "z"], ["a", "b", "z"], True, id="any number of lines first"),
        pytest.param(["a", "...", "z"], ["a", "b", "c", "z"], True, id="any number of lines between"),
        pytest.param(["a", "...", "z"], ["a", "b"], False, id="what follows must be there"),
        pytest.param(["a ... z"], ["a b c z"], True, id="any text in a line"),
        pytest.param(["a … z"], ["a b", "z"], False, id="but not in two"),
        pytest.param(["waited for 3s"], ["waited for 2m5s"], True, id="times"),
        pytest.param(["25s ago"], ["0s ago"], True, id="ages"),
        pytest.param(["needs 2 CPUs"], ["needs 3 CPUs"], False, id="amounts are compared"),
        pytest.param(["Job 2 (a)"], ["Job 3 (a)"], False, id="job numbers are compared"),
        pytest.param(
            ["at https://127.0.0.1:7437 (process 1)."], ["at https://127.0.0.1:5 (process 23)."], True, id="pids"
        ),
        pytest.param(["pod/hello-x7k2p"], ["pod/hello-5bqzt"], True, id="random endings of names"),
        pytest.param(["pod/train-head"], ["pod/train-worker1"], False, id="other endings"),
        pytest.param(["a", ""], ["a"], True, id="empty lines at the end"),
    ],
)
def test_outputs_are_alike_but_for_what_changes_from_run_to_run(
    shown: list[str], printed: list[str], want: object
) -> None:
    assert alike(shown, printed) is want
