"""`fairway shutdown`."""

import os
import signal
from pathlib import Path

import click

from fairway.cli.options import state_option
from fairway.errors import FairwayError

_PATIENCE_SECONDS = 30.0


class StillRunningError(FairwayError):
    """The server was told to end, but has not."""


@click.command()
@state_option
def shutdown(state: Path) -> None:
    """End the server that runs on a state directory.

    Returns when it has ended; running jobs are not touched. When there is no server, that is said, and all is well.
    """
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
