"""`fairway cluster install` and `uninstall` on a real kube-apiserver."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.apiserver import ApiServer

from .installation import mutating_webhooks

Fairway = Callable[..., subprocess.CompletedProcess[str]]
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One of its own: webhooks of an installation without a controller would refuse the jobs of other tests."""
    with ApiServer(tmp_path_factory.mktemp("install"), controllers=True) as running:
        yield running


@pytest.fixture
def k(api: ApiServer, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(api.kubeconfig)


@pytest.fixture
def cluster_command(api: ApiServer) -> Fairway:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fairway.cli.main", "cluster", *arguments, "--kubeconfig", str(api.kubeconfig)]
        return subprocess.run(  # noqa: S603 - our own
            command, capture_output=True, text=True, check=False, timeout=120
        )

    return run


def names(k: Kubectl) -> set[str]:
    """Everything that could be ours."""
    kinds = (
        "crd,clusterrole,clusterrolebinding,mutatingwebhookconfigurations,validatingwebhookconfigurations,apiservices"
    )
    found = k("get", kinds, "-o", "name").split()
    found += k("get", "ns", "-o", "name").split()
    inside = k("get", "all,sa,role,rolebinding,pdb,secret,cm", "-A", "--ignore-not-found", "-o", "name").split()
    return {name for name in (*found, *inside) if "fairway" in name or "kueue" in name}


def test_a_dry_run_changes_nothing(cluster_command: Fairway, k: Kubectl) -> None:
    before = names(k)

    ran = cluster_command("install", "--admission", "fairway", "--dry-run")

    assert ran.returncode == 0, ran.stderr
    assert "Deployment fairway-system/fairway-controller created (dry run)" in ran.stdout
    assert names(k) == before


def test_install_is_idempotent_follows_the_way_of_admission_and_uninstall_leaves_nothing(
    cluster_command: Fairway, k: Kubectl
) -> None:
    before = names(k)
    first = cluster_command("install", "--admission", "fairway", "--no-wait")
    assert first.returncode == 0, first.stderr
    assert "created" in first.stdout
    again = cluster_command("install", "--no-wait")
    assert again.returncode == 0, again.stderr
    assert again.stdout == ""
    assert "admission fairway" in again.stderr

    hooks = ("mutatingwebhookconfiguration", "fairway")
    webhooks = [one["name"] for one in json.loads(k("get", *hooks, "-o", "json"))["webhooks"]]
    bundles: dict[str, Any] = {"webhooks": [{"name": one, "clientConfig": {"caBundle": "Y2E="}} for one in webhooks]}
    k("patch", *hooks, "--type=strategic", "-p", json.dumps(bundles))
    narrower = cluster_command("install", "--admission", "none", "--no-wait", "--replicas", "1")
    assert narrower.returncode == 0, narrower.stderr
    kept = cluster_command("install", "--no-wait")
    assert (kept.returncode, kept.stdout) == (0, ""), "what was chosen before stays"
    left = [one["name"] for one in json.loads(k("get", *hooks, "-o", "json"))["webhooks"]]
    assert left == mutating_webhooks("none")
    assert set(webhooks) > set(left)
    assert "--admission=none" in k("-n", "fairway-system", "get", "deploy", "-o", "jsonpath={..args}")

    refused = cluster_command("uninstall")
    assert refused.returncode == 2
    assert "-y" in refused.stderr
    gone = cluster_command("uninstall", "--delete-jobs", "-y")
    assert gone.returncode == 0, gone.stderr
    assert names(k) == before


def test_the_ca_that_the_controller_adds_survives_an_upgrade(cluster_command: Fairway, k: Kubectl) -> None:
    cluster_command("install", "--admission", "none", "--no-wait")
    bundle = {
        "webhooks": [{"name": "managedjobs.fairway.dev.mutate.fairway.dev", "clientConfig": {"caBundle": "Y2E="}}]
    }
    k("patch", "mutatingwebhookconfiguration", "fairway", "--type=strategic", "-p", json.dumps(bundle))

    ran = cluster_command("install", "--admission", "none", "--no-wait", "--image", "fairway:next")

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "Deployment fairway-system/fairway-controller configured\n"
    assert k("get", "mutatingwebhookconfiguration", "fairway", "-o", "jsonpath={..caBundle}") == "Y2E="
    cluster_command("uninstall", "--delete-jobs", "-y")


def test_a_controller_that_does_not_come_up_is_named_with_the_way_out(cluster_command: Fairway, k: Kubectl) -> None:
    ran = cluster_command("install", "--admission", "none", "--timeout", "2s")

    assert ran.returncode == 1
    assert "0 of 2 controllers are ready" in ran.stderr
    assert "kubectl -n fairway-system describe pods" in ran.stderr
    cluster_command("uninstall", "--delete-jobs", "-y")


def test_objects_of_others_in_the_namespace_and_jobs_stay(cluster_command: Fairway, k: Kubectl) -> None:
    cluster_command("install", "--admission", "none", "--no-wait")
    k("-n", "fairway-system", "create", "secret", "generic", "mine")

    ran = cluster_command("uninstall", "-y")

    assert ran.returncode == 0, ran.stderr
    assert "fairway-system stays" in ran.stderr
    assert "Secret fairway-system/mine" in ran.stderr
    assert k("-n", "fairway-system", "get", "secret", "mine", "-o", "name") == "secret/mine"
    assert "managedjobs.fairway.dev" in k("get", "crd", "-o", "name")
    k("-n", "fairway-system", "delete", "secret", "mine")
    assert cluster_command("uninstall", "-y", "--delete-jobs").returncode == 0


def test_definitions_stay_until_the_pods_of_deleted_jobs_are_gone(cluster_command: Fairway, k: Kubectl) -> None:
    """Without the definition of their owner, Kubernetes would never delete them."""
    cluster_command("install", "--admission", "none", "--no-wait")
    metadata = {"name": "left", "labels": {"fairway.dev/job": "left"}, "finalizers": ["example.com/hold"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    k("apply", "-f", "-", given=json.dumps(pod))
    ran = cluster_command("uninstall", "--delete-jobs", "-y", "--timeout", "2s")

    assert ran.returncode == 1
    assert "objects of managed jobs still there after 2s, such as left (finalizers example.com/hold)" in ran.stderr
    assert "managedjobs.fairway.dev" in k("get", "crd", "-o", "name")
    k("patch", "pod", "left", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    k("delete", "pod", "left", "--force", "--grace-period=0")
    assert cluster_command("uninstall", "--delete-jobs", "-y").returncode == 0


def test_the_history_of_attempts_stays_with_the_jobs(cluster_command: Fairway, k: Kubectl) -> None:
    cluster_command("install", "--admission", "none", "--no-wait")
    journal = "fairway-history-journal-00000001"
    k("-n", "fairway-system", "create", "configmap", journal)
    k("-n", "fairway-system", "label", "configmap", journal, "fairway.dev/history=journal")

    ran = cluster_command("uninstall", "-y")

    assert ran.returncode == 0, ran.stderr
    assert "and the history of attempts; --delete-jobs deletes them as well" in ran.stderr
    assert "did not create" not in ran.stderr
    assert k("-n", "fairway-system", "get", "configmap", journal, "-o", "name") == f"configmap/{journal}"
    gone = cluster_command("uninstall", "-y", "--delete-jobs")
    assert f"ConfigMap fairway-system/{journal} deleted" in gone.stdout
    assert "namespace/fairway-system" not in k("get", "namespaces", "-o", "name")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("install", "--admission", "kueue"), "has no Kueue", id="kueue without Kueue"),
        pytest.param(("uninstall", "-y"), "has nothing that `fairway cluster install` created", id="not installed"),
        pytest.param(("install", "--timeout", "long"), "is not a duration", id="not a duration"),
        pytest.param(("install", "-o", "yaml"), "add --dry-run", id="yaml without dry run"),
        pytest.param(("install", "--context", "absent"), "absent", id="no such context"),
    ],
)
def test_mistakes_are_refused_with_a_way_out(cluster_command: Fairway, arguments: tuple[str, ...], said: str) -> None:
    ran = cluster_command(*arguments)

    assert ran.returncode in {1, 2}
    assert said in ran.stderr


def test_a_right_that_is_missing_is_named_with_its_object(api: ApiServer) -> None:
    path = api.plane.kubeconfig("nina", api.plane.authority.issue("nina", "nina"))
    command = [sys.executable, "-m", "fairway.cli.main", "cluster", "install", "--admission", "none", "--no-wait"]

    command += ["--kubeconfig", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own

    assert ran.returncode == 1
    assert "deployments.apps" in ran.stderr
    assert "cluster-admin" in ran.stderr
