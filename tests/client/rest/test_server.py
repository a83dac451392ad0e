"""Every request against a real server, over TLS, as the command line sends them."""

import hashlib
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.client.rest import Rest, Unreachable, open_rest, paths
from fairway.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from fairway.testing.servers import Server

_MAPS = paths.resource("v1", "configmaps", "default")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("rest") / "state") as running:
        yield running


@pytest.fixture
def rest(server: Server) -> Iterator[Rest]:
    with open_rest(server.kubeconfig) as opened:
        yield opened


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def path(name: str) -> str:
    return paths.resource("v1", "configmaps", "default", name)


def test_an_object_from_its_making_to_its_end(rest: Rest) -> None:
    made = rest.create(_MAPS, config_map("life", a="1"), fieldManager="tests")
    assert rest.get(path("life")) == made
    assert rest.exists(path("life"))

    assert rest.patch(path("life"), {"data": {"b": "2"}})["data"] == {"a": "1", "b": "2"}
    removal = [{"op": "remove", "path": "/data/a"}]
    assert rest.patch(path("life"), removal, patch_type="json")["data"] == {"b": "2"}
    assert rest.patch(path("life"), {"data": {"c": "3"}}, patch_type="strategic")["data"] == {"b": "2", "c": "3"}
    current = rest.get(path("life"))
    assert rest.replace(path("life"), {**current, "data": {"d": "4"}})["data"] == {"d": "4"}

    rest.delete(path("life"), {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert not rest.exists(path("life"))


def test_applying_makes_and_changes(rest: Rest) -> None:
    assert rest.apply(path("applied"), config_map("applied", a="1"), manager="one", force=False)["data"] == {"a": "1"}

    with pytest.raises(Conflict):
        rest.apply(path("applied"), config_map("applied", a="2"), manager="two", force=False)

    assert rest.apply(path("applied"), config_map("applied", a="2"), manager="two", force=True)["data"] == {"a": "2"}


def test_refusals(rest: Rest) -> None:
    rest.create(_MAPS, config_map("there"))

    with pytest.raises(AlreadyExists, match='configmaps "there" already exists'):
        rest.create(_MAPS, config_map("there"))
    with pytest.raises(NotFound, match='configmaps "absent" not found'):
        rest.get(path("absent"))
    with pytest.raises(Invalid):
        rest.create(_MAPS, config_map("Not A Name"))
    with pytest.raises(Conflict):
        rest.replace(path("there"), {**config_map("there"), "metadata": {"name": "there", "resourceVersion": "1"}})


def test_who_is_not_known_or_not_allowed_is_told(server: Server, rest: Rest, tmp_path: Path) -> None:
    add = ["users", "add", "vera", "--role", "viewer", "--everywhere", "-o", "kubeconfig"]
    printed = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "fairway.cli.main", *add, "--state", str(server.state)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    kubeconfig = tmp_path / "vera"
    kubeconfig.write_text(printed)

    with open_rest(kubeconfig) as vera:
        assert vera.context == "vera"
        assert vera.get(_MAPS)["kind"] == "ConfigMapList"
        with pytest.raises(Forbidden, match="vera"):
            vera.create(_MAPS, config_map("forbidden"))

    kubeconfig.write_text(printed.replace("token: fw_", "token: fw_x"))
    with open_rest(kubeconfig) as stranger, pytest.raises(Unauthorized):
        stranger.get(_MAPS)


def test_lists_in_pages(rest: Rest) -> None:
    for number in range(3):
        rest.create(
            _MAPS, {**config_map(f"page-{number}"), "metadata": {"name": f"page-{number}", "labels": {"p": ""}}}
        )

    first = rest.get(_MAPS, labelSelector="p", limit=2)
    rest_of_it = rest.get(_MAPS, labelSelector="p", limit=2, continue_=first["metadata"]["continue"])

    assert [len(first["items"]), len(rest_of_it["items"])] == [2, 1]


def test_a_watch_tells_of_changes_until_the_server_ends_it(rest: Rest) -> None:
    since = rest.get(_MAPS)["metadata"]["resourceVersion"]
    selector = "metadata.name=watched"
    events = rest.watch(_MAPS, resourceVersion=since, fieldSelector=selector, timeoutSeconds=1)
    with rest.clone() as other:
        other.create(_MAPS, config_map("watched"))
        other.delete(path("watched"))

        assert [event["type"] for event in events] == ["ADDED", "DELETED"]


def test_bookmarks_are_passed_on(rest: Rest) -> None:
    query: dict[str, Any] = {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"}
    events = rest.watch(_MAPS, timeoutSeconds=5, allowWatchBookmarks=True, **query)

    assert any(event["type"] == "BOOKMARK" for event in events)
    events.close()


def test_a_watch_that_another_thread_gives_up_ends(rest: Rest) -> None:
    watching = rest.clone()
    events = watching.watch(_MAPS)
    next(events)  # something is there, from the tests above or the server itself
    ended = threading.Event()

    def listen() -> None:
        with pytest.raises(Unreachable):
            list(events)
        ended.set()

    thread = threading.Thread(target=listen)
    thread.start()
    watching.abort()

    assert ended.wait(10)
    thread.join()
    watching.close()


def test_answers_as_they_come(rest: Rest) -> None:
    assert b"serverAddressByClientCIDRs" in rest.raw("/api")
    assert rest.raw(_MAPS, accept="application/yaml").startswith(b"apiVersion: v1")
    assert b"".join(rest.stream("/readyz")) == b"ok"


def test_a_transaction_is_all_or_nothing(rest: Rest) -> None:
    create = [{"verb": "create", "manifest": config_map(name)} for name in ("first", "second")]
    results = rest.transact("default", create)
    assert [result["metadata"]["name"] for result in results] == ["first", "second"]

    delete = {"verb": "delete", "apiVersion": "v1", "kind": "ConfigMap", "name": "first"}
    with pytest.raises(AlreadyExists):
        rest.transact("default", [delete, create[1]])
    assert rest.exists(path("first"))

    assert rest.transact("default", [delete]) == [None]
    assert not rest.exists(path("first"))


def test_an_archive_is_sent(rest: Rest) -> None:
    content = os.urandom(600_000)
    digest = hashlib.sha256(content).hexdigest()
    where = paths.archive("default", digest)
    assert not rest.exists(where)

    rest.upload(where, io.BytesIO(content), len(content), "application/gzip")

    assert rest.exists(where)


def test_a_server_that_restarts_is_found_again(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        rest = open_rest(server.kubeconfig)
        rest.create(_MAPS, config_map("kept"))
        port = int(server.url.rpartition(":")[2])

        server.stop()
        with pytest.raises(Unreachable, match="connection refused"):
            rest.get(path("kept"))
        server.start(port=port)

        assert rest.get(path("kept"))["metadata"]["name"] == "kept"
        rest.close()


def test_kubectl_reads_the_kubeconfig_that_is_quick_to_read(server: Server) -> None:
    command = ["kubectl", "--kubeconfig", str(server.kubeconfig), "config", "view", "-o", "jsonpath={.current-context}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - no user's words

    assert server.kubeconfig.read_bytes().startswith(b"{")
    assert ran.stdout == "fairway"
