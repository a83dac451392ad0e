"""The load generator counts what it should: figures are worth nothing if answers or events go uncounted."""

from __future__ import annotations

import asyncio
import itertools
import json
from array import array
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import uvloop
from bench.api import bare, manifests, watching
from bench.api.load import LOST, Report, drive
from bench.api.stuffing import stuff
from bench.api.wire import JSON, Refused, Session, Target

from fairway.server.http import Exchange
from fairway.server.responses import JSON_TYPE, Response
from fairway.store.log import Batch, Row
from fairway.store.sqlite import SqliteLog

EVENTS = 5
PLACE = manifests.Place("team", "6d1f9a3e-5b7c-4222-8333-0a1b2c3d4e5f")


def _answering(exchange: Exchange) -> None:
    """Answers with the status that the path ends with: a body of known length, or chunks of which one is late."""
    _, how, status = exchange.path.decode().split("/")
    if how == "sized":
        exchange.respond(Response(int(status), b"x" * 6000))
        return
    exchange.start(int(status), JSON_TYPE)
    exchange.write(b"x" * 2000)
    exchange.write(b"x" * 4000)
    asyncio.get_running_loop().call_later(0.001, exchange.end)


def _streaming(exchange: Exchange) -> None:
    """A watch of five events; the namespace says what goes wrong on the way."""
    namespace = exchange.path.decode().split("/")[5]
    start = int(parse_qs(exchange.query.decode())["resourceVersion"][0])
    numbers = list(range(start, EVENTS))
    if namespace == "gap":
        numbers.remove(2)
    elif namespace == "twice":
        numbers.insert(2, 2)
    elif namespace == "cut":
        numbers = numbers[:2]
    exchange.start(403 if namespace == "forbidden" else 200, JSON_TYPE)
    for number in numbers:
        named = {"name": manifests.name(number), "resourceVersion": str(number + 1)}
        line = json.dumps({"type": "ADDED", "object": {"metadata": named}}).encode() + b"\n"
        for part in (line[:20], line[20:]):
            exchange.write(part)
    if namespace == "cut":
        exchange.write(b'{"type":"ADD')
        exchange.end()


@pytest.fixture(scope="module")
def answering() -> Iterator[Target]:
    with bare.serving(_answering) as target:
        yield target


@pytest.fixture(scope="module")
def streaming() -> Iterator[Target]:
    with bare.serving(_streaming) as target:
        yield target


def _requests(target: Target, path: str, count: int) -> list[bytes]:
    return [target.head("GET", path)] * count


@pytest.mark.parametrize("how", ["sized", "chunked"])
def test_every_answer_of_every_client_is_counted(answering: Target, how: str) -> None:
    report = drive(answering, [_requests(answering, f"/{how}/201", 25) for _ in range(4)])

    assert report.statuses == {201: 100}
    assert len(report.latencies) == 100
    assert list(report.latencies) == sorted(report.latencies)
    assert report.errors == {}


def test_refusals_are_counted_by_status_and_not_as_answers(answering: Target) -> None:
    feed = _requests(answering, "/sized/200", 3) + _requests(answering, "/chunked/409", 2)

    report = drive(answering, [feed])

    assert report.statuses == {200: 3, 409: 2}
    assert report.errors == {409: 2}
    assert report.answered == 3
    assert report.refusal.startswith(b"HTTP/1.1 409 ")
    assert report.refusal.endswith(b"x\r\n0\r\n\r\n")


def test_a_lost_connection_ends_the_client_and_is_an_error() -> None:
    with bare.serving(lambda exchange: exchange.abort()) as target:
        report = drive(target, [_requests(target, "/", 3)])

    assert report.statuses == {LOST: 1}
    assert report.errors == {LOST: 1}


def test_the_load_ends_when_its_time_is_over(answering: Target) -> None:
    report = drive(answering, [itertools.repeat(answering.head("GET", "/sized/200"))] * 2, limit_seconds=0.2)

    assert 0.2 <= report.seconds < 5
    assert report.answered == report.statuses[200] > 0


@pytest.mark.parametrize(
    ("percent", "want"),
    [
        pytest.param(50, 51.0, id="half are below the median"),
        pytest.param(99, 100.0, id="one in a hundred is above p99"),
    ],
)
def test_percentiles_are_taken_from_the_sorted_latencies(percent: float, want: float) -> None:
    report = Report(2.0, 0.5, array("d", range(1, 101)), {200: 100})

    assert report.percentile(percent) == want
    assert report.rate == 50


