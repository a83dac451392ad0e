"""A quota definition on a real Kueue: gangs of every kind in its queues, limits of users, and a budget."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.cluster.lifecycle import RunningCluster

from fairway.apis.machinery.kind import Manifest
from schedulers.gangs import GROUP, crowded, job, managed_job, pod, pod_group

from .commands import Commands
from .controllers import eventually
from .installation import Kubectl, give_gpus

PLACE = "shop"
GPU = "nvidia.com/gpu"
TYPES = ["batch", "pod", "managed"]
SPEC: Manifest = {
    "flavors": [{"name": "any-node"}],
    "organizations": [
        {
            "name": PLACE,
            "guaranteed": {"cpu": 4, "memory": "8Gi", GPU: 2},
            "types": [*TYPES, {"name": "limited", "limits": [{"users": ["*"], "maximum": {"cpu": 1}}]}],
            "budget": {"gpuHours": 0},
        }
    ],
}
DEFINITION = {
    "apiVersion": "fairway.dev/v1alpha1",
    "kind": "QuotaDefinition",
    "metadata": {"name": PLACE},
    "spec": SPEC,
}
CONFIG = {"queueconfig": {"scheduler": "kueue", "jobs": [{"type": one} for one in TYPES]}}


class Shop:
    """The namespace of the definition's one organization."""

    def __init__(self, k: Kubectl, fairway: Commands) -> None:
        self.k = k
        self.fairway = fairway

    def send(self, *manifests: Manifest) -> None:
        file = self.fairway.directory / "jobs.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
        self.fairway("apply", "-f", str(file))

    def create(self, manifest: Manifest, kind: str) -> None:
        """As kubectl does, of whom nothing comes through our commands."""
        versions = {"Job": "batch/v1", "Pod": "v1"}
        self.k(
            "-n", PLACE, "create", "-f", "-", given=json.dumps({"apiVersion": versions[kind], "kind": kind, **manifest})
        )

    def items(self, *arguments: str) -> list[Manifest]:
        found: list[Manifest] = json.loads(self.k("-n", PLACE, "get", *arguments, "-o", "json"))["items"]
        return found

    def phases(self, selector: str) -> list[str]:
        return [one["status"]["phase"] for one in self.items("pods", "-l", selector)]

    def states(self) -> dict[str, str]:
        """The phase of each ManagedJob."""
        found = {one["metadata"]["name"]: one.get("status") or {} for one in self.items("managedjobs")}
        return {name: status.get("phase", "") for name, status in found.items()}

    def over(self, kind: str, name: str) -> str:
        """What the check says of the Workload of a job."""
        for one in self.items("workloads"):
            owner = one["metadata"].get("ownerReferences", [{}])[0]
            if (owner.get("kind"), owner.get("name")) == (kind, name):
                return str((one["metadata"].get("annotations") or {}).get("fairway.dev/over-limit", ""))
        return ""

    def reserving(self) -> int:
        found = json.loads(self.k("get", "clusterqueue", PLACE, "-o", "json"))
        return int(found["status"].get("reservingWorkloads", 0))


