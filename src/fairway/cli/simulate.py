"""`fairway simulate`: what would happen with other quotas, priorities, nodes, policies or jobs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.session import open_session, output_option, session_options

if TYPE_CHECKING:
    from fairway.cli.session import Session
    from fairway.simulate.traces import JobTrace

Manifest = dict[str, Any]
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--trace", type=_FILE, metavar="FILE", help="Play this trace instead: SWF, or a history in JSON.")
@click.option(
    "--generate", type=_FILE, metavar="FILE", help="Play a generator file of Kueue's performance tests instead."
)
@click.option(
    "--queues", type=_FILE, metavar="FILE", help="Queues and flavors for a trace; default: its own, else the server's."
)
@click.option(
    "--queue", default="", metavar="NAME", help="With a trace: the LocalQueue of jobs whose queue is not there."
)
@click.option("--skip-bad-lines", is_flag=True, help="Leave out lines of a trace that cannot be read.")
@click.option("--quota", multiple=True, metavar="CQ:[FLAVOR/]RESOURCE=N", help="Another quota; +N and -N change it.")
@click.option("--priority", multiple=True, metavar="JOB=N", help="Another priority of a job.")
@click.option(
    "--add-node", multiple=True, metavar="RESOURCE=N,...", help="A node more; also queue=CQ, flavor=F, count=N."
)
@click.option(
    "--job",
    multiple=True,
    metavar="RESOURCE=N,...",
    help="A new job; also name, queue, pods, count, priority, duration, after.",
)
@click.option("--cancel", multiple=True, metavar="JOB", help="Without this job.")
@click.option(
    "--policy", multiple=True, metavar="CQ:FIELD=VALUE", help="Another policy of a ClusterQueue; or fairSharing=on|off."
)
@click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    type=_FILE,
    metavar="FILE",
    help="As if these queues, flavors and cohorts were applied.",
)
@click.option(
    "--check",
    is_flag=True,
    help="With a trace: how far expected starts are off, forecast from its past at moments of it.",
)
@click.option("--limit", type=click.IntRange(1, 5000), default=20, show_default=True, help="Print at most N jobs.")
@output_option
@session_options
def simulate(*, output: str, limit: int, **given: Any) -> None:
    """Play the queue in virtual time: as it is, and with changes.

    Starts from the live state of the server, from a trace (--trace) or from generated load (--generate). The engine
    that decides on the server decides here; nothing on the server changes. Prints who starts when, who is preempted,
    and waits and use side by side. How long jobs run is their max_duration, else what jobs like them took before; a
    job that nothing is known of counts with an hour.

    Resources are named as in manifests; gpu is nvidia.com/gpu. Policies: withinClusterQueue, reclaimWithinCohort,
    borrowWithinCohort, queueingStrategy, stopPolicy, fairSharingWeight, cohort.

    \b
    Examples:
      fairway simulate --quota cluster-queue:gpu=+4
      fairway simulate --add-node cpu=64,memory=512Gi,gpu=8,queue=cluster-queue
      fairway simulate --priority train-3=1000 --job gpu=2,duration=4h,count=5
      fairway simulate --policy team-a:withinClusterQueue=LowerPriority -o json
      fairway simulate --trace jobs.swf --quota default:cpu=+64
      fairway simulate --trace jobs.swf --check
      fairway simulate --generate generator.yaml --policy fairSharing=on
    """
    from fairway.cli import whatif  # noqa: PLC0415 - help must not wait for it

    where = {name: given.pop(name) for name in ("state", "kubeconfig", "context", "namespace")}
    changes = whatif.changes(given)
    spec = {"changes": changes, "limit": limit if output == "table" else 5000}
    if given["trace"] or given["generate"]:
        trace = _trace(given, where)
        if given["check"]:
            click.echo(whatif.check(trace, given, json=output == "json"))
            return
        status = whatif.play(trace, given, spec)
    else:
        with open_session(**where) as session:
            _in_namespace(changes, session.namespace)
            status = _live(session, spec)
    click.echo(tables.as_json(status) if output == "json" else whatif.as_text(status, tables.screen(), limit=limit))


def _in_namespace(changes: list[Manifest], namespace: str) -> None:
    """Jobs are those of the namespace of the session."""
    for change in changes:
        for kind in ("priority", "cancel", "job"):
            if kind in change:
                change[kind].setdefault("namespace", namespace)


def _live(session: "Session", spec: Manifest) -> Manifest:
    from fairway.client.rest import paths  # noqa: PLC0415

    path = paths.simulations(cluster=session.is_cluster)
    body = {"apiVersion": "fairway.dev/v1alpha1", "kind": "Simulation", "spec": spec}
    status: Manifest = session.rest.create(path, body)["status"]
    return status


def _trace(given: Manifest, where: Manifest) -> "JobTrace":
    from fairway.cli import whatif  # noqa: PLC0415

    trace = whatif.read_trace(given)
    if not trace.objects:
        with open_session(**where) as session:
            trace.objects = whatif.server_objects(session)
            trace.notes.append(f"the queues are those of {session.place}")
    return trace
