"""`fairway get`: objects of any kind, as the server prints them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli import tables
from fairway.cli.completion import kinds_and_names
from fairway.cli.session import all_namespaces_option, object_options, open_session
from fairway.errors import FairwayError, NotFound

if TYPE_CHECKING:
    from fairway.cli.resources import APIResources, Resource
    from fairway.cli.session import Session

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
Manifest = dict[str, Any]
Found = TypeVar("Found")


@click.command()
@click.argument(
    "words", nargs=-1, required=True, metavar="KIND[,KIND] [NAME]... | KIND/NAME...", shell_complete=kinds_and_names
)
@click.option("--selector", "-l", metavar="LABELS", help="Only objects with these labels, such as team=a.")
@click.option(
    "--field-selector", metavar="FIELDS", help="Only objects with these fields, such as status.phase=Running."
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "wide", "json", "yaml", "name"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option("--watch", "-w", "watching", is_flag=True, help="Keep watching, and print changes.")
@all_namespaces_option
@object_options
def get(
    *,
    words: tuple[str, ...],
    selector: str | None,
    field_selector: str | None,
    output: str,
    watching: bool,
    **where: Any,
) -> None:
    """List objects of any kind.

    KIND is a plural, singular or short name, such as `workloads`, `workload` or `wl`; add the group where the name is
    ambiguous: `workloads.kueue.x-k8s.io`.

    \b
    Examples:
      fairway get clusterqueues,localqueues -A
      fairway get pods -l team=a -o wide
      fairway get managedjob train-3 -o yaml
      fairway get workloads -w
    """
    from fairway.cli.resources import discover  # noqa: PLC0415 - help must not wait for it

    with open_session(**where) as session:
        asked = targets_of(discover(session.rest), words)
        if session.all_namespaces and any(names for _, names in asked):
            raise click.UsageError("a name cannot be combined with --all-namespaces: give --namespace")
        query = {"labelSelector": selector, "fieldSelector": field_selector}
        if watching:
            if len(asked) > 1 or len(asked[0][1]) > 1:
                raise click.UsageError("--watch follows one kind, or one object, at a time")
            _watch(session, *asked[0], query, output)
            return
        failed = Failures()
        if output in {"table", "wide"}:
            _print_tables(session, asked, query, failed, wide=output == "wide")
        else:
            _print_objects(session, asked, query, failed, output)
    failed.print_errors()


def targets_of(resources: "APIResources", words: Sequence[str]) -> "list[tuple[Resource, list[str]]]":
    """The kinds that are asked for, each with the names that are; none means all."""
    if "/" in words[0]:
        found: dict[Resource, list[str]] = {}
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not name:
                raise click.UsageError(f"{word!r}: mixes KIND/NAME with KIND NAME; use one form")
            found.setdefault(resources.one(kind), []).append(name)
        return list(found.items())
    kinds = [resource for word in words[0].split(",") if word for resource in resources.named(word)]
    if not kinds:
        raise click.UsageError("give a kind, such as pods; `fairway get --help` has examples")
    return [(kind, list(words[1:])) for kind in dict.fromkeys(kinds)]


class Failures:
    """Names that do not exist, printed after the objects that do."""

    def __init__(self) -> None:
        self._found: list[FairwayError] = []

    def unless_missing(self, ask: Callable[[str], Found], paths: Iterable[str]) -> list[Found]:
        """What is asked for, without what is missing."""
        found = []
        for path in paths:
            try:
                found.append(ask(path))
            except NotFound as error:
                self._found.append(error)
        return found

    def __bool__(self) -> bool:
        return bool(self._found)

    def print_errors(self) -> None:
        for error in self._found:
            click.echo(f"error: {error}", err=True)
        if self._found:
            raise click.exceptions.Exit(1)


def _print_tables(
    session: "Session",
    asked: "Sequence[tuple[Resource, list[str]]]",
    query: dict[str, Any],
    failed: Failures,
    *,
    wide: bool,
) -> None:
    import msgspec  # noqa: PLC0415

    printed = False
    several = len(asked) > 1
    for resource, names in asked:
        paths = [resource.path(session.namespace, name) for name in names] or [resource.path(session.scope)]
        raw = failed.unless_missing(lambda path: session.rest.raw(path, accept=_TABLE, **query), paths)
        found = [msgspec.json.decode(one) for one in raw]
        text = as_table(
            found,
            tables.screen(),
            wide=wide,
            namespaces=session.all_namespaces and resource.namespaced,
            prefix=f"{resource.title}/" if several else "",
        )
        if text:
            click.echo(("\n" if printed else "") + text)
            printed = True
    if not printed and not failed:
        where = "" if session.all_namespaces or not any(r.namespaced for r, _ in asked) else f" in {session.namespace}"
        click.echo(f"No {' or '.join(resource.plural for resource, _ in asked)}{where}.", err=True)


def as_table(
    found: Iterable[Manifest],
    on: tables.Screen,
    *,
    wide: bool,
    namespaces: bool = False,
    prefix: str = "",
    header: bool = True,
    widths: list[int] | None = None,
) -> str:
    """Tables of the server, put together; nothing if there is no row."""
    columns: list[tables.TableColumn] = []
    rows: list[list[tables.Cell]] = []
    for one in found:
        definitions = one.get("columnDefinitions") or []
        shown = [index for index, column in enumerate(definitions) if wide or not column.get("priority")]
        if definitions and not columns:
            columns = [
                tables.TableColumn(definitions[index]["name"].upper(), right=_is_number(definitions[index]))
                for index in shown
            ]
        for row in one.get("rows") or ():
            cells = [_cell(row["cells"][index]) for index in (shown or range(len(row["cells"])))]
            cells[0] = f"{prefix}{cells[0]}"
            space = [(row.get("object") or {}).get("metadata", {}).get("namespace", "")] if namespaces else []
            rows.append([*space, *cells])
    if not rows:
        return ""
    columns = columns or [tables.TableColumn("") for _ in rows[0][1 if namespaces else 0 :]]
    if namespaces:
        columns = [tables.TableColumn("NAMESPACE"), *columns]
    columns[-1] = columns[-1]._replace(flexible=True)
    return tables.table(columns, rows, on, header=header, widths=widths)


def _is_number(column: Manifest) -> bool:
    return column.get("type") in {"integer", "number"}


def _cell(value: Any) -> tables.Cell:
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str | int) else str(value)


def _print_objects(
    session: "Session",
    asked: "Sequence[tuple[Resource, list[str]]]",
    query: dict[str, Any],
    failed: Failures,
    output: str,
) -> None:
    items: list[Manifest] = []
    titles: list[str] = []
    for resource, names in asked:
        if names:
            places = [resource.path(session.namespace, name) for name in names]
            found = failed.unless_missing(session.rest.get, places)
        else:
            found = session.rest.get(resource.path(session.scope), **query)["items"]
        items += [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in found]
        titles += [f"{resource.title}/{item['metadata']['name']}" for item in found]
    if output == "name":
        if titles:
            click.echo("\n".join(titles))
        return
    if failed and not items:
        return
    alone = len(items) == 1 and len(asked) == 1 and len(asked[0][1]) == 1
    for item in items:
        item["metadata"].pop("managedFields", None)
    whole = items[0] if alone else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
    click.echo(tables.as_json(whole) if output == "json" else as_yaml(whole).rstrip())


def as_yaml(value: Any) -> str:
    """A value as people write it; texts of several lines as blocks."""
    import yaml  # noqa: PLC0415 - only where it is asked for

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - anchors are hard to read
            return True

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        style = "|" if "\n" in data and not any(line != line.rstrip() for line in data.splitlines()) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110))


def _watch(session: "Session", resource: "Resource", names: list[str], query: dict[str, Any], output: str) -> None:
    """Print what there is, then what changes, until the server or the user has enough."""
    import msgspec  # noqa: PLC0415

    if names:
        by_name = f"metadata.name={names[0]}"
        query = {**query, "fieldSelector": f"{query['fieldSelector']},{by_name}" if query["fieldSelector"] else by_name}
    path = resource.path(session.scope)
    if output not in {"table", "wide"}:
        listed = session.rest.get(path, **query)
        for item in listed["items"]:
            _print_change(resource, item, output)
        for event in session.rest.watch(path, resourceVersion=listed["metadata"]["resourceVersion"], **query):
            if event["type"] != "BOOKMARK":
                _print_change(resource, event["object"], output)
        return
    listed = msgspec.json.decode(session.rest.raw(path, accept=_TABLE, **query))
    revision = listed["metadata"]["resourceVersion"]
    wide, namespaces = output == "wide", session.all_namespaces and resource.namespaced
    on, widths = tables.screen(), list[int]()
    text = as_table([listed], on, wide=wide, namespaces=namespaces, widths=widths)
    if text:
        click.echo(text)
    for event in session.rest.watch(path, accept=_TABLE, resourceVersion=revision, **query):
        if event["type"] != "BOOKMARK":
            # The server says what the columns are only once.
            row = {**event["object"], "columnDefinitions": listed["columnDefinitions"]}
            first = not widths
            click.echo(as_table([row], on, wide=wide, namespaces=namespaces, header=first, widths=widths))


def _print_change(resource: "Resource", item: Manifest, output: str) -> None:
    item["metadata"].pop("managedFields", None)
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    if output == "name":
        click.echo(f"{resource.title}/{item['metadata']['name']}")
    elif output == "json":
        click.echo(tables.as_json(whole))
    else:
        click.echo(f"---\n{as_yaml(whole).rstrip()}")
