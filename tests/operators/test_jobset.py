"""JobSet's own controller, from its published Go module, on the embedded API: its definition, its objects, real pods.

`make operators` runs this where Go is there; it is not part of `make test`, because the controller is built first.
Webhooks are not called by this server, so the manifest says what JobSet's would fill in.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.testing.servers import Server

ROOT = Path(__file__).parents[2]
_SECONDS = 180
_PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


def _run(program: Path, *arguments: str, **options: Any) -> str:
    command = [str(program), *arguments]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options)  # noqa: S603
    return str(ended.stdout).strip()


@pytest.fixture(scope="module")
def operator() -> Path:
    """The folder of the built operator."""
    return Path(_run(ROOT / "tools" / "operators" / "get", "jobset"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "state", "--cpus", "4", jobs=True) as running:
        yield running


@pytest.fixture
def kubectl(server: Server, tmp_path: Path) -> Any:
    binary = Path(_run(ROOT / "tools" / "kubectl" / "get"))
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}

    def run(*arguments: str, given: str = "") -> str:
        return _run(binary, *arguments, env=environment, input=given, timeout=_SECONDS)

    return run


@pytest.fixture
def controller(operator: Path, server: Server, kubectl: Any, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """JobSet's controller, on definitions that are established; webhooks are served by it and called by nobody."""
    kubectl("apply", "--server-side", "-f", str(operator / "crds"))
    kubectl("wait", "--for=condition=Established", "crd/jobsets.jobset.x-k8s.io", "--timeout=60s")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "127.0.0.1:0"},
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(server.state / "tls")},
    }
    (tmp_path / "configuration.yaml").write_text(json.dumps(configuration))
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}
    with (tmp_path / "controller.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            [operator / "manager", "--config", str(tmp_path / "configuration.yaml")],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            sys.stdout.write((tmp_path / "controller.log").read_text()[-4000:])


def job_set(name: str, script: str, replicas: int = 2) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}],
    }
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "network": {"enableDNSHostnames": True, "subdomain": name},
            "replicatedJobs": [
                {"name": "workers", "replicas": replicas, "template": {"spec": {**job, "template": {"spec": pod}}}}
            ],
        },
    }


def test_a_job_set_runs_to_its_end(server: Server, kubectl: Any, controller: subprocess.Popen[bytes]) -> None:
    kubectl("apply", "-f", "-", given=json.dumps(job_set("greet", "echo hello from $JOB_COMPLETION_INDEX")))

    kubectl("wait", "--for=condition=Completed", "jobset/greet", f"--timeout={_SECONDS}s")

    assert controller.poll() is None
    pods = server.call("GET", "/api/v1/namespaces/default/pods").body["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 4
    assert kubectl("logs", pods[0]["metadata"]["name"]).startswith("hello from ")
    assert kubectl("get", "service/greet", "-o", "jsonpath={.spec.clusterIP}") == "None"
    shown = kubectl("get", "jobset/greet").splitlines()[1].split()
    assert shown[:2] == ["greet", "Completed"]

    kubectl("delete", "jobset/greet")
    kubectl("wait", "--for=delete", "jobs", "--all", f"--timeout={_SECONDS}s")
    assert server.call("GET", "/api/v1/namespaces/default/services").body["items"] == []


def test_a_job_set_that_fails_says_so(server: Server, kubectl: Any, controller: subprocess.Popen[bytes]) -> None:
    kubectl("apply", "-f", "-", given=json.dumps(job_set("fails", "exit 3", replicas=1)))

    kubectl("wait", "--for=condition=Failed", "jobset/fails", f"--timeout={_SECONDS}s")

    assert controller.poll() is None
    assert server.call("GET", f"{_PATH}/fails").body["status"]["terminalState"] == "Failed"
