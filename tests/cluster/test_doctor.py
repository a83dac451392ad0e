"""`fairway cluster doctor` on a real kube-apiserver with the definitions and the configuration of Kueue."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.cluster.apiserver import ApiServer

from fairway.deploy.manifests import Installation
from fairway.installing import installation_objects

from .controllers import eventually

Run = subprocess.CompletedProcess[str]
OLD = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
# ours
integrations:
  frameworks:
  - "batch/job"
"""
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "kueue"}},
        "template": {
            "metadata": {"labels": {"app": "kueue"}},
            "spec": {"containers": [{"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.19.2"}]},
        },
    },
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("doctor")) as running:
        yield running


@pytest.fixture(scope="module")
def installed(api: ApiServer) -> ApiServer:
    """Kueue as far as an API server has it: definitions that are not labelled as ours, a Deployment, a ConfigMap."""
    rendered = installation_objects(Installation(way="fairway", image="", version=""))
    crds = [one for one in rendered if one["kind"] == "CustomResourceDefinition"]
    definitions = [one for one in crds if one["metadata"]["name"].endswith(".kueue.x-k8s.io")]
    for one in definitions:
        one["metadata"].pop("labels", None)
        one["spec"].pop("conversion", None)
    config = {"metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"}}
    everything: list[dict[str, Any]] = [
        *definitions,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}},
        {"apiVersion": "v1", "kind": "ConfigMap", **config, "data": {"controller_manager_config.yaml": OLD}},
        DEPLOYMENT,
    ]
    kubectl(api, "apply", "--server-side", "-f", "-", given=yaml.dump_all(everything, Dumper=yaml.CSafeDumper))
    resources = ("api-resources", "--api-group=kueue.x-k8s.io", "-o", "name")
    eventually(lambda: len(kubectl(api, *resources).split()), len(definitions))
    return api


def kubectl(api: ApiServer, *arguments: str, given: str = "") -> str:
    root = Path(__file__).parents[2]
    binary = subprocess.run([root / "tools/kubectl/get"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    command = [binary, "--kubeconfig", str(api.kubeconfig), *arguments]
    return subprocess.run(command, input=given, text=True, check=True, capture_output=True, timeout=120).stdout  # noqa: S603


def doctor(api: ApiServer, *arguments: str) -> Run:
    command = [sys.executable, "-m", "fairway.cli.main", "cluster", "doctor", *arguments]
    command += ["--kubeconfig", str(api.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603


def found(api: ApiServer) -> dict[str, list[dict[str, str]]]:
    ran = doctor(api, "-o", "json")
    findings: dict[str, list[dict[str, str]]] = {}
    for one in json.loads(ran.stdout):
        assert (one["status"] == "ok") == (one["wayOut"] == "")
        findings.setdefault(one["check"], []).append(one)
    severities = {one["status"] for group in findings.values() for one in group}
    assert ran.returncode == (1 if "broken" in severities else 0)
    return findings


def test_what_lacks_is_said_with_a_way_out(installed: ApiServer) -> None:
    findings = found(installed)

    assert "not installed" in findings["fairway"][0]["message"]
    assert "does not run" in findings["kueue"][0]["message"]
    messages = " ".join(one["message"] for one in findings["kueue configuration"])
    assert "integrations.frameworks lacks pod" in messages
    assert "integrations.externalFrameworks lacks ManagedJob.v1alpha1.fairway.dev" in messages
    assert "no ClusterQueue" in findings["queues"][0]["message"]


def test_a_change_is_taken_back_if_kueue_does_not_come_up(installed: ApiServer) -> None:
    k = partial(kubectl, installed)
    deployment = ("-n", "kueue-system", "get", "deploy", "kueue-controller-manager", "-o", "json")
    generation = json.loads(k(*deployment))["metadata"]["generation"]

    ran = doctor(installed, "--fix", "-y", "--timeout", "2s")  # there is no kubelet, so it cannot come up

    assert ran.returncode == 1
    assert '+  - "pod"' in ran.stderr
    assert "the old one was restored" in ran.stderr
    text = json.loads(k("-n", "kueue-system", "get", "cm", "kueue-manager-config", "-o", "json"))["data"]
    assert text["controller_manager_config.yaml"] == OLD
    assert json.loads(k(*deployment))["metadata"]["generation"] == generation + 2


def test_without_a_terminal_a_change_needs_yes(installed: ApiServer) -> None:
    ran = doctor(installed, "--fix")

    assert ran.returncode == 2
    assert "add -y" in ran.stderr


def test_the_queues_of_the_guide_are_created_once_and_are_no_overcommitment(installed: ApiServer) -> None:
    first = doctor(installed, "--queues", "skypilot")
    again = doctor(installed, "--queues", "skypilot")

    assert "LocalQueue skypilot/skypilot-local-queue created" in first.stderr
    assert "admission check of the guide was left out" in first.stderr
    assert "ClusterQueue skypilot-cluster-queue unchanged" in again.stderr
    assert "skypilot-cluster-queue" in kubectl(installed, "-n", "skypilot", "get", "localqueue", "-o", "yaml")
    assert "quotas" not in found(installed)


def test_queues_are_created_once_the_webhook_of_a_restarted_kueue_answers(installed: ApiServer) -> None:
    k = partial(kubectl, installed)
    k("delete", "clusterqueue", "--all")
    rule = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["*"], "resources": ["clusterqueues"]}
    hook = {
        "name": "vclusterqueue.kb.io",
        "clientConfig": {"service": {"name": "kueue-webhook-service", "namespace": "kueue-system"}},
        "rules": [{**rule, "operations": ["CREATE"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    k("apply", "-f", "-", given=json.dumps({**configuration, "metadata": {"name": "silent"}, "webhooks": [hook]}))
    removal = threading.Timer(3, k, ["delete", "validatingwebhookconfiguration", "silent"])
    removal.start()
    ran = doctor(installed, "--queues", "skypilot")
    removal.join()

    assert "ClusterQueue skypilot-cluster-queue created" in ran.stderr


def test_queues_flavors_and_nodes_that_do_not_fit_are_named(installed: ApiServer) -> None:
    k = partial(kubectl, installed)
    k("delete", "clusterqueue", "--all")
    k("create", "namespace", "team-x")
    gpus = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    k("apply", "-f", "-", given=json.dumps(gpus))
    patch = {"status": {"allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8"}}}
    k("patch", "node", "n1", "--subresource=status", "-p", json.dumps(patch))
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "spot"}}
    quota = {"name": "cpu", "nominalQuota": "100"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "spot", "resources": [quota]}]}
    queue = {"apiVersion": flavor["apiVersion"], "kind": "ClusterQueue", "metadata": {"name": "x"}}
    check = {"apiVersion": flavor["apiVersion"], "kind": "AdmissionCheck", "metadata": {"name": "prov"}}
    everything = [
        {**flavor, "spec": {"nodeLabels": {"spot": "true"}}},
        {**queue, "spec": {"resourceGroups": [group]}},
        {**check, "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"}},
    ]
    k("apply", "-f", "-", given=yaml.safe_dump_all(everything))

    findings = found(installed)

    assert "team-x" in " ".join(one["message"] for one in findings["queues"])
    messages = " ".join(one["message"] for one in findings["nodes"])
    assert "ResourceFlavor spot (spot=true), which x uses" in messages
    assert "n1 have GPUs, and no label says which model" in messages
    assert "x has a quota of 100 cpu" in " ".join(one["message"] for one in findings["quotas"])
    assert findings["provisioning"][0]["status"] == "broken"
    assert "AdmissionCheck prov" in findings["provisioning"][0]["message"]
