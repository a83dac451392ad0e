"""`fairway jobs retry`."""

from typing import Any

import click

from fairway.cli.changing import Choice, change, chosen, left_out, naming_options, told, which
from fairway.cli.choosing import Manifest, has_ended, id_of, phase_of
from fairway.cli.session import open_session


@click.command()
@naming_options
@click.pass_context
def retry(ctx: click.Context, /, *, choice: Choice, output: str, **where: Any) -> None:
    """Begin again with jobs that have ended.

    They wait in their queue as new ones do, keep their id, and find what they left in their checkpoint directory. The
    logs of the attempts before stay.

    \b
    Examples:
      fairway jobs retry 3
      fairway jobs retry 5-9
    """
    if bool(choice.words) == bool(choice.name):
        raise click.UsageError("say which jobs to begin again with: by id or name, or -n NAME")
    with open_session(**where) as session:
        found = chosen(session, choice)
        living = [job for job in found if not has_ended(job)]
        left_out(living, lambda job: f"has not ended: {phase_of(job)}. `fairway jobs cancel {id_of(job)}` ends it.")
        changed = change(session, [job for job in found if has_ended(job)], _again)
    if changed or output == "json":
        told(changed, output, f"{which(changed)} queued again.")
    ctx.exit(1 if living else 0)


def _again(job: Manifest) -> Manifest:
    """One more try; what was cancelled is no longer."""
    more: Manifest = {"retry": int(job["spec"].get("retry") or 0) + 1}
    return {**more, "cancel": None} if job["spec"].get("cancel") else more
