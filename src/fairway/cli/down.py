"""`fairway down`."""

from typing import Any

import click

from fairway.cli.announcing import summary
from fairway.cli.changing import ask_before, which
from fairway.cli.choosing import Manifest, all_jobs, resolve_jobs
from fairway.cli.completion import job_names
from fairway.cli.session import Session, open_session, output_option, session_options, yes_option
from fairway.cli.tables import as_json
from fairway.cli.writing import write


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|ID]...", shell_complete=job_names)
@click.option("--all", "-a", "everything", is_flag=True, help="All my launches, including ended ones.")
@click.option("--all-users", "-u", is_flag=True, help="With -a: launches of all users.")
@yes_option
@click.option("--async", "asynchronous", is_flag=True, help="Return at once; do not wait until they are deleted.")
@output_option
@session_options
def down(
    *,
    names: tuple[str, ...],
    everything: bool,
    all_users: bool,
    yes: bool,
    asynchronous: bool,
    output: str,
    **where: Any,
) -> None:
    """Stop launched tasks and delete them, with their logs.

    Names may be patterns such as 'dev-*'. Managed jobs are accepted, too; to stop one and keep its logs, use
    `fairway jobs cancel`.

    \b
    Examples:
      fairway down dev
      fairway down -a -y
    """
    if bool(names) == (everything or all_users):
        raise click.UsageError("say which tasks: names or ids, or -a for all my launches")
    with open_session(**where) as session:
        found = resolve_jobs(session, names) if names else _launched(session, all_users=all_users)
        if found:
            ask_before(session, found, "Stopping and deleting, with logs:", yes=yes, own=True)
            _remove(session, found, wait=not asynchronous)
    if output == "json":
        click.echo(as_json([summary(job) for job in found]))
    else:
        click.echo(f"{which(found)} deleted." if found else "Nothing to delete.")


def _launched(session: Session, *, all_users: bool) -> list[Manifest]:
    return [
        job
        for job in all_jobs(session)
        if not job["spec"].get("recover", True) and (all_users or job["spec"].get("user", "") == session.user)
    ]


def _remove(session: Session, jobs: list[Manifest], *, wait: bool) -> None:
    from fairway.cli.awaiting import until  # noqa: PLC0415 - help must not wait for it

    results = write(
        session,
        [
            {
                "verb": "delete",
                "apiVersion": job["apiVersion"],
                "kind": job["kind"],
                "namespace": job["metadata"]["namespace"],
                "name": job["metadata"]["name"],
                "uid": job["metadata"]["uid"],
            }
            for job in jobs
        ],
        "Deleting jobs",
    )
    going = [result for result in results if result is not None]
    if wait and going:
        until(session, going, lambda _job: False)
