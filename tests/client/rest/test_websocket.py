"""`exec` over WebSocket: frames, and a command on the other end of a real connection."""

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.rest.scripted import Scripted, answer
from fairway.client.rest.errors import AnswerLost, Garbled
from fairway.client.rest.websocket import ExecStream, Executed, Messages, frame
from fairway.errors import ApiError, Forbidden

SUCCESS = b"\x03" + json.dumps({"kind": "Status", "status": "Success"}).encode()
EXIT_3 = (
    b"\x03"
    + json.dumps(
        {
            "kind": "Status",
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        }
    ).encode()
)
NOT_FOUND = b"\x03" + json.dumps({"kind": "Status", "status": "Failure", "message": "no such program"}).encode()


def from_server(payload: bytes, opcode: int = 2, *, final: bool = True) -> bytes:
    """A frame as servers send it: not masked."""
    size = len(payload)
    first = (0x80 if final else 0) | opcode
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2) + payload
    return bytes((first, 127)) + size.to_bytes(8) + payload


def unmasked(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The frames of a client."""
    while data:
        size, start = data[1] & 0x7F, 2
        assert data[1] & 0x80, "a client masks"
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(data[2:start])
        key, content = data[start : start + 4], data[start + 4 : start + 4 + size]
        yield data[0] & 0x0F, bytes(one ^ key[index % 4] for index, one in enumerate(content))
        data = data[start + 4 + size :]


@example([b"x" * 70_000, b""])
@given(st.lists(st.binary(max_size=300), max_size=4))
def test_a_server_reads_what_was_sent(payloads: list[bytes]) -> None:
    assert [one for _, one in unmasked(b"".join(frame(2, one) for one in payloads))] == payloads


@given(
    st.lists(st.tuples(st.binary(max_size=300) | st.just(b"y" * 70_000), st.booleans()), max_size=4),
    st.integers(1, 50_000),
)
def test_messages_are_the_same_however_they_are_cut(sent: list[tuple[bytes, bool]], step: int) -> None:
    """Some in two parts, with a ping between them."""
    data = b""
    for payload, in_parts in sent:
        if in_parts:
            data += from_server(payload[:7], final=False) + from_server(b"?", 9) + from_server(payload[7:], 0)
        else:
            data += from_server(payload)
    messages = Messages("server")
    got = [one for start in range(0, len(data), step) for one in messages.feed(data[start : start + step])]
    assert [payload for opcode, payload in got if opcode == 2] == [payload for payload, _ in sent]
    assert sum(opcode == 9 for opcode, _ in got) == sum(in_parts for _, in_parts in sent)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xc2\x00", id="unknown flags"),
        pytest.param(b"\x82\x80\x00\x00\x00\x00", id="a masked frame"),
        pytest.param(b"\x82\x7f" + (1 << 40).to_bytes(8), id="a frame of a terabyte"),
        pytest.param(from_server(b"x" * 700_000, final=False) * 2, id="a message without an end"),
    ],
)
def test_what_is_no_websocket_is_refused(data: bytes) -> None:
    with pytest.raises(Garbled, match="does not speak valid WebSocket"):
        list(Messages("server").feed(data))


Peer = Callable[[socket.socket], None]


def run_against(peer: Peer, size: int = 0) -> Executed:
    """Run a command whose other end is `peer`, with `size` bytes of input."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            peer(theirs)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        pieces = (b"i" * min(50_000, size - start) for start in range(0, size, 50_000))
        return ExecStream(ours, "server", 60.0).run(b"", pieces, lambda _: None)
    finally:
        ours.close()
        thread.join()


def says(*data: bytes) -> Peer:
    def peer(stream: socket.socket) -> None:
        stream.sendall(b"".join(data))
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(1 << 20):  # a socket that is closed with something unread resets the connection
            pass

    return peer


def test_the_input_arrives_whole_and_pings_are_answered() -> None:
    got = b""

    def peer(stream: socket.socket) -> None:
        nonlocal got
        stream.sendall(from_server(b"p", 9) + from_server(b"\x02so far\n"))
        expected = 120_000 + 3 * (1 + 8) + (2 + 6) + (1 + 6)  # three pieces, the end, a pong
        while len(got) < expected:
            got += stream.recv(1 << 20)
        stream.sendall(from_server(b"\x01good") + from_server(SUCCESS) + from_server(b"", 8))

    assert run_against(peer, 120_000) == Executed(0, "so far\ngood")
    frames = list(unmasked(got))
    assert (10, b"p") in frames
    *pieces, end = (one for opcode, one in frames if opcode == 2)
    assert b"".join(one[1:] for one in pieces) == b"i" * 120_000
    assert {one[0] for one in pieces} == {0}, "channel 0 is standard input"
    assert end == b"\xff\0", "which is closed"


@pytest.mark.parametrize("size", [0, 5_000_000])
def test_an_exit_code_is_seen_before_the_input_was_taken(size: int) -> None:
    assert run_against(says(from_server(b"\x02disk full"), from_server(EXIT_3)), size) == Executed(3, "disk full")


def test_output_without_end_is_cut_off() -> None:
    found = run_against(says(*(from_server(b"\x01" + b"x" * 60_000) for _ in range(30)), from_server(SUCCESS)))
    assert found.exit_code == 0
    assert len(found.output) == 16 << 10


@pytest.mark.parametrize(
    ("said", "error", "sentence"),
    [
        pytest.param(from_server(NOT_FOUND), ApiError, "no such program", id="a command that does not start"),
        pytest.param(from_server(b"", 8), AnswerLost, "before the command ended", id="closed without a status"),
        pytest.param(from_server(SUCCESS)[:-3], AnswerLost, "before the command ended", id="cut off"),
        pytest.param(from_server(b"\x03[]"), Garbled, "without a Status", id="a status that is none"),
    ],
)
def test_other_ends_are_errors(said: bytes, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        run_against(says(said))


@pytest.mark.parametrize(
    ("said", "error", "sentence"),
    [
        pytest.param(answer(b"ok"), Garbled, r"no.*WebSocket for exec \(HTTP 200\).*proxy", id="a proxy between"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: AAAA\r\n\r\n",
            Garbled, r"WebSocket for exec \(HTTP 101\)", id="an answer to another request",
        ),
        pytest.param(
            answer(
                b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no pods/exec for you"}',
                "403 Forbidden",
            ),
            Forbidden, "no pods/exec for you", id="no right",
        ),
    ],
)  # fmt: skip
def test_a_refusal_is_said(said: bytes, error: type[Exception], sentence: str) -> None:
    with Scripted([said]) as server, pytest.raises(error, match=sentence):
        server.rest().execute("/api/v1/namespaces/a/pods/b", "upload", ["sh", "-c", "cat"], io.BytesIO(b"x"), 1)


def test_the_command_is_in_the_query() -> None:
    with Scripted([answer(b"ok")]) as server:
        with pytest.raises(Garbled):
            server.rest().execute("/pods/b", "upload", ["sh", "-c", "a b&c=d"], io.BytesIO(), 0)
        (target,) = server.targets()
        assert target.startswith("GET /pods/b/exec?command=sh&command=-c&command=a%20b%26c%3Dd&container=upload&stdin")
