"""`fairway jobs`: one module per command, imported when it is used, so that help is instant."""

import importlib

import click

_COMMANDS = {
    "launch": "Run a task, and restart it after every preemption.",
    "queue": "List running and waiting jobs, with position and reason.",
    "why": "Explain why a job waits: what is missing, who holds it, what would admit it.",
    "history": "List the attempts of jobs, also of deleted ones, and how they ended.",
    "logs": "Print the log of a job, of any attempt.",
    "files": "List the files that a job left in its working directory.",
    "download": "Copy files of a job to this machine.",
    "wait": "Wait until jobs have ended.",
    "cancel": "Stop jobs for good.",
    "hold": "Take jobs out of the queue until they are released.",
    "release": "Put held jobs back into the queue.",
    "retry": "Run ended jobs again.",
    "priority": "Change the priority of jobs.",
}
"""Each is in the module of its name, as an attribute of its name."""

_ALIASES = {"status": "queue", "ls": "queue", "list": "queue"}


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
            import difflib  # noqa: PLC0415 - only after a typing error

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean `fairway jobs {near[0]}`?" if near else " `fairway jobs --help` lists all commands."
            raise click.UsageError(f"there is no command {args[0]!r} for jobs.{hint}", ctx) from None


@click.group(cls=_Commands)
def jobs() -> None:
    """Run, list and change managed jobs, which restart after a preemption.

    A job waits in its queue until there is quota for it, then runs. When a more important job preempts it, it returns
    to its old place in the queue and runs again, until it has ended. All these commands also work without `jobs`, such
    as `fairway queue`, except `launch`; `ls` is short for `queue`.

    \b
    Examples:
      fairway jobs launch train.yaml
      fairway jobs queue
      fairway jobs why 3
      fairway jobs logs -f 3
      fairway jobs cancel 3
    """
