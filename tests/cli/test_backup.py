"""`fairway backup` and `fairway restore`: all comes back, damage is an error, nothing that ended runs again."""

import sqlite3
import stat
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairway.runtime.lease import holder
from fairway.testing.servers import Server

from .conftest import CommandLine

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
MANAGED = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"


def names(server: Server) -> list[str]:
    return [one["metadata"]["name"] for one in server.call("GET", CONFIGS).body["items"]]


@pytest.fixture
def elsewhere(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "elsewhere" / "state")


def test_a_backup_of_a_running_server_is_all_of_it_as_of_one_moment(
    fairway: CommandLine, elsewhere: CommandLine, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.tar"
    with Server(fairway.state) as server:
        server.call("POST", CONFIGS, {"metadata": {"name": "before"}})
        token = fairway("users", "add", "ben", "--role", "viewer", "--everywhere").strip()
        (fairway.state / "config.yaml").write_text("server:\n  namespace: default\n")
        for path in (
            "archives/default/x.tar.gz",
            "checkpoints/job/0/step",
            "logs/default/uid/c/0.log",
            "work/u/out.txt",
        ):
            (fairway.state / path).parent.mkdir(parents=True, exist_ok=True)
            (fairway.state / path).write_text(path)
        said = fairway("backup", str(copy))
        server.call("POST", CONFIGS, {"metadata": {"name": "after"}})

    assert said.startswith("Copied ")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert elsewhere("restore", str(copy)).startswith(f"Restored {elsewhere.state} as of ")
    assert stat.S_IMODE(elsewhere.state.stat().st_mode) == 0o700
    for path in ("config.yaml", "archives/default/x.tar.gz", "checkpoints/job/0/step", "work/u/out.txt", "tls/tls.key"):
        assert (elsewhere.state / path).read_bytes() == (fairway.state / path).read_bytes()
    assert not (elsewhere.state / "logs/default/uid/c/0.log").exists(), "logs are taken on demand"
    with Server(elsewhere.state) as restored:
        assert [name for name in names(restored) if name in {"before", "after"}] == ["before"]
        assert restored.call("GET", "/api/v1/nodes", token=token).code == 200, "users and tokens are there"
        assert restored.call("POST", CONFIGS, {"metadata": {"name": "new"}}).code == 201


def test_logs_and_results_by_choice(fairway: CommandLine, elsewhere: CommandLine, tmp_path: Path) -> None:
    with Server(fairway.state):
        for path in ("logs/default/uid/c/0.log", "work/u/out.txt"):
            (fairway.state / path).parent.mkdir(parents=True, exist_ok=True)
            (fairway.state / path).write_text(path)
    fairway("backup", "--logs", "--no-results", str(tmp_path / "copy.tar"))
    elsewhere("restore", str(tmp_path / "copy.tar"))

    assert (elsewhere.state / "logs/default/uid/c/0.log").is_file()
    assert (elsewhere.state / "server.log").is_file()
    assert not (elsewhere.state / "work").exists()


def damage_page(database: Path) -> None:
    """Overwrite a page in the middle, as a bad sector would."""
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(size // 2 // 8192 * 8192)
        file.write(b"\xa5" * 8192)


def damage_value(database: Path) -> None:
    """Change bytes of an object that SQLite itself does not look at."""
    content = database.read_bytes()
    place = content.index(b'"kind":"ConfigMap"')
    database.write_bytes(content[:place] + b"\x00" * 18 + content[place + 18 :])


@pytest.mark.parametrize("damage", [damage_page, damage_value])
def test_a_damaged_database_is_an_error_and_leaves_nothing(
    fairway: CommandLine, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with Server(fairway.state) as server:
        for number in range(200):
            server.call("POST", CONFIGS, {"metadata": {"name": f"map-{number}"}, "data": {"a": "b" * 500}})
    database = fairway.state / "fairway.db"
    with sqlite3.connect(database) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    damage(database)
    folder = tmp_path / "backups"
    folder.mkdir()

    assert "the database is damaged" in fairway.refused("backup", str(folder / "copy.tar"))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(lambda data: data[: len(data) // 2], "is not a complete backup", id="half of it"),
        pytest.param(lambda data: data[:-12000], "is not a complete backup", id="without its end"),
        pytest.param(
            lambda data: data.replace(b'"current-context"', b'"current-CONTEXT"'), "kubeconfig", id="other bytes in it"
        ),
        pytest.param(lambda _: b"not a tar file", "is not a complete backup", id="something else"),
    ],
)
def test_a_spoilt_backup_is_refused_and_nothing_is_made(
    fairway: CommandLine, elsewhere: CommandLine, tmp_path: Path, spoil: Callable[[bytes], bytes], want: str
) -> None:
    with Server(fairway.state):
        pass
    copy = tmp_path / "copy.tar"
    fairway("backup", str(copy))
    copy.write_bytes(spoil(copy.read_bytes()))

    assert want in elsewhere.refused("restore", str(copy))
    assert not elsewhere.state.exists()
    assert not elsewhere.state.parent.exists() or list(elsewhere.state.parent.iterdir()) == []


def test_nothing_is_overwritten_and_nothing_is_made_up(fairway: CommandLine, tmp_path: Path) -> None:
    taken = tmp_path / "taken.tar"
    assert "there is no state to copy" in fairway.refused("backup", str(taken))
    assert not taken.exists()

    with Server(fairway.state):
        pass
    taken.write_text("mine")
    assert f"{taken} exists already" in fairway.refused("backup", str(taken))
    assert taken.read_text() == "mine"


def test_a_state_directory_in_use_or_not_empty_is_not_replaced_by_accident(
    fairway: CommandLine, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.tar"
    with Server(fairway.state) as server:
        server.call("POST", CONFIGS, {"metadata": {"name": "before"}})
        fairway("backup", str(copy))
        server.call("POST", CONFIGS, {"metadata": {"name": "after"}})
        assert f"a server (process {server.pid}) runs on" in fairway.refused("restore", "--replace", str(copy))
    assert "is not empty; --replace moves it aside" in fairway.refused("restore", str(copy))

    said = fairway.run("restore", "--replace", str(copy))

    assert said.returncode == 0, said.stderr
    with Server(fairway.state) as server:
        assert "after" not in names(server)
    (aside,) = fairway.state.parent.glob("state.replaced-*")
    assert (aside / "fairway.db").is_file()
    assert str(aside) in said.stderr


@pytest.mark.parametrize("command", ["true", "exec sleep 600"])
def test_a_supervisor_without_jobs_is_not_in_the_way_of_a_restore(
    fairway: CommandLine, tmp_path: Path, command: str
) -> None:
    copy, runs = tmp_path / "copy.tar", command != "true"
    with Server(fairway.state, "--cpus", "2", jobs=True) as server:
        container = {"name": "main", "image": "none", "command": ["sh", "-c", command]}
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], "restartPolicy": "Never"}}
        server.call("POST", PODS, pod)
        phase = "Running" if runs else "Succeeded"
        until = time.monotonic() + 60
        while server.call("GET", f"{PODS}/p")[1]["status"]["phase"] != phase:
            assert time.monotonic() < until
            time.sleep(0.05)
        fairway("backup", str(copy))
        server.stop()
        assert holder(fairway.state / "supervisor") is not None

        said = fairway.run("restore", "--replace", str(copy))

    refused = "still run; stop them first: fairway shutdown --jobs" in said.stderr
    assert (said.returncode != 0, refused) == (runs, runs)


def test_an_archive_that_leads_out_of_the_directory_is_refused(elsewhere: CommandLine, tmp_path: Path) -> None:
    copy = tmp_path / "copy.tar"
    (tmp_path / "evil").write_text("evil")
    with tarfile.open(copy, "w") as tar:
        tar.add(tmp_path / "evil", "../escaped")

    assert "is not a complete backup" in elsewhere.refused("restore", str(copy))
    assert not (tmp_path / "elsewhere" / "escaped").exists()


def job(name: str, script: str, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "command": ["sh", "-c", script], "resources": {"requests": {"cpu": "1"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.mark.parametrize("resume", [False, True], ids=["held", "resumed"])
def test_what_ended_is_not_run_again_and_what_had_not_ended_is_held_unless_it_should_go_on(
    fairway: CommandLine, elsewhere: CommandLine, tmp_path: Path, *, resume: bool
) -> None:
    ran, copy = tmp_path / "ran", tmp_path / "copy.tar"
    with Server(fairway.state, "--cpus", "8", jobs=True) as server:
        fairway("jobs", "launch", "-y", "-n", "done", f"echo done >> {ran}")
        fairway("jobs", "launch", "-y", "-d", "-n", "running", f"echo running >> {ran}; exec sleep 1000")
        for name, labels in (("queued", {"kueue.x-k8s.io/queue-name": "default"}), ("plain", {})):
            manifest = job(name, f"echo {name} >> {ran}; exec sleep 1000", **labels)
            assert server.call("POST", "/apis/batch/v1/namespaces/default/jobs", manifest).code == 201
        until(lambda: ran.exists() and len(ran.read_text().split()) == 4)
        fairway("backup", str(copy))
    ran.unlink()
    said = elsewhere.run("restore", *(["--resume"] if resume else []), str(copy)).stderr
    assert ("Held, since they had not ended" in said) is not resume

    with Server(elsewhere.state, "--cpus", "8", jobs=True) as server:
        if resume:
            until(lambda: ran.exists() and len(ran.read_text().split()) == 3)
            assert sorted(ran.read_text().split()) == ["plain", "queued", "running"]
        else:
            until(lambda: server.call("GET", f"{MANAGED}/running-2").body["status"].get("reason") == "Held")
            # Something new is admitted and runs to its end while they are held.
            elsewhere("jobs", "launch", "-y", "-n", "new", f"echo new >> {ran}")
            assert ran.read_text().split() == ["new"]
            elsewhere("jobs", "release", "2")
            until(lambda: "running" in ran.read_text())
        assert server.call("GET", f"{MANAGED}/done-1").body["status"]["phase"] == "SUCCEEDED"
        assert "done" not in ran.read_text().split()


def until(holds: Callable[[], bool]) -> None:
    """Wait for what must come; the limit is that of a test that hangs."""
    import time  # noqa: PLC0415

    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
