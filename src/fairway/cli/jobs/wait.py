"""`fairway jobs wait`."""

import re
from collections.abc import Sequence
from typing import Any, Final

import click

from fairway.cli.announcing import ending
from fairway.cli.changing import JobSelection, choosing_options, chosen, report, which
from fairway.cli.choosing import Manifest, has_ended, phase_of
from fairway.cli.session import open_session, print_note

NOT_SUCCEEDED: Final = 4
TIMED_OUT: Final = 124
"""As of timeout(1)."""

_MOST_EXPLAINED: Final = 5

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = _TIME.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a time; write a number and s, m, h or d, such as 90s or 2h")
    return float(found[1]) * _UNITS[found[2]]


@click.command()
@click.option(
    "--timeout", callback=_seconds, metavar="TIME", help="Give up after 90s, 30m, 2h, 1d.  [default: wait for ever]"
)
@choosing_options
@click.pass_context
def wait(ctx: click.Context, /, *, choice: JobSelection, timeout: float | None, output: str, **where: Any) -> None:
    """Wait until jobs have ended.

    Prints a line for each job when it ends. Jobs that have already ended count, too. The command watches the jobs, so
    it returns as soon as the last one ends; it survives a restart of the server. If all jobs that are left can never
    run with the current nodes and quotas, the command ends with the reasons; the jobs stay queued.

    \b
    Exit codes:
      0    all succeeded
      3    the jobs that have not ended can never run
      4    all have ended, and at least one did not succeed (or was deleted)
      124  the timeout passed first; the jobs keep running

    \b
    Examples:
      fairway jobs wait 3-7
      fairway jobs wait train --timeout 2h && fairway jobs launch eval.yaml
      fairway jobs wait -a -o json
    """
    from fairway.cli.awaiting import TimedOut, until  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.prospects import CannotRun, Prospects  # noqa: PLC0415

    quiet = output == "json"

    def on_end(job: Manifest) -> None:
        if not quiet:
            click.echo(ending(job) if has_ended(job) else f"Job {which([job], '').strip()} was deleted.")

    late = False
    with open_session(**where) as session:
        prospects = Prospects(session)
        jobs = chosen(session, choice)
        waiting = [job for job in jobs if not has_ended(job)]
        if waiting:
            print_note(f"Waiting for {which(waiting, 'job')} ...")
        try:
            over = until(session, jobs, has_ended, on_done=on_end, seconds=timeout, check=prospects.check)
        except TimedOut as stopped:
            over, late = stopped.jobs, True
    if quiet:
        report(over, output, "")
    left = [job for job in over if not has_ended(job)]
    if late:
        have = "has" if len(left) == 1 else "have"
        print_note(f"error: {which(left, 'job')} {have} not ended within {timeout:g} s: {_counted(left)}")
        ctx.exit(TIMED_OUT)
    if prospects.stuck:
        for job, reason in prospects.stuck[:_MOST_EXPLAINED]:
            print_note(f"error: {CannotRun(job, reason)}")
        if len(prospects.stuck) > _MOST_EXPLAINED:
            print_note(f"... and {len(prospects.stuck) - _MOST_EXPLAINED} other jobs can never run")
        ctx.exit(CannotRun.exit_code)
    if not over and not quiet:
        click.echo("No job to wait for.")
    ctx.exit(0 if all(phase_of(job) == "SUCCEEDED" for job in over) else NOT_SUCCEEDED)


def _counted(jobs: Sequence[Manifest]) -> str:
    """`2 RUNNING, 1 PENDING`."""
    from collections import Counter  # noqa: PLC0415

    return ", ".join(f"{count} {phase}" for phase, count in Counter(map(phase_of, jobs)).most_common())
