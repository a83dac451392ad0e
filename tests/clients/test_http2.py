"""HTTP/2 as real clients speak it: they choose it by themselves, and share one connection."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .kubectl import Kubectl

SOURCES = Path(__file__).parent / "manywatches"


def test_kubectl_speaks_http2(kubectl: Kubectl) -> None:
    shown = kubectl.with_variables(GODEBUG="http2debug=1").run("get configmaps")
    assert shown.code == 0
    assert "http2: Transport received HEADERS" in shown.errors


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize(("option", "version"), [("--http2", "2"), ("--http1.1", "1.1")])
def test_curl_gets_the_version_it_asks_for(server: Server, option: str, version: str) -> None:
    features = subprocess.run(["curl", "--version"], check=True, capture_output=True, text=True).stdout  # noqa: S607
    if option == "--http2" and "HTTP2" not in features:
        pytest.skip("this curl speaks no HTTP/2")
    command = ["curl", "--silent", "--insecure", option, "--write-out", "\n%{http_version} %{http_code}"]
    command += ["--header", f"Authorization: Bearer {server.token}", f"{server.url}/version"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout  # noqa: S603
    assert shown.splitlines()[-1] == f"{version} 200"


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go here")
def test_five_hundred_watches_and_writes_share_one_connection_and_end_with_the_server(tmp_path: Path) -> None:
    program = tmp_path / "manywatches"
    build = ["go", "build", "-o", str(program), "."]
    subprocess.run(build, cwd=SOURCES, check=True, timeout=300)  # noqa: S603
    with Server(tmp_path / "state") as server:
        command = [str(program), server.url, server.token, "default", "500", "200"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:  # noqa: S603
            assert client.stdout is not None
            try:
                seen = json.loads(client.stdout.readline())
                assert seen == {"connections": 1, "http2": 701, "created": 200}
                server.stop()
                assert json.loads(client.stdout.readline()) == {"clean": 500}
            finally:
                client.kill()
