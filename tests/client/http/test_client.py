"""The protocol of controllers over HTTP: against a real server, it does what the client in the same process does."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from client.http.test_transport import Waits, transport_to
from client.rest.scripted import Scripted, answer, chunked
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import default_registry
from fairway.client.http import HttpClient, open_transport
from fairway.client.http.transport import Transport
from fairway.client.informer import Informer
from fairway.client.protocol import NotServed, Scope, UnservedVersion
from fairway.client.rest.errors import Unreachable
from fairway.errors import AlreadyExists, ApiError, BadRequest, Conflict, Expired, NotFound
from fairway.runtime.clock import SystemClock
from fairway.testing.clock import VirtualClock
from fairway.testing.servers import Server

SECONDS = 180.0


def kind(name: str) -> Kind:
    found = default_registry().by_name(name)
    assert found is not None
    return found


MISSING = answer(b"404 page not found", "404 Not Found")
MAPS, PODS, QUEUES = kind("configmaps"), kind("pods"), kind("clusterqueues.kueue.x-k8s.io")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("http") / "state") as running:
        yield running


def play(server: Server, story: Callable[[HttpClient], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        clock = SystemClock()
        async with asyncio.timeout(SECONDS), open_transport(server.kubeconfig, "", clock) as transport:
            await story(HttpClient(transport, clock, "tester"))

    asyncio.run(run())


def a_map(name: str, **data: str) -> Manifest:
    metadata = {"namespace": "default", "name": name, "labels": {"test": name.partition("-")[0]}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_the_verbs(server: Server) -> None:
    async def story(client: HttpClient) -> None:
        made = await client.create(MAPS, a_map("verbs-a", n="1"))
        assert made == await client.get(MAPS, "default", "verbs-a")
        with pytest.raises(AlreadyExists):
            await client.create(MAPS, a_map("verbs-a"))

        patched = await client.patch(MAPS, "default", "verbs-a", {"data": {"n": "2"}})
        assert patched["data"] == {"n": "2"}
        with pytest.raises(Conflict):
            await client.update(MAPS, made)
        updated = await client.update(MAPS, {**patched, "data": {"n": "3"}})
        assert "managedFields" not in updated["metadata"], "nothing reads them, and caches would keep them"
        stored = await client.transport.json("GET", "/api/v1/namespaces/default/configmaps/verbs-a")
        assert {owner["manager"] for owner in stored["metadata"]["managedFields"]} == {"tester"}

        applied = await client.apply(MAPS, a_map("verbs-a", n="4"), force=True)
        assert applied["data"] == {"n": "4"}
        with pytest.raises(BadRequest, match="no patch type 'apply'"):
            await client.patch(MAPS, "default", "verbs-a", {}, patch_type="apply")

        with pytest.raises(Conflict):
            await client.delete(MAPS, "default", "verbs-a", uid="another")
        assert await client.delete(MAPS, "default", "verbs-a", uid=made["metadata"]["uid"]) is None
        with pytest.raises(NotFound):
            await client.get(MAPS, "default", "verbs-a")

    play(server, story)


def test_an_object_with_a_finalizer_is_returned_until_it_is_gone(server: Server) -> None:
    async def story(client: HttpClient) -> None:
        held = a_map("held-a")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await client.create(MAPS, held)
        left = await client.delete(MAPS, "default", "held-a")
        assert left is not None
        assert left["metadata"]["deletionTimestamp"]
        await client.patch(MAPS, "default", "held-a", {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await client.get(MAPS, "default", "held-a")

    play(server, story)


@pytest.mark.parametrize(
    ("answers", "error", "sentence"),
    [
        pytest.param([MISSING, MISSING], NotServed, "has no group kueue.x-k8s.io, which clusterqueues", id="no group"),
        pytest.param(
            [MISSING, answer(b'{"versions":[{"version":"v1beta1"}]}')], UnservedVersion,
            "has kueue.x-k8s.io in v1beta1, and kueue.x-k8s.io/v1beta2 is needed", id="another version",
        ),
        pytest.param(
            [MISSING, answer(b'{"versions":[{"version":"v1beta2"}]}')], NotServed,
            "has no clusterqueues in kueue.x-k8s.io/v1beta2", id="no such resource",
        ),
    ],
)  # fmt: skip
def test_a_resource_that_is_not_served_is_explained(answers: list[bytes], error: type, sentence: str) -> None:
    async def story(port: int) -> None:
        async with transport_to(port, Waits()) as transport:
            with pytest.raises(error, match=sentence):
                await HttpClient(transport, Waits(), "tester").list(QUEUES)

    with Scripted(answers) as server:
        asyncio.run(story(server.port))


def test_a_pod_is_bound_and_its_status_patched(server: Server) -> None:
    async def story(client: HttpClient) -> None:
        spec = {"containers": [{"name": "main", "image": "none"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "bound"}, "spec": spec}
        made = await client.create(PODS, pod)
        bound = await client.bind("default", "bound", made["metadata"]["uid"], "node-1")
        assert bound["spec"]["nodeName"] == "node-1"
        with pytest.raises(Conflict):
            await client.bind("default", "bound", made["metadata"]["uid"], "node-2")
        patched = await client.patch(PODS, "default", "bound", {"status": {"phase": "Running"}}, subresource="status")
        assert patched["status"]["phase"] == "Running"

    play(server, story)


def test_lists_come_in_pages_and_watches_go_on_from_them(server: Server) -> None:
    async def story(client: HttpClient) -> None:
        names = [f"page-{number:04}" for number in range(1_203)]
        for start in range(0, len(names), 100):
            await asyncio.gather(*[client.create(MAPS, a_map(name)) for name in names[start : start + 100]])
        scope = Scope("default", labels="test=page")
        listed = await client.list(MAPS, scope)
        assert [item["metadata"]["name"] for item in listed.items] == names
        assert {(item["apiVersion"], item["kind"]) for item in listed.items} == {("v1", "ConfigMap")}

        async with aclosing(client.watch(MAPS, listed.resource_version, scope)) as changes:
            await client.patch(MAPS, "default", names[0], {"data": {"n": "1"}})
            await client.create(MAPS, a_map("other-a"))
            await client.delete(MAPS, "default", names[1])
            seen: list[tuple[str, str]] = []
            while len(seen) < 2:
                seen += [(event.type, event.manifest["metadata"]["name"]) for event in await anext(changes)]
        assert seen == [("MODIFIED", names[0]), ("DELETED", names[1])]
        assert (await client.list(QUEUES)).items == []

    play(server, story)


def test_a_watch_goes_on_where_it_was_after_the_server_was_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Server(tmp_path_factory.mktemp("killed") / "state") as server:
        port = int(server.url.rpartition(":")[2])

        async def story(client: HttpClient) -> None:
            informer = Informer(client, MAPS, SystemClock(), [Scope("default", labels="test=kill")])
            seen: list[str] = []
            lists: list[int] = []
            changed = asyncio.Event()

            def on_change(old: Manifest | None, new: Manifest | None) -> None:
                seen.append((new or old or {})["metadata"]["name"])
                changed.set()

            informer.on_change(on_change)
            informer.on_list(lambda: lists.append(len(seen)))
            task = asyncio.create_task(informer.run())
            await informer.synced.wait()
            for number in range(3):
                await client.create(MAPS, a_map(f"kill-{number}"))
                while f"kill-{number}" not in seen:
                    changed.clear()
                    await changed.wait()
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(lambda: server.start(port=port))
            task.cancel()
            assert seen == ["kill-0", "kill-1", "kill-2"]
            assert lists == [0]

        play(server, story)


def event(kind: str, version: str) -> bytes:
    metadata = f'{{"name":"a","namespace":"default","resourceVersion":"{version}"}}'
    return f'{{"type":"{kind}","object":{{"metadata":{metadata}}}}}\n'.encode()


def test_a_watch_resumes_from_the_last_bookmark_and_raises_what_resuming_cannot_mend() -> None:
    gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
    scripts = [
        [chunked(event("ADDED", "5"), event("BOOKMARK", "9"))],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"],  # cut in the middle
        [answer(b"{}", "500 Internal Server Error")] * 1,
        [chunked(event("MODIFIED", "11"))],
        [chunked(gone)],
    ]
    seen: list[str] = []

    async def story(port: int) -> None:
        clock = Waits()
        async with asyncio.timeout(SECONDS), transport_to(port, clock) as transport:
            async for batch in HttpClient(transport, clock, "tester").watch(MAPS, "1"):
                seen.extend(change.type for change in batch)

    with Scripted(*scripts) as scripted, pytest.raises(Expired):
        asyncio.run(story(scripted.port))

    assert seen == ["ADDED", "MODIFIED"]
    versions = [request.split(b"resourceVersion=")[1].split(b"&")[0] for request in scripted.requests]
    assert versions == [b"1", b"9", b"9", b"9", b"11"]


def test_a_watch_that_breaks_again_and_again_is_the_callers_to_judge() -> None:
    async def story(port: int) -> None:
        clock = Waits()
        async with asyncio.timeout(SECONDS), transport_to(port, clock) as transport:
            async for _ in HttpClient(transport, clock, "tester").watch(MAPS, "1"):
                pass

    with Scripted(*[[answer(b"{}", "403 Forbidden")]] * 6) as scripted, pytest.raises(ApiError):
        asyncio.run(story(scripted.port))
    assert len(scripted.requests) == 6


class _Losing:
    """A transport that loses answers: what was asked for is done all the same."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.stored: dict[str, Manifest] = {}

    async def json(self, method: str, path: str, _query: Any = None, body: Any = None, *_: Any) -> Any:
        if method == "GET":
            return self.stored[path.rpartition("/")[2]]
        name = body["metadata"]["name"]
        fate = self._answers.pop(0) if self._answers else ""
        if fate == "refused connection":
            raise Unreachable("connection refused")
        if name in self.stored or fate == "taken":
            raise AlreadyExists(f"{name} already exists")
        self.stored[name] = {**body, "metadata": {**body["metadata"], "uid": f"uid-of-{name}"}}
        if fate == "lost answer":
            raise Unreachable("connection lost")
        return self.stored[name]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((), id="at once"),
        pytest.param(("lost answer",), id="a lost answer"),
        pytest.param(("lost answer", "refused connection", "refused connection"), id="the server restarts"),
        pytest.param(("refused connection",), id="it never arrived"),
        pytest.param(("taken",), id="the name is taken"),
    ],
)
def test_a_create_whose_answer_is_lost_makes_one_object(answers: tuple[str, ...]) -> None:
    async def story() -> None:
        transport, clock = _Losing(*answers), VirtualClock()
        client = HttpClient(cast("Transport", transport), clock, "test")
        creating = asyncio.create_task(client.create(kind("pods"), {"metadata": {"generateName": "job-1-"}}))
        await clock.run_for(10)
        created = await creating
        assert list(transport.stored.values()) == [created]
        assert re.fullmatch("job-1-[a-z0-9]{5}", created["metadata"]["name"])

    asyncio.run(story())


def test_a_name_that_was_given_is_the_callers_to_judge() -> None:
    async def story() -> None:
        client = HttpClient(cast("Transport", _Losing("lost answer")), VirtualClock(), "test")
        with pytest.raises(Unreachable):
            await client.create(kind("pods"), {"metadata": {"name": "mine"}})

    asyncio.run(story())
