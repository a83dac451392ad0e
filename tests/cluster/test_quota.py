"""`fairway quota` on a real kube-apiserver with Fairway's controller beside it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.cluster.apiserver import ApiServer

from .commands import Commands
from .controllers import Kubectl, controller

EXAMPLE = Path(__file__).parents[2] / "examples/quota.yaml"


@pytest.fixture(scope="module")
def served(
    apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory, kubectl: Callable[[Path], Kubectl]
) -> Iterator[ApiServer]:
    """With Fairway's kinds, and a controller that decides."""
    state = tmp_path_factory.mktemp("controller") / "state"
    with controller(apiserver.kubeconfig, state, "fairway", kubectl(apiserver.kubeconfig)):
        yield apiserver


@pytest.fixture
def fairway(served: ApiServer, tmp_path: Path) -> Commands:
    (tmp_path / "work").mkdir()
    return Commands(tmp_path / "work", served.kubeconfig, "default")


def example(unique: str) -> dict[str, Any]:
    """The example with names of its own, since queues and namespaces are cluster-wide."""
    text = EXAMPLE.read_text()
    for name in ("vision", "speech", "data", "ml", "company"):
        text = text.replace(f"name: {name}", f"name: {name}-{unique}")
    found: dict[str, Any] = yaml.safe_load(text)
    found["spec"]["flavors"] = [{"name": f"flavor-{unique}"}]
    return found


def test_a_definition_is_applied_watched_mended_and_removed(
    fairway: Commands, served: ApiServer, unique: str, kubectl: Callable[[Path], Kubectl]
) -> None:
    run = kubectl(served.kubeconfig)
    file = fairway.directory / "quota.yaml"
    definition = example(unique)
    file.write_text(yaml.safe_dump(definition))
    name = f"quotadefinition/company-{unique}"

    assert fairway.run("quota", "plan", str(file)).returncode == 2
    fairway("quota", "apply", str(file))
    assert "everything is as defined" in fairway("quota", "plan", str(file))
    run("wait", "--for=condition=Synced", name, "--timeout=60s")
    bindings = json.loads(run("get", "rolebindings", "-n", f"vision-{unique}", "-o", "json"))["items"]
    assert {one["metadata"]["name"] for one in bindings} == {"fairway-admin", "fairway-submit"}

    run("patch", "clusterqueue", f"vision-{unique}", "--type=merge", "-p", '{"spec": {"stopPolicy": "Hold"}}')
    run("wait", "--for=condition=Synced=false", name, "--timeout=60s")
    drift = fairway.run("quota", "diff", f"company-{unique}")
    assert (drift.returncode, "spec.stopPolicy: Hold -> None" in drift.stdout) == (2, True)
    fairway("quota", "apply", str(file))
    run("wait", "--for=condition=Synced", name, "--timeout=60s")

    definition["spec"]["organizations"] = []
    file.write_text(yaml.safe_dump(definition))
    fairway("quota", "apply", "-y", str(file))
    assert f"vision-{unique}" not in run("get", "clusterqueues,cohorts,localqueues", "-A", "-o", "name")


def test_an_imported_definition_changes_nothing(fairway: Commands, unique: str) -> None:
    file = fairway.directory / "quota.yaml"
    file.write_text(yaml.safe_dump(example(unique)))
    fairway("quota", "apply", str(file))
    imported = fairway.directory / "imported.yaml"
    imported.write_text(fairway("quota", "import", "--name", f"company-{unique}"))
    assert "everything is as defined" in fairway("quota", "plan", str(imported))


def test_what_a_cluster_refuses_leaves_everything_as_it_was(fairway: Commands, served: ApiServer, unique: str) -> None:
    definition = example(unique)
    definition["spec"]["organizations"][0]["teams"][0]["kueue"] = {"queueingStrategy": "Nonsense"}
    file = fairway.directory / "quota.yaml"
    file.write_text(yaml.safe_dump(definition))
    refused = fairway.run("quota", "apply", str(file))
    assert refused.returncode == 1
    assert "queueingStrategy" in refused.stderr
    plan = json.loads(fairway.run("quota", "plan", "-o", "json", str(file)).stdout)
    assert {one["action"] for one in plan["changes"]} == {"create"}


def test_a_wrong_definition_is_refused_by_the_webhook(
    served: ApiServer, unique: str, kubectl: Callable[[Path], Kubectl]
) -> None:
    definition = example(unique)
    definition["spec"]["organizations"][0]["teams"][0]["guarantee"] = {"cpu": 1}
    with pytest.raises(AssertionError, match="did you mean guaranteed"):
        kubectl(served.kubeconfig)("apply", "-f", "-", given=json.dumps(definition))
