"""`fairway schedule`: print manifests as they would be sent."""

from typing import TYPE_CHECKING, Any

import click

from fairway.cli.completion import files
from fairway.cli.options import state_option

if TYPE_CHECKING:
    from pathlib import Path

    from fairway.cli.manifests import ManifestDocument
    from fairway.schedulers.config import QueueConfig


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="FILE|DIR|-...", shell_complete=files)
@click.option(
    "--scheduler",
    metavar="NAME",
    help="Scheduler of all jobs, before what the configuration says: kueue, yunikorn, fairway, default, or that of "
    "an installed package.",
)
@click.option(
    "--org",
    "organization",
    metavar="NAME",
    default="",
    help="Organization of the jobs.  [default: by label, else the namespace]",
)
@click.option("--type", "job_type", metavar="NAME", default="", help="Job type.  [default: by label, else by kind]")
@click.option("--user", metavar="NAME", help="User to charge.  [default: you]")
@click.option("--group", "groups", metavar="NAME", multiple=True, help="Group of the user; may be repeated.")
@click.option(
    "--namespace", "-n", metavar="NS", default="default", show_default=True, help="Namespace of objects that name none."
)
@click.option(
    "--output", "-o", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Output format."
)
@state_option
def schedule(
    *,
    places: tuple[str, ...],
    scheduler: str | None,
    user: str | None,
    groups: tuple[str, ...],
    output: str,
    state: "Path",
    **whose: str,
) -> None:
    """Print manifests as they would be sent to a scheduler.

    Adds the queue, the user, the gang and the scheduler's name that `queueconfig` in the configuration asks for, where
    each operator passes them on. Changes nothing and needs no server. Objects that are no jobs are printed as they are.

    \b
    Examples:
      fairway schedule job.yaml
      fairway schedule --scheduler yunikorn --org ml job.yaml | kubectl create -f -
      kubectl kustomize . | fairway schedule -o json -
    """
    from fairway.cli.configuration import read_config  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.manifests import read  # noqa: PLC0415
    from fairway.cli.scheduling import completed  # noqa: PLC0415
    from fairway.cli.session import system_user  # noqa: PLC0415
    from fairway.schedulers.config import QueueConfig  # noqa: PLC0415
    from fairway.schedulers.scheduling import Author  # noqa: PLC0415

    config = read_config(state).queueconfig
    if scheduler is not None:
        config = _with_scheduler(config or QueueConfig(), scheduler)
    documents = read(places)
    if config is None:
        click.echo("Warning: no scheduler is configured: set queueconfig in config.yaml, or give --scheduler", err=True)
    else:
        _check(documents)
        author = Author(user=system_user() if user is None else user, groups=groups, **whose)  # type: ignore[arg-type]
        for warning in completed([one.manifest for one in documents], config, author):
            click.echo(f"Warning: {warning}", err=True)
    click.echo(_text([one.manifest for one in documents], output))


def _with_scheduler(config: "QueueConfig", name: str) -> "QueueConfig":
    """The configuration with this scheduler for all jobs."""
    from msgspec import structs  # noqa: PLC0415 - help must not wait for it

    from fairway.entrypoints import SchedulerNames  # noqa: PLC0415

    if name not in SchedulerNames():
        raise click.BadParameter(
            f"there is no scheduler {name!r}; there are {', '.join(SchedulerNames())}", param_hint="--scheduler"
        )

    def forced(place: Any) -> Any:
        jobs = {kind: structs.replace(one, scheduler=name) for kind, one in place.jobs.items()}
        return structs.replace(place, settings=structs.replace(place.settings, scheduler=name), jobs=jobs)

    organizations = {one: forced(place) for one, place in config.organizations.items()}
    return structs.replace(config, common=forced(config.common), organizations=organizations)


def _check(documents: "list[ManifestDocument]") -> None:
    from fairway.cli.manifests import ManifestError  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.scheduling import faults, is_job  # noqa: PLC0415

    for document in documents:
        wrong = faults(document.manifest) if is_job(document.manifest) else []
        if wrong:
            raise ManifestError(f"{document.where}: {'; '.join(wrong)}")


def _text(manifests: list[dict[str, Any]], output: str) -> str:
    from fairway.cli import tables  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.get import as_yaml  # noqa: PLC0415

    if output == "yaml":
        return "---\n".join(as_yaml(one) for one in manifests).rstrip()
    whole = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": manifests}
    return tables.as_json(manifests[0] if len(manifests) == 1 else whole)
