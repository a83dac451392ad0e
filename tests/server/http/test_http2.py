"""HTTP/2 by its frames: requests side by side, and what clients may not do."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from fairway.server.http import http2
from fairway.server.http.connection import Backlog, OpenConnections
from fairway.server.http.exchange import Exchange
from fairway.server.http.frames import PREFACE, ErrorCode
from fairway.server.http.http2 import Http2Connection
from fairway.server.http.stream import STREAM_WINDOW
from fairway.server.limits import Limits
from fairway.store.memory import MemoryLog
from fuzz.network import connected, listening
from fuzz.world import World
from server.http.client import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW,
    MAPS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Client,
    client_of,
    frame,
    literal,
)  # fmt: skip
from store.harbour import HeldLog


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, limits=Limits(send_seconds=0.2, body_bytes=3 << 20)) as world:
        yield world


def created(name: str, size: int = 0) -> bytes:
    return json.dumps({"metadata": {"name": name}, "data": {"text": "x" * size}}).encode()


def play(world: World, story: Callable[[Client], Awaitable[None]], *settings: tuple[int, int]) -> None:
    async def run() -> None:
        async with client_of(world, None, *settings) as client:
            await story(client)

    world.run(run())
    world.check_calm()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - nothing says so, and the test ends after a while
        await asyncio.sleep(0.01)


# Requests


def test_reads_writes_and_refusals_are_answered_on_their_streams(world: World) -> None:
    async def story(client: Client) -> None:
        client.ask(1, "POST", MAPS, created("a"))
        made = await client.answer(1)
        assert (made.code, made.headers[b"content-length"]) == (201, b"%d" % len(made.body))
        client.ask(3, "GET", f"{MAPS}/a")
        assert json.loads((await client.answer(3)).body)["metadata"]["name"] == "a"
        client.ask(5, "GET", f"{MAPS}/none")
        assert (await client.answer(5)).code == 404
        client.ask(7, "HEAD", "/version")
        head = await client.answer(7)
        assert (head.code, head.body) == (200, b"")

    play(world, story)


def test_a_write_waits_for_the_disk_while_others_on_the_connection_are_answered(tmp_path: Path) -> None:
    log = HeldLog(MemoryLog())
    with World(tmp_path, log=log) as world:

        async def story(client: Client) -> None:
            log.hold()
            client.ask(1, "POST", MAPS, created("a"))
            await log.arrival()
            client.ask(3, "GET", "/version")
            assert (await client.answer(3)).code == 200
            log.release()
            assert (await client.answer(1)).code == 201

        play(world, story)


@pytest.mark.parametrize(("seconds", "turns"), [(-1.0, 6), (60.0, 1)], ids=["at the end of a turn", "within a turn"])
def test_requests_that_come_together_leave_others_a_turn(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: float, turns: int
) -> None:
    monkeypatch.setattr(http2, "TURN_SECONDS", seconds)
    turn = 0
    handled: list[int] = []
    handle = world.api.handle

    def tick() -> None:
        nonlocal turn
        turn += 1
        if len(handled) < 6:
            asyncio.get_running_loop().call_soon(tick)

    def counted(exchange: Exchange) -> None:
        handled.append(turn)
        handle(exchange)

    monkeypatch.setattr(world.api, "handle", counted)

    async def story(client: Client) -> None:
        asyncio.get_running_loop().call_soon(tick)
        numbers = range(1, 13, 2)
        frames = []
        for number in numbers:
            frames.append(frame(HEADERS, END_HEADERS, number, client.head("POST", MAPS)))
            frames.append(frame(DATA, END_STREAM, number, created(f"a{number}")))
        client.send(b"".join(frames))
        assert [(await client.answer(number)).code for number in numbers] == [201] * 6
        assert len(set(handled)) == turns

    play(world, story)


@pytest.mark.parametrize(("behind_seconds", "code"), [(60.0, 201), (0.0, 400)], ids=["behind", "not behind"])
def test_a_late_body_is_refused_unless_the_server_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind_seconds: float, code: int
) -> None:
    monkeypatch.setattr(http2, "TURN_SECONDS", -1.0)  # frames that come together need several turns
    monkeypatch.setattr(http2, "BEHIND_SECONDS", behind_seconds)
    with World(tmp_path, limits=Limits(body_seconds=0.02)) as world:

        async def story(client: Client) -> None:
            opened = frame(HEADERS, END_HEADERS, 1, client.head("POST", MAPS))
            client.send(opened + b"".join(frame(PING, payload=bytes(8)) for _ in range(3)))
            await asyncio.sleep(0.1)
            if code == 201:
                client.send(frame(DATA, END_STREAM, 1, created("a")))
            assert (await client.answer(1)).code == code

        play(world, story)


def test_a_body_in_many_frames_and_headers_in_many_frames(world: World) -> None:
    async def story(client: Client) -> None:
        client.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20)))
        body, head = created("a", 300_000), client.head("POST", MAPS, (b"x-long", b"y" * 20_000))
        client.send(frame(HEADERS, 0, 1, head[:100]), frame(CONTINUATION, 0, 1, head[100:16_000]))
        client.send(frame(CONTINUATION, END_HEADERS, 1, head[16_000:]))
        window = STREAM_WINDOW
        for at in range(0, len(body), 16_000):
            piece = body[at : at + 16_000]
            while window < len(piece):
                window += (await client.until(WINDOW_UPDATE, 1)).number
            window -= len(piece)
            client.send(frame(DATA, 0, 1, piece))
        client.send(frame(DATA, END_STREAM, 1))
        assert (await client.answer(1)).code == 201

    play(world, story, (INITIAL_WINDOW, 1 << 20))


def test_padding_priority_and_trailers_are_understood(world: World) -> None:
    async def story(client: Client) -> None:
        head = client.head("POST", MAPS)
        body = created("a")
        client.send(frame(HEADERS, END_HEADERS | 0x8 | 0x20, 1, b"\x05" + struct.pack(">IB", 0, 15) + head + bytes(5)))
        client.send(frame(DATA, 0x8, 1, b"\x09" + body + bytes(9)))
        client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, literal(b"x-checksum", b"1")))
        assert (await client.answer(1)).code == 201

    play(world, story)


def test_a_response_keeps_to_the_windows_of_stream_and_connection(world: World) -> None:
    async def story(client: Client) -> None:
        assert (await world.answer("POST", MAPS, created("a", 200_000))).code == 201
        client.ask(1, "GET", f"{MAPS}/a")
        received, unopened = b"", 1000
        await client.until(HEADERS, 1)
        while True:
            while unopened:
                piece = await client.until(DATA, 1)
                unopened -= len(piece.payload)
                received += piece.payload
                assert unopened >= 0
                if piece.flags & END_STREAM:
                    assert len(received) > 200_000
                    return
            unopened = 70_000
            client.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", unopened)))
            client.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", unopened)))

    play(world, story, (INITIAL_WINDOW, 1000))


def test_five_hundred_watches_share_a_connection_with_writes(world: World) -> None:
    async def story(client: Client) -> None:
        client.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20)))
        numbers = range(1, 1001, 2)
        for number in numbers:
            client.ask(number, "GET", f"{MAPS}?watch=1&resourceVersion={world.store.revision}")
        for _ in numbers:
            await client.until(HEADERS)
        assert world.api.metrics.watches == 500
        client.ask(1001, "POST", MAPS, created("news"))
        heard: set[int] = set()
        while len(heard) < 500:
            found = await client.next()
            assert found is not None
            if found.kind == DATA and found.stream < 1001:
                assert b'"name":"news"' in found.payload
                heard.add(found.stream)

    play(world, story)


def test_a_watch_that_is_reset_ends_and_others_go_on(world: World) -> None:
    async def story(client: Client) -> None:
        for number in (1, 3):
            client.ask(number, "GET", f"{MAPS}?watch=1&resourceVersion={world.store.revision}")
            await client.until(HEADERS, number)
        client.send(frame(RST_STREAM, 0, 1, struct.pack(">I", ErrorCode.CANCEL)))
        await until(lambda: world.api.metrics.watches == 1)
        client.ask(5, "POST", MAPS, created("a"))
        assert b'"name":"a"' in (await client.until(DATA, 3)).payload

    play(world, story)


def test_a_body_that_is_reset_writes_nothing(world: World) -> None:
    async def story(client: Client) -> None:
        revision = world.store.revision
        client.send(frame(HEADERS, END_HEADERS, 1, client.head("POST", MAPS)), frame(DATA, 0, 1, created("a")))
        client.send(frame(PING, 0, 0, b"12345678"))
        await client.until(PING)
        assert world.api.metrics.in_flight == 1
        client.send(frame(RST_STREAM, 0, 1, struct.pack(">I", ErrorCode.CANCEL)), frame(PING, 0, 0, b"12345678"))
        await client.until(PING)
        assert (world.api.metrics.in_flight, world.store.revision) == (0, revision)

    play(world, story)


def test_a_request_that_is_refused_before_its_body_has_come_is_told_to_stop(world: World) -> None:
    async def story(client: Client) -> None:
        client.send(frame(HEADERS, END_HEADERS, 1, client.head("POST", MAPS, (b"content-length", b"9999999"))))
        assert (await client.answer(1)).code == 413
        assert (await client.until(RST_STREAM, 1)).number == ErrorCode.NO_ERROR
        client.send(frame(DATA, 0, 1, b"on its way already"), frame(PING, 0, 0, b"12345678"))
        await client.until(PING)

    play(world, story)


def test_two_authorization_headers_are_refused(world: World) -> None:
    async def story(client: Client) -> None:
        client.ask(1, "GET", MAPS, b"", (b"authorization", b"Bearer another"))
        answer = await client.answer(1)
        assert answer.code == 400
        assert b"more than one Authorization" in answer.body

    play(world, story)


# The end


def test_a_server_that_goes_down_says_so_answers_and_closes(tmp_path: Path) -> None:
    log = HeldLog(MemoryLog())
    with World(tmp_path, log=log) as world:

        async def story() -> None:
            connections = OpenConnections(world.api.handle)
            async with client_of(world, connections) as client:
                client.ask(1, "GET", f"{MAPS}?watch=1&resourceVersion={world.store.revision}")
                await client.until(HEADERS, 1)
                log.hold()
                client.ask(3, "POST", MAPS, created("a"))
                await log.arrival()
                world.api.end_streams()
                connections.shutdown()
                goodbye = await client.until(GOAWAY)
                assert struct.unpack(">II", goodbye.payload) == (3, ErrorCode.NO_ERROR)
                client.ask(5, "GET", "/version")
                assert (await client.until(RST_STREAM, 5)).number == ErrorCode.REFUSED_STREAM
                log.release()
                await client.until_closed()
                ends = [one.stream for one in client.seen if one.kind == DATA and one.flags & END_STREAM]
                assert sorted(ends) == [1, 3]

        world.run(story())


def test_a_connection_without_requests_ends_after_a_while(world: World) -> None:
    async def story() -> None:
        async with client_of(world, OpenConnections(world.api.handle, keep_alive_seconds=0.05)) as client:
            client.ask(1, "GET", "/version")
            goodbye = await client.until_closed()
            assert goodbye is not None
            assert goodbye.number == ErrorCode.NO_ERROR
            assert any(one.flags & END_STREAM and one.stream == 1 for one in client.seen)

    world.run(story())


def test_a_connection_that_never_asks_for_anything_is_not_kept(world: World) -> None:
    async def story() -> None:
        impatient = OpenConnections(world.api.handle, header_seconds=0.05)
        async with listening(world, impatient, protocol=Http2Connection) as port, connected(port) as (reader, writer):
            writer.write(PREFACE[:10])
            while await reader.read(1000):
                pass

    world.run(story())


def test_a_client_that_vanished_is_noticed_and_its_watch_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "PING_SECONDS", 0.05)

    async def story(client: Client) -> None:
        client.ask(1, "GET", f"{MAPS}?watch=1")
        await client.until(PING)
        client.send(frame(PING, ACK, 0, bytes(8)))  # it is there
        await client.until(PING)
        await client.until_closed()  # now it says nothing
        await until(lambda: not world.api.metrics.watches)

    play(world, story)


# Slow readers


def test_a_watcher_with_a_closed_window_is_cut_off_and_others_hear_everything(world: World) -> None:
    async def story(client: Client) -> None:
        for number in (1, 3):
            client.ask(number, "GET", f"{MAPS}?watch=1&resourceVersion={world.store.revision}")
            await client.until(HEADERS, number)
        client.send(frame(WINDOW_UPDATE, 0, 3, struct.pack(">I", 1 << 20)))
        client.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20)))
        for name in ("a", "b"):
            assert (await world.answer("POST", MAPS, created(name))).code == 201
        heard = b""
        while b'"name":"b"' not in heard:
            heard += (await client.until(DATA, 3)).payload
        assert (await client.until(RST_STREAM, 1)).number == ErrorCode.INTERNAL_ERROR
        assert world.api.metrics.watches == 1

    play(world, story, (INITIAL_WINDOW, 0))


def test_a_response_that_is_not_taken_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "STALL_SECONDS", 0.05)

    async def story(client: Client) -> None:
        client.ask(1, "GET", "/version")
        assert (await client.until(RST_STREAM, 1)).number == ErrorCode.INTERNAL_ERROR
        client.send(frame(SETTINGS, payload=struct.pack(">HI", INITIAL_WINDOW, 65_535)))
        client.ask(3, "GET", "/version")
        assert (await client.answer(3)).code == 200

    play(world, story, (INITIAL_WINDOW, 0))


def test_what_waits_for_closed_windows_is_bounded_in_all(world: World) -> None:
    async def story() -> None:
        assert (await world.answer("POST", MAPS, created("a", 100_000))).code == 201
        connections = OpenConnections(world.api.handle)
        connections.backlog = Backlog(1_000_000)
        async with client_of(world, connections, (INITIAL_WINDOW, 0)) as client:
            for number in range(1, 41, 2):
                client.ask(number, "GET", f"{MAPS}/a")
            given_up = {(await client.until(RST_STREAM)).stream for _ in range(11)}
            assert given_up == set(range(1, 23, 2)), "those that have waited for longest"

    world.run(story())


# Faults: what is sent, and how the connection or the stream ends

PONG = frame(PING, 0, 0, bytes(8))


def flood(client: Client, one: Callable[[int], bytes], count: int = 3000) -> None:
    client.send(*(one(number) for number in range(count)))


def rapid_reset(client: Client) -> None:
    cancel = struct.pack(">I", ErrorCode.CANCEL)
    head = client.head("GET", f"{MAPS}?watch=1")
    flood(
        client,
        lambda n: frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, head) + frame(RST_STREAM, 0, 2 * n + 1, cancel),
    )


def made_reset(client: Client) -> None:
    """Streams that the server is made to reset, by updates of their windows by nothing."""
    head = client.head("GET", f"{MAPS}?watch=1")
    flood(
        client,
        lambda n: (
            frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, head) + frame(WINDOW_UPDATE, 0, 2 * n + 1, bytes(4))
        ),
    )


def header_bomb(client: Client) -> None:
    client.send(frame(HEADERS, 0, 1, client.head("GET", "/version")))
    flood(client, lambda _: frame(CONTINUATION, 0, 1, literal(b"x", b"y" * 1000)), 100)


def tiny_continuations(client: Client) -> None:
    client.send(frame(HEADERS, 0, 1, client.head("GET", "/version")))
    flood(client, lambda _: frame(CONTINUATION, 0, 1))


def open_one(client: Client) -> None:
    client.ask(1, "GET", f"{MAPS}?watch=1")


def open_body(client: Client) -> None:
    client.send(frame(HEADERS, END_HEADERS, 1, client.head("POST", MAPS)))


def after(first: Callable[[Client], None], *frames: bytes) -> Callable[[Client], None]:
    def send(client: Client) -> None:
        first(client)
        client.send(*frames)

    return send


CALM, WRONG, CLOSED = ErrorCode.ENHANCE_YOUR_CALM, ErrorCode.PROTOCOL_ERROR, ErrorCode.STREAM_CLOSED
SIZE, FLOW = ErrorCode.FRAME_SIZE_ERROR, ErrorCode.FLOW_CONTROL_ERROR
FAULTS: dict[str, tuple[Callable[[Client], None], ErrorCode]] = {
    "streams opened and reset without end": (rapid_reset, CALM),
    "streams that the server has to reset without end": (made_reset, CALM),
    "pings without end": (lambda client: flood(client, lambda _: PONG), CALM),
    "settings without end": (lambda client: flood(client, lambda _: frame(SETTINGS)), CALM),
    "priorities without end": (lambda client: flood(client, lambda _: frame(PRIORITY, 0, 1, bytes(5))), CALM),
    "frames of no kind without end": (lambda client: flood(client, lambda _: frame(77)), CALM),
    "empty data without end": (after(open_body, *(frame(DATA, 0, 1) for _ in range(3000))), CALM),
    "headers without end": (header_bomb, CALM),
    "headers in nothing without end": (tiny_continuations, CALM),
    "a frame that is too large": (lambda client: client.send(struct.pack(">IBI", 20_000 << 8, 0, 1)), SIZE),
    "a block that cannot be decoded": (
        lambda client: client.send(frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff")),
        ErrorCode.COMPRESSION_ERROR),
    "another frame within a block": (lambda client: client.send(frame(HEADERS, 0, 1, b""), PONG), WRONG),
    "a continuation of nothing": (lambda client: client.send(frame(CONTINUATION, END_HEADERS, 1)), WRONG),
    "a stream with an even number": (lambda client: client.send(frame(HEADERS, END_HEADERS, 2, b"")), WRONG),
    "a stream with a lower number": (after(lambda client: client.ask(5, "GET", "/version"),
                                           frame(HEADERS, END_HEADERS, 3, b"\x82")), CLOSED),
    "data on a stream that was never opened": (lambda client: client.send(frame(DATA, 0, 9, b"x")), WRONG),
    "a window of a stream that was never opened": (
        lambda client: client.send(frame(WINDOW_UPDATE, 0, 9, b"\0\0\0\1")), WRONG),
    "a reset of a stream that was never opened": (lambda client: client.send(frame(RST_STREAM, 0, 9, bytes(4))), WRONG),
    "data after the end of a stream": (
        after(lambda client: client.ask(1, "GET", "/version"), frame(DATA, 0, 1)), CLOSED),
    "a window larger than there is": (
        lambda client: client.send(frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")), FLOW),
    "a window that grows by nothing": (lambda client: client.send(frame(WINDOW_UPDATE, 0, 0, bytes(4))), WRONG),
    "an initial window larger than there is": (
        lambda client: client.send(frame(SETTINGS, payload=struct.pack(">HI", 4, 1 << 31))), FLOW),
    "settings of a stream": (lambda client: client.send(frame(SETTINGS, 0, 1)), WRONG),
    "settings of half an entry": (lambda client: client.send(frame(SETTINGS, payload=b"123")), SIZE),
    "a push from a client": (lambda client: client.send(frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4))), WRONG),
    "a ping of a wrong size": (lambda client: client.send(frame(PING, payload=b"123")), SIZE),
    "more padding than frame": (lambda client: client.send(frame(HEADERS, END_HEADERS | 8, 1, b"\x09abc")), WRONG),
}  # fmt: skip


@pytest.mark.parametrize(("misbehave", "code"), FAULTS.values(), ids=FAULTS)
def test_a_client_that_breaks_the_protocol_is_told_why_and_disconnected(
    world: World, misbehave: Callable[[Client], None], code: ErrorCode
) -> None:
    async def story(client: Client) -> None:
        misbehave(client)
        goodbye = await client.until_closed()
        assert goodbye is not None
        assert ErrorCode(goodbye.number) == code
        await until(lambda: not world.api.metrics.watches and not world.api._tasks)
        assert world.api.metrics.in_flight == 0

    play(world, story)


def with_fields(*fields: tuple[bytes, bytes]) -> bytes:
    return frame(HEADERS, END_HEADERS | END_STREAM, 1, b"".join(literal(*one) for one in fields))


METHOD, SCHEME, PATH = (b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/version")
MALFORMED = {
    "no path": with_fields(METHOD, SCHEME),
    "an empty path": with_fields(METHOD, SCHEME, (b":path", b"")),
    "no method": with_fields(SCHEME, PATH),
    "no scheme": with_fields(METHOD, PATH),
    "a path twice": with_fields(METHOD, SCHEME, PATH, PATH),
    "a status in a request": with_fields(METHOD, SCHEME, PATH, (b":status", b"200")),
    "a path after other headers": with_fields(METHOD, SCHEME, (b"a", b"b"), PATH),
    "a header of HTTP/1.1": with_fields(METHOD, SCHEME, PATH, (b"transfer-encoding", b"chunked")),
    "a length that is none": with_fields(METHOD, SCHEME, PATH, (b"content-length", b"many")),
    "a length that the body does not have": with_fields(METHOD, SCHEME, PATH, (b"content-length", b"5")),
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_reset_and_the_connection_goes_on(world: World, sent: bytes) -> None:
    async def story(client: Client) -> None:
        client.send(sent)
        assert (await client.until(RST_STREAM, 1)).number == ErrorCode.PROTOCOL_ERROR
        client.ask(3, "GET", "/version")
        assert (await client.answer(3)).code == 200

    play(world, story)


def test_headers_that_are_too_large_when_unpacked_are_refused_with_a_status(world: World) -> None:
    async def story(client: Client) -> None:
        bomb = literal(b"x", b"y" * 3000, first=0x40) + b"\xbe" * 50
        client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, client.head("GET", "/version") + bomb))
        answer = await client.answer(1)
        assert (answer.code, json.loads(answer.body)["kind"]) == (431, "Status")
        client.ask(3, "GET", "/version")
        assert (await client.answer(3)).code == 200

    play(world, story)


def test_more_streams_than_allowed_are_refused_and_may_be_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "MAX_STREAMS", 2)

    async def story(client: Client) -> None:
        for number in (1, 3, 5):
            client.ask(number, "GET", f"{MAPS}?watch=1")
        assert (await client.until(RST_STREAM)).stream == 5
        client.send(frame(RST_STREAM, 0, 1, struct.pack(">I", ErrorCode.CANCEL)))
        client.ask(7, "GET", "/version")
        assert (await client.answer(7)).code == 200

    play(world, story)


def test_data_beyond_the_windows_ends_the_stream_or_the_connection(world: World) -> None:
    def upload(client: Client, *streams: int) -> None:
        for number in streams:
            client.send(frame(HEADERS, END_HEADERS, number, client.head("POST", MAPS)))
            client.send(*(frame(DATA, 0, number, bytes(16_000)) for _ in range(16)))

    async def story() -> None:
        async with client_of(world, OpenConnections(lambda _: None)) as client:  # nobody reads the bodies
            upload(client, 1)
            client.send(frame(DATA, 0, 1, bytes(16_000)))
            assert (await client.until(RST_STREAM, 1)).number == ErrorCode.FLOW_CONTROL_ERROR
            upload(client, 3, 5, 7, 9, 11)
            goodbye = await client.until_closed()
            assert goodbye is not None
            assert goodbye.number == ErrorCode.FLOW_CONTROL_ERROR

    world.run(story())


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", PREFACE + PONG], ids=["HTTP/1.1", "no settings"]
)
def test_what_is_not_http2_is_refused(world: World, sent: bytes) -> None:
    async def story() -> None:
        async with listening(world, protocol=Http2Connection) as port, connected(port) as streams:
            streams[1].write(sent)
            goodbye = await Client(world.token, streams).until_closed()
            assert goodbye is not None
            assert goodbye.number == ErrorCode.PROTOCOL_ERROR

    world.run(story())
    world.check_calm()
