"""Options that several commands share."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from fairway.settings import DEFAULT_PORT, state_directory

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    """The command with these options, in the order of its help."""
    for option in reversed([*options]):
        command = option(command)
    return command


def _expanded(_ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path:
    return value.expanduser() if value is not None else state_directory()


state_option = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    callback=_expanded,
    metavar="DIR",
    help="State directory of the server.  [default: $FAIRWAY_STATE, else ~/.fairway]",
)


controllers_option = click.option(
    "--controllers",
    default="all",
    show_default=True,
    metavar="NAMES",
    help="Controllers to run: all, none, names separated by commas, or -NAME to leave one out.",
)


def serving_options(command: Command) -> Command:
    """The options of `up`, `serve` and `service install`."""
    options = [
        state_option,
        click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."),
        click.option(
            "--port",
            type=int,
            default=DEFAULT_PORT,
            show_default=True,
            envvar="FAIRWAY_PORT",
            metavar="N",
            help="Port to listen on; 0 picks a free one. Also $FAIRWAY_PORT.",
        ),
        click.option(
            "--tls-cert",
            type=click.Path(path_type=Path),
            help="TLS certificate (PEM).  [default: self-signed, for this machine only]",
        ),
        click.option("--tls-key", type=click.Path(path_type=Path), help="Private key of --tls-cert (PEM)."),
        click.option(
            "--public-name",
            metavar="NAME",
            help="Host name for clients, as in the certificate.  [default: taken from the certificate]",
        ),
        click.option(
            "--insecure", is_flag=True, help="Serve plain HTTP: tokens are not encrypted, and kubectl sends none."
        ),
        click.option("--cpus", metavar="AMOUNT", help="CPUs for jobs, such as 8.  [default: all CPUs of this machine]"),
        click.option(
            "--memory", metavar="AMOUNT", help="Memory for jobs, such as 16Gi.  [default: all memory of this machine]"
        ),
        click.option(
            "--gpus",
            metavar="[MODEL:]N[,...]",
            help="GPUs for jobs, such as 8, T4:8 or V100:4,T4:2; may exceed the real number.  [default: all]",
        ),
        click.option(
            "--nodes",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Also have the nodes of this file; their pods run on this machine.",
        ),
        controllers_option,
        click.option("--api-only", is_flag=True, help="Serve only the API: run no scheduler and no jobs."),
        click.option(
            "--no-node",
            is_flag=True,
            help="Run no pods on this machine and create no first queues: others are its nodes.",
        ),
    ]
    return with_options(command, options)
