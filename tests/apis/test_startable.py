"""What no process can be started with is refused when it is written, and whatever is accepted can be started."""

import subprocess
from typing import Any

import pytest

from fairway.apis.core.references import wrong_environment
from fairway.apis.core.startable import LONGEST_STRING, MOST_BYTES, wrong_arguments


def faults(container: dict[str, Any]) -> list[str]:
    found = [*wrong_environment(container, "c"), *wrong_arguments(container, "c")]
    return [one.path for one in found]


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param({"env": [{"name": "A", "value": "x\0y"}]}, ["c.env[0].value"], id="a NUL in a value"),
        pytest.param({"env": [{"name": "A\0", "value": "x"}]}, ["c.env[0].name"], id="a NUL in a name"),
        pytest.param({"env": [{"name": "A=B", "value": "x"}]}, ["c.env[0].name"], id="= in a name"),
        pytest.param(
            {"env": [{"name": "A", "value": "x" * (LONGEST_STRING - 2)}]}, ["c.env[0].value"], id="a long value"
        ),
        pytest.param({"env": [{"name": "A", "value": "é" * (LONGEST_STRING // 2)}]}, ["c.env[0].value"], id="in bytes"),
        pytest.param({"command": ["a", "b\0"]}, ["c.command[1]"], id="a NUL in a command"),
        pytest.param({"args": ["x" * LONGEST_STRING]}, ["c.args[0]"], id="a long argument"),
        pytest.param({"args": ["x" * 100_000] * 30}, ["c"], id="too much in all"),
        pytest.param({"env": [{"name": "A", "value": "$(B)"}], "args": ["a", ""]}, [], id="all is well"),
    ],
)
def test_what_is_refused(container: dict[str, Any], want: list[str]) -> None:
    assert faults(container) == want


def test_the_largest_that_is_accepted_can_be_started() -> None:
    value, argument = "x" * (LONGEST_STRING - 3), "y" * (LONGEST_STRING - 1)
    assert faults({"env": [{"name": "A", "value": value}], "args": [argument]}) == []
    subprocess.run(["/bin/true", argument], env={"A": value}, check=True)  # noqa: S603
    many = ["z" * 1000] * (MOST_BYTES // 1009 - 10)
    assert faults({"args": many}) == []
    subprocess.run(["/bin/true", *many], env={}, check=True)  # noqa: S603
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["/bin/true"], env={"A": value + "xx"}, check=False)
