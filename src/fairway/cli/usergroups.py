"""`fairway users groups`: roles for many users at once."""

from typing import Any

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
from fairway.client.rest import paths


@click.group(epilog=ROLES)
def groups() -> None:
    """Manage groups; members get the roles of their groups.

    Add users to groups with `fairway users add --group` and `fairway users edit --group`.
    """


@groups.command(
    epilog="""\b
Examples:
  fairway users groups add ml --team vision --team speech
  fairway users groups add auditors --role viewer --everywhere

"""
    + ROLES
)
@click.argument("name")
@grant_options
@server_options
def add(*, name: str, grant: RoleGrant, **where: Any) -> None:
    """Add a group with roles; its members have them at once."""
    if not grant:
        raise click.UsageError(f"give {name} a role: --team TEAM, or --role ROLE with --namespace NS or --everywhere")
    with account_server(**where) as session:
        wanted = bindings(session, grant)
        manifest = {"metadata": {"name": name}, "spec": {"bindings": wanted}}
        session.rest.create(f"{paths.FAIRWAY}/groups", manifest)
    print_note(sentence(f"Group {name}", wanted))


@groups.command(
    epilog="""\b
Examples:
  fairway users groups edit ml --role viewer --namespace shared
  fairway users groups edit ml --no-team speech

"""
    + ROLES
)
@click.argument("name")
@grant_options
@withdrawing_options
@server_options
def edit(*, name: str, grant: RoleGrant, withdrawn: Withdrawn, **where: Any) -> None:
    """Change the roles of a group; roles not named stay."""
    with account_server(**where) as session:
        spec = session.rest.get(paths.group(name))["spec"]
        if not (grant or withdrawn):
            raise click.UsageError("nothing to change: give a role, see `fairway users groups edit --help`")
        held = edited(session, spec["bindings"], grant, withdrawn)
        session.rest.patch(paths.group(name), {"spec": {"bindings": held}})
    print_note(sentence(f"Group {name}", held))


@groups.command(epilog="\b\nExample:\n  fairway users groups remove ml\n")
@click.argument("name")
@server_options
def remove(*, name: str, **where: Any) -> None:
    """Remove a group and its roles; members keep their own roles."""
    with account_server(**where) as session:
        session.rest.delete(paths.group(name))
    print_note(f"Removed group {name}.")


@groups.command("list", epilog="\b\nExamples:\n  fairway users groups list\n  fairway users groups list -o json\n")
@output_option
@server_options
def list_groups(*, output: str, **where: Any) -> None:
    """List groups with their roles and members."""
    with account_server(**where) as session:
        found = session.rest.get(f"{paths.FAIRWAY}/groups")["items"]
    if found or output == "json":
        rows = [(one["metadata"]["name"], one["status"]["roles"], one["status"]["members"] or "-") for one in found]
        print_accounts(output, map(_record, found), ("NAME", "ROLES", "MEMBERS"), rows)
    else:
        print_note("No groups yet. Add one with: fairway users groups add NAME --team TEAM")


def _record(group: dict[str, Any]) -> dict[str, Any]:
    held = [{"role": one["role"], "namespace": one.get("namespace")} for one in group["spec"]["bindings"]]
    members = [name for name in group["status"]["members"].split(", ") if name]
    return {"name": group["metadata"]["name"], "bindings": held, "members": members}
