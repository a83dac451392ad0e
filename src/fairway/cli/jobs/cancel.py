"""`fairway jobs cancel`."""

from collections.abc import Sequence
from typing import Any

import click

from fairway.cli.changing import Choice, change, choosing_options, chosen, left_out, told, which
from fairway.cli.choosing import Manifest, has_ended, phase_of
from fairway.cli.session import confirmed, open_session, tell


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--async", "asynchronous", is_flag=True, help="Do not wait until they have ended.")
@choosing_options
def cancel(
    *,
    choice: Choice,
    yes: bool,
    asynchronous: bool,
    output: str,
    **where: Any,
) -> None:
    """End jobs for good, those that wait and those that run.

    All of them are cancelled at once, or none. Their processes get the signal TERM, and some time to end; this command
    returns when they have ended. What a job wrote stays.

    \b
    Examples:
      fairway jobs cancel 3
      fairway jobs cancel 3 5-9 'sweep-*'
      fairway jobs cancel -a -y
    """
    with open_session(**where) as session:
        found = chosen(session, choice)
        ended = [job for job in found if has_ended(job)]
        living = [job for job in found if not has_ended(job)]
        left_out(ended, lambda job: f"has ended already: {phase_of(job)}.")
        if not living:
            told([], output, "There is nothing to cancel.")
            return
        confirmed(f"Cancelling {which(living, 'job')}. Proceed?", yes=yes)
        changed = change(session, living, lambda _job: {"cancel": True})
        if asynchronous:
            told(changed, output, f"{_plural(changed)} being cancelled.")
            return
        from fairway.cli.awaiting import until  # noqa: PLC0415 - not for those who do not wait

        try:
            over = until(session, changed, has_ended)
        except KeyboardInterrupt:
            tell(f"\n{_plural(changed)} being cancelled all the same.")
            raise
        told(over, output, _result(over))


def _plural(jobs: Sequence[Manifest]) -> str:
    return f"{which(jobs)} {'is' if len(jobs) == 1 else 'are'}"


def _result(jobs: Sequence[Manifest]) -> str:
    cancelled = [job for job in jobs if phase_of(job) == "CANCELLED"]
    lines = [f"{which(cancelled)} cancelled."] if cancelled else []
    lines += [f"{which([job])} ended before: {phase_of(job)}." for job in jobs if phase_of(job) != "CANCELLED"]
    return "\n".join(lines)
