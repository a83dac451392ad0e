"""Waiting until an installation works: definitions, Deployment, leader, webhooks, API services."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fairway.cli.cluster.access import ClusterError, ClusterObjects, Manifest
from fairway.cli.session import print_note
from fairway.cli.way_out import is_unanswered
from fairway.deploy.names import CONTROLLER, NAME, NAME_LABEL, NAMESPACE, WEBHOOKS
from fairway.errors import ApiError, NotFound

if TYPE_CHECKING:
    from fairway.deploy.manifests import Installation

_PAUSE: Final = 0.5
_HOOKS: Final = "admissionregistration.k8s.io/v1"
_SELECTOR: Final = f"{NAME_LABEL}={NAME}"


def until_working(cluster: ClusterObjects, installation: "Installation", timeout: float) -> None:
    """Return when the controller leads and answers; print each step, and raise what is missing after `timeout`."""
    missing = until_nothing(lambda: next(obstacles(cluster, installation), ""), timeout)
    if missing:
        raise ClusterError(
            f"after {timeout:.0f}s Fairway is installed but does not work yet: {missing}; correct this and run the "
            f"command again, or see `kubectl -n {NAMESPACE} describe pods` and `kubectl -n {NAMESPACE} logs "
            f"deployment/{CONTROLLER}`"
        )


def until_nothing(missing: Callable[[], str], timeout: float) -> str:
    """Wait until nothing is missing, and print each thing that is; the one that still is after `timeout`."""
    ends, said = time.monotonic() + timeout, ""
    while True:
        found = missing()
        if not found or time.monotonic() > ends:
            return found
        if found != said:
            print_note(f"  waiting: {found}")
            said = found
        time.sleep(_PAUSE)


def obstacles(cluster: ClusterObjects, installation: "Installation | None" = None) -> Iterator[str]:
    """What keeps an installation from working, in the order of dependencies; nothing if it works."""
    yield from _definitions(cluster)
    yield from _rollout(cluster, installation)
    yield from _leader(cluster)
    yield from _webhooks(cluster)
    yield from _api_services(cluster)


def condition(manifest: Manifest, kind: str) -> dict[str, Any]:
    """A condition in the status of an object; empty if there is none."""
    found = ((manifest.get("status") or {}).get("conditions")) or ()
    return next((one for one in found if one["type"] == kind), {})


def _definitions(cluster: ClusterObjects) -> Iterator[str]:
    for found in cluster.all("apiextensions.k8s.io/v1", "CustomResourceDefinition", labelSelector=_SELECTOR):
        if condition(found, "Established").get("status") != "True":
            accepted = condition(found, "NamesAccepted").get("message", "")
            yield f"CustomResourceDefinition {found['metadata']['name']} is not established {accepted}".rstrip()


def _rollout(cluster: ClusterObjects, installation: "Installation | None") -> Iterator[str]:
    found = cluster.get("apps/v1", "Deployment", CONTROLLER, NAMESPACE)
    if found is None:
        yield f"Deployment {NAMESPACE}/{CONTROLLER} does not exist"
        return
    status, replicas = found.get("status") or {}, found["spec"]["replicas"]
    current = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
    if installation is not None and found["spec"]["template"]["spec"]["containers"][0]["image"] != installation.image:
        yield f"Deployment {NAMESPACE}/{CONTROLLER} still has another image"
    ready = min(status.get("updatedReplicas", 0), status.get("availableReplicas", 0)) if current else 0
    if ready < replicas or status.get("replicas", 0) > replicas:
        failing = condition(found, "ReplicaFailure")
        why = (
            failing.get("message", "")
            if failing.get("status") == "True"
            else pod_trouble(cluster, NAMESPACE, _SELECTOR)
        )
        yield f"{ready} of {replicas} controllers are ready{f': {why}' if why else ''}"


def pod_trouble(cluster: ClusterObjects, namespace: str, selector: str) -> str:
    """What holds up one of these pods, in the words of the kubelet or the scheduler."""
    for pod in cluster.all("v1", "Pod", namespace, labelSelector=selector):
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("status") == "False":
            return f"pod {name}: {scheduled.get('message', scheduled.get('reason', ''))}"
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in {None, "ContainerCreating", "PodInitializing"}:
                continue
            why = _last_words(cluster, namespace, name) or waiting.get("message", "")
            return f"pod {name}: {waiting['reason']}: {why}"
    return ""


def _last_words(cluster: ClusterObjects, namespace: str, pod: str) -> str:
    """The last line of a container that ended."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    try:
        lines = cluster.rest.raw(path, previous="true", tailLines=1).decode(errors="replace").split("\n")
    except ApiError:
        return ""
    return next((line for line in lines if line.strip()), "")


def _leader(cluster: ClusterObjects) -> Iterator[str]:
    lease = cluster.get("coordination.k8s.io/v1", "Lease", CONTROLLER, NAMESPACE)
    holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
    pods = [one["metadata"]["name"] for one in cluster.all("v1", "Pod", NAMESPACE, labelSelector=_SELECTOR)]
    if not any(holder.startswith(name) for name in pods):
        yield f"no controller leads yet (Lease {NAMESPACE}/{CONTROLLER})"


def _webhooks(cluster: ClusterObjects) -> Iterator[str]:
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found = cluster.all(_HOOKS, kind, labelSelector=_SELECTOR)
        if not found:
            yield f"{kind} {WEBHOOKS} does not exist"
        for one in found:
            if not all(hook["clientConfig"].get("caBundle") for hook in one["webhooks"]):
                yield f"{kind} {one['metadata']['name']} has no CA from the controller yet"
    trial = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": {"name": "fairway-installation-trial", "namespace": "default"},
        "spec": {"tasks": [{"run": "true"}]},
    }
    try:
        cluster.rest.create("/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs", trial, dryRun="All")
    except NotFound:
        yield "the API server does not serve ManagedJobs yet"
    except ApiError as error:
        if is_unanswered(error):  # anything else is an answer
            yield f"the webhook does not answer: {error}"


def _api_services(cluster: ClusterObjects) -> Iterator[str]:
    for found in cluster.all("apiregistration.k8s.io/v1", "APIService", labelSelector=_SELECTOR):
        available = condition(found, "Available")
        if available.get("status") != "True":
            why = available.get("message", "no answer yet")
            yield f"APIService {found['metadata']['name']} is not available: {why}"
