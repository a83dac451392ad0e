"""Managed jobs on a real kubelet while the cluster breaks: none is lost, none runs twice at a time, none is stuck.

Every task takes a lock on the node that the kernel frees when its process ends, so an overlap of two attempts of a job
is seen for certain, and leaves a line for each time that it ran.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.install import dns, kueue
from tools.cluster.lifecycle import Place, RunningCluster, down, up
from tools.cluster.places import Cache

from .controllers import Controller, Kubectl, define, listed, namespace

pytestmark = pytest.mark.kubelet
_JOBS = 8
_SECONDS = 420
_QUEUES: list[Any] = [
    {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "node"}},
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "node"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [
                        {
                            "name": "node",
                            "resources": [
                                {"name": "cpu", "nominalQuota": 4},
                                {"name": "memory", "nominalQuota": "16Gi"},
                            ],
                        }
                    ],
                }
            ],
        },
    },
]
_SCRIPT = """
python3 - <<'END'
import fcntl, os, time
name = os.environ["JOB"]
lock = open(f"/shared/{name}.lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open("/shared/twice", "a").write(name + "\\n")
time.sleep(6)
open("/shared/ended", "a").write(name + "\\n")
END
"""


@pytest.fixture(scope="module", params=["none", "kueue"])
def admission(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def faulty(admission: str, other_name: Callable[[], str]) -> Iterator[RunningCluster]:
    """A cluster that these tests may break; that of all other tests stays as it is."""
    place = Place(other_name(), Cache.default())
    try:
        running = up(place, print)
        dns(place)
        if admission == "kueue":
            kueue(place)
        yield running
    finally:
        down(place)


@pytest.fixture
def k(faulty: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(faulty.kubeconfig)


@pytest.fixture
def running(faulty: RunningCluster, admission: str, k: Kubectl, tmp_path: Path) -> Iterator[Controller]:
    """Without webhooks, which the node cannot reach on this machine's loopback: jobs come with number and user."""
    define(k, admission)
    found = Controller(faulty.kubeconfig, tmp_path / "state", admission)
    try:
        yield found.lead()
    finally:
        found.stop()


class Jobs:
    """Managed jobs in a namespace, and what their processes left on the node."""

    def __init__(self, k: Kubectl, place: str, shared: Path, admission: str) -> None:
        """`shared` is a directory of this machine, which the node sees, too."""
        self._k = k
        self._place = place
        self._shared = shared
        shared.mkdir()
        k("create", "-f", "-", given=json.dumps(namespace(place)))
        if admission == "kueue":
            local = {"metadata": {"name": "team", "namespace": place}, "spec": {"clusterQueue": "node"}}
            queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", **local}
            k("apply", "-f", "-", given=json.dumps(listed([*_QUEUES, queue])))
        self.names = [f"job-{number}" for number in range(1, _JOBS + 1)]
        jobs = [self._job(name, number, admission) for number, name in enumerate(self.names, 1)]
        k("create", "-f", "-", given=json.dumps(listed(jobs)))

    def _job(self, name: str, number: int, admission: str) -> Any:
        mount = {"name": "shared", "mountPath": "/shared"}
        container = {"volumeMounts": [mount], "env": [{"name": "JOB", "value": name}]}
        volume = {"name": "shared", "hostPath": {"path": str(self._shared)}}
        pod = {"spec": {"terminationGracePeriodSeconds": 1, "volumes": [volume], "containers": [container]}}
        spec: dict[str, Any] = {"id": number, "user": "tester", "podConfig": pod}
        if admission == "kueue":
            spec["queue"] = "team"
        spec["tasks"] = [{"run": _SCRIPT, "resources": {"cpus": 1, "memory": 1}}]
        metadata = {"name": name, "namespace": self._place}
        return {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "metadata": metadata, "spec": spec}

    def ended(self) -> set[str]:
        """Jobs whose process came to its end."""
        path = self._shared / "ended"
        return set(path.read_text().split()) if path.exists() else set()

    def until(self, count: int) -> None:
        """Wait until so many jobs came to their end."""
        deadline = time.monotonic() + _SECONDS
        while len(self.ended()) < count:
            assert time.monotonic() < deadline, self._phases()
            time.sleep(0.2)

    def check(self) -> None:
        """All succeeded, and none ran twice at a time."""
        deadline = time.monotonic() + _SECONDS
        while set(self._phases().values()) != {"SUCCEEDED"}:
            assert time.monotonic() < deadline, self._phases()
            time.sleep(0.5)
        assert set(self._phases()) == set(self.names)
        assert self.ended() == set(self.names)
        assert not (self._shared / "twice").exists(), (self._shared / "twice").read_text()
        assert not self._k("get", "pods", "-n", self._place, "--field-selector=status.phase=Running", "-o", "name")

    def recoveries(self) -> int:
        """How many attempts followed one that was lost."""
        items = json.loads(self._k("get", "mj", "-n", self._place, "-o", "json"))["items"]
        return sum(len(item["status"]["attempts"]) - 1 for item in items)

    def _phases(self) -> dict[str, str]:
        """Phases by name; empty while the API does not answer."""
        try:
            items = json.loads(self._k("get", "mj", "-n", self._place, "-o", "json"))["items"]
        except AssertionError:
            return {}
        return {item["metadata"]["name"]: (item.get("status") or {}).get("phase", "") for item in items}


@pytest.fixture
def jobs(running: Controller, k: Kubectl, unique: str, tmp_path: Path, admission: str) -> Jobs:
    return Jobs(k, unique, tmp_path / "shared", admission)


def test_jobs_end_once_each_when_kube_apiserver_and_etcd_are_killed(faulty: RunningCluster, jobs: Jobs) -> None:
    for count, program in enumerate(("kube-apiserver", "etcd", "kube-apiserver"), 1):
        jobs.until(count)
        faulty.kill(program)
    jobs.check()


def test_jobs_end_once_each_when_their_node_is_deleted_and_comes_back(
    faulty: RunningCluster, jobs: Jobs, k: Kubectl
) -> None:
    jobs.until(2)
    k("delete", "node", "node1", "--wait=false")
    time.sleep(5)  # attempts of pods that have no node any more are seen as lost
    faulty.kill("kubelet")  # registers again when it starts
    jobs.check()
    assert jobs.recoveries() > 0


def test_jobs_end_once_each_when_the_kubelet_and_the_leader_are_killed(
    faulty: RunningCluster, jobs: Jobs, running: Controller, admission: str
) -> None:
    jobs.until(1)
    faulty.kill("kubelet")
    running.kill()
    second = Controller(faulty.kubeconfig, running.state, admission).lead()
    try:
        jobs.check()
    finally:
        second.stop()
