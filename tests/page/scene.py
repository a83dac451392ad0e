"""What the page shows in tests and pictures: two teams that share eight CPUs and four GPUs, and their jobs."""

import time
from collections.abc import Callable
from typing import Any

from fairway.testing.servers import HTTPAnswer, Server

JOBS = "/apis/fairway.dev/v1alpha1"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
SERVER_OPTIONS = ("--cpus", "8", "--memory", "32Gi", "--gpus", "T4:4")
_SECONDS = 120.0
_AT_ONCE = 500

TRAIN = "for step in $(seq 1 400); do echo step $step of 400, loss 0.$((900 - step)); sleep 0.05; done; sleep 3600"


def created(answer: HTTPAnswer) -> Any:
    assert answer.code in {200, 201}, answer
    return answer.body


def until(what: Callable[[], Any], seconds: float = _SECONDS) -> Any:
    """Ask until the answer is yes; for a server, which has no events for the test."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def queue(server: Server, name: str, cpus: int, gpus: int) -> None:
    """A team: a namespace, a ClusterQueue in the cohort `teams`, and a LocalQueue."""
    resources = [("cpu", cpus), ("memory", f"{4 * cpus}Gi"), ("nvidia.com/gpu", gpus)]
    created(server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
    spec = {
        "cohortName": "teams",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        "resourceGroups": [
            {
                "coveredResources": [one for one, _ in resources],
                "flavors": [
                    {
                        "name": "default-flavor",
                        "resources": [{"name": one, "nominalQuota": str(amount)} for one, amount in resources],
                    }
                ],
            }
        ],
    }
    created(server.call("POST", f"{KUEUE}/clusterqueues", {"metadata": {"name": name}, "spec": spec}))
    local = {"metadata": {"name": "default"}, "spec": {"clusterQueue": name}}
    created(server.call("POST", f"{KUEUE}/namespaces/{name}/localqueues", local))


def user(server: Server, name: str, role: str, namespace: str = "") -> str:
    """The token of a new user."""
    binding = {"role": role, **({"namespace": namespace} if namespace else {})}
    body = {"kind": "User", "metadata": {"name": name}, "spec": {"bindings": [binding]}}
    return str(created(server.call("POST", f"{JOBS}/users", body))["status"]["token"])


def job(
    server: Server,
    namespace: str,
    name: str,
    run: str,
    *,
    token: str | None = None,
    priority: int = 0,
    **resources: Any,
) -> str:
    """The name of a new managed job."""
    task = {"resources": resources or {"cpus": 1}, "run": run}
    manifest = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": {"generateName": f"{name}-"},
        "spec": {"name": name, "tasks": [task], **({"priority": priority} if priority else {})},
    }
    made = created(server.call("POST", f"{JOBS}/namespaces/{namespace}/managedjobs", manifest, token=token))
    return str(made["metadata"]["name"])


def phase(server: Server, namespace: str, name: str) -> str:
    found = server.call("GET", f"{JOBS}/namespaces/{namespace}/managedjobs/{name}").body
    return str((found.get("status") or {}).get("phase", ""))


def patched(server: Server, namespace: str, name: str, **spec: Any) -> None:
    path = f"{JOBS}/namespaces/{namespace}/managedjobs/{name}"
    created(server.call("PATCH", path, {"spec": spec}, content_type="application/merge-patch+json"))


def ten_jobs(server: Server) -> dict[str, str]:
    """Two teams with ten jobs in all states: one was preempted, one failed, one is held, some wait. Tokens by user."""
    server.call("DELETE", f"{KUEUE}/namespaces/default/localqueues/default")
    server.call("DELETE", f"{KUEUE}/clusterqueues/cluster-queue")
    queue(server, "vision", 4, 2)
    queue(server, "speech", 4, 2)
    tokens = {
        "ana": user(server, "ana", "editor", "vision"),
        "ben": user(server, "ben", "editor", "speech"),
        "eva": user(server, "eva", "viewer"),
    }
    ana, ben = tokens["ana"], tokens["ben"]
    failed = job(server, "vision", "check-data", "echo reading shards; echo no such shard: 17 >&2; exit 3", token=ana)
    short = job(server, "speech", "tokenize", "echo 18204 files; echo done", token=ben)
    until(lambda: phase(server, "vision", failed) == "FAILED" and phase(server, "speech", short) == "SUCCEEDED")
    train = job(server, "vision", "train-resnet", TRAIN, token=ana, cpus=2, memory=8, accelerators="T4:1")
    job(server, "vision", "train-vit", TRAIN, token=ana, cpus=2, memory=8, accelerators="T4:2")
    borrowing = job(server, "vision", "sweep-lr", TRAIN, token=ana, cpus=2, memory=4, priority=-10)
    until(lambda: phase(server, "vision", train) == "RUNNING" and phase(server, "vision", borrowing) == "RUNNING")
    asr = job(server, "speech", "train-asr", TRAIN, token=ben, cpus=3, memory=8, accelerators="T4:1", priority=50)
    until(lambda: phase(server, "speech", asr) == "RUNNING")
    job(server, "vision", "eval-coco", "sleep 600", token=ana, cpus=4, memory=4)
    job(server, "speech", "align", "sleep 600", token=ben, cpus=3, memory=4)
    held = job(server, "speech", "nightly-export", "sleep 600", token=ben, cpus=1, memory=1)
    patched(server, "speech", held, hold=True)
    job(server, "vision", "distill", "sleep 600", token=ana, cpus=8, memory=4)
    return tokens


def many_jobs(server: Server, count: int, namespace: str = "default") -> None:
    """So many jobs of one launch; most of them wait."""
    task = {"resources": {"cpus": 2}, "run": "sleep 3600"}
    for start in range(0, count, _AT_ONCE):
        operations = [
            {
                "verb": "create",
                "manifest": {
                    "apiVersion": "fairway.dev/v1alpha1",
                    "kind": "ManagedJob",
                    "metadata": {"name": f"sweep-{number}", "namespace": namespace},
                    "spec": {"name": "sweep", "tasks": [task]},
                },
            }
            for number in range(start, min(count, start + _AT_ONCE))
        ]
        body = {"kind": "Transaction", "spec": {"operations": operations}}
        created(server.call("POST", f"{JOBS}/namespaces/{namespace}/transactions", body))
