"""Which pods run outside every queue, and what is said of them."""

from typing import Any

from fairway.cli.outside import Outsider, _outside, on_nodes, sentence, unschedulable

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


def pod(
    name: str, labels: dict[str, str] | None = None, *, node: str = "n1", phase: str = "Running", owner: Any = None
) -> Any:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "labels": labels or {}}
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": owner[0], "uid": owner[1], "name": "o", "controller": True}]
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}, "status": {"phase": phase}}


def test_only_what_no_queue_decided_about_and_runs_is_outside() -> None:
    pods = [
        pod("bare"),
        pod("queued", QUEUE),
        pod("of-managed", owner=("ManagedJob", "m")),
        pod("of-queued-job", owner=("Job", "queued")),
        pod("of-free-job", owner=("Job", "free")),
        pod("ended", phase="Succeeded"),
        pod("waits", node=""),
    ]

    assert [one.name for one in on_nodes(_outside(pods, {"queued"}))] == ["bare", "of-free-job"]


def test_what_is_said_of_them() -> None:
    found = on_nodes(_outside([pod(f"p{number}") for number in range(7)], set()))

    assert sentence(found) == (
        "7 pods run outside every queue and take cpu 3.5, memory 7Gi, without quota: "
        "ns/p0, ns/p1, ns/p2, ns/p3, ns/p4 and 2 more"
    )
    assert sentence([Outsider("ns", "p", {})]) == "1 pod runs outside every queue, without quota: ns/p"
    assert sentence([]) == ""


def test_a_pod_that_gets_no_node_is_named_with_the_reason() -> None:
    waiting = pod("p", node="", phase="Pending")
    waiting["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no scheduler named x runs here",
        }
    ]

    found = _outside([waiting, pod("runs"), pod("new", node="", phase="Pending")], set())

    assert unschedulable(found) == ("1 pod outside every queue waits for a node: ns/p (no scheduler named x runs here)")
    assert unschedulable([pod("runs")]) == ""
