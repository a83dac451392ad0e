"""`fairway controller --admission=fairway` on kube-apiserver: our engine admits Jobs, pods and managed jobs."""

import base64
import json
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from fairway.apis.extensions.generating import generated
from fairway.apis.registry import default_registry
from fairway.server.crds import definitions

from .controllers import (
    Controller,
    Kubectl,
    await_service_account,
    define,
    eventually,
    listed,
    managed_job,
    namespace,
    printed_webhooks,
)

QUEUE = "kueue.x-k8s.io/queue-name"
GATES = "kueue.x-k8s.io/admission kueue.x-k8s.io/topology"
POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
}


@pytest.fixture(scope="module")
def admission() -> str:
    return "fairway"


@pytest.fixture
def queue(running: Controller, k: Kubectl, unique: str) -> str:
    """A namespace with the LocalQueue `team`, which has two CPUs."""
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    resources = [{"name": "cpu", "nominalQuota": 2}, {"name": "memory", "nominalQuota": "64Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": unique, "resources": resources}]}
    items = [
        namespace(unique),
        {**version, "kind": "ResourceFlavor", "metadata": {"name": unique}},
        {
            **version,
            "kind": "ClusterQueue",
            "metadata": {"name": unique},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            **version,
            "kind": "LocalQueue",
            "metadata": {"name": "team", "namespace": unique},
            "spec": {"clusterQueue": unique},
        },
    ]
    k("apply", "-f", "-", given=json.dumps(listed(items)))
    await_service_account(k, unique)
    return unique


def queued(api_version: str, kind: str, name: str, place: str, spec: Any) -> str:
    metadata = {"name": name, "namespace": place, "labels": {QUEUE: "team"}}
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})


def gates(k: Kubectl, name: str, place: str) -> str:
    return k("get", "pod", name, "-n", place, "-o", "jsonpath={.spec.schedulingGates[*].name}")


def test_jobs_pods_and_managed_jobs_share_a_quota_in_the_order_of_the_queue(k: Kubectl, queue: str) -> None:
    k("create", "-f", "-", given=queued("batch/v1", "Job", "first", queue, {"template": {"spec": POD}}))
    eventually(lambda: k("get", "job", "first", "-n", queue, "-o", "jsonpath={.spec.suspend}"), "false")
    k("create", "-f", "-", given=queued("v1", "Pod", "second", queue, POD))
    assert gates(k, "second", queue) in {GATES, ""}
    eventually(lambda: gates(k, "second", queue), "")
    k("create", "-f", "-", given=queued("v1", "Pod", "third", queue, POD))
    k("create", "-f", "-", given=managed_job("fourth", queue, queue="team"))
    pending = ("get", "clusterqueue", queue, "-o", "jsonpath={.status.pendingWorkloads}")
    eventually(lambda: k(*pending), "2")
    assert gates(k, "third", queue) == GATES

    k("delete", "pod", "second", "-n", queue, "--wait=false")
    eventually(lambda: gates(k, "third", queue), "")
    k("delete", "job", "first", "-n", queue, "--wait=false")
    eventually(lambda: k("get", "mj", "fourth", "-n", queue, "-o", "jsonpath={.status.phase}"), "STARTING")
    eventually(lambda: k(*pending), "0")


