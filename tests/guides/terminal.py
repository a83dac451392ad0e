"""A terminal in which the command blocks of a guide run as they are written: bash, kubectl, yq, `sky` for `fairway`.

Two words differ from a reader's machine: `sky` is a script that runs `fairway` (as `alias sky=fairway` does), and `yq`
is a stand-in that knows the two expressions of the guide, since not every machine has one.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from clients.kubectl import find_kubectl
from fairway.testing.servers import Server

_SECONDS = 60.0
_SKY = f'#!/bin/sh\nexec "{sys.executable}" -m fairway.cli.main "$@"\n'
_YQ = f"""\
#!{sys.executable}
import sys, yaml
value = yaml.safe_load(sys.stdin)
path, _, more = sys.argv[1].partition(" += ")
*parents, last = path.strip(".").split(".")
inner = value
for name in parents:
    inner = inner[name]
if more:
    inner[last] += yaml.safe_load(more)
yaml.safe_dump(value if more else inner[last], sys.stdout, sort_keys=False)
"""


@dataclass(frozen=True)
class Terminal:
    """Runs blocks in a home of its own, against one server."""

    home: Path
    server: Server

    def write(self, name: str, text: str) -> None:
        """Save a snippet of the guide; `~` is the home."""
        path = self.home / name.removeprefix("~/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, block: str) -> str:
        """What a block prints on standard output; each of its commands must succeed."""
        done = subprocess.run(  # noqa: S603 - the blocks of these tests
            ["bash", "-euo", "pipefail", "-c", block],  # noqa: S607 - the bash of the machine, as for a reader
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            cwd=self.home,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, f"{block}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, block: str) -> "subprocess.Popen[bytes]":
        """A block in a terminal of its own that stays open, as for a command that follows a job."""
        return subprocess.Popen(  # noqa: S603
            ["bash", "-c", f"exec {block}"],  # noqa: S607
            cwd=self.home,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _environment(self) -> dict[str, str]:
        folder = self.home / ".programs"
        if not folder.exists():
            folder.mkdir()
            (folder / "kubectl").symlink_to(find_kubectl())
            for name, text in (("sky", _SKY), ("yq", _YQ)):
                (folder / name).write_text(text)
                (folder / name).chmod(0o755)
        return {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "KUBECONFIG": str(self.server.kubeconfig),
            "FAIRWAY_STATE": str(self.server.state),
            "LC_ALL": "C.UTF-8",
        }
