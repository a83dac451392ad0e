"""The systemd unit of a server: its text, where it belongs, and how systemd is asked.

`KillMode=process` ends the server alone: the supervisor holds the jobs, which a restart must not touch. `Delegate=yes`
lets it make control groups for them. The server says itself when it is ready (`Type=notify`).
"""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from fairway.errors import FairwayError
from fairway.settings import state_directory

NAME: Final = "fairway.service"
_RUNNING: Final = Path("/run/systemd/system")
_UNIT: Final = """\
[Unit]
Description=Fairway: queues, prioritises, preempts and recovers jobs
Documentation=man:systemd.service(5)
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
{user}Environment=PATH={path}
ExecStart={command}
Restart=on-failure
RestartSec=2
KillMode=process
Delegate=yes
UMask=0077
LimitNOFILE=65536

[Install]
WantedBy={target}
"""


class ServiceError(FairwayError):
    """The service cannot be installed or asked about; the message says why, and what to do."""


class Unit(NamedTuple):
    """One unit: of this user's systemd, or of the machine's."""

    system: bool

    @property
    def path(self) -> Path:
        if self.system:
            return Path("/etc/systemd/system") / NAME
        home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        return Path(home).expanduser() / "systemd" / "user" / NAME

    @property
    def systemctl(self) -> tuple[str, ...]:
        return ("systemctl",) if self.system else ("systemctl", "--user")

    def text(self, arguments: Sequence[str], run_as: str | None) -> str:
        """The unit that runs this very installation with these arguments of `fairway serve`."""
        command = [sys.executable, "-m", "fairway.cli.main", "serve", *arguments]
        return _UNIT.format(
            user=f"User={run_as}\n" if run_as else "",
            path=_quoted(os.environ.get("PATH") or "/usr/local/bin:/usr/bin:/bin"),
            command=" ".join(map(_quoted, command)),
            target="multi-user.target" if self.system else "default.target",
        )


def check_systemd(running: Path = _RUNNING) -> None:
    """Raise `ServiceError` unless systemd runs this machine."""
    if not running.is_dir():
        raise ServiceError(
            f"systemd does not run here ({running} is missing), so no service can be installed; `fairway up` starts "
            "the server in the background, and `fairway service install --print` prints the unit for another machine"
        )


def state_of(account: str) -> Path:
    """The state directory of another account; `ServiceError` if there is no such account."""
    try:
        return state_directory({}, account)
    except RuntimeError:
        raise ServiceError(
            f"--run-as {account}: this machine has no such account; create it (`useradd --create-home {account}`), or "
            "name the directory with --state"
        ) from None


def check_account(account: str) -> None:
    """Raise `ServiceError` unless this account can run this installation."""
    if _run("runuser", "--user", account, "--", sys.executable, "-I", "-c", "import fairway"):
        raise ServiceError(
            f"--run-as {account}: this account cannot run {sys.executable}, where Fairway is installed; install it "
            "where every account can read it: `python3 -m venv /opt/fairway && /opt/fairway/bin/pip install DIRECTORY`"
        )


def install(unit: Unit, text: str) -> None:
    """Write the unit, enable and start it; if it does not start, put back what was there before."""
    before = unit.path.read_text() if unit.path.is_file() else None
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    unit.path.write_text(text)
    try:
        for words in (("daemon-reload",), ("enable", NAME), ("restart", NAME)):
            must(unit, *words)
    except ServiceError as error:
        with suppress(ServiceError):  # without journalctl, too, nothing is left behind
            chosen = "--unit" if unit.system else "--user-unit"
            _run("journalctl", "--no-pager", "--output=cat", "--lines=10", chosen, NAME)
        _restore(unit, before)
        raise ServiceError(f"{error}; see the log above. The unit is as it was before") from None


def _restore(unit: Unit, before: str | None) -> None:
    if before is None:
        ask(unit, "disable", "--now", NAME)
        unit.path.unlink()
        ask(unit, "daemon-reload")
    else:
        unit.path.write_text(before)
        ask(unit, "daemon-reload")
        ask(unit, "restart", NAME)


def ask(unit: Unit, *words: str) -> int:
    """Run systemctl; its exit code. What it prints goes where our output goes."""
    return _run(*unit.systemctl, *words)


def must(unit: Unit, *words: str) -> None:
    """The same for what must succeed."""
    code = ask(unit, *words)
    if code:
        said = shlex.join([*unit.systemctl, *words])
        hint = "" if unit.system else " (is there a user session? `loginctl enable-linger` makes one without a login)"
        raise ServiceError(f"`{said}` ended with exit code {code}{hint}")


def _run(*words: str) -> int:
    import shutil  # noqa: PLC0415 - help must be quick

    program = shutil.which(words[0])
    if program is None:
        raise ServiceError(f"{words[0]} is not on the PATH; is systemd installed?")
    sys.stdout.flush()
    pid = os.posix_spawn(program, words, os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _quoted(word: str) -> str:
    """A word as systemd reads it: `%` and `$` mean nothing special."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not word or set(escaped) & set(" \t\"'\\;") else escaped
