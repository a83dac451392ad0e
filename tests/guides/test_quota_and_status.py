"""Guide 003 with batch Jobs: the status of a ClusterQueue, priorities, and a raised quota that lets more in."""

from pathlib import Path
from typing import Any

from clients.kubectl import Kubectl

from .playing import WAIT, job

DATA = Path(__file__).parent.parent / "clients" / "data" / "v1beta1"
NEEDS = {"cpu": "2", "memory": "8G", "nvidia.com/gpu": "1"}


def create(kubectl: Kubectl, prefix: str, priority: str, command: list[str]) -> str:
    made = kubectl(
        "create -f -", given=job(f"{prefix}-pytorch-text-classifier-", "user-queue", NEEDS, command, priority)
    )
    return made.split()[0].partition("/")[2]


def status(kubectl: Kubectl) -> dict[str, Any]:
    found: dict[str, Any] = kubectl.json("get clusterqueues.v1beta1.kueue.x-k8s.io cluster-queue")["status"]
    return found


def test_the_queue_tells_what_it_holds_and_more_quota_lets_more_in(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply -f", str(DATA / "kueue-resources.yaml"))
    go = [*WAIT, str(tmp_path / "go")]
    dev = [create(kubectl, "dev", "dev-priority", go)]
    kubectl(f"wait --for=jsonpath={{.status.ready}}=1 job/{dev[0]} --timeout=20s")
    dev += [create(kubectl, "dev", "dev-priority", go) for _ in range(2)]

    kubectl("wait --for=jsonpath={.status.pendingWorkloads}=2 clusterqueue/cluster-queue --timeout=20s")
    assert kubectl.table("get clusterqueue cluster-queue") == [
        ["NAME", "COHORT", "PENDING WORKLOADS"],
        ["cluster-queue", "", "2"],
    ]
    block = [
        {
            "name": "default-flavor",
            "resources": [
                {"borrowed": "0", "name": "cpu", "total": "2"},
                {"borrowed": "0", "name": "memory", "total": "8G"},
                {"borrowed": "0", "name": "nvidia.com/gpu", "total": "1"},
            ],
        }
    ]
    found = status(kubectl)
    assert found["flavorsReservation"] == found["flavorsUsage"] == _with_binary_memory(block)
    assert (found["admittedWorkloads"], found["reservingWorkloads"], found["pendingWorkloads"]) == (1, 1, 2)

    prod = create(kubectl, "prod", "prod-priority", go)
    kubectl(f"wait --for=jsonpath={{.status.ready}}=1 job/{prod} --timeout=20s")
    kubectl(f"wait --for=condition=Suspended job/{dev[0]} --timeout=20s")
    pods = [row for row in kubectl.table("get pods")[1:] if row[2] == "Running"]
    assert [row[0].rpartition("-")[0] for row in pods] == [prod]

    kubectl("apply -f", str(DATA / "more-quota.yaml"))
    for name in dev:
        kubectl(f"wait --for=jsonpath={{.status.ready}}=1 job/{name} --timeout=20s")
    (tmp_path / "go").touch()
    kubectl(f"wait --for=condition=Complete job/{prod}", *(f"job/{name}" for name in dev), "--timeout=30s")
    kubectl("wait --for=jsonpath={.status.reservingWorkloads}=0 clusterqueue/cluster-queue --timeout=20s")


def _with_binary_memory(block: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kueue counts memory in whole bytes and writes it in powers of two."""
    for resource in block[0]["resources"]:
        if resource["name"] == "memory":
            resource["total"] = "7812500Ki"
    return block
