"""`fairway logs`."""

from typing import Any

import click

from fairway.cli.completion import job_names
from fairway.cli.reading import meant, read, reading_options
from fairway.cli.session import open_session


@click.command()
@click.argument("name", required=False, default="", metavar="[NAME|ID]", shell_complete=job_names)
@reading_options
def logs(*, name: str, **options: Any) -> None:
    """Show what a task wrote that was launched, and go on until it has ended.

    Without a name, that of my newest launch. As `fairway jobs logs`, which has more to say about attempts.

    \b
    Examples:
      fairway logs dev
      fairway logs dev --no-follow --tail 100
    """
    where = {one: options.pop(one) for one in ("state", "kubeconfig", "context", "namespace")}
    with open_session(**where) as session:
        read(session, meant(session, (name,) if name else (), "", launched=True), **options)
