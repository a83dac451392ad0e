"""`fairway up`: the server in the background."""

from typing import Any

import click

from fairway.cli.options import serving_options
from fairway.settings import Settings


@click.command()
@serving_options
def up(**options: Any) -> None:
    """Start the server in the background, or find it running.

    Returns when the server answers. A second `up` on the same state directory finds the first and changes nothing.
    Its output goes to DIR/server.log; `fairway shutdown` ends it.
    """
    from fairway.cli.background import ensure  # noqa: PLC0415 - help must not wait for it

    settings = Settings(**options)
    pid, url = ensure(settings)
    click.echo(f"Fairway is up at {url} (process {pid})." if url else f"Fairway is already up (process {pid}).")
    click.echo(f"export KUBECONFIG={settings.kubeconfig}")
