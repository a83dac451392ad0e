"""`fairway serve`."""

import os
import shlex
import sys
from typing import Any

import click

from fairway.cli.options import serving_options
from fairway.settings import Settings

READY_FD = "FAIRWAY_READY_FD"
"""File descriptor to write the URL to when ready; set by the parent of a background server."""


@click.command()
@serving_options
def serve(**options: Any) -> None:
    """Run the server in the foreground.

    Serves the Kubernetes API for the kinds that Fairway supports, stored in one SQLite file in the state directory, and
    writes a kubeconfig there (mode 0600) for kubectl and other clients. Ctrl-C stops it. Acknowledged writes survive a
    crash.

    \b
    Examples:
      fairway serve
      fairway serve --state ./state --port 0
      fairway serve --host 0.0.0.0 --tls-cert server.crt --tls-key server.key
    """
    import asyncio  # noqa: PLC0415 - help must not wait for it
    import logging  # noqa: PLC0415

    from fairway.app import serve as run  # noqa: PLC0415
    from fairway.cli.others import refuse_second_server  # noqa: PLC0415
    from fairway.runtime.garbage import return_large_buffers  # noqa: PLC0415
    from fairway.runtime.rotation import RotatingOutput  # noqa: PLC0415

    settings = Settings(**options)
    refuse_second_server(settings)
    # The writer waits for the interpreter after every commit; the usual 5 ms would be longer than the commit itself.
    sys.setswitchinterval(0.0001)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[RotatingOutput(settings.server_log)],
    )
    try:
        import uvloop  # noqa: PLC0415

        return_large_buffers()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(settings, lambda url: _announce(settings, url)))
    except KeyboardInterrupt:
        click.echo("ended", err=True)


def _announce(settings: Settings, url: str) -> None:
    click.echo(f"Fairway is serving at {url}")
    click.echo(f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig))}")
    _notify_systemd(os.environ.pop("NOTIFY_SOCKET", ""))
    descriptor = os.environ.pop(READY_FD, "")
    if descriptor:
        with os.fdopen(int(descriptor), "w") as waiting:
            waiting.write(f"{url}\n")


def _notify_systemd(address: str) -> None:
    """Say that the server is ready, where systemd waits for it (sd_notify)."""
    if not address:
        return
    import socket  # noqa: PLC0415 - only as a service

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.connect("\0" + address[1:] if address.startswith("@") else address)
        end.send(b"READY=1")
