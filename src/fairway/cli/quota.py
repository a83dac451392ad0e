"""`fairway quota`: one definition of organizations, teams and job types; what differs from it, and how to apply it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.completion import files
from fairway.cli.session import confirmed, open_session, output_option, print_note, server_options, yes_option

if TYPE_CHECKING:
    from fairway.cli.quotawork import QuotaFile, QuotaState
    from fairway.quota.compare import ObjectDifference
    from fairway.quota.kueue import Shortfall

F = TypeVar("F", bound=Callable[..., Any])
DIFFERENT: Final = 2
"""The exit code of `plan` and `diff` if something differs."""

_MARKS: Final = {"create": "+", "update": "~", "delete": "-", "release": "-"}
_COLOURS: Final = {"+": "green", "~": "yellow", "-": "red", "!": "red"}
_DONE: Final = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "release": "released",
    "adopt": "adopted",
}

_target_option = click.option(
    "--target",
    type=click.Choice(["kueue", "yunikorn"]),
    help="Scheduler to render for.  [default: `targets` of the definition, else kueue]",
)
_file_argument = click.argument("file", metavar="FILE", shell_complete=files)


@click.group(
    epilog="""\b
Examples:
  fairway quota import > quota.yaml       write a definition of what is there
  fairway quota plan quota.yaml           show what would change
  fairway quota apply quota.yaml          change it
  fairway quota diff                      find changes made by hand
