"""What queues show: every figure, when it is written, and how often."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from controllers import timeline
from controllers.deciding import FollowingEngine
from controllers.manifests import cluster_queue, flavor, local_queue, workload
from fairway.admission import wording
from fairway.admission.config import Config
from fairway.admission.figures import Activity
from fairway.apis.kueue.configuration import Configuration, FairSharingPolicy
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.queuestatus import QueueStatuses, decide
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster

NOW = "2026-01-01T00:00:00Z"
STEP = 0.05
"""How long a first change may take to show."""


class World(NamedTuple):
    local: LocalCluster
    engine: FollowingEngine
    configuration: FixedConfiguration

    async def create(self, **objects: Manifest | list[Manifest]) -> None:
        await timeline.create(self.local, **objects)

    async def catch_up(self) -> None:
        await timeline.catch_up(self.local)

    async def pass_time(self, seconds: float) -> None:
        await timeline.pass_time(self.local, seconds)

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found = self.local.api.get(kind, name)
        assert found is not None
        return dict(found.get("status") or {})

    def active(self, kind: str, name: str) -> tuple[str, str, str]:
        (condition,) = self.status(kind, name)["conditions"]
        return condition["status"], condition["reason"], condition["message"]


@asynccontextmanager
async def queues(configuration: Configuration | None = None, config: Config | None = None) -> AsyncIterator[World]:
    async with local_cluster(keepers=False) as local:
        engine = FollowingEngine(local.cluster, config)
        fixed = FixedConfiguration(configuration)
        controller = QueueStatuses(local.cluster, engine, fixed)
        async with local.running(engine, controller):
            yield World(local, engine, fixed)


def total(flavors: list[dict[str, Any]], resource: str = "cpu") -> list[str]:
    return [one["total"] for flavor in flavors for one in flavor["resources"] if one["name"] == resource]


def test_a_new_queue_says_that_it_can_admit() -> None:
    async def story() -> None:
        async with queues() as world:
            await world.create(resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue())
            await world.pass_time(STEP)
            nothing = [{"name": "default-flavor", "resources": [{"name": "cpu", "total": "0"}]}]
            assert world.active("clusterqueues", "cluster-queue") == ("True", "Ready", "Can admit new workloads")
            assert world.active("localqueues", "user-queue") == (
                "True",
                "Ready",
                "Can submit new workloads to localQueue",
            )
            status = world.status("localqueues", "user-queue")
            del status["conditions"]
            assert status == {
                "pendingWorkloads": 0,
                "reservingWorkloads": 0,
                "admittedWorkloads": 0,
                "flavorsReservation": nothing,
                "flavorsUsage": nothing,
            }

    asyncio.run(story())


def test_the_status_of_guide_003_in_the_version_that_it_uses() -> None:
    """Eight cores, twenty gigabytes and two GPUs in use, one admitted, two waiting: as kubectl shows it there."""

    def used(resource: str, amount: str) -> dict[str, str]:
        return {"borrowed": "0", "name": resource, "total": amount}

    usage = [
        {
            "name": "default-flavor",
            "resources": [used("cpu", "8"), used("memory", "19531250Ki"), used("nvidia.com/gpu", "2")],
        }
    ]
    quotas = {"cpu": 8, "memory": "20G", "nvidia.com/gpu": 2}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    group = {
        "coveredResources": list(quotas),
        "flavors": [{"name": "default-flavor", "resources": resources}],
    }
    requests = {"cpu": "4", "memory": "10G", "nvidia.com/gpu": "1"}

    async def story() -> None:
        async with queues() as world:
            queue = cluster_queue(resourceGroups=[group])
            await world.create(resourceflavors=flavor(), clusterqueues=queue, localqueues=local_queue())
            jobs = [workload(name, pods=2, requests=requests) for name in ("dev-1", "dev-2", "dev-3")]
            await world.create(workloads=jobs)
            await world.pass_time(2)
            kind = world.local.api.kind("clusterqueues")
            stored = world.local.api.get("clusterqueues", "cluster-queue")
            assert stored is not None
            shown = kind.rules.convert(stored, "v1beta1")
            (condition,) = shown["status"].pop("conditions")
            assert shown["status"] == {
                "admittedWorkloads": 1,
                "flavorsReservation": usage,
                "flavorsUsage": usage,
                "pendingWorkloads": 2,
                "reservingWorkloads": 1,
            }
            assert (condition["type"], condition["status"], condition["observedGeneration"]) == ("Active", "True", 1)
            local = world.status("localqueues", "user-queue")
            assert (local["pendingWorkloads"], local["reservingWorkloads"], local["admittedWorkloads"]) == (2, 1, 1)
            assert total(local["flavorsUsage"], "memory") == ["19531250Ki"]

    asyncio.run(story())


def test_what_is_beyond_the_own_quota_is_borrowed_and_only_in_a_cohort() -> None:
    async def story() -> None:
        async with queues() as world:
            lender = cluster_queue("lender", cohortName="all")
            await world.create(
                resourceflavors=flavor(),
                clusterqueues=[cluster_queue(cohortName="all"), lender],
                localqueues=local_queue(),
                workloads=workload(pods=7),
            )
            await world.pass_time(1)
            (usage,) = world.status("clusterqueues", "cluster-queue")["flavorsUsage"]
            assert usage["resources"] == [{"name": "cpu", "total": "7", "borrowed": "3"}]
            (lent,) = world.status("clusterqueues", "lender")["flavorsUsage"]
            assert lent["resources"] == [{"name": "cpu", "total": "0", "borrowed": "0"}]

    asyncio.run(story())


def test_reserved_is_not_admitted_while_a_check_is_pending() -> None:
    async def story() -> None:
        async with queues() as world:
            check = {"metadata": {"name": "budget"}, "spec": {"controllerName": "example.com/budget"}}
            strategy = {"admissionChecks": [{"name": "budget"}]}
            await world.create(resourceflavors=flavor(), admissionchecks=check)
            queue = cluster_queue(admissionChecksStrategy=strategy)
            await world.create(clusterqueues=queue, localqueues=local_queue(), workloads=workload())
            await world.pass_time(STEP)
            assert world.active("clusterqueues", "cluster-queue") == (
                "False",
                "AdmissionCheckInactive",
                "Can't admit new workloads: references inactive AdmissionCheck(s): budget.",
            )
            assert world.active("localqueues", "user-queue") == (
                "False",
                "ClusterQueueIsInactive",
                "Can't submit new workloads to clusterQueue",
            )
            active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": NOW}
            await world.local.api.patch(
                "admissionchecks", "budget", {"status": {"conditions": [active]}}, subresource="status"
            )
            await world.catch_up()
            await world.pass_time(2.2)
            for kind, name in (("clusterqueues", "cluster-queue"), ("localqueues", "user-queue")):
                status = world.status(kind, name)
                assert (status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 0)
                assert (total(status["flavorsReservation"]), total(status["flavorsUsage"])) == (["1"], ["0"])
                assert world.active(kind, name)[0] == "True"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("activity", "reason", "message"),
    [
        pytest.param(Activity(), "Ready", "Can admit new workloads", id="a queue with all that it refers to"),
        pytest.param(
            Activity(terminating=True, stopped=True),
            "Terminating",
            "Can't admit new workloads; clusterQueue is terminating",
            id="an end is said before all else",
        ),
        pytest.param(Activity(stopped=True), "Stopped", "Can't admit new workloads: is stopped.", id="a stopped queue"),
        pytest.param(
            Activity(missing_flavors=("b", "a")),
            "FlavorNotFound",
            "Can't admit new workloads: references missing ResourceFlavor(s): b,a.",
            id="missing flavors in the order of the quota",
        ),
        pytest.param(
            Activity(stopped=True, missing_flavors=("a",), missing_checks=("c",), inactive_checks=("d", "e")),
            "Stopped",
            "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): a,"
            " references missing AdmissionCheck(s): c, references inactive AdmissionCheck(s): d,e.",
            id="the first reason and all of the sentences",
        ),
    ],
)
def test_why_a_queue_admits_nothing(activity: Activity, reason: str, message: str) -> None:
    assert wording.readiness(activity)[1:] == (reason, message)
    assert wording.readiness(activity).active == (reason == "Ready")


def test_local_queues_follow_where_they_lead() -> None:
    async def story() -> None:
        async with queues() as world:
            stopped = local_queue("stopped", stopPolicy="Hold")
            await world.create(
                localqueues=[local_queue(), stopped], workloads=[workload(), workload("s", queue="stopped")]
            )
            await world.pass_time(STEP)
            cannot = "Can't submit new workloads to clusterQueue"
            assert world.active("localqueues", "user-queue") == ("False", "ClusterQueueDoesNotExist", cannot)
            assert world.status("localqueues", "user-queue")["pendingWorkloads"] == 1
            assert "flavorsUsage" not in world.status("localqueues", "user-queue")
            assert world.active("localqueues", "stopped") == ("False", "Stopped", "LocalQueue is stopped")
            assert world.status("localqueues", "stopped")["pendingWorkloads"] == 0

            await world.create(clusterqueues=cluster_queue())
            await world.pass_time(1)
            assert world.active("clusterqueues", "cluster-queue")[1] == "FlavorNotFound"
            assert world.active("localqueues", "user-queue") == ("False", "ClusterQueueIsInactive", cannot)

            await world.create(resourceflavors=flavor())
            await world.pass_time(2.1)
            assert world.active("localqueues", "user-queue")[1] == "Ready"
            assert world.status("localqueues", "user-queue")["admittedWorkloads"] == 1
            assert world.status("clusterqueues", "cluster-queue")["admittedWorkloads"] == 1

    asyncio.run(story())


def test_a_stopped_queue_keeps_counting_those_who_wait() -> None:
    async def story() -> None:
        async with queues() as world:
            await world.create(
                resourceflavors=flavor(),
                clusterqueues=cluster_queue(stopPolicy="Hold"),
                localqueues=local_queue(),
                workloads=[workload("a"), workload("b")],
            )
            await world.pass_time(STEP)
            assert world.status("clusterqueues", "cluster-queue")["pendingWorkloads"] == 2
            await world.local.api.patch("clusterqueues", "cluster-queue", {"spec": {"stopPolicy": "None"}})
            await world.catch_up()
            await world.pass_time(1)
            status = world.status("clusterqueues", "cluster-queue")
            assert (status["pendingWorkloads"], status["admittedWorkloads"]) == (0, 2)
            (condition,) = status["conditions"]
            assert (condition["status"], condition["observedGeneration"]) == ("True", 2)

    asyncio.run(story())


def test_the_first_change_shows_at_once_and_the_next_ones_once_a_second() -> None:
    async def story() -> None:
        async with queues() as world:
            await world.create(resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue())
            await world.pass_time(3)
            writes = versions_of(world)
            for number in range(40):
                await world.create(workloads=workload(f"w{number}"))
                await world.pass_time(STEP)
                if number == 0:
                    assert world.status("clusterqueues", "cluster-queue")["admittedWorkloads"] == 1
                versions_of(world, writes)
            assert len(writes) - 1 <= 3
            await world.pass_time(1)
            assert world.status("clusterqueues", "cluster-queue")["pendingWorkloads"] == 36
            assert world.status("localqueues", "user-queue")["pendingWorkloads"] == 36

    asyncio.run(story())


def versions_of(world: World, known: set[str] | None = None) -> set[str]:
    found = world.local.api.get("clusterqueues", "cluster-queue")
    assert found is not None
    known = set() if known is None else known
    known.add(found["metadata"]["resourceVersion"])
    return known


def test_nothing_is_written_when_nothing_changed() -> None:
    async def story() -> None:
        async with queues() as world:
            await world.create(resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue())
            await world.pass_time(3)
            before = world.local.api.store.revision
            world.configuration.set(Configuration(manage_jobs_without_queue_name=True))
            await world.local.clock.run_for(3600)
            await world.catch_up()
            assert world.local.api.store.revision == before
            assert world.local.clock.next_due() is None, "somebody goes on looking at queues that rest"

    asyncio.run(story())


def test_an_engine_that_hears_late_has_its_last_word_written() -> None:
    """A status was written from an engine that had not heard of the last workload yet, and nothing ever changed it."""

    async def story() -> None:
        async with queues() as world:
            await world.create(resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue())
            await world.pass_time(3)
            world.engine.be_deaf()
            await world.create(workloads=workload())
            await world.pass_time(0.5)
            assert world.status("clusterqueues", "cluster-queue")["admittedWorkloads"] == 0
            world.engine.listen()
            await world.pass_time(1)
            assert world.status("clusterqueues", "cluster-queue")["admittedWorkloads"] == 1
            assert world.status("localqueues", "user-queue")["admittedWorkloads"] == 1

    asyncio.run(story())


def test_a_second_process_finds_the_statuses_right_and_leaves_them() -> None:
    async def story() -> None:
        async with queues() as world:
            await world.create(
                resourceflavors=flavor(),
                clusterqueues=cluster_queue(),
                localqueues=local_queue(),
                workloads=[workload("a", pods=3), workload("b", pods=3)],
            )
            await world.pass_time(3)
            before = world.local.api.store.revision
            again = LocalCluster(world.local.api, cluster_on(world.local.api, world.local.clock), world.local.clock)
            engine = FollowingEngine(again.cluster)
            controller = QueueStatuses(again.cluster, engine, FixedConfiguration())
            async with again.running(engine, controller):
                await world._replace(local=again, engine=engine).pass_time(3)
            assert world.local.api.store.revision == before

    asyncio.run(story())


def test_weighted_shares_are_shown_while_fair_sharing_is_on() -> None:
    async def story() -> None:
        on = Configuration(fair_sharing=FairSharingPolicy())
        async with queues(on, Config(fair_sharing=FairSharingPolicy())) as world:
            team = {"metadata": {"name": "team"}, "spec": {"parentName": "all"}}
            await world.create(
                resourceflavors=flavor(),
                cohorts=[team, {"metadata": {"name": "all"}}],
                clusterqueues=[cluster_queue(cohortName="team"), cluster_queue("lender", cohortName="all")],
                localqueues=local_queue(),
                workloads=workload(pods=6),
            )
            await world.pass_time(2.2)
            # Two of the eight cores that there are in all are beyond its own.
            assert world.status("clusterqueues", "cluster-queue")["fairSharing"] == {"weightedShare": 250}
            assert world.status("cohorts", "team") == {"fairSharing": {"weightedShare": 250}}
            assert world.status("cohorts", "all") == {"fairSharing": {"weightedShare": 0}}

            world.configuration.set(Configuration())
            await world.pass_time(1.1)
            assert "fairSharing" not in world.status("clusterqueues", "cluster-queue")
            assert not world.status("cohorts", "team")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("old", "wanted", "patch"),
    [
        pytest.param({"a": 1, "other": 2}, {"a": 1}, {}, id="what is right is left, and so is what is not ours"),
        pytest.param({"a": [1]}, {"a": [2]}, {"a": [2]}, id="lists are replaced"),
        pytest.param({"a": {"b": 1}}, {"a": None}, {"a": None}, id="what is to be away is taken away"),
        pytest.param({}, {"a": None}, {}, id="what is away stays so"),
        pytest.param({"a": {"b": 1, "c": 1}}, {"a": {"b": 2}}, {"a": {"b": 2, "c": None}}, id="maps lose what is gone"),
    ],
)
def test_only_differences_are_sent(old: dict[str, Any], wanted: dict[str, Any], patch: dict[str, Any]) -> None:
    assert decide.changes(old, wanted) == patch
