"""Writes that are here as a whole are answered without a task: the same answers, in the same order."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.server.http.connection import OpenConnections
from fairway.store.memory import MemoryLog
from fuzz.network import Streams, connected, listening
from fuzz.world import World
from store.harbour import HeldLog

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def request(world: World, method: str, path: str, body: Any = None, *headers: str, token: str | None = None) -> bytes:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token or world.token}"]
    if not any(header.lower().startswith("content-type") for header in headers):
        lines.append("Content-Type: application/json")
    lines += [f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """The next answer on a connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    status, *lines = head[:-4].split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    if headers.get(b"transfer-encoding") == b"chunked":
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return status, headers, body
    return status, headers, await reader.readexactly(int(headers[b"content-length"]))


def name_in(body: bytes) -> str:
    return str(json.loads(body)["metadata"]["name"])


REQUESTS: dict[str, tuple[str, str, Any, tuple[str, ...]]] = {
    "a create": ("POST", MAPS, {"metadata": {"name": "new"}, "data": {"a": "b"}}, ()),
    "a create in YAML": ("POST", MAPS, b"metadata:\n  name: new\n", ("Content-Type: application/yaml",)),
    "a create as a dry run": ("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "new"}}, ()),
    "a create of what is there": ("POST", MAPS, {"metadata": {"name": "old"}}, ()),
    "a create with a field that is none": ("POST", MAPS, {"metadata": {"name": "new"}, "frob": 1}, ()),
    "a create without a body": ("POST", MAPS, None, ()),
    "a create of nonsense": ("POST", MAPS, b"{", ()),
    "a create in a format that is none": ("POST", MAPS, b"x", ("Content-Type: text/plain",)),
    "a create as a table": ("POST", MAPS, {"metadata": {"name": "new"}},
                            ("Accept: application/json;as=Table;v=v1;g=meta.k8s.io",)),
    "a create in a form that is none": ("POST", MAPS, {"metadata": {"name": "new"}}, ("Accept: image/png",)),
    "an update": ("PUT", f"{MAPS}/old", {"metadata": {"name": "old"}, "data": {"a": "c"}}, ()),
    "an update of what is not there": ("PUT", f"{MAPS}/none", {"metadata": {"name": "none"}}, ()),
    "a merge patch": ("PATCH", f"{MAPS}/old", {"data": {"x": "y"}}, ("Content-Type: application/merge-patch+json",)),
    "a patch that changes nothing": ("PATCH", f"{MAPS}/old", {}, ("Content-Type: application/merge-patch+json",)),
    "an apply": ("PATCH", f"{MAPS}/new?fieldManager=me", {"apiVersion": "v1", "kind": "ConfigMap"},
                 ("Content-Type: application/apply-patch+yaml",)),
    "a patch in a format that is none": ("PATCH", f"{MAPS}/old", {}, ()),
    "a delete": ("DELETE", f"{MAPS}/old", None, ()),
    "a delete with options": ("DELETE", f"{MAPS}/old", {"preconditions": {"uid": "another"}}, ()),
    "a delete of all": ("DELETE", MAPS, None, ()),
    "a way to nowhere": ("POST", "/apis/none/v1/things", {}, ()),
    "a write where one can only read": ("POST", "/version", {}, ()),
    "a path with a trick in it": ("POST", f"{MAPS}/a%2Fb", {}, ()),
    "a query that cannot be read": ("POST", f"{MAPS}?a=%ff", {}, ()),
    "a question": ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                   {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, ()),
    "somebody else's name": ("POST", MAPS, {"metadata": {"name": "new"}}, ("Impersonate-User: root",)),
    "a token that is none": ("POST", MAPS, {"metadata": {"name": "new"}}, ("Authorization: Bearer fw_x",)),
}  # fmt: skip


def told(found: tuple[bytes, dict[bytes, bytes], bytes]) -> Any:
    """An answer without what is different each time."""
    status, headers, body = found
    text = re.sub(r'"(uid|resourceVersion|creationTimestamp|time)":"[^"]*"', r'"\1":""', body.decode())
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "", text)
    headers = {name: value for name, value in headers.items() if name not in {b"content-length", b"transfer-encoding"}}
    return status.split()[1], headers, text


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_a_request_in_one_piece_and_the_same_in_two_are_answered_alike(
    tmp_path_factory: pytest.TempPathFactory, sent: tuple[str, str, Any, tuple[str, ...]]
) -> None:
    method, path, body, headers = sent

    def found(*, whole: bool) -> Any:
        with World(tmp_path_factory.mktemp("world")) as world:

            async def story() -> Any:
                await world.answer("POST", MAPS, {"metadata": {"name": "old"}, "data": {"a": "b"}})
                async with listening(world) as port, connected(port) as (reader, writer):
                    data = request(world, method, path, body, *headers)
                    if whole:
                        writer.write(data)
                    elif body:
                        writer.write(data[:-1])
                        await asyncio.sleep(0.02)
                        writer.write(data[-1:])
                    else:  # there is nothing to cut: it comes together with a request that is answered before
                        writer.write(request(world, "GET", f"{MAPS}/none") + data)
                        await answer(reader)
                    first = told(await answer(reader))
                    writer.write(request(world, "GET", MAPS))  # the connection goes on
                    return first, told(await answer(reader))

            return world.run(story())

    assert found(whole=True) == found(whole=False)


def test_answers_come_in_the_order_of_the_requests_however_they_are_sent(world: World) -> None:
    async def story() -> None:
        async with listening(world) as port, connected(port) as (reader, writer):
            writes = [request(world, "POST", MAPS, {"metadata": {"name": f"a{number}"}}) for number in range(5)]
            read = request(world, "GET", f"{MAPS}/a0")
            writer.write(b"".join([*writes[:2], read, *writes[2:], read]))
            names = [name_in((await answer(reader))[2]) for _ in range(7)]
            assert names == ["a0", "a1", "a0", "a2", "a3", "a4", "a0"]

    world.run(story())
    world.check_calm()