@pytest.fixture(scope="module")
def installed(
    cluster: RunningCluster,
    kubectl: Callable[[Path], Kubectl],
    tree_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    k, work = kubectl(cluster.kubeconfig), tmp_path_factory.mktemp("shop") / "work"
    work.mkdir()
    fairway = Commands(work, cluster.kubeconfig, PLACE)
    with fairway.installation(tree_image, "kueue"):
        try:
            give_gpus(k)
            (work / ".fairway.yaml").write_text(yaml.safe_dump(CONFIG))
            (work / "quota.yaml").write_text(yaml.safe_dump(DEFINITION))
            fairway("quota", "apply", "quota.yaml")
            k("wait", "--for=condition=Active", f"clusterqueue/{PLACE}", "--timeout=60s")
            yield Shop(k, fairway)
        finally:
            k("delete", "namespace", PLACE, "--ignore-not-found", "--timeout=180s")
            empty = {**DEFINITION, "spec": {**SPEC, "organizations": [], "flavors": ["any-node"]}}
            (work / "quota.yaml").write_text(yaml.safe_dump(empty))
            fairway("quota", "apply", "-y", "quota.yaml")
            k("delete", "quotadefinition", PLACE)


@pytest.fixture
def shop(installed: Shop) -> Iterator[Shop]:
    """Every test begins with an empty queue."""
    yield installed
    # Kueue holds the pods of a group as long as it has a Workload: others could take their place.
    installed.k("-n", PLACE, "delete", "managedjobs,jobs,workloads,pods", "--all", "--timeout=120s")
    eventually(installed.reserving, 0)


GANGS: dict[str, tuple[list[Any], str]] = {
    "Job": ([job("gang", 3, crowded())], "job-name=gang"),
    "pod group": (pod_group("gang", 3), f"{GROUP}=gang"),
    "ManagedJob": ([managed_job("gang", 3, 1, image_id="docker:python:3.11")], "fairway.dev/job=gang"),
}


@pytest.mark.parametrize("kind", GANGS)
def test_a_gang_waits_until_all_of_it_fits_and_then_starts_as_one(shop: Shop, kind: str) -> None:
    """The manifests are those of the tests of YuniKorn and Fairway."""
    manifests, chosen = GANGS[kind]
    shop.send(job("filler", 1, pod("2")))
    eventually(lambda: shop.phases("job-name=filler"), ["Running"])
    shop.send(*manifests)
    eventually(lambda: len(shop.items("workloads")), 2)
    assert set(shop.phases(chosen)) <= {"Pending"}, "two of them would have room"
    shop.k("-n", PLACE, "delete", "job", "filler")
    eventually(lambda: shop.phases(chosen), ["Running"] * 3)


def test_a_user_over_the_limit_waits_with_the_reason_and_starts_when_a_job_ends(shop: Shop) -> None:
    first, second = (managed_job(name, 1, 1, image_id="docker:python:3.11") for name in ("first", "second"))
    for one in (first, second):
        one["spec"]["queue"] = "limited"
    shop.send(first)
    eventually(shop.states, {"first": "RUNNING"})
    shop.send(second)
    eventually(lambda: "of the 1 cpu that a user of queue limited" in shop.over("ManagedJob", "second"))
    eventually(shop.reserving, 1)
    assert shop.states()["second"] == "PENDING"
    assert "may hold at once" in shop.fairway("jobs", "why", "second")

    shop.k("-n", PLACE, "delete", "managedjob", "first")
    eventually(lambda: shop.states()["second"], "RUNNING")


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_what_kubectl_creates_counts_for_the_user_who_created_it(shop: Shop, kind: str) -> None:
    first, second = job("first", 1, pod("1")), job("second", 1, pod("1"))
    if kind == "Pod":
        first, second = (one["spec"]["template"] | {"metadata": one["metadata"]} for one in (first, second))
    for one in (first, second):
        one["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "limited"}
    shop.create(first, kind)
    eventually(shop.reserving, 1)
    shop.create(second, kind)
    eventually(lambda: "of the 1 cpu that a user of queue limited" in shop.over(kind, "second"))
    eventually(shop.reserving, 1)

    shop.k("-n", PLACE, "delete", kind, "first")
    chosen = ("get", kind, "second", "-o", "jsonpath={.status.phase}{.status.ready}")
    eventually(lambda: shop.k("-n", PLACE, *chosen) in {"Running", "1"})


def test_an_organization_that_has_used_its_budget_waits_for_the_next_month(shop: Shop) -> None:
    asks = pod("1")
    asks["containers"][0]["resources"]["limits"] = {GPU: "1"}
    shop.send(job("gpu", 1, asks))
    month = datetime.now(UTC).replace(day=28, hour=0).timestamp() + 7 * 86400
    until = datetime.fromtimestamp(month, UTC).strftime("%Y-%m-01")
    eventually(lambda: f"it starts from {until}" in shop.over("Job", "gpu"))
    assert shop.phases("job-name=gpu") == []
    eventually(shop.reserving, 0)
