"""Connections of slow clients: headers that take too long, watches that nobody reads."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.server.http import connection
from fairway.server.http.connection import OpenConnections
from fairway.server.limits import Limits
from fuzz.network import connected, listening
from fuzz.world import World

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, limits=Limits(send_seconds=0.2)) as world:
        yield world


def watch(world: World) -> bytes:
    return f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.token}\r\n\r\n".encode()


def impatient(world: World, seconds: float = 0.05) -> OpenConnections:
    """Connections on which heads have to be complete this soon."""
    return OpenConnections(world.api.handle, header_seconds=seconds)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /vers", b"GET /version HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "line", "all but the end"]
)
def test_headers_that_do_not_come_are_not_waited_for(world: World, sent: bytes) -> None:
    async def story() -> None:
        async with listening(world, impatient(world)) as port, connected(port) as (reader, writer):
            writer.write(sent)
            assert await reader.read() == b""

    world.run(story())


def test_headers_that_dribble_are_not_waited_for_either(world: World) -> None:
    async def dribble(writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET /version HTTP/1.1\r\n")
        for number in range(1000):
            writer.write(b"X-%d: y\r\n" % number)
            await asyncio.sleep(0.01)

    async def story() -> None:
        async with listening(world, impatient(world, 0.1)) as port, connected(port) as (reader, writer):
            dribbling = asyncio.create_task(dribble(writer))
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            assert not dribbling.done()
            dribbling.cancel()

    world.run(story())


def test_a_connection_may_rest_between_requests(world: World) -> None:
    async def story() -> None:
        async with listening(world, impatient(world)) as port, connected(port) as (reader, writer):
            for _ in range(3):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
                assert await reader.readexactly(2) == b"ok"
                await asyncio.sleep(0.1)  # longer than headers may take: nothing is due while nothing has begun

    world.run(story())


def test_a_watcher_that_does_not_read_is_cut_off_while_another_hears_everything(world: World) -> None:
    async def story() -> None:
        async with listening(world) as port, connected(port, buffer=4096) as slow, connected(port) as other:
            for reader, writer in (slow, other):
                writer.write(watch(world))
                await reader.readuntil(b"\r\n\r\n")
            hearing = asyncio.create_task(read_until(other[0], b'"name":"last"'))
            number = 0
            while world.api.metrics.watches == 2:
                manifest = {"metadata": {"name": f"a{number}"}, "data": {"text": "x" * 20_000}}
                assert (await world.answer("POST", MAPS, manifest)).code == 201
                number += 1
            assert (await world.answer("POST", MAPS, {"metadata": {"name": "last"}})).code == 201
            heard = await hearing

            assert all(f'"name":"a{one}"'.encode() in heard for one in range(number))
            with contextlib.suppress(ConnectionResetError):
                assert not (await slow[0].read()).endswith(END)

    world.run(story())
    world.check_calm()


def ask_for_much(world: World, accept: str) -> bytes:
    return (
        f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.token}\r\nAccept: {accept}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()


async def fill(world: World) -> None:
    for number in range(20):
        manifest = {"metadata": {"name": f"a{number}"}, "data": {"text": "x" * 500_000}}
        assert (await world.answer("POST", MAPS, manifest)).code == 201


FORMS = {"in pieces": "application/json", "as a whole": "application/yaml"}


@pytest.mark.parametrize("accept", FORMS.values(), ids=FORMS)
def test_whoever_does_not_take_an_answer_is_cut_off(world: World, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALL_SECONDS", 0.1)

    async def story() -> None:
        await fill(world)
        async with listening(world) as port, connected(port, buffer=4096) as (reader, writer):
            writer.write(ask_for_much(world, accept))
            await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(10):
                while not writer.transport.is_closing():
                    writer.write(b"\r\n")  # what is sent to a connection that is gone tells so
                    await asyncio.sleep(0.02)

    world.run(story())
    world.check_calm()


@pytest.mark.parametrize("accept", FORMS.values(), ids=FORMS)
def test_whoever_takes_an_answer_slowly_gets_it_all(world: World, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALL_SECONDS", 0.4)

    async def story() -> None:
        await fill(world)
        async with listening(world) as port, connected(port) as (reader, writer):
            writer.write(ask_for_much(world, accept))
            taken = 0
            while piece := await reader.read(200_000):
                taken += len(piece)
                await asyncio.sleep(0.005)
            assert taken > 10_000_000

    world.run(story())
    world.check_calm()


END = b"\r\n0\r\n\r\n"
"""Of an answer that is complete."""


async def read_until(reader: asyncio.StreamReader, text: bytes) -> bytes:
    heard = b""
    while text not in heard:
        piece = await reader.read(1 << 16)
        assert piece, "the server hung up"
        heard += piece
    return heard
