"""The command line on a real kube-apiserver with Fairway's controller: launches, lists, changes, errors."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.cluster.apiserver import ApiServer

from fairway.client.remotes import KubeconfigRemotes, submit_to_cluster
from fairway.client.rest import Rest, open_rest, paths
from fairway.client.sighting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID
from fairway.errors import AlreadyExists
from fairway.runtime.clock import SystemClock

from .commands import Commands
from .controllers import Kubectl, controller, listed


@pytest.fixture(scope="module")
def served(
    control_plane: ApiServer, tmp_path_factory: pytest.TempPathFactory, kubectl: Callable[[Path], Kubectl]
) -> Iterator[ApiServer]:
    """With Fairway's kinds, and a controller that decides."""
    state = tmp_path_factory.mktemp("controller") / "state"
    with controller(control_plane.kubeconfig, state, "fairway", kubectl(control_plane.kubeconfig)):
        yield control_plane


@pytest.fixture
def fairway(served: ApiServer, tmp_path: Path, unique: str, kubectl: Callable[[Path], Kubectl]) -> Commands:
    run = kubectl(served.kubeconfig)
    run("create", "namespace", unique)
    run("wait", "--for=create", "serviceaccount/default", "-n", unique, "--timeout=60s")
    return Commands(tmp_path / "work", served.kubeconfig, unique)


@pytest.fixture
def rest(served: ApiServer) -> Iterator[Rest]:
    with open_rest(served.kubeconfig) as opened:
        yield opened


def anchors_in(rest: Rest, namespace: str) -> list[dict[str, Any]]:
    """What owns the files of launches."""
    found = rest.get(paths.resource("v1", "configmaps", namespace), labelSelector="fairway.dev/launch")
    return list(found["items"])


def test_a_sweep_is_launched_listed_changed_and_deleted(fairway: Commands, rest: Rest) -> None:
    fairway.directory.mkdir()
    (fairway.directory / "train.py").write_text("print('hello')\n")

    said = fairway(
        "jobs", "launch", "-d", "-n", "sweep", "--num-jobs", "25", "--secret", "KEY=value", "python train.py"
    )

    assert "(sweep) submitted on context" in said
    jobs = fairway.jobs()
    assert len(jobs) == 25
    assert {one["status"] for one in jobs.values()} == {"PENDING"}
    stored = rest.get(paths.jobs(fairway.namespace))["items"]
    assert sorted(one["spec"]["rank"] for one in stored) == list(range(25))
    anchors = rest.get(paths.resource("v1", "configmaps", fairway.namespace), labelSelector="fairway.dev/launch")[
        "items"
    ]
    assert [len(one["metadata"]["ownerReferences"]) for one in anchors] == [25], "the files go with the last job"
    secrets = rest.get(paths.resource("v1", "secrets", fairway.namespace))["items"]
    assert len(secrets) == 2, "the files, and the values"

    first, last = min(jobs), max(jobs)
    assert "25 jobs" in fairway("jobs", "priority", f"{first}-{last}", "70")
    assert "25 jobs" in fairway("jobs", "hold", f"{first}-{last}")
    assert "25 jobs" in fairway("jobs", "release", f"{first}-{last}")
    assert "cancelled" in fairway("jobs", "cancel", "-y", f"{first}-{last}")
    assert {one["status"] for one in fairway.jobs().values()} == {"CANCELLED"}
    assert "deleted" in fairway("down", "-y", f"{first}-{last}")
    assert fairway.jobs() == {}


def test_why_and_queue_say_what_a_job_waits_for(fairway: Commands, rest: Rest) -> None:
    unique = fairway.namespace
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": unique}}
    quota = {"name": unique, "resources": [{"name": "cpu", "nominalQuota": "2"}]}
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": unique},
        "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]},
    }
    local = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "user-queue", "namespace": unique},
        "spec": {"clusterQueue": unique},
    }
    fairway.directory.mkdir()
    (fairway.directory / "queues.json").write_text(json.dumps(listed([flavor, queue, local])))
    assert "created" in fairway("apply", "-f", "queues.json")
    for name in ("first", "second"):
        fairway("jobs", "launch", "-d", "-n", name, "--queue", "user-queue", "--cpus", "2", "sleep 1000")
    jobs = {one["name"]: one for one in fairway.jobs().values()}

    second = fairway.until(jobs["second"]["id"], lambda one: "quota" in (one.get("why") or ""))

    assert "insufficient unused quota for cpu" in second["why"]
    assert "insufficient unused quota for cpu" in fairway("why", str(second["id"]))
    assert unique in fairway("queues")
    assert "user-queue" in fairway("get", "localqueues")
    assert "ManagedJob" in fairway("describe", "managedjob", second["object"])
    fairway("jobs", "cancel", "-y", "-a", "-u")


