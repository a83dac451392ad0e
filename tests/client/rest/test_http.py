"""One connection, against a server that says what it should and what it should not."""

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.rest.scripted import HOLD, Scripted, answer, chunked
from fairway.client.rest.errors import Garbled, Unreachable
from fairway.client.rest.http import Address, Dropped, SyncConnection

_EVERY = 5.0
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKS = _OK + b"Transfer-Encoding: chunked\r\n\r\n"


def ask(connection: SyncConnection, method: str = "GET", seconds: float = _EVERY) -> bytes:
    return connection.request(method, "/api", [], None, seconds).read()


@pytest.mark.parametrize(
    ("said", "body", "kept"),
    [
        pytest.param(answer(b"abc"), b"abc", True, id="a body with a length"),
        pytest.param(answer(b""), b"", True, id="an empty body"),
        pytest.param(chunked(b"ab", b"c"), b"abc", True, id="a body in chunks"),
        pytest.param(chunked(), b"", True, id="no chunks"),
        pytest.param(chunked(b"x" * 99_999, trailers=b"X: y\r\n"), b"x" * 99_999, True, id="a long chunk, a trailer"),
        pytest.param(
            _OK + b"transfer-encoding: Chunked\r\n\r\n3;name=value\r\nabc\r\n0\r\n\r\n",
            b"abc", True, id="a chunk with an extension",
        ),
        pytest.param(_OK + b"\r\nabc", b"abc", False, id="a body up to the end of the connection"),
        pytest.param(answer(b"abc", headers=["Connection: close"]), b"abc", False, id="a server that does not go on"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", b"a", False, id="an old server"),
        pytest.param(b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", b"a", True, id="no word for the code"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 1\n\na", b"a", True, id="bare line feeds"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"abc"), b"abc", True, id="a hint before the answer"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", True, id="no content"),
        pytest.param(
            _OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", b"a", True, id="the same length twice"
        ),
        pytest.param(
            _OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            b"a", False, id="a length beside chunks",
        ),
    ],
)  # fmt: skip
def test_what_servers_say_is_understood(said: bytes, body: bytes, kept: bool) -> None:  # noqa: FBT001 - a table
    with Scripted([said]) as server:
        connection = server.connection()

        assert ask(connection) == body
        assert connection.usable is kept


@pytest.mark.parametrize(
    ("said", "error", "sentence"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", Garbled, "its first line is 'SSH-2.0-OpenSSH'", id="another protocol"),
        pytest.param(b"HTTP/2 200 OK\r\n\r\n", Garbled, "its first line is 'HTTP/2 200 OK'", id="another version"),
        pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", Garbled, "its first line", id="a code that is none"),
        pytest.param(b"HTTP/1.1 999 OK\r\n\r\n", Garbled, "its status is 999", id="a code beyond all"),
        pytest.param(_OK + b"nonsense\r\n\r\n", Garbled, "'nonsense'", id="a header without a colon"),
        pytest.param(_OK + b"A : b\r\n\r\n", Garbled, "'A : b'", id="a space before the colon"),
        pytest.param(_OK + b" folded\r\n\r\n", Garbled, "' folded'", id="a folded header"),
        pytest.param(_OK + b"X: " + b"y" * 200_000, Garbled, "a line of more than 65536", id="a huge header"),
        pytest.param(
            _OK + b"X: y\r\n" * 300 + b"\r\n", Garbled, "more than 256 headers", id="many headers"
        ),
        pytest.param(b"x" * 200_000, Garbled, "a line of more than 65536 bytes", id="a line without an end"),
        pytest.param(
            _OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", Garbled, "two lengths", id="two lengths"
        ),
        pytest.param(_OK + b"Content-Length: -1\r\n\r\n", Garbled, "Content-Length: '-1'", id="a negative length"),
        pytest.param(_OK + b"Content-Length: 1_0\r\n\r\n", Garbled, "Content-Length: '1_0'", id="a length for Python"),
        pytest.param(
            _OK + b"Transfer-Encoding: gzip\r\n\r\n", Garbled, "unsupported Transfer-Encoding: 'gzip'", id="a coding"
        ),
        pytest.param(
            _CHUNKS + b"-5\r\n", Garbled, "a chunk is '-5'", id="a negative chunk"
        ),
        pytest.param(
            _CHUNKS + b"f" * 16, Unreachable, "closed the connection", id="half a length"
        ),
        pytest.param(
            _CHUNKS + b"f" * 16 + b"\r\n", Garbled, "a chunk is",
            id="a chunk beyond all",
        ),
        pytest.param(
            _CHUNKS + b"1\r\nab\r\n0\r\n\r\n", Garbled, "longer than it says",
            id="more in a chunk than it says",
        ),
        pytest.param(
            _CHUNKS + b"0\r\n" + b"X: y\r\n" * 300, Garbled, "256 trailers",
            id="many trailers",
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 20, Garbled, "1xx", id="hints without end"),
        pytest.param(b"", Unreachable, "closed the connection without a response", id="nothing"),
        pytest.param(b"HTTP/1.1 2", Unreachable, "closed the connection", id="half a line"),
        pytest.param(_OK + b"A: b\r\n", Unreachable, "in the middle of a response", id="half a head"),
        pytest.param(
            _OK + b"Content-Length: 10\r\n\r\nabc", Unreachable, "in the middle of a response", id="half a body"
        ),
        pytest.param(
            _CHUNKS + b"3\r\nabc\r\n", Unreachable, "in the middle",
            id="chunks without a last one",
        ),
    ],
)  # fmt: skip
def test_what_servers_should_not_say_is_one_clear_sentence(said: bytes, error: type[Exception], sentence: str) -> None:
    with Scripted([said]) as server:
        connection = server.connection()

        with pytest.raises(error, match=r"http://127\.0\.0\.1") as raised:
            ask(connection)

        assert sentence in str(raised.value)
        assert not connection.usable


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(
        st.binary(max_size=300),
        st.builds(
            lambda good, at, junk: good[: at % len(good)] + junk + good[at % len(good) :],
            st.sampled_from([answer(b'{"a": 1}'), chunked(b"ab", b"cde"), b"HTTP/1.1 200 OK\r\n\r\nabc"]),
            st.integers(0, 1000),
            st.binary(max_size=12),
        ),
    )
)
def test_whatever_is_said_it_is_an_answer_or_one_of_two_errors(said: bytes) -> None:
    with Scripted([said]) as server:
        connection = server.connection()
        try:
            body = ask(connection)
        except (Garbled, Unreachable):
            assert not connection.usable
        else:
            assert len(body) <= len(said)


