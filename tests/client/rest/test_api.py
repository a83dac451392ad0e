"""Requests and what is made of the answers, against a server that says what a test wants."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from client.rest.scripted import HOLD, Scripted, answer, chunked
from fairway.client.rest import Garbled, Rest, Unreachable, Unreadable, paths
from fairway.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

_JSON = "application/json"


def status(code: int, reason: str, message: str = "no", **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message, **more}).encode()


@pytest.mark.parametrize(
    ("code", "body", "error", "message"),
    [
        pytest.param(400, status(400, "BadRequest"), BadRequest, "no", id="a bad request"),
        pytest.param(401, status(401, "Unauthorized"), Unauthorized, "no", id="unknown"),
        pytest.param(403, status(403, "Forbidden"), Forbidden, "no", id="forbidden"),
        pytest.param(404, status(404, "NotFound", 'pods "a" not found'), NotFound, 'pods "a" not found', id="no pod"),
        pytest.param(404, b"404 page not found\n", NotFound, "GET /x: 404 page not found (HTTP 404)", id="no API"),
        pytest.param(409, status(409, "AlreadyExists"), AlreadyExists, "no", id="there already"),
        pytest.param(409, status(409, "Conflict"), Conflict, "no", id="a conflict"),
        pytest.param(409, status(409, "Unheard"), Conflict, "no", id="a reason that nobody knows"),
        pytest.param(410, status(410, "Gone"), Expired, "no", id="gone"),
        pytest.param(422, status(422, "Invalid"), Invalid, "no", id="invalid"),
        pytest.param(429, status(429, "TooManyRequests"), TooManyRequests, "no", id="too many, without a time to wait"),
        pytest.param(503, b"", Unavailable, "GET /x: no reason was given (HTTP 503)", id="nothing said"),
        pytest.param(500, b"\x1b[31mred\x00\xff", ApiError, "GET /x: [31mred\ufffd (HTTP 500)", id="terminal codes"),
        pytest.param(
            422, status(422, "Invalid", "two\nlines \x1b[2J"), Invalid, "two\nlines \ufffd[2J", id="codes in a Status"
        ),
        pytest.param(500, b"[]", ApiError, "GET /x: [] (HTTP 500)", id="JSON that is no Status"),
        pytest.param(418, status(418, "Teapot"), ApiError, "no", id="a code of its own"),
        pytest.param(404, b'{"kind": "Status"}', NotFound, "the server refused without a reason (HTTP 404)", id="void"),
    ],
)  # fmt: skip
def test_a_refusal_is_the_error_that_means_the_same(
    code: int, body: bytes, error: type[ApiError], message: str
) -> None:
    with Scripted([answer(body, f"{code} No")]) as server, pytest.raises(error) as raised:
        server.rest().get("/x")

    assert type(raised.value) is error
    assert (raised.value.code, str(raised.value)) == (code, message)


def test_a_refusal_carries_its_details() -> None:
    body = status(422, "Invalid", details={"causes": [{"field": "spec"}]})
    with Scripted([answer(body, "422 Invalid")]) as server, pytest.raises(Invalid) as raised:
        server.rest().get("/x")

    assert raised.value.details == {"causes": [{"field": "spec"}]}


def test_queries_are_written_as_the_api_reads_them() -> None:
    with Scripted([answer()] * 2) as server:
        rest = server.rest()
        rest.get("/x", labelSelector="a=b,c in (d)", limit=5, follow=True, pretty=False, absent=None, continue_="ü&")
        rest.get("/x?a=b", c="d")

        assert server.targets() == [
            "GET /x?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=5&follow=true&pretty=false&continue=%C3%BC%26",
            "GET /x?a=b&c=d",
        ]


@pytest.mark.parametrize(
    ("ask", "line", "content_type", "body"),
    [
        pytest.param(lambda r: r.create("/x", {"a": 1}, dryRun="All"), "POST /x?dryRun=All", _JSON, '{"a":1}'),
        pytest.param(lambda r: r.replace("/x", {"a": 1}), "PUT /x", "application/json", '{"a":1}'),
        pytest.param(lambda r: r.patch("/x", {"a": None}), "PATCH /x", "application/merge-patch+json", '{"a":null}'),
        pytest.param(
            lambda r: r.patch("/x", [], patch_type="json"), "PATCH /x", "application/json-patch+json", "[]"
        ),
        pytest.param(
            lambda r: r.patch("/x", {}, patch_type="strategic"), "PATCH /x",
            "application/strategic-merge-patch+json", "{}",
        ),
        pytest.param(
            lambda r: r.apply("/x", {"a": 1}, manager="me", force=True), "PATCH /x?fieldManager=me&force=true",
            "application/apply-patch+yaml", '{"a":1}',
        ),
        pytest.param(
            lambda r: r.apply("/x", {}, manager="me", force=False), "PATCH /x?fieldManager=me",
            "application/apply-patch+yaml", "{}",
        ),
        pytest.param(lambda r: r.delete("/x"), "DELETE /x", "", ""),
        pytest.param(lambda r: r.delete("/x", {"gracePeriodSeconds": 0}), "DELETE /x", "application/json",
                     '{"gracePeriodSeconds":0}'),
        pytest.param(
            lambda r: r.upload("/x", io.BytesIO(b"abc"), 3, "application/gzip"), "PUT /x", "application/gzip", "abc"
        ),
    ],
)  # fmt: skip
def test_what_is_sent(ask: Callable[[Rest], Any], line: str, content_type: str, body: str) -> None:
    with Scripted([answer(b'{"ok": true}')]) as server:
        assert ask(server.rest()) == {"ok": True}

        head, _, sent = server.requests[0].decode().partition("\r\n\r\n")
        assert server.targets() == [line]
        assert [at for at in head.split("\r\n") if at.startswith("Content-Type")] == (
            [f"Content-Type: {content_type}"] if content_type else []
        )
        assert sent == body


def test_the_paths_of_a_server_behind_something_begin_with_its_own() -> None:
    with Scripted([answer()]) as server:
        rest = server.rest()
        access = rest._access
        endpoint = access.context.endpoint._replace(base="/clusters/a")
        access.context = access.context._replace(endpoint=endpoint)

        rest.get("/api")

        assert server.targets() == ["GET /clusters/a/api"]


def test_requests_share_a_connection() -> None:
    with Scripted([answer()] * 3) as server:
        rest = server.rest()
        for _ in range(3):
            rest.get("/x")

        assert server.connected == 1


def test_a_refusal_leaves_the_connection_usable() -> None:
    with Scripted([answer(b"", "404 No"), answer()]) as server:
        rest = server.rest()

        assert rest.exists("/x") is False
        assert rest.get("/x") == {}
        assert server.connected == 1


def test_a_dropped_connection_is_opened_again() -> None:
    with Scripted([answer(), b""], [answer(b'{"second": 1}')]) as server:
        rest = server.rest()
        rest.get("/x")

        assert rest.get("/x") == {"second": 1}


def test_what_writes_is_not_sent_twice() -> None:
    with Scripted([answer(), b""], [answer()]) as server:
        rest = server.rest()
        rest.get("/x")

        with pytest.raises(Unreachable, match="closed the connection"):
            rest.create("/x", {})


def test_a_write_goes_over_a_new_connection_if_the_old_one_is_known_to_be_gone() -> None:
    with Scripted([answer()], [answer(b'{"second": 1}')]) as server:
        rest = server.rest()
        rest.get("/x")
        assert rest._idle is not None
        while not rest._idle.is_stale():
            pass

        assert rest.create("/x", {}) == {"second": 1}


def test_a_new_connection_that_is_dropped_is_not_tried_again() -> None:
    with Scripted([b""], [answer()]) as server, pytest.raises(Unreachable, match="without a response"):
        server.rest().get("/x")


@pytest.mark.parametrize(
    ("method", "code", "header", "waited"),
    [
        pytest.param("GET", 429, "Retry-After: 2", [2.0], id="too many requests"),
        pytest.param("POST", 429, "Retry-After: 2", [2.0], id="too many writes: nothing was done"),
        pytest.param("GET", 503, "Retry-After: 2", [2.0], id="unavailable"),
        pytest.param("GET", 429, "Retry-After: 0", [0.2], id="no time at all is a little"),
        pytest.param("POST", 503, "Retry-After: 2", None, id="unavailable for a write: who knows"),
        pytest.param("GET", 503, "X: y", None, id="no time given"),
        pytest.param("GET", 429, "Retry-After: 60", None, id="too long"),
        pytest.param("GET", 429, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", None, id="a date"),
        pytest.param("GET", 500, "Retry-After: 2", None, id="another failure"),
    ],
)
def test_a_server_that_asks_to_wait_is_waited_for(
    method: str, code: int, header: str, waited: list[float] | None
) -> None:
    with Scripted([answer(b"", f"{code} Later", [header]), answer(b'{"ok": 1}')]) as server:
        rest = server.rest()
        ask = rest.get if method == "GET" else lambda path: rest.create(path, {})
        if waited is None:
            with pytest.raises(ApiError):
                ask("/x")
        else:
            assert ask("/x") == {"ok": 1}

        assert server.waited == (waited or [])


def test_nobody_is_waited_for_for_ever() -> None:
    with Scripted([answer(b"", "429 Later", ["Retry-After: 4"])] * 9) as server:
        with pytest.raises(TooManyRequests):
            server.rest().get("/x")

        assert server.waited == [4.0, 4.0, 4.0]


def test_a_file_is_sent_from_where_it_stands_and_again_if_asked_later() -> None:
    file = io.BytesIO(b"--abc")
    file.seek(2)
    later = answer(b"", "429 Later", ["Retry-After: 1"])
    with Scripted([later, answer(b"", "201 Created")]) as server:
        assert server.rest().upload("/x", file, 3) is None
        assert [request.partition(b"\r\n\r\n")[2] for request in server.requests] == [b"abc", b"abc"]


def test_a_file_that_is_shorter_than_was_said_is_not_taken_for_sent() -> None:
    with Scripted([HOLD]) as server, pytest.raises(Unreadable, match="has 1 bytes less"):
        server.rest().upload("/x", io.BytesIO(b"ab"), 3)


def test_events_come_as_they_are_sent() -> None:
    events: list[dict[str, Any]] = [{"type": "ADDED", "object": {"a": 1}}, {"type": "BOOKMARK", "object": {"b": 2}}]
    text = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    with Scripted([chunked(text[:20], text[20:], b"\n")]) as server:
        assert list(server.rest().watch("/x", resourceVersion=5)) == events
        assert server.targets() == ["GET /x?resourceVersion=5&watch=true"]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}\n', Expired,
                     id="an event that is an error"),
        pytest.param(b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}\n', Expired, id="without a reason"),
        pytest.param(b"[]\n", Garbled, id="no event"),
        pytest.param(b"{\n", Garbled, id="no JSON"),
    ],
)  # fmt: skip
def test_a_watch_that_goes_wrong(said: bytes, error: type[Exception]) -> None:
    with Scripted([chunked(said)]) as server, pytest.raises(error):
        list(server.rest().watch("/x"))


def test_a_watch_that_breaks_is_not_taken_for_one_that_ends() -> None:
    event = b'{"type": "ADDED", "object": {}}\n'
    with Scripted([chunked(event)[:-5]]) as server:
        events = server.rest().watch("/x")

        assert next(events)["type"] == "ADDED"
        with pytest.raises(Unreachable, match="middle of a response"):
            next(events)


def test_other_requests_may_be_sent_while_watching() -> None:
    event = b'{"type": "ADDED", "object": {}}\n'
    with Scripted([chunked(event)]) as watched, Scripted([answer()]) as other:
        rest, second = watched.rest(), other.rest()
        events = rest.watch("/x")
        next(events)

        rest._access = second._access
        assert rest.get("/y") == {}
        assert list(events) == []


def test_a_stream_is_what_comes() -> None:
    with Scripted([chunked(b"one\n", b"\xff")]) as server:
        assert list(server.rest().stream("/log", follow=True)) == [b"one\n", b"\xff"]
        assert server.targets() == ["GET /log?follow=true"]


def test_a_stream_that_is_left_hangs_up() -> None:
    with Scripted([chunked(b"one")[:-5] + b"3\r\ntwo\r\n"], [answer()]) as server:
        rest = server.rest()
        stream = rest.stream("/log")
        assert next(stream) == b"one"

        stream.close()

        assert rest.get("/x") == {}
        assert server.connected == 2


def test_warnings_are_kept_for_whoever_prints_them() -> None:
    headers = ['Warning: 299 - "one, \\"two\\""', 'Warning: 299 - "three"']
    with Scripted([answer(headers=headers)]) as server:
        rest = server.rest()
        rest.get("/x")

        assert rest.warnings == ['one, "two"', "three"]


def test_warnings_that_nobody_prints_do_not_pile_up() -> None:
    with Scripted([answer(headers=[f'Warning: 299 - "{number}"']) for number in range(120)]) as server:
        rest = server.rest()
        for _ in range(120):
            rest.get("/x")

        assert (len(rest.warnings), rest.warnings[-1]) == (100, "119")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        pytest.param(answer(b"<html>"), "answered with something that is not JSON", id="a page"),
        pytest.param(answer(b"\xff"), "answered with something that is not JSON", id="bytes"),
        pytest.param(answer(b""), "answered with something that is not JSON", id="nothing"),
        pytest.param(
            answer(b"", "302 Found", ["Location: https://login.example"]), "redirects to 'https://login.example'",
            id="a way to elsewhere",
        ),
    ],
)  # fmt: skip
def test_what_is_no_api_is_told_from_one_that_refuses(said: bytes, sentence: str) -> None:
    with Scripted([said]) as server, pytest.raises(Garbled) as raised:
        server.rest().get("/x")

    assert sentence in str(raised.value)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"status": {"results": {}}}'])
def test_a_transaction_without_results_is_none(body: bytes) -> None:
    with Scripted([answer(body)]) as server, pytest.raises(Garbled, match="without its results"):
        server.rest().transact("default", [])


def test_after_giving_up_nobody_is_asked() -> None:
    with Scripted([answer()]) as server:
        rest = server.rest()
        rest.abort()

        with pytest.raises(Unreachable, match="no longer used"):
            rest.get("/x")


class _InterruptedError(KeyboardInterrupt):
    pass


def test_an_interrupt_in_the_middle_of_a_request_leaves_no_answer_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Scripted([answer(b'{"first": 1}')], [answer(b'{"second": 1}')]) as server:
        rest = server.rest()
        from fairway.client.rest.http import SyncConnection  # noqa: PLC0415 - the place of the interrupt

        with monkeypatch.context() as patched:

            def interrupted(*_: object) -> None:
                raise _InterruptedError

            patched.setattr(SyncConnection, "_head", interrupted)
            with pytest.raises(_InterruptedError):
                rest.get("/x")

        assert rest.get("/x") == {"second": 1}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (paths.jobs("a"), "/apis/fairway.dev/v1alpha1/namespaces/a/managedjobs"),
        (paths.jobs(None), "/apis/fairway.dev/v1alpha1/managedjobs"),
        (paths.job("a", "b"), "/apis/fairway.dev/v1alpha1/namespaces/a/managedjobs/b"),
        (paths.log("a", "b"), "/apis/fairway.dev/v1alpha1/namespaces/a/managedjobs/b/log"),
        (paths.waiting(None), "/apis/fairway.dev/v1alpha1/waitingjobs"),
        (paths.waiting("a", "b"), "/apis/fairway.dev/v1alpha1/namespaces/a/waitingjobs/b"),
        (paths.transactions("a"), "/apis/fairway.dev/v1alpha1/namespaces/a/transactions"),
        (paths.archive("a", "0f"), "/apis/fairway.dev/v1alpha1/namespaces/a/archives/0f"),
        (paths.resource("v1", "pods", "a", "b", "log"), "/api/v1/namespaces/a/pods/b/log"),
        (paths.resource("batch/v1", "jobs"), "/apis/batch/v1/jobs"),
        (paths.resource("v1", "pods", "../a", "b/c d?"), "/api/v1/namespaces/..%2Fa/pods/b%2Fc%20d%3F"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected
