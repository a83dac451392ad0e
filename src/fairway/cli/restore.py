"""`fairway restore`: a state directory from a backup."""

from pathlib import Path

import click

from fairway.cli.options import state_option


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Move a state directory that is not empty aside; it is not deleted.")
@click.option("--resume", is_flag=True, help="Let jobs that had not ended go on, as after the loss of the machine.")
@state_option
def restore(source: Path, *, replace: bool, resume: bool, state: Path) -> None:
    """Put a backup back into the state directory; no server may run on it.

    The backup is checked first, and put in place as a whole or not at all. What had ended when it was made is not run
    again. What had not ended is held, since it may have ended after the backup: look with `fairway jobs queue` and let
    go on what should with `fairway jobs release`. With --resume all of it goes on by itself.

    \b
    Examples:
      fairway restore --replace ~/fairway.tar
      fairway restore --resume --state ./moved ~/fairway.tar
    """
    from fairway.cli.session import tell  # noqa: PLC0415 - help must not wait for it
    from fairway.restoring import put_back  # noqa: PLC0415

    manifest, held, aside = put_back(source, state, replace=replace, hold=not resume)
    click.echo(f"Restored {state} as of {manifest.made}. Start the server with: fairway up")
    if aside is not None:
        tell(f"What was there before is in {aside}; remove it when you do not need it any more.")
    if not manifest.logs:
        tell("The backup has no logs of jobs (`fairway backup --logs` takes them).")
    if held:
        what = ", ".join(f"{number} {name}" for name, number in held.items())
        tell(f"Held, because they had not ended when the backup was made: {what}.")
        tell("Managed jobs go on with `fairway jobs release`, Workloads with `spec.active: true`, Jobs without a queue")
        tell("with `spec.suspend: false`.")
