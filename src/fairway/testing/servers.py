"""A real server for tests: a `fairway serve` process of its own, on a state directory that the test owns.

    with Server(tmp_path / "state") as server:
        server.call("GET", "/api/v1/namespaces/default")

It listens on a free port, and `start` returns when it answers, without sleeps. It can
be ended politely (`stop`) or not (`kill`), and started again on what it left behind.

With `FAIRWAY_TEST_ARRANGEMENT=split` in the environment, a server with jobs runs its controllers in a second process
(`fairway controller`), which is started and stopped with it. `kill` ends the server alone, `kill_controller` the other.
"""

import asyncio
import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import yaml

from fairway.cli.serve import READY_FD
from fairway.errors import FairwayError
from fairway.runner.supervision import end_jobs
from fairway.runtime.clock import SystemClock

ARRANGEMENT = "FAIRWAY_TEST_ARRANGEMENT"
"""Environment variable: `split` runs controllers in a process of their own."""

_SECONDS_TO_END = 30.0
_SECONDS_TO_ANSWER = 30.0


class DidNotStart(FairwayError):
    """The server ended before it was ready; the message is all that it said."""


class HTTPAnswer(NamedTuple):
    """What came back for a request."""

    code: int
    body: Any
    """The decoded JSON; the text where it is none."""


class Server:
    """One server process after another on the same state directory."""

    def __init__(
        self, state: Path, *options: str, jobs: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        """`options` are further arguments of `fairway serve`; `environment` is added to that of this process.

        Without `jobs` it serves the API alone, so that objects stay as the test made them.
        """
        self.state = state
        self._jobs = jobs
        self._split = (
            jobs and os.environ.get(ARRANGEMENT) == "split" and not any("--controllers" in one for one in options)
        )
        self._options = (
            *options,
            *(() if jobs else ("--api-only",)),
            *(("--controllers=none",) if self._split else ()),
        )
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.controller: subprocess.Popen[bytes] | None = None
        """The process of the controllers, where they have one."""

        self.url = ""
        """Where the last one started listens."""

    @property
    def kubeconfig(self) -> Path:
        """How the administrator reaches it."""
        return self.state / "kubeconfig"

    @property
    def output(self) -> Path:
        """What all of its processes wrote to standard output and standard error."""
        return self.state / "server.log"

    @property
    def token(self) -> str:
        """The administrator's."""
        return str(self._known()["users"][0]["user"]["token"])

    @property
    def pid(self) -> int:
        """Of the last process started."""
        if self._process is None:
            raise RuntimeError("the server was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, port: int = 0) -> Self:
        """Start a process and return when it answers; `DidNotStart` if it ends before that."""
        if self.running:
            raise RuntimeError(f"the server is running already (process {self.pid})")
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process, self.url = self._launch("serve", *self._arguments(port))
        if self._split and (self.controller is None or self.controller.poll() is not None):
            self.start_controller()
        return self

    def start_controller(self, *arguments: str) -> str:
        """Start the process of the controllers and return when it works; the URL of its endpoint."""
        self.controller, url = self._launch("controller", "--state", str(self.state), *arguments)
        return url

    def _launch(self, *arguments: str) -> "tuple[subprocess.Popen[bytes], str]":
        """A process of the command line, and what it says when it is ready."""
        ready, tell = os.pipe()
        with self.output.open("ab") as output:
            said_before = output.tell()
            try:
                process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this, with our own module
                    [sys.executable, "-m", "fairway.cli.main", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(tell,),
                    env={**os.environ, **self._environment, READY_FD: str(tell)},
                )
            finally:
                os.close(tell)
        with os.fdopen(ready) as answer:
            url = answer.readline().strip()
        if not url:
            process.wait(_SECONDS_TO_END)
            raise DidNotStart(self.output.read_bytes()[said_before:].decode(errors="replace").strip())
        return process, url

    def stop(self) -> None:
        """End it as `fairway shutdown` does (SIGTERM) and wait until it has; fine if it is not running."""
        for process in (self.controller, self._process):
            if process is not None:
                process.terminate()
                process.wait(_SECONDS_TO_END)

    def kill(self) -> None:
        """End it as the death of the machine would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_SECONDS_TO_END)

    def kill_controller(self) -> None:
        """The same for the process of the controllers."""
        if self.controller is not None:
            self.controller.kill()
            self.controller.wait(_SECONDS_TO_END)

    def restart_killed_controller(self) -> None:
        """Kill the process of the controllers and start it again, where they have one."""
        if self.controller is not None:
            self.kill_controller()
            self.start_controller()

    def end_jobs(self) -> None:
        """End all processes of jobs, and the one that holds them, as `fairway shutdown --jobs` does."""
        if self._jobs and self.state.is_dir():
            asyncio.run(end_jobs(self.state, SystemClock()))

    def restart(self, *, port: int = 0) -> Self:
        """Stop it and start it again on the same state; at another port, unless one is given."""
        self.stop()
        return self.start(port=port)

    def tls(self) -> ssl.SSLContext | None:
        """For clients in this process: trusts only this server. `None` for plain HTTP."""
        authority = self._known()["clusters"][0]["cluster"].get("certificate-authority-data")
        return ssl.create_default_context(cadata=base64.b64decode(authority).decode()) if authority else None

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> HTTPAnswer:
        """One request, as the administrator unless another token is given; `body` is sent as JSON."""
        target = urlsplit(self.url)
        tls = self.tls()
        connection = (
            http.client.HTTPSConnection(target.netloc, context=tls, timeout=_SECONDS_TO_ANSWER)
            if tls
            else http.client.HTTPConnection(target.netloc, timeout=_SECONDS_TO_ANSWER)
        )
        headers = {"Accept": accept, "Authorization": f"Bearer {self.token if token is None else token}"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        return HTTPAnswer(response.status, json.loads(text) if is_json else text)

    def _arguments(self, port: int) -> list[str]:
        return ["--state", str(self.state), "--port", str(port), *self._options]

    def _known(self) -> Any:
        return yaml.safe_load(self.kubeconfig.read_text())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self.end_jobs()
