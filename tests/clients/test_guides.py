"""The guides that our users follow, typed as they stand there: SkyPilot's on Kueue, and Ray's on priorities with Kueue.

`data/v1beta1` holds their manifests as they are; `data/v1beta2` the same in Kueue's newer version, where the names of a
queue's admission checks have moved.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .kubectl import Kubectl
from .manifests import ray_job

DATA = Path(__file__).parent / "data"


@pytest.fixture
def guest(tmp_path: Path, kubectl_binary: str, home: Path) -> Iterator[Kubectl]:
    """kubectl on a server that nobody has used before: the guides have names of their own for everything."""
    with Server(tmp_path / "state") as server:
        yield Kubectl(kubectl_binary, server.kubeconfig, home)


WAYS = [
    pytest.param("apply", "created", id="apply"),
    pytest.param("apply --server-side", "serverside-applied", id="server-side apply"),
    pytest.param("create", "created", id="create"),
]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(("way", "done"), WAYS)
def test_skypilots_guide(guest: Kubectl, version: str, way: str, done: str) -> None:
    files = DATA / version

    flavors = guest(f"{way} -f", str(files / "kueue-resource-flavor.yaml"))
    checks = guest(f"{way} -f", str(files / "kueue-admission-check.yaml"))
    guest("create namespace skypilot")
    queues = guest(f"{way} -f", str(files / "kueue.yaml"))

    assert (flavors + checks + queues).splitlines() == [
        f"resourceflavor.kueue.x-k8s.io/default-flavor {done}",
        f"admissioncheck.kueue.x-k8s.io/skypilot-kueue-prov {done}",
        f"provisioningrequestconfig.kueue.x-k8s.io/skypilot-kueue-config {done}",
        f"clusterqueue.kueue.x-k8s.io/skypilot-cluster-queue {done}",
        f"localqueue.kueue.x-k8s.io/skypilot-local-queue {done}",
    ]
    assert guest.table("get clusterqueues") == [
        ["NAME", "COHORT", "PENDING WORKLOADS"],
        ["skypilot-cluster-queue", "", ""],
    ]
    assert guest.table("get localqueues -A") == [
        ["NAMESPACE", "NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"],
        ["skypilot", "skypilot-local-queue", "skypilot-cluster-queue", "", ""],
    ]
    queue = guest.json("get clusterqueues.v1beta2.kueue.x-k8s.io skypilot-cluster-queue")["spec"]
    assert queue["admissionChecksStrategy"] == {"admissionChecks": [{"name": "skypilot-kueue-prov"}]}
    old = guest.json("get clusterqueues.v1beta1.kueue.x-k8s.io skypilot-cluster-queue")["spec"]
    quotas = {each["name"]: str(each["nominalQuota"]) for each in old["resourceGroups"][0]["flavors"][0]["resources"]}
    assert quotas == {"cpu": "1000000000", "memory": "1000000000Gi", "nvidia.com/gpu": "1000000000"}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(("way", "done"), WAYS)
def test_rays_guide(guest: Kubectl, version: str, way: str, done: str) -> None:
    files = DATA / version

    first = guest(f"{way} -f", str(files / "kueue-resources.yaml"))

    assert first.splitlines() == [
        f"resourceflavor.kueue.x-k8s.io/default-flavor {done}",
        f"clusterqueue.kueue.x-k8s.io/cluster-queue {done}",
        f"localqueue.kueue.x-k8s.io/user-queue {done}",
        f"workloadpriorityclass.kueue.x-k8s.io/prod-priority {done}",
        f"workloadpriorityclass.kueue.x-k8s.io/dev-priority {done}",
    ]
    assert guest.table("get workloadpriorityclasses") == [
        ["NAME", "VALUE"],
        ["dev-priority", "100"],
        ["prod-priority", "1000"],
    ]
    if way == "create":
        assert "already exists" in guest.refused("create -f", str(files / "more-quota.yaml"))
        guest("replace -f", str(files / "more-quota.yaml"), "--force")
    else:
        again = guest(f"{way} -f", str(files / "kueue-resources.yaml")).splitlines()
        assert {line.split()[1] for line in again} == {"unchanged" if way == "apply" else "serverside-applied"}
        guest(f"{way} -f", str(files / "more-quota.yaml"))
    quotas = guest("get clusterqueue cluster-queue -o", "jsonpath={..nominalQuota}")
    assert quotas == "100 100Gi 10"


def test_rays_guide_goes_on_with_jobs(guest: Kubectl) -> None:
    guest("apply -f", str(DATA / "v1beta1" / "kueue-resources.yaml"))
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/priority-class": "dev-priority"}
    manifest = ray_job(generateName="dev-pytorch-text-classifier-", labels=labels)

    name = guest("create -f -", given=manifest).split()[0].removeprefix("rayjob.ray.io/")
    status = '{"status":{"jobStatus":"SUCCEEDED","jobDeploymentStatus":"Complete"}}'
    guest(f"patch rayjob {name} --subresource=status --type=merge -p", status)

    assert guest(f"get rayjobs.ray.io {name} -o", "jsonpath={.status.jobStatus}") == "SUCCEEDED"
    assert guest(f"get rayjobs.ray.io {name} -o", "jsonpath={.status.jobDeploymentStatus}") == "Complete"
    assert guest(f"delete rayjob {name}").startswith(f'rayjob.ray.io "{name}" deleted')
