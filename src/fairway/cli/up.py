"""`fairway up`: the server in the background."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from fairway.cli.options import serving_options
from fairway.cli.serve import READY_FD
from fairway.errors import FairwayError
from fairway.settings import Settings


class DidNotStartError(FairwayError):
    """The background process ended before it was ready."""


@click.command()
@serving_options
def up(**options: Any) -> None:
    """Start the server in the background, or find it running.

    Returns when the server answers. A second `up` on the same state directory finds the first and changes nothing.
    Its output goes to DIR/server.log; `fairway shutdown` ends it.
    """
    from fairway.runtime.lease import holder  # noqa: PLC0415 - help must not wait for it

    settings = Settings(**options)
    pid = holder(settings.state) if settings.state.is_dir() else None
    if pid is not None:
        click.echo(f"Fairway is already up (process {pid}).")
    else:
        url, pid = _start(settings)
        click.echo(f"Fairway is up at {url} (process {pid}).")
    click.echo(f"export KUBECONFIG={settings.kubeconfig}")


def _start(settings: Settings) -> tuple[str, int]:
    """Start the server as a process of its own; its URL once it is ready."""
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready, tell = os.pipe()
    os.set_inheritable(tell, True)  # noqa: FBT003 - the standard library's signature
    log = os.open(settings.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    already = settings.server_log.stat().st_size
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "fairway.cli.main", "serve", *_arguments(settings)],
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


def _arguments(settings: Settings) -> list[str]:
    arguments = ["--state", str(settings.state), "--host", settings.host, "--port", str(settings.port)]
    if settings.tls_cert and settings.tls_key:
        arguments += ["--tls-cert", str(settings.tls_cert), "--tls-key", str(settings.tls_key)]
    for option, value in (("--cpus", settings.cpus), ("--memory", settings.memory), ("--gpus", settings.gpus)):
        if value is not None:
            arguments += [option, str(value)]
    for option, wanted in (("--insecure", settings.insecure), ("--api-only", settings.api_only)):
        if wanted:
            arguments.append(option)
    return arguments


def _last_words(log: Path, already: int) -> str:
    with log.open("rb") as file:
        file.seek(already)
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("fairway: ") if lines else f"it ended without a word; see {log}"
