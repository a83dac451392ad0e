"""`fairway node`: this machine as a node of a real control plane, whose Job controller and scheduler decide."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.apiserver import ApiServer

_SECONDS = 120
Kubectl = Callable[..., str]
_TOLERATIONS = [{"key": "fairway.dev/runtime", "operator": "Exists"}]


def _command(state: Path, kubeconfig: Path, *more: str) -> list[str]:
    fairway = [sys.executable, "-m", "fairway.cli.main", "node", "--state", str(state), "--kubeconfig", str(kubeconfig)]
    return [*fairway, "--name", "machine", "--cpus", "4", *more]


@pytest.fixture
def node(control_plane: ApiServer, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`fairway node`, registered; with its processes and its Node gone in the end."""
    command = _command(tmp_path, control_plane.kubeconfig)
    with (tmp_path / "node.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "node machine is registered\n", (tmp_path / "node.log").read_text()
        yield process
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
        removed = subprocess.run(  # noqa: S603
            [*command, "--remove"], capture_output=True, text=True, timeout=60, check=False
        )
    assert removed.returncode == 0, removed.stderr


@pytest.fixture
def run(control_plane: ApiServer, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(control_plane.kubeconfig)


def _job(name: str, script: str) -> str:
    container = {
        "name": "main",
        "image": "unused",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": 1}},
    }
    pod = {"restartPolicy": "Never", "tolerations": _TOLERATIONS, "containers": [container]}
    spec = {"backoffLimit": 0, "template": {"spec": {**pod, "terminationGracePeriodSeconds": 2}}}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


def _until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _SECONDS
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)
    return value


def test_a_job_runs_to_complete_as_a_process(node: object, run: Kubectl, tmp_path: Path) -> None:
    run("apply", "-f", "-", given=_job("greeting", f"echo hello > {tmp_path}/said"))
    run("wait", "--for=condition=Complete", "job/greeting", f"--timeout={_SECONDS}s")

    assert (tmp_path / "said").read_text() == "hello\n"
    [pod] = json.loads(run("get", "pods", "--selector=job-name=greeting", "-o", "json"))["items"]
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == ("machine", "Succeeded")
    run("delete", "job/greeting", "--wait")


def test_a_failing_job_fails_with_its_exit_code(node: object, run: Kubectl) -> None:
    run("apply", "-f", "-", given=_job("failing", "exit 7"))
    run("wait", "--for=condition=Failed", "job/failing", f"--timeout={_SECONDS}s")

    [pod] = json.loads(run("get", "pods", "--selector=job-name=failing", "-o", "json"))["items"]
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    run("delete", "job/failing", "--wait")


def test_a_deleted_pod_ends_its_process(node: object, run: Kubectl, tmp_path: Path) -> None:
    trap = f"trap 'echo asked > {tmp_path}/asked; exit 0' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done"
    run("apply", "-f", "-", given=_job("long", trap))
    _until((tmp_path / "pid").exists)
    run("delete", "job/long", "--wait", "--cascade=foreground", f"--timeout={_SECONDS}s")

    assert (tmp_path / "asked").exists()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_node_that_is_deleted_or_marked_as_lost_is_ready_again(node: object, run: Kubectl) -> None:
    def ready() -> bool:
        found = json.loads(run("get", "nodes", "-o", "json"))["items"]
        conditions = [one for item in found for one in item["status"].get("conditions") or ()]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    run("delete", "node/machine")
    _until(ready)
    lost = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    run("patch", "node/machine", "--subresource=status", "--type=strategic", "-p", json.dumps(lost))
    assert not ready()
    _until(ready)
