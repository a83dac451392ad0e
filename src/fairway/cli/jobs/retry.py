"""`fairway jobs retry`."""

from typing import Any

import click

from fairway.cli.changing import JobSelection, ask_before, change, chosen, left_out, naming_options, report, which
from fairway.cli.choosing import Manifest, has_ended, id_of, phase_of
from fairway.cli.session import open_session, yes_option


@click.command()
@yes_option
@naming_options
@click.pass_context
def retry(ctx: click.Context, /, *, choice: JobSelection, yes: bool, output: str, **where: Any) -> None:
    """Run ended jobs again.

    They wait in their queue like new jobs, and keep their id, their checkpoint directory and the logs of earlier
    attempts. Several jobs, or jobs of other users, are retried only after a confirmation.

    \b
    Examples:
      fairway jobs retry 3
      fairway jobs retry 5-9
    """
    if bool(choice.words) == bool(choice.name):
        raise click.UsageError("say which jobs to run again: ids or names, or -n NAME")
    with open_session(**where) as session:
        found = chosen(session, choice)
        living = [job for job in found if not has_ended(job)]
        ended = [job for job in found if has_ended(job)]
        left_out(living, lambda job: f"has not ended: {phase_of(job)}. `fairway jobs cancel {id_of(job)}` stops it.")
        ask_before(session, ended, "Running again:", yes=yes, own=len(ended) > 1)
        changed = change(session, ended, _again)
    if changed or output == "json":
        report(changed, output, f"{which(changed)} queued again.")
    ctx.exit(1 if living else 0)


def _again(job: Manifest) -> Manifest:
    """One more retry; a cancelled job is no longer cancelled."""
    more: Manifest = {"retry": int(job["spec"].get("retry") or 0) + 1}
    return {**more, "cancel": None} if job["spec"].get("cancel") else more
