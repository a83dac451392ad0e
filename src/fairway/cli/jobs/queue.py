"""`fairway jobs queue`: list running and waiting jobs."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.completion import job_names
from fairway.cli.session import all_namespaces_option, open_session, output_option, session_options
from fairway.cli.tables import Screen, TableColumn, duration

if TYPE_CHECKING:
    from fairway.cli.jobs.records import JobRow, PendingRow
    from fairway.cli.session import Session

STATUSES: Final = (
    "PENDING",
    "STARTING",
    "RUNNING",
    "RECOVERING",
    "CANCELLING",
    "SUCCEEDED",
    "CANCELLED",
    "FAILED",
    "FAILED_SETUP",
    "FAILED_PRECHECKS",
    "FAILED_NO_RESOURCE",
    "FAILED_CONTROLLER",
)
_JSON: Final = "application/json"

_COLUMNS: Final = (
    TableColumn("ID", right=True),
    TableColumn("NAME", flexible=True),
    TableColumn("USER"),
    TableColumn("QUEUE"),
    TableColumn("PRIORITY", right=True),
    TableColumn("POS", right=True),
    TableColumn("STARTS", right=True),
    TableColumn("REQUESTED", flexible=True),
    TableColumn("SUBMITTED", right=True),
    TableColumn("WAITED", right=True),
    TableColumn("RAN", right=True),
    TableColumn("RECOVERIES", right=True),
    TableColumn("STATUS", coloured=True),
    TableColumn("WHY", flexible=True, least=40),
)
_DISPENSABLE: Final = (
    "SUBMITTED",
    "RECOVERIES",
    "USER",
    "QUEUE",
    "WAITED",
    "REQUESTED",
    "PRIORITY",
    "RAN",
    "POS",
    "STARTS",
)
"""Columns that are left out on a narrow terminal, in this order."""

_VERBOSE: Final = (
    TableColumn("NAMESPACE"),
    TableColumn("TASK"),
    TableColumn("ATTEMPT", right=True),
    TableColumn("INFRA"),
)


def _statuses(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    wanted = {word.strip().upper() for value in values for word in value.split(",") if word.strip()}
    unknown = sorted(wanted - set(STATUSES))
    if unknown:
        raise click.BadParameter(f"there is no status {unknown[0]}; there are {', '.join(STATUSES)}")
    return frozenset(wanted)


@click.command()
@click.argument("jobs", nargs=-1, metavar="[ID|NAME]...", shell_complete=job_names)
@click.option("--all", "-a", "everything", is_flag=True, help="Include ended jobs.")
@click.option("--limit", "-l", type=click.IntRange(min=0), help="Include the last N ended jobs; 0 for all of them.")
@click.option("--skip-finished", is_flag=True, help="Omit the line about ended jobs.")
@click.option(
    "--status",
    "-s",
    multiple=True,
    callback=_statuses,
    metavar="A,B",
    help="Only jobs with these statuses, including ended ones.",
)
@click.option("--all-users", "-u", is_flag=True, help="Jobs of all users, in all namespaces.")
@click.option(
    "--verbose",
    "-v",
    is_flag=True,
    help="All columns, including namespace, task, attempt and infra; nothing is cut off.",
)
@all_namespaces_option
@output_option
@session_options
def queue(
    *,
    jobs: tuple[str, ...],
    everything: bool,
    limit: int | None,
    skip_finished: bool,
    status: frozenset[str],
    all_users: bool,
    verbose: bool,
    output: str,
    **where: Any,
) -> None:
    """List running and waiting jobs, with position and reason.

    Running jobs come first, then waiting jobs in the order of their queues. Ended jobs are only counted; -a lists them,
    the last one first. STARTS is how long a waiting job will probably wait yet (`fairway why` gives the range), WAITED
    the time since submission in which the job did not run. Priority `60 (50+10)` is 50
    raised by 10 for a preemption. A narrow terminal omits the less important columns; -v shows all.

    \b
    Examples:
      fairway queue
      fairway queue -a                      include ended jobs
      fairway jobs queue 3 'train-*'        only these, by id or name
      fairway jobs queue -u -s PENDING      waiting jobs of all users
      fairway jobs queue -o json
    """
    from fairway.cli.changing import mine_elsewhere  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.jobs.records import by_name  # noqa: PLC0415
    from fairway.errors import Forbidden  # noqa: PLC0415

    asked = where.get("all_namespaces")
    where["all_namespaces"] = asked or all_users
    with open_session(**where) as session:
        try:
            found, waiting = fetched(session, jobs)
        except Forbidden:
            if asked or not all_users:
                raise
            session.all_namespaces = False
            found, waiting = fetched(session, jobs)
            click.echo(f"Only namespace {session.namespace}: you may not list jobs in the others.", err=True)
        if not all_users and not jobs:
            found = _mine(session, found)
        none_here = not (jobs or status or any(job.is_live for job in found))
        number, spaces = mine_elsewhere(session) if none_here else (0, "")
    states = by_name(waiting)
    most = 0 if everything or jobs or status else limit
    shown = chosen(found, status, most=most, finished=not skip_finished)
    ordered = in_order(shown, states)
    now = datetime.now(UTC)
    if output == "json":
        click.echo(tables.as_json([record(job, states, now) for job in ordered]))
    elif ordered:
        click.echo(as_table(ordered, states, now, tables.screen(), verbose=verbose))
    elif number:
        click.echo(f"No running or waiting jobs in namespace {session.namespace}.")
    elif not found:
        click.echo("No jobs. `fairway jobs launch 'echo hello'` runs one.")
    else:
        click.echo("No such jobs." if status else "No running or waiting jobs.")
    if output != "json" and number:
        click.echo(
            f"{number} of your jobs {'is' if number == 1 else 'are'} in other namespaces ({spaces}): -A.", err=True
        )
    if output != "json" and not skip_finished:
        hidden = [job for job in found if not job.is_live and (not status or job.phase in status)]
        print_ended(hidden, len(hidden) - sum(not job.is_live for job in shown), now)


def print_ended(ended: "Sequence[JobRow]", hidden: int, now: datetime) -> None:
    """One line about the ended jobs that are not listed."""
    if hidden <= 0:
        return
    from collections import Counter  # noqa: PLC0415

    last = max(ended, key=_when_ended)
    counts = ", ".join(f"{count} {phase}" for phase, count in Counter(job.phase for job in ended).most_common())
    when = f" {duration((now - last.status.ended_at).total_seconds())} ago" if last.status.ended_at else ""
    which = f"; the last was {last.spec.id} ({tables.plain(last.name)}), {last.phase}{when}" if len(ended) > 1 else when
    click.echo(f"{len(ended)} ended: {counts}{which}. -a lists {'them' if len(ended) > 1 else 'it'}.", err=True)


def fetched(session: "Session", words: Sequence[str] = ()) -> "tuple[list[JobRow], list[PendingRow]]":
    """The jobs, or those that the words name, and the waiting Workloads."""
    from fairway.cli.jobs.records import decode_jobs  # noqa: PLC0415
    from fairway.cli.waiting import who_waits  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    if words:
        jobs = _named(session, words)
    else:
        jobs = decode_jobs(session.rest.raw(paths.jobs(session.scope), accept=_JSON)).items
    if not any(job.waits for job in jobs):
        return jobs, []
    # A job that is named by its id can be in another namespace.
    scope = session.scope if all(job.metadata.namespace == session.scope for job in jobs) else None
    return jobs, who_waits(session, scope)


def _named(session: "Session", words: Sequence[str]) -> "list[JobRow]":
    import msgspec  # noqa: PLC0415

    from fairway.cli.choosing import resolve_jobs  # noqa: PLC0415
    from fairway.cli.jobs.records import JobRow  # noqa: PLC0415

    return msgspec.convert(resolve_jobs(session, words), list[JobRow])


def _mine(session: "Session", jobs: "list[JobRow]") -> "list[JobRow]":
    """The jobs of this user; if all jobs have one user, the server is not asked for the name."""
    if len({job.spec.user for job in jobs}) < 2:
        return jobs
    own = [job for job in jobs if job.spec.user == session.user]
    hidden = len(jobs) - len(own)
    if hidden:
        click.echo(f"{hidden} job{'s' if hidden > 1 else ''} of other users not shown; -u shows them.", err=True)
    return own


def chosen(jobs: "Sequence[JobRow]", statuses: frozenset[str], *, most: int | None, finished: bool) -> "list[JobRow]":
    """Those with the statuses asked for: all live ones, and the last `most` ended ones (0: all, `None`: none)."""
    jobs = [job for job in jobs if not statuses or job.phase in statuses]
    live = [job for job in jobs if job.is_live]
    if not finished or most is None:
        return live
    ended = sorted((job for job in jobs if not job.is_live), key=_when_ended, reverse=True)
    return live + (ended[:most] if most else ended)


def _when_ended(job: "JobRow") -> tuple[float, int]:
    return (job.status.ended_at.timestamp() if job.status.ended_at else 0.0, job.spec.id)


def in_order(jobs: "Sequence[JobRow]", waiting: "Mapping[tuple[str, str], PendingRow]") -> "list[JobRow]":
    """Running jobs, then waiting ones in the order of the queues, then ended ones, the last one first."""
    from fairway.cli.jobs.records import waiting_of  # noqa: PLC0415

    def place(job: "JobRow") -> tuple[Any, ...]:
        if not job.is_live:
            ended, number = _when_ended(job)
            return 2, -ended, -number
        if not job.waits:
            return 0, 0, job.spec.id
        entry = waiting_of(job, waiting)
        if entry is None or entry.position is None:
            return 1, "\uffff", 0, job.spec.id
        return 1, entry.cluster_queue, entry.position, job.spec.id

    return sorted(jobs, key=place)


def as_table(
    jobs: "Sequence[JobRow]",
    waiting: "Mapping[tuple[str, str], PendingRow]",
    now: datetime,
    on: Screen,
    *,
    verbose: bool = False,
) -> str:
    """The jobs as people read them."""
    row = row_maker(waiting, now)
    if not verbose:
        return tables.fitting(*tables.without_empty(_COLUMNS, [row(job) for job in jobs], "STARTS"), on, _DISPENSABLE)
    columns = (*_COLUMNS[:-1], *_VERBOSE, _COLUMNS[-1])
    rows = [_verbose(row(job), job) for job in jobs]
    return tables.table(*tables.without_empty(columns, rows, "STARTS"), on._replace(width=None))


def row_maker(
    waiting: "Mapping[tuple[str, str], PendingRow]", now: datetime
) -> "Callable[[JobRow], list[tables.Cell]]":
    """What makes the cells of a job."""
    from fairway.cli.jobs.records import requested, waiting_of  # noqa: PLC0415
    from fairway.cli.jobs.wording import in_short, priority, starts  # noqa: PLC0415

    def row(job: "JobRow") -> list[tables.Cell]:
        entry = waiting_of(job, waiting)
        submitted = job.metadata.creation_timestamp
        return [
            job.spec.id,
            job.name,
            job.spec.user or None,
            job.queue(entry) or None,
            priority(job),
            entry.position if entry else None,
            starts(job, entry, now),
            requested(job),
            f"{duration((now - submitted).total_seconds())} ago" if submitted else None,
            duration(job.waited_for(now)),
            duration(job.ran_for(now)),
            job.status.recoveries,
            job.phase,
            in_short(job, entry),
        ]

    return row


def _verbose(row: list[tables.Cell], job: "JobRow") -> list[tables.Cell]:
    tasks = len(job.spec.tasks)
    more: list[tables.Cell] = [
        job.metadata.namespace,
        f"{job.status.task + 1}/{tasks}" if tasks > 1 else None,
        job.status.attempt,
        job.status.infra or None,
    ]
    return [*row[:-1], *more, row[-1]]


def record(job: "JobRow", waiting: "Mapping[tuple[str, str], PendingRow]", now: datetime) -> dict[str, Any]:
    """The job for `-o json`."""
    from fairway.cli.jobs.records import requested, requests, waiting_of  # noqa: PLC0415
    from fairway.cli.jobs.wording import in_short  # noqa: PLC0415

    entry = waiting_of(job, waiting)
    status = job.status
    return {
        "id": job.spec.id,
        "name": job.name,
        "namespace": job.metadata.namespace,
        "object": job.metadata.name,
        "user": job.spec.user,
        "queue": job.queue(entry),
        "clusterQueue": entry.cluster_queue if entry else None,
        "position": entry.position if entry else None,
        "priority": job.priority,
        "priorityRaisedBy": job.raised_by,
        "priorityClass": job.spec.priority_class,
        "requested": requested(job),
        "requests": requests(job),
        "submittedAt": job.metadata.creation_timestamp,
        "startedAt": status.started_at,
        "endedAt": status.ended_at,
        "waitedSeconds": round(job.waited_for(now), 3),
        "ranSeconds": round(job.ran_for(now), 3),
        "status": job.phase,
        "reason": status.reason,
        "why": in_short(job, entry),
        "canEverRun": entry.can_ever_run if entry else None,
        "expectedStart": entry.expected_start if entry else None,
        "hold": job.spec.hold,
        "task": status.task,
        "attempt": status.attempt,
        "infra": status.infra,
        "recoveries": status.recoveries,
        "preemptions": status.preemptions,
        "restartsOnErrors": status.restarts_on_errors,
    }
