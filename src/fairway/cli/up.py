"""`fairway up`: the server in the background."""

import shlex
from typing import Any

import click
from click.core import ParameterSource

from fairway.cli.options import serving_options
from fairway.settings import Settings


@click.command()
@serving_options
@click.option("--reset", is_flag=True, help="Forget the options of earlier calls.")
@click.pass_context
def up(ctx: click.Context, /, *, reset: bool, **options: Any) -> None:
    """Start the server in the background, or find it running.

    Returns when the server answers. Options are kept in DIR/up.json for the next start, be it by `fairway up` or by any
    command that finds no server; what is not said again stays as it was, and is named, and --reset forgets it. A server
    that runs already is left as it is. Its output goes to DIR/server.log; `fairway shutdown` ends it.

    \b
    Examples:
      fairway up
      fairway up --cpus 16 --memory 64Gi --gpus T4:8
      fairway up --state ./state --port 0
    """
    from fairway.cli import remembering  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.background import ensure  # noqa: PLC0415
    from fairway.cli.session import tell  # noqa: PLC0415

    given = {
        name: value
        for name, value in options.items()
        if name != "state" and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    state = options["state"]
    if reset:
        settings, kept = Settings(**options), remembering.Options()
    else:
        settings, kept = remembering.settings_with(state, given)
    pid, url = ensure(settings)
    if url and (given or reset):
        remembering.remember(settings)
    click.echo(f"Fairway is up at {url} (process {pid})." if url else f"Fairway is already up (process {pid}).")
    if url and kept.words:
        tell(f"Kept from before: {kept.words} (`fairway up --reset` forgets it).")
    if not url and (given or reset):
        said = ", ".join(f"--{name.replace('_', '-')}" for name in (*given, *(["reset"] if reset else [])))
        tell(f"It was started before and stays as it is: {said} counts if given again after `fairway shutdown`.")
    click.echo(f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig))}")
