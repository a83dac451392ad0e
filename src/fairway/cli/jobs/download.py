"""`fairway jobs download`."""

from pathlib import Path
from typing import Any

import click

from fairway.cli.completion import job_names
from fairway.cli.results import part_options
from fairway.cli.session import open_session, session_options


@click.command()
@click.argument("job", metavar="ID|NAME", shell_complete=job_names)
@click.argument("path", default="", metavar="[PATH]")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory to write to; created if missing.  [default: ./NAME of the job]",
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
@part_options
@session_options
def download(
    *,
    job: str,
    path: str,
    to: Path | None,
    overwrite: bool,
    attempt: str | None,
    task: str | None,
    rank: int | None,
    **where: Any,
) -> None:
    """Copy the files that a job left in its working directory to this machine.

    With PATH, only this file or directory. Nothing is written outside the target directory: links that lead out of it
    are skipped and listed. With several attempts, tasks or nodes, each gets its own directory.

    \b
    Examples:
      fairway jobs download 3
      fairway jobs download 3 model.pt --to models
      fairway jobs download train checkpoints --attempt 1
    """
    from fairway.cli.choosing import title  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.reading import NoSuchPartError, meant  # noqa: PLC0415
    from fairway.cli.results import in_words, label, listings  # noqa: PLC0415
    from fairway.cli.session import print_note  # noqa: PLC0415
    from fairway.cli.unpacking import Download  # noqa: PLC0415

    with open_session(**where) as session:
        found = meant(session, (job,), "")
        lists = list(listings(session, found, attempt=attempt, task=task, rank=rank, path=path))
        filled = [one for one in lists if one.items]
        if not filled:
            notes = dict.fromkeys(one.note for one in lists if one.note)
            raise NoSuchPartError("\n".join(notes) or f"job {title(found)} has left no files")
        target = to if to is not None else Path(found["metadata"]["name"])
        for one in filled:
            name = label(found, one.part, one.rank).replace(", ", "-").replace(" ", "")
            inner = target / name if len(filled) > 1 else target
            done = Download(session, found, one, inner, overwrite=overwrite).run(path)
            for skipped in done.skipped:
                print_note(f"skipped: {skipped}")
            noun = "file" if done.files == 1 else "files"
            print_note(f"{done.files} {noun}, {in_words(done.bytes)}, in {inner}")
