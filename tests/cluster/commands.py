"""The command line on a real API server, as people meet it: a process, its output and its exit code."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SECONDS = 120.0


class Commands:
    """`fairway` with a state directory of its own, on one kubeconfig."""

    def __init__(self, directory: Path, kubeconfig: Path, namespace: str) -> None:
        self.directory = directory
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    def run(self, *arguments: str, seconds: float = _SECONDS) -> subprocess.CompletedProcess[str]:
        self.directory.mkdir(parents=True, exist_ok=True)
        return subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", "fairway.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=self.directory,
            env={
                **os.environ,
                "FAIRWAY_STATE": str(self.directory.parent / "state"),
                "FAIRWAY_KUBECONFIG": str(self.kubeconfig),
                "FAIRWAY_NAMESPACE": self.namespace,
                "HOME": str(self.directory.parent),
            },
            check=False,
        )

    def __call__(self, *arguments: str) -> str:
        """What a command prints that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def refused(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    @contextmanager
    def installation(self, image: str, way: str) -> Iterator[None]:
        """Fairway on the cluster, with this way of admission; removed at the end."""
        at = ("--kubeconfig", str(self.kubeconfig))
        install = ("cluster", "install", *at, "--image", image, "--admission", way, "--force-conflicts")
        done = self.run(*install, seconds=600)
        assert done.returncode == 0, done.stderr
        try:
            yield
        finally:
            self("cluster", "uninstall", *at, "-y")

    def jobs(self) -> dict[int, dict[str, Any]]:
        """`jobs queue -a -o json`, by id."""
        return {one["id"]: one for one in json.loads(self("jobs", "queue", "-a", "-u", "-o", "json"))}

    def until(self, job: int, condition: Callable[[dict[str, Any]], bool], seconds: float = _SECONDS) -> dict[str, Any]:
        """A job once it is so."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.jobs()[job]
            if condition(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
