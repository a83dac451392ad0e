"""Files that are too large for Secrets: a volume, the pod that fills it, and what keeps it from being filled."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.apiserver import ApiServer

from fairway.client.clusterlaunch import ClusterLaunch
from fairway.client.remotes import submit_to_cluster
from fairway.client.rest import Rest, open_rest, paths
from fairway.client.sighting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID
from fairway.client.uploading import ArchiveFile
from fairway.errors import BadRequest, Forbidden
from fairway.managedjobs.clustervolume import MANY, UploadPlan, VolumeUnusable
from fairway.server.crds import definitions, service_client

from .controllers import Kubectl, eventually, listed
from .test_pods_of_jobs import Place, k, leading, place

__all__ = ["k", "leading", "place"]

SIZE = 9_000_000
TASK = """
resources: {{cpus: 0.1, image_id: "docker:busybox"}}
num_nodes: {nodes}
workdir: src
config: {{kubernetes: {{files: {{storage_class: {name}}}}}}}
run: sha256sum noise.bin | cut -c 1-64
"""


def volume(name: str, directory: str) -> str:
    """A volume of a class that no other test uses; it stands for a provisioner."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {"of": directory}},
            "spec": {
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "capacity": {"storage": "1Gi"},
                "storageClassName": directory,
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": f"/tmp/{name}", "type": "DirectoryOrCreate"},  # noqa: S108 - of the node
            },
        }
    )


def objects(k: Kubectl, namespace: str) -> list[str]:
    """What uploads create."""
    found = k("get", "pvc,pods,configmaps", "-n", namespace, "-o", "name").splitlines()
    return [one for one in found if "kube-root-ca" not in one and "fairway-log-" not in one]


def noise(directory: Path) -> str:
    """A directory whose archive is too large for Secrets; the digest of what is in it."""
    work = directory / "src"
    work.mkdir(parents=True)
    content = os.urandom(SIZE)
    (work / "noise.bin").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


# On a kubelet


@pytest.fixture
def volumes(place: Place) -> Iterator[Place]:
    for number in ("0", "1"):
        place.k("apply", "-f", "-", given=volume(f"{place.name}-{number}", place.name))
    yield place
    place.k("delete", "pv", "-l", f"of={place.name}", "--wait=false")


def test_a_gang_finds_its_files_a_second_launch_shares_them_and_they_go_with_the_last_job(volumes: Place) -> None:
    digest = noise(volumes.directory)
    task = TASK.format(nodes=2, name=volumes.name)
    first = volumes.launch(task, workdir="src")
    claim = volumes.k("get", "pvc", "-n", volumes.name, "-o", "name")
    assert claim.count("fairway-files-") == 1
    created = volumes.k("get", claim, "-n", volumes.name, "-o", "jsonpath={.metadata.uid}")
    second = volumes.launch(task, workdir="src")
    assert volumes.k("get", claim, "-n", volumes.name, "-o", "jsonpath={.metadata.uid}") == created
    assert "Secret" not in volumes.k("get", "secrets", "-n", volumes.name, "-o", "name")
    for name in (first, second):
        eventually(partial(volumes.phase, name), "SUCCEEDED")
        log = volumes.fairway("jobs", "logs", name, "--no-follow").splitlines()
        assert sorted(log) == [f"(head) {digest}", f"(worker1) {digest}"]
    volumes.k("delete", "mj", first, "-n", volumes.name)
    assert claim in objects(volumes.k, volumes.name)
    volumes.k("delete", "mj", second, "-n", volumes.name)
    eventually(lambda: objects(volumes.k, volumes.name), [])


class _Torn:
    """A file that cannot be read to its end."""

    def __init__(self, left: int) -> None:
        self._left = left

    def read(self, size: int) -> bytes:
        if self._left <= 0:
            raise KeyboardInterrupt
        self._left -= size
        return b"x" * size

    def tell(self) -> int:
        return 0

    def seek(self, _position: int) -> int:
        return 0


def upload(rest: Rest, namespace: str, launch: str, file: Any, digest: str, **plan: Any) -> str:
    with ClusterLaunch(rest, namespace, launch) as made:
        return made.add_archive(ArchiveFile("src", digest, SIZE, file), UploadPlan(**plan))


