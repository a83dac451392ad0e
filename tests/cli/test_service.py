"""`fairway service`: the unit, checked by systemd where that is installed, and a clear word where it does not run."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from fairway.cli.units import Unit, check_systemd
from fairway.testing.servers import Server

from .conftest import CommandLine


def test_the_unit_runs_this_installation_with_the_options_of_up(fairway: CommandLine, tmp_path: Path) -> None:
    fairway.state.mkdir(mode=0o700)
    (fairway.state / "up.json").write_text('{"gpus": "T4:8"}')

    text = fairway("service", "install", "--print", "--cpus", "16", "--port", "7000")

    assert f"-m fairway.cli.main serve --state {fairway.state} --host 127.0.0.1 --port 7000" in text
    assert "--cpus 16 --gpus T4:8" in text
    assert "WantedBy=default.target" in text
    assert "User=" not in text
    assert not list(tmp_path.glob("**/fairway.service")), "nothing is written"


def test_a_service_of_the_machine_has_its_state_in_the_home_of_its_account(fairway: CommandLine) -> None:
    machine = fairway("service", "install", "--print", "--system", "--run-as", "nobody")

    assert "\nUser=nobody\n" in machine
    assert f"serve --state {Path('~nobody').expanduser()}/.fairway " in machine
    assert "WantedBy=multi-user.target" in machine
    assert "this machine has no such account" in fairway.refused("service", "install", "--system", "--run-as", "ghost")


def test_jobs_survive_the_service() -> None:
    text = Unit(system=False).text(["--port", "0"], None)

    for line in ("Type=notify", "KillMode=process", "Delegate=yes", "Restart=on-failure"):
        assert f"\n{line}\n" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("state", ["/srv/fairway", '/srv/a "strange" $HOME 100% \\dir'])
def test_systemd_accepts_the_unit(tmp_path: Path, state: str) -> None:
    unit = tmp_path / "fairway.service"
    unit.write_text(Unit(system=True).text(["--state", state], "root"))

    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)  # noqa: S603, S607

    assert "fairway.service" not in done.stderr, done.stderr


def test_where_systemd_does_not_run_that_is_said_and_nothing_is_written(fairway: CommandLine, tmp_path: Path) -> None:
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here")
    for command in (["install"], ["install", "--system"], ["uninstall"], ["status"]):
        said = fairway.refused("service", *command)
        assert "systemd does not run here" in said
        assert "`fairway up`" in said
    assert not list(tmp_path.glob("**/fairway.service"))


def test_a_directory_of_systemd_means_that_it_runs(tmp_path: Path) -> None:
    check_systemd(tmp_path)


def test_who_runs_it_is_for_a_service_of_the_machine(fairway: CommandLine) -> None:
    assert "--run-as needs --system" in fairway.refused("service", "install", "--run-as", "ana")


def test_the_server_says_when_it_is_ready(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(os.fspath(tmp_path / "notify"))
        systemd.settimeout(60)
        with Server(tmp_path / "state", environment={"NOTIFY_SOCKET": os.fspath(tmp_path / "notify")}):
            assert systemd.recv(100) == b"READY=1"
