"""`fairway backup`: everything a server needs, in one file."""

from pathlib import Path

import click

from fairway.cli.options import state_option


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--logs", is_flag=True, help="Also what jobs and the server wrote.")
@click.option("--no-results", is_flag=True, help="Leave out what jobs left in their working directories.")
@state_option
def backup(target: Path, *, logs: bool, no_results: bool, state: Path) -> None:
    """Copy everything a server needs to TARGET, a tar file, whether or not a server runs.

    Taken are the database as of one moment, users, certificates, configuration, archives, checkpoints and results of
    jobs. The database is checked first, and the file is read again and compared at the end: a damaged page is an
    error, and leaves no file behind. `fairway restore` puts it back. Keep it safe: it holds tokens and keys.

    \b
    Examples:
      fairway backup ~/fairway-$(date +%F).tar
      fairway backup --logs ~/with-logs.tar
    """
    import sys  # noqa: PLC0415
    from datetime import UTC, datetime  # noqa: PLC0415 - help must not wait for it

    from fairway import __version__  # noqa: PLC0415
    from fairway.backups import FORMAT, Manifest, write_backup  # noqa: PLC0415
    from fairway.cli.session import tell  # noqa: PLC0415
    from fairway.cli.tables import screen  # noqa: PLC0415

    shows = screen(sys.stderr).moves

    def progress(name: str, size: int) -> None:
        if shows:
            click.echo(f"\r\x1b[K{size / 1e6:.1f} MB  {name[-60:]}", nl=False, err=True)

    about = Manifest(FORMAT, __version__, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", logs, {})
    content = write_backup(state, target, about, results=not no_results, progress=progress)
    if shows:
        click.echo("\r\x1b[K", nl=False, err=True)
    for name in content.changing:
        tell(f"Warning: {name} was written to while it was copied; the copy is of a moment in between.")
    for name in content.left_out:
        tell(f"Left out: {name}, which is no file.")
    size = target.stat().st_size / 1e6
    click.echo(f"Copied {content.files} files to {target} ({size:.1f} MB); read again and compared.")