def test_what_is_cut_off_or_damaged_is_never_used(volumes: Place) -> None:
    content = os.urandom(SIZE)
    digest = hashlib.sha256(content).hexdigest()
    plan = {"storage_class": volumes.name, "access_mode": MANY}
    archive = volumes.directory / "archive"
    archive.write_bytes(bytes(SIZE))
    with closing(open_rest(volumes._cluster.kubeconfig)) as rest, archive.open("rb") as file:
        with pytest.raises(KeyboardInterrupt):
            upload(rest, volumes.name, "one", _Torn(SIZE // 2), digest, **plan)
        eventually(lambda: objects(volumes.k, volumes.name), [])
        # Volumes are not given to another claim, so each try takes one.
        with pytest.raises(VolumeUnusable, match="what arrived has the SHA-256"):
            upload(rest, volumes.name, "two", file, digest, **plan)
        eventually(lambda: objects(volumes.k, volumes.name), [])


@pytest.fixture
def without_exec(volumes: Place) -> Path:
    """A kubeconfig of a user who may do everything in the namespace but `exec`."""
    rules = ("--verb=get,list,create,patch,delete", "--resource=pods,configmaps,persistentvolumeclaims,events")
    volumes.k("create", "role", "some", *rules, "-n", volumes.name)
    volumes.k("create", "rolebinding", "some", "--role=some", "--user=jane", "-n", volumes.name)
    config = json.loads(volumes.k("config", "view", "--raw", "-o", "json"))
    for user in config["users"]:
        user["user"]["as"] = "jane"
    path = volumes.directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def test_a_user_without_the_right_to_exec_is_told_so_and_nothing_is_left(volumes: Place, without_exec: Path) -> None:
    content = os.urandom(SIZE)
    archive = volumes.directory / "archive"
    archive.write_bytes(content)
    with closing(open_rest(without_exec)) as rest, archive.open("rb") as file:
        digest = hashlib.sha256(content).hexdigest()
        with pytest.raises(Forbidden, match=r'User "jane" cannot .* resource "pods/exec"'):
            upload(rest, volumes.name, "one", file, digest, storage_class=volumes.name)
    eventually(lambda: objects(volumes.k, volumes.name), [])


def test_a_server_sends_a_job_with_large_files_on_in_as_many_tries_as_it_takes(volumes: Place) -> None:
    content = os.urandom(SIZE)
    digest = hashlib.sha256(content).hexdigest()
    (volumes.directory / f"{digest}.tar.gz").write_bytes(content)
    files = [{"archive": digest, "path": "."}]
    task = {"run": "true", "files": files, "config": {"kubernetes": {"files": {"storage_class": volumes.name}}}}
    manifest = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": {
            "name": "sent",
            "labels": {ORIGIN_UID: "u1"},
            "annotations": {ORIGIN_NAMESPACE: "default", ORIGIN_NAME: "sent"},
        },
        "spec": {"id": 7, "hold": True, "tasks": [task]},
    }
    with closing(open_rest(volumes._cluster.kubeconfig)) as rest:
        rest.namespace = volumes.name
        made = submit_to_cluster(rest, manifest, volumes.directory, None)
        again = submit_to_cluster(rest, manifest, volumes.directory, None)
    assert made["metadata"]["uid"] == again["metadata"]["uid"]
    (stored,) = made["spec"]["tasks"][0]["files"]
    claim = json.loads(volumes.k("get", "pvc", stored["claim"], "-n", volumes.name, "-o", "json"))
    assert claim["metadata"]["annotations"]["fairway.dev/complete"] == "true"
    eventually(lambda: volumes.k("get", "pods", "-n", volumes.name, "-o", "name"), "")
    volumes.k("delete", "mj", "sent", "-n", volumes.name)
    eventually(lambda: objects(volumes.k, volumes.name), [])


# Without a node: what keeps a volume from being filled


class Launching:
    """`fairway jobs launch` of a large directory, as a process."""

    def __init__(self, directory: Path, kubeconfig: Path, namespace: str, *settings: str) -> None:
        noise(directory)
        (directory / "task.yaml").write_text("workdir: src\nrun: ls\n")
        given = [part for one in settings for part in ("--config", f"kubernetes.files.{one}")]
        command = ["jobs", "launch", "-d", "task.yaml", *given, "--kubeconfig", str(kubeconfig)]
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "fairway.cli.main", *command, "--namespace", namespace],
                stdout=log,
                stderr=log,
                cwd=directory,
                env={**os.environ, "FAIRWAY_STATE": str(directory / "state"), "HOME": str(directory)},
            )

    def until(self, sentence: str) -> None:
        """Wait until it says so; it must go on."""
        deadline = time.monotonic() + 120
        while sentence not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def refused(self) -> str:
        assert self.process.wait(120), self.log.read_text()
        return self.log.read_text()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(120), self.log.read_text()


