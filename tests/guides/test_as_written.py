"""Guides 000, 001 and 002 as they are written: their commands and files, in their order, in a terminal.

What differs: an install manifest comes from a file (`$MANIFESTS`) instead of a download, guide 001's saves go into the
home instead of `/tmp`, and tasks that would run for ever wait for a file so that the test ends.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clients.kubectl import Kubectl, cells
from fairway.testing.servers import Server

from .terminal import Terminal
from .test_job_controller_with_kueue import PRIORITIES, QUEUES
from .test_managed_job_controller import phase

DATA = Path(__file__).parent / "data"
CLIENTS = Path(__file__).parent.parent / "clients/data/v1beta1"

SKY_CONFIG = """\
kubernetes:
  provision_timeout: -1  # Wait indefinitely in the queue to get scheduled on the k8s cluster
  remote_identity: SERVICE_ACCOUNT # Set this field If you're using exec based auth, e.g., for GKE
"""
QUEUE_CONFIG = """\
kubernetes:
  pod_config:
    metadata:
      labels:
        kueue.x-k8s.io/queue-name: skypilot-local-queue
"""
TASK = """\
resources:
  cpus: 6
  cloud: kubernetes
  labels:
    kueue.x-k8s.io/queue-name: user-queue
{priority}
run: |
  while [ ! -e "$HOME/{go}" ]; do sleep 0.05; done
"""
GPU_TASK = """\
# {level}.yaml
resources:
    accelerators: T4:4
    labels:
        kueue.x-k8s.io/queue-name: user-queue # this is assigned by your admin
        kueue.x-k8s.io/priority-class: {level}-priority # specify {level} priority workload

run: |
    echo "hi i'm a {level} priority job"
    sleep 1000000
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    home = tmp_path / "home"
    home.mkdir()
    options = ("--cpus", "16", "--memory", "64Gi", "--gpus", "T4:8")
    with Server(tmp_path / "state", *options, jobs=True, environment={"HOME": str(home)}) as running:
        yield running


@pytest.fixture
def terminal(server: Server, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "home", server)


def test_guide_000_job_controller_with_kueue(terminal: Terminal, kubectl: Kubectl) -> None:
    manifests = list(yaml.safe_load_all((DATA / "kueue-install.yaml").read_text()))
    (config_map,) = [one for one in manifests if one["kind"] == "ConfigMap"]
    config_map["data"]["controller_manager_config.yaml"] = (DATA / "controller_manager_config.yaml").read_text()
    terminal.write("manifests.yaml", yaml.safe_dump_all(manifests))
    terminal.write("single-clusterqueue-setup.yaml", QUEUES)
    terminal.write("priority-classes.yaml", PRIORITIES)
    terminal.run("kubectl apply --server-side -f manifests.yaml")
    terminal.run("kubectl apply -f single-clusterqueue-setup.yaml")
    terminal.write("~/.sky/config.yaml", SKY_CONFIG)

    terminal.write("sky-kueue-task.yaml", TASK.format(priority="", go="first"))
    first = terminal.start("sky job launch -n job1 sky-kueue-task.yaml")
    kubectl("wait --for=create managedjob/job1-1 --timeout=20s")
    phase(kubectl, "job1-1", "RUNNING")
    second = terminal.start("sky job launch -n job2 sky-kueue-task.yaml")
    kubectl("wait --for=create managedjob/job2-2 --timeout=20s")
    kubectl("wait --for=create workload -l fairway.dev/job-id=2 --timeout=20s")
    _, one, other = sorted(line.split() for line in terminal.run("kubectl get workloads -o wide").splitlines())
    assert (one[0].startswith("managedjob-job1-1"), one[1:3]) == (True, ["user-queue", "cluster-queue"])
    assert (other[0].startswith("managedjob-job2-2"), other[1], "cluster-queue" in other) == (True, "user-queue", False)
    (terminal.home / "first").touch()
    assert (first.wait(60), second.wait(60)) == (0, 0)

    terminal.run("kubectl apply -f priority-classes.yaml")
    label = "    kueue.x-k8s.io/priority-class: {}-priority\n"
    terminal.write("sky-kueue-task.yaml", TASK.format(priority=label.format("low"), go="low"))
    low = terminal.start("sky job launch -n job1 sky-kueue-task.yaml")
    kubectl("wait --for=create managedjob/job1-3 --timeout=20s")
    phase(kubectl, "job1-3", "RUNNING")
    terminal.write("sky-kueue-task.yaml", TASK.format(priority=label.format("high"), go="high"))
    high = terminal.start("sky job launch -n job2 sky-kueue-task.yaml")
    kubectl("wait --for=create managedjob/job2-4 --timeout=20s")
    phase(kubectl, "job2-4", "RUNNING")
    phase(kubectl, "job1-3", "RECOVERING")
    status = terminal.run("sky job status")
    assert status.index("RUNNING") < status.index("RECOVERING")
    for name in ("high", "low"):
        (terminal.home / name).touch()
    assert (high.wait(60), low.wait(60)) == (0, 0)


