"""`fairway up` and `fairway shutdown`."""

import os
import re
import stat

import psutil
import yaml

from .conftest import CommandLine


def started(said: str) -> tuple[str, int]:
    """The URL and the process that `up` tells."""
    found = re.search(r"^Fairway is up at (https://127\.0\.0\.1:\d+) \(process (\d+)\)\.$", said, re.MULTILINE)
    assert found, said
    return found[1], int(found[2])


def test_up_starts_a_server_that_outlives_the_command(fairway: CommandLine) -> None:
    said = fairway("up", "--port", "0")

    url, pid = started(said)
    assert said.splitlines()[-1] == f"export KUBECONFIG={fairway.state}/kubeconfig"
    known = yaml.safe_load((fairway.state / "kubeconfig").read_text())
    assert known["clusters"][0]["cluster"]["server"] == url
    process = psutil.Process(pid)
    assert os.getsid(pid) == pid, "a signal to the terminal does not reach it"
    assert process.is_running()


def test_a_second_up_finds_the_first(fairway: CommandLine) -> None:
    _, pid = started(fairway("up", "--port", "0"))
    kubeconfig = (fairway.state / "kubeconfig").read_bytes()

    again = fairway("up", "--port", "0").splitlines()

    assert again == [
        f"Fairway is already up (process {pid}).",
        f"export KUBECONFIG={fairway.state}/kubeconfig",
    ]
    assert (fairway.state / "kubeconfig").read_bytes() == kubeconfig


def test_shutdown_returns_when_it_has_ended(fairway: CommandLine) -> None:
    _, pid = started(fairway("up", "--port", "0"))

    assert fairway("shutdown") == f"Fairway (process {pid}) has ended.\n"

    assert not psutil.pid_exists(pid)
    assert fairway("shutdown") == f"No server is running on {fairway.state}.\n"


def test_the_next_up_keeps_the_token(fairway: CommandLine) -> None:
    started(fairway("up", "--port", "0"))
    before = yaml.safe_load((fairway.state / "kubeconfig").read_text())["users"]
    fairway("shutdown")

    started(fairway("up", "--port", "0"))

    assert yaml.safe_load((fairway.state / "kubeconfig").read_text())["users"] == before, "the token stays the same"


def test_up_tells_why_it_could_not(fairway: CommandLine) -> None:
    url, _ = started(fairway("up", "--port", "0"))
    port = url.rpartition(":")[2]

    said = fairway.refused("up", "--state", str(fairway.state.parent / "other"), "--port", port)

    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said


def test_what_is_secret_is_for_its_owner_alone(fairway: CommandLine) -> None:
    fairway("up", "--port", "0")

    modes = {
        path.relative_to(fairway.state).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in fairway.state.rglob("*")
    }

    assert modes["kubeconfig"] == 0o600
    assert stat.S_IMODE(fairway.state.stat().st_mode) == 0o700
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
