"""`fairway teams`: a namespace, a quota and a queue for each team, in one step."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.options import with_options
from fairway.cli.session import open_session, output_option, print_note, server_options
from fairway.errors import ApiError

if TYPE_CHECKING:
    from fairway.apis.fairway.teams import Quotas
    from fairway.cli.teamwork import Team, TeamState

F = TypeVar("F", bound=Callable[..., Any])
_SECONDS_TO_GO: Final = 120.0
_MOST_NAMED: Final = 5
_TRIES: Final = 5


class NotYetGoneError(ApiError):
    """A team's objects are being deleted, and something keeps them."""


def _quota_options(command: F) -> F:
    options = [
        click.option("--cpus", metavar="AMOUNT", help="CPU quota, such as 4 or 500m."),
        click.option(
            "--memory", metavar="AMOUNT", help="Memory quota, such as 16Gi.  [default: in proportion to --cpus]"
        ),
        click.option("--gpus", metavar="[MODEL:]N,...", help="GPU quota, such as 2, or by model: T4:2,V100:4."),
        click.option(
            "--borrow/--no-borrow",
            default=None,
            help="Allow borrowing unused quota of other teams, until they reclaim it.  [default: no]",
        ),
    ]
    return with_options(command, options)


@click.group(epilog="\b\nExamples:\n  fairway teams add vision --cpus 4 --gpus 2 --borrow\n  fairway teams list\n")
def teams() -> None:
    """Manage teams that share the machine, each with its own quota.

    A team is a namespace, a ClusterQueue in the cohort `teams` and a LocalQueue `default`, all three named or labelled
    `fairway.dev/team`. They are ordinary objects that kubectl can change. Add users with
    `fairway users add NAME --team TEAM`.
    """


@teams.command(
    epilog="""\b
Examples:
  fairway teams add vision --cpus 4 --gpus 2 --borrow
  fairway teams add speech --cpus 8 --memory 32Gi --gpus T4:2
"""
)
@click.argument("name")
@_quota_options
@click.option("--in-namespace", metavar="NS", help="Namespace of the team.  [default: named like the team]")
@server_options
def add(*, name: str, in_namespace: str | None, borrow: bool | None, cpus: str | None, **options: Any) -> None:
    """Add a team: its namespace, quota and queue, in one transaction.

    Adding an identical team again changes nothing; change its quota with `fairway teams set`. The default queue of the
    server gets the quota that the teams leave, unless it was edited.
    """
    if cpus is None:
        raise click.UsageError("--cpus is required; for a team that only borrows: --cpus 0 --borrow")
    amounts = {"cpus": cpus, "memory": options.pop("memory"), "gpus": options.pop("gpus")}

    def work(server: "TeamState") -> None:
        present = server.queue(name)
        quotas = _quotas(server, server.example, **amounts)
        if present is not None:
            _unchanged_or_refused(server, name, present, quotas, in_namespace, borrow=bool(borrow))
            return
        _make(server, name, in_namespace or name, quotas, borrow=bool(borrow))

    _unless_changed_meanwhile(work, **options)


def _unchanged_or_refused(
    server: "TeamState", name: str, present: dict[str, Any], quotas: "Quotas", namespace: str | None, *, borrow: bool
) -> None:
    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.cli.teamwork import TeamError  # noqa: PLC0415

    if not model.is_team(present):
        raise TeamError(f"ClusterQueue {name!r} exists and is not a team's; choose another name for the team")
    team = server.team(name)
    has = model.quotas_of(present)
    same = all(has.get(share) == amount for share, amount in quotas.items()) and model.borrows(present) == borrow
    if not same or (namespace and namespace != team.namespace):
        raise TeamError(f"team {name!r} already exists with other values; change them with `fairway teams set {name}`")
    click.echo(f"Team {name} already exists, unchanged.")


