"""Nodes declared in a file."""

from pathlib import Path

import pytest

from fairway.runner.declared import DeclaredNodesError, read_nodes
from fairway.testing.servers import Server
from runner.supervising.servers import eventually


def declared(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    return path


def test_a_line_with_a_count_is_so_many_nodes(tmp_path: Path) -> None:
    text = "nodes:\n- {name: a, count: 2, labels: {rack: r1}, capacity: {cpu: 4, nvidia.com/gpu: 8}}\n"
    found = read_nodes(declared(tmp_path, text))
    assert [node["metadata"]["name"] for node in found] == ["a-0", "a-1"]
    assert found[0]["metadata"]["labels"] == {"kubernetes.io/hostname": "a-0", "rack": "r1"}
    assert found[0]["status"]["allocatable"] == {"cpu": "4", "nvidia.com/gpu": "8", "pods": "500"}


def test_a_list_of_nodes_as_kubectl_prints_it(tmp_path: Path) -> None:
    text = """
kind: List
items:
- metadata: {name: x1, labels: {kubernetes.io/hostname: x1, rack: r1}, uid: u}
  spec: {taints: [{key: gpu, effect: NoSchedule}]}
  status: {capacity: {cpu: "8"}, allocatable: {cpu: 7500m, pods: "110"}}
"""
    (node,) = read_nodes(declared(tmp_path, text))
    assert node["spec"] == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert node["status"]["capacity"] == {"cpu": "7500m", "pods": "110"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "write a list `nodes`"),
        ("nodes: [{name: A, capacity: {cpu: 1}}]", "nodes[0].name: 'A' is not a DNS name"),
        ("nodes: [{name: a}]", "nodes[0].capacity: give at least cpu"),
        ("nodes: [{name: a, capacity: {cpu: many}}]", "nodes[0].capacity: cpu: 'many' is not an amount"),
        ("nodes: [{name: a, capacity: {cpu: 1}, count: 0}]", "nodes[0].count: 0 is not a number"),
        ("nodes: [{name: a, rack: r1, capacity: {cpu: 1}}]", "nodes[0]: unknown field rack"),
        ("nodes: [", "nodes.yaml: "),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DeclaredNodesError) as refused:
        read_nodes(declared(tmp_path, text))
    assert said in str(refused.value)


BLOCK, RACK, HOST = "cloud/block", "cloud/rack", "kubernetes.io/hostname"
SHAPE = f"""
nodes:
- {{name: a, count: 2, labels: {{group: tas, {BLOCK}: b1, {RACK}: r1}}, capacity: {{cpu: 1, nvidia.com/gpu: 4}}}}
- {{name: b, count: 2, labels: {{group: tas, {BLOCK}: b2, {RACK}: r2}}, capacity: {{cpu: 1, nvidia.com/gpu: 4}}}}
"""
KUEUE = "kueue.x-k8s.io/v1beta2"
QUOTAS = [{"name": "cpu", "nominalQuota": 8}, {"name": "nvidia.com/gpu", "nominalQuota": 32}]
OBJECTS = {
    "topologies": {
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": [{"nodeLabel": level} for level in (BLOCK, RACK, HOST)]},
    },
    "resourceflavors": {
        "kind": "ResourceFlavor",
        "metadata": {"name": "tas"},
        "spec": {"topologyName": "default", "nodeLabels": {"group": "tas"}},
    },
    "clusterqueues": {
        "kind": "ClusterQueue",
        "metadata": {"name": "tas"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "nvidia.com/gpu"],
                    "flavors": [{"name": "tas", "resources": QUOTAS}],
                }
            ],
        },
    },
    "namespaces/default/localqueues": {
        "kind": "LocalQueue",
        "metadata": {"name": "tas"},
        "spec": {"clusterQueue": "tas"},
    },
}
REQUESTS = {"cpu": "1", "nvidia.com/gpu": "4"}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "tas"}},
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "completionMode": "Indexed",
        "template": {
            "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": BLOCK}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "c",
                        "image": "busybox",
                        "command": ["sleep", "600"],
                        "resources": {"requests": REQUESTS, "limits": REQUESTS},
                    }
                ],
            },
        },
    },
}


def test_a_job_runs_on_declared_nodes_and_moves_when_one_is_gone(tmp_path: Path) -> None:
    """Through a real server: placed in one block, ungated by index, run as processes, evicted to the other block."""
    with Server(tmp_path / "state", "--nodes", str(declared(tmp_path, SHAPE)), jobs=True) as server:
        for path, made in OBJECTS.items():
            assert server.call("POST", f"/apis/{KUEUE}/{path}", {"apiVersion": KUEUE, **made}).code == 201
        assert server.call("POST", "/apis/batch/v1/namespaces/default/jobs", JOB).code == 201

        def running_on() -> list[str]:
            pods = server.call("GET", "/api/v1/namespaces/default/pods").body["items"]
            return sorted(
                pod["spec"].get("nodeName", "") for pod in pods if (pod.get("status") or {}).get("phase") == "Running"
            )

        eventually(lambda: running_on() == ["a-0", "a-1"])
        assert server.call("DELETE", "/api/v1/nodes/a-1").code == 200
        eventually(lambda: running_on() == ["b-0", "b-1"])
