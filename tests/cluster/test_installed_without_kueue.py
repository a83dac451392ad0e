"""Installations on a whole cluster without Kueue: Fairway admits, or nothing does, by the command line and by Helm."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tools.cluster.install import kueue
from tools.cluster.lifecycle import RunningCluster

from .conftest import ROOT, Helm
from .installation import Installation, Kubectl, until

PLACE = "trial"
QUEUE = "skypilot-local-queue"
CHART = str(ROOT / "deploy/helm/fairway")
RELEASE = ("--namespace", "fairway-system")
CLUSTER_WIDE = (
    "customresourcedefinitions,clusterroles,clusterrolebindings,apiservices,"
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,namespaces"
)


@pytest.fixture
def k(cluster_without_kueue: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(cluster_without_kueue.kubeconfig)


@pytest.fixture
def cluster_commands(cluster_without_kueue: RunningCluster, k: Kubectl, tree_image: str) -> Installation:
    return Installation(cluster_without_kueue.kubeconfig, k, tree_image)


def ours(k: Kubectl) -> set[str]:
    """The objects of all the cluster that are named after Fairway, or are Kueue's kinds."""
    found = k("get", CLUSTER_WIDE, "-o", "name").split()
    return {name for name in found if "fairway" in name or "kueue" in name}


def test_fairway_admits_and_everything_goes_with_its_jobs(cluster_commands: Installation, k: Kubectl) -> None:
    before = ours(k)
    cluster_commands.install("--admission=fairway")
    cluster_commands("doctor", "--queues", PLACE)
    cluster_commands.launch("short", PLACE, "true", QUEUE)
    cluster_commands.ends("short", PLACE)
    cluster_commands.launch("long", PLACE, "sleep 9999", QUEUE)
    until(lambda: cluster_commands.phase("long", PLACE) == "RUNNING", "it runs")
    k("patch", "clusterqueue", "skypilot-cluster-queue", "--type=merge", "-p", '{"spec": {"stopPolicy": "Hold"}}')
    cluster_commands.launch("waiting", PLACE, "true", QUEUE)

    cluster_commands.uninstall("--delete-jobs")

    assert ours(k) == before
    until(lambda: k("get", "pods", "-n", PLACE, "-o", "name") == "", "the pods end")
    k("delete", "namespace", PLACE)


def test_helm_changes_the_way_of_admission_under_a_running_controller(
    cluster_without_kueue: RunningCluster, cluster_commands: Installation, k: Kubectl, helm: Helm
) -> None:
    there = (*RELEASE, "--kubeconfig", str(cluster_without_kueue.kubeconfig), "--wait", "--timeout", "10m")
    repository, _, tag = cluster_commands.image.rpartition(":")

    def release(verb: str, admission: str, *more: str) -> None:
        values = f"admission={admission},image.repository={repository},image.tag={tag}"
        ran = helm(verb, "fairway", CHART, *there, "--set", values, *more)
        assert ran.returncode == 0, ran.stderr

    def leads(admission: str) -> bool:
        """Whether the pod that leads has the new way of admission."""
        labels = ("-n", "fairway-system", "-l", "fairway.dev/leader=true")
        pods = cluster_commands.found("pods", *labels)["items"]
        return [f"--admission={admission}" in pod["spec"]["containers"][0]["args"] for pod in pods] == [True]

    release("install", "none", "--create-namespace")
    k("create", "namespace", PLACE)
    cluster_commands.launch("alone", PLACE, "true")
    cluster_commands.ends("alone", PLACE)
    cluster_commands.launch("lasting", PLACE, "sleep 9999")
    until(lambda: cluster_commands.phase("lasting", PLACE) == "RUNNING", "it runs")

    release("upgrade", "fairway")
    until(lambda: leads("fairway"), "a new controller leads")
    until(lambda: cluster_commands.run("doctor", "--queues", PLACE).returncode == 0, "the new webhooks are trusted")
    cluster_commands.launch("queued", PLACE, "true", QUEUE)
    cluster_commands.ends("queued", PLACE)
    assert cluster_commands.phase("lasting", PLACE) == "RUNNING", "what ran goes on"

    k("delete", "workloads,localqueues", "--all", "-n", PLACE)
    k("delete", "clusterqueues,resourceflavors", "--all")  # their finalizers go with who admits
    release("upgrade", "none")
    until(lambda: leads("none"), "a new controller leads")
    cluster_commands.launch("again", PLACE, "true")
    cluster_commands.ends("again", PLACE)
    assert cluster_commands.phase("lasting", PLACE) == "RUNNING", "what ran goes on"

    k("delete", "managedjobs", "--all", "-n", PLACE)
    gone = helm("uninstall", "fairway", *there)
    assert gone.returncode == 0, gone.stderr
    kept = ("customresourcedefinition.", "apiservice.", "namespace/")  # definitions, and what serves them
    assert not {name for name in ours(k) if not name.startswith(kept)}


def test_the_controller_follows_kueue_when_it_is_installed_and_removed(
    cluster_without_kueue: RunningCluster, cluster_commands: Installation, k: Kubectl
) -> None:
    def leads(admission: str) -> bool:
        labels = f"fairway.dev/leader=true,fairway.dev/admission={admission}"
        return k("get", "pods", "-n", "fairway-system", "-l", labels, "-o", "name") != ""

    k("delete", "customresourcedefinitions", "-l", "app.kubernetes.io/name=fairway")
    assert "follows Kueue" in cluster_commands.install()
    assert leads("none")
    k("apply", "-f", "-", given=f'{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{PLACE}"}}}}')
    cluster_commands.launch("first", PLACE, "true")
    cluster_commands.ends("first", PLACE)

    kueue(cluster_without_kueue.place)
    until(lambda: leads("kueue"), "Kueue admits")
    assert "the controller works with --admission=kueue, found by itself" in cluster_commands(
        "doctor", "--fix", "-y", "--queues", PLACE, "--timeout", "10m"
    )
    assert "Kueue was installed, so Kueue admits jobs now" in k("get", "events", "-n", "fairway-system")
    cluster_commands.launch("second", PLACE, "true", QUEUE)
    cluster_commands.ends("second", PLACE)
    assert k("get", "workloads", "-n", PLACE, "-o", "jsonpath={.items[*].status.admission.clusterQueue}")

    k("delete", "managedjobs,workloads,localqueues", "--all", "-n", PLACE)
    k("delete", "clusterqueues,resourceflavors", "--all")
    k("delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-l", "app.kubernetes.io/name=kueue")
    services = k("get", "apiservices", "-o", "name").split()
    k("delete", *[name for name in services if name.endswith("visibility.kueue.x-k8s.io")])
    kinds = k("get", "crd", "-o", "name").split()
    k("delete", *[name for name in kinds if name.endswith("kueue.x-k8s.io")])
    k("delete", "namespace", "kueue-system")
    until(lambda: leads("none"), "nothing admits")
    cluster_commands.launch("third", PLACE, "true")
    cluster_commands.ends("third", PLACE)
    cluster_commands.uninstall("--delete-jobs")
