"""What managed jobs leave on this machine: it stays as long as its job does, and goes with it."""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairway.client.recorder import Recorder
from fairway.runner.jobfiles import GRACE_SECONDS, JobFiles
from fairway.runner.runner import Runner
from fairway.testing.clusters import LocalCluster, cluster_on

from .worlds import ENVIRONMENT, MACHINE, World, a_world, container, play, pod

DIGEST = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


async def _soon(condition: Callable[[], bool]) -> bool:
    """Whether something is so when threads had a moment of real time."""
    for _ in range(1000):
        if condition():
            return True
        await asyncio.sleep(0.001)
    return False


class Place:
    """A machine with its runner, and jobs that leave files there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = world.state
        self.jobs: dict[str, str] = {}

    async def launch(self, name: str = "train", *archives: str, **task: Any) -> str:
        files = [{"archive": one, "path": "."} for one in archives]
        manifest = {"metadata": {"name": name}, "spec": {"tasks": [{"run": "x"}, {"run": "y", "files": files, **task}]}}
        created = await self.world.api.create("managedjobs", manifest)
        self.jobs[name] = str(created["metadata"]["uid"])
        return self.jobs[name]

    async def begin(self, name: str = "train", **annotations: str) -> str:
        """A pod of a job that runs, and has written something; its UID."""
        manifest = pod(f"{name}-1-head", container("run"))
        owner = {
            "apiVersion": "fairway.dev/v1alpha1",
            "kind": "ManagedJob",
            "name": name,
            "uid": self.jobs[name],
            "controller": True,
        }
        noted = {"fairway.dev/keep-logs": "true", **annotations}
        manifest["metadata"] |= {"ownerReferences": [owner], "annotations": noted}
        created = await self.world.create(manifest)
        uid = str(created["metadata"]["uid"])
        await self.until(lambda: self.world.phase(f"{name}-1-head") == "Running")
        self.log(uid).parent.mkdir(parents=True)
        self.log(uid).write_text("some words")
        self.made(f"checkpoints/{self.jobs[name]}/0/weights", "some numbers")
        return uid

    async def end(self, name: str = "train") -> None:
        """The pod ends and is deleted, as its controller does between attempts."""
        self.world.supervision.end(self.world.id(f"{name}-1-head", "run"), 0)
        await self.until(lambda: self.world.phase(f"{name}-1-head") == "Succeeded")
        await self.world.api.delete("pods", f"{name}-1-head")
        await self.until(lambda: self.world.api.get("pods", f"{name}-1-head") is None)

    async def forget(self, name: str = "train") -> None:
        await self.world.api.delete("managedjobs", name)

    def log(self, uid: str) -> Path:
        return self.state / "logs" / "default" / uid / "run" / "0.log"

    def checkpoints(self, name: str = "train") -> Path:
        return self.state / "checkpoints" / self.jobs[name]

    def made(self, path: str, text: str = "", age_seconds: float = 0.0) -> Path:
        made = self.state / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text)
        time = self.world.clock.now().timestamp() - age_seconds
        os.utime(made, (time, time))
        return made

    def archive(self, digest: str = DIGEST, *, namespace: str = "default", age_seconds: float = 0.0) -> Path:
        return self.made(f"archives/{namespace}/{digest}.tar.gz", "files", age_seconds)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass, virtual time and that of the threads that remove files."""
        async with asyncio.timeout(10):
            while not condition():
                await self.world.pass_time(0.05)
                await asyncio.sleep(0.001)

    async def tidied(self) -> None:
        """Some time later: whatever was to be done about what is known now was done."""
        last = self.made(f"checkpoints/nobody-{self.world.clock.monotonic()}/x").parent
        await self.looked_again(lambda: not last.exists())
        await self.world.pass_time(1.0)

    async def looked_again(self, condition: Callable[[], bool]) -> None:
        """The next look at the disk was taken. One that is going on takes real time: the next is due only after it."""
        for _ in range(4):
            await self.world.clock.run_for(700)
            if await _soon(condition):
                return
        raise AssertionError("it was not so after four looks at the disk")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A server: the runner and what is tested here; gone at the end, as after a SIGKILL."""
        cluster = cluster_on(self.world.api, self.world.clock)
        recorder = Recorder(cluster, "fairway-runner")
        runner = Runner(cluster, self.world.supervision, MACHINE, self.state, recorder, ENVIRONMENT)
        server = LocalCluster(self.world.api, cluster, self.world.clock)
        async with server.running(runner, recorder, JobFiles(cluster, self.state)):
            await self.until(lambda: self.world.api.get("nodes", "box") is not None)
            try:
                yield
            finally:
                self.world.supervision.hang_up()


@asynccontextmanager
async def a_place(state: Path) -> AsyncIterator[Place]:
    async with a_world(state) as world:
        yield Place(world)


def test_logs_of_a_job_outlive_its_pods_and_the_server_and_go_with_the_job(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_place(tmp_path) as place:
            async with place.running():
                await place.launch()
                uid = await place.begin()
                assert (place.log(uid).parent.parent / ".kept").read_text() == f"{place.jobs['train']}\n0 0 0\n"
                await place.end()
                await place.until(lambda: not (tmp_path / "work" / uid).exists())
                await place.tidied()
                assert place.log(uid).exists()
            for _ in range(2):
                async with place.running():
                    await place.tidied()
                    assert place.log(uid).exists()
                    assert place.checkpoints().exists()
            async with place.running():
                await place.forget()
                await place.until(lambda: not place.log(uid).parent.parent.exists())
                await place.until(lambda: not place.checkpoints().exists())

    play(story())


def test_a_pod_that_ran_through_a_restart_of_the_server_keeps_its_logs(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_place(tmp_path) as place:
            async with place.running():
                await place.launch()
                uid = await place.begin()
            place.world.supervision.end(place.world.id("train-1-head", "run"), 0)
            await place.world.api.delete("pods", "train-1-head", grace_seconds=0)
            async with place.running():
                await place.until(lambda: not (tmp_path / "work" / uid).exists())
                await place.tidied()
                assert place.log(uid).exists()

    play(story())


@pytest.mark.parametrize("why", ["it is not asked for", "it is no pod of a managed job"])
def test_logs_of_other_pods_go_with_them(tmp_path: Path, why: str) -> None:
    async def story() -> None:
        async with a_place(tmp_path) as place, place.running():
            await place.launch()
            if why == "it is not asked for":
                uid = await place.begin(**{"fairway.dev/keep-logs": "false"})
                await place.end()
            else:
                manifest = pod("train-1-head", container("run"))
                manifest["metadata"]["annotations"] = {"fairway.dev/keep-logs": "true"}
                uid = (await place.world.create(manifest))["metadata"]["uid"]
                await place.until(lambda: place.world.phase("train-1-head") == "Running")
                place.log(uid).parent.mkdir(parents=True)
                place.log(uid).write_text("some words")
                await place.end()
            await place.until(lambda: not place.log(uid).parent.parent.exists())

    play(story())


def test_files_of_a_job_wait_for_its_last_pod(tmp_path: Path) -> None:
    """A pod that ends itself tidily, after its job was deleted, may still write a checkpoint and some last words."""

    async def story() -> None:
        async with a_place(tmp_path) as place, place.running():
            await place.launch()
            uid = await place.begin()
            await place.forget()
            await place.until(lambda: "deletionTimestamp" in place.world.get("train-1-head")["metadata"])
            await place.world.clock.run_for(5)
            await place.until(lambda: bool(place.world.supervision.stops))
            assert place.log(uid).exists()
            assert place.checkpoints().exists()
            place.world.supervision.end(place.world.id("train-1-head", "run"), 0)
            await place.until(lambda: place.world.api.get("pods", "train-1-head") is None)
            await place.until(lambda: not place.checkpoints().exists() and not place.log(uid).parent.parent.exists())

    play(story())


def test_the_end_of_an_attempt_is_no_reason_to_look_through_everything(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_place(tmp_path) as place, place.running():
            await place.launch()
            await place.launch("other")
            await place.begin()
            await place.tidied()
            nobodys = place.made("checkpoints/nobody/x")
            await place.end()
            later = place.world.clock.monotonic() + 5
            await place.until(lambda: place.world.clock.monotonic() > later)
            assert nobodys.exists()
            await place.forget("other")
            await place.until(lambda: not nobodys.exists())

    play(story())


def test_what_was_left_while_no_server_ran_goes_at_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_place(tmp_path) as place:
            async with place.running():
                for name in ("gone", "stays"):
                    await place.launch(name)
                    await place.begin(name)
                    await place.end(name)
            uids = {name: place.world.uids[f"{name}-1-head"] for name in ("gone", "stays")}
            await place.forget("gone")
            async with place.running():
                await place.until(
                    lambda: not place.log(uids["gone"]).exists() and not place.checkpoints("gone").exists()
                )
                assert place.log(uids["stays"]).exists()
                assert place.checkpoints("stays").exists()

    play(story())


def test_an_archive_stays_as_long_as_a_job_refers_to_it_and_a_while_after_its_last_use(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_place(tmp_path) as place:
            await place.launch("a", DIGEST)
            await place.launch("b", DIGEST)
            await place.launch("odd", files="what is this", others=[1])
            used = place.archive(age_seconds=10 * GRACE_SECONDS)
            fresh = place.archive(OTHER, age_seconds=GRACE_SECONDS / 2)
            elsewhere = place.archive(namespace="other", age_seconds=10 * GRACE_SECONDS)
            mine = place.made("archives/default/notes.txt", "kept by hand", 10 * GRACE_SECONDS)
            unfinished = place.made(f"archives/default/.{OTHER}.tar.gz.1.part", "", 10 * GRACE_SECONDS)
            async with place.running():
                await place.until(lambda: not elsewhere.exists())
                await place.forget("a")
                await place.tidied()
                assert used.exists()
                await place.forget("b")
                await place.until(lambda: not used.exists())
                assert fresh.exists()
                await place.world.clock.run_for(GRACE_SECONDS / 2)
                await place.looked_again(lambda: not fresh.exists())
            assert mine.exists()
            assert unfinished.exists(), "somebody may be writing it"

    play(story())


def test_an_archive_that_is_used_while_it_is_about_to_go_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses its name first; who used it before that has it back."""
    renamed = Path.rename

    def used_at_the_last_moment(path: Path, target: Path) -> Path:
        if not path.name.startswith("."):
            os.utime(path, (2e10, 2e10))
        return renamed(path, target)

    async def story() -> None:
        async with a_place(tmp_path) as place:
            archive = place.archive(age_seconds=10 * GRACE_SECONDS)
            monkeypatch.setattr(Path, "rename", used_at_the_last_moment)
            async with place.running():
                await place.tidied()
                assert archive.exists()
                assert [path.name for path in archive.parent.iterdir()] == [archive.name]

    play(story())


