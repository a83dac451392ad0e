"""`fairway top`: jobs, queues and machines on one screen, live.

A `TopSnapshot` is what the screen shows at one moment, and `frame` draws it for any size of terminal; neither sends
requests. `fairway.cli.live` keeps the picture up to date.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from fairway.apis.machinery.conditions import is_true
from fairway.cli import tables
from fairway.cli.session import all_namespaces_option, open_session, session_options
from fairway.cli.tables import Screen, TableColumn

if TYPE_CHECKING:
    from fairway.cli.jobs.records import JobRow, PendingRow
    from fairway.cli.quotas import ClusterQueueUsage, QuotaUsage
    from fairway.cli.session import Session

_WIDTH_WITHOUT_TERMINAL: Final = 120
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")
_LEAST_JOBS: Final = 4
_BAR: Final = 12
_SHORT_NAMES: Final = {"nvidia.com/gpu": "gpu", "amd.com/gpu": "gpu", "ephemeral-storage": "disk"}

_COLUMNS: Final = (
    TableColumn("ID", right=True),
    TableColumn("NAME", flexible=True),
    TableColumn("USER"),
    TableColumn("QUEUE", flexible=True),
    TableColumn("PRIORITY", right=True),
    TableColumn("POS", right=True),
    TableColumn("STARTS", right=True),
    TableColumn("REQUESTED", flexible=True),
    TableColumn("WAITED", right=True),
    TableColumn("RAN", right=True),
    TableColumn("RECOV", right=True),
    TableColumn("STATUS", coloured=True),
    TableColumn("WHY", flexible=True, least=30),
)
_DISPENSABLE: Final = (
    "USER",
    "RECOV",
    "QUEUE",
    "REQUESTED",
    "PRIORITY",
    "WAITED",
    "POS",
    "WHY",
    "STARTS",
    "RAN",
    "NAME",
)
"""What is left out on a narrow screen, in this order."""

_CELLS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)
"""Of those that `jobs queue` shows: all but when the job was submitted."""


class NodeUsage(NamedTuple):
    """A node."""

    name: str
    ready: bool = True
    cpus: str = ""
    memory: str = ""
    gpus: str = ""
    load: float | None = None
    """Processes that want to run; known only of the machine that this runs on."""

    memory_used: float | None = None
    """A part of 1."""


class TopSnapshot(NamedTuple):
    """All that is drawn."""

    server: str = ""
    jobs: "Sequence[JobRow]" = ()
    waiting: "Mapping[tuple[str, str], PendingRow]" = {}  # noqa: RUF012 - of a NamedTuple, and never changed
    queues: "Sequence[ClusterQueueUsage]" = ()
    machines: Sequence[NodeUsage] = ()
    lost: str = ""
    """Why the picture is old, if it is."""


@click.command()
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
@click.option("--mine", is_flag=True, help="Only my own jobs.")
@all_namespaces_option
@session_options
def top(*, once: bool, mine: bool, **where: Any) -> None:
    """Show jobs, queues and machines on one screen, live.

    Updated whenever something changes, and every second for the clocks. q or Ctrl-C quits.

    \b
    Examples:
      fairway top
      fairway top -A
      fairway top --once
    """
    with open_session(**where) as session:
        on = tables.screen()
        whose = session.user if mine else ""
        if not once and on.moves:
            from fairway.cli import live  # noqa: PLC0415 - not for a single picture

            live.show(session, on, whose)
            return
        seen = snapshot(session, whose)
    width = on.width or _WIDTH_WITHOUT_TERMINAL
    click.echo(frame(seen, width, None, datetime.now(UTC), colours=on.colours, unicode=on.unicode))


def snapshot(session: "Session", user: str = "") -> TopSnapshot:
    """How things stand now; with a user, only that one's jobs."""
    from fairway.cli.jobs.queue import fetched  # noqa: PLC0415
    from fairway.cli.jobs.records import by_name  # noqa: PLC0415

    jobs, waiting = fetched(session)
    return TopSnapshot(
        server=session.rest.server,
        jobs=[job for job in jobs if not user or job.spec.user == user],
        waiting=by_name(waiting),
        queues=queues_of(session),
        machines=machines_of(session),
    )


