"""`fairway apply`: create or update objects from files."""

from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.completion import files
from fairway.cli.session import object_options, open_session

if TYPE_CHECKING:
    from fairway.cli.manifests import ManifestDocument
    from fairway.cli.resources import APIResources
    from fairway.cli.session import Session

_MANAGER: Final = "fairway"
_BOOKS: Final = frozenset({"managedFields", "resourceVersion"})


@click.command()
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    shell_complete=files,
    help="Manifests to apply: a file, a directory, or - for standard input.",
)
@click.option("--force-conflicts", is_flag=True, help="Take ownership of fields that other field managers set.")
@click.option("--dry-run", is_flag=True, help="Validate on the server; change nothing.")
@object_options
def apply(*, files: tuple[str, ...], force_conflicts: bool, dry_run: bool, **where: Any) -> None:
    """Create or update objects from files.

    Files are YAML, with one or more documents, or JSON; a directory means all such files in it. Every object is tried;
    the exit code is 1 if any failed.

    \b
    Examples:
      fairway apply -f queues.yaml
      fairway apply -f manifests/
      cat job.yaml | fairway apply -f -
    """
    from fairway.cli.manifests import read  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.resources import NoSuchKindError, discover  # noqa: PLC0415
    from fairway.errors import ApiError, Conflict  # noqa: PLC0415

    found = read(files)
    failed = 0
    warned: set[str] = set()
    with open_session(**where) as session:
        resources = discover(session.rest)
        if session.config.queueconfig is not None:
            from fairway.cli.scheduling import complete_documents  # noqa: PLC0415

            for warning in complete_documents(session, resources, found):
                click.echo(f"Warning: {warning}", err=True)
        for document in found:
            try:
                said = _applied(session, resources, document, force=force_conflicts, dry_run=dry_run)
            except (ApiError, NoSuchKindError) as error:
                failed += 1
                hint = "; --force-conflicts takes the fields over" if isinstance(error, Conflict) else ""
                click.echo(f"error: {document.where}: {error}{hint}", err=True)
            else:
                click.echo(said + (" (dry run)" if dry_run else ""))
            for warning in session.rest.warnings:
                if warning not in warned:  # an install manifest has a hundred objects with the same one
                    click.echo(f"Warning: {warning}", err=True)
                warned.add(warning)
            session.rest.warnings.clear()
    if failed:
        raise click.exceptions.Exit(1)


def _applied(
    session: "Session", resources: "APIResources", document: "ManifestDocument", *, force: bool, dry_run: bool
) -> str:
    """Apply one object; the line to print."""
    from fairway.errors import NotFound  # noqa: PLC0415

    manifest = document.manifest
    resource = resources.of(manifest["apiVersion"], manifest["kind"])
    namespace = manifest["metadata"].get("namespace") or session.namespace
    mode = "All" if dry_run else None
    if not document.name:
        made = session.rest.create(resource.path(namespace), manifest, fieldManager=_MANAGER, dryRun=mode)
        return f"{resource.title}/{made['metadata'].get('name', '')} created"
    path = resource.path(namespace, document.name)
    try:
        before = _meant(session.rest.get(path))
    except NotFound:
        before = None
    after = session.rest.apply(path, manifest, manager=_MANAGER, force=force, dryRun=mode)
    if before is None:
        return f"{resource.title}/{document.name} created"
    changed = _meant(after) != before
    return f"{resource.title}/{document.name} {'configured' if changed else 'unchanged'}"


def _meant(manifest: dict[str, Any]) -> dict[str, Any]:
    """An object without the books that the server keeps about it."""
    kept = {name: value for name, value in manifest["metadata"].items() if name not in _BOOKS}
    return {**manifest, "metadata": kept}
