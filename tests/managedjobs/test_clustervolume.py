"""Archives in volumes: what is created for them, and why an upload waits."""

import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairway.managedjobs import clustervolume
from fairway.managedjobs.clusterscripts import ready_command, store_command
from fairway.managedjobs.clustervolume import MANY, ONCE, UploadPlan, VolumeUnusable, plan_for

DIGEST = "ab" * 32
ANCHOR = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "anchor", "uid": "u1"}}
POD = clustervolume.uploader("l1", DIGEST, "c", UploadPlan(), ANCHOR)
CLAIM = clustervolume.claim("c", DIGEST, 1, UploadPlan(storage_class="fast"), ANCHOR)


def job(*, nodes: int = 1, pod_config: Any = None, **files: str) -> dict[str, Any]:
    task: dict[str, Any] = {"run": "ls", "files": [{"archive": DIGEST, "path": ".", "size": 9_000_000}]}
    task |= {"num_nodes": nodes, "config": {"kubernetes": {"files": files} if files else {}}}
    return {"spec": {"tasks": [task], "podConfig": pod_config or {}}}


@pytest.mark.parametrize(
    ("jobs", "mode", "several"),
    [
        pytest.param([job()], ONCE, False, id="one pod"),
        pytest.param([job(nodes=2)], MANY, True, id="a gang"),
        pytest.param([job(), job()], MANY, True, id="several jobs"),
        pytest.param([job(access_mode=MANY)], MANY, False, id="one pod, configured"),
        pytest.param([job(nodes=2, access_mode=ONCE)], ONCE, True, id="a gang, configured"),
    ],
)
def test_several_pods_need_a_volume_for_several_nodes(jobs: list[Any], mode: str, several: bool) -> None:  # noqa: FBT001
    plan = plan_for(jobs, DIGEST)
    assert (plan.access_mode, plan.several) == (mode, several)


def test_only_a_volume_for_several_nodes_is_shared() -> None:
    shared = clustervolume.claim_names(DIGEST, "l1", UploadPlan(access_mode=MANY))
    assert shared == clustervolume.claim_names(DIGEST, "l2", UploadPlan(access_mode=MANY))
    first = clustervolume.claim_names(DIGEST, "l1", UploadPlan())
    assert first[0] == shared[0], "what others share is used"
    assert first[-1] != clustervolume.claim_names(DIGEST, "l2", UploadPlan())[-1]
    assert all(len(one) <= 63 for one in first)


