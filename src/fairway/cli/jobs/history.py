"""`fairway jobs history`: the attempts of jobs, also of those that are deleted."""

from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.history import as_csv, history_options, path_of, query_of
from fairway.cli.session import all_namespaces_option, open_session, print_note, session_options
from fairway.cli.tables import Screen, TableColumn, duration

if TYPE_CHECKING:
    from fairway.apis.machinery.kind import Manifest

_OUTCOMES: Final = ("Running", "Succeeded", "Failed", "Preempted", "Evicted", "Cancelled", "Lost")
_PAGE: Final = 5000
_COLUMNS: Final = (
    TableColumn("JOB", flexible=True),
    TableColumn("KIND"),
    TableColumn("ATTEMPT", right=True),
    TableColumn("USER"),
    TableColumn("QUEUE"),
    TableColumn("FLAVORS", flexible=True),
    TableColumn("HELD", flexible=True),
    TableColumn("STARTED"),
    TableColumn("WAITED", right=True),
    TableColumn("RAN", right=True),
    TableColumn("OUTCOME"),
    TableColumn("WHY", flexible=True, least=24),
)
_DISPENSABLE: Final = ("FLAVORS", "KIND", "QUEUE", "HELD", "WHY", "WAITED", "USER")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--limit", "-l", type=click.IntRange(min=1), default=50, show_default=True, help="The last N attempts.")
@click.option(
    "--outcome",
    "-s",
    multiple=True,
    type=click.Choice(_OUTCOMES, case_sensitive=False),
    help="Only attempts that ended so; may be repeated.",
)
@history_options
@all_namespaces_option
@session_options
def history(*, names: tuple[str, ...], limit: int, outcome: tuple[str, ...], output: str, **said: Any) -> None:
    """List the attempts of jobs, newest first: when they waited and ran, what they held, and how they ended.

    Lists managed jobs and other queued jobs, also those that are deleted. A NAME selects jobs that were given it. The
    last hundred thousand attempts are kept; `fairway usage` has sums of years.

    \b
    Examples:
      fairway jobs history
      fairway jobs history train --since 30d
      fairway jobs history -u ana -s failed -o json
      fairway jobs history -A -l 10000 -o csv
    """
    where = {name: said.pop(name) for name in ("state", "kubeconfig", "context", "namespace", "all_namespaces")}
    query = query_of({"name": names, "outcome": outcome, **said})
    items: list[Manifest] = []
    with open_session(**where) as session:
        path = path_of("attempts", session.scope, cluster=session.is_cluster)
        token = ""
        while len(items) < limit:
            page = {"limit": str(min(limit - len(items), _PAGE)), **({"continue": token} if token else {})}
            found = session.rest.get(path, **query, **page)
            items += found["items"]
            token = found["metadata"].get("continue", "")
            if not token:
                break
    if output == "json":
        click.echo(tables.as_json(items))
        return
    click.echo(_csv(items) if output == "csv" else as_text(items, tables.screen()))
    if token and output == "table":
        print_note(f"There are more; `-l {limit * 10}` lists them.")


def as_text(items: "list[Manifest]", on: Screen) -> str:
    """A table with a line for each attempt."""
    if not items:
        return "No attempts of jobs. `fairway jobs queue` lists those that wait; `-A` looks into all namespaces."
    rows: list[list[tables.Cell]] = [
        [
            item["job"]["name"],
            item["job"]["kind"],
            item["attempt"] if not item["task"] else f"{item['task'] + 1}.{item['attempt']}",
            item["user"] or None,
            item["queue"] or None,
            ",".join(item["flavors"]) or None,
            " ".join(f"{_short(name)}:{amount}" for name, amount in item["resources"].items()) or None,
            item["started"].replace("T", " ").removesuffix("Z"),
            duration(item["waitSeconds"]),
            duration(item["runSeconds"]),
            item["outcome"],
            item["message"] or item["reason"] or "",
        ]
        for item in items
    ]
    return tables.fitting(_COLUMNS, rows, on, _DISPENSABLE)


def _csv(items: "list[Manifest]") -> str:
    resources = sorted({name for item in items for name in item["resources"]})
    fields = ["user", "queue", "clusterQueue", "team", "organization", "priority", "queued", "started", "ended"]
    fields += ["waitSeconds", "runSeconds", "outcome", "reason", "message", "pods"]
    header = ["namespace", "kind", "job", "name", "id", "workload", "task", "attempt", *fields, "flavors", *resources]
    rows = []
    for item in items:
        job = item["job"]
        row = [item["metadata"]["namespace"], job["kind"], job["name"], item["jobName"], job["id"], item["workload"]]
        row += [item["task"], item["attempt"], *(item.get(field, "") for field in fields), " ".join(item["flavors"])]
        rows.append([*row, *(item["resources"].get(one, "") for one in resources)])
    return as_csv(header, rows)


def _short(resource: str) -> str:
    return resource.rpartition("/")[2]