@pytest.fixture
def run(control_plane: ApiServer, kubectl: Callable[[Path], Kubectl], unique: str) -> Kubectl:
    run = kubectl(control_plane.kubeconfig)
    items = definitions("none", service_client("fairway-system"))
    run("apply", "--server-side", "--force-conflicts", "-f", "-", given=json.dumps(listed(items)))
    run("wait", "--for=condition=Established", "crd/managedjobs.fairway.dev", "--timeout=60s")
    run("create", "namespace", unique)
    run("wait", "--for=create", "serviceaccount/default", "-n", unique, "--timeout=60s")
    return run


def test_no_default_class_is_said_at_once(control_plane: ApiServer, run: Kubectl, tmp_path: Path, unique: str) -> None:
    said = Launching(tmp_path, control_plane.kubeconfig, unique).refused()
    assert "error: files of more than 8 MB need a volume, and the cluster has no default StorageClass" in said
    assert "storage_class in config.kubernetes.files" in said
    eventually(lambda: objects(run, unique), [])


def test_a_class_that_does_not_exist_is_said(
    control_plane: ApiServer, run: Kubectl, tmp_path: Path, unique: str
) -> None:
    said = Launching(tmp_path, control_plane.kubeconfig, unique, "storage_class=nowhere").refused()
    assert '(class nowhere, ReadWriteOnce): storageclass.storage.k8s.io "nowhere" not found' in said
    eventually(lambda: objects(run, unique), [])


def test_a_quota_that_is_used_up_is_said(control_plane: ApiServer, run: Kubectl, tmp_path: Path, unique: str) -> None:
    run("create", "quota", "none", "--hard=persistentvolumeclaims=0", "-n", unique)
    status = ("get", "quota", "none", "-n", unique, "-o", "jsonpath={.status.hard}")
    eventually(lambda: "persistentvolumeclaims" in run(*status))
    said = Launching(tmp_path, control_plane.kubeconfig, unique, "storage_class=any").refused()
    assert "exceeded quota: none, requested: persistentvolumeclaims=1" in said
    assert f"have the ResourceQuota of namespace {unique} raised" in said
    eventually(lambda: objects(run, unique), [])


def test_a_wait_says_for_what_and_an_interrupt_leaves_nothing(
    control_plane: ApiServer, run: Kubectl, tmp_path: Path, unique: str
) -> None:
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": unique},
        "provisioner": "example.com/none",
    }
    run("apply", "-f", "-", given=json.dumps(storage_class))
    launching = Launching(tmp_path, control_plane.kubeconfig, unique, f"storage_class={unique}")
    launching.until("waits for a node: ")
    run("apply", "-f", "-", given=volume(unique, unique))
    launching.until("no nodes available to schedule pods")
    assert len(objects(run, unique)) == 3, "a claim, a pod, an anchor"
    launching.interrupt()
    assert "Traceback" not in launching.log.read_text()
    eventually(lambda: [one for one in objects(run, unique) if "persistentvolumeclaim" not in one], [])
    run("delete", f"pv/{unique}", f"storageclass/{unique}", "--wait=false")


def test_a_server_is_told_that_trying_again_does_not_help(
    control_plane: ApiServer, run: Kubectl, tmp_path: Path, unique: str
) -> None:
    del run
    content = bytes(SIZE)
    digest = hashlib.sha256(content).hexdigest()
    (tmp_path / f"{digest}.tar.gz").write_bytes(content)
    manifest = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": {"name": "sent", "labels": {ORIGIN_UID: "u1"}},
        "spec": {"id": 7, "tasks": [{"run": "true", "files": [{"archive": digest, "path": "."}]}]},
    }
    with closing(open_rest(control_plane.kubeconfig)) as rest:
        rest.namespace = unique
        with pytest.raises(BadRequest, match="no default StorageClass"):
            submit_to_cluster(rest, manifest, tmp_path, None)
        assert not rest.get(paths.jobs(unique))["items"]
