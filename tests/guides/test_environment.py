"""A job sees nothing of the environment that the server was started in, and cannot change Fairway's installation."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.kubectl import Kubectl, find_kubectl
from fairway.cli.main import main
from fairway.testing.servers import Server

OWN = Path(sys.prefix)
MARK = ":"
"""Before each line of a job's environment, so that it is told from other lines of a log."""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: plain
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: any
    command: ["/bin/sh", "-c", "env"]
"""
JOB = """\
apiVersion: fairway.dev/v1alpha1
kind: ManagedJob
metadata:
  name: managed
spec:
  tasks:
  - setup: "env | sed s/^/:/"
    run: "env | sed s/^/:/; command -v fairway || echo no fairway"
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Started as from a shell that has activated Fairway's environment and holds secrets."""
    shell = {
        "PATH": f"{OWN}/bin:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(OWN),
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "FAIRWAY_KUBECONFIG": "/nowhere",
        "FAIRWAY_PORT": "1",
        "HF_TOKEN": "a-token",
    }
    with Server(tmp_path / "state", "--cpus", "4", jobs=True, environment=shell) as running:
        yield running


def test_jobs_and_pods_see_nothing_of_the_servers_environment(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl = Kubectl(find_kubectl(), server.kubeconfig, tmp_path, variables={"PATH": os.environ["PATH"]})
    kubectl("create -f -", given=POD)
    kubectl("create -f -", given=JOB)
    kubectl("wait --for=jsonpath={.status.phase}=Succeeded pod/plain --timeout=30s")
    kubectl("wait --for=jsonpath={.status.phase}=SUCCEEDED managedjob/managed --timeout=30s")
    assert main(["jobs", "logs", "managed", "--no-follow", "--state", str(server.state)]) == 0
    managed = capsys.readouterr().out
    assert "no fairway" in managed.splitlines()
    for name, lines in (("a pod", kubectl("logs plain")), ("a managed job", managed)):
        variables = dict(one.removeprefix(MARK).partition("=")[::2] for one in lines.splitlines() if "=" in one)
        assert not [one for one in variables["PATH"].split(":") if Path(one).is_relative_to(OWN)], name
        seen = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "FAIRWAY_KUBECONFIG", "FAIRWAY_PORT", "HF_TOKEN"}
        assert seen & variables.keys() == set(), name
        assert str(OWN) not in lines, name
