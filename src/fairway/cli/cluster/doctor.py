"""`fairway cluster doctor`: checks a cluster, and mends Kueue's configuration when asked."""

from typing import Any

import click

from fairway.cli import tables
from fairway.cli.cluster.access import (
    ClusterError,
    ClusterObjects,
    cluster_options,
    described,
    failure,
    open_cluster,
)
from fairway.cli.cluster.install import seconds
from fairway.cli.session import output_option, print_note, yes_option
from fairway.errors import ApiError, Conflict, NotFound


@click.command()
@cluster_options
@click.option(
    "--fix", is_flag=True, help="Add what Kueue's configuration lacks and restart Kueue; shows the diff and asks."
)
@click.option(
    "--queues",
    metavar="NAMESPACE",
    help='Create flavor, checks and queues of the guide "Using SkyPilot with Kueue", with a LocalQueue in NAMESPACE.',
)
@click.option(
    "--timeout",
    default="3m",
    show_default=True,
    metavar="TIME",
    callback=seconds,
    help="How long to wait for Kueue: 90s, 5m.",
)
@yes_option
@output_option
def doctor(
    *, kubeconfig: str, context: str, fix: bool, queues: str | None, timeout: float, yes: bool, output: str
) -> None:
    """Check a cluster: versions, Fairway, Kueue and its configuration, rights, certificates, queues and nodes.

    ✓ is OK, ! a warning, ✗ an error; warnings and errors come with a fix. Without --fix and --queues it changes
    nothing. The exit code is 1 if there is an error.

    --fix adds to Kueue's configuration what Fairway and plain pods need (integrations.frameworks,
    integrations.externalFrameworks, managedJobsNamespaceSelector), restarts Kueue and waits; if Kueue does not come
    up, the old configuration is restored.

    \b
    Examples:
      fairway cluster doctor
      fairway cluster doctor -o json
      fairway cluster doctor --fix
      fairway cluster doctor --fix -y --queues skypilot
    """
    from fairway.cli.cluster.checks import findings  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.cluster.kueue import mend_configuration  # noqa: PLC0415
    from fairway.cli.doctor import as_text, record  # noqa: PLC0415

    with open_cluster(kubeconfig, context) as cluster:
        if fix:
            mend_configuration(cluster, timeout, yes=yes)
        if queues is not None:
            create_queues(cluster, queues)
        found = list(findings(cluster))
    if output == "json":
        click.echo(tables.as_json([record(one) for one in found]))
    else:
        click.echo(as_text(found, tables.screen()))
    if any(one.severity == "broken" for one in found):
        raise click.exceptions.Exit(1)


def create_queues(cluster: ClusterObjects, namespace: str) -> None:
    """Apply the objects of the guide; fields that others own are left alone and named."""
    from fairway.cli.cluster.checks import PROVISIONING  # noqa: PLC0415
    from fairway.cli.cluster.kueue import KUEUE  # noqa: PLC0415
    from fairway.deploy.kueue import guide_objects  # noqa: PLC0415

    if not cluster.has(KUEUE, "ClusterQueue"):
        raise ClusterError(
            f"--queues: {cluster.name} does not serve {KUEUE}; install Kueue, or Fairway with --admission=fairway"
        )
    provisioning = cluster.has(*PROVISIONING) or cluster.has("autoscaling.x-k8s.io/v1beta1", PROVISIONING[1])
    for manifest in guide_objects(namespace, provisioning=provisioning):
        path = cluster.path(manifest)
        try:
            existed: Any = cluster.rest.get(path)
        except NotFound:
            existed = None
        if existed is not None and manifest["kind"] == "Namespace":
            continue
        try:
            after = cluster.apply(manifest)
        except Conflict as error:
            raise ClusterError(
                f"--queues: {described(manifest)} exists and differs: {error}; change it by hand, or delete it first"
            ) from error
        except ApiError as error:
            raise failure("apply", manifest, error) from error
        done = (
            "created" if existed is None else "unchanged" if after.get("spec") == existed.get("spec") else "configured"
        )
        print_note(f"{described(manifest)} {done}")
    if not provisioning:
        print_note("The cluster has no ProvisioningRequests: the admission check of the guide was left out.")
