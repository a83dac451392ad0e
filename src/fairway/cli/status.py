"""`fairway status`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.completion import job_names
from fairway.cli.session import all_namespaces_option, open_session, output_option, session_options
from fairway.cli.tables import Screen, TableColumn, duration

if TYPE_CHECKING:
    from fairway.cli.jobs.records import JobRow, PendingRow

_COLUMNS: Final = (
    TableColumn("NAME", flexible=True),
    TableColumn("ID", right=True),
    TableColumn("USER"),
    TableColumn("INFRA"),
    TableColumn("RESOURCES", flexible=True),
    TableColumn("STATUS", coloured=True),
    TableColumn("LAUNCHED", right=True),
    TableColumn("RAN", right=True),
    TableColumn("WHY", flexible=True, least=40),
)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|ID]...", shell_complete=job_names)
@click.option("--all", "-a", "everything", is_flag=True, help="Include managed jobs.")
@click.option("--all-users", "-u", is_flag=True, help="Tasks of all users, not only mine.")
@all_namespaces_option
@output_option
@session_options
def status(*, names: tuple[str, ...], everything: bool, all_users: bool, output: str, **where: Any) -> None:
    """Show launched tasks, the newest first.

    Names may be patterns such as 'dev-*'. Managed jobs are listed by `fairway queue`.

    \b
    Examples:
      fairway status
      fairway status dev -o json
    """
    from fairway.cli.jobs.queue import fetched, record  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.jobs.records import by_name  # noqa: PLC0415

    with open_session(**where) as session:
        found, waiting = fetched(session, names)
        if not names:
            found = [job for job in found if everything or not job.spec.recover]
            found = [job for job in found if all_users or job.spec.user == session.user]
    states = by_name(waiting)
    jobs = sorted(found, key=lambda job: -job.spec.id)
    now = datetime.now(UTC)
    if output == "json":
        click.echo(tables.as_json([record(job, states, now) for job in jobs]))
    elif jobs:
        click.echo(_table(jobs, states, now, tables.screen()))
    else:
        click.echo("No launched tasks. `fairway launch 'echo hello'` runs one; `fairway queue` lists managed jobs.")


def _table(jobs: "Sequence[JobRow]", states: "Mapping[tuple[str, str], PendingRow]", now: datetime, on: Screen) -> str:
    from fairway.cli.jobs.records import requested, waiting_of  # noqa: PLC0415
    from fairway.cli.jobs.wording import in_short  # noqa: PLC0415

    def launched(job: "JobRow") -> str | None:
        submitted = job.metadata.creation_timestamp
        return f"{duration((now - submitted).total_seconds())} ago" if submitted else None

    rows = [
        (
            job.name,
            job.spec.id,
            job.spec.user or None,
            job.status.infra or "here",
            requested(job),
            job.phase,
            launched(job),
            duration(job.ran_for(now)),
            in_short(job, waiting_of(job, states)),
        )
        for job in jobs
    ]
    return tables.fitting(_COLUMNS, rows, on, ("USER", "INFRA", "RESOURCES", "LAUNCHED"))
