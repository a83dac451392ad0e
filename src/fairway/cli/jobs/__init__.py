"""`fairway jobs`: one file a verb. Commands are imported when they are used, so that help is instant."""

import importlib

import click

_COMMANDS = {
    "launch": "Run a task, and run it again whenever it is preempted or lost.",
    "queue": "Who runs, who waits, at which place and why.",
    "why": "Why a job waits: what is missing, who holds it, what would let it in.",
    "logs": "What a job wrote, in every attempt.",
    "files": "The files that a job left in its working directory.",
    "download": "Copy files that a job left to this machine.",
    "cancel": "End jobs for good.",
    "hold": "Take jobs out of the queue until they are released.",
    "release": "Let jobs that are held go on.",
    "retry": "Begin again with jobs that have ended.",
    "priority": "Change how important a job is.",
}
"""Each is in the module of its name, under its name."""

_ALIASES = {"status": "queue"}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        name = _ALIASES.get(cmd_name, cmd_name)
        if name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"fairway.cli.jobs.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            import difflib  # noqa: PLC0415 - only for those who mistype

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean `fairway jobs {near[0]}`?" if near else " `fairway jobs --help` lists what there is."
            raise click.UsageError(f"there is no command {args[0]!r} for jobs.{hint}", ctx) from None


@click.group(cls=_Commands)
def jobs() -> None:
    """Jobs that come back by themselves.

    A job waits in its queue until there is room for it, runs, and when something more important takes its place it
    comes back at its old place in the queue, until it has ended.

    \b
    Examples:
      fairway jobs launch train.yaml
      fairway jobs queue
      fairway jobs why 3
      fairway jobs logs -f 3
      fairway jobs cancel 3
    """
