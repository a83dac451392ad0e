"""`fairway users`: users, their roles and their tokens."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.granting import (
    ROLES,
    RoleGrant,
    Withdrawn,
    account_server,
    bindings,
    edited,
    grant_options,
    print_accounts,
    sentence,
    withdrawing_options,
)
from fairway.cli.session import output_option, print_note, server_options
from fairway.cli.usergroups import groups
from fairway.client.rest.paths import FAIRWAY as API
from fairway.client.rest.paths import user as user_path

if TYPE_CHECKING:
    from fairway.cli.session import Session

F = TypeVar("F", bound=Callable[..., object])

_UNITS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _expires(command: F) -> F:
    return click.option(
        "--expires", metavar="TIME", callback=_moment, help="Lifetime of the token: 12h, 30d, 8w.  [default: no expiry]"
    )(command)


def _token_output(command: F) -> F:
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["token", "kubeconfig", "json"]),
        default="token",
        show_default=True,
        help="Print the token, a kubeconfig with it, or the user as JSON.",
    )(command)


def _moment(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhdw])", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a time; write a number and m, h, d or w, such as 30d")
    ends = datetime.now(UTC) + timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    return ends.strftime("%Y-%m-%dT%H:%M:%SZ")


@click.group(epilog=ROLES)
def users() -> None:
    """Manage users, their roles and their tokens.

    Needs the admin role on the whole server. --state, --kubeconfig and --context select the server, as in all commands.
    Changes take effect at once.
    """


@users.command(
    epilog="""\b
Examples:
  fairway users add ben --team vision
  fairway users add ana --role admin --everywhere
  fairway users add eva --role viewer --namespace research
  fairway users add kim --group ml
  fairway users add grafana --role viewer --everywhere --expires 90d
  fairway users add ben --team vision -o kubeconfig > ben.kubeconfig

"""
    + ROLES
)
@click.argument("name")
@grant_options
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="GROUP",
    help="Add the user to this group, to get its roles; repeatable.",
)
@_expires
@_token_output
@server_options
def add(
    *,
    name: str,
    grant: RoleGrant,
    groups: tuple[str, ...],
    expires: str | None,
    output: str,
    **where: Any,
) -> None:
    """Add a user and print their token; it is shown only once.

    There is no default role: give a team, or a role with a namespace or --everywhere, or a group.
    """
    if not (grant or groups):
        raise click.UsageError(
            f"give {name} a role: --team TEAM; or --role ROLE with --namespace NS or --everywhere; or --group GROUP"
        )
    with account_server(**where) as session:
        wanted = bindings(session, grant)
        _warn_of_groups(session, groups)
        spec: dict[str, Any] = {"bindings": wanted, "groups": list(dict.fromkeys(groups))}
        if expires:
            spec["expires"] = expires
        made = session.rest.create(f"{API}/users", {"metadata": {"name": name}, "spec": spec})
        _print_token(session, made, output)
    print_note(sentence(name, wanted, spec["groups"]))


@users.command(
    epilog="""\b
Examples:
  fairway users edit ben --role admin --team vision    replaces the role in this team
  fairway users edit ben --team speech                 adds a team
  fairway users edit ben --no-team vision
  fairway users edit ana --no-everywhere
  fairway users edit kim --group ml --no-group interns

"""
    + ROLES
)
@click.argument("name")
@grant_options
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Add the user to this group; repeatable.")
@withdrawing_options
@click.option(
    "--no-group", "no_groups", multiple=True, metavar="GROUP", help="Remove the user from this group; repeatable."
)
@server_options
def edit(
    *,
    name: str,
    grant: RoleGrant,
    groups: tuple[str, ...],
    withdrawn: Withdrawn,
    no_groups: tuple[str, ...],
    **where: Any,
) -> None:
    """Change the roles and groups of a user; their tokens stay valid."""
    with account_server(**where) as session:
        path = user_path(name)
        spec = session.rest.get(path)["spec"]
        absent = [group for group in no_groups if group not in spec["groups"]]
        if absent:
            raise click.UsageError(f"{name} is not in group {', '.join(absent)}")
        if not (grant or withdrawn or groups or no_groups):
            raise click.UsageError("nothing to change: give a role or a group, see `fairway users edit --help`")
        _warn_of_groups(session, groups)
        held = edited(session, spec["bindings"], grant, withdrawn)
        kept = [group for group in dict.fromkeys([*spec["groups"], *groups]) if group not in no_groups]
        session.rest.patch(path, {"spec": {"bindings": held, "groups": kept}})
    print_note(sentence(name, held, kept))


@users.command(epilog="\b\nExample:\n  fairway users remove ben\n")
@click.argument("name")
@server_options
def remove(*, name: str, **where: Any) -> None:
    """Remove a user; their tokens stop working at once."""
    with account_server(**where) as session:
        session.rest.delete(user_path(name))
    print_note(f"Removed {name}.")


@users.command(
    epilog="""\b
