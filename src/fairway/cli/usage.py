"""`fairway usage`: what was used, by whom, over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.history import as_csv, history_options, path_of, query_of
from fairway.cli.session import all_namespaces_option, open_session, session_options
from fairway.cli.tables import Screen, TableColumn, duration

if TYPE_CHECKING:
    from fairway.apis.machinery.kind import Manifest

BY: Final = ("user", "queue", "clusterQueue", "team", "organization", "flavor", "namespace", "kind")
_TITLES: Final = {"clusterQueue": "CLUSTERQUEUE", "organization": "ORG"}
_COUNTS: Final = ("started", "running", "succeeded", "failed", "preempted", "evicted", "cancelled", "lost")
_DISPENSABLE: Final = ("LOST", "EVICTED", "CANCELLED", "WAIT P90", "RUNNING", "PREEMPTED", "MEM GiB-h", "WAIT P50")


def _groups(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    words = [word.strip() for value in values for word in value.split(",") if word.strip()]
    names = {one.lower(): one for one in BY} | {"org": "organization", "cq": "clusterQueue"}
    for word in words:
        if word.lower() not in names:
            raise click.BadParameter(f"there is no {word!r}; any of {', '.join(BY)}")
    return tuple(dict.fromkeys(names[word.lower()] for word in words))


@click.command()
@click.option("--by", multiple=True, callback=_groups, metavar="A,B", help=f"Group by any of {', '.join(BY)}.")
@click.option(
    "--step",
    type=click.Choice(["hour", "day", "month", "all"]),
    default="all",
    show_default=True,
    help="One row for each hour, day or month (UTC), or for all of the time.",
)
@history_options
@all_namespaces_option
@session_options
def usage(*, by: tuple[str, ...], step: str, since: str | None, until: str | None, output: str, **said: Any) -> None:
    """Show what jobs used: CPU, memory and GPU hours, waits, preemptions and success, by user, queue or organization.

    Counts the attempts of all queued jobs, also of those that are deleted. What runs counts until now. The last 7 days
    by user, unless something else is said. Sums of hours are kept for 32 days, of days for two years, of months for
    ten.

    \b
    Examples:
      fairway usage
      fairway usage --by user,queue --since month
      fairway usage -A --by organization --step month --since 2026-01
      fairway usage --by flavor --step day --since 30d -o csv
    """
    where = {name: said.pop(name) for name in ("state", "kubeconfig", "context", "namespace", "all_namespaces")}
    by = by or ("user",)
    query = query_of({"since": since, "until": until, "step": step, "by": by, **said})
    with open_session(**where) as session:
        found = session.rest.get(path_of("usage", session.scope, cluster=session.is_cluster), **query)
    if output == "json":
        click.echo(tables.as_json(found))
    elif output == "csv":
        click.echo(_csv(found))
    else:
        click.echo(as_text(found, tables.screen()))


def as_text(found: "Manifest", on: Screen) -> str:
    """A table with a line for each group and a total."""
    items = found["items"]
    span = f"{_day(found['since'])} to {_day(found['until'])} UTC"
    if not items:
        return f"No attempts of jobs from {span}. `--since 30d` looks further back, `-A` into all namespaces."
    steps = [] if found["step"] == "all" else [TableColumn(found["step"].upper())]
    groups = [TableColumn(_TITLES.get(one, one.upper()), flexible=True) for one in found["by"]]
    columns = [*steps, *groups, *_AMOUNTS, *(TableColumn(one.upper(), right=True) for one in _COUNTS), *_RATES]
    rows = [_row(item, found) for item in items]
    if len(items) > 1:
        total: list[tables.Cell] = ["TOTAL", *[""] * (len(steps) + len(groups) - 1)] if steps or groups else []
        rows.append([*total, *_numbers(found["total"])])
    return f"{tables.fitting(columns, rows, on, _DISPENSABLE)}\n{span}"


_AMOUNTS: Final = (
    TableColumn("CPU-h", right=True),
    TableColumn("MEM GiB-h", right=True),
    TableColumn("GPU-h", right=True),
)
_RATES: Final = (
    TableColumn("OK", right=True),
    TableColumn("WAIT P50", right=True),
    TableColumn("WAIT P90", right=True),
)


def _row(item: "Manifest", found: "Manifest") -> list[tables.Cell]:
    start = item["start"]
    steps: list[tables.Cell] = {
        "all": [],
        "hour": [start[:16].replace("T", " ")],
        "day": [start[:10]],
        "month": [start[:7]],
    }[found["step"]]
    return [*steps, *(item[one] or "-" for one in found["by"]), *_numbers(item)]


def _numbers(item: "Manifest") -> Sequence[tables.Cell]:
    wait = item.get("wait")
    share = item.get("successRate")
    return [
        _hours(item["hours"].get("cpu", 0)),
        _hours(item["hours"].get("memory", 0)),
        _hours(item["gpuHours"]),
        *(item[one] for one in _COUNTS),
        None if share is None else f"{share:.0%}",
        None if wait is None else duration(wait["p50"]),
        None if wait is None else duration(wait["p90"]),
    ]


def _hours(amount: float) -> str:
    return f"{amount:.0f}" if amount == 0 or amount >= 1000 else f"{amount:.1f}" if amount >= 10 else f"{amount:.3f}"


def _csv(found: "Manifest") -> str:
    resources = sorted({name for item in found["items"] for name in item["hours"]})
    waits = ("mean", "p50", "p90", "p99", "max")
    header = ["start", "end", *found["by"], *(f"{one}_hours" for one in resources), "gpu_hours", "run_seconds"]
    header += [*_COUNTS, "ended", "success_rate", *(f"wait_{one}_seconds" for one in waits)]
    rows = []
    for item in found["items"]:
        row = [item["start"], item["end"], *(item[one] for one in found["by"])]
        row += [*(item["hours"].get(one, 0) for one in resources), item["gpuHours"], item["runSeconds"]]
        row += [*(item[one] for one in _COUNTS), item["ended"], item.get("successRate", "")]
        rows.append([*row, *((item.get("wait") or {}).get(one, "") for one in waits)])
    return as_csv(header, rows)


def _day(moment: str) -> str:
    return moment[:16].replace("T", " ")
