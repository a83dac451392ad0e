"""The command `fairway`, run as people run it: as a process, with a home of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients.kubectl import Result

_SECONDS = 60.0


@dataclass(frozen=True)
class Fairway:
    """Runs commands against the server of a state directory, in a working directory."""

    state: Path
    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, given: str | None = None) -> str:
        """What a command prints; it must succeed."""
        code, output, errors = self.tried(*words, given=given)
        assert code == 0, f"fairway {' '.join(words)} ended with {code}\n{output}\n{errors}"
        return output

    def json(self, *words: str) -> Any:
        """The same for a command with `-o json`."""
        return json.loads(self(*words, "-o", "json"))

    def tried(self, *words: str, given: str | None = None) -> Result:
        """How a command ended, whichever way."""
        done = subprocess.run(  # noqa: S603 - the interpreter that runs this, with our own module
            [sys.executable, "-m", "fairway.cli.main", *words],
            input=given if given is not None else "",
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            cwd=self.directory,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.directory),
                "FAIRWAY_STATE": str(self.state),
                "LC_ALL": "C.UTF-8",
                **self.variables,
            },
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)
