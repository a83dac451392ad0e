"""Blocks that need systemd or a second machine work as they are written, on a machine that systemd runs."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .blocks import pages_with
from .examples import run_examples
from .machine import Machine, machine, missing
from .running import name_of, run_page
from .shell import FAIRWAY, ROOT, USER, Shell

if (reason := missing()) and "CI" not in os.environ:
    pytest.skip(reason, allow_module_level=True)

SCENES = Path(__file__).parent / "scenes"
SESSION = ["systemd-run", "--quiet", "--user", f"--machine={USER}@.host", "--collect", "--pipe", "--wait"]
"""Runs a command as ana, in the session that systemd made for her."""


@contextmanager
def shell_of_ana(booted: Machine, directory: Path, *entering: str) -> Iterator[Shell]:
    session = f"/run/user/{booted.run(f'id -u {USER}').strip()}"
    with Shell(directory, [*booted.entering, *entering], HOME=f"/home/{USER}", XDG_RUNTIME_DIR=session) as shell:
        booted.run(f"chown -R {USER}: /home/{USER} {directory}/scripts")
        yield shell


@pytest.mark.parametrize("page", pages_with(ROOT, "systemd"), ids=name_of)
def test_the_commands_of_a_page_work_with_systemd(page: Path, tmp_path: Path) -> None:
    with machine(tmp_path, network=True) as booted, shell_of_ana(booted, tmp_path, *SESSION) as shell:
        run_page(page, shell, "systemd")


def test_the_examples_of_service_commands_work(tmp_path: Path) -> None:
    with machine(tmp_path, network=False) as booted, shell_of_ana(booted, tmp_path, *SESSION) as shell:
        assert shell.run("fairway service install").exit_code == 0
        run_examples(shell, "systemd")


def test_a_service_that_does_not_start_says_why_and_leaves_no_unit_behind(tmp_path: Path) -> None:
    with machine(tmp_path, network=False) as booted:
        booted.run(f"runuser --login box --command '{FAIRWAY} up'")
        install = f"{FAIRWAY} service install --system"
        refused = booted.run(f"{install} --run-as ana 2>&1 || true")

        assert "box" in refused
        assert "The unit is as it was before" in refused
        assert "No service is installed" in booted.run(f"{FAIRWAY} service status --system || true")
        without_journalctl = "mkdir /tmp/bin && ln -s $(command -v systemctl runuser) /tmp/bin && PATH=/tmp/bin"
        assert "The unit is as it was before" in booted.run(f"{without_journalctl} {install} --run-as ana 2>&1 || true")
        assert "No service is installed" in booted.run(f"{FAIRWAY} service status --system || true")
        hidden = booted.run(f"chmod 700 /root; {install} --run-as nobody 2>&1 || true")
        assert "--run-as nobody: this account cannot run" in hidden
        assert "this machine has no such account" in booted.run(f"{install} --run-as ghost 2>&1 || true")


def test_a_service_that_was_killed_starts_again_and_keeps_its_jobs(tmp_path: Path) -> None:
    with machine(tmp_path, network=False) as booted, shell_of_ana(booted, tmp_path, *SESSION) as shell:
        for command in (
            "fairway service install",
            "fairway jobs launch -d -- 'until [ -e ~/stop ]; do sleep 0.1; done'",
            "until fairway jobs queue | grep -q RUNNING; do sleep 0.1; done",
            "systemctl --user kill --kill-who=main --signal=KILL fairway",
            "until fairway service status; do sleep 0.1; done",
            "touch ~/stop && fairway jobs wait 1",
        ):
            done = shell.run(command)
            assert done.exit_code == 0, "\n".join([command, *done.lines])
        shown = json.loads("\n".join(shell.run("fairway jobs queue 1 -o json").lines))
        assert [(one["status"], one["attempt"]) for one in shown] == [("SUCCEEDED", 1)]


@pytest.mark.parametrize("page", pages_with(ROOT, "ssh"), ids=name_of)
def test_the_commands_of_a_page_work_with_a_second_machine(page: Path, tmp_path: Path) -> None:
    with machine(tmp_path, network=False) as booted:
        booted.run((SCENES / "ssh.sh").read_text())
        booted.run(f"runuser --login box --command '{FAIRWAY} up --cpus 2'")
        as_ana = f'ip link set lo up && exec runuser --user {USER} -- "$0" "$@"'
        alone = ["unshare", "--net", "/bin/bash", "-c", as_ana]
        with shell_of_ana(booted, tmp_path, *alone) as shell:
            run_page(page, shell, "ssh")
