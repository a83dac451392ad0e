"""The Kueue of a cluster: its Deployment and its configuration, read, and changed with a restart."""

import difflib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import click
import yaml

from fairway.apis.kueue.configuration import CONFIG_KEY, CONFIG_MAP
from fairway.apis.kueue.configuration import NAMESPACE as KUEUE_NAMESPACE
from fairway.cli.cluster.access import ClusterError, ClusterObjects, Manifest, failure
from fairway.cli.cluster.waiting import pod_trouble, until_nothing
from fairway.cli.session import confirmed, print_note
from fairway.cli.way_out import is_unanswered
from fairway.deploy.kueue import mend, without_managed_jobs
from fairway.deploy.names import INSTALLER
from fairway.errors import ApiError
from fairway.integrations.names import QUEUE_NAME

KUEUE: Final = "kueue.x-k8s.io/v1beta2"
KUEUE_DEPLOYMENT: Final = "kueue-controller-manager"


def kueue_deployment(cluster: ClusterObjects) -> Manifest | None:
    return cluster.get("apps/v1", "Deployment", KUEUE_DEPLOYMENT, KUEUE_NAMESPACE)


def configuration_text(cluster: ClusterObjects) -> str | None:
    """The Configuration of Kueue, as it is written; nothing if there is none."""
    found = cluster.get("v1", "ConfigMap", CONFIG_MAP, KUEUE_NAMESPACE)
    text = ((found or {}).get("data") or {}).get(CONFIG_KEY)
    return str(text) if text is not None else None


def mend_configuration(cluster: ClusterObjects, timeout: float, *, yes: bool) -> None:
    """Add what Kueue's Configuration lacks, and restart Kueue."""
    text = configuration_text(cluster)
    if text is None or kueue_deployment(cluster) is None:
        raise ClusterError(f"{cluster.name} has no Kueue with a configuration that can be mended; install Kueue first")
    mended = mend(text)
    if mended == text:
        print_note("Kueue's configuration lacks nothing.")
        return
    _print_diff(text, mended)
    confirmed(
        "This changes Kueue's configuration and restarts it; running jobs are not touched. Proceed?",
        yes=yes,
        required=True,
    )
    _change(cluster, text, mended, timeout)


class Registration:
    """ManagedJobs as an external framework in Kueue's configuration.

    With it Kueue reads ManagedJobs as the owners of pods, for which it needs a right of ours: without the right, its
    webhook for pods times out. So the registration is removed before the right is.
    """

    def __init__(self, cluster: ClusterObjects) -> None:
        self._cluster = cluster
        self._text = configuration_text(cluster) or ""
        try:
            self._without = without_managed_jobs(self._text)
        except yaml.YAMLError as error:
            raise ClusterError(
                f"ConfigMap {KUEUE_NAMESPACE}/{CONFIG_MAP} has no YAML in {CONFIG_KEY}, so it cannot be seen whether "
                f"Kueue reads ManagedJobs: {' '.join(str(error).split())}; correct it first"
            ) from error
        self.exists = self._without != self._text and kueue_deployment(cluster) is not None

    def remove(self, timeout: float) -> None:
        """Change the configuration and restart Kueue."""
        _print_diff(self._text, self._without)
        _change(self._cluster, self._text, self._without, timeout)


def _print_diff(text: str, changed: str) -> None:
    for line in difflib.unified_diff(text.splitlines(), changed.splitlines(), "configuration", "changed", lineterm=""):
        click.echo(line, err=True)


def _change(cluster: ClusterObjects, text: str, changed: str, timeout: float) -> None:
    """Change Kueue's Configuration, restart Kueue, and restore the old text if Kueue does not come up."""
    _write(cluster, text, changed)
    _restart(cluster)
    trouble = _until_up(cluster, timeout)
    if not trouble:
        print_note("Kueue runs with the new configuration.")
        return
    print_note(f"Kueue did not come up: {trouble}; restoring its old configuration ...")
    _write(cluster, changed, text)
    _restart(cluster)
    after = _until_up(cluster, timeout)
    restored = f"but Kueue does not run: {after}" if after else "and Kueue runs with it"
    raise ClusterError(
        f"Deployment {KUEUE_DEPLOYMENT} did not come up with the new configuration: {trouble}; "
        f"the old one was restored, {restored}"
    )


def _write(cluster: ClusterObjects, old: str, new: str) -> None:
    """Replace the text, unless it is no longer what was shown."""
    path = f"/api/v1/namespaces/{KUEUE_NAMESPACE}/configmaps/{CONFIG_MAP}"
    where = f"/data/{CONFIG_KEY}"
    patch = [{"op": "test", "path": where, "value": old}, {"op": "replace", "path": where, "value": new}]
    try:
        cluster.rest.patch(path, patch, patch_type="json", fieldManager=INSTALLER)
    except ApiError as error:
        raise failure(
            "change", {"kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": KUEUE_NAMESPACE}}, error
        ) from error


def _restart(cluster: ClusterObjects) -> None:
    """What `kubectl rollout restart` does."""
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

    def trouble() -> str:
        deployment = kueue_deployment(cluster) or {"metadata": {}, "spec": {}}
        return _rollout_trouble(cluster, deployment) or _webhook_trouble(cluster)

    return until_nothing(trouble, timeout)


def _rollout_trouble(cluster: ClusterObjects, deployment: Manifest) -> str:
    status, wanted = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
    current = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    ready = min(status.get("updatedReplicas", 0), status.get("availableReplicas", 0)) if current else 0
    if ready >= wanted and status.get("replicas", 0) == wanted:
        return ""
    selector = ",".join(f"{k}={v}" for k, v in deployment["spec"].get("selector", {}).get("matchLabels", {}).items())
    why = pod_trouble(cluster, deployment["metadata"].get("namespace", ""), selector)
    return f"{ready} of {wanted} pods of Kueue run the new configuration{f': {why}' if why else ''}"


def _webhook_trouble(cluster: ClusterObjects) -> str:
    """Whether Kueue's webhooks answer, where people and Fairway need them first.

    Objects are created without being stored. Each webhook is tried, because the API server has connections of its own
    to each, and after a restart some of them lead to a pod that is gone, for up to a minute.
    """
    for path, manifest in _trials():
        try:
            cluster.rest.create(path, manifest, dryRun="All")
        except ApiError as error:
            if is_unanswered(error):
                return f"Kueue's webhook does not answer: {error}"
    return ""


def _trials() -> Iterator[tuple[str, Manifest]]:
    """Paths, and what is created there without being stored."""
    name, place = "fairway-trial", "namespaces/default"
    pod = {"restartPolicy": "Never", "containers": [{"name": "trial", "image": "trial"}]}
    pods = {"name": "main", "count": 1, "template": {"spec": pod}}
    for root, kind, resource, spec in (
        ("apis", (KUEUE, "ResourceFlavor"), "resourceflavors", {}),
        ("apis", (KUEUE, "ClusterQueue"), "clusterqueues", {}),
        ("apis", (KUEUE, "LocalQueue"), f"{place}/localqueues", {"clusterQueue": name}),
        ("apis", (KUEUE, "Workload"), f"{place}/workloads", {"podSets": [pods]}),
        ("apis", ("batch/v1", "Job"), f"{place}/jobs", {"template": {"spec": pod}}),
        ("api", ("v1", "Pod"), f"{place}/pods", pod),
    ):
        metadata = {"name": name, "labels": {QUEUE_NAME: name}}
        manifest = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec}
        yield f"/{root}/{kind[0]}/{resource}", manifest
