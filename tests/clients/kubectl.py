"""The real kubectl, run as people run it: with a kubeconfig, a home of its own and a namespace."""

import json
import os
import queue
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fairway.apis.machinery.kind import Manifest

_SECONDS = 60.0
"""No command of these tests takes so long unless it is stuck."""

_FINDER = Path(__file__).parents[2] / "tools" / "kubectl" / "get"


def find_kubectl() -> str:
    """The path of a kubectl, which is built where there is none."""
    return subprocess.run([_FINDER], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()  # noqa: S603


class Result(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    errors: str


class Following:
    """A command that goes on: `get --watch`, `logs --follow`. Its lines come as they are written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def line(self) -> str:
        """The next line, waited for."""
        line = self._lines.get(timeout=_SECONDS)
        assert line is not None, f"the output ended; on standard error: {self._errors()}"
        return line

    def until(self, *texts: str) -> None:
        """Read on to the first line with all of these in it."""
        while not _has_all(self.line(), texts):
            pass

    def rest(self) -> list[str]:
        """All lines that are still to come until the command ends by itself."""
        return list(iter(lambda: self._lines.get(timeout=_SECONDS), None))

    def end(self) -> None:
        self._process.kill()
        self._reader.join()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _errors(self) -> str:
        return self._process.stderr.read() if self._process.stderr is not None else ""


@dataclass(frozen=True)
class Kubectl:
    """A kubectl for one user in one namespace; called with a command line, it gives back what was printed."""

    binary: str
    kubeconfig: Path
    home: Path
    namespace: str = ""
    """Where commands act that do not say so themselves; empty for what the kubeconfig says."""

    variables: Mapping[str, str] | None = None

    def __call__(self, command: str, *arguments: str, given: Any = None) -> str:
        """Runs a command that must succeed. `given` is a manifest, several, or a text for its standard input."""
        result = self.run(command, *arguments, given=given)
        assert result.code == 0, f"kubectl {command} {' '.join(arguments)}: {result.errors}{result.output}"
        return result.output

    def refused(self, command: str, *arguments: str, given: Any = None) -> str:
        """Runs a command that must not succeed; what it says about that."""
        result = self.run(command, *arguments, given=given)
        assert result.code != 0, f"kubectl {command} {' '.join(arguments)} succeeded: {result.output}"
        return result.errors.strip()

    def run(self, command: str, *arguments: str, given: Any = None) -> Result:
        done = subprocess.run(  # noqa: S603 - kubectl with the arguments of a test
            self._line(command, arguments),
            input=_text(given),
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=self._environment(),
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def json(self, command: str, *arguments: str, given: Any = None) -> Any:
        """What is printed with `-o json`."""
        return json.loads(self(f"{command} -o json", *arguments, given=given))

    def table(self, command: str, *arguments: str) -> list[list[str]]:
        """The cells of the table that is printed, its head first."""
        return cells(self(command, *arguments))

    @contextmanager
    def following(self, command: str, *arguments: str, tells_requests: bool = False) -> Iterator[Following]:
        """Starts a command that goes on; `tells_requests` mixes the requests it makes into what it prints."""
        process = subprocess.Popen(  # noqa: S603 - the same
            self._line(f"{command} -v=6" if tells_requests else command, arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if tells_requests else subprocess.PIPE,
            text=True,
            env=self._environment(),
        )
        followed = Following(process)
        try:
            yield followed
        finally:
            followed.end()

    def at(self, namespace: str) -> "Kubectl":
        """The same in another namespace."""
        return replace(self, namespace=namespace)

    def with_variables(self, **variables: str) -> "Kubectl":
        return replace(self, variables=variables)

    def _line(self, command: str, arguments: Sequence[str]) -> list[str]:
        where = ["--namespace", self.namespace] if self.namespace else []
        return [self.binary, *where, *shlex.split(command), *arguments]

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
            "TZ": "UTC",
            **(self.variables or {}),
        }


def _has_all(line: str, texts: Sequence[str]) -> bool:
    return all(text in line for text in texts)


def cells(printed: str) -> list[list[str]]:
    """A printed table: columns begin where their head begins."""
    lines = printed.splitlines()
    begins = [found.start() for found in re.finditer(r"\S+( \S+)*", lines[0])]
    spans = list(zip(begins, [*begins[1:], None], strict=True))
    return [[line[begin:end].strip() for begin, end in spans] for line in lines]


def _text(given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    manifests: list[Manifest] = given if isinstance(given, list) else [given]
    return yaml.safe_dump_all(manifests)
