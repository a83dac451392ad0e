"""Requests over HTTP: what is retried, what is raised, and what happens when a server misbehaves."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from client.rest.scripted import HOLD, Scripted, answer, chunked
from fairway.client.http.transport import Transport
from fairway.client.rest.access import Access
from fairway.client.rest.errors import Garbled, Unreachable
from fairway.client.rest.kubeconfig import Endpoint, KubeContext
from fairway.errors import ApiError, Conflict, Expired, NotFound, TooManyRequests, Unavailable
from fairway.runtime.clock import SystemClock
from fairway.runtime.ratelimit import RateLimit

BUSY = answer(b"", "429 Too Many Requests", ["Retry-After: 1"])
FULL = answer(b"", "429 Too Many Requests")
AWAY = answer(b"", "503 Service Unavailable", ["Retry-After: 1"])
BROKEN = answer(b"", "500 Internal Server Error")
GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'


class Waits(SystemClock):
    """A clock that notes how long it was asked to sleep, and does not."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def transport_to(
    port: int, clock: SystemClock, user: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> Transport:
    endpoint = Endpoint(f"http://127.0.0.1:{port}", https=False, host="127.0.0.1", port=port)
    context = KubeContext("scripted", "default", endpoint, user, "tester", "kubeconfig")
    return Transport(Access(context), clock, **options)


def play(
    scripts: Sequence[Sequence[bytes]], story: Callable[[Transport], Awaitable[Any]], **options: Any
) -> tuple[Any, Scripted, list[float]]:
    """What came of a story, what the server was asked, and how long the client waited between requests."""
    clock = Waits()

    async def run(port: int) -> Any:
        async with transport_to(port, clock, **options) as transport:
            try:
                return await story(transport)
            except Exception as error:  # noqa: BLE001 - what it is, is judged by the test
                return error

    with Scripted(*scripts) as scripted:
        found = asyncio.run(run(scripted.port))
    return found, scripted, clock.slept


