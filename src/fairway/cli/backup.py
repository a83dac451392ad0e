"""`fairway backup`."""

from pathlib import Path

import click

from fairway.cli.options import state_option
from fairway.settings import Settings


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@state_option
def backup(target: Path, state: Path) -> None:
    """Copy the state to TARGET, whether or not a server runs.

    The copy is complete and consistent as of one moment. To go back to it, end the server, put the copy in place of
    DIR/fairway.db (remove fairway.db-wal and fairway.db-shm), and start again. Users and tokens are in DIR/users.json
    and are not part of it.

    \b
    Example:
      fairway backup /backups/fairway-$(date +%F).db
    """
    from fairway.store.sqlite import back_up  # noqa: PLC0415 - help must not wait for it

    back_up(Settings(state=state).database, target)
    click.echo(f"Copied to {target} ({target.stat().st_size / 1e6:.1f} MB).")
