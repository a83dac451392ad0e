"""The pods of managed jobs on a real kubelet: files, secrets, checkpoints, several nodes, logs, and how they end."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.lifecycle import RunningCluster

from fairway.cli.packing import pack
from fairway.client.clusterlaunch import ClusterLaunch
from fairway.client.rest import open_rest, paths
from fairway.client.uploading import ArchiveFile
from fairway.managedjobs.clustervolume import plan_for, with_claims
from fairway.server.crds import definitions, service_client

from .controllers import CLAIM, Controller, Kubectl, eventually, listed, namespace

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: {name}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors: [{{name: {name}, resources: [{{name: cpu, nominalQuota: 4}}, {{name: memory, nominalQuota: 4Gi}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: jobs, namespace: {name}}}
spec: {{clusterQueue: {name}}}
"""


@pytest.fixture
def k(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(cluster.kubeconfig)


@pytest.fixture(scope="module")
def leading(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller without webhooks, which the API server of the node could not reach; Kueue admits if it is there."""
    state = tmp_path_factory.mktemp("controller") / "state"
    kube = [os.environ.get("KUBECTL", "kubectl"), "--kubeconfig", str(cluster.kubeconfig)]
    found = subprocess.run([*kube, "get", "crd", "workloads.kueue.x-k8s.io"], capture_output=True, check=False)  # noqa: S603
    way = "none" if found.returncode else "kueue"
    items = [*definitions(way, service_client("fairway-system")), namespace("fairway-system")]
    apply = [*kube, "apply", "--server-side", "--force-conflicts", "-f", "-"]
    subprocess.run(apply, input=json.dumps(listed(items)).encode(), check=True, capture_output=True)  # noqa: S603
    running = Controller(cluster.kubeconfig, state, way)
    try:
        running.lead()
        yield running
    finally:
        running.stop()


class Place:
    """A namespace with a queue, and the command line in it."""

    def __init__(self, name: str, cluster: RunningCluster, k: Kubectl, directory: Path) -> None:
        self.name = name
        self.k = k
        self.directory = directory
        self._cluster = cluster

    def fairway(self, *words: str) -> str:
        command = [sys.executable, "-m", "fairway.cli.main", *words, "--kubeconfig", str(self._cluster.kubeconfig)]
        done = subprocess.run(  # noqa: S603
            [*command, "--namespace", self.name],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            env={**os.environ, "FAIRWAY_STATE": str(self.directory / "state"), "HOME": str(self.directory)},
            timeout=120,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def launch(self, task: str, *, workdir: str = "", **secrets: str) -> str:
        """What `jobs launch` would send, sent as it sends it, with a number: there is no webhook that gives one."""
        (self.directory / "task.yaml").write_text(task)
        given = [part for name, value in secrets.items() for part in ("--secret", f"{name}={value}")]
        (job,) = json.loads(self.fairway("jobs", "launch", "task.yaml", "--dryrun", "-o", "json", *given))
        job["spec"]["id"] = 7
        job["spec"]["queue"] = "jobs"
        with (
            closing(open_rest(self._cluster.kubeconfig)) as rest,
            ClusterLaunch(rest, self.name, os.urandom(4).hex()) as launch,
        ):
            if workdir:
                with pack(self.directory / workdir) as archive:
                    assert archive.digest == job["spec"]["tasks"][0]["files"][0]["archive"]
                    stored = ArchiveFile(workdir, archive.digest, archive.size, archive.file)
                    claim = launch.add_archive(stored, plan_for([job], archive.digest))
                    job = with_claims(job, {archive.digest: claim})
            if secrets:
                data = {name: base64.b64encode(value.encode()).decode() for name, value in secrets.items()}
                metadata = {"name": job["spec"]["secretName"]}
                launch.add_secret({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
            made = rest.create(paths.jobs(self.name), job)
            launch.own([made])
        return str(made["metadata"]["name"])

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.k("get", "mj", name, "-n", self.name, "-o", "json"))["status"]
        return found

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase"))


@pytest.fixture
def place(cluster: RunningCluster, k: Kubectl, leading: Controller, tmp_path: Path, unique: str) -> Iterator[Place]:
    del leading
    k("create", "-f", "-", given=json.dumps(namespace(unique)))
    queued = "localqueues.kueue.x-k8s.io" in k("get", "crd", "-o", "name")
    if queued:
        k("apply", "-f", "-", given=QUEUES.format(name=unique))
    try:
        yield Place(unique, cluster, k, tmp_path)
    finally:
        k("delete", "mj", "--all", "-n", unique)
        k("delete", "namespace", unique, "--wait=false")
        if queued:
            k("delete", f"clusterqueue/{unique}", f"resourceflavor/{unique}", "--wait=false")


def test_files_secrets_setup_and_variables_are_there(place: Place) -> None:
    work = place.directory / "src"
    work.mkdir()
    (work / "hello.sh").write_text("echo from the file\n")
    (work / "noise.bin").write_bytes(os.urandom(1_500_000))  # more than one Secret holds
    name = place.launch(
        "resources: {cpus: 0.1, image_id: 'docker:busybox'}\nworkdir: src\nsetup: echo set up >/tmp/done\n"
        'run: sh hello.sh; cat /tmp/done; echo "$TOKEN" | wc -c; test -n "$SKYPILOT_NODE_IPS" && echo addressed\n',
        workdir="src",
        TOKEN="12345678",  # noqa: S106
    )
    eventually(lambda: place.phase(name), "SUCCEEDED")
    log = place.fairway("jobs", "logs", name, "--no-follow")
    assert log.splitlines() == ["from the file", "set up", "9", "addressed"]
    pods = place.k("get", "mj,pods,cm,workloads", "-n", place.name, "-o", "json", "--ignore-not-found")
    assert "12345678" not in pods, "a secret is a Secret and nothing else"
    assert place.k("get", "secrets", "-n", place.name, "-o", "name").count("fairway-files-") == 2
    place.k("delete", "mj", name, "-n", place.name)
    eventually(lambda: place.k("get", "secrets", "-n", place.name, "-o", "name"), "")


def test_a_drained_job_comes_back_and_ends_from_its_checkpoint(place: Place) -> None:
    place.k("apply", "-f", "-", given=CLAIM.format(name=place.name))
    name = place.launch(
        """
resources: {cpus: 0.1, image_id: "docker:busybox"}
config: {kubernetes: {checkpoints: {claim: shared}}}
run: |
  if [ -e $FAIRWAY_CHECKPOINT_DIR/step ]; then echo "goes on, $FAIRWAY_RESTART_CAUSE"; exit 0; fi
  trap 'echo saved; touch $FAIRWAY_CHECKPOINT_DIR/step; exit 0' TERM
  echo begins
  while :; do sleep 0.2; done
""",
    )
    eventually(lambda: place.phase(name), "RUNNING")
    eventually(lambda: "begins" in place.k("logs", f"{name}-1-head", "-n", place.name))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"{name}-1-head"}}
    path = f"/api/v1/namespaces/{place.name}/pods/{name}-1-head/eviction"
    place.k("create", "--raw", path, "-f", "-", given=json.dumps(eviction))
    eventually(lambda: place.phase(name), "SUCCEEDED")
    first, second = place.status(name)["attempts"]
    assert (first["outcome"], second["outcome"], second["cause"]) == ("Lost", "Succeeded", "lost")
    assert "drained" in first["message"], "exit code 0 after SIGTERM is no success"
    log = place.fairway("jobs", "logs", name, "--attempt", "1")
    assert log.splitlines()[0] == "begins"
    assert log.splitlines()[-1] == "saved", "what it wrote after SIGTERM is kept, too"
    assert place.fairway("jobs", "logs", name, "--attempt", "2") == "goes on, lost\n"


def test_nodes_find_each_other_wait_for_setup_and_end_together(place: Place) -> None:
    name = place.launch(
        """
num_nodes: 2
resources: {cpus: 0.1, image_id: "docker:busybox"}
setup: sleep $((SKYPILOT_SETUP_NODE_RANK * 3)); date +%s >/tmp/ready
run: |
  nodes=$(echo "$SKYPILOT_NODE_IPS" | sort -u | wc -l)
  echo rank $SKYPILOT_NODE_RANK of $nodes, $(( $(date +%s) - $(cat /tmp/ready) ))
  if [ $SKYPILOT_NODE_RANK = 1 ]; then exit 9; fi
  while :; do sleep 1; done
""",
    )
    eventually(lambda: place.phase(name), "FAILED")
    status = place.status(name)
    assert status["attempts"][0]["exitCode"] == 9
    assert f"{name}-1-worker1" in status["message"]
    lines = place.fairway("jobs", "logs", name, "--no-follow").splitlines()
    head = next(line for line in lines if line.startswith("(head) rank"))
    assert "rank 0 of 2" in head
    assert int(head.rpartition(" ")[2]) >= 2, "the head waits for the setup of the other"
    eventually(lambda: place.k("get", "pods", "-n", place.name, "-o", "name"), "")


@pytest.mark.parametrize(
    ("image", "run", "phase", "message"),
    [
        ("Not/Valid", "ls", "FAILED_PRECHECKS", "InvalidImageName"),
        ("busybox", "exit 3", "FAILED", "exit code 3"),
    ],
)
def test_an_end_has_its_own_sentence(place: Place, image: str, run: str, phase: str, message: str) -> None:
    name = place.launch(f"resources: {{cpus: 0.1, image_id: 'docker:{image}'}}\nrun: {run}\n")
    eventually(lambda: place.phase(name), phase)
    assert message in place.status(name)["message"]


def test_a_failed_setup_is_told_from_a_failed_run(place: Place) -> None:
    name = place.launch("resources: {cpus: 0.1, image_id: 'docker:busybox'}\nsetup: exit 4\nrun: 'true'\n")
    eventually(lambda: place.phase(name), "FAILED_SETUP")
