"""`fairway use`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.completion import context_names
from fairway.cli.options import state_option
from fairway.cli.session import output_option
from fairway.cli.tables import TableColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway.cli.servers import ServerTarget

_COLUMNS: Final = (
    TableColumn("USED"),
    TableColumn("CONTEXT"),
    TableColumn("NAMESPACE"),
    TableColumn("SERVER", flexible=True),
    TableColumn("KUBECONFIG", flexible=True),
)


@click.command()
@click.argument("context", default="", metavar="[CONTEXT]", shell_complete=context_names)
@click.option("--here", is_flag=True, help="Use the server of this machine again.")
@click.option(
    "--namespace", "-n", default="", metavar="NS", help="Namespace to remember.  [default: that of the context]"
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Kubeconfig with the context.  [default: $KUBECONFIG, else ~/.kube/config]",
)
@output_option
@state_option
def use(*, context: str, here: bool, namespace: str, kubeconfig: Path | None, output: str, state: Path) -> None:
    """Choose the server or cluster that the commands use, by its context.

    The choice is kept in the state directory until the next `fairway use`; --context, --kubeconfig, the environment and
    the configuration files override it. Without an argument, lists the contexts. Nothing is sent to the server.

    \b
    Examples:
      fairway use                     list the contexts
      fairway use prod -n team-a      use a cluster, and a namespace of it
      fairway use --here              use the server of this machine again
    """
    from fairway.cli.configuration import read_config  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.servers import OWN_CONTEXT, ServerTarget, Used, target, write_used  # noqa: PLC0415

    if here and (context or kubeconfig or namespace):
        raise click.UsageError("--here is the server of this machine: give no context, kubeconfig or namespace")
    if namespace and not context:
        raise click.UsageError("-n is remembered with a context: give one, such as fairway use prod -n team-a")
    config = read_config(state)
    if (context or here) and (config.context or config.kubeconfig):
        raise click.UsageError(
            "server.context or server.kubeconfig of the configuration (or FAIRWAY_CONTEXT, FAIRWAY_KUBECONFIG) names a "
            "server and overrides `fairway use`: remove it there first"
        )
    if not context and not here:
        _list(state, kubeconfig, target(state, None, "", config), output)
        return
    meant = ServerTarget() if here else target(state, kubeconfig, context, config)
    if meant.own:
        write_used(state, None)
        _report({"context": OWN_CONTEXT}, "The commands use the server of this machine.", output)
        return
    entry = _entry(meant.context, meant.kubeconfig, used=True)
    entry["namespace"] = namespace or entry["namespace"]
    write_used(state, Used(kubeconfig=_absolute(meant.kubeconfig), context=meant.context, namespace=namespace))
    said = f"The commands use context {meant.context} ({entry['server']}), namespace {entry['namespace']}."
    _report(entry, f"{said}\n`fairway use --here` goes back to the server of this machine.", output)


def _report(entry: dict[str, Any], sentence: str, output: str) -> None:
    click.echo(tables.as_json(entry) if output == "json" else sentence)


def _list(state: Path, kubeconfig: Path | None, used: "ServerTarget", output: str) -> None:
    found = list(_entries(state, kubeconfig, used))
    if output == "json":
        click.echo(tables.as_json(found))
        return
    rows = [
        ("*" if one["used"] else "", one["context"], one["namespace"], one["server"], one["kubeconfig"] or None)
        for one in found
    ]
    click.echo(tables.table(_COLUMNS, rows, tables.screen()))


def _entries(state: Path, kubeconfig: Path | None, used: "ServerTarget") -> "Iterator[dict[str, Any]]":
    from fairway.cli.servers import contexts  # noqa: PLC0415

    seen = False
    for name, path in contexts(state, kubeconfig):
        is_used = used.own if not path else (name, _absolute(path)) == (used.context, _absolute(used.kubeconfig))
        seen = seen or is_used
        entry = _entry(name, path or str(state / "kubeconfig"), used=is_used)
        if not path:
            entry |= {"kubeconfig": "", "server": entry["server"] or "this machine (not started yet)"}
            entry.pop("error", None)
        yield entry | ({"namespace": used.namespace} if is_used and used.namespace else {})
    if not seen and not used.own:
        entry = _entry(used.context, used.kubeconfig, used=True)
        yield entry | ({"namespace": used.namespace} if used.namespace else {})


def _entry(name: str, path: str, *, used: bool) -> dict[str, Any]:
    from fairway.client.rest import KubeconfigError  # noqa: PLC0415
    from fairway.client.rest.kubeconfig import load  # noqa: PLC0415

    entry: dict[str, Any] = {"used": used, "context": name, "namespace": "default", "server": "", "kubeconfig": path}
    try:
        found = load(path).context(name)
    except KubeconfigError as error:
        return entry | {"error": str(error)}
    return entry | {"context": found.name, "namespace": found.namespace, "server": found.endpoint.url}


def _absolute(kubeconfig: str) -> str:
    import os  # noqa: PLC0415

    return os.pathsep.join(str(Path(one).expanduser().absolute()) for one in kubeconfig.split(os.pathsep) if one)