"""
)
def quota() -> None:
    """Define the quota of organizations, teams and job types in one file.

    A QuotaDefinition has organizations with teams, each with guaranteed and maximum resources, its job types, and who
    may submit. It is rendered into Kueue's objects (a Cohort an organization, a ClusterQueue a team, a LocalQueue a job
    type), namespaces and roles, or into the queues.yaml of YuniKorn. The teams are those of `fairway teams`.
    """


@quota.command(epilog="\b\nExamples:\n  fairway quota plan quota.yaml\n  fairway quota plan quota.yaml -o json\n")
@_file_argument
@_target_option
@output_option
@server_options
def plan(*, file: str, target: str | None, output: str, **where: Any) -> None:
    """Show what `apply` would change; the exit code is 2 if anything.

    + is created, ~ changed, - deleted; ! cannot be done, with the reason. Warnings name what the target cannot express,
    and the nearest thing that it can.
    """
    from fairway.cli import tables  # noqa: PLC0415 - help must be quick
    from fairway.cli.quotawork import QuotaState, read_definition, shortfalls  # noqa: PLC0415

    definition = read_definition(file)
    with open_session(**where) as session:
        state = QuotaState(session)
        targets = _targets(definition, target)
        found = state.differences(definition, targets)
        warnings = shortfalls(definition.quota, targets, cluster=session.is_cluster, checked=state.stores_definitions)
        if output == "json":
            click.echo(tables.as_json(_report(definition, targets, found, warnings)))
        else:
            for _, warning in warnings:
                print_note(f"Warning: {warning}")
            _print_differences(definition, found, "is as defined")
    if any(one.is_drift for one in found):
        raise click.exceptions.Exit(DIFFERENT)


@quota.command(epilog="\b\nExamples:\n  fairway quota apply quota.yaml\n  fairway quota apply quota.yaml -y\n")
@_file_argument
@_target_option
@yes_option
@server_options
def apply(*, file: str, target: str | None, yes: bool, **where: Any) -> None:
    """Make the queues, namespaces and roles what a file says.

    On a server of Fairway all objects change in one transaction. On a cluster every write is first tried with a
    server-side dry run, and what was created is deleted again if a later write fails. An object that is no longer in
    the file is deleted if it carries the label of the definition and has no unfinished workloads; otherwise it stays,
    and the exit code is 1. A namespace always stays, without the labels. Deletions ask for confirmation.
    """
    from fairway.cli.quotawork import QuotaState, read_definition, shortfalls  # noqa: PLC0415 - help must be quick
    from fairway.quota.compare import Action  # noqa: PLC0415

    definition = read_definition(file)
    with open_session(**where) as session:
        state = QuotaState(session)
        targets = _targets(definition, target)
        found = state.differences(definition, targets)
        for _, warning in shortfalls(
            definition.quota, targets, cluster=session.is_cluster, checked=state.stores_definitions
        ):
            print_note(f"Warning: {warning}")
        _refuse_foreign(found)
        doomed = [str(one.key) for one in found if one.action is Action.DELETE and not one.blocked]
        if doomed and not yes:
            confirmed(f"Delete {', '.join(doomed[:5])}{' ...' if len(doomed) > 5 else ''}?", yes=False)
        _write(state, definition, targets, found)
    stays = [one for one in found if one.blocked]
    for one in stays:
        click.echo(f"! {one.key}: {one.blocked}", err=True)
    if stays:
        raise click.exceptions.Exit(1)


def _refuse_foreign(found: "Sequence[ObjectDifference]") -> None:
    """An object that cannot be changed leaves the rest unchanged, too; only deletions and users may wait."""
    from fairway.cli.quotawork import QuotaError  # noqa: PLC0415
    from fairway.quota.compare import Action  # noqa: PLC0415

    for one in found:
        foreign = one.action is Action.DELETE and one.key.kind == "Queue"
        if one.blocked and (foreign or (one.action is Action.UPDATE and one.key.kind not in ("User", "Group"))):
            raise QuotaError(f"{one.key}: {one.blocked}. Nothing was changed")


def _write(
    state: "QuotaState", definition: "QuotaFile", targets: Sequence[str], found: "Sequence[ObjectDifference]"
) -> None:
    from collections import Counter  # noqa: PLC0415

    from fairway.cli.writing import write  # noqa: PLC0415

    operations = state.operations(definition, targets, found)
    more, said = state.default_queue(definition, found) if "kueue" in targets else ([], "")
    if state.session.is_cluster:
        _dry_run(state, operations)
    state.withdraw_roles(found)
    if operations or more:
        write(state.session, [*operations, *more], "Applying", namespace="default")
    state.grant_roles(found)
    counts = Counter(one.action for one in found if not one.blocked)
    done = ", ".join(f"{count} {_DONE[action]}" for action, count in counts.items()) or "nothing to change"
    click.echo(f"Quota {definition.name}: {done}.")
    if said:
        print_note(said)
    if not state.stores_definitions:
        print_note(
            "The cluster has no kind QuotaDefinition: changes made by hand are found by `fairway quota plan FILE`, and "
            "not watched. `fairway cluster install` adds it."
        )


def _dry_run(state: "QuotaState", operations: Sequence[dict[str, Any]]) -> None:
    """Let a cluster validate every write before the first; what goes into a new namespace cannot be tried."""
    from fairway.cli.meter import Meter  # noqa: PLC0415
    from fairway.cli.resources import discover  # noqa: PLC0415

    served = discover(state.rest)
    fresh = {
        one["manifest"]["metadata"]["name"]
        for one in operations
        if one["verb"] == "create" and one["manifest"]["kind"] == "Namespace"
    }
    with Meter("Checking", len(operations), bytes_=False) as meter:
        for number, one in enumerate(operations, 1):
            named = one.get("manifest") or one
            metadata = named.get("metadata") or named
            resource, namespace = served.of(named["apiVersion"], named["kind"]), metadata.get("namespace")
            if namespace not in fresh:
                if one["verb"] == "create":
                    state.rest.create(resource.path(namespace), one["manifest"], dryRun="All")
                elif one["verb"] == "patch":
                    state.rest.patch(resource.path(namespace, one["name"]), one["patch"], dryRun="All")
            meter.show(0, number)


@quota.command(
    epilog="\b\nExamples:\n  fairway quota diff\n  fairway quota diff -o json\n  kubectl get quotadefinitions\n"
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@output_option
@server_options
def diff(*, names: tuple[str, ...], output: str, **where: Any) -> None:
    """Show where objects differ from the definitions that were applied; the exit code is 2 if any does.

    The same is watched by the controller, in the condition `Synced` of a QuotaDefinition and the metric
    `fairway_quota_drift_objects`. Apply the file again to undo the changes, or edit the file.
    """
    from fairway.cli import tables  # noqa: PLC0415 - help must be quick
    from fairway.cli.quotawork import QuotaError, QuotaState, parsed  # noqa: PLC0415

    drifted, reports = False, []
    with open_session(**where) as session:
        state = QuotaState(session)
        unknown = [name for name in names if name not in state.definitions]
        if unknown:
            there = ", ".join(sorted(state.definitions)) or "none"
            raise QuotaError(f"no QuotaDefinition {', '.join(unknown)} was applied; there is {there}")
        if not state.definitions:
            print_note("No definition was applied yet: fairway quota apply FILE")
        for name, manifest in sorted(state.definitions.items()):
            if names and name not in names:
                continue
            definition = parsed(manifest)
            targets = definition.quota.targets
            found = state.differences(definition, targets)
            if output == "json":
                reports.append(_report(definition, targets, found, ()))
            else:
                _print_differences(definition, found, "is in sync")
            drifted = drifted or any(one.is_drift for one in found)
    if output == "json":
        click.echo(tables.as_json(reports))
    if drifted:
        raise click.exceptions.Exit(DIFFERENT)


@quota.command(
    "import", epilog="\b\nExamples:\n  fairway quota import > quota.yaml\n  fairway quota import --name company\n"
)
@click.option(
    "--name", metavar="NAME", help="Name of the definition.  [default: that of the one that was applied, else default]"
)
@_target_option
@server_options
def import_(*, name: str | None, target: str | None, **where: Any) -> None:
    """Print a definition of the queues that exist.

    Rendered again it gives the same objects: `fairway quota plan` then has nothing to change. What a definition has no
    words for is kept in the fields `kueue` and `yunikorn`.
    """
    from fairway.cli.quotawork import API, KIND, QuotaState, config_of, yaml_text  # noqa: PLC0415 - help must be quick
    from fairway.quota import importing, yunikorn  # noqa: PLC0415

    with open_session(**where) as session:
        state = QuotaState(session)
        name = name or (next(iter(state.definitions)) if len(state.definitions) == 1 else "default")
        if target == "yunikorn":
            spec, said = importing.from_yunikorn(config_of(state.config_map(yunikorn.NOTHING)))
        else:
            spec, said = importing.from_kueue(state.live, name, state.definitions.get(name))
            state.put_accounts(spec)
    for sentence in said:
        print_note(f"Warning: {sentence}")
    click.echo(yaml_text({"apiVersion": API, "kind": KIND, "metadata": {"name": name}, "spec": spec}), nl=False)


@quota.command(
    epilog="\b\nExamples:\n  fairway quota render quota.yaml\n  fairway quota render quota.yaml --target yunikorn\n"
)
@_file_argument
@_target_option
def render(*, file: str, target: str | None) -> None:
    """Print the objects of a definition, or the queues.yaml of YuniKorn, without a server."""
    from fairway.cli.quotawork import config_text, read_definition, shortfalls, yaml_text  # noqa: PLC0415
    from fairway.quota import kueue  # noqa: PLC0415

    definition = read_definition(file)
    targets = _targets(definition, target)
    for _, one in shortfalls(definition.quota, targets, cluster=True):
        print_note(f"Warning: {one}")
    texts = []
    if "kueue" in targets:
        objects = [
            *kueue.render(definition.quota, definition.name), *kueue.role_bindings(definition.quota, definition.name)
        ]  # fmt: skip
        texts += [yaml_text(one) for one in objects]
    if "yunikorn" in targets:
        texts.append(config_text(definition.quota))
    click.echo("---\n".join(texts), nl=False)


def _targets(definition: "QuotaFile", target: str | None) -> tuple[str, ...]:
    return (target,) if target else definition.quota.targets


def _report(
    definition: "QuotaFile",
    targets: Sequence[str],
    found: "Sequence[ObjectDifference]",
    warnings: "Sequence[tuple[str, Shortfall]]",
) -> dict[str, Any]:
    """What differs, for `-o json`."""
    return {
        "definition": definition.name,
        "targets": list(targets),
        "changes": [_record(one) for one in found if one.is_drift],
        "adopts": [str(one.key) for one in found if not one.is_drift],
        "warnings": [{"target": target, **one._asdict()} for target, one in warnings],
    }


def _print_differences(definition: "QuotaFile", found: "Sequence[ObjectDifference]", same: str) -> None:
    from fairway.cli import tables  # noqa: PLC0415

    screen = tables.screen()
    drift = [one for one in found if one.is_drift]
    for each in drift:
        mark = "!" if each.blocked else _MARKS[each.action]
        click.echo(screen.paint(f"{mark} {each.key}", _COLOURS[mark]) + (f": {each.blocked}" if each.blocked else ""))
        for field in each.fields:
            click.echo(f"    {field.path}: {_text(field.live)} -> {_text(field.defined)}")
    adopted = len(found) - len(drift)
    if adopted:
        print_note(f"{adopted} objects exist as defined and are not labelled yet; `apply` adopts them.")
    if drift:
        counts = [
            (word, sum(one.action == action and not one.blocked for one in drift))
            for action, word in (("create", "to create"), ("update", "to change"), ("delete", "to delete"),
                                 ("release", "to release"))
        ]  # fmt: skip
        counts.append(("blocked", sum(bool(one.blocked) for one in drift)))
        click.echo(f"Quota {definition.name}: {', '.join(f'{count} {word}' for word, count in counts if count)}.")
    else:
        click.echo(f"Quota {definition.name}: everything {same}.")


def _record(one: "ObjectDifference") -> dict[str, Any]:
    return {
        "action": str(one.action),
        "kind": one.key.kind,
        "namespace": one.key.namespace or None,
        "name": one.key.name,
        "fields": [field._asdict() for field in one.fields],
        "blocked": one.blocked or None,
    }


def _text(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, dict | list):
        import msgspec  # noqa: PLC0415

        return msgspec.json.encode(value).decode()
    return str(value)
