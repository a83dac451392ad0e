"""The admission plugin of the queue in a real store: what is held back, what is completed, what is refused."""

import asyncio
import copy
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.admission import ALLOWED, AdmissionChain, AdmissionRequest
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.selectors import LabelSelector
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.errors import ValidationError
from fairway.integrations.workloads import owner_reference
from fairway.testing.clock import settle
from fairway.testing.clusters import LocalCluster, local_cluster

from .ways import called

QUEUE = "kueue.x-k8s.io/queue-name"
CONTAINERS = [{"name": "main", "image": "busybox"}]


@asynccontextmanager
async def a_gate(way: str, **configured: Any) -> AsyncIterator[LocalCluster]:
    """A cluster with the plugin and nothing else."""
    async with local_cluster() as world:
        plugin = QueueAdmission(world.cluster, FixedConfiguration(Configuration(**configured)))
        world.api.objects.use_admission(AdmissionChain(called(plugin, way)))
        async with world.running():
            yield world


def a_job(labels: dict[str, str] | None = None, name: str = "train", **metadata: Any) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels or {}), **metadata},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": copy.deepcopy(CONTAINERS)}}},
    }


def a_pod(name: str = "pod", **spec: Any) -> Manifest:
    pod = {"restartPolicy": "Never", "containers": copy.deepcopy(CONTAINERS), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": pod}


async def a_queue(world: LocalCluster, name: str) -> None:
    spec = {"clusterQueue": "team"}
    await world.api.create("localqueues", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await settle()


async def made(world: LocalCluster, kind: str, manifest: Manifest, namespace: str = "default") -> Manifest:
    """Create an object, and let the caches hear of it."""
    created = await world.api.create(kind, manifest, namespace)
    await settle()
    return created


@pytest.mark.parametrize(
    ("labels", "configured", "queue", "want"),
    [
        pytest.param({QUEUE: "q"}, {}, None, ("q", True), id="a queue"),
        pytest.param({}, {}, None, (None, False), id="none"),
        pytest.param({}, {}, "default", ("default", True), id="the default one"),
        pytest.param({QUEUE: "q"}, {}, "default", ("q", True), id="another than the default"),
        pytest.param({}, {}, "other", (None, False), id="only a default one is"),
        pytest.param({}, {"manage_jobs_without_queue_name": True}, None, (None, True), id="all jobs"),
        pytest.param({QUEUE: "q"}, {"frameworks": ()}, "default", ("q", False), id="the kind is off"),
    ],
)
def test_new_jobs(
    way: str, labels: dict[str, str], configured: dict[str, Any], queue: str | None, want: tuple[str | None, bool]
) -> None:
    async def play() -> None:
        async with a_gate(way, **configured) as world:
            if queue is not None:
                await a_queue(world, queue)
            job = await made(world, "jobs", a_job(labels))
            assert (job["metadata"]["labels"].get(QUEUE), job["spec"]["suspend"]) == want

    asyncio.run(play())


def test_namespaces_that_are_left_out(way: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            job = a_job({QUEUE: "Not A Name"}, namespace="kube-system")
            with pytest.raises(ValidationError, match="a valid label must be"):
                await world.api.create("jobs", job, "kube-system")  # by Kubernetes' own rules
            job = await made(world, "jobs", a_job({QUEUE: "Upper"}, namespace="kube-system"), "kube-system")
            assert job["spec"]["suspend"] is False

    asyncio.run(play())


def test_a_namespace_and_a_configuration_that_change_are_followed(way: str) -> None:
    chosen = LabelSelector(match_labels={"team": "a"})

    async def play() -> None:
        async with local_cluster() as world:
            configuration = FixedConfiguration(Configuration(namespace_selector=chosen))
            plugin = QueueAdmission(world.cluster, configuration)
            world.api.objects.use_admission(AdmissionChain(called(plugin, way)))
            async with world.running():
                suspended = []
                for number, change in enumerate(("", "labels", "configuration")):
                    if change == "labels":
                        await world.api.patch("namespaces", "default", {"metadata": {"labels": {"team": "a"}}})
                    if change == "configuration":
                        configuration.set(Configuration(namespace_selector=LabelSelector(match_labels={"team": "b"})))
                    await settle()
                    job = await made(world, "jobs", a_job({QUEUE: "q"}, name=f"train-{number}"))
                    suspended.append(job["spec"]["suspend"])
                assert suspended == [False, True, False]

    asyncio.run(play())


def test_jobs_of_jobs_are_not_queued_by_themselves(way: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            parent = await made(world, "jobs", a_job({QUEUE: "q"}))
            await a_queue(world, "default")
            owners = [owner_reference(parent)]
            child = await made(world, "jobs", a_job(name="child", ownerReferences=owners))
            named = await made(world, "jobs", a_job({QUEUE: "q"}, "named", ownerReferences=owners))
            assert [one["spec"]["suspend"] for one in (child, named)] == [False, False]
            assert QUEUE not in child["metadata"]["labels"]

    asyncio.run(play())


def test_jobs_of_a_job_in_no_queue_may_be_queued(way: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            owners = [owner_reference(await made(world, "jobs", a_job()))]
            child = await made(world, "jobs", a_job({QUEUE: "q"}, "child", ownerReferences=owners))
            assert child["spec"]["suspend"] is True

    asyncio.run(play())


def test_an_owner_that_is_gone_manages_nothing(way: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            parent = await made(world, "jobs", a_job({QUEUE: "q"}))
            await world.api.delete("jobs", "train")
            await settle()
            owners = [owner_reference(parent)]
            child = await world.api.create("jobs", a_job({QUEUE: "q"}, "child", ownerReferences=owners))
            assert child["spec"]["suspend"] is True

    asyncio.run(play())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        pytest.param({QUEUE: "Upper"}, f"metadata.labels[{QUEUE}]: Invalid value", id="a queue that is no name"),
        pytest.param({"kueue.x-k8s.io/max-exec-time-seconds": "0"}, "should be greater than 0", id="no time at all"),
    ],
)
def test_jobs_that_are_refused(way: str, labels: dict[str, str], message: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            with pytest.raises(ValidationError) as refused:
                await world.api.create("jobs", a_job(labels))
            assert message in str(refused.value)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"metadata": {"labels": {QUEUE: "other"}}, "spec": {"suspend": False}},
            "field is immutable",
            id="another queue for a job that is to run",
        ),
        pytest.param(
            {"metadata": {"labels": {QUEUE: None}}},
            "queue-name must not be empty in namespace with default queue",
            id="no queue any more",
        ),
        pytest.param(
            {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": None}}},
            "WorkloadPriorityClass cannot be removed from a workload",
            id="no class any more",
        ),
    ],
)
def test_changes_that_are_refused(way: str, change: Manifest, message: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            await a_queue(world, "default")
            await made(world, "jobs", a_job({QUEUE: "q", "kueue.x-k8s.io/priority-class": "high"}))
            with pytest.raises(ValidationError) as refused:
                await world.api.patch("jobs", "train", change)
            assert message in str(refused.value)
            await world.api.patch("jobs", "train", {"metadata": {"labels": {QUEUE: "other"}}})

    asyncio.run(play())


# The priority of pods


def a_class(name: str, value: int, **more: Any) -> Manifest:
    return {"metadata": {"name": name}, "value": value, **more}


@pytest.mark.parametrize(
    ("classes", "spec", "want"),
    [
        pytest.param([], {}, (None, 0, "PreemptLowerPriority"), id="none"),
        pytest.param(
            [a_class("high", 9)], {"priorityClassName": "high"}, ("high", 9, "PreemptLowerPriority"), id="named"
        ),
        pytest.param(
            [a_class("calm", 9, preemptionPolicy="Never")],
            {"priorityClassName": "calm"},
            ("calm", 9, "Never"),
            id="named, one that preempts nobody",
        ),
        pytest.param(
            [a_class("high", 9, globalDefault=True), a_class("low", 3, globalDefault=True)],
            {},
            ("low", 3, "PreemptLowerPriority"),
            id="the lower of two defaults",
        ),
        pytest.param(
            [],
            {"priorityClassName": "system-node-critical"},
            ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
            id="of the system",
        ),
        pytest.param(
            [a_class("high", 9)],
            {"priorityClassName": "high", "priority": 9},
            ("high", 9, "PreemptLowerPriority"),
            id="said rightly",
        ),
    ],
)
def test_priorities_of_pods(
    way: str, classes: list[Manifest], spec: Manifest, want: tuple[str | None, int, str]
) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            for one in classes:
                await made(world, "priorityclasses", copy.deepcopy(one))
            pod = (await made(world, "pods", a_pod(**spec)))["spec"]
            assert (pod.get("priorityClassName"), pod["priority"], pod["preemptionPolicy"]) == want

    asyncio.run(play())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"priorityClassName": "gone"},
            "spec.priorityClassName: Forbidden: no PriorityClass with name gone was found",
            id="no such class",
        ),
        pytest.param(
            {"priority": 5},
            "spec.priority: Forbidden: the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name",
            id="a number",
        ),
        pytest.param(
            {"preemptionPolicy": "Never"},
            "spec.preemptionPolicy: Forbidden: the string value of PreemptionPolicy (Never) must not be provided"
            " in pod spec; priority admission controller computed PreemptLowerPriority from the given "
            "PriorityClass name",
            id="a policy",
        ),
    ],
)
def test_pods_that_are_refused(way: str, spec: Manifest, message: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            with pytest.raises(ValidationError) as refused:
                await world.api.create("pods", a_pod(**spec))
            assert message in str(refused.value)

    asyncio.run(play())


def test_a_default_class_that_goes_is_forgotten(way: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            await made(world, "priorityclasses", a_class("usual", 4, globalDefault=True))
            assert (await made(world, "pods", a_pod("first")))["spec"]["priority"] == 4
            await world.api.delete("priorityclasses", "usual")
            await settle()
            assert (await made(world, "pods", a_pod("second")))["spec"]["priority"] == 0

    asyncio.run(play())


def test_pods_of_jobs_in_a_queue_are_not_held_back_again(way: str) -> None:
    async def play() -> None:
        async with a_gate(way) as world:
            job = await made(world, "jobs", a_job({QUEUE: "q"}))
            pod = a_pod()
            pod["metadata"]["ownerReferences"] = [owner_reference(job)]
            pod["metadata"]["labels"] = {QUEUE: "q"}
            assert "schedulingGates" not in (await made(world, "pods", pod))["spec"]
            alone = a_pod("alone")
            alone["metadata"]["labels"] = {QUEUE: "q"}
            gates = (await made(world, "pods", alone))["spec"]["schedulingGates"]
            assert gates == [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]

    asyncio.run(play())


def test_other_kinds_cost_next_to_nothing() -> None:
    async def play() -> None:
        async with local_cluster() as world:
            chain = AdmissionChain(QueueAdmission(world.cluster, FixedConfiguration(Configuration())))
            request = AdmissionRequest(world.api.kind("configmaps"), {"metadata": {"name": "a"}})
            began = time.thread_time()
            for _ in range(20_000):
                assert chain.admit(request) is ALLOWED
            assert (time.thread_time() - began) / 20_000 < 20e-6

    asyncio.run(play())


def test_what_names_no_queue_is_refused_where_that_is_forbidden(way: str) -> None:
    async def story() -> None:
        async with a_gate(way, jobs_outside_queues="Deny") as world:
            for kind, manifest in (("jobs", a_job()), ("pods", a_pod())):
                with pytest.raises(ValidationError, match="outside the queues"):
                    await world.api.create(kind, manifest)
            await a_queue(world, "team")
            assert await made(world, "jobs", a_job({QUEUE: "team"}))

    asyncio.run(story())


def test_pods_of_a_job_in_a_queue_are_not_outside(way: str) -> None:
    async def story() -> None:
        async with a_gate(way, jobs_outside_queues="Deny") as world:
            await a_queue(world, "team")
            job = await made(world, "jobs", a_job({QUEUE: "team"}))
            managed = await made(
                world,
                "managedjobs",
                {"metadata": {"name": "m", "namespace": "default"}, "spec": {"tasks": [{"run": "true"}]}},
            )
            for owner in (job, managed):
                pod = a_pod(f"of-{owner['metadata']['name']}")
                pod["metadata"]["ownerReferences"] = [owner_reference(owner)]
                assert await made(world, "pods", pod)
            forged = a_pod("forged")
            forged["metadata"]["ownerReferences"] = [{**owner_reference(managed), "uid": "another"}]
            with pytest.raises(ValidationError, match="outside the queues"):
                await world.api.create("pods", forged)

    asyncio.run(story())


def test_system_namespaces_are_not_the_queue_s_business(way: str) -> None:
    async def story() -> None:
        async with a_gate(way, jobs_outside_queues="Deny") as world:
            pod = a_pod()
            pod["metadata"]["namespace"] = "kube-system"
            assert await world.api.create("pods", pod, "kube-system")

    asyncio.run(story())
