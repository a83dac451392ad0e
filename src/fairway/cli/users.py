"""`fairway users`: who may use a server, and their tokens."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from fairway.cli.options import state_option

if TYPE_CHECKING:
    from fairway.server.access.users import Account, Users

F = TypeVar("F", bound=Callable[..., object])

_ROLES = """\b
Roles:
  admin   everything; in one namespace: also its local queues and workloads
  editor  submit and change jobs, pods, config maps and secrets; read the rest
  viewer  read everything but secrets, also logs
"""

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _expires(command: F) -> F:
    return click.option(
        "--expires", metavar="TIME", callback=_moment, help="When the token ends: 12h, 30d, 8w.  [default: never]"
    )(command)


def _kubeconfig(command: F) -> F:
    return click.option("--kubeconfig", is_flag=True, help="Print a kubeconfig with the token, not the token alone.")(
        command
    )


def _moment(_context: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhdw])", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a time; write a number and m, h, d or w, such as 30d")
    return datetime.now(UTC) + timedelta(seconds=int(found[1]) * _UNITS[found[2]])


@click.group(epilog=_ROLES)
def users() -> None:
    """Who may use a server, and their tokens.

    Users, and hashes of their tokens, are kept in users.json in the state directory. A change counts at once, also for
    a server that is running.
    """


@users.command(
    epilog="""\b
Examples:
  fairway users add ana --role admin
  fairway users add ben --namespace research --namespace trials
  fairway users add grafana --role viewer --expires 90d
  fairway users add ben --kubeconfig > ben.kubeconfig

"""
    + _ROLES
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["admin", "editor", "viewer"]),
    default="editor",
    show_default=True,
    help="What they may do.",
)
@click.option(
    "--namespace",
    "-n",
    "namespaces",
    multiple=True,
    metavar="NS",
    help="Where; can be given several times.  [default: everywhere]",
)
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="A group they are in, shown by `kubectl auth whoami`."
)
@_expires
@_kubeconfig
@state_option
def add(
    *,
    name: str,
    role: str,
    namespaces: tuple[str, ...],
    groups: tuple[str, ...],
    expires: datetime | None,
    kubeconfig: bool,
    state: Path,
) -> None:
    """Add somebody and print their token, which is shown only this once."""
    from fairway.server.access.roles import Binding, Role  # noqa: PLC0415 - help must be quick

    places: Sequence[str | None] = list(dict.fromkeys(namespaces)) or [None]
    cluster = _cluster_of(state) if kubeconfig else None
    with _users(state) as known:
        token = known.add(
            name,
            tuple(Binding(Role(role), place) for place in places),
            groups=tuple(dict.fromkeys(groups)),
            expires=expires,
        )
    click.echo(token if cluster is None else _as_kubeconfig(cluster, name, token, places[0]))


@users.command(epilog="\b\nExample:\n  fairway users remove ben\n")
@click.argument("name")
@state_option
def remove(*, name: str, state: Path) -> None:
    """Remove somebody; their tokens stop working at once."""
    with _users(state) as known:
        known.remove(name)
    click.echo(f"Removed {name}.", err=True)


@users.command(
    epilog="""\b
Examples:
  fairway users token ben                      one more token
  fairway users token ben --expires 30d
  fairway users token ben --revoke 1f0c93ab    an id from: fairway users list
"""
)
@click.argument("name")
@_expires
@click.option("--revoke", metavar="ID", help="End this token, and make no new one.")
@_kubeconfig
@state_option
def token(*, name: str, expires: datetime | None, revoke: str | None, kubeconfig: bool, state: Path) -> None:
    """Make a new token for somebody and print it, or end one. Other tokens keep working."""
    if revoke is not None and (expires is not None or kubeconfig):
        raise click.UsageError("--revoke ends a token; --expires and --kubeconfig are for a new one.")
    cluster = _cluster_of(state) if kubeconfig else None
    with _users(state) as known:
        if revoke is not None:
            known.revoke(name, revoke)
            click.echo(f"Revoked {revoke} of {name}.", err=True)
            return
        made = known.add_token(name, expires=expires)
        account = known.get(name)
    place = account.bindings[0].namespace if account is not None and account.bindings else None
    click.echo(made if cluster is None else _as_kubeconfig(cluster, name, made, place))


@users.command("list", epilog="\b\nExamples:\n  fairway users list\n  fairway users list -o json\n")
@click.option(
    "--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True, help="In which form."
)
@state_option
def list_users(*, output: str, state: Path) -> None:
    """Show everybody with their roles and the ids of their tokens."""
    with _users(state) as known:
        accounts = known.all()
    if output == "json":
        click.echo(_as_json(accounts))
    elif accounts:
        click.echo(_as_table(accounts))
    else:
        click.echo("No users yet. Add one with: fairway users add NAME", err=True)


@contextmanager
def _users(state: Path) -> "Iterator[Users]":
    """The users of the state directory; what goes wrong with them is told in one line."""
    from fairway.errors import FairwayError  # noqa: PLC0415 - help must be quick
    from fairway.server.access.users import Users  # noqa: PLC0415

    try:
        yield Users(state)
    except FairwayError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error


def _as_json(accounts: "Sequence[Account]") -> str:
    import msgspec  # noqa: PLC0415 - help must be quick

    shown = [
        {
            "name": account.name,
            "uid": account.uid,
            "groups": account.groups,
            "bindings": [{"role": binding.role, "namespace": binding.namespace} for binding in account.bindings],
            "tokens": [{"id": kept.id, "created": kept.created, "expires": kept.expires} for kept in account.tokens],
        }
        for account in accounts
    ]
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def _as_table(accounts: "Sequence[Account]") -> str:
    rows = [("NAME", "ROLE", "NAMESPACE", "TOKENS")]
    for account in accounts:
        kept = [
            entry.id if entry.expires is None else f"{entry.id} (until {entry.expires:%Y-%m-%d %H:%M} UTC)"
            for entry in account.tokens
        ]
        places = [(str(binding.role), binding.namespace or "*") for binding in account.bindings] or [("-", "-")]
        rows.append((account.name, *places[0], ", ".join(kept)))
        rows += [("", *place, "") for place in places[1:]]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cluster_of(state: Path) -> dict[str, object]:
    """How to reach the server, from the kubeconfig that it wrote for its own user."""
    import yaml  # noqa: PLC0415 - help must be quick

    path = state / "kubeconfig"
    try:
        return dict(yaml.safe_load(path.read_text())["clusters"][0])
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError):
        raise click.ClickException(
            f"{path} is not there or names no server; has `fairway serve` ever run here?"
        ) from None


def _as_kubeconfig(cluster: dict[str, object], name: str, token: str, namespace: str | None) -> str:
    """What lets somebody in; where they may do things in some namespaces only, the first of them is theirs."""
    import yaml  # noqa: PLC0415 - help must be quick

    context = {"cluster": cluster.get("name"), "user": name, **({"namespace": namespace} if namespace else {})}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    return str(yaml.safe_dump(config, sort_keys=False)).rstrip()
