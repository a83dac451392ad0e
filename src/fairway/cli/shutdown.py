"""`fairway shutdown`."""

import contextlib
import os
import signal
from pathlib import Path

import click

from fairway.cli.options import state_option
from fairway.cli.session import yes_option
from fairway.errors import FairwayError

_PATIENCE_SECONDS = 30.0
_GRACE_SECONDS = 10.0
"""From SIGTERM to SIGKILL for jobs."""


class StillRunningError(FairwayError):
    """The server got SIGTERM, but has not ended."""


@click.command()
@state_option
@click.option("--jobs", is_flag=True, help="Also stop all running jobs; the next start restarts managed jobs.")
@yes_option
def shutdown(state: Path, *, jobs: bool, yes: bool) -> None:
    """Stop the server of a state directory.

    Returns when the server has ended. Jobs keep running, unless --jobs is given, which asks for confirmation if jobs of
    other users run. It is no error if no server runs.

    \b
    Examples:
      fairway shutdown
      fairway shutdown --jobs
    """
    if jobs and not yes:
        _confirm_jobs_of_others(state)
    _end_server(state)
    if jobs and state.is_dir():
        import asyncio  # noqa: PLC0415 - help must not wait for it

        from fairway.runner.supervision import end_jobs  # noqa: PLC0415
        from fairway.runtime.clock import SystemClock  # noqa: PLC0415

        asyncio.run(end_jobs(state, SystemClock(), _GRACE_SECONDS))
        click.echo("All jobs have ended.")


def _confirm_jobs_of_others(state: Path) -> None:
    """Ask before jobs of other users are stopped, if a server is there to say whose jobs run."""
    from fairway.cli.changing import ask_before  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.choosing import all_jobs, has_ended, phase_of  # noqa: PLC0415
    from fairway.cli.session import open_session  # noqa: PLC0415
    from fairway.client.rest import KubeconfigError, Unreachable  # noqa: PLC0415
    from fairway.runtime.lease import holder  # noqa: PLC0415

    if not state.is_dir() or holder(state) is None:
        return
    with (
        contextlib.suppress(Unreachable, KubeconfigError),
        open_session(state=state, all_namespaces=True, own=True) as session,
    ):
        running = [job for job in all_jobs(session) if not has_ended(job) and phase_of(job) != "PENDING"]
        ask_before(session, running, "Stopping", yes=False, own=False)


def _end_server(state: Path) -> None:
    import psutil  # noqa: PLC0415 - help must not wait for it

    from fairway.runtime.lease import holder  # noqa: PLC0415

    pid = holder(state) if state.is_dir() else None
    if pid is None:
        click.echo(f"No server is running on {state}.")
        return
    try:
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGTERM)
        process.wait(_PATIENCE_SECONDS)
    except (psutil.NoSuchProcess, ProcessLookupError):
        pass  # it has ended by itself meanwhile
    except psutil.TimeoutExpired:
        raise StillRunningError(
            f"process {pid} got SIGTERM but still runs after {_PATIENCE_SECONDS:.0f} s; see {state / 'server.log'}"
        ) from None
    click.echo(f"Fairway (process {pid}) has ended.")
