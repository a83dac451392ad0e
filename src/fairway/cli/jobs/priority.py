"""`fairway jobs priority`."""

import re
from typing import Any

import click

from fairway.cli.changing import change, told, unless_ended, which
from fairway.cli.choosing import Manifest, resolve_jobs
from fairway.cli.completion import job_names
from fairway.cli.session import open_session, output_option, session_options

_NUMBER = re.compile(r"[+-]?\d{1,10}")


@click.command(context_settings={"ignore_unknown_options": True})  # -5 is a priority
@click.argument("words", nargs=-1, required=True, metavar="ID|NAME...", shell_complete=job_names)
@click.argument("value", metavar="NUMBER|CLASS")
@output_option
@session_options
@click.pass_context
def priority(ctx: click.Context, /, *, words: tuple[str, ...], value: str, output: str, **where: Any) -> None:
    """Change how important jobs are.

    A number, the name of a WorkloadPriorityClass, or `none` for neither. It counts at once: a job that waits moves in
    its queue, and may take the place of one that runs; one that runs keeps what it has. What preemptions have added to
    it stays.

    \b
    Examples:
      fairway jobs priority 3 100
      fairway jobs priority 3 4 high-priority
      fairway jobs priority 3 -- -5
    """
    with open_session(**where) as session:
        found = resolve_jobs(session, words)
        jobs = unless_ended(found)
        changed = change(session, jobs, lambda _job: _spec(value))
    if changed or output == "json":
        told(changed, output, f"{which(changed)}: priority {value}, from now on.")
    ctx.exit(0 if len(changed) == len(found) else 1)


def _spec(value: str) -> Manifest:
    if value == "none":
        return {"priority": None, "priorityClass": None}
    if _NUMBER.fullmatch(value):
        return {"priority": int(value), "priorityClass": None}
    return {"priority": None, "priorityClass": value}
