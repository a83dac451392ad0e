"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fairway.settings import DEFAULT_PORT, state_directory

Command = TypeVar("Command", bound=Callable[..., Any])


def _expanded(_ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path:
    return value.expanduser() if value is not None else state_directory()


state_option = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    callback=_expanded,
    metavar="DIR",
    help="Where the server keeps its files.  [default: $FAIRWAY_STATE, else ~/.fairway]",
)


def serving_options(command: Command) -> Command:
    """What can be said about how a server listens."""
    options = [
        state_option,
        click.option(
            "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on."
        ),
        click.option(
            "--port",
            type=int,
            default=DEFAULT_PORT,
            show_default=True,
            envvar="FAIRWAY_PORT",
            metavar="N",
            help="The port to listen on; 0 lets the system choose. $FAIRWAY_PORT says it, too.",
        ),
        click.option(
            "--tls-cert",
            type=click.Path(path_type=Path),
            help="Certificate (PEM).  [default: one of the server's own, for this machine only]",
        ),
        click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key (PEM)."),
        click.option(
            "--public-name",
            metavar="NAME",
            help="The name that clients reach the server by; the certificate must have it.  [default: one it has]",
        ),
        click.option(
            "--insecure", is_flag=True, help="Plain HTTP: tokens travel in the clear, and kubectl sends none."
        ),
        click.option(
            "--cpus", metavar="AMOUNT", help="CPUs that jobs may use in all, such as 8.  [default: all there are]"
        ),
        click.option(
            "--memory", metavar="AMOUNT", help="Memory that jobs may use in all, such as 16Gi.  [default: all there is]"
        ),
        click.option(
            "--gpus",
            metavar="[MODEL:]N[,...]",
            help="GPUs that jobs may use, such as 8, T4:8 or V100:4,T4:2; may be more than there are.  [default: all]",
        ),
        click.option("--api-only", is_flag=True, help="Serve the API alone: nothing is queued, no job is run."),
    ]
    for option in reversed(options):
        command = option(command)
    return command
