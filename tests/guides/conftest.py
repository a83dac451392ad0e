"""`fairway up` on a machine that claims enough for every guide, and kubectl."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.kubectl import Kubectl, find_kubectl
from fairway.testing.servers import Server

MACHINE = ("--cpus", "16", "--memory", "64Gi", "--gpus", "8")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "state", *MACHINE, jobs=True) as running:
        yield running


@pytest.fixture
def kubectl(server: Server, tmp_path: Path) -> Kubectl:
    return Kubectl(find_kubectl(), server.kubeconfig, tmp_path, variables={"PATH": os.environ["PATH"]})
