"""`fairway queues`: quota, what is used of it and what is waited for, as bars."""

from typing import TYPE_CHECKING, Any

import click

from fairway.cli import tables
from fairway.cli.completion import cluster_queue_names
from fairway.cli.session import open_session, output_option, session_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.cli.outside import Outsider
    from fairway.cli.quotas import ClusterQueueUsage, CohortUsage, LocalQueueUsage
    from fairway.cli.session import Session
    from fairway.cli.tables import Screen


@click.command()
@click.argument("names", nargs=-1, metavar="[CLUSTERQUEUE]...", shell_complete=cluster_queue_names)
@click.option("--org", default="", metavar="NAME", help="Only the queues of this organization.")
@click.option("--verbose", "-v", is_flag=True, help="Include LocalQueues.")
@output_option
@session_options
def queues(*, names: tuple[str, ...], org: str, verbose: bool, output: str, **where: Any) -> None:
    """Show quota, usage, borrowing and pending jobs of all queues.

    Prints a line for each resource in each flavor of each ClusterQueue. Borrowed amounts are drawn beyond the quota, in
    another shade. Below are the cohorts with the sums of their queues, queues that admit nothing, with the reason, and
    pods that run outside every queue.

    \b
    Examples:
      fairway queues
      fairway queues -v
      fairway queues team-a -o json
    """
    from fairway.cli import quotas  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.outside import outsiders  # noqa: PLC0415

    with open_session(**where) as session:
        found, shared = _fetched(session)
        names = (*names, *(_of_organization(session, org) if org else ()))
        local = _local(session) if verbose or output == "json" else []
        beside = outsiders(session.rest)
    if names:
        found = _named(found, names)
        local = [one for one in local if one.cluster_queue in names]
        shared = [cohort for cohort in shared if cohort.name in {queue.cohort for queue in found}]
    if output == "json":
        click.echo(
            tables.as_json(
                {
                    "clusterQueues": [quotas.queue_record(one) for one in found],
                    "cohorts": [quotas.cohort_record(one) for one in shared],
                    "localQueues": [one._asdict() for one in local],
                    "outside": [quotas.outside_record(one) for one in beside],
                }
            )
        )
    else:
        click.echo(as_text(found, shared, local, tables.screen(), beside))


def _fetched(session: "Session") -> "tuple[list[ClusterQueueUsage], list[CohortUsage]]":
    from fairway.cli.quotas import API, cluster_queue, cohorts  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    found = sorted(cluster_queue(one) for one in session.rest.get(paths.resource(API, "clusterqueues"))["items"])
    declared = session.rest.get(paths.resource(API, "cohorts"))["items"]
    return found, cohorts(found, declared)


def _of_organization(session: "Session", org: str) -> "list[str]":
    """The ClusterQueues of an organization, by the label that `fairway quota apply` gives them."""
    from fairway.apis.fairway.teams import ORGANIZATION_LABEL  # noqa: PLC0415
    from fairway.cli.quotas import API  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    path = paths.resource(API, "clusterqueues")
    found = session.rest.get(path, labelSelector=f"{ORGANIZATION_LABEL}={org}")["items"]
    if not found:
        raise click.UsageError(f"--org {org}: no ClusterQueue has the label {ORGANIZATION_LABEL}={org}")
    return [one["metadata"]["name"] for one in found]


def _local(session: "Session") -> "list[LocalQueueUsage]":
    from fairway.cli.quotas import API, local_queue  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    found = [local_queue(one) for one in session.rest.get(paths.resource(API, "localqueues"))["items"]]
    return sorted(found, key=lambda one: (one.cluster_queue, one.namespace, one.name))


def _named(found: "list[ClusterQueueUsage]", names: tuple[str, ...]) -> "list[ClusterQueueUsage]":
    known = {queue.name for queue in found}
    for name in names:
        if name not in known:
            there = f"there are {', '.join(sorted(known))}" if known else "none exist"
            raise click.UsageError(f"there is no ClusterQueue {name!r}; {there}")
    return [queue for queue in found if queue.name in names]


def as_text(
    found: "list[ClusterQueueUsage]",
    shared: "list[CohortUsage]",
    local: "list[LocalQueueUsage]",
    on: "Screen",
    beside: "Sequence[Outsider]" = (),
) -> str:
    """All tables, one below the other; at the end what is wrong, and what runs `beside` the queues."""
    from fairway.cli import quotas  # noqa: PLC0415
    from fairway.cli.outside import sentence  # noqa: PLC0415

    if not found:
        return "No ClusterQueues. Create one with `fairway apply -f FILE`; docs/use/from-kueue.md has an example."
    parts = [quotas.as_table(found, on)]
    if shared:
        parts.append(quotas.cohort_table(shared, on))
    if local:
        parts.append(quotas.local_table(local, on))
    wrong = [*quotas.troubles([*found, *local]), *filter(None, [sentence(beside)])]
    if wrong:
        parts.append("\n".join(f"{on.paint('!', '!')} {line}" for line in wrong))
    return "\n\n".join(parts)
