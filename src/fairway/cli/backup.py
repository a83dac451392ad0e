"""`fairway backup`: everything a server needs, in one file."""

from pathlib import Path

import click

from fairway.cli.options import state_option


@click.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--logs", is_flag=True, help="Include the logs of jobs and of the server.")
@click.option("--no-results", is_flag=True, help="Leave out the working directories of jobs.")
@state_option
def backup(target: Path, *, logs: bool, no_results: bool, state: Path) -> None:
    """Write a backup of the server to TARGET, a tar file; the server may be running.

    It holds a consistent copy of the database, users, certificates, configuration, archives, checkpoints and the
    results of jobs. The database is checked first, and the file is read back and compared at the end; on an error no
    file is left. Restore it with `fairway restore`. Keep it safe: it contains tokens and keys.

    \b
    Examples:
      fairway backup ~/fairway-$(date +%F).tar
      fairway backup --logs ~/with-logs.tar
    """
    import sys  # noqa: PLC0415
    from datetime import UTC, datetime  # noqa: PLC0415 - help must not wait for it

    from fairway import __version__  # noqa: PLC0415
    from fairway.backups import FORMAT, Manifest, write_backup  # noqa: PLC0415
    from fairway.cli.session import print_note  # noqa: PLC0415
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
        print_note(f"Warning: {name} changed while it was copied; the copy may mix old and new content.")
    for name in content.left_out:
        print_note(f"Skipped {name}: not a regular file.")
    size = target.stat().st_size / 1e6
    click.echo(f"Copied {content.files} files to {target} ({size:.1f} MB); verified.")
