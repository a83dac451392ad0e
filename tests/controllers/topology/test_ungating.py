"""Which gated pod goes where."""

from typing import Any

import pytest

from fairway.apis.kueue.placements import DomainPods, Placement, encode
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.topology.ungating import decide

HOST = "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"


def workload(hosts: dict[str, int], *, failed: tuple[str, ...] = (), admitted: bool = True, **request: Any) -> Manifest:
    placement = Placement((HOST,), tuple(DomainPods((host,), pods) for host, pods in hosts.items()))
    assignment = {"name": "main", "count": sum(hosts.values()), "topologyAssignment": encode(placement)}
    return {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"podSets": [{"name": "main", "count": sum(hosts.values()), "topologyRequest": request}]},
        "status": {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
            "conditions": [{"type": "Admitted", "status": "True" if admitted else "False"}],
            "unhealthyNodes": [{"name": name} for name in failed],
        },
    }


def pod(name: str, *, at: str = "", phase: str = "Pending", **labels: str) -> Manifest:
    """A pod behind its gate, or one that runs `at` a host."""
    spec: Manifest = {"nodeSelector": {HOST: at}} if at else {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/podset": "main", **labels}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def ranked(name: str, index: int, **rest: Any) -> Manifest:
    return pod(name, **rest, **{INDEX: str(index)})


BY_INDEX: dict[str, Any] = {"podIndexLabel": INDEX}


@pytest.mark.parametrize(
    ("placed", "pods", "expected"),
    [
        pytest.param(workload({"a": 1, "b": 1}), [pod("p"), pod("q")], {"p": "a", "q": "b"}, id="as they come"),
        pytest.param(
            workload({"a": 1, "b": 1}),
            [pod("p", at="a"), pod("q")],
            {"q": "b"},
            id="not into a full domain",
        ),
        pytest.param(
            workload({"a": 1}),
            [pod("p", at="a", phase="Failed"), pod("q")],
            {"q": "a"},
            id="ended pods take no place",
        ),
        pytest.param(
            workload({"a": 1, "b": 2}, **BY_INDEX),
            [ranked("p", 2), ranked("q", 0), ranked("r", 1)],
            {"q": "a", "r": "b", "p": "b"},
            id="by rank",
        ),
        pytest.param(
            workload({"a": 1, "b": 1}, **BY_INDEX),
            [ranked("p", 0, at="b"), ranked("q", 1)],
            {"q": "a"},
            id="a pod that runs elsewhere makes ranks useless",
        ),
        pytest.param(
            workload({"a": 1, "b": 1}, **BY_INDEX),
            [ranked("p", 0), ranked("q", 0)],
            {"p": "a", "q": "b"},
            id="double ranks are not used",
        ),
        pytest.param(workload({"a": 1}, admitted=False), [pod("p")], {}, id="nothing before the admission"),
        pytest.param(
            workload({"a": 1, "b": 1}, failed=("a",)), [pod("p"), pod("q")], {"q": "b"}, id="nothing to a failed node"
        ),
    ],
)
def test_gated_pods_get_their_domain(placed: Manifest, pods: list[Manifest], expected: dict[str, str]) -> None:
    found = decide(placed, pods)
    assert {one.pod["metadata"]["name"]: one.selector[HOST] for one in found} == expected


def test_workers_count_on_from_their_leader() -> None:
    leader = encode(Placement((HOST,), (DomainPods(("a",), 1),)))
    workers = encode(Placement((HOST,), (DomainPods(("a",), 1), DomainPods(("b",), 1))))
    request = {"podSetGroupName": "g", **BY_INDEX}
    placed = workload({})
    placed["spec"]["podSets"] = [
        {"name": "leader", "count": 1, "topologyRequest": request},
        {"name": "main", "count": 2, "topologyRequest": request},
    ]
    placed["status"]["admission"]["podSetAssignments"] = [
        {"name": "leader", "count": 1, "topologyAssignment": leader},
        {"name": "main", "count": 2, "topologyAssignment": workers},
    ]
    found = decide(placed, [ranked("w2", 2), ranked("w1", 1)])
    assert {one.pod["metadata"]["name"]: one.selector[HOST] for one in found} == {"w1": "a", "w2": "b"}