def test_ray_jobs_are_queued_as_soon_as_their_definitions_are_there(
    running: Controller, k: Kubectl, queue: str
) -> None:
    """KubeRay is installed after the controller has started; here the test plays its operator."""
    kinds = [kind for kind in default_registry().kinds if kind.group == "ray.io"]
    define(k, "fairway", *(generated(kind) for kind in kinds))
    template = {"spec": POD}
    spec = {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": template}},
    }
    fields = "jsonpath={.spec.suspend},{.spec.submitterPodTemplate.metadata.labels.kueue\\.x-k8s\\.io/podset}"

    def seen(name: str) -> str:
        return k("get", "rayjob", name, "-n", queue, "-o", fields)

    def report(name: str, **status: str) -> None:
        change = json.dumps({"status": status})
        k("patch", "rayjob", name, "-n", queue, "--subresource=status", "--type=merge", "-p", change)

    k("create", "-f", "-", given=queued("ray.io/v1", "RayJob", "first", queue, spec))
    eventually(lambda: seen("first"), "false,submitter")
    report("first", jobDeploymentStatus="Running", jobStatus="RUNNING")
    k("create", "-f", "-", given=queued("ray.io/v1", "RayJob", "second", queue, spec))
    pending = ("get", "clusterqueue", queue, "-o", "jsonpath={.status.pendingWorkloads}")
    eventually(lambda: k(*pending), "1")
    assert seen("second") == "true,"
    wrong = queued("ray.io/v1", "RayJob", "third", queue, {**spec, "shutdownAfterJobFinishes": False})
    with pytest.raises(AssertionError, match="a kueue managed job should delete the cluster after finishing"):
        k("create", "-f", "-", given=wrong)

    report("first", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    eventually(lambda: seen("second"), "false,submitter")


def test_what_no_queue_label_names_runs_without_us(running: Controller, k: Kubectl, queue: str) -> None:
    running.stop()
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain", "namespace": queue}, "spec": POD}
    k("create", "-f", "-", given=json.dumps(plain))
    with pytest.raises(AssertionError, match="webhook"):
        k("create", "-f", "-", given=queued("v1", "Pod", "queued", queue, POD))


def test_nothing_is_lost_or_doubled_while_the_webhooks_cannot_be_reached(
    running: Controller, k: Kubectl, queue: str
) -> None:
    """The controller leads on: what it wants to create is refused as well, and created once when they are back."""
    pods = ("get", "pods", "-n", queue, "-l", "fairway.dev/job", "-o", "name")
    for name in ("first", "second"):
        k("create", "-f", "-", given=managed_job(name, queue, queue="team"))
    eventually(lambda: len(k(*pods).split()) == 2)
    k("create", "-f", "-", given=managed_job("third", queue, queue="team"))
    webhooks = printed_webhooks(running, "fairway")
    port = urlsplit(running.url).port
    gone = time.monotonic()
    k("apply", "-f", "-", given=webhooks.replace(f":{port}", ":1"))

    def refused() -> bool:
        """kube-apiserver hears of the change a moment later."""
        try:
            k("create", "--dry-run=server", "-f", "-", given=managed_job("fourth-", queue, queue="team"))
        except AssertionError as error:
            return "failed calling webhook" in str(error)
        return False

    eventually(refused)
    k("delete", "mj", "first", "-n", queue, "--wait=false")
    eventually(lambda: "second" in k(*pods) and "first" not in k(*pods))
    k("apply", "-f", "-", given=webhooks)
    back = time.monotonic()
    eventually(lambda: sorted(owners(k, queue)) == ["second", "third"])
    took = time.monotonic() - back
    print(f"the waiting job has its pod {took:.1f} s after the webhooks are back")  # noqa: T201
    assert took <= 10.0 + (back - gone), "a back-off that doubles waits no longer than it has failed before"
    eventually(lambda: not refused())


def owners(k: Kubectl, place: str) -> list[str]:
    """The managed jobs of all pods, one for each pod."""
    items = json.loads(k("get", "pods", "-n", place, "-o", "json"))["items"]
    return [pod["metadata"]["ownerReferences"][0]["name"] for pod in items]


def test_the_rules_of_kueues_kinds_hold(k: Kubectl, queue: str) -> None:
    wrong = {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]}}
    with pytest.raises(AssertionError, match=r"spec\.resourceGroups\[0\]\.flavors"):
        k("patch", "clusterqueue", queue, "--type=merge", "-p", json.dumps(wrong))


def test_the_older_version_is_served_through_our_webhook(running: Controller, k: Kubectl, queue: str) -> None:
    authority = (running.state / "controller-tls" / "ca.crt").read_bytes()
    client = {"url": running.url, "caBundle": base64.b64encode(authority).decode()}
    crds = [one for one in definitions("fairway", client) if one["spec"]["names"]["kind"] == "ClusterQueue"]
    k("replace", "-f", "-", given=json.dumps(with_version(k, crds[0])))
    k("patch", "clusterqueue", queue, "--type=merge", "-p", '{"spec": {"cohortName": "all"}}')

    def cohort() -> str:
        try:
            return k("get", "clusterqueues.v1beta1.kueue.x-k8s.io", queue, "-o", "jsonpath={.spec.cohort}")
        except AssertionError as error:
            return str(error)

    eventually(cohort, "all")


def with_version(k: Kubectl, crd: dict[str, Any]) -> dict[str, Any]:
    stored = json.loads(k("get", "crd", crd["metadata"]["name"], "-o", "json"))
    version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    return {**crd, "metadata": {**crd["metadata"], **version}}