async def sent(
    served: ApiServer, namespace: str, directory: Path, manifest: dict[str, Any], secret: dict[str, Any]
) -> dict[str, Any]:
    """A job that a server of ours sends to the cluster."""
    document = yaml.safe_load(served.kubeconfig.read_text())
    document["contexts"][0] = {
        "name": "prod",
        "context": {**document["contexts"][0]["context"], "namespace": namespace},
    }
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    remotes = KubeconfigRemotes(kubeconfig, directory.parent, SystemClock())
    try:
        return await remotes.submit("prod", manifest, namespace=directory.name, secret=secret)
    finally:
        await remotes.close()


def test_a_submit_that_is_repeated_makes_one_job_with_its_files(
    rest: Rest, served: ApiServer, fairway: Commands, tmp_path: Path
) -> None:
    """What another server does that bursts to this cluster; the first try is cut off before the files have an owner."""
    rest.namespace = fairway.namespace
    content = b"an archive" * 1000
    digest = hashlib.sha256(content).hexdigest()
    (tmp_path / f"{digest}.tar.gz").write_bytes(content)
    manifest: dict[str, Any] = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": {
            "name": "burst-1",
            "labels": {ORIGIN_UID: "uid-1"},
            "annotations": {ORIGIN_NAMESPACE: "default", ORIGIN_NAME: "burst"},
        },
        "spec": {"secretName": "burst-values", "tasks": [{"run": "true", "files": [{"archive": digest, "path": "."}]}]},
    }
    secret = {"metadata": {"name": "values"}, "type": "Opaque", "data": {"KEY": base64.b64encode(b"v").decode()}}

    first = asyncio.run(sent(served, fairway.namespace, tmp_path, manifest, secret))
    anchors = anchors_in(rest, rest.namespace)
    without = [{"op": "remove", "path": "/metadata/ownerReferences"}]
    rest.patch(
        paths.resource("v1", "configmaps", rest.namespace, anchors[0]["metadata"]["name"]), without, patch_type="json"
    )
    second = submit_to_cluster(rest, manifest, tmp_path, secret)

    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    assert second["spec"]["tasks"][0]["files"][0]["size"] == len(content)
    anchors = anchors_in(rest, rest.namespace)
    assert [[one["uid"] for one in anchor["metadata"]["ownerReferences"]] for anchor in anchors] == [
        [first["metadata"]["uid"]]
    ]
    other = {**manifest, "metadata": {**manifest["metadata"], "labels": {ORIGIN_UID: "uid-2"}}}
    with pytest.raises(AlreadyExists, match="there is another job 'burst-1'"):
        submit_to_cluster(rest, other, tmp_path, secret)


def test_a_user_without_rights_is_told_which_and_how_to_get_them(
    fairway: Commands, served: ApiServer, kubectl: Callable[[Path], Kubectl], tmp_path: Path
) -> None:
    document = json.loads(kubectl(served.kubeconfig)("config", "view", "--raw", "-o", "json"))
    document["users"][0]["user"]["as"] = "bob"
    path = tmp_path / "bob"
    path.write_text(json.dumps(document))
    bob = Commands(tmp_path / "bob-work", path, fairway.namespace)

    said = bob.refused("jobs", "launch", "-d", "true")

    assert "user bob lacks the right to create managedjobs.fairway.dev" in said
    grant = next(line for line in said.splitlines() if "create rolebinding" in line)
    assert f"--user=bob -n {fairway.namespace}" in grant


def test_a_cluster_without_fairway_is_named(fresh_apiserver: ApiServer, tmp_path: Path) -> None:
    fairway = Commands(tmp_path / "work", fresh_apiserver.kubeconfig, "default")

    assert "has no Fairway" in fairway.refused("queue")
    assert "fairway cluster install --context" in fairway.refused("jobs", "launch", "-d", "true")
    assert fairway.run("doctor").returncode == 1