def test_requests_go_over_one_connection() -> None:
    with Scripted([answer(b"1"), chunked(b"2"), answer(b"3")]) as server:
        connection = server.connection()

        assert [ask(connection) for _ in range(3)] == [b"1", b"2", b"3"]
        assert server.connected == 1


def test_a_head_has_no_body_whatever_length_it_gives() -> None:
    with Scripted([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", answer(b"next")]) as server:
        connection = server.connection()

        assert ask(connection, "HEAD") == b""
        assert ask(connection) == b"next"


def test_a_connection_that_was_dropped_while_idle_is_told_from_a_server_that_never_answers() -> None:
    with Scripted([answer()]) as server:
        connection = server.connection()
        ask(connection)

        with pytest.raises(Dropped):
            ask(connection)


def test_that_the_other_side_hung_up_is_noticed_before_asking() -> None:
    with Scripted([answer(), HOLD]) as server:
        connection = server.connection()
        ask(connection)
        assert not connection.is_stale()

    with Scripted([answer()]) as server:
        connection = server.connection()
        ask(connection)
        server._thread.join()  # it has hung up

        assert connection.is_stale()


def test_something_that_nobody_asked_for_makes_a_connection_stale() -> None:
    with Scripted([answer() + b"HTTP/1.1 200 OK\r\n\r\n"]) as server:
        connection = server.connection()
        ask(connection)

        assert connection.is_stale()


def test_a_silent_server_is_given_up_after_the_time_given() -> None:
    with Scripted([HOLD]) as server:
        connection = server.connection()

        with pytest.raises(Unreachable, match="timed out"):
            ask(connection, seconds=0.05)


def test_a_server_that_falls_silent_in_its_answer_is_given_up() -> None:
    with Scripted([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", HOLD], read_bodies=False) as server:
        connection = server.connection()
        response = connection.request("GET", "/", [], None, 0.05)
        pieces = response.stream()

        assert next(pieces) == b"ab"
        with pytest.raises(Unreachable, match="middle of a response"):
            next(pieces)


def test_a_body_comes_as_it_is_sent() -> None:
    with Scripted([chunked(b"one\n", b"two\n")]) as server:
        response = server.connection().request("GET", "/", [], None, _EVERY)

        assert list(response.stream()) == [b"one\n", b"two\n"]


def test_an_answer_that_is_not_read_to_its_end_closes_the_connection() -> None:
    with Scripted([chunked(b"one", b"two")]) as server:
        connection = server.connection()
        pieces = connection.request("GET", "/", [], None, _EVERY).stream()
        next(pieces)

        pieces.close()

        assert not connection.usable


def test_nobody_listening_says_so() -> None:
    with Scripted() as server:
        port = server.port

    with pytest.raises(Unreachable, match=rf"http://127\.0\.0\.1:{port} does not answer: connection refused"):
        ask(SyncConnection(Address("127.0.0.1", port, host_header=f"127.0.0.1:{port}")))


def test_a_name_that_nobody_has_says_so() -> None:
    with pytest.raises(Unreachable, match=r"http://nobody\.invalid does not answer: "):
        ask(SyncConnection(Address("nobody.invalid", 80)))


def test_a_refusal_before_the_body_was_sent_is_heard() -> None:
    with Scripted([answer(b"too large", "413 Too Large")], read_bodies=False) as server:
        connection = server.connection()
        pieces = (b"x" * 65536 for _ in range(1000))

        response = connection.request("PUT", "/", [("Content-Length", str(1000 * 65536))], pieces, _EVERY)

        assert (response.status, response.read()) == (413, b"too large")


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        pytest.param("/a b", [], id="a space in the path"),
        pytest.param("/a\r\nX: y", [], id="a line break in the path"),
        pytest.param("/a", [("X", "y\r\nZ: z")], id="a line break in a header"),
    ],
)
def test_nothing_can_be_smuggled_into_a_request(target: str, headers: list[tuple[str, str]]) -> None:
    with Scripted([answer()]) as server, pytest.raises(ValueError, match="space or a line break"):
        server.connection().request("GET", target, headers, None, _EVERY)


def test_whoever_waits_is_told_when_another_thread_gives_up() -> None:
    with Scripted([chunked()[:-5], HOLD], read_bodies=False) as server:
        connection = server.connection()
        response = connection.request("GET", "/", [], None, None)
        told: list[str] = []

        def wait() -> None:
            try:
                response.read()
            except Unreachable as error:
                told.append(str(error))

        thread = threading.Thread(target=wait)
        thread.start()
        connection.abort()
        thread.join(_EVERY)

        assert len(told) == 1
        with pytest.raises(Unreachable):
            ask(connection)
