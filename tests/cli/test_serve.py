"""`fairway serve`: where it listens, what it shows its clients, and what it refuses."""

import http.client
import json
import os
import signal
import socket
import ssl
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairway.server.signing import signed
from fairway.testing.servers import DidNotStart, Server

from .conftest import CommandLine


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Files with a certificate that somebody brought, and its key; the authority is in the first as well."""
    now = datetime.now(UTC)
    made = signed(["127.0.0.1", "fairway.example"], now - timedelta(hours=1), now + timedelta(days=1))
    (tmp_path / "server.crt").write_bytes(made.certificate + made.authority)
    (tmp_path / "server.key").write_bytes(made.key)
    return str(tmp_path / "server.crt"), str(tmp_path / "server.key")


def test_it_says_where_it_is(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        said = server.output.read_text().splitlines()

        assert f"Fairway is serving at {server.url}" in said
        assert f"export KUBECONFIG={server.kubeconfig}" in said
        assert server.url.startswith("https://127.0.0.1:")


def test_a_second_server_on_the_same_state_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as first:
        with pytest.raises(DidNotStart, match=f"is in use by process {first.pid}, which is still running"):
            Server(tmp_path / "state").start()

        assert first.call("GET", "/readyz") == (200, "ok")


def test_the_state_is_free_again_after_a_kill(tmp_path: Path) -> None:
    server = Server(tmp_path / "state").start()
    made = server.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}}).body
    token = server.token
    server.kill()

    with server:
        assert server.token == token
        found = server.call("GET", "/api/v1/namespaces/default/configmaps/kept").body
        assert found == made
        later = server.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "later"}}).body
        assert int(later["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def names_shown(url: str, authority: str) -> set[str]:
    """For whom the certificate stands that a server shows, to a client that trusts this authority."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host) as safe:
        shown = safe.getpeercert()
    alternatives: Any = (shown or {}).get("subjectAltName", ())
    return {name for _, name in alternatives}


def test_a_certificate_that_is_given_is_shown(tmp_path: Path, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    with Server(tmp_path / "state", "--tls-cert", cert, "--tls-key", key) as server:
        assert names_shown(server.url, cert) == {"127.0.0.1", "fairway.example"}
        assert server.call("GET", "/api/v1/namespaces/default").code == 200, "the kubeconfig trusts it"


def test_its_own_certificate_stands_for_this_machine(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        assert names_shown(server.url, str(server.state / "tls" / "ca.crt")) == {
            "localhost",
            "127.0.0.1",
            "0:0:0:0:0:0:0:1",
        }
        before = (server.state / "tls" / "tls.crt").read_bytes()
        server.restart()
        assert (server.state / "tls" / "tls.crt").read_bytes() == before


def test_plain_http_on_demand(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--insecure") as server:
        assert server.url.startswith("http://")
        assert server.call("GET", "/api/v1/namespaces/default").code == 200
        assert server.call("GET", "/api/v1/namespaces/default", token="").code == 403


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param(
            ["--host", "0.0.0.0"],  # noqa: S104 - refused
            "--host 0.0.0.0 can be reached from other machines",
            id="beyond this machine without a certificate",
        ),
        pytest.param(["--host", "::"], "Give --tls-cert and --tls-key, or --insecure", id="the same with IPv6"),
        pytest.param(["--tls-cert", "x"], "--tls-cert and --tls-key belong together", id="a certificate without a key"),
        pytest.param(["--tls-cert", "x", "--tls-key", "y"], "--tls-cert x: there is no such file", id="no such file"),
        pytest.param(["--port", "70000"], "a port is a number from 0 to 65535", id="no such port"),
        pytest.param(["--host", "192.0.2.1", "--insecure"], "cannot listen on 192.0.2.1:", id="not an address of ours"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(fairway: CommandLine, options: list[str], want: str) -> None:
    said = fairway.refused("serve", *options)

    assert want in said
    assert len(said.splitlines()) == 1


def test_files_that_are_no_certificate_are_refused(fairway: CommandLine, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not a certificate")

    said = fairway.refused("serve", "--port", "0", "--tls-cert", str(wrong), "--tls-key", str(wrong))

    assert str(wrong) in said


def test_a_certificate_lets_it_listen_everywhere(tmp_path: Path, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    everywhere = "0.0.0.0"  # noqa: S104 - for a moment, with a certificate
    with Server(tmp_path / "state", "--host", everywhere, "--tls-cert", cert, "--tls-key", key) as server:
        local = f"https://127.0.0.1:{server.url.rpartition(':')[2]}"
        assert names_shown(local, cert) == {"127.0.0.1", "fairway.example"}


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o770], ids=oct)
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["up", "--port", "0"], ["jobs", "queue"]], ids=" ".join)
def test_a_state_directory_that_others_can_enter_is_refused(
    fairway: CommandLine, mode: int, command: list[str]
) -> None:
    fairway.state.mkdir()
    fairway.state.chmod(mode)

    said = fairway.refused(*command).splitlines()[-1]

    assert said == (
        f"error: the state directory {fairway.state} can be read by others (mode {mode:04o}): it holds tokens and "
        f"keys; chmod 700 {fairway.state}"
    )
    assert list(fairway.state.iterdir()) == []


def test_any_good_certificate_serves_everywhere_under_a_name_that_it_has(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    made = signed(["localhost", "fairway.example"], now - timedelta(hours=1), now + timedelta(days=5))
    (tmp_path / "leaf.crt").write_bytes(made.certificate)
    (tmp_path / "leaf.key").write_bytes(made.key)
    brought = ("--tls-cert", str(tmp_path / "leaf.crt"), "--tls-key", str(tmp_path / "leaf.key"))
    everywhere = ("--host", "0.0.0.0")  # noqa: S104 - for a moment, with a certificate

    with Server(tmp_path / "state", *everywhere, *brought) as server:
        assert server.url.startswith("https://localhost:")
        done = CommandLine(server.state).run("get", "namespaces")
        assert done.returncode == 0, done.stderr
        assert "ends in 4 days" in server.output.read_text()
    with Server(tmp_path / "other", *everywhere, *brought, "--public-name", "fairway.example") as server:
        assert server.url.startswith("https://fairway.example:")
    with pytest.raises(DidNotStart, match=r"--public-name wrong.example: the certificate .* is for localhost, fairway"):
        Server(tmp_path / "third", *everywhere, *brought, "--public-name", "wrong.example").start()


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    server = Server(tmp_path / "state").start()

    os.kill(server.pid, signal.SIGINT)
    server.stop()

    assert "Traceback" not in server.output.read_text()
    with server:
        assert server.call("GET", "/readyz").code == 200


def test_version(fairway: CommandLine) -> None:
    assert fairway("version") == "fairway 0.1.0\n"
    assert json.loads(fairway("version", "--output", "json")) == {"version": "0.1.0"}


@pytest.mark.parametrize("asked", ["/api/v1/namespaces", "/api/v1/namespaces?watch=true"], ids=["idle", "watching"])
def test_it_does_not_wait_for_clients_that_only_sit_there(tmp_path: Path, asked: str) -> None:
    server = Server(tmp_path / "state").start()
    client = http.client.HTTPSConnection(server.url.removeprefix("https://"), context=server.tls())
    with closing(client):
        client.request("GET", asked, headers={"Authorization": f"Bearer {server.token}"})
        response = client.getresponse()
        if "watch" not in asked:
            response.read()

        server.stop()

    assert "timeout graceful shutdown exceeded" not in server.output.read_text()
