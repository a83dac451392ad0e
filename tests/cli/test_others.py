"""Servers of other users on this machine: found by everybody, and never joined by a second one on the same GPUs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairway.cli.others import OtherServer, OthersServerError, advice, refuse_second_server, servers_of_others
from fairway.settings import Settings
from fairway.testing.servers import Server

AS_ANOTHER_USER = """
import json, os, sys
from pathlib import Path
from fairway.cli.others import OthersServerError, refuse_second_server, servers_of_others
from fairway.settings import Settings
os.setgroups([]); os.setgid(65534); os.setuid(65534)
said = ""
try:
    refuse_second_server(Settings(state=Path("/nonexistent")))
except OthersServerError as error:
    said = str(error)
refuse_second_server(Settings(state=Path("/nonexistent"), cpus="1", gpus="0"))
refuse_second_server(Settings(state=Path("/nonexistent"), api_only=True))
print(json.dumps({"found": [list(one) for one in servers_of_others()], "said": said}))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_told_of_the_server_and_how_to_get_in(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--cpus", "1", jobs=True) as server:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", AS_ANOTHER_USER], capture_output=True, text=True, check=True
        )
        assert [server.pid, "root", ""] in json.loads(done.stdout)["found"], "port 0 says nothing about the address"
    said = json.loads(done.stdout)["said"]
    assert "the server of user root (process" in said
    assert "fairway users add nobody --team TEAM -o kubeconfig > nobody.kubeconfig" in said
    assert "FAIRWAY_KUBECONFIG=nobody.kubeconfig" in said


def process(proc: Path, pid: int, *words: str) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


def test_servers_are_told_from_other_processes_by_their_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, 1, "python3", "-m", "fairway.cli.main", "serve", "--host", "0.0.0.0", "--port", "7000")  # noqa: S104
    process(tmp_path, 2, "python3", "/usr/bin/fairway", "serve")
    process(tmp_path, 3, "python3", "/usr/bin/fairway", "serve", "--api-only")
    process(tmp_path, 4, "python3", "/usr/bin/fairway", "jobs", "queue")
    process(tmp_path, 5, "vi", "serve")
    process(tmp_path, 6)
    (tmp_path / "self").mkdir()
    assert list(servers_of_others(tmp_path)) == [], "one's own servers are not others'"

    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    found = sorted(servers_of_others(tmp_path))
    assert [(one.pid, one.url) for one in found] == [(1, "https://0.0.0.0:7000"), (2, "https://127.0.0.1:7437")]


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        pytest.param({}, True, id="as usual"),
        pytest.param({"cpus": "4"}, True, id="the GPUs would be shared"),
        pytest.param({"gpus": "0"}, True, id="the CPUs would be shared"),
        pytest.param({"cpus": "4", "gpus": "2"}, True, id="GPUs by number are the same ones"),
        pytest.param({"cpus": "4", "gpus": "0"}, False, id="a part without GPUs"),
        pytest.param({"api_only": True}, False, id="runs nothing"),
    ],
)
def test_a_second_server_must_say_its_part_and_take_no_gpus(
    tmp_path: Path, options: dict[str, str], *, refused: bool
) -> None:
    settings = Settings(state=tmp_path, **options)  # type: ignore[arg-type]
    other = OtherServer(7, "ana", "https://127.0.0.1:7437")
    refuse_second_server(settings, [])
    if refused:
        with pytest.raises(OthersServerError, match="Ask ana for access"):
            refuse_second_server(settings, [other])
    else:
        refuse_second_server(settings, [other])


def test_several_servers_are_counted() -> None:
    others = [OtherServer(7, "ana", ""), OtherServer(8, "ben", "")]

    assert "the server of user ana (process 7) and 1 more run here" in advice(others)
