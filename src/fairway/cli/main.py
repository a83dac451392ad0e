"""`fairway`: the door for people. Commands are imported when they are used, so that help is instant."""

import importlib
import sys
from typing import Any

import click

from fairway.errors import FairwayError

_COMMANDS = {
    "serve": ("fairway.cli.serve", "Run the server in the foreground."),
    "up": ("fairway.cli.up", "Start the server in the background, or find it running."),
    "shutdown": ("fairway.cli.shutdown", "End the server that runs in the background."),
    "users": ("fairway.cli.users", "Add, list and remove users; make tokens."),
    "backup": ("fairway.cli.backup", "Copy the state to a file, whether or not a server runs."),
    "version": ("fairway.cli.version", "Print the version."),
}


class _Commands(click.Group):
    """Commands by name, each in a module of its own under the name of the command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            import difflib  # noqa: PLC0415 - only for those who mistype

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean `fairway {near[0]}`?" if near else " `fairway --help` lists what there is."
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}", ctx) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def fairway() -> None:
    """Fairway queues, prioritises, preempts and recovers jobs for many teams.

    \b
    Start here:
      fairway up                                   a server on this machine, in the background
      export KUBECONFIG=~/.fairway/kubeconfig      then kubectl and every Kubernetes client speak to it
      kubectl get clusterqueues
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run a command; what goes wrong on purpose is one line on stderr and exit code 1."""
    try:
        return fairway.main(arguments, prog_name="fairway", standalone_mode=True)
    except FairwayError as error:
        click.echo(f"fairway: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
