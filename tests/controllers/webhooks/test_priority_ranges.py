"""Who may use which priorities: the default range, that of a ClusterQueue, classes, and what only controllers write."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairway.apis.machinery.admission import THIS_PROCESS, AdmissionChain, AdmissionPlugin, AdmissionRequest, UserInfo
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.webhooks.priority_ranges import PriorityAdmission
from fairway.errors import ValidationError
from fairway.integrations.priority_ranges import DEFAULT, PriorityRange, parse
from fairway.testing.clock import settle
from fairway.testing.clusters import LocalCluster, local_cluster

from .ways import called

BEN = UserInfo("ben")
ADMIN = UserInfo("ana", can_impersonate=True)
RANGE = "fairway.dev/priority-range"
CLASS = "kueue.x-k8s.io/priority-class"
QUEUE = "kueue.x-k8s.io/queue-name"


def managed(**spec: Any) -> Manifest:
    task = {"run": "true", **spec.pop("task", {})}
    return {"kind": "ManagedJob", "metadata": {"name": "j", "namespace": "default"}, "spec": {"tasks": [task], **spec}}


def batch(labels: dict[str, str] | None = None, **pod: Any) -> Manifest:
    spec = {"template": {"spec": {"containers": [], **pod}}}
    return {"kind": "Job", "metadata": {"name": "j", "namespace": "default", "labels": labels or {}}, "spec": spec}


def workload(annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    metadata = {"name": "w", "namespace": "default", "annotations": annotations or {}}
    return {"kind": "Workload", "metadata": metadata, "spec": {"queueName": "open", **spec}}


async def _queues(world: LocalCluster) -> None:
    for name, annotations in (("wide", {RANGE: "-5..5000"}), ("narrow", {RANGE: "0..10"}), ("open", {})):
        spec: Manifest = {"resourceGroups": []}
        await world.api.create("clusterqueues", {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
        local = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": name}}
        await world.api.create("localqueues", local)
    for name, value in (("high", 7000), ("low", 3)):
        await world.api.create("workloadpriorityclasses", {"metadata": {"name": name}, "value": value})
    await settle()


def judged(way: str, do: Callable[[AdmissionPlugin, LocalCluster], Awaitable[None]]) -> None:
    async def play() -> None:
        async with local_cluster() as world:
            plugin = called(PriorityAdmission(world.cluster), way)
            async with world.running():
                await _queues(world)
                await do(plugin, world)

    asyncio.run(play())


REFUSED = [
    pytest.param(managed(priority=1001), "spec.priority", "1001", "-1000 to 1000", id="a number beyond the default"),
    pytest.param(managed(priority=-1001), "spec.priority", "-1001", "-1000 to 1000", id="a number below it"),
    pytest.param(managed(queue="narrow", priority=11), "spec.priority", "11", "0 to 10", id="the range of a queue"),
    pytest.param(
        managed(task={"resources": {"priority": 11}}, queue="narrow"),
        "spec.tasks[0].resources.priority",
        "11",
        "ClusterQueue narrow",
        id="the number of a task",
    ),
    pytest.param(
        managed(queue="narrow", priorityClass="high"), "spec.priorityClass", "high", "7000", id="a class, in a queue"
    ),
    pytest.param(managed(priorityClass="system-x"), "spec.priorityClass", "system-x", "ben", id="a system class"),
    pytest.param(managed(aging={"cap": 5000}), "spec.aging.cap", "5000", "at most 1000", id="what aging may earn"),
    pytest.param(
        batch(priorityClassName="system-node-critical"),
        "spec.template.spec.priorityClassName",
        "system-node-critical",
        "only administrators",
        id="a Job with a system class",
    ),
    pytest.param(batch({CLASS: "high", QUEUE: "narrow"}), f"metadata.labels[{CLASS}]", "high", "0 to 10", id="a label"),
    pytest.param(workload(priority=2**31 - 1), "spec.priority", "2147483647", "default range", id="a Workload"),
    pytest.param(
        workload({"fairway.dev/earned-priority": "500"}, priority=0),
        "metadata.annotations[fairway.dev/earned-priority]",
        "500",
        "controllers",
        id="what aging earned, by hand",
    ),
    pytest.param(
        workload({"fairway.dev/first-submitted-at": "2020-01-01T00:00:00Z"}, priority=0),
        "metadata.annotations[fairway.dev/first-submitted-at]",
        "2020-01-01",
        "controllers",
        id="an older place in the queue",
    ),
]


@pytest.mark.parametrize(("manifest", "field", "value", "words"), REFUSED)
def test_what_a_user_may_not(way: str, manifest: Manifest, field: str, value: str, words: str) -> None:
    async def do(plugin: AdmissionPlugin, world: LocalCluster) -> None:
        kind = world.api.kind(f"{manifest['kind'].lower()}s")
        found = plugin.admit(AdmissionRequest(kind, manifest, None, BEN)).errors
        assert [one.path for one in found] == [field]
        assert value in str(found[0])
        assert words in str(found[0])
        assert "dministrators" in str(found[0]), "who may"
        for user in (ADMIN, THIS_PROCESS):
            assert not plugin.admit(AdmissionRequest(kind, manifest, None, user)).errors
        same = plugin.admit(AdmissionRequest(kind, manifest, manifest, BEN))
        assert not same.errors, "an administrator may have set it"
        plain = copy.deepcopy(manifest)
        plain["metadata"]["annotations"] = {}
        plain["spec"] = {"tasks": [{"run": "true"}], "queue": manifest["spec"].get("queue", "")}
        plain["spec"] |= {"queueName": manifest["spec"].get("queueName"), "template": {}}
        plain["metadata"]["labels"] = {
            key: one for key, one in (manifest["metadata"].get("labels") or {}).items() if key == QUEUE
        }
        changed = plugin.admit(AdmissionRequest(kind, manifest, plain, BEN))
        assert [one.path for one in changed.errors] == [field]

    judged(way, do)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(managed(priority=1000), id="the highest of the default"),
        pytest.param(managed(priority=5000, queue="wide"), id="the highest of a queue"),
        pytest.param(managed(priorityClass="high"), id="a class that an administrator made"),
        pytest.param(managed(priorityClass="high", queue="open"), id="also in a queue without a range"),
        pytest.param(managed(queue="narrow", aging={"cap": 100}), id="the usual aging"),
        pytest.param(batch({CLASS: "low", QUEUE: "narrow"}), id="a class within the range"),
        pytest.param(workload(priority=1000), id="a Workload within the range"),
    ],
)
def test_what_a_user_may(way: str, manifest: Manifest) -> None:
    async def do(plugin: AdmissionPlugin, world: LocalCluster) -> None:
        kind = world.api.kind(f"{manifest['kind'].lower()}s")
        assert not plugin.admit(AdmissionRequest(kind, manifest, None, BEN)).errors

    judged(way, do)


def test_a_job_that_moves_to_another_queue_is_judged_by_its_range(way: str) -> None:
    async def do(plugin: AdmissionPlugin, world: LocalCluster) -> None:
        kind = world.api.kind("jobs")
        before, after = batch({CLASS: "high", QUEUE: "open"}), batch({CLASS: "high", QUEUE: "narrow"})
        assert not plugin.admit(AdmissionRequest(kind, before, before, BEN)).errors
        assert len(plugin.admit(AdmissionRequest(kind, after, before, BEN)).errors) == 1

    judged(way, do)


def test_a_range_that_is_none_is_refused(way: str) -> None:
    async def do(plugin: AdmissionPlugin, world: LocalCluster) -> None:
        world.api.objects.use_admission(AdmissionChain(plugin))
        queue = {"metadata": {"name": "q", "annotations": {RANGE: "high"}}, "spec": {}}
        with pytest.raises(ValidationError, match=r"-100\.\.500"):
            await world.api.create("clusterqueues", queue)

    judged(way, do)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("-1000..1000", DEFAULT),
        (" 0..0 ", PriorityRange(0, 0)),
        ("5..1", None),
        ("1..99999999999", None),
        ("1...2", None),
        ("", None),
        ("1..2147483648", None),
    ],
)
def test_ranges(text: str, want: PriorityRange | None) -> None:
    assert parse(text) == want
