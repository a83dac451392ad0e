"""A launch whose answer is lost is sent again and never doubled, whether a proxy cuts it or the server dies."""

import re
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .conftest import JOBS, Commands

_REQUEST = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE) /")
WAITS = ("--queue", "nowhere", "task.yaml")
"""A task that stays in its queue."""


class Proxy:
    """Passes everything on between the command line and a server that speaks plain HTTP, but for some answers.

    The answers to the first `cuts` transactions are received from the server, so they are committed, and then
    `forwarded` bytes of them are passed on before the connection is cut.
    """

    def __init__(self, port: int, cuts: int, forwarded: int = 0, then: Callable[[], int] | None = None) -> None:
        self.port = port
        self.cuts = cuts
        self.seen = 0
        self._forwarded = forwarded
        self._then = then
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as server:
            lost = False
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if client in ready:
                    data = client.recv(1 << 16)
                    if not data:
                        return
                    if _REQUEST.match(data):
                        is_transaction = b"/transactions " in data.split(b"\r\n", 1)[0]
                        self.seen += is_transaction
                        lost = is_transaction and self.seen <= self.cuts
                    server.sendall(data)
                    continue
                data = server.recv(1 << 16)
                if not data:
                    return
                client.sendall(data[: self._forwarded] if lost else data)
                if lost:  # the server answers when it is durable
                    if self._then is not None:
                        self.port = self._then()
                    return


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "task.yaml").write_text("run: 'true'\n")
    with Server(tmp_path / "plain", "--insecure", jobs=True) as server:
        yield server


@contextmanager
def through(fairway: Commands, server: Server, proxy: Proxy, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command line reaches the server by way of the proxy."""
    kubeconfig = fairway.directory / "proxied"
    kubeconfig.write_text(server.kubeconfig.read_text().replace(server.url, proxy.url))
    kubeconfig.chmod(0o600)
    patch.setenv("FAIRWAY_KUBECONFIG", str(kubeconfig))
    try:
        yield
    finally:
        proxy.close()


def ids(server: Server) -> list[int]:
    return sorted(one["spec"]["id"] for one in server.call("GET", JOBS).body["items"])


@pytest.mark.parametrize("jobs", [1, 1000])
@pytest.mark.parametrize(("cuts", "forwarded"), [(1, 0), (1, 40), (3, 0)], ids=["nothing", "half", "three times"])
def test_an_answer_that_is_lost_is_asked_for_again(
    fairway: Commands, plain: Server, monkeypatch: pytest.MonkeyPatch, jobs: int, cuts: int, forwarded: int
) -> None:
    proxy = Proxy(int(plain.url.rpartition(":")[2]), cuts, forwarded)
    with through(fairway, plain, proxy, monkeypatch):
        said = fairway.run("jobs", "launch", "--async", "--num-jobs", str(jobs), "--secret", "A=b", *WAITS)

    assert (said.code, said.output) == (0, "1\n" if jobs == 1 else "1-1000\n")
    assert said.errors.count("The response of the server was lost; retrying ...") == 1
    assert proxy.seen == cuts + 1
    assert ids(plain) == list(range(1, jobs + 1))
    assert len(plain.call("GET", "/api/v1/namespaces/default/secrets").body["items"]) == 1


def test_a_server_that_dies_after_the_commit_knows_it_when_it_is_back(
    fairway: Commands, plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed() -> int:
        plain.kill()
        return int(plain.start().url.rpartition(":")[2])

    proxy = Proxy(int(plain.url.rpartition(":")[2]), 1, then=killed)
    with through(fairway, plain, proxy, monkeypatch):
        said = fairway.run("jobs", "launch", "--async", "--num-jobs", "1000", *WAITS)

    assert (said.code, said.output) == (0, "1-1000\n"), said
    assert ids(plain) == list(range(1, 1001))


def test_nobody_listening_is_an_error_at_once(
    fairway: Commands, plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(1, 0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        proxy.url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with through(fairway, plain, proxy, monkeypatch):
        said = fairway.refused("jobs", "launch", "--async", *WAITS)

    assert said.startswith(f"error: {proxy.url} does not answer: connection refused")


def test_a_change_whose_answer_is_lost_is_made_once(
    fairway: Commands, plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_KUBECONFIG", str(plain.kubeconfig))
    fairway("jobs", "launch", "--async", *WAITS)
    proxy = Proxy(int(plain.url.rpartition(":")[2]), 1)
    with through(fairway, plain, proxy, monkeypatch):
        assert fairway.run("down", "-y", "--async", "1").code == 0

    assert ids(plain) == []
