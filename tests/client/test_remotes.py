"""Jobs at another server: made, followed, changed and taken back, against a real one."""

import asyncio
import hashlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from client.rest.scripted import Scripted, answer, write_kubeconfig
from fairway.apis.machinery.kind import Manifest
from fairway.client.remotes import KubeconfigRemotes
from fairway.client.rest import KubeconfigError, Rest, Unreachable, open_rest, paths
from fairway.client.sighting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID
from fairway.errors import AlreadyExists, NotFound
from fairway.runtime.clock import SystemClock
from fairway.testing.servers import Server

_SECONDS = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("remote") / "state") as running:
        yield running


@pytest.fixture
def rest(server: Server) -> Iterator[Rest]:
    with open_rest(server.kubeconfig) as opened:
        yield opened
        for job in opened.get(paths.jobs("default"))["items"]:
            opened.delete(paths.job("default", job["metadata"]["name"]))


def remotes_of(server: Server, archives: Path) -> KubeconfigRemotes:
    return KubeconfigRemotes(server.kubeconfig, archives, SystemClock())


def job(name: str, uid: str = "uid-1", **spec: Any) -> Manifest:
    return {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": {
            "name": name,
            "labels": {ORIGIN_UID: uid},
            "annotations": {ORIGIN_NAMESPACE: "research", ORIGIN_NAME: name.removesuffix("-copy")},
        },
        "spec": {"tasks": [{"run": "true"}], **spec},
    }


class Ear:
    """Hears what changed, and lets one wait for something to be so."""

    def __init__(self, remotes: KubeconfigRemotes) -> None:
        self.heard: list[tuple[str, str]] = []
        self._changed = asyncio.Event()
        remotes.on_change(self._hear)

    def _hear(self, namespace: str, name: str) -> None:
        self.heard.append((namespace, name))
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def followed(remotes: KubeconfigRemotes) -> AsyncIterator[Ear]:
    ear = Ear(remotes)
    task = asyncio.create_task(remotes.run())
    try:
        yield ear
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def play(story: Coroutine[Any, Any, None]) -> None:
    threads = set(threading.enumerate())
    asyncio.run(story)
    assert set(threading.enumerate()) <= threads, "no thread stays"