Examples:
  fairway users token ben                      creates a token
  fairway users token ben --expires 30d
  fairway users token ben --revoke 1f0c93ab    an id from: fairway users list
"""
)
@click.argument("name")
@_expires
@click.option("--revoke", metavar="ID", help="Revoke this token; create no new one.")
@_token_output
@server_options
def token(*, name: str, expires: str | None, revoke: str | None, output: str, **where: Any) -> None:
    """Create and print another token for a user, or revoke one; other tokens stay valid."""
    if revoke is not None and (expires is not None or output != "token"):
        raise click.UsageError("--revoke cannot be combined with --expires or --output, which are for a new token")
    with account_server(**where) as session:
        path = f"{user_path(name)}/token"
        if revoke is not None:
            session.rest.delete(path, id=revoke)
            print_note(f"Revoked {revoke} of {name}.")
            return
        made = session.rest.create(path, {"spec": {"expires": expires} if expires else {}})
        _print_token(session, made, output)


@users.command("list", epilog="\b\nExamples:\n  fairway users list\n  fairway users list -o json\n")
@output_option
@server_options
def list_users(*, output: str, **where: Any) -> None:
    """List users with their roles, groups and token ids."""
    with account_server(**where) as session:
        found = session.rest.get(f"{API}/users")["items"]
    print_accounts(output, map(_record, found), ("NAME", "ROLE", "NAMESPACE", "GROUPS", "TOKENS"), _rows(found))


def _record(user: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": user["metadata"]["name"],
        "uid": user["metadata"]["uid"],
        "groups": user["spec"]["groups"],
        "bindings": [{"role": one["role"], "namespace": one.get("namespace")} for one in user["spec"]["bindings"]],
        "tokens": [{"expires": None, **one} for one in user["status"]["tokens"]],
    }


def _rows(found: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for user in found:
        spec = user["spec"]
        tokens = [
            one["id"] if "expires" not in one else f"{one['id']} (until {one['expires'][:16].replace('T', ' ')} UTC)"
            for one in user["status"]["tokens"]
        ]
        places = [(one["role"], one.get("namespace") or "*") for one in spec["bindings"]] or [("-", "-")]
        yield user["metadata"]["name"], *places[0], ", ".join(spec["groups"]) or "-", ", ".join(tokens) or "-"
        yield from (("", *place, "", "") for place in places[1:])


def _warn_of_groups(session: "Session", groups: Sequence[str]) -> None:
    if not groups:
        return
    there = {one["metadata"]["name"] for one in session.rest.get(f"{API}/groups")["items"]}
    for group in groups:
        if group not in there:
            print_note(f"Warning: group {group!r} has no roles yet; `fairway users groups add {group}` gives it some.")


def _print_token(session: "Session", made: dict[str, Any], output: str) -> None:
    if output == "json":
        from fairway.cli.tables import as_json  # noqa: PLC0415 - help must be quick

        click.echo(as_json({**_record(made), "token": made["status"]["token"]}))
    else:
        click.echo(made["status"]["token"] if output == "token" else _as_kubeconfig(session, made))


def _as_kubeconfig(session: "Session", made: dict[str, Any]) -> str:
    """What lets a user in, by the way that this command came; in the first namespace where they have a role."""
    import base64  # noqa: PLC0415 - help must be quick

    import yaml  # noqa: PLC0415

    name, endpoint = made["metadata"]["name"], session.rest.endpoint
    cluster: dict[str, Any] = {"server": endpoint.url}
    if endpoint.authority:
        cluster["certificate-authority-data"] = base64.b64encode(endpoint.authority.encode()).decode()
    if endpoint.server_name:
        cluster["tls-server-name"] = endpoint.server_name
    namespace = next((one["namespace"] for one in made["spec"]["bindings"] if "namespace" in one), None)
    context = {"cluster": "fairway", "user": name, **({"namespace": namespace} if namespace else {})}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fairway", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": made["status"]["token"]}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    return str(yaml.safe_dump(config, sort_keys=False)).rstrip()


users.add_command(groups)
