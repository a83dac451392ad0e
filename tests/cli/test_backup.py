"""`fairway backup`: a copy that opens."""

import shutil
import stat
from pathlib import Path

from fairway.testing.servers import Server

from .conftest import CommandLine

CONFIGS = "/api/v1/namespaces/default/configmaps"


def names(server: Server) -> list[str]:
    return [one["metadata"]["name"] for one in server.call("GET", CONFIGS).body["items"]]


def test_a_copy_of_a_running_server_opens_as_of_its_moment(fairway: CommandLine, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with Server(fairway.state) as server:
        server.call("POST", CONFIGS, {"metadata": {"name": "before"}})
        said = fairway("backup", str(copy))
        server.call("POST", CONFIGS, {"metadata": {"name": "after"}})

    assert said.startswith(f"Copied to {copy} (")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    shutil.copy(copy, elsewhere / "fairway.db")
    with Server(elsewhere) as restored:
        assert names(restored) == ["before"]
        assert restored.call("POST", CONFIGS, {"metadata": {"name": "new"}}).code == 201


def test_a_copy_without_a_server_is_as_good(fairway: CommandLine, tmp_path: Path) -> None:
    with Server(fairway.state) as server:
        server.call("POST", CONFIGS, {"metadata": {"name": "kept"}})
    copy = tmp_path / "copy.db"

    fairway("backup", str(copy))

    shutil.copy(copy, fairway.state / "fairway.db")
    with Server(fairway.state) as server:
        assert names(server) == ["kept"]


def test_nothing_is_overwritten_and_nothing_is_made_up(fairway: CommandLine, tmp_path: Path) -> None:
    taken = tmp_path / "taken.db"
    assert "there is no state to copy" in fairway.refused("backup", str(taken))
    assert not taken.exists()

    with Server(fairway.state):
        pass
    taken.write_text("mine")
    assert f"{taken} exists already" in fairway.refused("backup", str(taken))
    assert taken.read_text() == "mine"