def in_background(work: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
    return asyncio.to_thread(work)


def test_a_job_is_made_once_however_often_it_is_submitted(server: Server, rest: Rest, tmp_path: Path) -> None:
    remotes = remotes_of(server, tmp_path)

    async def story() -> None:
        first = await remotes.submit("fairway", job("once-copy"), namespace="research", secret=None)
        second = await remotes.submit("fairway", job("once-copy"), namespace="research", secret=None)
        assert first["metadata"]["uid"] == second["metadata"]["uid"]

        with pytest.raises(AlreadyExists, match="there is another job 'once-copy' in namespace 'default'"):
            await remotes.submit("fairway", job("once-copy", uid="another"), namespace="research", secret=None)
        remotes._close("fairway")

    play(story())
    assert [one["metadata"]["name"] for one in rest.get(paths.jobs("default"))["items"]] == ["once-copy"]


def test_what_a_job_needs_goes_with_it(server: Server, rest: Rest, tmp_path: Path) -> None:
    content = b"files of a job"
    digest = hashlib.sha256(content).hexdigest()
    (tmp_path / "research").mkdir()
    (tmp_path / "research" / f"{digest}.tar.gz").write_bytes(content)
    manifest = job(
        "needs-copy", secretName="needs-values", tasks=[{"run": "x", "files": [{"archive": digest, "path": "."}]}]
    )
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "values", "uid": "here", "resourceVersion": "1", "namespace": "research"},
        "type": "Opaque",
        "data": {"KEY": "dmFsdWU="},
    }
    remotes = remotes_of(server, tmp_path)

    async def story() -> None:
        made = await remotes.submit("fairway", manifest, namespace="research", secret=secret)
        copy = await in_background(lambda: rest.get(paths.resource("v1", "secrets", "default", "needs-values")))
        assert copy["data"] == {"KEY": "dmFsdWU="}
        assert [owner["uid"] for owner in copy["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
        assert await in_background(lambda: rest.exists(paths.archive("default", digest)))

        second = {**manifest, "metadata": {**manifest["metadata"], "name": "needs-second"}}
        again = await remotes.submit("fairway", second, namespace="research", secret=secret)
        copy = await in_background(lambda: rest.get(paths.resource("v1", "secrets", "default", "needs-values")))
        uids = [made["metadata"]["uid"], again["metadata"]["uid"]]
        assert [owner["uid"] for owner in copy["metadata"]["ownerReferences"]] == uids

        await remotes.delete("fairway", "needs-copy")
        await remotes.delete("fairway", "needs-second")
        await remotes.delete("fairway", "needs-second")  # gone already
        remotes._close("fairway")

    play(story())
    watched = rest.watch(paths.resource("v1", "secrets", "default"), timeoutSeconds=20)
    if rest.exists(paths.resource("v1", "secrets", "default", "needs-values")):
        assert any(event["type"] == "DELETED" for event in watched)
    watched.close()


def test_files_that_are_no_longer_here_are_a_refusal(server: Server, rest: Rest, tmp_path: Path) -> None:
    remotes = remotes_of(server, tmp_path)
    manifest = job("lost-copy", tasks=[{"run": "x", "files": [{"archive": "a" * 64, "path": "."}]}])

    async def story() -> None:
        with pytest.raises(NotFound, match=r"the files of the job \(archive a{64}\) are not on this server"):
            await remotes.submit("fairway", manifest, namespace="research", secret=None)
        remotes._close("fairway")

    play(story())


def test_a_secret_of_somebody_else_is_left_alone(server: Server, rest: Rest, tmp_path: Path) -> None:
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}, "data": {"KEY": "eA=="}}
    rest.create(paths.resource("v1", "secrets", "default"), theirs)
    remotes = remotes_of(server, tmp_path)

    async def story() -> None:
        with pytest.raises(AlreadyExists, match="there is another Secret 'theirs'"):
            await remotes.submit(
                "fairway", job("secret-copy", secretName="theirs"), namespace="research", secret=dict(theirs)
            )
        remotes._close("fairway")

    play(story())
    assert not rest.exists(paths.job("default", "secret-copy"))


def test_a_job_is_seen_as_it_changes_and_goes(server: Server, rest: Rest, tmp_path: Path) -> None:
    rest.create(paths.jobs("default"), job("old-copy"))
    stranger = job("stranger")
    del stranger["metadata"]["labels"]
    rest.create(paths.jobs("default"), stranger)
    remotes = remotes_of(server, tmp_path)

    async def story() -> None:
        assert remotes.sighting("fairway", "old-copy") == (False, None)
        async with followed(remotes) as ear:
            await ear.until(lambda: remotes.sighting("fairway", "old-copy").known)
            assert remotes.sighting("fairway", "stranger").job is None

            made = await remotes.submit("fairway", job("new-copy"), namespace="research", secret=None)
            assert remotes.sighting("fairway", "new-copy").job == made, "what was written is known at once"

            status = {"status": {"phase": "RUNNING"}}
            where = f"{paths.job('default', 'new-copy')}/status"
            await in_background(lambda: rest.patch(where, status))
            await ear.until(lambda: "status" in (remotes.sighting("fairway", "new-copy").job or {}))

            changed = await remotes.change("fairway", "new-copy", {"hold": True})
            assert changed is not None
            assert changed["spec"]["hold"] is True
            assert remotes.sighting("fairway", "new-copy").job == changed

            await remotes.delete("fairway", "new-copy")
            await ear.until(lambda: remotes.sighting("fairway", "new-copy").job is None)
            assert await remotes.change("fairway", "new-copy", {"hold": False}) is None
            assert {("", ""), ("research", "old"), ("research", "new")} == set(ear.heard)

    play(story())


