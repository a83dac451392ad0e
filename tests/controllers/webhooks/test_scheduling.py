"""`queueconfig` at the API: jobs are completed when they are created, in process and as a webhook."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairway.apis.machinery.admission import AdmissionChain, UserInfo
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.controllers.webhooks.scheduling import SchedulingAdmission
from fairway.errors import ValidationError
from fairway.testing.clock import settle
from fairway.testing.clusters import LocalCluster, local_cluster

from .ways import ReviewedPlugin

Y = "yunikorn.apache.org/"
GUIDE = """\
queueconfig:
  scheduler: yunikorn
  jobs:
    - type: "ray"
      gangscheduling: "placeholderTimeoutInSeconds=60 gangSchedulingStyle=hard"
      allow-preemption: false
    - type: "spark"
      gangscheduling: "placeholderTimeoutInSeconds=30 gangSchedulingStyle=hard"
      allow-preemption: true
"""
USER1 = UserInfo("user1", groups=("lab", "system:authenticated"))


def a_job(name: str = "x", **spec: Any) -> Manifest:
    container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name}, "spec": {"parallelism": 2, "template": template, **spec}}


def configuration(text: str) -> Manifest:
    return {"metadata": {"name": "fairway-config"}, "data": {"queueconfig.yaml": text}}


@asynccontextmanager
async def served(way: str, *, writes_users: bool = False) -> AsyncIterator[LocalCluster]:
    async with local_cluster() as world:
        recorder = Recorder(world.cluster, "fairway")
        scheduling = SchedulingAdmission(
            world.cluster, recorder, "kueue-system", own_nodes=True, writes_users=writes_users
        )
        queues = QueueAdmission(world.cluster, FixedConfiguration())
        chain = AdmissionChain(scheduling, queues)
        world.api.objects.use_admission(chain if way == "direct" else ReviewedPlugin(chain))
        async with world.running(recorder):
            for name in ("kueue-system", "team-a"):
                await world.api.create("namespaces", {"metadata": {"name": name}})
            yield world


def play(way: str, story: Callable[[LocalCluster], Coroutine[Any, Any, None]], *, writes_users: bool = False) -> None:
    async def played() -> None:
        async with served(way, writes_users=writes_users) as world:
            await story(world)

    asyncio.run(played())


async def configured(world: LocalCluster, text: str = GUIDE) -> None:
    await world.api.create("configmaps", configuration(text), "kueue-system")
    await settle()


def test_without_configuration_a_job_is_stored_as_it_was_sent(way: str) -> None:
    async def story(world: LocalCluster) -> None:
        job = await world.api.create("jobs", a_job(), user=USER1)
        assert "schedulerName" in job["spec"]["template"]["spec"]
        assert job["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
        assert Y not in json.dumps(job)

    play(way, story)


def test_where_kueue_admits_pods_say_who_created_their_job_and_nobody_says_otherwise(way: str) -> None:
    def users(job: Manifest | None) -> str:
        return "" if job is None else str(job["spec"]["template"]["metadata"]["annotations"]["fairway.dev/user"])

    async def story(world: LocalCluster) -> None:
        forged = a_job("x", suspend=True)
        forged["spec"]["template"]["metadata"] = {"annotations": {"fairway.dev/user": "boss"}}
        assert users(await world.api.create("jobs", forged, user=USER1)) == "user1"
        annotations = {"fairway.dev/user": "boss"}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        await world.api.patch("jobs", "x", patch, user=USER1)
        assert users(world.api.get("jobs", "x")) == "user1"
        boss = UserInfo("boss", groups=("system:masters",), can_impersonate=True)
        forged = a_job("y")
        forged["spec"]["template"]["metadata"] = {"annotations": {"fairway.dev/user": "ana"}}
        assert users(await world.api.create("jobs", forged, user=boss)) == "ana"

    play(way, story, writes_users=True)


def test_a_job_gets_queue_gang_and_user_of_its_organization(way: str) -> None:
    async def story(world: LocalCluster) -> None:
        labels = {"fairway.dev/organization": "organization1"}
        await world.api.patch("namespaces", "team-a", {"metadata": {"labels": labels}})
        await configured(world)
        written = await world.api.written("jobs", a_job(), "team-a", user=USER1)
        job = json.loads(written.entry.data)
        template = job["spec"]["template"]
        assert template["spec"]["schedulerName"] == "yunikorn"
        assert template["metadata"]["labels"][f"{Y}queue"] == "root.organization1.default"
        info = json.loads(template["metadata"]["annotations"][f"{Y}user.info"])
        assert info["user"] == "user1"
        assert info["groups"][0] == "organization1"
        assert "system:authenticated" not in info["groups"]
        (group,) = json.loads(template["metadata"]["annotations"][f"{Y}task-groups"])
        assert group == {"name": "main", "minMember": 2, "minResource": {"cpu": "1", "memory": "1Gi"}}
        assert any("yunikorn" in warning for warning in written.warnings), "nothing here places its pods"

    play(way, story)


def test_two_jobs_are_two_applications_and_a_later_write_changes_none(way: str) -> None:
    async def story(world: LocalCluster) -> None:
        await configured(world)
        first = await world.api.create("jobs", a_job("a", suspend=True), user=USER1)
        second = await world.api.create("jobs", a_job("b"), user=USER1)
        ids = [one["spec"]["template"]["metadata"]["labels"][f"{Y}app-id"] for one in (first, second)]
        assert len(set(ids)) == 2
        assert ids[0].startswith("batch-")
        again = a_job("a", suspend=True)
        again["metadata"] |= {name: first["metadata"][name] for name in ("uid", "resourceVersion", "namespace")}
        again["spec"]["selector"] = first["spec"]["selector"]
        tied = ("controller-uid", "job-name")
        kept = first["spec"]["template"]["metadata"]["labels"]
        again["spec"]["template"]["metadata"] = {
            "labels": {key: value for key, value in kept.items() if key.endswith(tied)}
        }
        replaced = await world.api.update("jobs", again, user=USER1)
        assert replaced["spec"]["template"]["metadata"] == first["spec"]["template"]["metadata"]
        assert replaced["spec"]["template"]["spec"]["schedulerName"] == "yunikorn"

    play(way, story)


def test_a_job_of_fairway_is_queued_and_suspended_in_the_same_write(way: str) -> None:
    async def story(world: LocalCluster) -> None:
        await configured(world, "queueconfig: {scheduler: fairway, jobs: [{type: batch}]}")
        job = await world.api.create("jobs", a_job(), user=USER1)
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "batch"
        assert job["spec"]["suspend"] is True

    play(way, story)


def test_a_name_that_cannot_be_a_queue_is_refused(way: str) -> None:
    async def story(world: LocalCluster) -> None:
        await configured(world)
        job = a_job()
        job["metadata"]["labels"] = {"fairway.dev/organization": "a.b"}
        with pytest.raises(ValidationError, match="no dots"):
            await world.api.create("jobs", job, user=USER1)

    play(way, story)


def test_the_organization_of_a_namespace_is_before_that_of_a_job(way: str) -> None:
    async def story(world: LocalCluster) -> None:
        labels = {"fairway.dev/organization": "ml"}
        await world.api.patch("namespaces", "team-a", {"metadata": {"labels": labels}})
        await configured(world)
        job = a_job()
        job["metadata"]["labels"] = {"fairway.dev/organization": "rich", "fairway.dev/job-type": "training"}
        stored = await world.api.create("jobs", job, "team-a", user=USER1)
        assert stored["spec"]["template"]["metadata"]["labels"][f"{Y}queue"] == "root.ml.training"

    play(way, story)


def test_a_wrong_configuration_changes_nothing_and_is_said_at_its_config_map(way: str) -> None:
    async def story(world: LocalCluster) -> None:
        await configured(world)
        wrong = GUIDE.replace("scheduler: yunikorn", "scheduler: yunicorn")
        await world.api.patch(
            "configmaps", "fairway-config", {"data": {"queueconfig.yaml": wrong}}, namespace="kueue-system"
        )
        await world.clock.run_for(30)
        job = await world.api.create("jobs", a_job(), user=USER1)
        assert job["spec"]["template"]["spec"]["schedulerName"] == "yunikorn"
        events = [world.api.get("events", name, "kueue-system") for name in world.api.names("events")]
        (said,) = [one["message"] for one in events if one and one["reason"] == "InvalidConfiguration"]
        assert "queueconfig.scheduler" in said
        assert "yunicorn" in said
        await world.api.delete("configmaps", "fairway-config", "kueue-system")
        await settle()
        job = await world.api.create("jobs", a_job("y"), user=USER1)
        assert job["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"

    play(way, story)
