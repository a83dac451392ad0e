"""Gangs, access, preemption and drift on a real YuniKorn, by what Fairway writes into jobs and into its queues."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.cluster import versions
from tools.cluster.lifecycle import RunningCluster, kubectl_path

from fairway.apis.machinery.kind import Manifest
from schedulers.gangs import GROUP, crowded, job, managed_job, pod, pod_group

from .commands import Commands
from .conftest import ROOT
from .controllers import eventually
from .installation import Kubectl
from .yunikorn import CONFIG, CREATORS, DEFINITION, YuniKorn, application_of

WEB = "yk-web"
PLACES = (WEB, "vision", "speech")


@pytest.fixture(scope="module")
def scheduler(
    yunikorn: RunningCluster,
    kubectl: Callable[[Path], Kubectl],
    tree_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[YuniKorn]:
    """YuniKorn with the organizations' queues, and Fairway's controller beside it."""
    k, work = kubectl(yunikorn.kubeconfig), tmp_path_factory.mktemp("yunikorn") / "work"
    work.mkdir()
    fairway = Commands(work, yunikorn.kubeconfig, "default")
    way = "kueue" if k("get", "deployments", "-A", "-l", "app.kubernetes.io/name=kueue", "-o", "name") else "none"
    before = json.loads(k("-n", "yunikorn", "get", "configmap", "yunikorn-configs", "-o", "json")).get("data") or {}
    with fairway.installation(tree_image, way):
        found = YuniKorn(k, fairway)
        try:
            config = {"name": "fairway-config", "namespace": "fairway-system"}
            text = {"queueconfig.yaml": yaml.safe_dump(CONFIG)}
            config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": config, "data": text}
            k("apply", "-f", "-", given=json.dumps(config_map))
            (work / ".fairway.yaml").write_text(yaml.safe_dump(CONFIG))
            for name, value in (("urgent", 1000), ("usual", 100), ("idle", 10)):
                priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
                k("apply", "-f", "-", given=json.dumps({**priority, "value": value}))
            patch = json.dumps({"data": {"admissionController.accessControl.externalUsers": CREATORS}})
            k("-n", "yunikorn", "patch", "configmap", "yunikorn-configs", "--type=merge", "-p", patch)
            (work / "quota.yaml").write_text(yaml.safe_dump(DEFINITION))
            fairway("quota", "apply", "quota.yaml")
            found.follows()
            yield found
        finally:
            k("delete", "namespaces", *PLACES, "--ignore-not-found", "--timeout=120s")
            k("delete", "priorityclass", "urgent", "usual", "idle", "--ignore-not-found")
            k("delete", "quotadefinitions", "--all")
            kept = {
                "data": {"queues.yaml": before.get("queues.yaml")},
                "metadata": {"labels": {"fairway.dev/quota": None}},
            }
            k("-n", "yunikorn", "patch", "configmap", "yunikorn-configs", "--type=merge", "-p", json.dumps(kept))


@pytest.fixture(autouse=True)
def empty(scheduler: YuniKorn) -> Iterator[None]:
    """Every test begins with queues that hold nothing."""
    yield
    for place in PLACES:
        scheduler.remove_jobs(place)


GANGS: dict[str, tuple[list[Any], str, str]] = {
    "Job": ([job("gang", 3, crowded())], "job-name=gang", "batch"),
    "pod group": (pod_group("gang", 3), f"{GROUP}=gang", "pod"),
    "ManagedJob": ([managed_job("gang", 3, 1, image_id="docker:python:3.11")], "fairway.dev/job=gang", "managed"),
}


@pytest.mark.parametrize("kind", GANGS)
def test_a_gang_waits_until_all_of_it_fits_and_then_starts_as_one(scheduler: YuniKorn, kind: str) -> None:
    manifests, chosen, queue = GANGS[kind]
    scheduler.send([job("filler", 1, pod("2"))], WEB)
    eventually(lambda: scheduler.phases(WEB, "job-name=filler"), ["Running"])

    scheduler.send(manifests, WEB)
    eventually(lambda: len(scheduler.pods(WEB, chosen)), 3)
    application = application_of(scheduler.pods(WEB, chosen))
    eventually(lambda: scheduler.placeholders(WEB, application), ["Pending", "Running", "Running"])
    assert scheduler.phases(WEB, chosen) == ["Pending"] * 3, "two of them would have room"

    scheduler.k("-n", WEB, "delete", "job", "filler")
    eventually(lambda: scheduler.phases(WEB, chosen), ["Running"] * 3)
    found = scheduler.application(application)
    assert found["queueName"] == f"root.web.{queue}"
    assert found["user"] == "admin"
    (placeholders,) = found["placeholderData"]
    assert (placeholders["count"], placeholders["replaced"], placeholders.get("timedout", 0)) == (3, 3, 0)
    sizes = [one["resource"] for one in found["allocations"]]
    assert sizes == [placeholders["minResource"]] * 3, "placeholders are exactly as large as their pods"
    assert placeholders["minResource"]["vcore"] == 1000


def ray_node(name: str) -> Manifest:
    amounts = {"cpu": "1", "memory": "2Gi"}
    container = {"name": name, "image": f"rayproject/ray:{versions.RAY}", "resources": {"requests": amounts}}
    return {"template": {"spec": {"containers": [container]}}, "rayStartParams": {}}


def ray_job(name: str) -> Manifest:
    """A head, a worker, and the submitter that KubeRay adds when both are ready."""
    worker = {"groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, **ray_node("worker")}
    cluster = {"rayVersion": versions.RAY, "headGroupSpec": ray_node("head"), "workerGroupSpecs": [worker]}
    run = "python -c 'import ray; ray.init(); print(ray.cluster_resources())'"
    spec = {"entrypoint": run, "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}, "spec": spec}


def test_a_ray_job_waits_until_its_submitter_fits_too_and_succeeds(
    scheduler: YuniKorn, kuberay: RunningCluster
) -> None:
    scheduler.send([job("filler", 1, pod("2"))], WEB)
    eventually(lambda: scheduler.phases(WEB, "job-name=filler"), ["Running"])
    scheduler.send([ray_job("gang")], WEB)
    chosen = "ray.io/is-ray-node=yes"
    eventually(lambda: len(scheduler.pods(WEB, chosen)), 2)
    application = application_of(scheduler.pods(WEB, chosen))
    eventually(lambda: scheduler.placeholders(WEB, application), ["Pending", "Running", "Running"])
    assert scheduler.phases(WEB, chosen) == ["Pending"] * 2, "head and worker would have room"

    scheduler.k("-n", WEB, "delete", "job", "filler")
    eventually(lambda: scheduler.phases(WEB, chosen), ["Running"] * 2)
    eventually(lambda: scheduler.phases(WEB, "job-name=gang") in (["Running"], ["Succeeded"]))
    found = scheduler.application(application)
    assert (found["queueName"], found["user"]) == ("root.web.ray", "admin")
    groups = {one["taskGroupName"]: one for one in found["placeholderData"]}
    assert {name: (one["count"], one["replaced"]) for name, one in groups.items()} == dict.fromkeys(
        ("headgroup", "small", "submittergroup"), (1, 1)
    )
    sizes = {one["taskGroupName"]: one["resource"] for one in found["allocations"] if one.get("taskGroupName")}
    assert {name: groups[name]["minResource"] for name in sizes} == sizes
    status = ("-n", WEB, "get", "rayjob", "gang", "-o", "jsonpath={.status.jobStatus}")
    eventually(lambda: scheduler.k(*status), "SUCCEEDED")


def test_yunikorns_own_validation_accepts_what_is_rendered(scheduler: YuniKorn) -> None:
    example = str(ROOT / "examples/quota.yaml")
    for text in (scheduler.config_text(), scheduler.fairway("quota", "render", "--target", "yunikorn", example)):
        assert scheduler.validate(text)["allowed"], scheduler.validate(text)
    wrong = scheduler.config_text().replace("vcore: 2000m", "vcore: 9000m")
    assert not scheduler.validate(wrong)["allowed"], "it does refuse"


@pytest.mark.parametrize("place", [WEB, "speech"], ids=["YuniKorn says whose it is", "Fairway says whose it is"])
def test_a_stranger_is_kept_out_by_the_access_list(scheduler: YuniKorn, place: str) -> None:
    """Kubernetes lets both create Jobs: ana by the role of the definition, bo by one that was given by hand."""
    scheduler.k("-n", place, "create", "rolebinding", "by-hand", "--clusterrole=edit", "--user=bo")
    scheduler.create(job("members", 1, pod("1")), place, "ana")
    eventually(lambda: scheduler.phases(place, "job-name=members"), ["Running"])
    (member,) = scheduler.pods(place, "job-name=members")
    assert scheduler.application(application_of([member]))["user"] == "ana"

    scheduler.create(job("strangers", 1, pod("1")), place, "bo")
    eventually(lambda: scheduler.phases(place, "job-name=strangers"), ["Failed"])
    (stranger,) = scheduler.pods(place, "job-name=strangers")
    assert stranger["status"]["reason"] == "ApplicationRejected"

    claims = job("claims", 1, pod("1"))
    said = {"yunikorn.apache.org/user.info": json.dumps({"user": "ana", "groups": ["web"]})}
    claims["spec"]["template"]["metadata"] = {"annotations": said}
    with pytest.raises(AssertionError, match="names the user 'ana'"):
        scheduler.create(claims, place, "bo")


def of_class(spec: Manifest, name: str) -> Manifest:
    return {**spec, "priorityClassName": name}


def test_a_higher_priority_preempts_and_the_managed_job_comes_back(scheduler: YuniKorn) -> None:
    """The job in vision uses the two CPUs that are guaranteed to speech."""
    gang = managed_job("gang", 4, 1, image_id="docker:python:3.11")
    gang["spec"]["podConfig"] = {"spec": {"priorityClassName": "usual"}}
    scheduler.send([gang], "vision")
    eventually(lambda: scheduler.managed("vision", "gang").get("phase"), "RUNNING")
    first = application_of(scheduler.pods("vision", "fairway.dev/job=gang"))
    assert scheduler.application(first)["queueName"] == "root.ml.vision.managed"

    scheduler.send([job("idle", 1, of_class(pod("2"), "idle"))], "speech")
    eventually(lambda: scheduler.phases("speech", "job-name=idle"), ["Pending"])
    waiting = application_of(scheduler.pods("speech", "job-name=idle"))
    eventually(lambda: scheduler.placeholders("speech", waiting), ["Pending"])
    time.sleep(10)  # ten times as long as YuniKorn waits before it preempts
    assert scheduler.placeholders("speech", waiting) == ["Pending"], "a lower priority preempts nothing"
    assert scheduler.managed("vision", "gang")["phase"] == "RUNNING"

    scheduler.send([job("urgent", 1, of_class(pod("2"), "urgent"))], "speech")
    eventually(lambda: scheduler.phases("speech", "job-name=urgent"), ["Running"])
    eventually(lambda: scheduler.managed("vision", "gang")["phase"], "RECOVERING")

    scheduler.k("-n", "speech", "delete", "job", "idle", "urgent")
    eventually(lambda: scheduler.managed("vision", "gang")["phase"], "RUNNING")
    status = scheduler.managed("vision", "gang")
    assert status["recoveries"] == status["attempt"] - 1 >= 1
    second = application_of(scheduler.pods("vision", "fairway.dev/job=gang"))
    assert second != first, "YuniKorn reserves nothing for an application that it knows"
    (placeholders,) = scheduler.application(second)["placeholderData"]
    assert placeholders["replaced"] == 4, "the whole gang came back at once"


def test_a_queue_that_was_edited_by_hand_shows_as_drift_within_a_second_and_is_mended(
    scheduler: YuniKorn, yunikorn: RunningCluster
) -> None:
    """Three times, because the machine of the test may be busy with something else."""
    fairway, k = scheduler.fairway, scheduler.k
    k("wait", "--for=condition=Synced", "quotadefinition/company", "--timeout=60s")
    text = scheduler.config_text()
    edited = text.replace("vcore: 2000m", "vcore: 1000m", 1)
    assert scheduler.queue("root.ml.vision")["guaranteedResource"]["vcore"] == 2000
    waits = [_seconds_until_drift(yunikorn, scheduler, edited)]
    drift = fairway.run("quota", "diff")
    assert (drift.returncode, "resources.guaranteed.vcore: 1000m -> 2000m" in drift.stdout) == (2, True), drift.stdout
    eventually(lambda: scheduler.queue("root.ml.vision")["guaranteedResource"]["vcore"], 1000)

    fairway("quota", "apply", "quota.yaml")
    k("wait", "--for=condition=Synced", "quotadefinition/company", "--timeout=60s")
    assert scheduler.config_text() == text
    eventually(lambda: scheduler.queue("root.ml.vision")["guaranteedResource"]["vcore"], 2000)
    for _ in range(2):
        waits.append(_seconds_until_drift(yunikorn, scheduler, edited))
        fairway("quota", "apply", "quota.yaml")
        k("wait", "--for=condition=Synced", "quotadefinition/company", "--timeout=60s")
    assert min(waits) < 1, waits


def _seconds_until_drift(cluster: RunningCluster, scheduler: YuniKorn, text: str) -> float:
    """From the edit, when it is written, until someone who watches the definition sees it."""
    watch = ("wait", "--for=condition=Synced=false", "quotadefinition/company", "--timeout=60s")
    command = [kubectl_path(), "--kubeconfig", str(cluster.kubeconfig), *watch]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as watching:  # noqa: S603
        time.sleep(1)  # until it watches
        patch = json.dumps({"data": {"queues.yaml": text}})
        scheduler.k("-n", "yunikorn", "patch", "configmap", "yunikorn-configs", "--type=merge", "-p", patch)
        written = time.monotonic()
        assert watching.wait(60) == 0
        return time.monotonic() - written
