"""The conversation: whatever is sent, whoever sends it and however slowly, the supervisor goes on."""

import asyncio
import signal
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.runner.processes import ProcessLimits, ProcessSpec
from fairway.runner.supervising import messages
from fairway.runner.supervising.connections import ServerConnection
from fairway.runner.supervising.loop import Loop
from fairway.runner.supervising.places import socket_of
from fairway.runner.supervision import SupervisorFailed

from .servers import SECONDS, connected, play

HELLO = messages.frame(messages.Hello((messages.VERSION,)))


def conversation(directory: Path, *sent: bytes) -> list[messages.Answer]:
    """Everything that is answered until the supervisor ends the connection."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(SECONDS)
        link.connect(str(socket_of(directory)))
        frames = messages.Frames()
        try:
            for data in sent:
                link.sendall(data)
            while data := link.recv(65536):
                frames.feed(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return [messages.answer(one) for one in frames]


def framed(text: str) -> bytes:
    return struct.pack(">I", len(text.encode())) + text.encode()


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param([b"GET / HTTP/1.1\r\n\r\n"], "a message of 1195725856 bytes is larger", id="another protocol"),
        pytest.param([struct.pack(">I", messages.LARGEST_MESSAGE + 1)], "the limit", id="too large"),
        pytest.param([framed("rubbish")], "not a request", id="not JSON"),
        pytest.param([framed('{"type":"dance"}')], "not a request: Invalid value 'dance'", id="an unknown request"),
        pytest.param([framed('{"type":"hello"}')], "missing required field `versions`", id="a field is missing"),
        pytest.param([framed("[" * 100_000)], "not a request", id="too deep"),
        pytest.param(
            [messages.frame(messages.StopRequest(1, "x", 0.0))], "the first request must be hello", id="without a hello"
        ),
        pytest.param([HELLO, HELLO], "hello may be sent only once", id="two hellos"),
        pytest.param(
            [HELLO, framed('{"type":"stop","number":1,"id":"x","grace_seconds":-1}')], ">= 0.0", id="no grace"
        ),
        pytest.param(
            [
                HELLO,
                messages.frame(messages.StartRequest(1, ProcessSpec(id="x", argv=(), env={}, cwd="/", log="here"))),
            ],
            "log 'here': give an absolute path",
            id="a launch that nobody may ask for",
        ),
        pytest.param(
            [
                HELLO,
                messages.frame(
                    messages.StartRequest(
                        1,
                        ProcessSpec(id="x", argv=(), env={}, cwd="/", log="/l", limits=ProcessLimits(memory_bytes=-1)),
                    )
                ),
            ],
            "a limit must be greater than 0",
            id="a limit below nothing",
        ),
    ],
)
def test_what_is_not_of_this_protocol_is_refused_with_a_reason(shared: Path, sent: list[bytes], want: str) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            answers = await asyncio.to_thread(conversation, shared, *sent)
            assert isinstance(answers[-1], messages.Rejected)
            assert want in answers[-1].reason

            assert (await server.run(f"still-there-{hash(want)}", "true")).exit_code == 0

    play(scene())


def test_a_server_that_speaks_another_version_is_told_what_to_do(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.start("holds it", "sleep", "600")
            pid = server.supervision.supervisor_pid
            monkeypatch.setattr(messages, "VERSION", 7)
            with pytest.raises(SupervisorFailed) as refusal:
                async with connected(shared):
                    pass
            monkeypatch.undo()
            assert f"process {pid}, is from Fairway" in str(refusal.value)
            assert "speaks version 1 of its protocol, not 7; it holds 1 processes." in str(refusal.value)
            assert f"or end them with 'kill {pid}', and try again" in str(refusal.value)
            await server.stop("holds it")

    play(scene())


def test_a_field_that_a_later_version_adds_is_passed_over() -> None:
    told = messages.answer(b'{"type":"done","number":3,"since":"later"}')

    assert told == messages.Done(3)


def test_a_launch_much_larger_than_a_socket_holds_arrives(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            env = {f"VARIABLE_{number}": "ü" * 10_000 for number in range(50)}
            ended = await server.run("large", "sh", "-c", "printenv VARIABLE_49 | wc -m", env=env)

            assert (ended.exit_code, ended.error) == (0, "")
            assert int(server.shown("large")) > 10_000

    play(scene())


def test_a_message_that_comes_byte_by_byte_is_understood(shared: Path) -> None:
    data = HELLO + messages.frame(messages.StopRequest(5, "nobody", 1.0)) + framed("the end")

    async def scene() -> None:
        async with connected(shared):
            pieces = [data[at : at + 1] for at in range(len(data))]
            answers = await asyncio.to_thread(conversation, shared, *pieces)
            assert messages.Done(5) in answers

    play(scene())


def test_a_server_that_does_not_read_holds_up_nobody(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            with socket.socket(socket.AF_UNIX) as lazy:
                lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                lazy.connect(str(socket_of(shared)))
                lazy.sendall(HELLO)
                for number in range(1000):
                    await server.supervision.start(server.launch(f"n-{number}", ""))
                assert (await server.run("beside", "true")).exit_code == 0
            for number in range(1000):
                await server.supervision.forget(f"n-{number}")

    play(scene())


def test_what_a_server_leaves_unread_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.runner.supervising.connections.MOST_UNREAD", 100_000)
    loop = Loop()
    try:
        ours, theirs = socket.socketpair()
        gone: list[ServerConnection] = []
        connection = ServerConnection(loop, ours, lambda *_: None, gone.append)
        sent = 0
        while not gone and sent < 10_000:
            loop.soon(lambda: connection.send(messages.Rejected("x" * 1000)))
            loop.turn()
            sent += 1
        assert gone == [connection]
        theirs.close()
    finally:
        signal.set_wakeup_fd(-1)
        loop.close()


def test_a_server_that_comes_back_learns_what_it_missed(shared: Path) -> None:
    """It stops listening until it is disconnected; all that happened meanwhile is told once it is there again."""

    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("missed", "sleep 0.1; exit 9")
            pid = server.supervision.supervisor_pid
            link = server.supervision._link
            assert link is not None
            link.close()
            assert (await server.ended("missed")).exit_code == 9
            assert server.supervision.supervisor_pid == pid
            assert [told.ended is None for told in server.told if told.id == "missed"] == [True, False]

    play(scene())


def test_there_is_room_for_so_many_servers_and_no_more(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            links = [socket.socket(socket.AF_UNIX) for _ in range(15)]
            for link in links:
                link.connect(str(socket_of(shared)))
            with pytest.raises(SupervisorFailed, match="16 servers are connected already"):
                async with connected(shared):
                    pass
            for link in links:
                link.close()
            assert (await server.run("after the rush", "true")).exit_code == 0

    play(scene())


@given(
    texts=st.lists(st.binary(max_size=50), max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=20), max_size=60),
)
def test_messages_are_the_same_wherever_they_are_cut(texts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(struct.pack(">I", len(text)) + text for text in texts)
    frames, found = messages.Frames(), []
    for cut in cuts:
        frames.feed(data[:cut])
        found += list(frames)
        data = data[cut:]
    frames.feed(data)

    assert [*found, *frames] == texts
