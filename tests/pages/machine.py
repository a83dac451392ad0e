"""A machine that systemd runs, for pages that need one: systemd is process 1 of namespaces of its own.

Its root is an overlay over this machine's, so the programs are the same and what is installed or changed there is gone
with it. Accounts: `ana`, who may use sudo, with a session of her own (lingering), and `box`.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .shell import ROOT

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_PROGRAMS = {"systemd": "/lib/systemd/systemd", "sudo": "/usr/bin/sudo", "openssh-server": "/usr/sbin/sshd"}
"""What comes from Debian's packages of these names."""

_BOOT = Path(__file__).parent / "scenes" / "boot.sh"
_ACCOUNTS = """\
ip link set lo up
for account in ana box; do useradd --create-home --shell /bin/bash $account; done
printf 'Defaults env_keep += "FAIRWAY_PORT PIP_*"\\nana ALL=(ALL) NOPASSWD: ALL\\n' >/etc/sudoers.d/ana
loginctl enable-linger ana
systemctl start user@$(id -u ana)
"""
_SECONDS = 120


def missing() -> str:
    """Why no such machine can be started here, after trying to install what it needs; empty if one can."""
    if os.geteuid() != 0:
        return "a machine with systemd needs root"
    if not (_CONTROL_GROUPS / "systemd").is_dir():
        return "a machine with systemd was only ever started on control groups version 1"
    if absent := [package for package, path in _PROGRAMS.items() if not Path(path).exists()]:
        if shutil.which("apt-get") is None:
            return f"not installed: {', '.join(absent)}"
        update = ["apt-get", "update"]
        install = ["apt-get", "install", "--yes", "--no-install-recommends", *absent]
        for command in (update, install):
            subprocess.run(command, check=True, capture_output=True, timeout=600)  # noqa: S603 - fixed words
    return ""


class Machine(NamedTuple):
    """One that is running."""

    process: int
    """Process 1 of the machine, as this one numbers it."""

    @property
    def entering(self) -> list[str]:
        """What runs a command there, as root."""
        return ["nsenter", "--target", str(self.process), "--all", "--"]

    def run(self, script: str) -> str:
        """Run a script there as root, which must succeed."""
        done = subprocess.run(  # noqa: S603 - our own script
            [*self.entering, "/bin/bash", "-ec", script], check=False, capture_output=True, text=True, timeout=_SECONDS
        )
        assert done.returncode == 0, f"{script}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def machine(directory: Path, *, network: bool) -> Iterator[Machine]:
    """A machine whose /home is `directory`/home, and which sees `directory` and the repository under their own names.

    With `network` it shares this machine's; otherwise it has nothing but a loopback interface of its own.
    """
    (directory / "home").mkdir(parents=True)
    directory.chmod(0o755)
    name = f"fairway-machine-{os.getpid()}"
    with _control_groups(name) as groups:
        joining = " && ".join(f"echo $$ >{group}/cgroup.procs" for group in groups)
        own = "--pid --mount --uts --ipc --cgroup" + (" --net" if not network else "")
        boot = f'{joining} && exec unshare {own} --fork --kill-child /bin/bash {_BOOT} "$0" "$1"'
        with (directory / "boot.log").open("wb") as log:
            starting = subprocess.Popen(  # noqa: S603 - our own script
                ["/bin/bash", "-c", boot, str(directory), str(ROOT)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            running = Machine(_first_child(starting.pid))
            _await_start(running, directory / "boot.log")
            yield running
        finally:
            for child in _children(starting.pid):
                os.kill(child, signal.SIGKILL)
            starting.wait(timeout=_SECONDS)


@contextmanager
def _control_groups(name: str) -> Iterator[list[Path]]:
    """A group in every hierarchy, which is the root of the machine's."""
    groups = [one / name for one in _CONTROL_GROUPS.iterdir() if (one / "cgroup.procs").is_file()]
    for group in groups:
        group.mkdir()
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).is_file():
                (group / setting).write_text((group.parent / setting).read_text())
    try:
        yield groups
    finally:
        for group in groups:
            _remove(group)


def _remove(group: Path) -> None:
    until = time.monotonic() + _SECONDS
    for folder, _, _ in os.walk(group, topdown=False):
        while True:
            try:
                Path(folder).rmdir()
                break
            except OSError:  # a process that was killed is still there
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


def _children(process: int) -> list[int]:
    try:
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
    except FileNotFoundError:
        return []


def _first_child(process: int) -> int:
    until = time.monotonic() + _SECONDS
    while not (found := _children(process)):
        assert time.monotonic() < until, "the machine did not start"
        time.sleep(0.05)
    return found[0]


def _await_start(started: Machine, log: Path) -> None:
    until = time.monotonic() + _SECONDS
    ready = [*started.entering, "systemctl", "is-active", "--quiet", "fairway-machine.target"]
    while subprocess.run(ready, check=False, capture_output=True, timeout=_SECONDS).returncode:  # noqa: S603 - fixed words
        assert time.monotonic() < until, f"the machine did not start:\n{log.read_text()}"
        time.sleep(0.1)
    started.run(_ACCOUNTS)