def test_guide_001_admission_checks(terminal: Terminal, kubectl: Kubectl) -> None:
    terminal.write("manifests.yaml", (DATA / "kueue-install.yaml").read_text())
    terminal.run("MANIFESTS=manifests.yaml\nkubectl apply --server-side -f $MANIFESTS")
    shown = terminal.run(
        r"""
kubectl -n kueue-system get cm kueue-manager-config -o jsonpath={.data.controller_manager_config\\.yaml} | yq '.integrations.frameworks += ["pod"]' > kueueconfig.yaml
kubectl -n kueue-system create cm kueue-manager-config --from_file=controller_manager_config.yaml=kueueconfig.yaml --dry-run=client -o yaml | kubectl -n kueue-system apply -f -
# Restart the kueue-controller-manager pod with the following command
kubectl -n kueue-system rollout restart deployment kueue-controller-manager
# Wait for the restart to complete
kubectl -n kueue-system rollout status deployment kueue-controller-manager
kubectl -n kueue-system get cm kueue-manager-config -o jsonpath={.data.controller_manager_config\\.yaml} | yq '.integrations.frameworks'
"""  # noqa: E501 - as the guide has it
    )
    assert shown.splitlines()[-1] == "- pod"
    for name in ("kueue-resource-flavor", "kueue-admission-check", "kueue"):
        terminal.write(f"{name}.yaml", (CLIENTS / f"{name}.yaml").read_text())
    terminal.run("kubectl apply -f kueue-resource-flavor.yaml")
    terminal.run("kubectl apply -f kueue-admission-check.yaml")
    terminal.run(
        """
# if 'skypilot' namespace does not exist, create it
kubectl create namespace skypilot
# create the cluster and local queue
kubectl apply -f kueue.yaml
"""
    )
    terminal.write("~/.sky/config.yaml", QUEUE_CONFIG)
    there = kubectl.at("skypilot")
    terminal.run("kubectl config set-context --current --namespace=skypilot")
    terminal.run("sky jobs launch -y -d -n check 'until [ -e ~/go ]; do sleep 0.05; done'")
    phase(there, "check-1", "RUNNING")
    (request,) = there.json("get provisioningrequests")["items"]
    assert request["spec"]["provisioningClassName"] == "check-capacity.autoscaling.x-k8s.io"
    (workload,) = there.json("get workloads")["items"]
    assert workload["spec"]["queueName"] == "skypilot-local-queue"
    assert workload["status"]["admissionChecks"][0]["state"] == "Ready"
    (terminal.home / "go").touch()
    phase(there, "check-1", "SUCCEEDED")


def test_guide_002_priorities(terminal: Terminal, kubectl: Kubectl) -> None:
    kubectl("apply -f -", given=QUEUES.replace("nominalQuota: 8", "nominalQuota: 4"))
    kubectl("apply -f -", given=PRIORITIES)
    terminal.write("task.yaml", GPU_TASK.format(level="low"))  # which the guide calls low.yaml where it shows it
    terminal.write("high.yaml", GPU_TASK.format(level="high"))
    terminal.run("# launch a low priority task\nsky launch -y -d -c low task.yaml")
    phase(kubectl, "low", "RUNNING")
    assert "user-queue" in terminal.run("# list workloads in kueue\nkubectl get workloads")
    terminal.run("# launch a development cluster\nsky launch -y -d -c high high.yaml")
    phase(kubectl, "high", "RUNNING")
    phase(kubectl, "low", "FAILED")
    (holds,) = [row for row in cells(terminal.run("kubectl get workloads"))[1:] if row[3] == "True" and not row[4]]
    assert "high" in holds[0]
    assert "hi i'm a low priority job" in terminal.run("sky logs low --no-follow")
    terminal.run("sky down -y high")
