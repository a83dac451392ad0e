"""Requests to Ray's job API, as a server receives them."""

import asyncio

import pytest

from fairway.client.raydashboard import RayDashboard
from fairway.client.rest.errors import Garbled

_FOUND = b'{"status": "RUNNING"}'


@pytest.mark.parametrize(
    ("identifier", "path"),
    [
        pytest.param("train-x2b4f", "/api/jobs/train-x2b4f", id="a name of ours"),
        pytest.param("my job/1?a\r\nHost: b", "/api/jobs/my%20job%2F1%3Fa%0D%0AHost%3A%20b", id="any text"),
    ],
)
def test_a_submission_is_asked_for_by_its_quoted_name(identifier: str, path: str) -> None:
    line, found = asyncio.run(_asked(identifier, b"200 OK", _FOUND))
    assert line == f"GET {path} HTTP/1.1"
    assert found == {"status": "RUNNING"}


def test_a_submission_that_ray_does_not_know_is_none() -> None:
    assert asyncio.run(_asked("train", b"404 Not Found", b"no such job"))[1] is None


def test_an_answer_that_is_neither_names_the_job() -> None:
    with pytest.raises(Garbled, match="Ray answered 401 when asked for job train"):
        asyncio.run(_asked("train", b"401 Unauthorized", b""))


async def _asked(identifier: str, status: bytes, body: bytes) -> tuple[str, object]:
    """The request line, and what came of this answer."""
    lines: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append((await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0])
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        found = await RayDashboard(f"127.0.0.1:{port}", "secret").job(identifier)
    return lines[0], found
