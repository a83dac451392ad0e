"""Which server a command speaks to, as whom and about which namespace; and that one starts by itself, but only one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cli.conftest import CommandLine
from fairway.runtime.lease import LOCK_NAME, Hold, holder
from fairway.testing.servers import Server

from .conftest import Commands, until


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    """A state directory on which nothing runs yet."""
    monkeypatch.setenv("FAIRWAY_PORT", "0")
    command_line = CommandLine(tmp_path / "state")
    yield command_line
    command_line("shutdown", "--jobs")


def test_the_server_starts_by_itself(alone: CommandLine) -> None:
    said = alone.run("jobs", "launch", "-y", "echo hello")

    assert (said.returncode, said.stdout) == (0, "hello\n")
    first, second, *_ = said.stderr.splitlines()
    assert first == f"No server is running on {alone.state}; starting one ..."
    pid = holder(alone.state)
    assert second.startswith("Fairway is up at https://127.0.0.1:")
    assert second.endswith(f"(process {pid}); `fairway shutdown` stops it.")
    assert "starting one" not in alone.run("jobs", "queue").stderr, "the next one finds it running"


def test_of_commands_that_come_at_once_one_starts_the_server_and_all_are_served(
    alone: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_STATE", str(alone.state))
    monkeypatch.setenv("HOME", str(tmp_path))
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "fairway.cli.main", "jobs", "launch", "--async", "-y", "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    ended = [process.communicate(timeout=60) for process in started]

    assert sorted(output.strip() for output, _ in ended) == ["1", "2", "3"]
    assert sum("`fairway shutdown` stops it" in errors for _, errors in ended) == 1
    assert alone.state.joinpath("server.log").read_text().count("Fairway is serving at") == 1


def test_a_server_that_cannot_start_is_told_of_with_the_way_out(
    alone: CommandLine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_PORT", server.url.rpartition(":")[2])

    said = alone.refused("jobs", "queue")

    assert "the server did not start: cannot listen on 127.0.0.1:" in said
    assert "FAIRWAY_PORT=0 picks a free port" in said


def is_waiting(process: int) -> bool:
    """Whether a command sleeps again and again, as it does nowhere but while it waits for a server."""
    return int(psutil.Process(process).num_ctx_switches().voluntary) > 60


def test_a_server_that_is_only_just_starting_is_waited_for(
    alone: CommandLine, fairway: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = alone.state
    state.mkdir(mode=0o700)
    monkeypatch.setenv("FAIRWAY_STATE", str(state))
    with Hold.acquire(state), fairway.process("jobs", "queue") as waiting:
        until(lambda: is_waiting(waiting.started.pid))
        assert waiting.started.poll() is None, "it goes on waiting"
        (state / LOCK_NAME).unlink()  # as good as the end of whoever had it
        said, code = waiting.rest()

    assert code == 1
    assert f"the server on {state} ended before it answered; see {state / 'server.log'}" in said


@pytest.mark.parametrize(
    ("variable", "value", "want"),
    [
        pytest.param("FAIRWAY_PORT", "many", "FAIRWAY_PORT 'many': a port is a number", id="a port that is none"),
        pytest.param("FAIRWAY_KUBECONFIG", "nowhere", "nowhere: no such file", id="a kubeconfig that is not"),
        pytest.param("FAIRWAY_CONTEXT", "nobody", "nobody", id="a context that is not"),
    ],
)
def test_what_leads_nowhere_is_said(
    alone: CommandLine,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    want: str,
) -> None:
    if variable == "FAIRWAY_CONTEXT":
        monkeypatch.setenv("FAIRWAY_KUBECONFIG", str(server.kubeconfig))
    monkeypatch.setenv(variable, value)

    assert want in alone.refused("jobs", "queue")


@pytest.fixture
def ben(fairway: Commands, server: Server, tmp_path: Path) -> Path:
    """The kubeconfig of somebody who may use one namespace, which is not ours."""
    for name in ("research", "trials"):
        server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        server.call(
            "POST",
            f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{name}/localqueues",
            {"metadata": {"name": "user-queue"}, "spec": {"clusterQueue": "cluster-queue"}},
        )
    fairway.run("users", "remove", "ben")
    path = tmp_path / "ben.kubeconfig"
    path.write_text(fairway("users", "add", "ben", "--role", "editor", "--namespace", "research", "-o", "kubeconfig"))
    return path


def test_two_users_have_each_their_own_jobs(
    fairway: Commands, server: Server, ben: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--namespace", "research", "--queue", "user-queue")
    mine = fairway.json("jobs", "launch", *place, "-n", "mine", "exec sleep 1000")[0]
    elsewhere = fairway.json("jobs", "launch", "-n", "elsewhere", "true")[0]
    monkeypatch.setenv("FAIRWAY_KUBECONFIG", str(ben))
    his = fairway.json("jobs", "launch", *place, "-n", "his", "exec sleep 1000")[0]

    assert his["user"] == "ben"
    assert mine["user"] not in ("ben", "")
    listed = [one["name"] for one in fairway.json("jobs", "queue", "--namespace", "research")]
    assert listed == ["his"], "by default one's own"
    assert "forbidden" in fairway.refused("jobs", "launch", "--async", "--namespace", "trials", "true").lower()
    assert "there is no job" in fairway.refused("jobs", "cancel", "-y", "--namespace", "research", str(elsewhere["id"]))
    said = fairway("jobs", "cancel", "-a", "-y", "--namespace", "research")
    assert said == f"Job {his['id']} (his) cancelled.\n"
    monkeypatch.delenv("FAIRWAY_KUBECONFIG")
    assert fairway("jobs", "cancel", "-a", "-y", "--namespace", "research") == f"Job {mine['id']} (mine) cancelled.\n"


def test_a_job_is_known_by_its_id_in_every_namespace(fairway: Commands, ben: Path) -> None:
    number = fairway.json("jobs", "launch", "--namespace", "research", "--queue", "user-queue", "echo found")[0]["id"]

    assert fairway("jobs", "logs", str(number)) == "found\n"


def test_the_namespace_is_that_of_the_flag_the_environment_the_files_or_the_context(
    fairway: Commands, tmp_path: Path, ben: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def namespace(*words: str) -> str:
        told = fairway.json("jobs", "launch", *words, "true")
        return str(told[0]["namespace"])

    assert namespace() == "default"
    (tmp_path / ".fairway.yaml").write_text("server: {namespace: research}\n")
    assert namespace() == "research"
    monkeypatch.setenv("FAIRWAY_NAMESPACE", "trials")
    assert namespace() == "trials"
    assert namespace("--namespace", "default") == "default"


def test_a_question_is_asked_on_a_terminal_alone(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def __init__(self, answer: str) -> None:
            self._answer = answer

        def isatty(self) -> bool:
            return True

        def readline(self, _size: int = -1) -> str:
            return f"{self._answer}\n"

    number = fairway.submitted("exec sleep 1000")
    monkeypatch.setattr("sys.stdin", Terminal("n"))
    said = fairway.run("jobs", "cancel", str(number))
    assert (said.code, said.output) == (1, "")
    assert f"Cancelling job {number} (job). Proceed? [Y/n]" in said.errors
    assert not fairway.job(number)["spec"].get("cancel")

    monkeypatch.setattr("sys.stdin", Terminal("y"))
    assert fairway.run("jobs", "cancel", str(number)).code == 0
    until(lambda: fairway.phase(number) == "CANCELLED")


def test_who_interrupts_a_question_has_interrupted_the_command(
    fairway: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def isatty(self) -> bool:
            return True

        def readline(self, _size: int = -1) -> str:
            raise KeyboardInterrupt

    number = fairway.submitted("exec sleep 1000")
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdin", Interrupted())
        assert fairway.run("jobs", "cancel", str(number)).code == 130
    assert not fairway.job(number)["spec"].get("cancel")
    fairway("jobs", "cancel", "-y", str(number))


def test_whoever_is_at_home_in_one_namespace_sees_what_there_is_in_it(
    fairway: Commands, ben: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ben.chmod(0o600)
    monkeypatch.setenv("FAIRWAY_KUBECONFIG", str(ben))
    number = fairway.submitted("true")

    said = fairway.run("jobs", "queue", "-u", "-a")
    assert (said.code, str(number) in said.output) == (0, True)
    assert said.errors.startswith("Only namespace research: you may not list jobs in the others.\n")
    assert "is forbidden" in fairway.refused("jobs", "queue", "-A")
    assert f"{number}  job " in fairway("top", "--once")
    assert "✗" not in fairway("doctor")