def test_a_body_that_comes_in_pieces_is_waited_for(world: World) -> None:
    async def story() -> None:
        async with listening(world) as port, connected(port) as (reader, writer):
            data = request(world, "POST", MAPS, {"metadata": {"name": "slow"}, "data": {"a": "x" * 5000}})
            for start in range(0, len(data), 700):
                writer.write(data[start : start + 700])
                await writer.drain()
                await asyncio.sleep(0.001)
            assert name_in((await answer(reader))[2]) == "slow"

    world.run(story())


@pytest.mark.parametrize("header", ["Connection: close", "Connection: Close"])
def test_whoever_wants_the_connection_to_end_has_it_ended(world: World, header: str) -> None:
    async def story() -> None:
        async with listening(world) as port, connected(port) as (reader, writer):
            writer.write(request(world, "POST", MAPS, {"metadata": {"name": "last"}}, header))
            status, headers, _ = await answer(reader)
            assert status == b"HTTP/1.1 201 Created"
            assert headers[b"connection"] == b"close"
            assert await reader.read() == b""

    world.run(story())


def test_whoever_speaks_an_older_version_has_the_connection_ended_though_they_would_keep_it(world: World) -> None:
    async def story() -> None:
        async with listening(world) as port, connected(port) as (reader, writer):
            data = request(world, "POST", MAPS, {"metadata": {"name": "old"}}, "Connection: keep-alive")
            writer.write(data.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))
            status, headers, _ = await answer(reader)
            assert (status.split()[1], headers[b"connection"]) == (b"201", b"close")
            assert await reader.read() == b""

    world.run(story())


def test_whoever_asks_for_the_connection_to_be_kept_has_it_kept(world: World) -> None:
    async def story() -> None:
        async with listening(world) as port, connected(port) as (reader, writer):
            for name in ("a", "b"):
                writer.write(request(world, "POST", MAPS, {"metadata": {"name": name}}, "Connection: keep-alive"))
                status, headers, body = await answer(reader)
                assert (status, name_in(body)) == (b"HTTP/1.1 201 Created", name)
                assert b"connection" not in headers

    world.run(story())


def test_whoever_asks_before_sending_the_body_is_told_to_go_on(world: World) -> None:
    async def story() -> None:
        async with listening(world) as port, connected(port) as (reader, writer):
            data = request(world, "POST", MAPS, {"metadata": {"name": "polite"}}, "Expect: 100-continue")
            head, _, body = data.partition(b"\r\n\r\n")
            writer.write(head + b"\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await answer(reader))[0] == b"HTTP/1.1 201 Created"

    world.run(story())


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[World, HeldLog]]:
    log = HeldLog(MemoryLog())
    with World(tmp_path, log=log) as world:
        yield world, log
        log.release()


async def send_held(world: World, log: HeldLog, streams: Streams, name: str) -> None:
    """Send a create, and wait until it is on its way to the disk, and held there."""
    log.hold()
    streams[1].write(request(world, "POST", MAPS, {"metadata": {"name": name}}))
    await log.arrival()


def test_nobody_is_answered_before_the_write_is_durable(held: tuple[World, HeldLog]) -> None:
    world, log = held

    async def story() -> None:
        async with listening(world) as port, connected(port) as streams:
            await send_held(world, log, streams, "a")
            first = asyncio.create_task(answer(streams[0]))
            streams[1].write(request(world, "GET", f"{MAPS}/a"))  # it waits for its turn
            await asyncio.sleep(0.05)
            assert not first.done()
            assert world.api.metrics.in_flight == 1
            log.release()
            assert (await first)[0] == b"HTTP/1.1 201 Created"
            assert name_in((await answer(streams[0]))[2]) == "a"
            assert world.api.metrics.in_flight == 0

    world.run(story())
    world.check_calm()


def test_whoever_hangs_up_meanwhile_does_not_undo_the_write(held: tuple[World, HeldLog]) -> None:
    world, log = held

    async def story() -> None:
        async with listening(world) as port:
            async with connected(port) as streams:
                await send_held(world, log, streams, "a")
            log.release()
            await world.store.settled()
            assert (await world.answer("GET", f"{MAPS}/a")).code == 200

    world.run(story())
    world.check_calm()


def test_a_server_that_goes_down_answers_first(held: tuple[World, HeldLog]) -> None:
    world, log = held

    async def story() -> None:
        connections = OpenConnections(world.api.handle)
        async with listening(world, connections) as port, connected(port) as streams:
            await send_held(world, log, streams, "a")
            connections.shutdown()
            log.release()
            status, headers, _ = await answer(streams[0])
            assert status == b"HTTP/1.1 201 Created"
            assert headers[b"connection"] == b"close"
            assert await streams[0].read() == b""

    world.run(story())


def test_a_connection_ends_when_it_has_not_been_used_for_long(world: World) -> None:
    async def story() -> None:
        connections = OpenConnections(world.api.handle, keep_alive_seconds=0.3)
        async with listening(world, connections) as port, connected(port) as (reader, writer):
            loop = asyncio.get_running_loop()
            used = 0.0
            for number in range(4):  # as long as it is used it stays, though longer than the time in all
                writer.write(request(world, "POST", MAPS, {"metadata": {"name": f"a{number}"}}))
                assert (await answer(reader))[0] == b"HTTP/1.1 201 Created"
                used = loop.time()
                await asyncio.sleep(0.15)
            assert await reader.read() == b""
            assert loop.time() - used >= 0.29

    world.run(story())
