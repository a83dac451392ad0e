"""Watchers that take nothing: what waits for them is bounded for each and in all, and those who read go on."""

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from fairway.server.http.connection import Backlog
from fairway.testing.servers import Server

MAPS = "/api/v1/namespaces/default/configmaps"


class Connection:
    """As much of a connection as is asked for."""

    def __init__(self) -> None:
        self.is_cut_off = False

    def abort(self) -> None:
        self.is_cut_off = True


def test_the_slowest_are_cut_off_until_the_rest_fits() -> None:
    backlog, connections = Backlog(100), [Connection() for _ in range(4)]
    for connection in connections[:3]:
        backlog.set(connection, 30)
    backlog.remove(connections[0])
    backlog.set(connections[0], 30)
    assert not any(one.is_cut_off for one in connections)
    backlog.set(connections[3], 50)
    assert [one.is_cut_off for one in connections] == [False, True, True, False]
    backlog.set(connections[3], 500)
    assert connections[3].is_cut_off


def watch(server: Server) -> socket.socket:
    target = urlsplit(server.url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(30)
    client.connect((target.hostname, target.port))
    head = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    client.sendall(head.encode())
    return client


def test_many_stalled_watchers_of_large_objects_take_little_memory(tmp_path: Path) -> None:
    """A fifth of those who once took 1.2 GB: 300 watchers of events of 300 KB each."""
    with Server(tmp_path / "state", "--insecure") as server:
        clients = [watch(server) for _ in range(300)]
        reader = watch(server)
        try:
            for client in (*clients, reader):
                assert client.recv(12) == b"HTTP/1.1 200"
            process = psutil.Process(server.pid)
            before = process.memory_info().rss
            for number in range(20):
                manifest = {"metadata": {"name": f"map-{number}"}, "data": {"key": "x" * 300_000}}
                assert server.call("POST", MAPS, manifest).code == 201
            seen = b""
            while b'"name":"map-19"' not in seen:
                seen = seen[-100:] + reader.recv(1 << 16)
            grown = process.memory_info().rss - before
        finally:
            for client in (*clients, reader):
                client.close()
    assert grown < 150 << 20, f"{grown >> 20} MB: {json.dumps([len(clients), 20])}"
