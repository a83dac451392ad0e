"""`fairway jobs priority`."""

import re
from typing import Any

import click

from fairway.cli.changing import change, missing, report, unless_ended, which
from fairway.cli.choosing import Manifest, resolve_jobs
from fairway.cli.completion import job_names
from fairway.cli.session import open_session, output_option, session_options
from fairway.errors import FairwayError

_NUMBER = re.compile(r"[+-]?\d+")
_MOST = 2**31


class NoSuchClassError(FairwayError):
    """There is no class of that name."""


@click.command(context_settings={"ignore_unknown_options": True})  # -5 is a priority
@click.argument("words", nargs=-1, required=True, metavar="ID|NAME...", shell_complete=job_names)
@click.argument("value", metavar="NUMBER|CLASS")
@output_option
@session_options
@click.pass_context
def priority(ctx: click.Context, /, *, words: tuple[str, ...], value: str, output: str, **where: Any) -> None:
    """Change the priority of jobs.

    A number, the name of a WorkloadPriorityClass, or `none` for neither. It takes effect at once: a waiting job moves
    in its queue and may preempt a running one; a running job keeps its quota. The priority earned by preemptions stays.

    \b
    Examples:
      fairway jobs priority 3 100
      fairway jobs priority 3 4 high-priority
      fairway jobs priority 3 -- -5
    """
    spec = _spec(value)
    with open_session(**where) as session:
        found = resolve_jobs(session, words)
        jobs = unless_ended(found)
        if spec["priorityClass"]:
            for sentence in missing(session, "WorkloadPriorityClass", "workloadpriorityclasses", value):
                raise NoSuchClassError(sentence.replace(", and the job waits until there is", ""))
        changed = change(session, jobs, lambda _job: spec)
    if changed or output == "json":
        to = "the default priority" if value == "none" else f"priority {value}"
        report(changed, output, f"{which(changed)}: {to}, from now on.")
    ctx.exit(0 if len(changed) == len(found) else 1)


def _spec(value: str) -> Manifest:
    if value == "none":
        return {"priority": None, "priorityClass": None}
    if _NUMBER.fullmatch(value):
        if len(value) > 11 or not -_MOST <= int(value) < _MOST:
            raise click.BadParameter(f"{value}: a priority is a number from {-_MOST} to {_MOST - 1}")
        return {"priority": int(value), "priorityClass": None}
    return {"priority": None, "priorityClass": value}