@pytest.mark.parametrize(
    ("scripts", "method", "want", "asked", "slept"),
    [
        pytest.param([[answer(b'{"a":1}')]], "GET", {"a": 1}, 1, [], id="an answer with a length"),
        pytest.param([[chunked(b'{"a"', b":1}")]], "GET", {"a": 1}, 1, [], id="an answer in chunks"),
        pytest.param([[b"HTTP/1.1 200 OK\r\n\r\n{}"]], "GET", {}, 1, [], id="an answer up to the end"),
        pytest.param([[b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"{}")]], "GET", {}, 1, [], id="a 1xx first"),
        pytest.param([[BUSY, answer(b"{}")]], "POST", {}, 2, [1.0], id="a write after 429 is sent again"),
        pytest.param([[AWAY, answer(b"{}")]], "GET", {}, 2, [1.0], id="a read after 503 is sent again"),
        pytest.param([[AWAY]], "POST", Unavailable, 1, [], id="a write after 503 is not: it may have been done"),
        pytest.param([[BROKEN, answer(b"{}")]], "GET", {}, 2, [0.1], id="a read after 500 is sent again"),
        pytest.param([[BROKEN]], "PATCH", ApiError, 1, [], id="a write after 500 is not"),
        pytest.param([[BUSY] * 20], "GET", TooManyRequests, 16, [1.0] * 15, id="a busy server, for 15 s in all"),
        pytest.param([[FULL, answer(b"{}")]], "PATCH", {}, 2, [0.1], id="429 without Retry-After backs off"),
        pytest.param([[answer(b"{}", "404 Not Found")]], "GET", NotFound, 1, [], id="not found"),
        pytest.param([[answer(b"{}", "409 Conflict")]], "PUT", Conflict, 1, [], id="a conflict"),
        pytest.param([[b""], [answer(b"{}")]], "GET", Unreachable, 1, [], id="no answer on a new connection"),
        pytest.param([[b"SSH-2.0-x\r\n\r\n"]], "GET", Garbled, 1, [], id="something that is not HTTP"),
        pytest.param([[answer(b"<html>")]], "GET", Garbled, 1, [], id="something that is not JSON"),
        pytest.param([[answer(b"", "302 Found", ["Location: /login"])]], "GET", Garbled, 1, [], id="a redirect"),
        pytest.param([[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"]], "GET", Unreachable, 1, [], id="half of it"),
        pytest.param([[b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000]], "GET", Garbled, 1, [], id="endless headers"),
    ],
)  # fmt: skip
def test_what_comes_of_a_request(
    scripts: list[list[bytes]], method: str, want: Any, asked: int, slept: list[float]
) -> None:
    body = None if method == "GET" else {"x": 1}
    found, server, waited = play(scripts, lambda transport: transport.json(method, "/apis", body=body))

    if isinstance(want, type):
        assert isinstance(found, want), found
    else:
        assert found == want
    assert (len(server.requests), waited) == (asked, slept)


def test_a_read_on_a_kept_connection_that_was_closed_meanwhile_is_sent_again() -> None:
    async def twice(transport: Transport) -> Any:
        return [await transport.json("GET", "/one"), await transport.json("GET", "/two")]

    found, server, _ = play([[answer(b"1")], [answer(b"2")]], twice)

    assert found == [1, 2]
    assert server.targets() == ["GET /one", "GET /two"]


def test_a_connection_is_used_again_and_requests_at_once_have_one_each() -> None:
    async def story(transport: Transport) -> Any:
        first = await transport.json("GET", "/one")
        return first, await transport.json("GET", "/two")

    found, server, _ = play([[answer(b"1"), answer(b"2")]], story)

    assert found == (1, 2)
    assert server.connected == 1


def test_a_silent_server_is_given_up() -> None:
    found, _, _ = play([[HOLD]], lambda transport: transport.json("GET", "/apis"), silent_seconds=0.05)

    assert isinstance(found, Unreachable)
    assert str(found).endswith("sent nothing for 0.05 s")


def test_a_cancelled_request_does_not_leave_its_answer_to_the_next_one() -> None:
    async def story(transport: Transport) -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await transport.json("GET", "/slow")
        return await transport.json("GET", "/next")

    found, server, _ = play([[HOLD], [answer(b'"next"')]], story)

    assert found == "next"
    assert server.connected == 2


def test_events_that_arrive_together_come_together_and_an_error_event_is_raised() -> None:
    one, two = b'{"type":"ADDED","object":{"n":1}}\n', b'{"type":"ADDED","object":{"n":2}}\n'

    seen: list[list[dict[str, Any]]] = []

    async def story(transport: Transport) -> None:
        async for events in transport.watch("/things"):
            seen.append(events)  # noqa: PERF401 - the watch ends with an error, what came before it counts

    found, server, _ = play([[chunked(one[:10], one[10:] + two, GONE)]], story)

    assert isinstance(found, Expired)
    assert (seen, server.targets()) == (
        [[{"type": "ADDED", "object": {"n": 1}}, {"type": "ADDED", "object": {"n": 2}}]],
        ["GET /things?watch=true"],
    )


def test_head_says_whether_something_is_there() -> None:
    async def story(transport: Transport) -> Any:
        return [await transport.exists("/a"), await transport.exists("/b"), await transport.json("GET", "/c")]

    there, missing = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n",
    )
    found, _, _ = play([[there], [missing], [answer(b"3")]], story)

    assert found == [True, False, 3]


def test_a_token_that_was_rotated_after_it_was_sent_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def story(transport: Transport) -> Any:
        renew = transport._access.renew

        def rotated() -> bool:
            token.write_text("new")
            return renew()

        transport._access.renew = rotated  # type: ignore[method-assign]
        return await transport.json("GET", "/apis")

    denied = answer(b"", "401 Unauthorized")
    found, server, _ = play([[denied], [answer(b"1")]], story, user={"tokenFile": str(token)})

    assert found == 1
    assert [b"Bearer old" in server.requests[0], b"Bearer new" in server.requests[1]] == [True, True]


def test_every_request_waits_for_the_rate_limit_also_when_it_is_repeated() -> None:
    async def story(transport: Transport) -> Any:
        clock = Waits()
        clock.monotonic = lambda: 100.0  # type: ignore[method-assign]
        transport.limit = RateLimit(10, 1, clock)
        await transport.json("PATCH", "/a", body={})
        await transport.json("GET", "/b")
        return [round(seconds, 3) for seconds in clock.slept]

    found, _, _ = play([[FULL, answer(b"1"), answer(b"2")]], story)

    assert found == [0.1, 0.2]


def test_a_fence_stops_writes_also_between_two_tries_and_lets_reads_through() -> None:
    async def story(transport: Transport) -> Any:
        checks: list[int] = []

        def fence() -> None:
            checks.append(1)
            if len(checks) > 1:
                raise Conflict("no longer the leader")

        transport.fence = fence
        with pytest.raises(Conflict, match="no longer the leader"):
            await transport.json("POST", "/a", body={})
        return await transport.json("GET", "/b")

    found, server, _ = play([[BUSY, answer(b"2")]], story)

    assert found == 2
    assert server.targets() == ["POST /a", "GET /b"]


def test_a_connection_that_was_idle_for_long_is_not_used_for_a_write() -> None:
    """The server may be closing it: the write would be lost, and must not be repeated."""

    async def story(transport: Transport) -> Any:
        await transport.json("GET", "/one")
        moment = transport._clock.monotonic()
        transport._clock.monotonic = lambda: moment + 50.0  # type: ignore[method-assign]
        return await transport.json("POST", "/two", body={})

    found, server, _ = play([[answer(b"1")], [answer(b"2")]], story)

    assert (found, server.connected) == (2, 2)


def test_a_silent_watch_is_given_up_some_time_after_it_should_have_ended() -> None:
    async def story(transport: Transport) -> None:
        async for _ in transport.watch("/things", {"timeoutSeconds": 0}):
            pass

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    found, _, _ = play([[head, HOLD]], story, silent_seconds=0.05)

    assert isinstance(found, Unreachable)
