"""`fairway jobs why`: everything about one job."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from fairway.cli import tables
from fairway.cli.completion import job_names
from fairway.cli.session import open_session, output_option, session_options

if TYPE_CHECKING:
    from fairway.cli.jobs.records import JobWithAttempts, WaitingInDetail
    from fairway.cli.jobs.wording import Section
    from fairway.cli.session import Session


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="ID|NAME...", shell_complete=job_names)
@output_option
@session_options
def why(*, jobs: tuple[str, ...], output: str, **where: Any) -> None:
    """Explain the state of jobs.

    For a waiting job: its position, what is missing in which flavor and who holds it, which jobs are ahead, and what
    would admit it. For an ended job: how it ended, and what can be done. For every job: its attempts.

    \b
    Examples:
      fairway why 3
      fairway jobs why train -o json
    """
    import msgspec  # noqa: PLC0415 - help must not wait for it

    from fairway.cli.choosing import resolve_jobs  # noqa: PLC0415
    from fairway.cli.jobs.records import JobWithAttempts  # noqa: PLC0415
    from fairway.cli.jobs.wording import preemptors, story  # noqa: PLC0415

    with open_session(**where) as session:
        found = msgspec.convert(resolve_jobs(session, jobs), list[JobWithAttempts])
        cases = [(job, _waiting(session, job)) for job in found]
        names = _names(session, {uid for job in found for uid in preemptors(job)})
        files = not session.is_cluster
    now = datetime.now(UTC)
    if output == "json":
        click.echo(tables.as_json([record(job, waiting, now, names, files=files) for job, waiting in cases]))
        return
    on = tables.screen()
    click.echo("\n\n".join(as_text(story(job, waiting, now, names, files=files), on) for job, waiting in cases))


def _waiting(session: "Session", job: "JobWithAttempts") -> "WaitingInDetail | None":
    """What the queue says about it; nothing if it is not in one, or not any more."""
    import msgspec  # noqa: PLC0415

    from fairway.apis.fairway.teams import LABEL, ORGANIZATION_LABEL  # noqa: PLC0415
    from fairway.cli.jobs.records import WaitingInDetail  # noqa: PLC0415
    from fairway.cli.waiting import waiting_job  # noqa: PLC0415

    if not job.waits or not job.status.workload:
        return None
    found = waiting_job(session, job.metadata.namespace, job.status.workload)
    if found is None:
        return None
    waiting = msgspec.convert(found, WaitingInDetail)
    labels = _queue_labels(session, job.metadata.namespace, waiting.local_queue)
    waiting.organization, waiting.team = labels.get(ORGANIZATION_LABEL, ""), labels.get(LABEL, "")
    return waiting


def _queue_labels(session: "Session", namespace: str, queue: str) -> dict[str, str]:
    from fairway.apis.fairway.teams import KUEUE  # noqa: PLC0415 - help must not wait for it
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.errors import Forbidden, NotFound  # noqa: PLC0415

    try:
        metadata = session.rest.get(paths.resource(KUEUE, "localqueues", namespace, queue))["metadata"]
    except (Forbidden, NotFound):
        return {}
    return metadata.get("labels") or {}


def _names(session: "Session", uids: set[str]) -> dict[str, str]:
    """What the jobs with these uids are called, as far as they are still there and may be seen."""
    from fairway.cli.jobs.records import decode_jobs  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.errors import Forbidden  # noqa: PLC0415

    if not uids:
        return {}
    try:
        jobs = decode_jobs(session.rest.raw(paths.jobs(None), accept="application/json")).items
    except Forbidden:
        return {}
    return {job.metadata.uid: f"job {job.metadata.name}" for job in jobs if job.metadata.uid in uids}


def as_text(parts: "Iterable[Section]", on: tables.Screen) -> str:
    """Paragraphs; below their headings lines are set in."""
    blocks = []
    for part in parts:
        if part.heading:
            lines = [on.paint(part.heading, "bold"), *(f"  {line}" for line in part.lines)]
        else:
            lines = list(part.lines)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def record(
    job: "JobWithAttempts",
    waiting: "WaitingInDetail | None",
    now: datetime,
    names: Mapping[str, str],
    *,
    files: bool = True,
) -> dict[str, Any]:
    """The job for `-o json`: as in the queue, with all that stands in its way, its attempts and the sentences."""
    from fairway.cli.jobs import queue  # noqa: PLC0415
    from fairway.cli.jobs.wording import story  # noqa: PLC0415

    known = {} if waiting is None else {(job.metadata.namespace, job.status.workload): waiting}
    return {
        **queue.record(job, known, now),
        "waiting": None if waiting is None else _with_numbers(waiting),
        "attempts": job.status.attempts,
        "story": [line for part in story(job, waiting, now, names, files=files) for line in part.lines],
    }


def _with_numbers(waiting: "WaitingInDetail") -> dict[str, Any]:
    """The Workload with its amounts as numbers, memory in Gi."""
    import msgspec  # noqa: PLC0415

    from fairway.apis.machinery.amounts import of_quantity, unit  # noqa: PLC0415

    found: dict[str, Any] = msgspec.to_builtins(waiting)
    for shortage in found["shortages"]:
        resource = shortage["resource"]
        shortage["unit"] = unit(resource)
        for name in ("missing", "requested"):
            shortage[name] = of_quantity(resource, shortage[name])[0]
        for holder in shortage["holders"]:
            holder["amount"] = of_quantity(resource, holder["amount"])[0]
    return found