def test_the_uploader_runs_where_and_as_the_pods_of_the_job_run() -> None:
    pod_config = {
        "spec": {
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "registry"}],
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "containers": [{"securityContext": {"runAsNonRoot": True}, "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        }
    }
    plan = plan_for([job(pod_config=pod_config, storage_class="fast", image="mirror/busybox")], DIGEST)
    spec = clustervolume.uploader("l1", DIGEST, "c", plan, ANCHOR)["spec"]
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["securityContext"] == {"runAsUser": 1000, "fsGroup": 1000}
    (container,) = spec["containers"]
    assert container["image"] == "mirror/busybox"
    assert container["securityContext"] == {"runAsNonRoot": True}
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert spec["activeDeadlineSeconds"] == 3600
    assert not spec["automountServiceAccountToken"]


@pytest.mark.parametrize(("size", "request_"), [(9_000_000, "1Gi"), (500_000_000, "1Gi"), (600_000_000, "2Gi")])
def test_a_claim_has_room_for_two_copies(size: int, request_: str) -> None:
    claim = clustervolume.claim("c", DIGEST, size, UploadPlan(), ANCHOR)
    assert claim["spec"]["resources"]["requests"]["storage"] == request_
    assert "storageClassName" not in claim["spec"], "the default one"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_a_cluster_without_a_default_class_is_said_at_once() -> None:
    with pytest.raises(VolumeUnusable, match=r"no default StorageClass.*storage_class in config\.kubernetes\.files"):
        clustervolume.check_class(clustervolume.claim("c", DIGEST, 1, UploadPlan(), ANCHOR))
    clustervolume.check_class(CLAIM)


def test_jobs_name_the_claims_of_their_archives() -> None:
    other = {"archive": "cd" * 32, "path": "data", "size": 1}
    given = job()
    given["spec"]["tasks"][0]["files"].append(other)
    made = clustervolume.with_claims(given, {DIGEST: "c", "cd" * 32: ""})
    assert made["spec"]["tasks"][0]["files"] == [
        {"archive": DIGEST, "path": ".", "size": 9_000_000, "claim": "c"},
        other,
    ]
    assert "claim" not in given["spec"]["tasks"][0]["files"][0], "the original stays"


@pytest.mark.parametrize(
    ("found", "plan", "outdated"),
    [
        ({}, UploadPlan(storage_class="fast"), False),
        ({}, UploadPlan(), False),
        ({}, UploadPlan(storage_class="slow"), True),
        ({}, UploadPlan(access_mode=MANY), True),
        ({"phase": "Bound"}, UploadPlan(storage_class="slow"), False),
    ],
)
def test_a_claim_of_another_configuration_is_replaced_while_it_has_no_volume(
    found: dict[str, str],
    plan: UploadPlan,
    outdated: bool,  # noqa: FBT001
) -> None:
    assert clustervolume.is_outdated({**CLAIM, "status": found}, plan) is outdated


def pod(phase: str = "Pending", waiting: dict[str, str] | None = None, scheduled: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase}
    if waiting:
        status["containerStatuses"] = [{"name": "upload", "state": {"waiting": waiting}}]
    if scheduled:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": scheduled}
        status["conditions"] = [condition]
    return {**POD, "metadata": {**POD["metadata"], "uid": "p"}, "status": status}


def claim(phase: str = "Bound") -> dict[str, Any]:
    return {**CLAIM, "status": {"phase": phase}}


def event(reason: str, message: str) -> dict[str, str]:
    return {"type": "Warning", "reason": reason, "message": message}


FULL = {"message": "fairway: user 5 cannot write to the volume", "exitCode": 1}
ENDED = {"phase": "Failed", "containerStatuses": [{"name": "upload", "state": {"terminated": FULL}}]}


@pytest.mark.parametrize(
    ("pod", "claim", "events", "reason", "hopeless"),
    [
        pytest.param(pod(), claim(), [], "is being started", False, id="nothing wrong"),
        pytest.param(
            pod(scheduled="0/3 nodes are available: 3 Insufficient cpu."), claim(), [],
            "waits for a node: 0/3 nodes are available", False, id="no node",
        ),
        pytest.param(
            pod(scheduled="unbound claims"), claim("Pending"),
            [event("ProvisioningFailed", "access mode is not supported")],
            r"no volume for claim c \(class fast, ReadWriteOnce\): access mode is not supported\. Choose a class that",
            False, id="a class that does not provide it",
        ),
        pytest.param(
            pod(), claim("Pending"), [event("ProvisioningFailed", 'storageclass "fast" not found')],
            "not found.*storage_class", True, id="a class that does not exist",
        ),
        pytest.param(pod(), claim("Lost"), [], "is lost; delete the claim", True, id="a lost volume"),
        pytest.param(
            pod(waiting={"reason": "ImagePullBackOff", "message": "not there"}), claim(), [],
            "image busybox of the uploader pod .* cannot be pulled.*image in config", True, id="no image",
        ),
        pytest.param(
            pod(waiting={"reason": "ErrImagePull", "message": "timeout"}), claim(), [],
            "cannot be pulled", False, id="the image failed once",
        ),
        pytest.param(
            pod(), claim(), [event("FailedMount", "no such export")], "cannot be mounted: no such export", False,
            id="the volume cannot be mounted",
        ),
        pytest.param(
            {**pod(), "status": ENDED}, claim(), [], "ended: fairway: user 5 cannot write", True, id="read only",
        ),
    ],
)  # fmt: skip
def test_each_delay_has_its_sentence(
    pod: Any,
    claim: Any,
    events: list[Any],
    reason: str,
    hopeless: bool,  # noqa: FBT001
) -> None:
    found = clustervolume.waiting(pod, claim, events)
    assert found is not None
    assert found.is_hopeless is hopeless
    assert re.search(reason, found.reason), found.reason


def test_a_running_pod_waits_for_nothing() -> None:
    assert clustervolume.waiting(pod("Running"), claim("Pending"), []) is None


def run(command: list[str], volume: Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    shell, flag, script, *arguments = command
    script = script.replace("/fairway-upload", str(volume)).replace("$$", "$")
    return subprocess.run([shell, flag, script, *arguments], input=given, capture_output=True, check=False)  # noqa: S603


CONTENT = b"an archive" * 20_000
RIGHT = hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.parametrize(
    ("given", "digest", "sentence"),
    [
        (CONTENT, RIGHT, ""),
        (CONTENT + b"more", RIGHT, f"it took {len(CONTENT) + 4} of {len(CONTENT)} bytes"),
        (CONTENT[:-1], RIGHT, f"it took {len(CONTENT) - 1} of {len(CONTENT)} bytes"),
        (CONTENT, DIGEST, f"what arrived has the SHA-256 {RIGHT} instead of {DIGEST}"),
    ],
    ids=["right", "too much", "cut off", "damaged"],
)
def test_an_archive_is_in_place_only_when_it_is_whole(given: bytes, digest: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    done = run(store_command(len(CONTENT), digest, "l1"), tmp_path, given)
    assert done.stderr.decode().startswith(sentence)
    assert done.returncode == (1 if sentence else 0)
    found = {one.name: one.read_bytes() for one in (tmp_path / "files").iterdir()}
    assert found == ({} if sentence else {"archive.tar.gz": CONTENT})


def test_the_uploader_ends_at_once_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("not a directory")
    done = run(ready_command(1), tmp_path)
    assert done.returncode == 1
    assert b"cannot write to the volume; set securityContext.fsGroup in a pod_config" in done.stderr
