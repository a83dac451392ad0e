"""The systemd unit of a server: its text, where it belongs, and how systemd is asked.

`KillMode=process` ends the server alone: the supervisor holds the jobs, which a restart must not touch. `Delegate=yes`
lets it make control groups for them. The server says itself when it is ready (`Type=notify`).
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fairway.errors import FairwayError

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


class NoSystemdError(FairwayError):
    """systemd does not run here, or does not answer."""


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
    """Raise `NoSystemdError` unless systemd runs this machine."""
    if not running.is_dir():
        raise NoSystemdError(
            f"systemd does not run here ({running} is missing), so no service can be installed; `fairway up` starts "
            "the server in the background, and `fairway service install --print` prints the unit for another machine"
        )


def ask(unit: Unit, *words: str) -> int:
    """Run systemctl; its exit code. What it prints goes where our output goes."""
    import shutil  # noqa: PLC0415 - help must be quick

    program = shutil.which(unit.systemctl[0])
    if program is None:
        raise NoSystemdError("systemctl is not on the PATH; is systemd installed?")
    sys.stdout.flush()
    pid = os.posix_spawn(program, [*unit.systemctl, *words], os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def must(unit: Unit, *words: str) -> None:
    """The same for what must succeed."""
    code = ask(unit, *words)
    if code:
        said = shlex.join([*unit.systemctl, *words])
        hint = "" if unit.system else " (is there a user session? `loginctl enable-linger` makes one without a login)"
        raise NoSystemdError(f"`{said}` ended with exit code {code}{hint}")


def _quoted(word: str) -> str:
    """A word as systemd reads it: `%` and `$` mean nothing special."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not word or set(escaped) & set(" \t\"'\\;") else escaped
