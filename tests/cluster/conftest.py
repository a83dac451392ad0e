"""Tests on a real Kubernetes. `make test-cluster` runs them; `make test` does not.

Fixtures, from cheap to costly; a test asks for the least that it needs:

- `apiserver`: etcd and kube-apiserver, shared by all tests of the session (`fresh_apiserver` for one test alone, which
  may then stop and start its parts). Objects that a test creates belong into a namespace of its own (`namespace`).
- `control_plane`: the same with kube-controller-manager and kube-scheduler.
- `cluster`: the one-node cluster with a kubelet that `make cluster` started. Its tests have the marker `kubelet`.
- `kuberay`: the same with KubeRay and Ray (`make cluster RAY=1`). Its tests have the marker `kuberay`, too, and are run
  by `make test-cluster RAY=1`.
- `yunikorn`: the same with YuniKorn (`make cluster KUEUE=0 YUNIKORN=1`). Its tests have the marker `yunikorn`, and are
  run by `make test-cluster KUEUE=0 YUNIKORN=1`; with `RAY=1` those with KubeRay, too.
"""

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.cluster.apiserver import ApiServer
from tools.cluster.images import Images, fairway_image
from tools.cluster.install import dns
from tools.cluster.lifecycle import Place, RunningCluster, down, up
from tools.cluster.places import Cache

from .controllers import Controller, Kubectl, controller

ROOT = Path(__file__).parents[2]
Helm = Callable[..., subprocess.CompletedProcess[str]]
_CLUSTER = os.environ.get("FAIRWAY_CLUSTER_NAME", "fairway")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kubelet: needs the whole cluster of `make cluster`")
    config.addinivalue_line("markers", "kuberay: needs a cluster with KubeRay, of `make cluster RAY=1`")
    config.addinivalue_line("markers", "yunikorn: needs a cluster with YuniKorn, of `make cluster YUNIKORN=1`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if {"cluster", "cluster_without_kueue"} & set(fixtures):
            item.add_marker(pytest.mark.kubelet)
        if "kuberay" in fixtures:
            item.add_marker(pytest.mark.kuberay)
        if "yunikorn" in fixtures:
            item.add_marker(pytest.mark.yunikorn)


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """etcd and kube-apiserver on free ports of loopback; `.kubeconfig` is its administrator's."""
    with ApiServer(tmp_path_factory.mktemp("apiserver")) as running:
        yield running


@pytest.fixture
def fresh_apiserver(tmp_path: Path) -> Iterator[ApiServer]:
    """The same for one test alone."""
    with ApiServer(tmp_path / "apiserver") as running:
        yield running


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """With kube-controller-manager and kube-scheduler, and no node."""
    with ApiServer(tmp_path_factory.mktemp("control-plane"), controllers=True, scheduler=True) as running:
        yield running


@pytest.fixture(scope="session")
def cluster() -> RunningCluster:
    """The cluster that `make cluster` started; `.kubeconfig` is its administrator's."""
    return RunningCluster.find(_CLUSTER)


@pytest.fixture(scope="session")
def cluster_without_kueue(other_name: Callable[[], str]) -> Iterator[RunningCluster]:
    """A whole cluster of the session's own, without Kueue."""
    place = Place(other_name(), Cache.default())
    try:
        found = up(place, print)
        dns(place)
        yield found
    finally:
        down(place)


@pytest.fixture(scope="session")
def tree_image() -> str:
    """The image of the controller as this tree has it, for a cluster that is up already."""
    Images(Cache.default(), print).make(["fairway"])
    return fairway_image()


@pytest.fixture(scope="session")
def kuberay(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> RunningCluster:
    """The same, where KubeRay's operator is installed."""
    kubectl(cluster.kubeconfig)("rollout", "status", "deployment/kuberay-operator", "--timeout=60s")
    return cluster


@pytest.fixture(scope="session")
def yunikorn(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> RunningCluster:
    """The same, where YuniKorn is installed."""
    kubectl(cluster.kubeconfig)("-n", "yunikorn", "rollout", "status", "deployment/yunikorn-scheduler", "--timeout=60s")
    return cluster


@pytest.fixture(scope="session")
def other_name() -> Callable[[], str]:
    """Names for clusters that a test starts itself; `make test-cluster` removes what is left of them."""
    return lambda: f"{_CLUSTER}-test-{uuid.uuid4().hex[:6]}"


@pytest.fixture(scope="session")
def kubectl() -> Callable[[Path], Kubectl]:
    """kubectl for a kubeconfig: `kubectl(apiserver.kubeconfig)("get", "nodes")` is what it printed."""
    binary = _output(str(ROOT / "tools" / "kubectl" / "get"))

    def of(kubeconfig: Path) -> Kubectl:
        def run(*arguments: str, given: str = "") -> str:
            return _output(binary, "--kubeconfig", str(kubeconfig), *arguments, given=given)

        return run

    return of


def _output(*command: str, given: str = "") -> str:
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert ended.returncode == 0, f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr or ended.stdout}"
    return ended.stdout.strip()


@pytest.fixture(scope="session")
def helm_binary() -> str:
    found = subprocess.run([ROOT / "tools/helm/get"], capture_output=True, text=True, check=True)  # noqa: S603
    return found.stdout.strip()


@pytest.fixture
def helm(helm_binary: str, tmp_path: Path) -> Helm:
    """helm with an empty home."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        command = [helm_binary, *arguments]
        return subprocess.run(  # noqa: S603 - our own
            command, capture_output=True, text=True, check=False, timeout=900, env=environment
        )

    return run


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """For one module, with kube-controller-manager."""
    with ApiServer(tmp_path_factory.mktemp("api"), controllers=True) as running:
        yield running


@pytest.fixture
def k(api: ApiServer, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(api.kubeconfig)


@pytest.fixture
def running(api: ApiServer, admission: str, k: Kubectl, tmp_path: Path) -> Iterator[Controller]:
    """A controller that leads; the module's own fixture `admission` is its way."""
    with controller(api.kubeconfig, tmp_path / "state", admission, k) as found:
        yield found


@pytest.fixture
def unique() -> str:
    """A name that no other test uses, for namespaces and cluster-wide objects."""
    return f"test-{uuid.uuid4().hex[:8]}"
