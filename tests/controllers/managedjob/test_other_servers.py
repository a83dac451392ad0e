"""A job that goes to another server: two of them here, each with its own queue, on one clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.managedjob.observe import ORIGIN_NAME, ORIGIN_NAMESPACE, Handler, Sighting
from fairway.errors import FairwayError
from fairway.testing.clock import VirtualClock

from .scene import JOBS, Scene, a_scene, job, story, task

_ROUNDS_OF_QUIET = 3


class Remotes:
    """Reaches one other server, `b`, in this process; it may stop to answer."""

    def __init__(self) -> None:
        self.scene: Scene
        self.answers = True
        self.submitted = 0
        self._handlers: list[Handler] = []

    def knows(self, context: str) -> bool:
        return context == "b"

    def sighting(self, context: str, name: str) -> Sighting:
        assert context == "b"
        return Sighting(self.answers, self.scene.api.get(JOBS, name) if self.answers else None)

    async def submit(self, _context: str, manifest: Manifest, *, namespace: str, secret: Manifest | None) -> Manifest:
        self._check()
        assert namespace == "default"
        assert (secret is not None) == ("secretName" in manifest["spec"])
        found = self.scene.api.get(JOBS, manifest["metadata"]["name"])
        self.submitted += found is None
        return found or await self.scene.api.create(JOBS, manifest)

    async def change(self, _context: str, name: str, spec: Manifest) -> Manifest | None:
        self._check()
        await self.scene.api.patch(JOBS, name, {"spec": spec})
        return self.scene.api.get(JOBS, name)

    async def delete(self, _context: str, name: str) -> None:
        self._check()
        if self.scene.api.get(JOBS, name) is not None:
            await self.scene.api.delete(JOBS, name)

    def on_change(self, handler: Handler) -> None:
        self._handlers.append(handler)

    async def run(self) -> None:
        self.scene.cluster.cluster.cache(JOBS).on_change(self._tell)
        await VirtualClock().sleep(1)  # for ever

    def tell_everything(self) -> None:
        for handler in self._handlers:
            handler("", "")

    def _tell(self, old: Manifest | None, new: Manifest | None) -> None:
        annotations = (new or old or {})["metadata"].get("annotations") or {}
        if ORIGIN_NAME in annotations:
            for handler in self._handlers:
                handler(annotations[ORIGIN_NAMESPACE], annotations[ORIGIN_NAME])

    def _check(self) -> None:
        if not self.answers:
            raise FairwayError("nobody answers")


class Pair:
    """Two servers: jobs are launched at `here`."""

    def __init__(self, here: Scene, there: Scene, remotes: Remotes) -> None:
        self.here, self.there, self.remotes = here, there, remotes

    async def rest(self) -> None:
        """Let everything happen that needs no time, at both."""
        quiet = 0
        while quiet < _ROUNDS_OF_QUIET:
            before = self._revisions()
            await self.there.rest()
            await self.here.rest()
            quiet = quiet + 1 if self._revisions() == before else 0

    def _revisions(self) -> tuple[int, int]:
        return self.here.api.store.next_revision, self.there.api.store.next_revision

    async def pass_time(self, seconds: float) -> None:
        await self.rest()
        await self.here.pass_time(seconds)
        await self.rest()

    async def launch(self, **spec: Any) -> str:
        ordered = [{"infra": "k8s"}, {"infra": "k8s/b"}]
        name = await self.here.launch(job("train", task(3, resources={"ordered": ordered}), **spec))
        await self.pass_time(0)
        return name

    def copy(self) -> str:
        (name,) = self.there.api.names(JOBS)
        return name


@asynccontextmanager
async def two_servers() -> AsyncIterator[Pair]:
    clock, remotes = VirtualClock(), Remotes()
    async with a_scene(clock=clock) as there:
        remotes.scene = there
        async with a_scene(clock=clock, remotes=remotes) as here:
            yield Pair(here, there, remotes)


@story
async def test_after_the_time_out_the_job_runs_at_the_second_infra() -> None:
    async with two_servers() as pair:
        await pair.here.launch(job("busy"))
        name = await pair.launch(provisionTimeoutSeconds=60)
        await pair.pass_time(59)
        assert (pair.here.phase(name), pair.here.status(name).get("infra")) == ("PENDING", None)

        await pair.pass_time(2)
        status = pair.here.status(name)
        assert (status["phase"], status["infra"], status["attempts"][0]["infra"]) == ("RUNNING", "b", "b")
        assert len(pair.here.api.names("workloads")) == 1, "it is withdrawn here"
        copied = pair.there.api.get(JOBS, pair.copy())
        assert copied is not None
        assert "infra" not in copied["spec"]["tasks"][0]["resources"]

        await pair.there.end_all(pair.copy())
        await pair.pass_time(0)
        assert pair.here.phase(name) == "SUCCEEDED"


@story
async def test_what_the_user_asks_for_is_passed_on() -> None:
    async with two_servers() as pair:
        await pair.here.launch(job("busy"))
        name = await pair.launch(provisionTimeoutSeconds=60)
        await pair.pass_time(61)
        await pair.here.ask(name, priority=9)
        await pair.pass_time(0)
        assert pair.there.status(pair.copy())["priority"] == 9
        await pair.here.ask(name, cancel=True)
        await pair.pass_time(0)

        assert (pair.here.phase(name), pair.there.phase(pair.copy())) == ("CANCELLED", "CANCELLED")


@story
async def test_a_job_that_is_deleted_here_is_deleted_there() -> None:
    async with two_servers() as pair:
        await pair.here.launch(job("busy"))
        name = await pair.launch(provisionTimeoutSeconds=60)
        await pair.pass_time(61)
        pair.remotes.answers = False
        await pair.here.api.delete(JOBS, name)
        await pair.pass_time(5)
        assert pair.there.api.names(JOBS), "it cannot be told yet"

        pair.remotes.answers = True
        await pair.pass_time(60)
        assert not pair.there.api.names(JOBS)
        assert pair.here.api.get(JOBS, name) is None


@story
async def test_a_server_that_does_not_answer_is_passed_over_and_told_later() -> None:
    async with two_servers() as pair:
        await pair.here.launch(job("busy", task(2)))
        pair.remotes.answers = False
        ordered = [{"infra": "k8s/b"}, {"infra": "k8s", "cpus": 1}]
        manifest = job("train", task(3, resources={"ordered": ordered}), provisionTimeoutSeconds=60)
        name = await pair.here.launch(manifest)
        await pair.pass_time(130)
        status = pair.here.status(name)
        assert (status["phase"], status.get("infra")) == ("RUNNING", None)
        assert len(status["withdrawing"]) == 1

        pair.remotes.answers = True
        await pair.pass_time(60)
        assert "withdrawing" not in pair.here.status(name)
        assert not pair.there.api.names(JOBS)


@story
async def test_a_job_that_is_deleted_here_stops_here_though_another_server_cannot_be_told() -> None:
    async with two_servers() as pair:
        pair.remotes.answers = False
        ordered = [{"infra": "k8s/b"}, {"infra": "k8s", "cpus": 1}]
        name = await pair.here.launch(job("train", task(3, resources={"ordered": ordered}), provisionTimeoutSeconds=60))
        await pair.pass_time(130)
        assert pair.here.phase(name) == "RUNNING"
        await pair.here.api.delete(JOBS, name)
        await pair.pass_time(5)
        assert pair.here.api.get(JOBS, name) is not None
        assert not pair.here.pods()
        assert not pair.here.api.names("workloads"), "its quota is free"

        pair.remotes.answers = True
        await pair.pass_time(60)
        assert pair.here.api.get(JOBS, name) is None


@story
async def test_jobs_that_share_a_secret_here_have_one_each_there() -> None:
    async with two_servers() as pair:
        await pair.here.api.create("secrets", {"metadata": {"name": "values"}, "data": {"TOKEN": "eA=="}})
        sweep = task(1, resources={"ordered": [{"infra": "k8s/b"}]})
        for _ in range(2):
            await pair.here.launch(job("sweep", sweep, secretName="values"))
        await pair.pass_time(0)

        copies = [pair.there.api.get(JOBS, name) for name in pair.there.api.names(JOBS)]
        named = {one["metadata"]["name"]: one["spec"]["secretName"] for one in copies if one}
        assert named == {name: name for name in named}
        assert len(named) == 2


@story
async def test_a_restarted_controller_submits_nothing_twice() -> None:
    async with two_servers() as pair:
        await pair.here.launch(job("busy"))
        name = await pair.launch(provisionTimeoutSeconds=60)
        await pair.pass_time(61)
        await pair.here.kill()
        before = pair.here.api.store.next_revision
        await pair.here.start()
        await pair.pass_time(5)

        assert (pair.remotes.submitted, pair.here.phase(name)) == (1, "RUNNING")
        assert pair.here.api.store.next_revision == before
