"""The Helm chart with the real helm: rendered, linted, installed, upgraded and uninstalled on a kube-apiserver."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.cluster.apiserver import ApiServer

from fairway import __version__
from fairway.deploy.manifests import Installation
from fairway.deploy.names import WAYS, Way
from fairway.installing import installation_objects

from .conftest import Helm
from .installation import mutating_webhooks

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/fairway"
PLACE = ("--namespace", "fairway-system")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("helm"), controllers=True) as running:
        yield running


def objects(text: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
    return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in found}


@pytest.mark.parametrize("way", WAYS)
def test_the_chart_renders_what_install_applies(helm: Helm, way: Way) -> None:
    ran = helm("template", "fairway", str(CHART), *PLACE, "--set", f"admission={way},serviceMonitor=true")
    assert ran.returncode == 0, ran.stderr
    installation = Installation(
        way=way, image=f"fairway:{__version__}", version=__version__, managed_by="Helm", admission=way
    )
    wanted = objects(yaml.dump_all(installation_objects(installation, monitoring=True), Dumper=yaml.CSafeDumper))

    rendered = objects(ran.stdout)

    for one in rendered.values():
        one["metadata"].pop("annotations", None)
    del wanted["Namespace", "", "fairway-system"]
    assert rendered == wanted


def test_values_reach_the_deployment(helm: Helm) -> None:
    values = {
        "admission": "none",
        "image.repository": "registry.example.com/fairway",
        "image.tag": "next",
        "replicas": "3",
        "nodeSelector.pool": "system",
        "resources.limits.memory": "2Gi",
        "imagePullSecrets[0].name": "pull",
        "tolerations[0].operator": "Exists",
        "priorityClassName": "high",
        "extraArgs[0]": "--lease=other",
    }
    ran = helm("template", "f", str(CHART), *PLACE, "--set", ",".join(f"{k}={v}" for k, v in values.items()))
    assert ran.returncode == 0, ran.stderr
    spec = objects(ran.stdout)["Deployment", "fairway-system", "fairway-controller"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]

    assert spec["replicas"] == 3
    assert container["image"] == "registry.example.com/fairway:next"
    assert container["args"][-1] == "--lease=other"
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "high"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--set", "admission=none"), "--namespace fairway-system --create-namespace", id="namespace"),
        pytest.param((*PLACE, "--set", "admission=sometimes"), "admission", id="a value that is not allowed"),
        pytest.param((*PLACE, "--set", "replica=2"), "replica", id="a value that does not exist"),
    ],
)
def test_mistakes_are_refused(helm: Helm, arguments: tuple[str, ...], said: str) -> None:
    ran = helm("template", "fairway", str(CHART), *arguments)

    assert ran.returncode != 0
    assert said in ran.stderr


def test_lint_finds_nothing(helm: Helm) -> None:
    ran = helm("lint", str(CHART), *PLACE, "--strict")

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_install_upgrade_to_another_way_of_admission_and_uninstall(
    helm: Helm, api: ApiServer, kubectl: Callable[[Path], Callable[..., str]]
) -> None:
    k, there = kubectl(api.kubeconfig), ("--kubeconfig", str(api.kubeconfig), *PLACE)
    first = helm("install", "fairway", str(CHART), *there, "--create-namespace", "--set", "admission=fairway")
    assert first.returncode == 0, first.stderr
    assert "admission: fairway" in first.stdout
    assert "workloads.kueue.x-k8s.io" in k("get", "crd", "-o", "name")

    second = helm("upgrade", "fairway", str(CHART), *there, "--set", "admission=none,replicas=1")
    assert second.returncode == 0, second.stderr
    hooks = json.loads(k("get", "mutatingwebhookconfiguration", "fairway", "-o", "json"))["webhooks"]
    assert [one["name"] for one in hooks] == mutating_webhooks("none")
    deployment = json.loads(k("-n", "fairway-system", "get", "deploy", "fairway-controller", "-o", "json"))
    assert deployment["spec"]["replicas"] == 1
    assert "--admission=none" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]

    auto = helm("upgrade", "fairway", str(CHART), *there, "--set", "admission=auto")
    assert auto.returncode == 0, auto.stderr
    assert "admission: fairway" in auto.stdout  # by the definitions that stayed

    gone = helm("uninstall", "fairway", *there)
    assert gone.returncode == 0, gone.stderr
    left = k("get", "clusterrole,clusterrolebinding,mutatingwebhookconfigurations", "-o", "name")
    assert "fairway" not in left
    assert "managedjobs.fairway.dev" in k("get", "crd", "-o", "name")
