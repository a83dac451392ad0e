"""What a launch takes from the shell: bare commands run in a copy of this directory, or in it, with this Python."""

import os
import stat
import sys
from pathlib import Path

import pytest

from .conftest import Commands

OWN = Path(sys.prefix)


def program(path: Path, says: str) -> Path:
    """A program that says something."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def shell(monkeypatch: pytest.MonkeyPatch, *path: Path, **variables: str) -> None:
    """A shell with these directories first on its PATH."""
    monkeypatch.setenv("PATH", ":".join([*map(str, path), "/usr/bin", "/bin"]))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def run(fairway: Commands, *words: str) -> str:
    return fairway("jobs", "launch", "-y", *words)


def test_a_command_runs_in_a_copy_of_this_directory(fairway: Commands) -> None:
    (fairway.directory / "train.py").write_text("print('trained')")

    assert run(fairway, "--", "python3", "train.py") == "trained\n"
    assert run(fairway, "echo made >made; cat train.py made") == "print('trained')made\n"
    assert not (fairway.directory / "made").exists()


def test_a_task_file_without_a_workdir_runs_in_an_empty_directory(fairway: Commands) -> None:
    (fairway.directory / "task.yaml").write_text("run: ls")

    assert run(fairway, "task.yaml") == ""


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["--workdir", "none"], "", id="without any"),
        pytest.param(["--workdir", "other"], "inside\n", id="in a copy of another"),
    ],
)
def test_a_command_runs_where_it_is_told_to(fairway: Commands, words: list[str], want: str) -> None:
    (fairway.directory / "other").mkdir()
    (fairway.directory / "other" / "inside").touch()

    assert run(fairway, *words, "ls") == want


def test_a_home_directory_is_not_copied_unasked(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    (fairway.directory / "secret").touch()
    monkeypatch.setenv("HOME", str(fairway.directory))

    said = fairway.run("jobs", "launch", "-y", "ls")

    assert (said.code, said.output) == (0, "")
    assert f"{fairway.directory} is not copied, because it is your home directory" in said.errors
    assert "--workdir and --in-place" in said.errors


def test_a_directory_of_everybodys_files_is_not_copied_unasked(fairway: Commands) -> None:
    (fairway.directory / "of-another").touch()
    fairway.directory.chmod(0o1777)

    assert "is not copied, because it is writable by all users" in fairway.run("jobs", "launch", "-y", "ls").errors


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["pwd; echo made >made"], id="a command in this one"),
        pytest.param(["task.yaml"], id="a task file without a workdir in this one, too"),
    ],
)
def test_in_place_a_task_works_in_the_directory_itself(fairway: Commands, words: list[str]) -> None:
    (fairway.directory / "task.yaml").write_text("run: pwd; echo made >made")

    assert run(fairway, "--in-place", *words) == f"{fairway.directory}\n"
    assert (fairway.directory / "made").read_text() == "made\n"


def test_in_place_setup_and_run_work_in_the_workdir_of_the_task_file(fairway: Commands) -> None:
    (fairway.directory / "code").mkdir()
    (fairway.directory / "task.yaml").write_text("workdir: code\nsetup: touch made\nrun: pwd; ls")

    assert run(fairway, "--in-place", "task.yaml") == f"{fairway.directory}/code\nmade\n"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["--infra", "k8s/there", "ls"], "infra names another; remove one", id="another machine"),
        pytest.param(["--kubeconfig", "there", "ls"], "and another one is selected", id="at another server"),
        pytest.param(["mounts.yaml"], "mounts.yaml:1: file_mounts.data: file_mounts would be written", id="mounts"),
        pytest.param(["--workdir", "gone", "ls"], "--workdir", id="in a directory that is not there"),
    ],
)
def test_what_cannot_be_done_in_place_is_refused(fairway: Commands, words: list[str], want: str) -> None:
    (fairway.directory / "mounts.yaml").write_text("file_mounts: {data: .}\nrun: ls")

    assert want in fairway.refused("jobs", "launch", "-y", "--in-place", *words, code=2)


def test_in_place_is_refused_where_the_server_runs_as_another_user(
    fairway: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)

    assert "runs as another user" in fairway.refused("jobs", "launch", "-y", "--in-place", "ls", code=2)


def test_a_command_finds_the_programs_and_the_python_of_this_shell(
    fairway: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = fairway.directory / ".venv"
    program(venv / "bin" / "python", "my python")
    shell(monkeypatch, venv / "bin", VIRTUAL_ENV=str(venv), OTHER="not passed on")

    assert run(fairway, "--in-place", "--", "python", "train.py") == "my python\n"
    assert run(fairway, "echo $VIRTUAL_ENV $OTHER") == f"{venv}\n"


def test_what_is_said_with_env_wins_over_the_shell(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(monkeypatch, VIRTUAL_ENV="/mine")

    assert run(fairway, "--env", "VIRTUAL_ENV=/other", "echo $VIRTUAL_ENV") == "/other\n"


def test_a_task_file_gets_nothing_of_this_shell(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(monkeypatch, fairway.directory / "bin", VIRTUAL_ENV="/mine")
    (fairway.directory / "task.yaml").write_text("run: echo $VIRTUAL_ENV $PATH")

    assert str(fairway.directory) not in run(fairway, "task.yaml")


def test_a_program_of_fairways_own_environment_is_replaced_by_the_next_one(
    fairway: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = program(fairway.directory / "bin" / "python", "my python")
    shell(monkeypatch, OWN / "bin", mine.parent, VIRTUAL_ENV=str(OWN))

    said = fairway.run("jobs", "launch", "-y", "--", "python", "train.py")

    assert (said.code, said.output) == (0, "my python\n")
    assert f"python is {mine} for the job: Fairway's own environment ({OWN}) is not used." in said.errors
    assert run(fairway, "echo $VIRTUAL_ENV") == "\n"


def test_a_program_that_only_fairways_own_environment_has_is_refused(
    fairway: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, python3 = fairway.directory / "empty", program(fairway.directory / "bin" / "python3", "python")
    monkeypatch.setenv("PATH", f"{OWN / 'bin'}:{empty}")
    assert "activate the environment of your project" in fairway.refused("jobs", "launch", "-y", "python x.py", code=2)
    monkeypatch.setenv("PATH", f"{OWN / 'bin'}:{python3.parent}")
    said = fairway.refused("jobs", "launch", "-y", "--", "python", "x.py", code=2)

    assert said == (
        f"error: the command: python is only found in Fairway's own environment ({OWN}), which jobs do not use; "
        "write python3, or activate the environment of your project"
    )
