"""`fairway completion`: scripts for shells, and what they are answered."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .looking import Here


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("completion") / "state") as server:
        for number, name in enumerate(("train", "evaluate"), start=1):
            spec = {"id": number, "name": name, "tasks": [{"run": "true"}]}
            body = {"metadata": {"name": f"{name}-{number}"}, "spec": spec}
            path = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"
            assert server.call("POST", path, body).code == 201
        yield server


def completed(state: Path, *words: str) -> list[str]:
    """The words that are offered when the last one is to be completed."""
    return [line.partition(",")[2] for line in answers(state, *words)]


def answers(state: Path, *words: str) -> list[str]:
    """What bash is told, each with its kind."""
    done = subprocess.run(
        [sys.executable, "-m", "fairway.cli.main"],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "FAIRWAY_STATE": str(state),
            "_FAIRWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("fairway", *words)),
            "COMP_CWORD": str(len(words)),
        },
        check=False,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_every_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], shell: str) -> None:
    # The state is named by the environment here: this command speaks to no server.
    from fairway.cli.main import main  # noqa: PLC0415

    assert main(["completion", shell]) == 0
    assert f"_FAIRWAY_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_the_script_is_what_bash_can_read(tmp_path: Path) -> None:
    script = subprocess.run(
        [sys.executable, "-m", "fairway.cli.main", "completion", "bash"], capture_output=True, timeout=60, check=True
    ).stdout

    assert subprocess.run(["bash", "-n"], input=script, timeout=60, check=False).returncode == 0  # noqa: S607


def test_commands_and_options(tmp_path: Path) -> None:
    assert completed(tmp_path, "des") == ["describe"]
    assert completed(tmp_path, "job", "w") == ["why", "wait"]
    assert completed(tmp_path, "jobs", "queue", "--skip") == ["--skip-finished"]


def test_jobs_by_id_and_name(server: Server) -> None:
    assert set(completed(server.state, "jobs", "why", "")) == {"1", "2", "train-1", "evaluate-2"}
    assert completed(server.state, "jobs", "queue", "tr") == ["train-1"]


def test_where_no_server_runs_nothing_is_completed_and_none_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(tmp_path / "state", "jobs", "why", "") == []
    assert {one["check"]: one["status"] for one in Here(tmp_path / "state", capsys).json("doctor")}[
        "process"
    ] == "warning"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(("jobs", "launch", "tr"), "file,tr", id="a task file"),
        pytest.param(("launch", "--env-file", "v"), "file,v", id="variables"),
        pytest.param(("launch", "--workdir", "w"), "dir,w", id="a directory"),
        pytest.param(("apply", "-f", "q"), "file,q", id="manifests"),
        pytest.param(("delete", "-f", "q"), "file,q", id="manifests to delete"),
    ],
)
def test_files_are_left_to_the_shell(tmp_path: Path, words: tuple[str, ...], want: str) -> None:
    kind, _, name = want.partition(",")

    assert answers(tmp_path, *words) == [f"{kind},{name}"]


def test_kinds_and_then_their_names(server: Server) -> None:
    assert completed(server.state, "get", "managed") == ["managedjobs"]
    assert completed(server.state, "describe", "managedjobs", "tr") == ["train-1"]
    assert completed(server.state, "delete", "nonsense", "tr") == []
    assert completed(server.state, "get", "selfsubject") == [], "what cannot be listed"


def test_queues_by_name(server: Server) -> None:
    body = {"metadata": {"name": "research"}, "spec": {"clusterQueue": "team-a"}}
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
    assert server.call("POST", path, body).code == 201

    assert completed(server.state, "jobs", "launch", "--queue", "re") == ["research"]
    assert completed(server.state, "queues", "re") == []


def test_where_no_server_runs_nothing_is_offered(tmp_path: Path) -> None:
    for words in (("get", "po"), ("jobs", "launch", "--queue", "r"), ("queues", "r"), ("jobs", "logs", "1")):
        assert completed(tmp_path / "nowhere", *words) == []
    assert not (tmp_path / "nowhere").exists()
