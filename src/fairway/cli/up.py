"""`fairway up`: the server in the background."""

import shlex
from typing import Any

import click
from click.core import ParameterSource

from fairway.cli.options import serving_options
from fairway.settings import Settings


@click.command()
@serving_options
@click.pass_context
def up(ctx: click.Context, /, **options: Any) -> None:
    """Start the server in the background, or find it running.

    Returns when the server answers. Options are kept in DIR/up.json for the next start, be it by `fairway up` without
    options or by any command that finds no server: all of them are replaced when any is given. A server that runs
    already is left as it is. Its output goes to DIR/server.log; `fairway shutdown` ends it.

    \b
    Examples:
      fairway up
      fairway up --cpus 16 --memory 64Gi --gpus T4:8
      fairway up --state ./state --port 0
    """
    from fairway.cli import remembering  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.background import ensure  # noqa: PLC0415

    given = [
        name for name in options if name != "state" and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    settings = Settings(**options) if given else remembering.settings_as_before(options["state"])[0]
    pid, url = ensure(settings)
    if url and given:
        remembering.remember(settings)
    click.echo(f"Fairway is up at {url} (process {pid})." if url else f"Fairway is already up (process {pid}).")
    if given and not url:
        said = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        click.echo(f"It was started before and stays as it is: {said} would count after `fairway shutdown`.", err=True)
    click.echo(f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig))}")
