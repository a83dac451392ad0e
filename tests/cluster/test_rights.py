"""The rights of the installed controller: a whole run needs nothing else and, where Kueue admits, uses each of them.

The requests are read from the audit log of kube-apiserver, for each way of admission.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.lifecycle import RunningCluster

from fairway.deploy.names import WAYS, Way

from .audit import Audit, unused
from .commands import Commands
from .controllers import eventually
from .installation import Installation, Kubectl, until

pytestmark = pytest.mark.kubelet
PLACE = "rights"
EXCEPTIONS = {
    "delete configmaps": "of the log of the eleventh last attempt, or of a launch that was cut off an hour ago",
    "patch events": "of an Event that is repeated",
    "patch admissionchecks/status.kueue.x-k8s.io": "there is no check of limits and budgets",
    "patch quotadefinitions/status.fairway.dev": "there is none",
    "patch managedjobs.fairway.dev": "the finalizer of a job that is sent on to another cluster",
    "patch secrets in fairway-system": "of a certificate that ends soon",
}
"""Rights that a short run does not use."""

OWNERS = "/finalizers."
"""Asked by the admission plugin OwnerReferencesPermissionEnforcement, which is off here, and never by a request."""


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
    if way != "none":
        k("delete", "workloadpriorityclass,clusterqueue,resourceflavor", "--all", "--wait=false")
    found.uninstall("--delete-jobs")
    k("delete", "namespace", PLACE)


def test_a_run_needs_no_other_rights(
    installed: Installation, audit: Audit, k: Kubectl, way: Way, tmp_path: Path
) -> None:
    fairway = Commands(tmp_path / "work", installed.kubeconfig, PLACE)
    fairway.directory.mkdir(parents=True)
    if way != "none":
        create_queues(k)
    a_job_with_several_pods_files_and_a_checkpoint_volume(fairway, k)
    a_job_that_is_preempted_and_ends(fairway, k, way)
    what_users_ask(k)
    another_controller_leads(installed, k)

    assert audit.forbidden() == set()
    if way == "kueue":  # a run of Fairway's own admission would take Jobs, pods, checks and topologies, too
        found = {right for right in unused(way, audit.uses()) if OWNERS not in right}
        assert found - EXCEPTIONS.keys() == set(), "granted and never used"


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
            "metadata": {"name": "team", "namespace": PLACE},
            "spec": {"clusterQueue": PLACE},
        },
    ]
    apply(k, *items)


def apply(k: Kubectl, *items: Any) -> None:
    k("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))


def launched(fairway: Commands, name: str, task: str, *more: str) -> int:
    (fairway.directory / f"{name}.yaml").write_text(task)
    fairway("jobs", "launch", "-d", "-y", "-n", name, "--queue", "team", *more, f"{name}.yaml")
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
    k("delete", "managedjob", f"pair-{number}", "-n", PLACE)
    until(lambda: k("get", "pods", "-n", PLACE, "-o", "name") == "", "its pods go")


def a_job_that_is_preempted_and_ends(fairway: Commands, k: Kubectl, way: Way) -> None:
    task = "resources: {cpus: 2, image_id: 'docker:python:3.11'}\nrun: echo begun; {}\n"
    victim = launched(fairway, "victim", task.replace("{}", "test $FAIRWAY_ATTEMPT != 1 || sleep 9999"))
    fairway.until(victim, lambda job: job["status"] == "RUNNING")
    if way == "none":
        k("delete", "pod", "-n", PLACE, "--all")
    else:
        urgent = launched(fairway, "urgent", task.replace("{}", "sleep 1"), "--priority", "high")
        fairway.until(urgent, lambda job: job["status"] == "SUCCEEDED")
        waiting = launched(fairway, "waiting", task.replace("cpus: 2", "cpus: 99").replace("{}", "true"))
        fairway("jobs", "why", str(waiting))
        fairway("jobs", "cancel", "-y", str(waiting))
    ended = fairway.until(victim, lambda job: job["status"] == "SUCCEEDED")
    assert ended["recoveries"] == 1
    assert "begun" in fairway("jobs", "logs", str(victim))


def what_users_ask(k: Kubectl) -> None:
    """The controller asks what a user may see of others."""
    k("create", "rolebinding", "ann", "--clusterrole=view", "--user=ann", "-n", PLACE)
    path = f"/apis/explain.fairway.dev/v1alpha1/namespaces/{PLACE}/waitingjobs"

    def answer() -> Any:
        """kube-apiserver answers 503 for a moment where it just found the API slow."""
        try:
            return json.loads(k("get", "--raw", path, "--as=ann"))["items"]
        except AssertionError as error:
            return str(error)

    eventually(answer, [])


def another_controller_leads(installed: Installation, k: Kubectl) -> None:
    first = installed.leader
    k("-n", "fairway-system", "delete", "pod", first)
    until(lambda: installed.leader not in {"", first}, "another controller leads")
