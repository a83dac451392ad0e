"""`fairway jobs cancel`."""

from collections.abc import Sequence
from typing import Any

import click

from fairway.cli.changing import (
    JobSelection,
    ask_before,
    change,
    choosing_options,
    chosen,
    elsewhere,
    left_out,
    report,
    which,
)
from fairway.cli.choosing import Manifest, has_ended, phase_of
from fairway.cli.session import open_session, print_note, yes_option


@click.command()
@yes_option
@click.option("--async", "asynchronous", is_flag=True, help="Return at once; do not wait for the end.")
@choosing_options
def cancel(
    *,
    choice: JobSelection,
    yes: bool,
    asynchronous: bool,
    output: str,
    **where: Any,
) -> None:
    """Stop jobs for good, waiting or running.

    All of them are cancelled at once, or none. Their processes get SIGTERM and a grace period; the command returns when
    they have ended. Logs and results are kept. On a terminal it asks first; jobs of other users need the confirmation
    everywhere, so a script gives -y.

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
            report([], output, "No job to cancel.")
            _print_unaffected(elsewhere(session, choice))
            return
        ask_before(session, living, "Cancelling", yes=yes, own=True)
        changed = change(session, living, lambda _job: {"cancel": True})
        if asynchronous:
            report(changed, output, f"{_plural(changed)} being cancelled.")
            _print_unaffected(elsewhere(session, choice))
            return
        from fairway.cli.awaiting import until  # noqa: PLC0415 - not with --async

        try:
            over = until(session, changed, has_ended)
        except KeyboardInterrupt:
            print_note(f"\n{_plural(changed)} still being cancelled.")
            raise
        report(over, output, _result(over))
        _print_unaffected(elsewhere(session, choice))


def _print_unaffected(sentence: str) -> None:
    if sentence:
        print_note(sentence)


def _plural(jobs: Sequence[Manifest]) -> str:
    return f"{which(jobs)} {'is' if len(jobs) == 1 else 'are'}"


def _result(jobs: Sequence[Manifest]) -> str:
    cancelled = [job for job in jobs if phase_of(job) == "CANCELLED"]
    lines = [f"{which(cancelled)} cancelled."] if cancelled else []
    lines += [f"{which([job])} ended before: {phase_of(job)}." for job in jobs if phase_of(job) != "CANCELLED"]
    return "\n".join(lines)
