"""`fairway cluster doctor`: checks a cluster, and mends Kueue's configuration when asked."""

import difflib
import time
from datetime import UTC, datetime
from typing import Any, Final

import click

from fairway.cli import tables
from fairway.cli.cluster.access import (
    ClusterError,
    ClusterObjects,
    Manifest,
    cluster_options,
    described,
    failure,
    open_cluster,
)
from fairway.cli.cluster.install import seconds
from fairway.cli.session import confirmed, output_option, print_note, yes_option
from fairway.deploy.names import INSTALLER
from fairway.errors import ApiError, Conflict, NotFound

_PAUSE: Final = 0.5


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


def mend_configuration(cluster: ClusterObjects, timeout: float, *, yes: bool) -> None:
    """Change Kueue's Configuration, restart Kueue, and take the change back if Kueue does not come up."""
    from fairway.cli.cluster.checks import KUEUE_DEPLOYMENT, configuration_text, kueue_deployment  # noqa: PLC0415
    from fairway.deploy.kueue import mend  # noqa: PLC0415

    text = configuration_text(cluster)
    if text is None or kueue_deployment(cluster) is None:
        raise ClusterError(f"{cluster.name} has no Kueue with a configuration that can be mended; install Kueue first")
    mended = mend(text)
    if mended == text:
        print_note("Kueue's configuration lacks nothing.")
        return
    diff = difflib.unified_diff(text.splitlines(), mended.splitlines(), "configuration", "mended", lineterm="")
    for line in diff:
        click.echo(line, err=True)
    confirmed(
        "This changes Kueue's configuration and restarts it; running jobs are not touched. Proceed?",
        yes=yes,
        required=True,
    )
    _write(cluster, text, mended)
    _restart(cluster)
    trouble = _until_up(cluster, timeout)
    if not trouble:
        print_note("Kueue runs with the new configuration.")
        return
    print_note(f"Kueue did not come up: {trouble}; restoring its old configuration ...")
    _write(cluster, mended, text)
    _restart(cluster)
    after = _until_up(cluster, timeout)
    restored = f"but Kueue does not run: {after}" if after else "and Kueue runs with it"
    raise ClusterError(
        f"Deployment {KUEUE_DEPLOYMENT} did not come up with the new configuration: {trouble}; "
        f"the old one was restored, {restored}"
    )


def _write(cluster: ClusterObjects, old: str, new: str) -> None:
    """Replace the text, unless it is no longer what was shown."""
    from fairway.apis.kueue.configuration import CONFIG_KEY, CONFIG_MAP, NAMESPACE  # noqa: PLC0415

    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
    where = f"/data/{CONFIG_KEY}"
    patch = [{"op": "test", "path": where, "value": old}, {"op": "replace", "path": where, "value": new}]
    try:
        cluster.rest.patch(path, patch, patch_type="json", fieldManager=INSTALLER)
    except ApiError as error:
        raise failure(
            "change", {"kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE}}, error
        ) from error


def _restart(cluster: ClusterObjects) -> None:
    """What `kubectl rollout restart` does."""
    from fairway.cli.cluster.checks import kueue_deployment  # noqa: PLC0415

    deployment = kueue_deployment(cluster)
    if deployment is None:
        raise ClusterError("Kueue's Deployment is gone; install Kueue again")
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment}
    annotation = {"kubectl.kubernetes.io/restartedAt": datetime.now(UTC).isoformat(timespec="microseconds")}
    patch = {"spec": {"template": {"metadata": {"annotations": annotation}}}}
    try:
        cluster.rest.patch(cluster.path(manifest), patch, patch_type="strategic", fieldManager=INSTALLER)
    except ApiError as error:
        raise failure("restart", manifest, error) from error


def _until_up(cluster: ClusterObjects, timeout: float) -> str:
    """Wait for the rollout of Kueue and its webhooks; what is wrong if that takes too long."""
    from fairway.cli.cluster.checks import kueue_deployment  # noqa: PLC0415

    ends, said, trouble = time.monotonic() + timeout, "", ""
    while True:
        deployment = kueue_deployment(cluster) or {"metadata": {}, "spec": {}}
        trouble = _rollout_trouble(cluster, deployment) or _webhook_trouble(cluster)
        if not trouble or time.monotonic() > ends:
            return trouble
        if trouble != said:
            print_note(f"  waiting: {trouble}")
            said = trouble
        time.sleep(_PAUSE)


def _rollout_trouble(cluster: ClusterObjects, deployment: Manifest) -> str:
    from fairway.cli.cluster.waiting import pod_trouble  # noqa: PLC0415

    status, wanted = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
    current = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    ready = min(status.get("updatedReplicas", 0), status.get("availableReplicas", 0)) if current else 0
    if ready >= wanted and status.get("replicas", 0) == wanted:
        return ""
    selector = ",".join(f"{k}={v}" for k, v in deployment["spec"].get("selector", {}).get("matchLabels", {}).items())
    why = pod_trouble(cluster, deployment["metadata"].get("namespace", ""), selector)
    return f"{ready} of {wanted} pods of Kueue run the new configuration{f': {why}' if why else ''}"


def _webhook_trouble(cluster: ClusterObjects) -> str:
    """Whether Kueue's own webhook answers: an object that it would complete is created without being stored."""
    from fairway.cli.cluster.checks import KUEUE  # noqa: PLC0415

    trial = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "fairway-trial"}, "spec": {}}
    try:
        cluster.rest.create(f"/apis/{KUEUE}/resourceflavors", trial, dryRun="All")
    except ApiError as error:
        return f"Kueue's webhook does not answer: {error}" if "failed calling webhook" in str(error) else ""
    return ""


def create_queues(cluster: ClusterObjects, namespace: str) -> None:
    """Apply the objects of the guide; fields that others own are left alone and named."""
    from fairway.cli.cluster.checks import KUEUE, PROVISIONING  # noqa: PLC0415
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
            after = cluster.rest.apply(path, manifest, manager=INSTALLER)
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
