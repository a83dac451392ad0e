"""`fairway describe`: all about one object, with its events."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.completion import kinds_and_names
from fairway.cli.session import object_options, open_session
from fairway.cli.tables import Screen, TableColumn, duration

if TYPE_CHECKING:
    from fairway.cli.resources import Resource
    from fairway.cli.session import Session

Manifest = dict[str, Any]

_NOT_SHOWN: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_HEAD: Final = frozenset({"apiVersion", "kind", "metadata"})


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="KIND NAME... | KIND/NAME...", shell_complete=kinds_and_names)
@object_options
def describe(*, words: tuple[str, ...], **where: Any) -> None:
    """Show all fields of objects, and their events.

    \b
    Examples:
      fairway describe clusterqueue cluster-queue
      fairway describe managedjob/train-3
      fairway describe pods                         all of them
    """
    from fairway.cli.get import Failures, targets_of  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.resources import discover  # noqa: PLC0415

    with open_session(**where) as session:
        found: list[tuple[Resource, Manifest]] = []
        failed = Failures()
        for resource, names in targets_of(discover(session.rest), words):
            if names:
                places = [resource.path(session.namespace, name) for name in names]
                found += [(resource, one) for one in failed.unless_missing(session.rest.get, places)]
            else:
                found += [(resource, one) for one in session.rest.get(resource.path(session.namespace))["items"]]
        texts = [
            described(resource, manifest, _events(session, manifest), datetime.now(UTC), tables.screen())
            for resource, manifest in found
        ]
    if texts:
        click.echo("\n\n".join(texts))
    elif not failed:
        click.echo(f"No {words[0]} in {session.namespace}.", err=True)
    failed.print_errors()


def _events(session: "Session", manifest: Manifest) -> list[Manifest]:
    """The events of the object, the oldest first."""
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.errors import Forbidden  # noqa: PLC0415

    metadata = manifest["metadata"]
    try:
        found = session.rest.get(
            paths.resource("v1", "events", metadata.get("namespace") or "default"),
            fieldSelector=f"involvedObject.uid={metadata.get('uid', '')}",
        )
    except Forbidden:
        return []
    return sorted(found["items"], key=_when)


def _when(event: Manifest) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def described(resource: "Resource", manifest: Manifest, events: Sequence[Manifest], now: datetime, on: Screen) -> str:
    """The object as text: what identifies it, its fields as they are written in YAML, its events."""
    lines = [*_identity(resource, manifest, now)]
    for name, value in manifest.items():
        if name not in _HEAD and value not in (None, {}, [], ""):
            lines += _section(name, _concealed(resource.kind, name, value), on)
    lines.append(on.paint("Events:", "bold") + ("" if events else "  none"))
    if events:
        lines += [f"  {line}" for line in _event_table(events, now, on).splitlines()]
    return "\n".join(lines)


def _identity(resource: "Resource", manifest: Manifest, now: datetime) -> Iterator[str]:
    metadata = manifest["metadata"]
    facts: list[tuple[str, list[str]]] = [("Name", [metadata["name"]])]
    if metadata.get("namespace"):
        facts.append(("Namespace", [metadata["namespace"]]))
    facts.append(("Kind", [f"{resource.kind} ({resource.api_version})"]))
    for title, name in (("Labels", "labels"), ("Annotations", "annotations")):
        pairs = metadata.get(name) or {}
        facts.append((title, [f"{key}={value}" for key, value in sorted(pairs.items()) if key not in _NOT_SHOWN]))
    for title, name in (("Created", "creationTimestamp"), ("Being deleted since", "deletionTimestamp")):
        if metadata.get(name):
            facts.append((title, [f"{metadata[name]} ({_ago(metadata[name], now)})"]))
    owners = [f"{owner['kind']}/{owner['name']}" for owner in metadata.get("ownerReferences") or ()]
    if owners:
        facts.append(("Belongs to", owners))
    if metadata.get("finalizers"):
        facts.append(("Finalizers", list(metadata["finalizers"])))
    width = max(len(title) for title, _ in facts) + 3
    for title, values in facts:
        shown = [tables.plain(value) for value in values] or ["none"]
        yield f"{title + ':':<{width}}{shown[0]}"
        yield from (" " * width + value for value in shown[1:])


def _ago(text: str, now: datetime) -> str:
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return "?"
    return f"{duration((now - then).total_seconds())} ago"


def _concealed(kind: str, name: str, value: Any) -> Any:
    """What is secret is described by its length."""
    if kind != "Secret" or name not in {"data", "stringData"}:
        return value
    import base64  # noqa: PLC0415 - of secrets only

    def length(text: str) -> int:
        return len(base64.b64decode(text)) if name == "data" else len(text.encode())

    return {key: f"{length(text)} bytes" for key, text in value.items()}


def _section(name: str, value: Any, on: Screen) -> Iterator[str]:
    from fairway.cli.get import as_yaml  # noqa: PLC0415

    title = on.paint(f"{name[:1].upper()}{name[1:]}:", "bold")
    if not isinstance(value, dict | list):
        yield f"{title}  {tables.plain(str(value))}"
        return
    yield title
    yield from (f"  {tables.plain(line)}" for line in as_yaml(value).splitlines())


def _event_table(events: Sequence[Manifest], now: datetime, on: Screen) -> str:
    columns = (
        TableColumn("TYPE"),
        TableColumn("REASON"),
        TableColumn("AGE", right=True),
        TableColumn("FROM"),
        TableColumn("MESSAGE"),
    )
    rows: list[list[tables.Cell]] = []
    for event in events:
        count = event.get("count") or (event.get("series") or {}).get("count") or 1
        age = _ago(_when(event), now) + (f" (x{count})" if count > 1 else "")
        source = event.get("reportingComponent") or (event.get("source") or {}).get("component")
        rows.append([event.get("type"), event.get("reason"), age, source, event.get("message")])
    return tables.table(columns, rows, on._replace(width=None))