def _make(server: "TeamState", name: str, namespace: str, quotas: "Quotas", *, borrow: bool) -> None:
    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.apis.machinery.quantities import ZERO  # noqa: PLC0415
    from fairway.cli.teamwork import TeamError, patch  # noqa: PLC0415

    nothing = dict.fromkeys(model.quotas_of(server.example), ZERO)
    groups = model.resource_groups(server.example, nothing | quotas, borrow=borrow)
    home, queue, local = model.manifests(name, namespace, groups)
    present = server.namespaces.get(namespace)
    if present is None:
        first = {"verb": "create", "manifest": home}
    elif owner := (present["metadata"].get("labels") or {}).get(model.LABEL):
        raise TeamError(f"namespace {namespace!r} belongs to team {owner!r}; choose another with --in-namespace")
    else:
        first = patch(
            {"apiVersion": "v1", "kind": "Namespace", **present}, {"metadata": {"labels": {model.LABEL: name}}}
        )
    after = [*server.queues, queue]
    more, said = server.default_queue_patches(after)
    operations = [first, {"verb": "create", "manifest": queue}, {"verb": "create", "manifest": local}, *more]
    server.write(namespace, operations)
    click.echo(f"Team {name}: namespace {namespace}, {_described(queue)}.")
    _say(server, said)
    print_note(f"Add users: fairway users add NAME --team {name}")
    print_note(f"Run jobs: fairway jobs launch --namespace {namespace} ...")


@teams.command(
    "set",
    epilog="""\b
Examples:
  fairway teams set vision --cpus 8
  fairway teams set vision --gpus T4:4 --no-borrow
""",
)
@click.argument("name")
@_quota_options
@server_options
def set_team(*, name: str, borrow: bool | None, **options: Any) -> None:
    """Change the quota of a team; values not given stay. Running jobs are not stopped."""
    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.cli.teamwork import patch  # noqa: PLC0415 - help must be quick

    amounts = {key: options.pop(key) for key in ("cpus", "memory", "gpus")}
    if borrow is None and not any(amounts.values()):
        raise click.UsageError("nothing to change: give --cpus, --memory, --gpus, --borrow or --no-borrow")

    def work(server: "TeamState") -> None:
        queue = server.changeable(name).queue
        quotas = _quotas(server, queue, fill=False, **amounts)
        groups = model.resource_groups(queue, quotas, borrow=borrow)
        changed = {**queue, "spec": {**queue["spec"], "resourceGroups": groups}}
        after = [changed if one is queue else one for one in server.queues]
        more, said = server.default_queue_patches(after)
        server.write("default", [patch(queue, {"spec": {"resourceGroups": groups}}), *more])
        click.echo(f"Team {name}: {_described(changed)}.")
        _say(server, said)

    _unless_changed_meanwhile(work, **options)


