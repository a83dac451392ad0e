"""Tests on a real Kubernetes. `make test-cluster` runs them; `make test` does not.

Three fixtures, from cheap to costly; a test asks for the least that it needs:

- `apiserver`: etcd and kube-apiserver, shared by all tests of the session (`fresh_apiserver` for one test alone, which
  may then stop and start its parts). Objects that a test creates belong into a namespace of its own (`namespace`).
- `control_plane`: the same with kube-controller-manager and kube-scheduler.
- `cluster`: the one-node cluster with a kubelet that `make cluster` started. Its tests have the marker `kubelet`.
"""

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.cluster.apiserver import ApiServer
from tools.cluster.lifecycle import RunningCluster

ROOT = Path(__file__).parents[2]
Kubectl = Callable[..., str]
_CLUSTER = os.environ.get("FAIRWAY_CLUSTER_NAME", "fairway")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kubelet: needs the whole cluster of `make cluster`")
    config.addinivalue_line("markers", "control_plane: needs kube-controller-manager and kube-scheduler")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "cluster" in fixtures:
            item.add_marker(pytest.mark.kubelet)
        if "control_plane" in fixtures:
            item.add_marker(pytest.mark.control_plane)


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


@pytest.fixture
def unique() -> str:
    """A name that no other test uses, for namespaces and cluster-wide objects."""
    return f"test-{uuid.uuid4().hex[:8]}"
