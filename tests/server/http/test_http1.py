"""HTTP/1.1 at its edges: bodies that are not wanted, old clients, upgrades, and what is not HTTP at all."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from fairway.server.http import http1
from fairway.server.http.connection import OpenConnections
from fuzz.network import Streams, connected, listening
from fuzz.world import World

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def play(world: World, story: Callable[[Streams], Awaitable[None]], connections: OpenConnections | None = None) -> None:
    async def run() -> None:
        async with listening(world, connections) as port, connected(port) as streams:
            await story(streams)

    world.run(run())
    world.check_calm()


def head(world: World, line: str, *headers: str) -> bytes:
    lines = [line, "Host: x", f"Authorization: Bearer {world.token}", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


async def answered(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of a response with a length."""
    told = await reader.readuntil(b"\r\n\r\n")
    length = int(told.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(told.split()[1]), await reader.readexactly(length)


def test_the_rest_of_a_body_that_was_refused_is_discarded_and_the_connection_goes_on(world: World) -> None:
    async def story(streams: Streams) -> None:
        reader, writer = streams
        size = 5_000_000
        writer.write(head(world, f"POST {MAPS} HTTP/1.1", f"Content-Length: {size}") + bytes(1000))
        assert (await answered(reader))[0] == 413
        writer.write(bytes(size - 1000) + head(world, "GET /version HTTP/1.1"))
        assert (await answered(reader))[0] == 200

    play(world, story)


def test_the_rest_of_a_body_that_was_refused_is_not_waited_for_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "_LINGER_SECONDS", 0.05)

    async def story(streams: Streams) -> None:
        reader, writer = streams
        writer.write(head(world, f"POST {MAPS} HTTP/1.1", "Content-Length: 5000000"))
        assert (await answered(reader))[0] == 413
        assert await reader.read() == b""

    play(world, story)


def test_a_body_that_nobody_reads_is_not_kept_in_memory(world: World) -> None:
    """The connection stops reading: the client is held back by its own socket."""

    async def story(streams: Streams) -> None:
        writer = streams[1]
        writer.write(head(world, "PUT /x HTTP/1.1", "Content-Length: 99999999"))
        sent = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while sent < 64 << 20:
                    writer.write(bytes(1 << 16))
                    await writer.drain()
                    sent += 1 << 16
        writer.transport.abort()
        assert sent < 32 << 20

    play(world, story, OpenConnections(lambda _: None))


def test_a_stream_to_a_client_of_the_older_version_ends_with_the_connection(world: World) -> None:
    async def story(streams: Streams) -> None:
        reader, writer = streams
        writer.write(head(world, f"GET {MAPS}?watch=1&timeoutSeconds=1 HTTP/1.0"))
        told = await reader.readuntil(b"\r\n\r\n")
        assert b"chunked" not in told
        assert b"connection: close" in told
        assert (await world.answer("POST", MAPS, {"metadata": {"name": "a"}})).code == 201
        assert (await reader.readline()).startswith(b'{"type":"ADDED"')
        assert b"0\r\n" not in await reader.read()

    play(world, story)


def test_an_upgrade_is_answered_as_any_other_request_and_ends_the_connection(world: World) -> None:
    async def story(streams: Streams) -> None:
        reader, writer = streams
        writer.write(head(world, "GET /version HTTP/1.1", "Upgrade: h2c", "Connection: Upgrade"))
        assert (await answered(reader))[0] == 200
        assert await reader.read() == b""

    play(world, story)


def test_a_target_with_scheme_and_host_is_understood(world: World) -> None:
    async def story(streams: Streams) -> None:
        reader, writer = streams
        writer.write(head(world, f"GET http://there:1234{MAPS}?limit=1 HTTP/1.1"))
        assert (await answered(reader))[0] == 200

    play(world, story)


MALFORMED = {
    "no HTTP": b"hello\r\n\r\n",
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2 without TLS": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a length that is none": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "a chunk of no size": b"POST /version HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_http_gets_a_status_and_the_connection_ends(world: World, sent: bytes) -> None:
    async def story(streams: Streams) -> None:
        reader, writer = streams
        writer.write(sent)
        told = await reader.read()
        assert told.startswith(b"HTTP/1.1 400 ")
        assert told.count(b"HTTP/1.1") == 1
        assert b'"kind":"Status"' in told

    play(world, story)


def test_requests_before_something_malformed_are_answered(world: World) -> None:
    async def story(streams: Streams) -> None:
        reader, writer = streams
        writer.write(head(world, f"GET {MAPS} HTTP/1.1") + b"nonsense\r\n\r\n")
        assert (await answered(reader))[0] == 200
        await reader.read()

    play(world, story)


def test_a_body_that_turns_out_malformed_ends_its_request(world: World) -> None:
    async def story(streams: Streams) -> None:
        reader, writer = streams
        writer.write(head(world, f"POST {MAPS} HTTP/1.1", "Transfer-Encoding: chunked") + b"1\r\n{\r\n")
        await asyncio.sleep(0.05)
        assert world.api.metrics.in_flight == 1
        writer.write(b"zz\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        assert world.api.metrics.in_flight == 0

    play(world, story)
