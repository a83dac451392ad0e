"""A bash in which the commands of a page are run one after the other, in a home of its own.

The home is new, so `fairway` uses a state directory of its own there; it listens on a free port. The commands see
`fairway`, `kubectl` and the Python that runs the tests, the programs of the system, and a copy of `examples/`.
"""

import contextlib
import getpass
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from clients.kubectl import find_kubectl

ROOT = Path(__file__).parents[2]
FAIRWAY = str(Path(sys.prefix) / "bin" / "fairway")
USER, HOST = "ana", "laptop"
"""Who reads the docs, and on which machine; the user and the host of a test are shown as these."""

_SECONDS = 600
"""For one command: `pipx install` and `make demo` download packages, and the machine may be busy."""

_PREPARE = """\
shopt -s expand_aliases
cd ~/fairway
while read -r file; do . "$file" >"$file.out" 2>&1 </dev/null; echo "$?"; done
"""


class Printed(NamedTuple):
    """How a command ended, and all that it wrote."""

    exit_code: int
    lines: list[str]


class TookTooLong(AssertionError):
    """A command did not end."""


class Shell:
    """One page's shell."""

    def __init__(self, directory: Path, entering: Sequence[str] = (), **variables: str) -> None:
        """A shell with its files in `directory`; `entering` is a command that runs another one elsewhere."""
        self.home = directory / "home" / USER
        self.work = self.home / "fairway"
        self._scripts = directory / "scripts"
        self._number = 0
        self._foreground: list[tuple[str, int, Path]] = []
        for one in (self.home, self._scripts, directory / "bin"):
            one.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "examples", self.work / "examples")
        self._programs(directory / "bin")
        self._environment = {
            "HOME": str(self.home),
            "PATH": f"{directory / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "USER": USER,
            "LANG": "C.UTF-8",
            "FAIRWAY_PORT": "0",
            "SHELL": "/bin/bash",
            "SCENES": str(Path(__file__).parent / "scenes"),
            "REPOSITORY": str(ROOT),
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
            **variables,
        }
        said = (f"{name}={value}" for name, value in self._environment.items())
        self._entering = [*entering, "/usr/bin/env", "--ignore-environment", *said]
        self._bash = subprocess.Popen(  # noqa: S603 - our own script
            [*self._entering, "/bin/bash", "--norc", "-c", _PREPARE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _programs(self, folder: Path) -> None:
        (folder / "fairway").symlink_to(FAIRWAY)
        (folder / "kubectl").symlink_to(find_kubectl())
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        for name in ("python", "python3"):
            (folder / name).symlink_to(python)

    def run(self, script: str) -> Printed:
        """Run a command in the shell, as it was left by the one before."""
        self._number += 1
        file = self._scripts / f"{self._number}.sh"
        file.write_text(f"{script}\n")
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{file}\n")
        self._bash.stdin.flush()
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(_SECONDS)
        try:
            code = self._bash.stdout.readline().strip()
        finally:
            signal.alarm(0)
        return Printed(int(code or -1), self._anonymous((file.parent / f"{file.name}.out").read_text()).splitlines())

    def start(self, script: str) -> None:
        """Run a command that stays in the foreground beside the next ones; returns once it has printed something."""
        out = self._scripts / f"{self._number + 1}.foreground"
        started = self.run(f"set -m; {{ {script}\n}} >{out} 2>&1 </dev/null & echo $!; set +m")
        self._foreground.append((script, int(started.lines[-1]), out))
        waiting = self.run(f"until [ -s {out} ] || ! kill -0 {started.lines[-1]}; do sleep 0.1; done")
        assert waiting.exit_code == 0

    def interrupt(self) -> Iterator[tuple[str, Printed]]:
        """Press Ctrl-C in the commands that were started, the last one first; how each ended."""
        while self._foreground:
            script, pid, out = self._foreground.pop()
            ended = self.run(f"kill -INT -- -{pid}; wait {pid}")
            yield script, Printed(ended.exit_code, self._anonymous(out.read_text()).splitlines())

    def write(self, name: str, text: str) -> None:
        """Make a file in the working directory, as a reader would with an editor."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _seen(self, path: Path) -> str:
        """A path below the home as the commands see it."""
        return str(Path(self._environment["HOME"]) / path.relative_to(self.home))

    def _anonymous(self, text: str) -> str:
        """As on the machine of the docs."""
        text = text.replace(str(self.home), f"/home/{USER}")
        for real, shown in ((getpass.getuser(), USER), (platform.node(), HOST)):
            text = re.sub(rf"(?<![\w/]){re.escape(real)}(?![\w/])", shown, text)
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the shell, its servers and all their jobs."""
        for _, pid, _ in self._foreground:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if self._bash.poll() is None:
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
        for log in self.home.rglob("server.log"):
            subprocess.run(  # noqa: S603 - our own command
                [*self._entering, FAIRWAY, "shutdown", "--jobs", "--state", self._seen(log.parent)],
                check=True,
                capture_output=True,
                timeout=_SECONDS,
            )


def _too_long(_number: int, _frame: object) -> None:
    raise TookTooLong(f"it did not end within {_SECONDS} s")