def _parsed(request: bytes) -> tuple[str, dict[str, str], Any]:
    head, body = request.split(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = dict(line.split(": ") for line in rest)
    assert int(headers["Content-Length"]) == len(body)
    return first, headers, json.loads(body)


def test_clients_that_share_a_counter_create_each_workload_once() -> None:
    target = Target.at("http://127.0.0.1:1", "secret")
    numbers = itertools.count(41)
    feeds = [manifests.creates(target, PLACE, numbers) for _ in range(2)]

    made = [_parsed(next(feed)) for feed in feeds]

    assert [body["metadata"]["name"] for _, _, body in made] == [manifests.name(41), manifests.name(42)]
    assert {first for first, _, _ in made} == {"POST /apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads HTTP/1.1"}
    assert made[0][1]["Content-Type"] == JSON
    assert made[0][1]["Authorization"] == "Bearer secret"
    assert 2_700 < len(json.dumps(made[0][2])) < 3_500


@pytest.mark.parametrize("patches", [manifests.status_patches, manifests.status_applies], ids=["merge", "apply"])
def test_each_status_written_differs_from_the_one_before(
    patches: Callable[[Target, manifests.Place, range], Iterator[bytes]],
) -> None:
    target = Target.at("http://127.0.0.1:1", "")
    feed = patches(target, PLACE, range(2))

    written = [_parsed(next(feed)) for _ in range(4)]

    assert [first.split("/")[7] for first, _, _ in written] == [manifests.name(number) for number in (0, 1, 0, 1)]
    assert written[0][2]["status"] == written[1][2]["status"]
    assert written[0][2]["status"] != written[2][2]["status"]


def _watched(target: Target, namespace: str, watchers: int = 3) -> tuple[watching.Sightings, list[int]]:
    receiver, sender = Pipe(duplex=False)
    with receiver, sender:
        seen = uvloop.run(watching.watch(target, manifests.Place(namespace, "").path, "0", watchers, EVENTS, sender))
        progress = []
        while receiver.poll():
            progress.append(receiver.recv())
    return seen, progress


def test_watchers_tell_when_all_of_them_have_each_event(streaming: Target) -> None:
    seen, progress = _watched(streaming, "whole")

    assert progress == [-1, 0, 1, 2, 3, 4]
    assert list(seen.last_seen) == sorted(seen.last_seen)
    assert seen.resumed == 0


def test_watchers_resume_a_stream_that_ends_where_it_ended(streaming: Target) -> None:
    seen, progress = _watched(streaming, "cut", watchers=1)

    assert progress == [-1, 0, 1, 2, 3, 4]
    assert seen.resumed == 2


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        pytest.param("gap", "waited for event 2 and got .*00000003", id="an event is missing"),
        pytest.param("twice", "waited for event 3 and got .*00000002", id="an event comes twice"),
        pytest.param("forbidden", "answered with 403", id="the watch is refused"),
    ],
)
def test_what_watchers_should_not_see_fails_the_run(streaming: Target, namespace: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        _watched(streaming, namespace)


def test_a_kubeconfig_gives_the_server_and_the_token_of_its_current_context(tmp_path: Path) -> None:
    config = {
        "current-context": "b",
        "contexts": [
            {"name": "a", "context": {"cluster": "one", "user": "x"}},
            {"name": "b", "context": {"cluster": "two", "user": "y"}},
        ],
        "clusters": [
            {"name": "one", "cluster": {"server": "http://127.0.0.1:1"}},
            {"name": "two", "cluster": {"server": "https://localhost:6443"}},
        ],
        "users": [{"name": "x", "user": {"token": "s"}}, {"name": "y", "user": {"token": "t"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))

    assert Target.from_kubeconfig(path) == Target.at("https://localhost:6443", "t")


def test_a_session_raises_what_it_was_refused_with(answering: Target) -> None:
    with Session(answering) as session:
        with pytest.raises(Refused, match="GET /sized/404: 404"):
            session.ask("GET", "/sized/404")
        assert session.ask("GET", "/chunked/200") == b"x" * 6000


def test_a_stuffed_state_holds_as_many_different_workloads_as_asked_for(tmp_path: Path) -> None:
    database = tmp_path / "fairway.db"
    manifest = manifests.workload(PLACE)
    manifest["metadata"] |= {"name": manifests.name(0), "uid": "first", "resourceVersion": "7"}
    log = SqliteLog(database)
    data = manifests.encoded(manifest)
    log.append(Batch([Row(7, "workloads", PLACE.namespace, manifests.name(0), deleted=False, data=data)]))
    log.close()

    stuff(database, PLACE, 2_500)

    log = SqliteLog(database)
    rows = list(log.rows())
    log.close()
    stored = [json.loads(row.data)["metadata"] for row in rows]
    assert [row.revision for row in rows] == list(range(7, 2_507))
    assert [metadata["resourceVersion"] for metadata in stored] == [str(row.revision) for row in rows]
    assert [row.name for row in rows] == [metadata["name"] for metadata in stored]
    assert [row.name for row in rows] == [manifests.name(number) for number in range(2_500)]
    assert len({metadata["uid"] for metadata in stored}) == 2_500
