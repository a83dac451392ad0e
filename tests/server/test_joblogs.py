"""Logs of managed jobs: which attempt is meant, whether its pod is there or gone, and what is still to come."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.server.access.roles import Binding, Role
from fairway.server.limits import Limits
from fairway.server.logs.entries import append
from fairway.server.logs.reading import log_path
from fuzz.world import Answer, Exchange, World

JOBS = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
BEGIN = 1_794_818_000_000_000_000
"""Some moment in November 2026, in nanoseconds."""


class Story:
    """A managed job, and hands that do what its controller and the runner do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.status: Manifest = {"phase": "PENDING", "task": 0, "attempts": []}
        self.uid = ""

    async def launch(self, *tasks: Manifest) -> None:
        manifest = {"metadata": {"name": "train"}, "spec": {"tasks": list(tasks) or [{"run": "true"}]}}
        answer = await self.world.answer("POST", JOBS, manifest)
        assert answer.code == 201, answer
        self.uid = answer.json["metadata"]["uid"]

    async def say(self, **status: Any) -> None:
        self.status |= status
        answer = await self.world.answer("PATCH", f"{JOBS}/train/status", {"status": self.status}, content_type=MERGE)
        assert answer.code == 200, answer

    async def attempt(self, number: int, *uids: str, task: int = 0, **more: Any) -> None:
        """The status tells of an attempt, with pods of these UIDs."""
        pods = [{"name": f"train-{task}-{number}-{rank}", "uid": uid, "rank": rank} for rank, uid in enumerate(uids)]
        others = [one for one in self.status["attempts"] if (one["task"], one["attempt"]) != (task, number)]
        attempts = [*others, {"task": task, "attempt": number, "pods": pods, **more}]
        await self.say(task=task, attempt=number, attempts=attempts)

    async def pod(self, name: str, *, init: tuple[str, ...] = ()) -> str:
        """A pod of the job that is there; its UID."""
        owner = {
            "apiVersion": "fairway.dev/v1alpha1",
            "kind": "ManagedJob",
            "name": "train",
            "uid": self.uid,
            "controller": True,
        }
        spec = {
            "nodeName": "here",
            "initContainers": [{"name": one, "image": "i"} for one in init],
            "containers": [{"name": "run", "image": "i"}],
        }
        answer = await self.world.answer(
            "POST", PODS, {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
        )
        assert answer.code == 201, answer
        return str(answer.json["metadata"]["uid"])

    async def state(self, pod: str, phase: str, **states: Manifest) -> None:
        """What the runner says of the pod's containers."""
        both: dict[str, list[Manifest]] = {"initContainerStatuses": [], "containerStatuses": []}
        for name, state in states.items():
            field = "containerStatuses" if name == "run" else "initContainerStatuses"
            one = {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
            both[field].append(one)
        patch = {"status": {"phase": phase, **both}}
        answer = await self.world.answer("PATCH", f"{PODS}/{pod}/status", patch, content_type=MERGE)
        assert answer.code == 200, answer

    async def delete_pod(self, name: str) -> None:
        answer = await self.world.answer("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        assert answer.code == 200, answer

    def write(self, uid: str, *lines: str, container: str = "run", restart: int = 0) -> None:
        path = log_path(self.world.state, "default", uid, container, restart)
        for number, line in enumerate(lines):
            append(path, BEGIN + number * 1_000_000_000, "stdout", line.encode())

    async def log(self, query: str = "", **how: Any) -> Answer:
        exchange = self.world.begin("GET", f"{JOBS}/train/log?{query}", **how)
        await exchange.until_ended()
        return Answer(exchange.code, exchange.headers, bytes(exchange.sent))

    async def text(self, query: str = "") -> str:
        answer = await self.log(query)
        assert answer.code == 200, answer
        assert answer.header(b"content-type") == b"text/plain"
        return answer.body.decode()

    @asynccontextmanager
    async def following(self, query: str = "") -> AsyncIterator[Exchange]:
        exchange = self.world.begin("GET", f"{JOBS}/train/log?follow=true&{query}")
        await exchange.until_begun()
        yield exchange
        await exchange.until_ended()
        assert exchange.complete or exchange.is_hung_up


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


async def two_attempts(world: World) -> Story:
    """A gang of two that was tried twice and is gone, and a second task that ran once."""
    story = Story(world)
    await story.launch({"run": "a", "num_nodes": 2}, {"run": "b"})
    await story.attempt(1, "u-1-0", "u-1-1", endedAt="2026-11-16T08:40:00Z")
    await story.attempt(2, "u-2-0", "u-2-1", endedAt="2026-11-16T08:50:00Z")
    await story.attempt(1, "u-t1", task=1, endedAt="2026-11-16T09:00:00Z")
    await story.say(phase="SUCCEEDED")
    for uid in ("u-1-0", "u-1-1", "u-2-0", "u-2-1", "u-t1"):
        story.write(uid, f"{uid} a", f"{uid} b")
    story.write("u-2-0", "made ready", container="setup")
    return story


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param("", "u-t1 a\nu-t1 b\n", id="the current task, its latest attempt, its head"),
        pytest.param("task=0", "u-2-0 a\nu-2-0 b\n", id="another task's latest"),
        pytest.param("task=0&attempt=1", "u-1-0 a\nu-1-0 b\n", id="an attempt"),
        pytest.param("task=0&rank=1", "u-2-1 a\nu-2-1 b\n", id="a worker"),
        pytest.param("task=0&attempt=1&rank=1&tailLines=1", "u-1-1 b\n", id="the last lines"),
        pytest.param("task=0&container=setup", "made ready\n", id="the setup"),
        pytest.param("container=setup", "", id="a setup that there was not"),
        pytest.param("container=files", "", id="files that there were not"),
        pytest.param("tailLines=1&timestamps=true", "2026-11-16T08:33:21.000000000Z u-t1 b\n", id="with times"),
        pytest.param("sinceTime=2026-11-16T08:33:21Z", "u-t1 b\n", id="since a moment"),
        pytest.param("sinceSeconds=1000000000", "u-t1 a\nu-t1 b\n", id="since a while"),
        pytest.param("limitBytes=4", "u-t1", id="so many bytes"),
        pytest.param("follow=true", "u-t1 a\nu-t1 b\n", id="followed, though nothing comes any more"),
    ],
)
def test_logs_of_attempts_whose_pods_are_gone(world: World, query: str, want: str) -> None:
    async def story() -> None:
        assert await (await two_attempts(world)).text(query) == want

    world.run(story())


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param("task=0&attempt=3", "attempt: Invalid value: 3: there are attempts 1 to 2", id="no such attempt"),
        pytest.param("task=0&attempt=3&follow=1", "there are attempts 1 to 2", id="none to come: the job has ended"),
        pytest.param("attempt=0", "there is only attempt 1", id="attempts count from one"),
        pytest.param("task=2", "task: Invalid value: 2: there are tasks 0 to 1", id="no such task"),
        pytest.param("task=-1", "there are tasks 0 to 1", id="a task before the first"),
        pytest.param("task=0&rank=2", "rank: Invalid value: 2: there are ranks 0 to 1", id="no such rank"),
        pytest.param("rank=1", "there is only rank 0", id="a task of one node"),
        pytest.param("rank=x", "rank: Invalid value: 'x'", id="no number"),
        pytest.param("container=main", "the containers of a managed job are files, setup, run", id="another container"),
        pytest.param("previous=true", "use `attempt`", id="previous"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(world: World, query: str, words: str) -> None:
    async def story() -> None:
        answer = await (await two_attempts(world)).log(query)
        assert answer.code == 400
        assert words in answer.json["message"]

    world.run(story())


def test_a_number_that_makes_no_sense_is_refused_as_for_pods(world: World) -> None:
    async def story() -> None:
        answer = await (await two_attempts(world)).log("tailLines=-1")
        assert answer.code == 422
        assert "tailLines" in answer.json["message"]

    world.run(story())


def test_a_job_that_has_not_begun_has_no_log_yet(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        assert (await job.log()).code == 204
        assert (await job.log("attempt=1")).code == 400
        await job.say(phase="CANCELLED")
        assert (await job.log("follow=true")).code == 204
        assert (await world.answer("GET", f"{JOBS}/nobody/log")).code == 404

    world.run(story())


def test_a_live_pod_is_followed_until_its_container_ends(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        uid = await job.pod("train-0-1-0")
        await job.attempt(1, uid)
        await job.state("train-0-1-0", "Running", run={"running": {}})
        job.write(uid, "one")
        assert await job.text() == "one\n"
        async with job.following() as log:
            await log.until_said(b"one\n")
            job.write(uid, "two")
            await log.until_said(b"two\n")
            job.write(uid, "three")
            await job.state("train-0-1-0", "Failed", run={"terminated": {"exitCode": 1}})
        assert log.sent == b"one\ntwo\nthree\n"
        await job.delete_pod("train-0-1-0")
        assert await job.text() == "one\ntwo\nthree\n", "they stay when the pod is gone"

    world.run(story())


def test_a_pod_that_goes_away_ends_its_log(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        uid = await job.pod("train-0-1-0")
        await job.attempt(1, uid)
        await job.state("train-0-1-0", "Running", run={"running": {}})
        async with job.following() as log:
            job.write(uid, "preempted")
            await log.until_said(b"preempted")
            await job.delete_pod("train-0-1-0")

    world.run(story())


def test_what_a_container_of_a_live_pod_will_say_is_waited_for(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        pod = "train-0-1-0"
        uid = await job.pod(pod, init=("setup",))
        await job.attempt(1, uid)
        await job.state(pod, "Pending", setup={"running": {}}, run={"waiting": {"reason": "PodInitializing"}})
        job.write(uid, "installing", container="setup")
        assert await job.text() == "", "not a word yet, and no reason to refuse"
        async with job.following() as run, job.following("container=setup") as setup, job.following("container=files"):
            await setup.until_said(b"installing")
            assert run.sent == b""
            await job.state(pod, "Running", setup={"terminated": {"exitCode": 0}}, run={"running": {}})
            job.write(uid, "training")
            await run.until_said(b"training")
            await job.state(
                pod, "Succeeded", setup={"terminated": {"exitCode": 0}}, run={"terminated": {"exitCode": 0}}
            )
        assert bytes(run.sent + setup.sent) == b"training\ninstalling\n"

    world.run(story())


@pytest.mark.parametrize(
    "query", [pytest.param("", id="the first"), pytest.param("attempt=1", id="the first, by its number")]
)
def test_an_attempt_that_is_to_come_is_waited_for(world: World, query: str) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        async with job.following(query) as log:
            await job.say(phase="STARTING")
            await job.attempt(1)  # the attempt is written down before its pods are made
            uid = await job.pod("train-0-1-0")
            await job.attempt(1, uid)
            await job.state("train-0-1-0", "Running", run={"running": {}})
            job.write(uid, "begun")
            await log.until_said(b"begun")
            await job.delete_pod("train-0-1-0")

    world.run(story())


def test_the_next_attempt_is_waited_for_by_its_number(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        await job.attempt(1, "u-1", endedAt="2026-11-16T08:40:00Z")
        job.write("u-1", "first")
        async with job.following("attempt=2") as log:
            job.write("u-2", "second")
            await job.attempt(2, "u-2", endedAt="2026-11-16T08:50:00Z")
        assert log.sent == b"second\n", "though its pod was gone before anybody looked"

    world.run(story())


@pytest.mark.parametrize("end", ["cancelled", "deleted", "handed on"])
def test_who_waits_for_an_attempt_is_let_go_when_none_comes(world: World, end: str) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        async with job.following() as log:
            if end == "cancelled":
                await job.say(phase="CANCELLED")
            elif end == "deleted":
                assert (await world.answer("DELETE", f"{JOBS}/train")).code == 200
            else:
                await job.say(infra="elsewhere")
        assert log.sent == b""

    world.run(story())


def test_nobody_waits_longer_than_a_watch_lasts(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        job = Story(world)
        await job.launch()
        async with job.following() as log:
            pass
        assert log.sent == b""

    with World(tmp_path, limits=Limits(watch_seconds=0.02)) as world:
        world.run(story(world))


def test_a_client_that_hangs_up_while_it_waits_is_let_go(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        async with job.following() as log:
            log.hang_up()
        assert world.api.metrics.watches == 0

    world.run(story())


def test_a_pod_whose_uid_is_not_written_down_yet_is_found_by_its_name_if_it_is_the_jobs(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        await job.attempt(1, "")
        assert (await job.log()).code == 204
        await world.answer(
            "POST",
            PODS,
            {"metadata": {"name": "train-0-1-0"}, "spec": {"containers": [{"name": "run", "image": "i"}]}},
        )
        assert (await job.log()).code == 204, "somebody else's pod of that name"
        await job.delete_pod("train-0-1-0")
        uid = await job.pod("train-0-1-0")
        job.write(uid, "mine")
        assert await job.text() == "mine\n"

    world.run(story())


def test_another_pod_of_the_same_name_is_another_pod(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        await job.attempt(1, "u-old")
        await job.pod("train-0-1-0")
        job.write("u-old", "of the one that is gone")
        assert await job.text("follow=true") == "of the one that is gone\n"

    world.run(story())


def test_of_containers_that_were_restarted_the_last_log_is_shown(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        await job.attempt(1, "u-1")
        for restart in (2, 10):
            job.write("u-1", f"restart {restart}", restart=restart)
        assert await job.text() == "restart 10\n"

    world.run(story())


def test_a_job_that_was_handed_on_has_its_logs_there(world: World) -> None:
    async def story() -> None:
        job = Story(world)
        await job.launch()
        await job.attempt(1, "u-1", infra="cluster-b")
        answer = await job.log()
        assert answer.code == 400
        assert "cluster-b" in answer.json["message"]

    world.run(story())


@pytest.mark.parametrize("uid", ["..", "../other/u-1-0", "/etc/passwd", "a\0b", "x" * 300])
def test_a_status_leads_to_no_other_file(world: World, uid: str) -> None:
    async def story() -> None:
        job = await two_attempts(world)
        await job.attempt(3, uid, endedAt="2026-11-16T09:00:00Z")
        assert await job.text("task=0&attempt=3") == ""

    world.run(story())
    world.check_calm()


def test_who_may_read_pods_may_read_the_logs_of_jobs(world: World) -> None:
    async def story() -> None:
        job = await two_attempts(world)
        for name, namespace, code in (("vi", "default", 200), ("st", "kube-system", 403)):
            token = world.add_user(name, Binding(Role.VIEWER, namespace))
            assert (await job.log(token=token)).code == code
        assert (await job.log(token="")).code == 403

    world.run(story())
