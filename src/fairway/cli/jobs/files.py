"""`fairway jobs files`."""

from typing import TYPE_CHECKING, Any

import click

from fairway.cli.completion import job_names
from fairway.cli.results import part_options
from fairway.cli.session import open_session, output_option, session_options

if TYPE_CHECKING:
    from fairway.cli.results import Listing


@click.command()
@click.argument("job", metavar="ID|NAME", shell_complete=job_names)
@click.argument("path", default="", metavar="[PATH]")
@part_options
@output_option
@session_options
def files(
    *, job: str, path: str, attempt: str | None, task: str | None, rank: int | None, output: str, **where: Any
) -> None:
    """List the files that a job left in its working directory.

    The files of the last attempts of each node are kept until the job is deleted or a limit of the server is reached
    (`runner.results` in the server's config.yaml). `fairway jobs download` copies them.

    \b
    Examples:
      fairway jobs files 3
      fairway jobs files 3 checkpoints
      fairway jobs files train --attempt all -o json
    """
    from fairway.cli import tables  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.choosing import id_of, title  # noqa: PLC0415
    from fairway.cli.reading import meant  # noqa: PLC0415
    from fairway.cli.results import in_words, label, listings  # noqa: PLC0415
    from fairway.cli.session import print_note  # noqa: PLC0415

    with open_session(**where) as session:
        found = meant(session, (job,), "")
        lists = list(listings(session, found, attempt=attempt, task=task, rank=rank, path=path))
    if output == "json":
        click.echo(tables.as_json([_record(one) for one in lists]))
        return
    if not any(one.items for one in lists):
        notes = dict.fromkeys(one.note for one in lists if one.note)
        print_note(f"Job {title(found)} has left no files in its working directory." if not notes else "\n".join(notes))
        return
    for one in lists:
        if len(lists) > 1:
            click.echo(f"--- {label(found, one.part, one.rank)} ---")
        for item in one.items:
            if item["type"] != "directory":
                target = f" -> {item['target']}" if item["type"] == "link" else ""
                click.echo(f"{in_words(item['bytes']):>8}  {item['modifiedAt']}  {tables.plain(item['path'] + target)}")
    count, size = sum(one.files for one in lists), sum(one.bytes for one in lists)
    more = "; the list is incomplete" if any(one.truncated for one in lists) else ""
    noun = "file" if count == 1 else "files"
    print_note(f"{count} {noun}, {in_words(size)}{more}. `fairway jobs download {id_of(found)}` copies them here.")


def _record(one: "Listing") -> dict[str, Any]:
    return {
        "task": one.part.task,
        "attempt": one.part.attempt,
        "rank": one.rank,
        "files": one.files,
        "bytes": one.bytes,
        "truncated": one.truncated,
        "note": one.note,
        "items": one.items,
    }