def test_no_link_leads_out_of_the_state_directory(tmp_path: Path) -> None:
    async def story() -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").write_text("!")
        async with a_place(tmp_path / "state") as place:
            marked = place.made("logs/default/pod/.kept", "nobody\n").parent
            (marked / "out").symlink_to(outside)
            inside = place.made("checkpoints/nobody/0/x").parent
            (inside / "out").symlink_to(outside)
            (place.state / "checkpoints" / "linked").symlink_to(outside)
            (place.state / "logs" / "linked").symlink_to(outside)
            async with place.running():
                await place.until(lambda: not any((place.state / "checkpoints").iterdir()) and not marked.exists())
        assert (outside / "precious").read_text() == "!"

    play(story())


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(5, "Input/output error"), id="a broken disk"),
        pytest.param(RecursionError("maximum recursion depth exceeded"), id="directories in directories without end"),
    ],
)
def test_what_cannot_be_removed_is_told_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    tries: list[Path] = []

    def refuse(path: Path) -> None:
        tries.append(path)
        raise error

    async def story() -> None:
        async with a_place(tmp_path) as place:
            stuck = place.made("checkpoints/nobody/x").parent
            with monkeypatch.context() as broken:
                broken.setattr("shutil.rmtree", refuse)
                async with place.running():
                    while len(tries) < 3:
                        await place.world.clock.run_for(61)
                        await asyncio.sleep(0)
                    assert len([one for one in caplog.records if "cannot remove" in one.message]) == 1
            async with place.running():
                await place.until(lambda: not stuck.exists())

    with caplog.at_level(logging.WARNING):
        play(story())


def test_rights_that_a_job_took_away_do_not_save_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = shutil.rmtree

    def strict(path: Path) -> None:
        """Tests may run as root, to whom rights mean nothing."""
        for directory in (path, *path.rglob("*/")):
            if directory.stat().st_mode & 0o700 != 0o700:
                raise PermissionError(13, "Permission denied", str(directory))
        removed(path)

    async def story() -> None:
        async with a_place(tmp_path) as place:
            directory = place.made("checkpoints/nobody/0/cache/x").parent
            for one in (directory, directory.parent):
                one.chmod(0o500)
            monkeypatch.setattr("shutil.rmtree", strict)
            async with place.running():
                await place.until(lambda: not any((place.state / "checkpoints").iterdir()))

    play(story())
