"""Bytes on the wire that are no good HTTP: the connection may end, the server does not."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.testing.servers import Server
from fuzz.effort import examples

MAPS: Final = "/api/v1/namespaces/default/configmaps"
SECONDS: Final = 15.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("wire") / "state", "--insecure") as server:
        yield server
        assert server.running
        said = server.output.read_text()
        assert "Traceback" not in said
        assert "Exception" not in said
        assert server.token not in said


def connect(server: Server) -> socket.socket:
    target = urlsplit(server.url)
    return socket.create_connection((target.hostname, target.port), timeout=SECONDS)


def head(server: Server, method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {server.token}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def exchange(server: Server, data: bytes, *, more: bool = False) -> bytes:
    """Everything that comes back until the server hangs up; it hears that there is no more, unless there may be."""
    with connect(server) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            if not more:
                connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return received


def read_until(connection: socket.socket, text: bytes, times: int = 1) -> bytes:
    received = b""
    while received.count(text) < times:
        piece = connection.recv(65536)
        assert piece, f"hung up before {text!r}: {received!r}"
        received += piece
    return received


def check_healthy(server: Server) -> None:
    assert server.call("GET", "/api/v1/namespaces/default").code == 200


GARBAGE: Final = {
    "no HTTP at all": b"hello?\r\n\r\n",
    "random bytes": bytes(range(256)) * 20,
    "zeros": b"\x00" * 10_000,
    "the beginning of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 500,
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method that is none": b"FROB / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a version that is none": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "a header without a colon": b"GET /version HTTP/1.1\r\nHost\r\n\r\n",
    "a zero byte in a header": b"GET /version HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
    "a space before a colon": b"GET /version HTTP/1.1\r\nContent-Length : 5\r\n\r\n",
    "a length that is none": b"POST /version HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
    "a negative length": b"POST /version HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    "an endless length": b"POST /version HTTP/1.1\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
    "two lengths": b"POST /version HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": b"POST /version HTTP/1.1\r\nTransfer-Encoding: frob\r\n\r\nhello",
    "a bare CR": b"GET /version HTTP/1.1\rHost: x\r\r",
    "an address with a space": b"GET /ver sion HTTP/1.1\r\nHost: x\r\n\r\n",
    "an address with bytes that are no text": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
}

UNUSUAL: Final = {
    "a star": b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "a proxy's request": b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
}
"""Requests that are well formed, so they are answered in their own time: whoever hangs up meanwhile hears nothing."""


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_request_is_refused(server: Server, data: bytes) -> None:
    check_refused(exchange(server, data))
    check_healthy(server)


@pytest.mark.parametrize("data", UNUSUAL.values(), ids=UNUSUAL)
def test_what_nobody_asks_of_an_api_is_refused(server: Server, data: bytes) -> None:
    check_refused(exchange(server, data, more=True))
    check_healthy(server)


def check_refused(answer: bytes) -> None:
    status_line, _, rest = answer.partition(b"\r\n")
    assert status_line.split()[1][:1] == b"4", answer
    body = json.loads(rest.partition(b"\r\n\r\n")[2])
    assert (body["kind"], body["status"]) == ("Status", "Failure")
    assert body["code"] == int(status_line.split()[1])


LARGE: Final = {
    "one endless header": [b"GET /version HTTP/1.1\r\nX: ", *[b"x" * 10_000] * 50],
    "endless headers": [b"GET /version HTTP/1.1\r\n", *[b"X-%d: y\r\n" % number * 100 for number in range(1000)]],
    "an endless address": [b"GET /", *[b"x" * 10_000] * 50],
    "an endless method": [b"G" * 10_000] * 50,
}


@pytest.mark.parametrize("pieces", LARGE.values(), ids=LARGE)
def test_headers_without_end_are_not_kept(server: Server, pieces: list[bytes]) -> None:
    answer = exchange(server, b"".join(pieces))

    assert not answer or answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")), answer
    check_healthy(server)


def test_large_headers_of_a_whole_request_are_fine(server: Server) -> None:
    answer = exchange(
        server, head(server, "GET", "/version", "X-Large: " + "x" * 30_000, "Connection: close"), more=True
    )

    assert answer.startswith(b"HTTP/1.1 200")


def test_connections_that_end_anywhere(server: Server) -> None:
    body = json.dumps({"metadata": {"name": "never"}}).encode()
    whole = head(server, "POST", MAPS, f"Content-Length: {len(body) + 5}", "Content-Type: application/json") + body
    for length in range(0, len(whole), 7):
        with connect(server) as connection:
            connection.sendall(whole[:length])
            if length % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert server.call("GET", f"{MAPS}/never").code == 404
    check_healthy(server)


def test_a_body_in_chunks(server: Server) -> None:
    body = json.dumps({"metadata": {"name": "chunked"}}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    request = head(
        server, "POST", MAPS, "Transfer-Encoding: chunked", "Content-Type: application/json", "Connection: close"
    )

    assert exchange(server, request + chunks, more=True).startswith(b"HTTP/1.1 201")
    for broken in (b"zz\r\n{}\r\n", b"-1\r\n", b"f" * 20 + b"\r\n", b"5\r\n{}\r\n0\r\n\r\n"):
        assert exchange(server, request + broken, more=True).startswith(b"HTTP/1.1 400")
    check_healthy(server)


def test_a_body_that_is_announced_too_large_is_not_read(server: Server) -> None:
    request = head(server, "POST", MAPS, f"Content-Length: {1 << 40}", "Content-Type: application/json")
    with connect(server) as connection:
        connection.sendall(request)

        assert read_until(connection, b"RequestEntityTooLarge").startswith(b"HTTP/1.1 413")
    check_healthy(server)


def test_chunks_without_end_are_refused(server: Server) -> None:
    request = head(server, "POST", MAPS, "Transfer-Encoding: chunked", "Content-Type: application/json")
    with connect(server) as connection:
        connection.sendall(request)
        with contextlib.suppress(OSError):
            for _ in range(64):
                connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")

        assert read_until(connection, b"RequestEntityTooLarge").startswith(b"HTTP/1.1 413")
    check_healthy(server)


def test_several_requests_at_once_are_answered_in_order(server: Server) -> None:
    paths = ("/version", f"{MAPS}/nope", "/healthz")
    with connect(server) as connection:
        connection.sendall(b"".join(head(server, "GET", path) for path in paths * 20))
        answers = read_until(connection, b"HTTP/1.1 ", 60)

    codes = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert codes == [200, 404, 200] * 20
    check_healthy(server)


def test_old_clients_are_answered(server: Server) -> None:
    answer = exchange(server, b"GET /version HTTP/1.0\r\n\r\n", more=True)

    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer


def test_a_client_that_asks_before_it_sends(server: Server) -> None:
    body = json.dumps({"metadata": {"name": "asked"}}).encode()
    request = head(
        server, "POST", MAPS, f"Content-Length: {len(body)}", "Content-Type: application/json", "Expect: 100-continue"
    )
    with connect(server) as connection:
        connection.sendall(request)
        read_until(connection, b"100 Continue\r\n\r\n")
        connection.sendall(body)

        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "SPDY/3.1"])
def test_another_protocol_is_not_spoken(server: Server, protocol: str) -> None:
    path = "/api/v1/namespaces/default/pods/p/exec?command=sh"
    request = head(server, "GET", path, f"Upgrade: {protocol}", "Connection: Upgrade", "Sec-WebSocket-Key: eA==")
    with connect(server) as connection:
        connection.sendall(request)

        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 404")
    check_healthy(server)


def test_watches_that_are_torn_away(server: Server) -> None:
    """Clients vanish while changes come; nobody else notices, and nothing is left behind."""
    process = psutil.Process(server.pid)
    before = process.num_fds()
    with contextlib.ExitStack() as open_ones:
        watches = [open_ones.enter_context(connect(server)) for _ in range(50)]
        for watch in watches:
            watch.sendall(head(server, "GET", f"{MAPS}?watch=1"))
            read_until(watch, b"\r\n\r\n")
        for number in range(20):
            assert server.call("POST", MAPS, {"metadata": {"generateName": f"w{number}-"}}).code == 201
            for watch in watches[2 * number : 2 * number + 2]:
                watch.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                watch.close()
        assert b"w19-" in read_until(watches[-1], b"w19-")
    check_healthy(server)
    deadline = time.monotonic() + SECONDS
    while process.num_fds() > before + 3:
        check_healthy(server)  # each answer gives the server a turn to notice
        assert time.monotonic() < deadline, "connections are left behind"


def test_many_that_never_come_to_the_point(server: Server) -> None:
    with contextlib.ExitStack() as open_ones:
        half = head(server, "POST", MAPS, "Content-Length: 1000000", "Content-Type: application/json")
        for number in range(300):
            connection = open_ones.enter_context(connect(server))
            connection.sendall([b"", b"GET /vers", half[:-2], half + b"{"][number % 4])
        check_healthy(server)
        assert server.call("POST", MAPS, {"metadata": {"generateName": "x-"}}).code == 201
    check_healthy(server)


def test_yaml_that_would_break_a_parser(server: Server) -> None:
    """A body of three million brackets used to end the process."""
    for body in (b"[" * 3_000_000, b"{a: " * 700_000, b"- " * 1_500_000):
        request = head(server, "POST", MAPS, f"Content-Length: {len(body)}", "Content-Type: application/yaml")
        with connect(server) as connection:
            connection.sendall(request + body)
            assert read_until(connection, b"nested deeper").startswith(b"HTTP/1.1 400")
    check_healthy(server)


PIECES: Final = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"GET ", b"POST ", b"/version", b" HTTP/1.1\r\n", b"Host: x\r\n", b"Content-Length: 3\r\n", b"\r\n",
         b"\r\n\r\n", b"{}", b"Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n", b"0\r\n\r\n", b"Connection: close\r\n",
         b"Expect: 100-continue\r\n", b"?", b"Authorization: Bearer x\r\n",
         b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"%00", b"\x00", b"\xff", b":", b"\n", b"\r"]
    ),
)  # fmt: skip


@examples(40)
@given(st.lists(st.lists(PIECES, max_size=8).map(b"".join), max_size=3))
def test_any_bytes(server: Server, pieces: list[bytes]) -> None:
    with connect(server) as connection:
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)

    assert all(part[:1] in b"124" for part in answer.split(b"HTTP/1.1 ")[1:]), answer
    check_healthy(server)
