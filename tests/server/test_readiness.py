"""`/readyz` says no while nothing can be written, and yes again after that. The failure is real: no file may grow."""

import resource
import time
from collections.abc import Callable
from pathlib import Path

from fairway.testing.servers import Server

MAPS = "/api/v1/namespaces/default/configmaps"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def limit_files(server: Server, size: int) -> None:
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))


def test_a_server_that_cannot_write_is_not_ready_until_it_can_again(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        assert server.call("GET", "/readyz").body == "ok"
        assert server.call("GET", "/readyz?verbose").body.splitlines() == [
            "[+]ping ok",
            "[+]listening ok",
            "[+]storage ok",
            "readyz check passed",
        ]
        limit_files(server, 0)
        assert server.call("POST", MAPS, {"metadata": {"name": "a"}}).code == 500
        refused = server.call("GET", "/readyz", token="")
        assert refused.code == 503
        assert "[-]storage failed: nothing can be written" in refused.body
        assert str(tmp_path) not in refused.body, "who has no token need not know where files are"
        assert server.call("GET", "/readyz/ping").code == 200
        assert server.call("GET", "/readyz/storage").code == 503
        assert server.call("GET", "/readyz/nothing").code == 404
        assert server.call("GET", "/livez").code == 200, "a restart would not help"
        assert server.call("GET", MAPS).code == 200

        limit_files(server, resource.RLIM_INFINITY)
        assert server.call("GET", "/readyz").body == "ok", "it tries by itself"
        assert server.call("POST", MAPS, {"metadata": {"name": "a"}}).code == 201
        assert "writes fail" in server.output.read_text() or "writes succeed again" in server.output.read_text()


def test_a_server_that_nobody_writes_to_notices_as_well(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        limit_files(server, 0)
        until(lambda: server.call("GET", "/readyz").code == 503)
        limit_files(server, resource.RLIM_INFINITY)
        assert server.call("GET", "/readyz").code == 200
