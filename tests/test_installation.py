"""Fairway's own Python environment: how it is recognised, and what is left of variables without it."""

import sys
from pathlib import Path

import pytest

from fairway.installation import own_environment, without_own

SOURCES = str(Path(__file__).parents[1] / "src")


def environment(tmp_path: Path, *parts: str) -> Path:
    """A directory with these subdirectories, such as those by which conda is recognised."""
    prefix = tmp_path / "prefix"
    for part in ("bin", *parts):
        (prefix / part).mkdir(parents=True)
    return prefix


def test_a_virtual_environment_is_fairways_own(tmp_path: Path) -> None:
    assert own_environment(str(tmp_path), "/usr") == tmp_path


def test_a_conda_environment_is_fairways_own_and_the_base_of_conda_is_not(tmp_path: Path) -> None:
    prefix = str(environment(tmp_path, "conda-meta"))
    assert own_environment(prefix, prefix) == Path(prefix)
    (Path(prefix) / "condabin").mkdir()
    assert own_environment(prefix, prefix) is None


def test_the_python_of_the_system_is_nobodys_own(tmp_path: Path) -> None:
    prefix = str(environment(tmp_path))
    assert own_environment(prefix, prefix) is None
    assert without_own({"PATH": f"{prefix}/bin:/bin"}, None) == {"PATH": f"{prefix}/bin:/bin"}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"PATH": "{own}/bin:/usr/bin:/bin"}, {"PATH": "/usr/bin:/bin"}, id="its programs"),
        pytest.param({"PATH": "/bin:{link}/bin:/sbin"}, {"PATH": "/bin:/sbin"}, id="its programs by another name"),
        pytest.param({"PATH": "{own}/bin"}, {}, id="a path of nothing else"),
        pytest.param({"PATH": "{own}-mine/bin:"}, {"PATH": "{own}-mine/bin:"}, id="not one that is called alike"),
        pytest.param({"LD_LIBRARY_PATH": "{own}/lib:/opt/cuda"}, {"LD_LIBRARY_PATH": "/opt/cuda"}, id="its libraries"),
        pytest.param({"PYTHONPATH": f"{SOURCES}:/my/lib"}, {"PYTHONPATH": "/my/lib"}, id="its sources"),
        pytest.param({"VIRTUAL_ENV": "{own}", "VIRTUAL_ENV_PROMPT": "(x)", "A": "b"}, {"A": "b"}, id="activated"),
        pytest.param({"VIRTUAL_ENV": "/my/venv"}, {"VIRTUAL_ENV": "/my/venv"}, id="not the user's"),
        pytest.param({"CONDA_PREFIX": "{link}", "CONDA_DEFAULT_ENV": "x"}, {}, id="activated by conda"),
    ],
)
def test_what_is_fairways_own_is_left_out(tmp_path: Path, given: dict[str, str], want: dict[str, str]) -> None:
    own, link = environment(tmp_path), tmp_path / "link"
    link.symlink_to(own)

    def filled(variables: dict[str, str]) -> dict[str, str]:
        return {name: text.format(own=own, link=link) for name, text in variables.items()}

    assert without_own(filled(given), own) == filled(want)


def test_the_tests_run_in_an_environment_that_would_be_left_out() -> None:
    """`make test` sets one up; the tests of jobs rely on it."""
    assert own_environment() == Path(sys.prefix)
