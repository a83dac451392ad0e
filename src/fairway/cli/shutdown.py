"""`fairway shutdown`."""

import os
import signal
from pathlib import Path

import click

from fairway.cli.options import state_option
from fairway.errors import FairwayError

_PATIENCE_SECONDS = 30.0
_GRACE_SECONDS = 10.0
"""For jobs that are told to end."""


class StillRunningError(FairwayError):
    """The server was told to end, but has not."""


@click.command()
@state_option
@click.option(
    "--jobs", is_flag=True, help="End all running jobs, too. The next start tries again what may be tried again."
)
def shutdown(state: Path, *, jobs: bool) -> None:
    """End the server that runs on a state directory.

    Returns when it has ended; running jobs go on, unless --jobs is given. When there is no server, that is said, and
    all is well.

    \b
    Examples:
      fairway shutdown
      fairway shutdown --jobs
    """
    _end_server(state)
    if jobs and state.is_dir():
        import asyncio  # noqa: PLC0415 - help must not wait for it

        from fairway.runner.supervision import end_jobs  # noqa: PLC0415
        from fairway.runtime.clock import SystemClock  # noqa: PLC0415

        asyncio.run(end_jobs(state, SystemClock(), _GRACE_SECONDS))
        click.echo("All jobs have ended.")


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
            f"process {pid} was told to end but still runs after {_PATIENCE_SECONDS:.0f} s; see {state / 'server.log'}"
        ) from None
    click.echo(f"Fairway (process {pid}) has ended.")