@teams.command(epilog="\b\nExamples:\n  fairway teams remove vision\n  fairway teams remove vision --keep-namespace\n")
@click.argument("name")
@click.option("--keep-namespace", is_flag=True, help="Keep the namespace and its objects; its jobs wait for a queue.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@server_options
def remove(*, name: str, keep_namespace: bool, yes: bool, **where: Any) -> None:
    """Remove a team with its queue, its namespace and everything in it; return when all are deleted.

    Asks for confirmation if the team has running or waiting jobs; without a terminal it then needs -y. A namespace
    that existed before the team stays.
    """
    from fairway.apis.fairway import teams as model  # noqa: PLC0415

    def work(server: "TeamState") -> None:
        team = server.changeable(name)
        home = server.namespaces.get(team.namespace)
        made_here = home is not None and model.MADE in (home["metadata"].get("annotations") or {})
        goes = made_here and not keep_namespace
        if team.namespace:
            _ask(server, team, goes=goes, yes=yes)
        more, said = server.default_queue_patches([one for one in server.queues if one is not team.queue])
        server.write("default", [*_removals(server, team, goes=goes), *more])
        _until_gone(server, team, with_namespace=goes)
        click.echo(f"Removed team {name}{f' and namespace {team.namespace}' if goes else ''}.")
        if said:
            print_note(said)

    _unless_changed_meanwhile(work, **where)


def _removals(server: "TeamState", team: "Team", *, goes: bool) -> list[dict[str, Any]]:
    """The operations that delete what a team is; a namespace that stays only loses its label."""
    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.cli.teamwork import patch, removal  # noqa: PLC0415

    operations = [removal(model.KUEUE, "ClusterQueue", team.queue["metadata"]["name"])]
    home = server.namespaces.get(team.namespace)
    if home is None:
        return operations
    operations += [
        removal(model.KUEUE, "LocalQueue", one["metadata"]["name"], team.namespace)
        for one in server.rest.get(_local_queues(team.namespace))["items"]
        if (one["metadata"].get("labels") or {}).get(model.LABEL) == team.name
    ]
    if goes:
        return [*operations, removal("v1", "Namespace", team.namespace)]
    unlabelled = {"metadata": {"labels": {model.LABEL: None}}}
    return [*operations, patch({"apiVersion": "v1", "kind": "Namespace", **home}, unlabelled)]


def _unless_changed_meanwhile(work: "Callable[[TeamState], None]", **where: Any) -> None:
    """Do something that is decided on what is there; once more if that has changed before it was written."""
    from fairway.cli.teamwork import TeamState  # noqa: PLC0415 - help must be quick
    from fairway.errors import Conflict  # noqa: PLC0415

    with open_session(**where) as session:
        for left in reversed(range(_TRIES)):
            try:
                work(TeamState(session))
                break
            except Conflict:
                if not left:
                    raise


def _local_queues(namespace: str) -> str:
    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    return paths.resource(model.KUEUE, "localqueues", namespace)


def _ask(server: "TeamState", team: "Team", *, goes: bool, yes: bool) -> None:
    import sys  # noqa: PLC0415

    from fairway.cli.session import confirmed  # noqa: PLC0415
    from fairway.cli.teamwork import TeamError  # noqa: PLC0415

    jobs = server.jobs(team.namespace)
    if yes or not jobs:
        return
    named = ", ".join(jobs[:_MOST_NAMED]) + (f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else "")
    what = "end and be deleted" if goes else "stay, without a queue"
    if not sys.stdin.isatty():
        raise TeamError(
            f"team {team.name} has jobs that have not ended ({named}); they would {what}: add -y to confirm"
        )
    confirmed(f"Team {team.name} has jobs that have not ended ({named}). They {what}. Continue?", yes=False)


def _until_gone(server: "TeamState", team: "Team", *, with_namespace: bool) -> None:
    """Wait for what the server does in the background: jobs end, then the objects that they hold go."""
    import time  # noqa: PLC0415

    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.client.rest import paths  # noqa: PLC0415

    awaited = [paths.resource(model.KUEUE, "clusterqueues", None, team.queue["metadata"]["name"])]
    if with_namespace:
        awaited.append(paths.resource("v1", "namespaces", None, team.namespace))
    deadline, said = time.monotonic() + _SECONDS_TO_GO, False
    while there := [path for path in awaited if server.rest.exists(path)]:
        if time.monotonic() > deadline:
            raise NotYetGoneError(
                f"team {team.name} is being removed, but {there[0]} still exists: its jobs may still be ending; "
                "`fairway teams list` shows the team until it is deleted"
            )
        if not said:
            said = True
            print_note(f"Waiting for the objects of team {team.name} to be deleted ...")
        time.sleep(0.1)


@teams.command("list", epilog="\b\nExamples:\n  fairway teams list\n  fairway teams list -o json\n")
@output_option
@server_options
def list_teams(*, output: str, **where: Any) -> None:
    """List teams with their quotas, usage, and running and waiting jobs."""
    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.apis.machinery.amounts import readable  # noqa: PLC0415
    from fairway.cli import tables  # noqa: PLC0415 - help must be quick
    from fairway.cli.quotas import cluster_queue, pool_record  # noqa: PLC0415
    from fairway.cli.teamwork import TeamState  # noqa: PLC0415

    with open_session(**where) as session:
        server = TeamState(session)
        found = [(team, cluster_queue(team.queue)) for team in server.teams]
        for warning in server.warnings():
            print_note(f"Warning: {warning}.")
    if output == "json":
        records = [
            {
                "name": team.name,
                "namespace": team.namespace,
                "clusterQueue": queue.name,
                "borrows": model.borrows(team.queue),
                "running": queue.running,
                "pending": queue.pending,
                "active": queue.active,
                "pools": [pool_record(pool) for pool in queue.pools],
            }
            for team, queue in found
        ]
        click.echo(tables.as_json(records))
        return
    if not found:
        print_note("No teams yet. Add one with: fairway teams add NAME --cpus N")
        return
    titles = ("TEAM", "NAMESPACE", "FLAVOR", "RESOURCE", "USED", "QUOTA", "BORROWS", "RUNNING", "WAITING")
    columns = [tables.TableColumn(title, right=title in {"USED", "QUOTA", "RUNNING", "WAITING"}) for title in titles]
    rows: list[tuple[Any, ...]] = []
    for team, queue in found:
        lines = [
            (pool.flavor, pool.resource, readable(pool.resource, pool.used), readable(pool.resource, pool.quota))
            for pool in queue.pools
        ] or [("-", "-", "-", "-")]
        borrows = "yes" if model.borrows(team.queue) else "no"
        rows.append((team.name, team.namespace or None, *lines[0], borrows, queue.running, queue.pending))
        rows += [("", "", *line, "", "", "") for line in lines[1:]]
    click.echo(tables.table(columns, rows, tables.screen()))


def _quotas(
    server: "TeamState",
    queue: dict[str, Any],
    *,
    cpus: str | None,
    memory: str | None,
    gpus: str | None,
    fill: bool = True,
) -> "Quotas":
    """What the options give, by flavor and resource; with `fill`, memory in proportion where nothing is said of it."""
    from fairway.apis.fairway.teams import quotas_of  # noqa: PLC0415
    from fairway.cli.teamwork import GPU, fair_memory  # noqa: PLC0415

    found: Quotas = {}
    for option, resource, text in (("--cpus", "cpu", cpus), ("--memory", "memory", memory)):
        if text is not None:
            found[server.share(resource, queue)] = _amount(option, text)
    if fill and memory is None and cpus is not None:
        found[server.share("memory", queue)] = fair_memory(_amount("--cpus", cpus), server.capacity)
    if gpus is not None:
        named = server.gpus(gpus, queue)
        found |= {
            share: named.get(share, 0 * amount) for share, amount in quotas_of(queue).items() if share.resource == GPU
        }
    return found


def _amount(option: str, text: str) -> Any:
    from fairway.apis.machinery.quantities import ZERO, Quantity  # noqa: PLC0415

    try:
        found = Quantity.parse(text)
    except ValueError:
        found = None
    if found is None or found < ZERO:
        raise click.UsageError(f"{option} {text}: give an amount, such as 8, 1500m or 16Gi")
    return found


def _described(queue: dict[str, Any]) -> str:
    from fairway.apis.fairway import teams as model  # noqa: PLC0415
    from fairway.apis.machinery.amounts import readable  # noqa: PLC0415
    from fairway.apis.machinery.quantities import Quantity  # noqa: PLC0415

    words = {"cpu": "CPU", "nvidia.com/gpu": "GPU"}
    one = Quantity.parse(1)
    quotas = model.quotas_of(queue)
    several = {share.resource for share in quotas if sum(other.resource == share.resource for other in quotas) > 1}
    parts = [
        f"{readable(share.resource, amount.nanos)} {words.get(share.resource, share.resource)}"
        + ("s" if share.resource in words and amount != one else "")
        + (f" of {share.flavor}" if share.resource in several else "")
        for share, amount in quotas.items()
    ]
    return f"{', '.join(parts)}, {'borrows from other teams' if model.borrows(queue) else 'borrows nothing'}"


def _say(server: "TeamState", said: str) -> None:
    if said:
        print_note(said)
    for warning in server.warnings():
        print_note(f"Warning: {warning}.")
