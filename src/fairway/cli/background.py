"""The server as a process of its own: started in the background, by one command at a time.

Commands that come at the same moment take turns at a lock of the operating system; the first one starts the server,
and the others find it answering. A server that is still starting (`fairway serve`) is waited for.
"""

import fcntl
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from fairway.cli.others import refuse_second_server
from fairway.cli.serve import READY_FD
from fairway.errors import FairwayError
from fairway.runtime.lease import holder
from fairway.runtime.privacy import make_private
from fairway.settings import Settings

_TURNS = "starting"
_SECONDS_TO_ANSWER = 30.0
_PAUSE = 0.02


class DidNotStartError(FairwayError):
    """The background process ended before it was ready."""


class StateError(FairwayError):
    """Nothing can be kept in the state directory."""


def ensure(settings: Settings) -> tuple[int, str]:
    """Have a server on a state directory: the process there, and its URL if this call started it."""
    try:
        make_private(settings.state)
        with _turn(settings.state):
            found = holder(settings.state)
            if found is not None:
                return found, ""
            refuse_second_server(settings)
            url, pid = _start(settings)
            return pid, url
    except OSError as error:
        raise StateError(
            f"{settings.state} cannot be used as the state directory: {said_of(settings.state, error)}; "
            "choose a writable one with --state or $FAIRWAY_STATE"
        ) from None


def said_of(state: Path, error: OSError) -> str:
    """What is wrong with a state directory that cannot be used."""
    if state.exists() and not state.is_dir():
        return "it is not a directory"
    why = (error.strerror or str(error)).lower()
    return why if error.filename in (None, str(state)) else f"{error.filename}: {why}"


def is_running(state: Path) -> bool:
    """Whether a process has the state directory, whether or not it answers already."""
    return state.is_dir() and holder(state) is not None


def answers(url: str) -> bool:
    """Whether the address in the kubeconfig accepts connections."""
    where = urlsplit(url)
    if not where.hostname:
        return False
    try:
        with socket.create_connection((where.hostname, where.port or 443), timeout=_SECONDS_TO_ANSWER):
            return True
    except OSError:
        return False


def until_it_answers(state: Path, url_of: Callable[[], str]) -> None:
    """Return when the server that has the state directory listens; it may have begun only just now, and have no URL."""
    deadline = time.monotonic() + _SECONDS_TO_ANSWER
    while not answers(url_of()):
        if not is_running(state):
            raise DidNotStartError(f"the server on {state} ended before it answered; see {state / 'server.log'}")
        if time.monotonic() >= deadline:
            raise DidNotStartError(
                f"the server on {state} has not answered for {_SECONDS_TO_ANSWER:.0f} s; see {state / 'server.log'}"
            )
        time.sleep(_PAUSE)


@contextmanager
def _turn(state: Path) -> Iterator[None]:
    """One command at a time; the lock is released when its process ends."""
    file = os.open(state / _TURNS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _start(settings: Settings) -> tuple[str, int]:
    """Start the server; its URL once it is ready."""
    ready, tell = os.pipe()
    os.set_inheritable(tell, True)  # noqa: FBT003 - the standard library's signature
    log = os.open(settings.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    already = settings.server_log.stat().st_size
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "fairway.cli.main", "serve", *serving_arguments(settings)],
            {**os.environ, READY_FD: str(tell)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(tell)
        os.close(log)
    with os.fdopen(ready) as answer:
        url = answer.readline().strip()
    if not url:
        os.waitpid(pid, 0)
        raise DidNotStartError(f"the server did not start: {_last_words(settings.server_log, already)}")
    return url, pid


def serving_arguments(settings: Settings) -> list[str]:
    """The settings as arguments of `fairway serve`."""
    arguments = ["--state", str(settings.state), "--host", settings.host, "--port", str(settings.port)]
    if settings.tls_cert and settings.tls_key:
        arguments += ["--tls-cert", str(settings.tls_cert), "--tls-key", str(settings.tls_key)]
    for option, value in (
        ("--public-name", settings.public_name),
        ("--cpus", settings.cpus),
        ("--memory", settings.memory),
        ("--gpus", settings.gpus),
        ("--nodes", settings.nodes),
        ("--controllers", None if settings.controllers == "all" else settings.controllers),
    ):
        if value is not None:
            arguments += [option, str(value)]
    flags = {"--insecure": settings.insecure, "--api-only": settings.api_only, "--no-node": settings.no_node}
    arguments += [option for option, wanted in flags.items() if wanted]
    return arguments


def _last_words(log: Path, already: int) -> str:
    with log.open("rb") as file:
        file.seek(already)
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else f"it ended without an error message; see {log}"