def queues_of(session: "Session") -> "list[ClusterQueueUsage]":
    from fairway.cli.quotas import API, cluster_queue  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    return sorted(cluster_queue(one) for one in session.rest.get(paths.resource(API, "clusterqueues"))["items"])


def machines_of(session: "Session") -> list[NodeUsage]:
    """The nodes, as far as one may see them; how busy the machine is where the server is our own."""
    from fairway.apis.machinery.amounts import readable  # noqa: PLC0415
    from fairway.apis.machinery.quantities import Quantity  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.errors import Forbidden  # noqa: PLC0415

    try:
        nodes = session.rest.get(paths.resource("v1", "nodes"))["items"]
    except Forbidden:  # a role in one namespace only
        nodes = []
    found = []
    for node in nodes:
        amounts = (node.get("status") or {}).get("allocatable") or {}
        cpus, memory, gpus = (
            readable(name, Quantity.parse(amounts[name]).nanos) if name in amounts else ""
            for name in ("cpu", "memory", "nvidia.com/gpu")
        )
        found.append(NodeUsage(node["metadata"]["name"], is_true(node, "Ready"), cpus, memory, gpus))
    return busy(found) if session.own else found


def busy(machines: Sequence[NodeUsage]) -> list[NodeUsage]:
    """The machines with how busy this one is."""
    import os  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    if len(machines) != 1:
        return list(machines)
    used = None
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = {line.partition(":")[0]: int(line.split()[1]) for line in lines[:3]}
        used = 1 - sizes["MemAvailable"] / sizes["MemTotal"]
    except (OSError, ValueError, KeyError, IndexError):
        pass  # not this operating system: the load alone will do
    return [machines[0]._replace(load=os.getloadavg()[0], memory_used=used)]


def frame(
    snapshot: TopSnapshot,
    width: int,
    height: int | None,
    now: datetime,
    *,
    colours: bool = False,
    unicode: bool = True,
) -> str:
    """The picture: at most `height` lines (all that there are for `None`) of at most `width` columns."""
    on = Screen(max(1, width), colours, unicode)
    head = [_title(snapshot, now, on), *(_machine(one, on) for one in snapshot.machines)]
    if snapshot.lost:
        head.append(on.paint(f"! {snapshot.lost}", "!"))
    queues = [line for queue in snapshot.queues for line in _queue(queue, on)]
    if height is not None:
        room = max(0, height - len(head) - 2 - _LEAST_JOBS)
        queues = _at_most(queues, room, on)
    lines = [*head, *([""] if queues else []), *queues, ""]
    lines += _jobs(snapshot, None if height is None else height - len(lines), now, on)
    return "\n".join(cropped(line, on.width or width) for line in (lines if height is None else lines[:height]))


def _title(snapshot: TopSnapshot, now: datetime, on: Screen) -> str:
    counts = Counter(job.phase for job in snapshot.jobs)
    done = sum(number for phase, number in counts.items() if phase not in _ORDER)
    told = [f"{counts[phase]} {phase.lower()}" for phase in _ORDER if counts[phase]]
    told += [f"{done} ended"] if done else []
    clock = now.astimezone().strftime("%H:%M:%S")
    return f"{on.paint('Fairway', 'bold')}  {snapshot.server}  {clock}  {', '.join(told) or 'no jobs'}"


_ORDER: Final = ("RUNNING", "STARTING", "RECOVERING", "PENDING", "CANCELLING")


def _machine(machine: NodeUsage, on: Screen) -> str:
    parts = [machine.name]
    parts += [
        f"{amount} {what}"
        for amount, what in ((machine.cpus, "cpu"), (machine.memory, "memory"), (machine.gpus, "gpu"))
        if amount and amount != "0"
    ]
    if machine.load is not None:
        parts.append(f"load {machine.load:.2f}")
    if machine.memory_used is not None:
        drawn = tables.usage_bar(machine.memory_used, 1, 10, on)
        parts.append(f"memory {drawn} {machine.memory_used:.0%}")
    if not machine.ready:
        parts.append(on.paint("not ready", "red"))
    return f"  {on.dot} ".join(parts) if not on.unicode else " · ".join(parts)


