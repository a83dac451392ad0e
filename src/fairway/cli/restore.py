"""`fairway restore`: a state directory from a backup."""

from pathlib import Path

import click

from fairway.cli.options import state_option


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Rename a state directory that is not empty, and restore in its place.")
@click.option("--resume", is_flag=True, help="Restart jobs that had not ended, as after a crash of the machine.")
@state_option
def restore(source: Path, *, replace: bool, resume: bool, state: Path) -> None:
    """Restore a backup into the state directory; stop the server first.

    The backup is verified first and restored completely or not at all. Jobs that had ended do not run again. Jobs that
    had not ended are held, since they may have ended after the backup: list them with `fairway jobs queue`, and restart
    them with `fairway jobs release`. With --resume they all restart.

    \b
    Examples:
      fairway restore --replace ~/fairway.tar
      fairway restore --resume --state ./moved ~/fairway.tar
    """
    from fairway.cli.session import print_note  # noqa: PLC0415 - help must not wait for it
    from fairway.restoring import put_back  # noqa: PLC0415

    manifest, held, aside = put_back(source, state, replace=replace, hold=not resume)
    click.echo(f"Restored {state} as of {manifest.made}. Start the server with: fairway up")
    if aside is not None:
        print_note(f"The previous state directory is now {aside}; remove it when you no longer need it.")
    if not manifest.logs:
        print_note("The backup has no logs of jobs (`fairway backup --logs` includes them).")
    if held:
        what = ", ".join(f"{number} {name}" for name, number in held.items())
        print_note(f"Held, since they had not ended when the backup was made: {what}.")
        print_note(
            "Resume managed jobs with `fairway jobs release`, Workloads with `spec.active: true`, Jobs without a queue"
        )
        print_note("with `spec.suspend: false`.")
