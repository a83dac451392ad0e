"""`make cluster` and `make cluster-down`: clusters beside each other, and nothing left of one that is down."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tools.cluster.install import dns
from tools.cluster.lifecycle import Place, RunningCluster, down, up
from tools.cluster.machine import hierarchies
from tools.cluster.places import Cache, ClusterError

pytestmark = pytest.mark.kubelet
_SCRIPT = "trap '' TERM; nslookup kubernetes.default.svc.cluster.local && touch /data/found; sleep 9999"
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "stubborn"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.35",
                "command": [
                    "sh",
                    "-c",
                    "trap '' TERM; nslookup kubernetes.default.svc.cluster.local && touch /data/found; sleep 9999",
                ],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "readinessProbe": {"exec": {"command": ["test", "-f", "/data/found"]}, "periodSeconds": 1},
            }
        ],
        "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}],
    },
}


@pytest.fixture
def place(cluster: RunningCluster, other_name: Callable[[], str]) -> Iterator[Place]:
    """A second cluster's, beside the one of all tests."""
    own = Place(other_name(), Cache.default())
    yield own
    down(own)


def _state() -> set[str]:
    """What of this machine a cluster could leave behind: mounts and network interfaces."""
    mounts = {line.split(" ", 5)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    return mounts | set(psutil.net_if_addrs())


def _namespaces() -> set[str]:
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/*"):
        try:
            found.add(str(link.readlink()))
        except OSError:  # its process has ended
            continue
    return found


def test_a_second_cluster_runs_beside_the_first_and_leaves_nothing(
    cluster: RunningCluster, place: Place, kubectl: Callable[[Path], Callable[..., str]]
) -> None:
    before = _state()
    second = up(place, print)
    dns(place)
    run = kubectl(second.kubeconfig)
    run("apply", "-f", "-", given=json.dumps(_POD))
    run("wait", "--for=condition=Ready", "pod/stubborn", "--timeout=120s")
    assert "node1" in kubectl(cluster.kubeconfig)("get", "nodes")
    uids = [
        kubectl(one.kubeconfig)("get", "ns/kube-system", "-o=jsonpath={.metadata.uid}") for one in (cluster, second)
    ]
    assert uids[0] != uids[1]

    holder = place.process()
    assert holder is not None
    inside = {child.pid for child in holder.children(recursive=True)}
    first = Path("/proc", str(holder.children()[0].pid), "ns")
    own = {str((first / kind).readlink()) for kind in ("mnt", "net", "pid", "uts", "ipc")}
    assert len(inside) > 10

    down(place)
    assert place.leftovers() == []
    assert not inside & set(psutil.pids())
    assert not own & _namespaces()
    assert _state() <= before
    assert not [path for folder in hierarchies() for path in folder.rglob(f"*{place.name}*")]
    assert "node1" in kubectl(cluster.kubeconfig)("get", "nodes")


def test_a_killed_component_is_started_again(place: Place, kubectl: Callable[[Path], Callable[..., str]]) -> None:
    second = up(place, print)
    killed = second.pid("kube-apiserver")
    second.kill("kube-apiserver")
    subprocess.run(  # noqa: S603
        ["timeout", "60", "sh", "-c", f"until kubectl --kubeconfig {second.kubeconfig} get nodes; do sleep 0.2; done"],  # noqa: S607
        check=True,
    )
    assert second.pid("kube-apiserver") != killed


def test_a_cluster_that_is_not_up_is_an_error_with_the_way_out(unique: str) -> None:
    with pytest.raises(ClusterError, match=f"make cluster NAME={unique}"):
        RunningCluster.find(unique)


def test_a_cluster_that_cannot_start_leaves_nothing(cluster: RunningCluster, tmp_path: Path, unique: str) -> None:
    cache = Cache(tmp_path)
    real = Cache.default()
    for name in ("etcd", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"):
        cache.path(name).parent.mkdir(parents=True, exist_ok=True)
        cache.path(name).symlink_to(real.path(name))
    place = Place(unique, cache)
    with pytest.raises(ClusterError, match="kube-apiserver is not built"):
        up(place, print)
    assert place.leftovers() == []
