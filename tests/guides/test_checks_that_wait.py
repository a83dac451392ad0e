"""A job that has its quota and waits for an admission check says so, wherever one looks (guide 001)."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clients.fairway import Fairway
from clients.kubectl import Kubectl
from fairway.testing.servers import Server

DATA = Path(__file__).parent.parent / "clients" / "data" / "v1beta1"
HERE = ("--namespace", "skypilot")
CHECK = "skypilot-kueue-prov"


def set_up(fairway: Fairway, kubectl: Kubectl) -> None:
    for name in ("kueue-resource-flavor.yaml", "kueue-admission-check.yaml"):
        fairway("apply", "-f", str(DATA / name))
    kubectl("create namespace skypilot")
    fairway("apply", "-f", str(DATA / "kueue.yaml"))


def launch(fairway: Fairway, name: str) -> None:
    fairway(
        "jobs", "launch", "-d", "-y", "-n", name, "--cpus", "10", "--memory", "1", "--workdir", "none",
        "--queue", "skypilot-local-queue", *HERE, "--", "sleep", "1000",
    )  # fmt: skip


def why(fairway: Fairway, *words: str) -> str:
    """What is said of the job, once it has all of these words."""
    end = time.monotonic() + 60
    while any(one not in (said := fairway("jobs", "why", "second", *HERE)) for one in words):
        assert time.monotonic() < end, f"{words} are not in: {said}"
        time.sleep(0.1)
    return said


def counts_of(fairway: Fairway, name: str) -> tuple[int, int]:
    """How many jobs run and wait in a ClusterQueue, as `fairway queues` says."""
    (queue,) = [one for one in fairway.json("queues")["clusterQueues"] if one["name"] == name]
    return queue["running"], queue["pending"]


def test_capacity_that_is_not_found(server: Server, kubectl: Kubectl, tmp_path: Path) -> None:
    fairway = Fairway(server.state, tmp_path)
    set_up(fairway, kubectl)
    launch(fairway, "first")
    launch(fairway, "second")
    sentence = f"as its quota and waits for check {CHECK}: Capacity is not found, CA will try to find it later."

    assert "fairway get provisioningrequests --namespace skypilot" in why(fairway, sentence)
    assert sentence in fairway("jobs", "queue", *HERE)
    assert sentence in fairway("get", "waitingjobs", *HERE)
    deadline = time.monotonic() + 60
    while counts_of(fairway, "skypilot-cluster-queue") != (1, 1):  # the status of a queue may lag behind
        assert time.monotonic() < deadline, counts_of(fairway, "skypilot-cluster-queue")
    assert "1 running, 1 waiting" in fairway("top", "--once")

    fairway("jobs", "cancel", "-y", "first", *HERE)
    end = time.monotonic() + 60
    while "RUNNING" not in fairway("jobs", "queue", *HERE):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert "waits for check" not in fairway("jobs", "why", "second", *HERE)


def test_a_check_that_asks_for_another_try_and_one_that_rejects(
    server: Server, kubectl: Kubectl, tmp_path: Path
) -> None:
    fairway = Fairway(server.state, tmp_path)
    set_up(fairway, kubectl)
    kubectl("delete admissioncheck", CHECK, "--wait=false")
    kubectl("patch admissioncheck --type=merge -p", '{"metadata": {"finalizers": null}}', CHECK)
    budget = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": CHECK},
        "spec": {"controllerName": "acme.com/budget"},
    }
    kubectl("apply -f -", given=budget)
    active = {"type": "Active", "status": "True", "reason": "A", "message": "m", "lastTransitionTime": STAMP}
    kubectl("patch admissioncheck --subresource=status --type=merge -p", _json({"conditions": [active]}), CHECK)
    launch(fairway, "second")
    why(fairway, f"as its quota and waits for check {CHECK}, which has not answered yet")

    workload = fairway.json("get", "workloads", *HERE)["items"][0]["metadata"]["name"]
    verdict(kubectl, workload, "Retry", "no budget today")
    why(fairway, "retried at", "quota was released because a check asked for a retry", "no budget today")
    why(fairway, "as its quota and waits for check")
    verdict(kubectl, workload, "Rejected", "never")
    why(fairway, "deactivated", "never")


STAMP = "2026-01-01T00:00:00Z"


def verdict(kubectl: Kubectl, workload: str, state: str, message: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said: dict[str, Any] = {"name": CHECK, "state": state, "message": message, "lastTransitionTime": now}
    if state == "Retry":
        said["requeueAfterSeconds"] = 15
    patch = _json({"admissionChecks": [said]})
    kubectl("-n skypilot patch workload --subresource=status --type=merge -p", patch, workload)


def _json(status: dict[str, Any]) -> str:
    return json.dumps({"status": status})
