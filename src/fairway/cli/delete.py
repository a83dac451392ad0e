"""`fairway delete`."""

from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.completion import files, kinds_and_names
from fairway.cli.session import all_namespaces_option, confirmed, object_options, open_session, yes_option

if TYPE_CHECKING:
    from fairway.cli.resources import APIResources, Resource
    from fairway.cli.session import Session

_POLICIES: Final = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


@click.command()
@click.argument("words", nargs=-1, metavar="[KIND [NAME]... | KIND/NAME...]", shell_complete=kinds_and_names)
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    metavar="FILE|DIR|-",
    shell_complete=files,
    help="Delete the objects in these files.",
)
@click.option("--selector", "-l", metavar="LABELS", help="All objects with these labels, such as team=a.")
@click.option("--all", "everything", is_flag=True, help="All objects of the kind in the namespace.")
@yes_option
@click.option("--ignore-not-found", is_flag=True, help="Missing objects are no error.")
@click.option(
    "--grace-period", type=click.IntRange(min=0), metavar="SECONDS", help="Time for processes to end after SIGTERM."
)
@click.option(
    "--cascade",
    type=click.Choice(list(_POLICIES)),
    default="background",
    show_default=True,
    help="What happens to dependent objects.",
)
@all_namespaces_option
@object_options
def delete(
    *,
    words: tuple[str, ...],
    files: tuple[str, ...],
    selector: str | None,
    everything: bool,
    yes: bool,
    ignore_not_found: bool,
    grace_period: int | None,
    cascade: str,
    **where: Any,
) -> None:
    """Delete objects by name, by label or by file.

    `--all` and `--all-namespaces` ask first; without a terminal they need -y.

    \b
    Examples:
      fairway delete clusterqueue team-a
      fairway delete pod/one pod/two
      fairway delete jobs -l team=a
      fairway delete -f queues.yaml
      fairway delete configmaps --all -y
    """
    from fairway.cli.resources import discover  # noqa: PLC0415 - help must not wait for it
    from fairway.errors import ApiError, NotFound  # noqa: PLC0415

    if bool(words) == bool(files):
        raise click.UsageError("say what to delete: a kind with names, labels or --all; or files with -f")
    options: dict[str, Any] = {"propagationPolicy": _POLICIES[cascade]}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    failed = 0
    with open_session(**where) as session:
        resources = discover(session.rest)
        if files:
            targets = _of_files(session, resources, files)
        else:
            targets = _of_words(session, resources, words, selector, everything=everything)
        if targets and (everything or session.all_namespaces):
            confirmed(f"Deleting {_counted(session, targets)}. Proceed?", yes=yes, required=True)
        for resource, namespace, name in targets:
            try:
                session.rest.delete(
                    resource.path(namespace, name), {"kind": "DeleteOptions", "apiVersion": "v1", **options}
                )
            except ApiError as error:
                if isinstance(error, NotFound) and ignore_not_found:
                    continue
                failed += 1
                click.echo(f"error: {error}", err=True)
            else:
                click.echo(f'{resource.title} "{name}" deleted')
        if not targets:
            click.echo("Nothing to delete.", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _counted(session: "Session", targets: "list[tuple[Resource, str | None, str]]") -> str:
    """`3 pods and 1 jobs.batch in namespace default`."""
    from collections import Counter  # noqa: PLC0415

    counts = Counter(resource.title for resource, _, _ in targets)
    spaces = {namespace for resource, namespace, _ in targets if namespace}
    listed = " and ".join(f"{count} {title}" for title, count in counts.items())
    if not any(resource.namespaced for resource, _, _ in targets):
        return listed
    if session.all_namespaces:
        return f"{listed} in {len(spaces)} namespace{'s' if len(spaces) != 1 else ''} ({', '.join(sorted(spaces))})"
    return f"{listed} in namespace {session.namespace}"


def _of_files(
    session: "Session", resources: "APIResources", files: tuple[str, ...]
) -> "list[tuple[Resource, str | None, str]]":
    """The objects of files, the last one first: what was made last may need what was made before it."""
    from fairway.cli.manifests import read  # noqa: PLC0415

    found = []
    for document in reversed(read(files)):
        resource = resources.of(document.manifest["apiVersion"], document.manifest["kind"])
        namespace = document.manifest["metadata"].get("namespace") or session.namespace
        if document.name:
            found.append((resource, namespace, document.name))
    return found


def _of_words(
    session: "Session", resources: "APIResources", words: tuple[str, ...], selector: str | None, *, everything: bool
) -> "list[tuple[Resource, str | None, str]]":
    from fairway.cli.get import targets_of  # noqa: PLC0415

    found: list[tuple[Resource, str | None, str]] = []
    for resource, names in targets_of(resources, words):
        if names and (selector or everything):
            raise click.UsageError("names cannot be combined with --selector or --all")
        if names and session.all_namespaces:
            raise click.UsageError("a name cannot be combined with --all-namespaces: give --namespace")
        if names:
            found += [(resource, session.namespace, name) for name in names]
            continue
        if not selector and not everything:
            raise click.UsageError(f"which {resource.plural}? give names, --selector, or --all for all of them")
        listed = session.rest.get(resource.path(session.scope), labelSelector=selector)["items"]
        found += [(resource, one["metadata"].get("namespace"), one["metadata"]["name"]) for one in listed]
    return found
