"""The `fairway` command group. Commands are imported when they are used."""

import importlib

import click

from fairway.cli import catalog


class _Commands(click.Group):
    """Commands by name, each in a module of its own under the name of the command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(catalog.PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = catalog.ALIASES.get(cmd_name, cmd_name)
        if name not in catalog.PLACES:
            return _job_commands().get_command(ctx, name)
        command: click.Command = getattr(importlib.import_module(catalog.PLACES[name]), name)
        return command

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        return catalog.help_text().rstrip()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            import difflib  # noqa: PLC0415 - only after a typing error

            known = [*catalog.PLACES, *_job_commands().list_commands(ctx)]
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean `fairway {near[0]}`?" if near else " `fairway --help` lists all commands."
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}", ctx) from None


def _job_commands() -> click.Group:
    """Those of `fairway jobs`, which work without `jobs` as well: `fairway queue`."""
    from fairway.cli.jobs import jobs  # noqa: PLC0415 - only for those

    return jobs


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def fairway() -> None:
    """Fairway queues, prioritises, preempts and recovers jobs for many teams."""
