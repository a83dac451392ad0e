"""What `fairway simulate` reads and prints: changes as options, traces as files, a comparison as tables."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.tables import Screen, TableColumn, duration

if TYPE_CHECKING:
    from fairway.cli.session import Session
    from fairway.simulate.traces import JobTrace

Manifest = dict[str, Any]

_NAMES: Final = {"gpu": "nvidia.com/gpu", "disk": "ephemeral-storage"}
_POLICIES: Final = (
    "withinClusterQueue", "reclaimWithinCohort", "borrowWithinCohort", "queueingStrategy", "stopPolicy",
    "fairSharingWeight", "cohort",
)  # fmt: skip
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_QUEUE_KINDS: Final = ("resourceflavors", "cohorts", "clusterqueues", "localqueues")
_COLUMNS: Final = (
    TableColumn("JOB", flexible=True),
    TableColumn("USER"),
    TableColumn("QUEUE"),
    TableColumn("PRIORITY", right=True),
    TableColumn("STARTS", right=True),
    TableColumn("THEN", right=True),
    TableColumn("CHANGE", right=True),
    TableColumn("PREEMPTED", right=True),
)
_DISPENSABLE: Final = ("USER", "PRIORITY", "QUEUE", "PREEMPTED")


# Changes


def changes(given: Manifest) -> list[Manifest]:
    """The changes that options ask for, as the API reads them."""
    return [
        *map(_quota, given["quota"]),
        *map(_priority, given["priority"]),
        *map(_node, given["add_node"]),
        *map(_job, given["job"]),
        *({"cancel": {"name": name}} for name in given["cancel"]),
        *map(_policy, given["policy"]),
        *({"apply": manifest} for file in given["files"] for manifest in _manifests(file)),
    ]


def _quota(text: str) -> Manifest:
    left, equals, amount = text.rpartition("=")
    queue, colon, resource = left.partition(":")
    if not (equals and colon and queue and resource and amount):
        raise click.BadParameter(f"--quota {text!r}: write CLUSTERQUEUE:[FLAVOR/]RESOURCE=N, such as team-a:gpu=+4")
    # `nvidia.com/gpu` has a slash of its own: a flavor's name has no dot before it.
    flavor, slash, name = resource.partition("/")
    if not slash or "." in flavor:
        flavor, name = "", resource
    return {"quota": {"clusterQueue": queue, "flavor": flavor, "resource": _NAMES.get(name, name), "nominal": amount}}


def _priority(text: str) -> Manifest:
    job, equals, number = text.rpartition("=")
    if not equals or not re.fullmatch(r"-?\d+", number):
        raise click.BadParameter(f"--priority {text!r}: write JOB=NUMBER, such as train-3=1000")
    return {"priority": {"name": job, "priority": int(number)}}


def _pairs(text: str, option: str) -> dict[str, str]:
    found = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{option} {text!r}: {part!r} is not NAME=VALUE")
        found[name] = value
    return found


def _node(text: str) -> Manifest:
    pairs = _pairs(text, "--add-node")
    node: Manifest = {"count": _number(pairs.pop("count", "1"), "--add-node")}
    for option, field in (("queue", "clusterQueue"), ("flavor", "flavor")):
        if option in pairs:
            node[field] = pairs.pop(option)
    return {"node": node | {"resources": {_NAMES.get(name, name): value for name, value in pairs.items()}}}


def _job(text: str) -> Manifest:
    pairs = _pairs(text, "--job")
    job: Manifest = {name: pairs.pop(name) for name in ("name", "queue", "namespace", "user") if name in pairs}
    job |= {name: _number(pairs.pop(name), "--job") for name in ("pods", "count", "priority") if name in pairs}
    for option, field in (("duration", "durationSeconds"), ("after", "afterSeconds")):
        if option in pairs:
            job[field] = _seconds(pairs.pop(option))
    return {"job": job | {"requests": {_NAMES.get(name, name): value for name, value in pairs.items()}}}


def _number(text: str, option: str) -> int:
    if not re.fullmatch(r"-?\d+", text):
        raise click.BadParameter(f"{option}: {text!r} is not a whole number")
    return int(text)


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"--job: {text!r} is no duration; write 90, 30m, 4h or 2d")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def _policy(text: str) -> Manifest:
    left, equals, value = text.partition("=")
    queue, colon, field = left.rpartition(":")
    if left == "fairSharing" and value in {"on", "off"}:
        return {"policy": {"fairSharing": value == "on"}}
    if not (equals and colon and queue) or field not in _POLICIES:
        raise click.BadParameter(
            f"--policy {text!r}: write CLUSTERQUEUE:FIELD=VALUE (FIELD: {', '.join(_POLICIES)}) or fairSharing=on|off"
        )
    return {"policy": {"clusterQueue": queue, field: value}}


def _manifests(file: Path) -> Iterator[Manifest]:
    from fairway.cli.manifests import documents  # noqa: PLC0415

    for document in documents(file.read_bytes(), str(file)):
        yield document.manifest


# Traces


def read_trace(given: Manifest) -> "JobTrace":
    """The trace of the options, with the queues for it."""
    from fairway.simulate.generator import read_generator  # noqa: PLC0415
    from fairway.simulate.traces import BadTraceError, read_history, read_swf  # noqa: PLC0415

    file: Path = given["trace"] or given["generate"]
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        if given["generate"]:
            trace = read_generator(_yaml(text))
        elif text.lstrip()[:1] in {"{", "["}:
            trace = read_history(_items(text))
        else:
            trace = read_swf(text, skip_bad_lines=given["skip_bad_lines"])
    except BadTraceError as problem:
        raise BadTraceError(f"{file}: {problem}") from None
    if given["queues"]:
        trace.objects = list(_manifests(given["queues"]))
    return trace


def _yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415

    from fairway.simulate.traces import BadTraceError  # noqa: PLC0415

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe one
    except yaml.YAMLError as problem:
        raise BadTraceError(f"not YAML: {problem}") from None


def _items(text: str) -> list[Manifest]:
    import msgspec  # noqa: PLC0415

    from fairway.simulate.traces import BadTraceError  # noqa: PLC0415

    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        raise BadTraceError(f"neither a trace in the Standard Workload Format nor JSON: {problem}") from None
    items: list[Manifest] = found["items"] if isinstance(found, dict) and "items" in found else found
    return items


def server_objects(session: "Session") -> list[Manifest]:
    """The queues, flavors and cohorts of a server."""
    from fairway.cli.waiting import KUEUE  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    return [
        {"apiVersion": KUEUE, "kind": found["kind"].removesuffix("List"), **one}
        for plural in _QUEUE_KINDS
        for found in (session.rest.get(paths.resource(KUEUE, plural)),)
        for one in found["items"]
    ]


def play(trace: "JobTrace", given: Manifest, spec: Manifest) -> Manifest:
    """The trace as it is and with the changes, played in this process."""
    import gc  # noqa: PLC0415

    from fairway.simulate.playing import trace_scenario  # noqa: PLC0415
    from fairway.simulate.worker import compared  # noqa: PLC0415

    scenario, notes = trace_scenario(trace, given["queue"])
    gc.collect()
    gc.freeze()  # a hundred thousand jobs need not be looked at again and again
    return compared(scenario, {**spec, "horizonSeconds": spec.get("horizonSeconds") or 1e10}, notes)


def check(trace: "JobTrace", given: Manifest, *, json: bool) -> str:
    """How far expected starts are off on a trace."""
    import msgspec  # noqa: PLC0415

    from fairway.simulate.playing import trace_scenario  # noqa: PLC0415
    from fairway.simulate.replay import replay  # noqa: PLC0415

    found = replay(trace_scenario(trace, given["queue"])[0])
    if json:
        return tables.as_json(None if found is None else msgspec.to_builtins(found))
    if found is None:
        return "No job waited at the moments that were looked at: there is nothing to compare."
    return (
        f"{found.compared} starts were forecast from the past of the trace alone and compared with its replay.\n"
        f"Half were off by less than {duration(found.median_seconds)}, nine of ten by less than "
        f"{duration(found.p90_seconds)}; {found.in_range:.0%} were within the range given.\n"
        f"Half of these jobs still waited for more than {duration(found.median_wait_seconds)}, and half of the ranges "
        f"were wider than {duration(found.median_range_seconds)}. To expect the median wait of the jobs before is off "
        f"by {duration(found.naive_seconds)}."
    )


# The tables


def as_text(status: Manifest, on: Screen, *, limit: int) -> str:
    """A comparison as people read it."""
    parts = [_figures(status, on)]
    if len(status["queues"]) > 1:
        parts.append(_queues(status["queues"][:limit], on))
        if len(status["queues"]) > limit:
            parts.append(f"and {len(status['queues']) - limit} more ClusterQueues: --limit, or -o json")
    changed = [job for job in status["jobs"] if job["change"] != "same" or _preempted(job) != "0"]
    if changed:
        shown = changed[:limit]
        parts.append(tables.fitting(_COLUMNS, [_row(job, status["at"]) for job in shown], on, _DISPENSABLE))
        hidden = len(changed) - len(shown) + status["jobsOmitted"]
        if hidden > 0:
            parts.append(f"and {hidden} more: --limit, or -o json")
    else:
        parts.append("No job starts at another time.")
    parts += [f"Note: {tables.plain(note)}." for note in status["notes"]]
    return "\n\n".join(parts)


def _figures(status: Manifest, on: Screen) -> str:
    before, after = status["before"], status["after"]
    rows: list[list[tables.Cell]] = [
        [title, *(show(one) for one in (before, after))]
        for title, show in (
            ("Jobs", lambda one: one["jobs"]),
            ("Never started", lambda one: one["neverStarted"]),
            ("Preemptions", lambda one: one["preemptions"]),
            ("Wait, mean", lambda one: duration(one["wait"]["mean"])),
            ("Wait, median", lambda one: duration(one["wait"]["p50"])),
            ("Wait, 90th percentile", lambda one: duration(one["wait"]["p90"])),
            ("Wait, longest", lambda one: duration(one["wait"]["max"])),
            ("Until all have ended", lambda one: duration(one["makespanSeconds"])),
        )
    ]
    uses = [{(use["flavor"], use["resource"]): f"{use['ratio']:.0%}" for use in one["use"]} for one in (before, after)]
    rows += [[f"Use of {'/'.join(name)}", *(one.get(name, "-") for one in uses)] for name in sorted(uses[0] | uses[1])]
    columns = (TableColumn(""), TableColumn("BEFORE", right=True), TableColumn("AFTER", right=True))
    return tables.table(columns, rows, on)


def _queues(queues: list[Manifest], on: Screen) -> str:
    rows: list[list[tables.Cell]] = []
    for queue in queues:
        before, after = queue["before"], queue["after"]
        waits = [f"{duration(one['wait']['mean'])} / {duration(one['wait']['p90'])}" for one in (before, after)]
        rows.append([queue["clusterQueue"] or "-", after["jobs"], *waits, before["preemptions"], after["preemptions"]])
    columns = (
        TableColumn("CLUSTERQUEUE", flexible=True),
        TableColumn("JOBS", right=True),
        TableColumn("WAIT MEAN / P90", right=True),
        TableColumn("THEN", right=True),
        TableColumn("PREEMPTIONS", right=True),
        TableColumn("THEN", right=True),
    )
    return tables.table(columns, rows, on)


def _row(job: Manifest, at: str) -> list[tables.Cell]:
    seconds = job["changeSeconds"]
    change = (
        job["change"] if seconds is None or job["change"] == "same" else f"{duration(abs(seconds))} {job['change']}"
    )
    return [
        job["shown"],
        job["user"] or None,
        job["clusterQueue"],
        job["priority"],
        _start(job["before"], at),
        _start(job["after"], at),
        change,
        _preempted(job),
    ]


def _preempted(job: Manifest) -> str:
    before, after = ((one or {}).get("preemptions", 0) for one in (job["before"], job["after"]))
    return str(after) if before == after else f"{before} -> {after}"


def _start(run: Manifest | None, at: str) -> str:
    from datetime import datetime  # noqa: PLC0415

    if run is None:
        return "-"
    if run["running"]:
        return "runs"
    if run["start"] is None:
        return "never"
    return f"+{duration((datetime.fromisoformat(run['start']) - datetime.fromisoformat(at)).total_seconds())}"