def test_what_changed_while_a_server_was_away_is_seen_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fairway.client")
    with Server(tmp_path / "state") as server:
        remotes = remotes_of(server, tmp_path)
        port = int(server.url.rpartition(":")[2])

        async def story() -> None:
            await remotes.submit("fairway", job("stays-copy"), namespace="research", secret=None)
            await remotes.submit("fairway", job("goes-copy"), namespace="research", secret=None)
            async with followed(remotes) as ear:
                await ear.until(lambda: remotes.sighting("fairway", "goes-copy").known)
                await in_background(server.kill)
                with pytest.raises(Unreachable):
                    await remotes.submit("fairway", job("more-copy"), namespace="research", secret=None)
                assert remotes.sighting("fairway", "goes-copy").job is not None, "it is remembered meanwhile"

                ear.heard.clear()
                await in_background(lambda: server.start(port=port))
                with open_rest(server.kubeconfig) as rest:
                    await in_background(lambda: rest.delete(paths.job("default", "goes-copy")))
                await ear.until(lambda: ("research", "goes") in ear.heard)
                assert remotes.sighting("fairway", "stays-copy").job is not None
                assert remotes.sighting("fairway", "goes-copy") == (True, None)

        play(story())
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("watching managedjobs.fairway.dev: https://127.0.0.1:") for line in said)


def test_a_server_that_does_not_answer_is_not_asked_for_every_job(tmp_path: Path) -> None:
    with Scripted() as scripted:
        port = scripted.port
    clusters = [{"name": "one", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
    remotes = KubeconfigRemotes(write_kubeconfig(tmp_path / "config", clusters=clusters), tmp_path, SystemClock())

    async def story() -> None:
        said = []
        for _ in range(2):
            with pytest.raises(Unreachable) as raised:
                await remotes.delete("here", "a")
            said.append(str(raised.value))
        assert said[0] == said[1]
        assert "connection refused" in said[0]

    play(story())


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(answer(b"404 page not found", "404 Not Found"), id="no such group"),
        pytest.param(answer(b'{"resources": [{"name": "others"}]}'), id="a group of that name without the kind"),
    ],
)
def test_a_server_that_is_no_fairway_is_a_refusal_with_the_reason(said: bytes, tmp_path: Path) -> None:
    with Scripted([said]) as scripted:
        url = f"http://127.0.0.1:{scripted.port}"
        clusters = [{"name": "one", "cluster": {"server": url}}]
        remotes = KubeconfigRemotes(write_kubeconfig(tmp_path / "config", clusters=clusters), tmp_path, SystemClock())

        async def story() -> None:
            with pytest.raises(NotFound, match=f"context 'here': {url} serves no managedjobs"):
                await remotes.submit("here", job("a"), namespace="research", secret=None)

        play(story())
        assert scripted.targets() == ["GET /apis/fairway.dev/v1alpha1"]


def test_contexts_are_known_as_the_kubeconfig_has_them_now(tmp_path: Path) -> None:
    path = tmp_path / "config"
    remotes = KubeconfigRemotes(path, tmp_path, SystemClock())
    assert not remotes.knows("here"), "no file at all"

    write_kubeconfig(path)
    assert [remotes.knows(name) for name in ("here", "there", "")] == [True, False, False]

    path.write_text("a: [")
    assert not remotes.knows("here")

    document = json.loads(write_kubeconfig(path).read_text())
    document["contexts"][0]["name"] = "there"
    path.write_text(json.dumps(document))
    assert [remotes.knows(name) for name in ("here", "there")] == [False, True]


def test_only_contexts_that_are_allowed_are_used(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config")
    remotes = KubeconfigRemotes(path, tmp_path, SystemClock(), allowed=["there"])

    async def story() -> None:
        assert not remotes.knows("here")
        with pytest.raises(KubeconfigError, match="there is no context 'here' that may be used"):
            await remotes.submit("here", job("a"), namespace="research", secret=None)

    play(story())


def test_this_server_is_not_another_one(tmp_path: Path) -> None:
    own = write_kubeconfig(tmp_path / "own")
    contexts = [{"name": name, "context": {"cluster": name, "user": "ann"}} for name in ("mirror", "far")]
    clusters = [
        {"name": "mirror", "cluster": {"server": "https://127.0.0.1:7437"}},
        {"name": "far", "cluster": {"server": "https://far.example"}},
    ]
    others = write_kubeconfig(tmp_path / "others", contexts=contexts, clusters=clusters)
    remotes = KubeconfigRemotes(others, tmp_path, SystemClock(), own=own)

    assert [remotes.knows(name) for name in ("mirror", "far")] == [False, True]
