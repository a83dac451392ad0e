"""Roles and where they hold, as they are said on the command line: for users and for groups of users."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import click

from fairway.cli.options import with_options

if TYPE_CHECKING:
    from fairway.cli.session import Session

Binding = dict[str, str]
"""As the API has it: `role`, and `namespace` unless it holds for the whole server."""

Command = TypeVar("Command", bound=Callable[..., Any])

ROLES: Final = """\b
Roles:
  admin   everything; in one namespace: also its local queues and workloads
  editor  submit and change jobs, pods, config maps and secrets; read the rest
  viewer  read everything but secrets, also logs
"""

TEAM_LABEL: Final = "fairway.dev/team"
"""On the namespace and on the queues of a team."""

_GIVES: Final = {
    "admin": ("do everything", "do everything, also with local queues and workloads,"),
    "editor": ("submit and change jobs, and read everything,", "submit and change jobs, and read everything,"),
    "viewer": ("read everything but secrets", "read everything but secrets"),
}


class RoleGrant(NamedTuple):
    """A role and where it holds, as the options say it."""

    role: str | None
    teams: tuple[str, ...]
    namespaces: tuple[str, ...]
    everywhere: bool

    def __bool__(self) -> bool:
        return any(self)


class Withdrawn(NamedTuple):
    """Where roles are taken away."""

    teams: tuple[str, ...]
    namespaces: tuple[str, ...]
    everywhere: bool

    def __bool__(self) -> bool:
        return any(self)


def grant_options(command: Command) -> Command:
    """`--role --team --namespace --everywhere`, which arrive as `grant`."""

    @wraps(command)
    def with_grant(
        *, role: str | None, teams: tuple[str, ...], namespaces: tuple[str, ...], everywhere: bool, **rest: Any
    ) -> Any:
        return command(grant=RoleGrant(role, teams, namespaces, everywhere), **rest)

    options = [
        click.option(
            "--role",
            type=click.Choice(["admin", "editor", "viewer"]),
            help="Role to give.  [default: editor with --team]",
        ),
        click.option(
            "--team",
            "-t",
            "teams",
            multiple=True,
            metavar="TEAM",
            help="Give the role in the namespace of this team; repeatable.",
        ),
        click.option(
            "--namespace",
            "-n",
            "namespaces",
            multiple=True,
            metavar="NS",
            help="Give the role in this namespace; repeatable.",
        ),
        click.option("--everywhere", is_flag=True, help="Give the role on the whole server."),
    ]
    return with_options(cast("Command", with_grant), options)


def withdrawing_options(command: Command) -> Command:
    """`--no-team --no-namespace --no-everywhere`, which arrive as `withdrawn`."""

    @wraps(command)
    def with_withdrawn(
        *, no_teams: tuple[str, ...], no_namespaces: tuple[str, ...], no_everywhere: bool, **rest: Any
    ) -> Any:
        return command(withdrawn=Withdrawn(no_teams, no_namespaces, no_everywhere), **rest)

    options = [
        click.option(
            "--no-team", "no_teams", multiple=True, metavar="TEAM", help="Remove the role in this team; repeatable."
        ),
        click.option(
            "--no-namespace",
            "no_namespaces",
            multiple=True,
            metavar="NS",
            help="Remove the role in this namespace; repeatable.",
        ),
        click.option("--no-everywhere", is_flag=True, help="Remove the role on the whole server."),
    ]
    return with_options(cast("Command", with_withdrawn), options)


def print_accounts(
    output: str, records: Iterable[dict[str, Any]], titles: Sequence[str], rows: Iterable[tuple[str, ...]]
) -> None:
    """Users or groups as a table, or as JSON."""
    from fairway.cli import tables  # noqa: PLC0415 - help must be quick

    if output == "json":
        click.echo(tables.as_json(list(records)))
    else:
        click.echo(tables.table([tables.TableColumn(title) for title in titles], list(rows), tables.screen()))


def bindings(session: "Session", grant: RoleGrant) -> list[Binding]:
    """The bindings that the options ask for; none if they say nothing."""
    role, teams, namespaces, everywhere = grant
    if not (teams or namespaces or everywhere):
        if role is not None:
            raise click.UsageError(f"--role {role}: also give --team TEAM, --namespace NS or --everywhere")
        return []
    if role is None and (namespaces or everywhere):
        raise click.UsageError("give a role: --role admin, editor or viewer")
    if everywhere and (teams or namespaces):
        raise click.UsageError("--everywhere means all namespaces: it cannot be combined with --team or --namespace")
    role = role or "editor"
    if everywhere:
        return [{"role": role}]
    places = [*(namespace_of_team(session, team) for team in teams), *namespaces]
    _warn_of_missing(session, namespaces)
    return [{"role": role, "namespace": place} for place in dict.fromkeys(places)]


def namespace_of_team(session: "Session", team: str) -> str:
    """The namespace of a team that `fairway teams add` made."""
    found = session.rest.get("/api/v1/namespaces", labelSelector=TEAM_LABEL)["items"]
    named = {one["metadata"]["labels"][TEAM_LABEL]: one["metadata"]["name"] for one in found}
    if team not in named:
        there = (
            f"there is {', '.join(sorted(named))}" if named else f"create it with `fairway teams add {team} --cpus N`"
        )
        raise click.UsageError(f"--team {team}: no such team; {there}")
    return str(named[team])


def edited(session: "Session", present: Sequence[Binding], grant: RoleGrant, withdrawn: Withdrawn) -> list[Binding]:
    """The bindings after a change: a role replaces the one that was held in the same place."""
    wanted = bindings(session, grant)
    away: list[str | None] = [*(namespace_of_team(session, team) for team in withdrawn.teams), *withdrawn.namespaces]
    away += [None] if withdrawn.everywhere else []
    found = {one.get("namespace"): one for one in present}
    missing = [place for place in away if place not in found]
    if missing:
        raise click.UsageError(f"no role is held {', '.join(_where(place) for place in missing)}")
    kept = {place: one for place, one in found.items() if place not in away}
    kept.update({one.get("namespace"): one for one in wanted})
    return list(kept.values())


def sentence(subject: str, held: Sequence[Binding], groups: Sequence[str] = ()) -> str:
    """The permissions of a user, as a sentence."""
    parts = [
        f"{_GIVES[one['role']]['namespace' in one]} {_where(one.get('namespace'))} ({one['role']})" for one in held
    ]
    if groups:
        parts.append(f"do what {'groups' if len(groups) > 1 else 'group'} {', '.join(groups)} may")
    return f"{subject} may {'; '.join(parts)}." if parts else f"{subject} has no role and may do nothing here."


def _where(place: str | None) -> str:
    return f"in namespace {place}" if place else "on the whole server"


def _warn_of_missing(session: "Session", namespaces: Sequence[str]) -> None:
    from fairway.cli.session import print_note  # noqa: PLC0415 - help must be quick
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.errors import NotFound  # noqa: PLC0415

    for name in dict.fromkeys(namespaces):
        try:
            session.rest.get(paths.resource("v1", "namespaces", None, name))
        except NotFound:
            print_note(f"Warning: namespace {name!r} does not exist yet; the role takes effect once it does.")


@contextmanager
def account_server(**where: Any) -> "Iterator[Session]":
    """A session with a server that has users of its own."""
    from fairway.cli.session import open_session  # noqa: PLC0415 - help must be quick
    from fairway.errors import ApiError, NotFound  # noqa: PLC0415

    with open_session(**where) as session:
        try:
            yield session
        except NotFound as error:
            if not session.is_cluster:
                raise
            raise ApiError(
                f"{session.place} is a Kubernetes cluster: its users are those of the cluster, and RBAC says what they "
                "may do. Let a user launch jobs in a namespace with `kubectl create rolebinding NAME "
                "--clusterrole=edit --user=USER -n NAMESPACE`"
            ) from error
