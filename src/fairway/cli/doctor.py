"""`fairway doctor`: checks the installation and prints how to fix what is wrong."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli import tables
from fairway.cli.session import Session, output_option, session_options

if TYPE_CHECKING:
    from fairway.cli.checks import Finding

_MARKS: Final = {"ok": ("✓", "ok"), "warning": ("!", "!"), "broken": ("✗", "X")}


@click.command()
@output_option
@session_options
def doctor(*, output: str, state: Path, kubeconfig: Path | None, context: str, namespace: str | None) -> None:
    """Check the installation, the server and the queues, and print how to fix problems.

    ✓ is OK, ! a warning, ✗ an error; warnings and errors come with a fix. Changes nothing and starts no server. The
    exit code is 1 if there is an error.

    \b
    Examples:
      fairway doctor
      fairway doctor -o json
    """
    found = list(_whatever_happens(_findings(state, kubeconfig, context, namespace)))
    if output == "json":
        click.echo(tables.as_json([record(one) for one in found]))
    else:
        click.echo(as_text(found, tables.screen()))
    if any(one.severity == "broken" for one in found):
        raise click.exceptions.Exit(1)


def _whatever_happens(findings: "Iterator[Finding]") -> "Iterator[Finding]":
    """Report a file that cannot be read as a finding."""
    from fairway.cli import checks  # noqa: PLC0415 - help must not wait for it

    try:
        yield from findings
    except OSError as error:
        what = f"{error.filename or 'a file'} cannot be read: {error.strerror or error}"
        yield checks.broken("files", what, "check its owner and mode with `ls -l`; the remaining checks were skipped")


def _findings(state: Path, kubeconfig: Path | None, context: str, namespace: str | None) -> "Iterator[Finding]":
    from fairway.cli import checks  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.configuration import read_config  # noqa: PLC0415
    from fairway.cli.servers import target  # noqa: PLC0415
    from fairway.client.rest import open_rest  # noqa: PLC0415
    from fairway.errors import FairwayError  # noqa: PLC0415
    from fairway.installation import OWN  # noqa: PLC0415
    from fairway.managedjobs.configured import LaunchConfig  # noqa: PLC0415
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415

    try:
        config = read_config(state)
    except TaskError:  # it has a check of its own
        config = LaunchConfig()
    meant = target(state, kubeconfig, context, config)
    own = meant.own
    path = Path(meant.kubeconfig or state / "kubeconfig").expanduser()
    several = not own and os.pathsep in meant.kubeconfig
    yield checks.python()
    if own:
        yield checks.installation(OWN)
    yield checks.kubectl()
    if own:
        yield from checks.state_directory(state)
        yield checks.configuration(state)
        yield from checks.starting(state)
        yield from checks.others()
    if not several:
        yield checks.kubeconfig(path)
    running = True
    if own:
        process = checks.process(state)
        yield process
        running = process.severity == "ok"
    if not running or not (several or path.is_file()):
        return
    try:
        rest = open_rest(meant.kubeconfig or path, meant.context)
        with Session(
            rest, config, namespace or config.namespace or meant.namespace or rest.namespace, own=own
        ) as session:
            yield from _of_server(session, state)
    except FairwayError as error:
        way_out = f"see {state / 'server.log'}; restart it with `fairway shutdown` and `fairway up`" if own else ""
        notes = " ".join(getattr(error, "__notes__", ()))
        yield checks.broken(
            "server", str(error), way_out or notes or "check that the server runs and that your token is valid"
        )


def _of_server(session: "Session", state: Path) -> "Iterator[Finding]":
    from fairway import __version__  # noqa: PLC0415
    from fairway.cli import checks  # noqa: PLC0415

    rest, namespace = session.rest, session.namespace
    yield from checks.answer(rest, __version__)
    if session.is_cluster:
        found = list(checks.cluster(session))
        yield from found
        if any(one.check in ("fairway", "kueue") and one.severity != "ok" for one in found):
            return
    yield checks.clock(rest, namespace)
    if session.own and rest.get("/api/v1/nodes")["items"]:
        yield checks.supervisor(state)
        yield checks.limits(state)
        yield checks.gpus(checks.declared_gpus(rest))
    yield from checks.queues(rest, namespace)
    yield from checks.commitment(rest)
    yield from checks.waiting_jobs(session)
    if not session.is_cluster:
        yield from checks.without_ray(rest, namespace)
    yield from checks.outside(rest)


def as_text(found: "list[Finding]", on: tables.Screen) -> str:
    """A line for each finding, and its fix below it."""
    lines = []
    for one in found:
        mark = _MARKS[one.severity][0 if on.unicode else 1]
        indent = " " * (len(mark) + 1)
        lines.append(f"{on.paint(mark, mark)} {tables.plain(one.message)}")
        if one.way_out:
            lines.append(f"{indent}{tables.plain(one.way_out)}")
    return "\n".join(lines)


def record(one: "Finding") -> dict[str, Any]:
    """A finding as JSON."""
    return {"check": one.check, "status": one.severity, "message": one.message, "wayOut": one.way_out}