def _queue(queue: "ClusterQueueUsage", on: Screen) -> Iterator[str]:
    """The name, then a bar for each resource, as many to a line as there is room for."""
    several = len({pool.flavor for pool in queue.pools}) > 1
    pieces = [_pool(pool, on, named=several) for pool in queue.pools]
    end = f"{queue.running} running, {queue.pending} waiting"
    pieces.append(end if queue.active else on.paint(f"admits nothing: {tables.plain(queue.trouble)}", "yellow"))
    indent = min(24, max(12, len(queue.name)))
    name = tables.truncated(queue.name, indent, on)
    line = name + " " * (indent - tables.width_of(name))
    used = indent
    for piece in pieces:
        length = tables.width_of(_ESCAPE.sub("", piece))
        if used > indent and used + 3 + length > (on.width or 0):
            yield line
            line, used = " " * indent, indent
        line += f"   {piece}"
        used += 3 + length
    yield line


def _pool(pool: "QuotaUsage", on: Screen, *, named: bool) -> str:
    from fairway.apis.machinery.amounts import readable  # noqa: PLC0415
    from fairway.cli.quotas import pool_bar  # noqa: PLC0415

    resource = _SHORT_NAMES.get(pool.resource, pool.resource)
    label = f"{pool.flavor}/{resource}" if named else resource
    of = f"{readable(pool.resource, pool.used)}/{readable(pool.resource, pool.quota)}"
    more = f" (+{readable(pool.resource, pool.borrowed)})" if pool.borrowed else ""
    return f"{label} {pool_bar(pool, _BAR, on)} {of}{more}"


def _jobs(snapshot: TopSnapshot, room: int | None, now: datetime, on: Screen) -> list[str]:
    from fairway.cli.jobs.queue import in_order, row_maker  # noqa: PLC0415

    if not snapshot.jobs:
        return ["No jobs in this namespace (-A: all of them). `fairway jobs launch 'echo hello'` runs one."]
    row = row_maker(snapshot.waiting, now)
    ordered = in_order(snapshot.jobs, snapshot.waiting)
    most = len(ordered) if room is None else max(0, room - 1)
    hidden = len(ordered) - most
    if hidden > 0:
        hidden, ordered = hidden + 1, ordered[: max(0, most - 1)]
    cells = [[row(job)[index] for index in _CELLS] for job in ordered]
    lines = tables.fitting(*tables.without_empty(_COLUMNS, cells, "STARTS"), on, _DISPENSABLE).splitlines()
    if hidden > 0:
        lines.append(on.paint(f"{on.ellipsis} and {hidden} more", "dim"))
    return lines


def _at_most(lines: list[str], most: int, on: Screen) -> list[str]:
    if len(lines) <= most:
        return lines
    if not most:
        return []
    return [*lines[: most - 1], on.paint(f"{on.ellipsis} and {len(lines) - most + 1} more lines", "dim")]


def cropped(line: str, width: int) -> str:
    """As much of a line as fits, whatever colours are in it."""
    if tables.width_of(_ESCAPE.sub("", line)) <= width:
        return line
    kept, used = [], 0
    for piece in _pieces(line):
        if piece.startswith("\x1b"):
            kept.append(piece)
            continue
        used += tables.width_of(piece)
        if used > width:
            break
        kept.append(piece)
    return "".join(kept) + ("\x1b[0m" if "\x1b" in line else "")


def _pieces(line: str) -> Iterable[str]:
    """Characters and escape sequences."""
    position = 0
    while position < len(line):
        found = _ESCAPE.match(line, position)
        yield found[0] if found else line[position]
        position = found.end() if found else position + 1
