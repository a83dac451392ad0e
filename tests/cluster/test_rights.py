"""The rights of the installed controller: a whole run needs nothing else, and uses each of them.

The requests are read from the audit log of kube-apiserver, for each way of admission.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.lifecycle import RunningCluster

from fairway.apis.extensions.generating import generated
from fairway.apis.registry import default_registry
from fairway.deploy.names import WAYS, Way

from .audit import Audit, unused
from .commands import Commands
from .installation import Installation, Kubectl, until

PLACE = "rights"
OWNERS = "asked by the admission plugin OwnerReferencesPermissionEnforcement of other clusters, not by a request"
RARE = "of a log of the eleventh last attempt, or of a launch that was cut off an hour ago"
REPEATED = "of an Event that is repeated, which depends on time"
RENEWED = "only of a certificate that ends soon"
CLASHES = "only if two processes that lead after each other meet"
EXCEPTIONS: dict[str, str] = {}
SLEEP = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.35"}]}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def place(way: Way, request: pytest.FixtureRequest) -> RunningCluster:
    """With Kueue, or without."""
    found: RunningCluster = request.getfixturevalue("cluster" if way == "kueue" else "cluster_without_kueue")
    return found


@pytest.fixture
def k(place: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(place.kubeconfig)


@pytest.fixture
def audit(place: RunningCluster) -> Audit:
    return Audit(place.place.directory / "logs" / "audit.log")


@pytest.fixture
def installed(place: RunningCluster, audit: Audit, k: Kubectl, tree_image: str, way: Way) -> Iterator[Installation]:
    """It depends on `audit`, so that nothing is missed."""
    found = Installation(place.kubeconfig, k, tree_image)
    found.install(f"--admission={way}")
    k("create", "namespace", PLACE)
    yield found
    k("delete", "workloadpriorityclass,clusterqueue,resourceflavor", "--all", "--ignore-not-found", "--wait=false")
    found.uninstall("--delete-jobs")
    k("delete", "namespace", PLACE)


def test_a_run_uses_every_right_and_needs_no_other(
    installed: Installation, audit: Audit, k: Kubectl, way: Way, tmp_path: Path
) -> None:
    fairway = Commands(tmp_path / "work", installed.kubeconfig, PLACE)
    fairway.directory.mkdir(parents=True)
    if way != "none":
        create_queues(k)
    a_job_with_several_pods_files_and_a_checkpoint_volume(fairway, k)
    a_job_that_is_preempted_and_ends(fairway, k, way)
    what_users_ask(k)
    if way == "fairway":
        jobs_and_pods_of_others(k)
    another_controller_leads(installed, k)

    assert audit.forbidden() == set()
    found = unused(way, audit.uses())
    reasons = EXCEPTIONS
    assert found - reasons.keys() == set(), "granted and never used"


def create_queues(k: Kubectl) -> None:
    """The queue `team` has two CPUs."""
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    quotas = [{"name": "cpu", "nominalQuota": 2}, {"name": "memory", "nominalQuota": "64Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": PLACE, "resources": quotas}]}
    spec = {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}, "resourceGroups": [group]}
    items = [
        {**version, "kind": "ResourceFlavor", "metadata": {"name": PLACE}},
        {**version, "kind": "ClusterQueue", "metadata": {"name": PLACE}, "spec": spec},
        {**version, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 1000},
        {
            **version,
            "kind": "LocalQueue",
            "metadata": {"name": "default", "namespace": PLACE},
            "spec": {"clusterQueue": PLACE},
        },
    ]
    apply(k, *items)


def apply(k: Kubectl, *items: Any) -> None:
    k("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))


def launched(fairway: Commands, name: str, task: str) -> int:
    (fairway.directory / f"{name}.yaml").write_text(task)
    fairway("jobs", "launch", "-d", "-y", "-n", name, f"{name}.yaml")
    return next(number for number, job in fairway.jobs().items() if job["name"] == name)


def a_job_with_several_pods_files_and_a_checkpoint_volume(fairway: Commands, k: Kubectl) -> None:
    """Its claim is never bound on this cluster, so it is cancelled."""
    task = "num_nodes: 2\nworkdir: .\nresources: {cpus: 1}\nrun: 'true'\n"
    task += "config: {kubernetes: {checkpoints: {size: 1Gi}}}\n"
    number = launched(fairway, "pair", task)
    until(lambda: len(k("get", "pods", "-n", PLACE, "-o", "name").split()) == 2, "its pods exist")
    assert "persistentvolumeclaim" in k("get", "pvc", "-n", PLACE, "-o", "name")
    fairway("jobs", "cancel", "-y", str(number))
    fairway.until(number, lambda job: job["status"] == "CANCELLED")
    fairway("jobs", "delete", "-y", str(number))
    until(lambda: k("get", "pods", "-n", PLACE, "-o", "name") == "", "its pods go")


def a_job_that_is_preempted_and_ends(fairway: Commands, k: Kubectl, way: Way) -> None:
    task = "resources: {cpus: 2, image_id: 'docker:python:3.11'}\nrun: echo begun; sleep {}\n"
    victim = launched(fairway, "victim", task.replace("{}", "10"))
    fairway.until(victim, lambda job: job["status"] == "RUNNING")
    if way == "none":
        k("delete", "pod", "-n", PLACE, "--all")
    else:
        urgent = launched(fairway, "urgent", task.replace("{}", "1") + "priority_class: high\n")
        fairway.until(urgent, lambda job: job["status"] == "SUCCEEDED")
    ended = fairway.until(victim, lambda job: job["status"] == "SUCCEEDED")
    assert ended["recoveries"] == 1
    assert "begun" in fairway("jobs", "logs", str(victim))


def what_users_ask(k: Kubectl) -> None:
    """The controller asks what a user may see of others."""
    k("create", "rolebinding", "ann", "--clusterrole=view", "--user=ann", "-n", PLACE)
    path = f"/apis/explain.fairway.dev/v1alpha1/namespaces/{PLACE}/waitingjobs"
    assert json.loads(k("get", "--raw", path, "--as=ann"))["items"] == []


def jobs_and_pods_of_others(k: Kubectl) -> None:
    """In a queue that Fairway admits, with a check that provisions."""
    kind = default_registry().named("provisioningrequests.autoscaling.x-k8s.io")
    apply(k, generated(kind, None, lambda *_: ""))


def another_controller_leads(installed: Installation, k: Kubectl) -> None:
    first = installed.leader
    k("-n", "fairway-system", "delete", "pod", first)
    until(lambda: installed.leader not in {"", first}, "another controller leads")
