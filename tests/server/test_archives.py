"""Archives: what is uploaded is there whole under its digest, or not at all."""

import asyncio
import hashlib
import http.client
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fairway.server.access.roles import Binding, Role
from fairway.server.limits import Limits
from fairway.testing.servers import Server
from fuzz.world import Answer, World

DATA = b"\x1f\x8b" + b"the files of a job " * 100
GZIP = "application/gzip"
Worlds = Callable[..., World]


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def place(data: bytes = DATA, namespace: str = "default") -> str:
    return f"/apis/fairway.dev/v1alpha1/namespaces/{namespace}/archives/{digest_of(data)}"


def kept(state: Path) -> list[str]:
    """All files below `archives`, hidden ones too."""
    return sorted(str(path.relative_to(state / "archives")) for path in (state / "archives").glob("*/*"))


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Worlds]:
    """Makes a world with limits of its own."""
    opened: list[World] = []

    def opening(**limits: Any) -> World:
        world = World(tmp_path, limits=Limits(**{"spare_bytes": 0, **limits}))
        opened.append(world)
        return world.__enter__()

    yield opening
    for world in opened:
        world.__exit__(None, None, None)


def upload(world: World, data: bytes = DATA, path: str | None = None, **how: Any) -> Answer:
    pieces = how.pop("pieces", [data[:100], data[100:]])
    return world.ask("PUT", path or place(data), pieces=pieces, content_type=how.pop("content_type", GZIP), **how)


async def refused(world: World, path: str = "", **how: Any) -> tuple[int, str]:
    """Also for codes of a server that cannot do what it should."""
    exchange = world.begin("PUT", path or place(), pieces=[DATA], content_type=GZIP, **how)
    await exchange.until_ended()
    status = json.loads(bytes(exchange.sent))
    assert (status["kind"], status["code"]) == ("Status", exchange.code)
    return exchange.code, status["message"]


def test_an_archive_is_kept_under_its_digest(worlds: Worlds) -> None:
    world = worlds()
    assert world.ask("HEAD", place()).code == 404

    answer = upload(world)
    assert answer.code == 201
    assert answer.json["metadata"] == {"name": digest_of(DATA), "namespace": "default"}
    assert answer.json["status"] == {"bytes": len(DATA)}
    assert world.ask("HEAD", place()).code == 200
    path = world.state / "archives" / "default" / f"{digest_of(DATA)}.tar.gz"
    assert path.read_bytes() == DATA
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert kept(world.state) == [f"default/{path.name}"]


def test_the_same_archive_again_is_not_asked_for(worlds: Worlds) -> None:
    world = worlds()
    assert upload(world).code == 201

    async def story() -> None:
        exchange = world.begin("PUT", place(), pieces=[b"of which only the first piece ever comes"], content_type=GZIP)
        exchange.unfinished = True
        await exchange.until_ended()
        assert exchange.code == 200

    world.run(story())


def test_to_send_or_ask_for_an_archive_is_to_use_it(worlds: Worlds) -> None:
    world = worlds()
    upload(world)
    path = world.state / "archives" / kept(world.state)[0]
    for method in ("HEAD", "PUT"):
        os.utime(path, (1, 1))
        assert world.ask(method, place(), content_type=GZIP).code == 200
        assert abs(path.stat().st_mtime - world.objects.now().timestamp()) < 60


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        pytest.param({"path": place(b"other")}, 422, "nothing was kept", id="other bytes than those of the digest"),
        pytest.param({"path": place()[:-1]}, 400, "64 lower-case hex digits", id="a digest that is too short"),
        pytest.param(
            {"path": place()[:-64] + digest_of(DATA).upper()}, 400, "64 lower-case hex", id="a digest in capitals"
        ),
        pytest.param({"path": place()[:-64] + "%2e%2e"}, 400, "64 lower-case hex digits", id="a step up"),
        pytest.param(
            {"path": place()[:-64] + "..%2Fx"}, 400, "escaped slash", id="a step up and into another directory"
        ),
        pytest.param({"path": place(namespace="%2e%2e")}, 404, "namespaces", id="a step up from the namespace"),
        pytest.param(
            {"path": place(namespace="nowhere")}, 404, '"nowhere" not found', id="a namespace that is not there"
        ),
        pytest.param({"path": place() + "/status"}, 404, "namespaces/NS/archives/SHA256", id="a part of an archive"),
        pytest.param({"content_type": "application/json"}, 415, GZIP, id="another type"),
        pytest.param({"headers": [(b"content-length", b"10000")]}, 413, "limit of 5000", id="announced as too large"),
        pytest.param({"pieces": [b"x" * 3000] * 2}, 413, "limit of 5000", id="too large, and nobody said so"),
        pytest.param({"pieces": [b""]}, 422, "0 bytes", id="nothing at all"),
    ],
)
def test_what_is_refused_leaves_nothing(worlds: Worlds, change: dict[str, Any], code: int, words: str) -> None:
    world = worlds(archive_bytes=5000)
    answer = upload(world, **change)
    assert (answer.code, words in answer.json["message"]) == (code, True), answer.json["message"]
    assert kept(world.state) == []


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_archives_are_sent_and_asked_for_and_nothing_else(worlds: Worlds, method: str) -> None:
    answer = worlds().ask(method, place())
    assert answer.code == 405
    assert method in answer.json["message"]


def test_the_disk_is_never_filled(worlds: Worlds) -> None:
    world = worlds(spare_bytes=1 << 62)
    code, message = world.run(refused(world))
    assert code == 507
    assert "no room for the archive" in message
    assert kept(world.state) == []


