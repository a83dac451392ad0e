"""`fairway up`: the server in the background."""

import shlex
from typing import Any

import click
from click.core import ParameterSource

from fairway.cli.options import serving_options
from fairway.settings import Settings


@click.command()
@serving_options
@click.option("--reset", is_flag=True, help="Discard the options saved by earlier calls.")
@click.pass_context
def up(ctx: click.Context, /, *, reset: bool, **options: Any) -> None:
    """Start the server in the background, if it is not running.

    Returns when the server answers. The options are saved in DIR/up.json and used at the next start, by `fairway up` or
    by any command that finds no server; options not given again keep their saved values, which `up` prints, and --reset
    discards them. A running server is not changed. The server logs to DIR/server.log; `fairway shutdown` stops it.

    \b
    Examples:
      fairway up
      fairway up --cpus 16 --memory 64Gi --gpus T4:8
      fairway up --state ./state --port 0
    """
    from fairway.cli import remembering  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.background import ensure  # noqa: PLC0415
    from fairway.cli.session import print_note  # noqa: PLC0415

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
        print_note(f"Saved options used: {kept.words} (`fairway up --reset` discards them).")
    if not url and (given or reset):
        said = ", ".join(f"--{name.replace('_', '-')}" for name in (*given, *(["reset"] if reset else [])))
        print_note(f"The running server was not changed. To apply {said}, run `fairway shutdown` first.")
    click.echo(f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig))}")
