"""`fairway doctor`: each check by itself, and all of them on a machine without and with a server."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway import __version__
from fairway.cli import checks
from fairway.cli.checks import Finding
from fairway.cli.doctor import as_text
from fairway.cli.quotas import LocalQueueUsage
from fairway.cli.tables import Screen
from fairway.client.rest import open_rest
from fairway.runtime.lease import Hold
from fairway.testing.servers import Server

from .looking import PAPER, Here

JOBS = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"


class Answers:
    """A server that gives fixed answers, for versions and clocks that cannot be had otherwise."""

    server = "https://other"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def get(self, _path: str, **_query: object) -> Any:
        return self._answer

    def create(self, _path: str, _manifest: object, **_query: object) -> Any:
        return self._answer


def severities(found: list[Finding]) -> dict[str, str]:
    return {one.check: one.severity for one in found}


@pytest.mark.parametrize(("version", "want"), [((3, 10, 9), "broken"), ((3, 11, 0), "ok"), ((3, 13, 1), "ok")])
def test_python(version: tuple[int, ...], want: str) -> None:
    assert checks.python(version).severity == want


def test_a_pip_install_of_a_job_can_break_what_is_installed_in_a_python_that_jobs_use() -> None:
    assert checks.installation(Path("/opt/fairway")).severity == "ok"
    shared = checks.installation(None, "/usr")
    assert (shared.severity, "the Python of /usr" in shared.message) == ("warning", True)
    assert "pipx" in shared.way_out


def test_kubectl_is_not_needed(tmp_path: Path) -> None:
    assert checks.kubectl(str(tmp_path)).severity == "warning"
    (tmp_path / "kubectl").write_text("#!/bin/sh\n")
    (tmp_path / "kubectl").chmod(0o755)
    assert checks.kubectl(str(tmp_path)) == Finding("kubectl", "ok", f"kubectl is {tmp_path}/kubectl")


@pytest.mark.parametrize(("free", "want"), [(50 << 20, "broken"), (500 << 20, "warning"), (5 << 30, "ok")])
def test_room_on_the_disk(tmp_path: Path, free: int, want: str) -> None:
    assert checks.disk(tmp_path, free).severity == want


def test_a_state_directory_that_others_can_read_is_broken(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert [one.severity for one in checks.state_directory(state)] == ["warning"]
    state.mkdir(mode=0o700)
    assert next(checks.state_directory(state)).severity == "ok"
    state.chmod(0o755)
    found = next(checks.state_directory(state))
    assert (found.severity, found.way_out) == ("broken", f"chmod 700 {state}")
    assert "mode 0755" in found.message


def test_a_state_directory_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    found = next(checks.state_directory(tmp_path))
    assert found.severity == "broken"
    assert "belongs to" in found.message


def test_a_kubeconfig_that_others_can_read_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    assert checks.kubeconfig(path).severity == "warning"
    path.touch(0o600)
    assert checks.kubeconfig(path).severity == "ok"
    path.chmod(0o644)
    assert checks.kubeconfig(path).way_out == f"chmod 600 {path}"


def test_a_configuration_that_cannot_be_read_is_broken(tmp_path: Path) -> None:
    assert checks.configuration(tmp_path).severity == "ok"
    (tmp_path / "config.yaml").write_text("kubernets: {}\n")

    found = checks.configuration(tmp_path)

    assert found.severity == "broken"
    assert "kubernets" in found.message


@pytest.mark.parametrize(
    ("version", "want"),
    [
        (f"v1.34.0+fairway-{__version__}", "ok"),
        ("v1.34.0+fairway-0.0.9", "warning"),
        ("v1.34.0", "ok"),
    ],
    ids=["of this release", "of another", "a cluster"],
)
def test_the_release_of_the_server(version: str, want: str) -> None:
    found = list(checks.answer(Answers({"gitVersion": version}), __version__))  # type: ignore[arg-type]

    assert severities(found) == {"server": "ok", "version": want}


@pytest.mark.parametrize(("ahead", "want"), [(0, "ok"), (4, "ok"), (60, "warning"), (-60, "warning")])
def test_clocks(ahead: int, want: str) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    theirs = (now + timedelta(seconds=ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")

    found = checks.clock(Answers({"metadata": {"creationTimestamp": theirs}}), "default", lambda: now)  # type: ignore[arg-type]

    assert found.severity == want


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        ([], "namespace default has no LocalQueue `default`"),
        ([LocalQueueUsage("user", "default", "cq")], "namespace default has no LocalQueue `default`; there are user"),
        ([LocalQueueUsage("default", "default", "cq", active=False, trouble="stopped")], "admits nothing: stopped"),
        ([LocalQueueUsage("default", "default", "cq")], "points to ClusterQueue cq"),
    ],
    ids=["none", "another", "stopped", "fine"],
)
def test_the_default_queue(queues: list[LocalQueueUsage], want: str) -> None:
    found = checks.default_queue(queues, "default")

    assert want in found.message
    assert (found.severity == "ok") == ("points to" in want)


def test_more_gpus_than_there_are() -> None:
    assert checks.gpus(1000).severity == "warning"
    assert checks.gpus(None).severity == "ok"


def test_the_supervisor_of_nobody_does_not_answer(tmp_path: Path) -> None:
    assert checks.supervisor(tmp_path).severity == "broken"
    assert checks.limits(tmp_path).message.startswith("no supervisor runs")


@pytest.mark.parametrize(
    ("controllers", "configured", "severity", "want"),
    [
        pytest.param(
            {"cpu": 2, "memory": 2},
            "",
            "ok",
            "a task's memory is a limit (control groups v2), "
            "a task's cpu is a share under contention (control groups v2)",
            id="all is enforced",
        ),
        pytest.param(
            {"memory": 1},
            "",
            "warning",
            "a task's memory is a limit (control groups v1), "
            "a task's cpu is a share under contention that is not enforced. Why.",
            id="one controller is missing",
        ),
        pytest.param(
            {"memory": 1},
            "runner: {cpu: none}",
            "ok",
            "a task's memory is a limit (control groups v1), a task's cpu is not enforced (runner.cpu: none)",
            id="what is not wanted is not missed",
        ),
    ],
)
def test_what_is_enforced_and_what_is_not(
    tmp_path: Path, controllers: dict[str, int], configured: str, severity: str, want: str
) -> None:
    folder = tmp_path / "supervisor"
    folder.mkdir()
    (folder / "limits").write_bytes(msgspec.json.encode({"controllers": controllers, "note": "Why."}))
    (tmp_path / "config.yaml").write_text(configured)
    with Hold.acquire(folder):
        found = checks.limits(tmp_path)
    assert (found.severity, found.message) == (severity, want)


def test_how_it_is_shown() -> None:
    found = [checks.ok("a", "fine"), checks.warning("b", "so so", "do this"), checks.broken("c", "bad", "do that")]

    assert as_text(found, PAPER).splitlines() == ["✓ fine", "! so so", "  do this", "✗ bad", "  do that"]
    assert as_text(found, Screen(unicode=False)).splitlines()[0::2] == ["ok fine", "  do this", "  do that"]
    assert "\x1b[31m✗\x1b[0m bad" in as_text(found, Screen(colours=True))


def test_without_a_server_it_starts_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"

    found = {one["check"]: one for one in Here(state, capsys).json("doctor")}

    assert found["process"]["status"] == "warning"
    assert "fairway up" in found["process"]["wayOut"]
    assert not state.exists()
    assert "server" not in found


def test_with_a_server_that_runs_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fairway = Here(tmp_path / "state", capsys)
    with Server(tmp_path / "state", "--cpus", "2", "--gpus", "0", jobs=True) as server:
        found = {one["check"]: one["status"] for one in fairway.json("doctor")}
        assert {check for check, status in found.items() if status == "broken"} == set()
        for check in ("state", "kubeconfig", "process", "server", "version", "clock", "supervisor", "queues", "jobs"):
            assert found[check] == "ok", check
        assert found["default queue"] == "ok"

        _break(server)
        server.kubeconfig.chmod(0o640)
        code, output, _ = fairway.tried("doctor")

    assert code == 1
    assert f"✗ {server.kubeconfig} can be read by others (mode 0640): it has a token" in output
    assert "! ClusterQueue broken admits nothing: " in output
    assert "! 1 of 1 waiting jobs can never run with the current nodes and quotas: huge" in output
    assert "`fairway jobs why huge`" in output
    assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o640, "it changes nothing"


def _break(server: Server) -> None:
    """A queue that names a flavor that is not there, and a job that asks for more than there can ever be."""
    flavors = [{"name": "absent", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]
    queue = {
        "metadata": {"name": "broken"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]},
    }
    assert server.call("POST", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", queue).code == 201
    task = {"run": "true", "resources": {"cpus": 1000}}
    assert server.call("POST", JOBS, {"metadata": {"name": "huge"}, "spec": {"tasks": [task]}}).code == 201
    with open_rest(server.kubeconfig) as rest:
        for event in rest.watch("/apis/kueue.x-k8s.io/v1beta2/clusterqueues"):
            conditions = event["object"].get("status", {}).get("conditions", [])
            if event["object"]["metadata"]["name"] == "broken" and conditions:
                break
        for event in rest.watch("/apis/kueue.x-k8s.io/v1beta2/workloads"):
            if event["object"].get("status", {}).get("conditions"):
                break


def test_a_server_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(tmp_path / "state") as server:
        kubeconfig = tmp_path / "elsewhere"
        kubeconfig.write_text(server.kubeconfig.read_text())
        kubeconfig.chmod(0o600)

    code, output, _ = Here(tmp_path / "other", capsys).tried("doctor", "--kubeconfig", str(kubeconfig))

    assert code == 1
    assert "✗ " in output
    assert "is the address right, and is the network up?" in output


def test_a_state_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    (found,) = checks.state_directory(tmp_path / "file")
    assert (found.severity, found.message) == ("broken", f"{tmp_path}/file is not a directory")


def test_how_the_server_would_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_PORT", raising=False)
    assert list(checks.starting(tmp_path)) == []
    (tmp_path / "up.json").write_text('{"gpus": "T4:8"}')
    assert list(checks.starting(tmp_path)) == [Finding("start", "ok", "saved options of `fairway up`: --gpus T4:8")]
    (tmp_path / "up.json").write_text("{")
    (found,) = checks.starting(tmp_path)
    assert found.severity == "broken"


def test_what_cannot_be_looked_at_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def locked(_state: Path) -> Finding:
        raise PermissionError(13, "Permission denied", "/the/lock")

    monkeypatch.setattr(checks, "process", locked)

    said = Here(tmp_path, capsys).tried("doctor")

    assert said.code == 1
    assert "/the/lock cannot be read: Permission denied" in said.output


def test_commands_to_copy_are_quoted(tmp_path: Path) -> None:
    state = tmp_path / "a b"
    state.mkdir(mode=0o755)
    state.chmod(0o755)

    found = next(iter(checks.state_directory(state)))
    assert found.way_out == f"chmod 700 '{state}'"