def test_an_upload_that_stops_coming_is_given_up(worlds: Worlds) -> None:
    world = worlds(upload_idle_seconds=0.05)

    async def story() -> None:
        exchange = world.begin("PUT", place(), pieces=[DATA[:100]], content_type=GZIP)
        exchange.unfinished = True
        await exchange.until_ended()
        assert exchange.code == 400
        assert b"no data of the body arrived for 0.05 seconds" in exchange.sent

    world.run(story())
    assert kept(world.state) == []


def test_an_upload_that_comes_drop_by_drop_is_given_up(worlds: Worlds) -> None:
    world = worlds(upload_idle_seconds=0.05, upload_slowest=1 << 40)
    answer = upload(world, pieces=[b"x"] * 200_000)
    assert answer.code == 400
    assert "the archive comes too slowly" in answer.json["message"]
    assert kept(world.state) == []


def test_an_upload_that_hangs_up_leaves_nothing(worlds: Worlds) -> None:
    world = worlds()

    async def story() -> None:
        exchange = world.begin("PUT", place(), pieces=[DATA[:100]], content_type=GZIP)
        exchange.unfinished = True
        exchange.hang_up()
        await exchange.until_ended()
        assert not exchange.code, "nobody is there to read a response"

    world.run(story())
    assert kept(world.state) == []


def test_only_so_many_uploads_at_once(worlds: Worlds) -> None:
    world = worlds(uploads=1)

    async def story() -> None:
        first = world.begin("PUT", place(), pieces=[DATA[:100]], content_type=GZIP)
        first.unfinished = True
        while not kept(world.state):  # noqa: ASYNC110 - nobody tells of a file that is made
            await asyncio.sleep(0)
        assert (await refused(world, place(b"other")))[0] == 429
        world.api.end_streams()
        await first.until_ended()
        assert first.code == 503, "it is told to come again when the server goes down"

    world.run(story())
    assert kept(world.state) == []


def test_who_may_send_archives_and_who_may_ask(worlds: Worlds) -> None:
    world = worlds()
    editor = world.add_user("ed", Binding(Role.EDITOR, "default"))
    viewer = world.add_user("vi", Binding(Role.VIEWER, "default"))
    stranger = world.add_user("st", Binding(Role.EDITOR, "kube-system"))
    assert upload(world, token=viewer).code == 403
    assert upload(world, token=stranger).code == 403
    assert world.ask("HEAD", place(), token=stranger).code == 403
    assert kept(world.state) == []
    assert upload(world, token=editor).code == 201
    assert world.ask("HEAD", place(), token=viewer).code == 200


def test_uploads_are_in_the_audit_log(worlds: Worlds) -> None:
    world = worlds()
    upload(world)
    upload(world, path=place(b"other"))
    world.ask("HEAD", place())
    world.audit.close()
    lines = [json.loads(line) for line in (world.state / "audit.log").read_text().splitlines()]
    said = [(line["user"], line["verb"], line["resource"], line["name"], line["code"]) for line in lines]
    assert said == [
        ("admin", "create", "archives", digest_of(DATA), 201),
        ("admin", "create", "archives", digest_of(b"other"), 422),
    ]


def test_what_a_killed_server_left_unfinished_goes_at_the_next_start(worlds: Worlds, tmp_path: Path) -> None:
    directory = tmp_path / "archives" / "default"
    directory.mkdir(parents=True)
    (directory / f".{digest_of(DATA)}.tar.gz.7.part").write_bytes(DATA[:10])
    world = worlds()
    assert kept(world.state) == []
    assert upload(world).code == 201


# A real server, over TLS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("archives") / "state") as running:
        yield running


def _connected(server: Server) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls(), timeout=30)


def _headers(server: Server) -> dict[str, str]:
    return {"Content-Type": GZIP, "Authorization": f"Bearer {server.token}"}


def _put(server: Server, data: Any, digest: bytes) -> tuple[int, Any]:
    connection = _connected(server)
    try:
        connection.request("PUT", place(digest), data, _headers(server))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_many_upload_the_same_at_once(server: Server) -> None:
    """While they do, others are answered; afterwards it is there once, and the next is told at once."""
    data = os.urandom(1 << 20) * 20
    begun = threading.Barrier(4)

    def sent() -> Iterator[bytes]:
        yield data[: 1 << 20]
        begun.wait(30)
        yield data[1 << 20 :]

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: _put(server, sent(), data), range(4)))
    assert [code for code, _ in answers] == [201] * 4
    assert kept(server.state) == [f"default/{digest_of(data)}.tar.gz"]
    assert (server.state / "archives" / kept(server.state)[0]).read_bytes() == data
    assert _put(server, data, data)[0] == 200


def test_a_connection_that_breaks_leaves_nothing(server: Server) -> None:
    before = kept(server.state)
    connection = _connected(server)
    connection.putrequest("PUT", place())
    for name, value in {**_headers(server), "Content-Length": str(10 << 20)}.items():
        connection.putheader(name, value)
    connection.endheaders(b"x" * (3 << 20))
    while kept(server.state) == before:
        assert server.call("GET", "/healthz").code == 200
    assert isinstance(connection.sock, ssl.SSLSocket)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    while kept(server.state) != before:
        assert server.call("GET", "/healthz").code == 200


def test_a_server_that_is_killed_during_an_upload_keeps_nothing_of_it(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        connection = _connected(server)
        connection.putrequest("PUT", place())
        for name, value in {**_headers(server), "Content-Length": str(10 << 20)}.items():
            connection.putheader(name, value)
        connection.endheaders(b"x" * (3 << 20))
        while not kept(server.state):
            assert server.call("GET", "/healthz").code == 200
        server.kill()
        connection.close()
        server.start()
        assert kept(server.state) == []
        assert _put(server, DATA, DATA)[0] == 201
