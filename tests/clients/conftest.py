"""A real server and real clients. The tests of a worker share the server; each test has a namespace of its own."""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .hand import Hand
from .kubectl import Kubectl, find_kubectl

_numbers = count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "state") as running:
        yield running


@pytest.fixture
def namespace(server: Server, request: pytest.FixtureRequest) -> str:
    """A namespace named after the test; also a name for what belongs to no namespace."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:40].strip("-")
    name = f"{words}-{next(_numbers)}"
    assert server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return name


@pytest.fixture
def hand(server: Server, namespace: str) -> Hand:
    return Hand(server, namespace)


@pytest.fixture(scope="session")
def kubectl_binary() -> str:
    return find_kubectl()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where clients keep what they found out about servers."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def kubectl(server: Server, kubectl_binary: str, home: Path, namespace: str) -> Kubectl:
    """kubectl as the administrator, in the namespace of the test."""
    return Kubectl(kubectl_binary, server.kubeconfig, home, namespace)
