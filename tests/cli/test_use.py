"""`fairway use` and `--context`: which server a command is for, and what is said when another server refuses."""

import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import CommandLine
from fairway.cli.servers import ServerTarget, Used, contexts, read_used, target, write_used
from fairway.client.rest import KubeconfigError
from fairway.managedjobs.configured import LaunchConfig
from fairway.server.certificates import own_certificate

from .test_completion import completed


def kubeconfig(path: Path, **servers: str) -> Path:
    """A kubeconfig with a context for each server; the first is the current one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "clusters": [{"name": name, "cluster": {"server": url}} for name, url in servers.items()],
        "users": [{"name": f"{name}-user", "user": {"token": "t"}} for name in servers],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": f"{name}-user", "namespace": f"ns-{name}"}}
            for name in servers
        ],
        "current-context": next(iter(servers)),
    }
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kube", prod="http://prod:1", dev="http://dev:1")))
    return state


class TestTarget:
    """Options, the configuration, `fairway use`, this machine: in this order."""

    def test_nothing_said_is_this_machine(self, state: Path) -> None:
        assert target(state, None, "", LaunchConfig()).own

    def test_a_context_alone_is_one_of_kubectls(self, state: Path, tmp_path: Path) -> None:
        assert target(state, None, "dev", LaunchConfig()) == ServerTarget(str(tmp_path / "kube"), "dev")

    def test_in_a_pod_its_service_account_is_a_context(self, state: Path) -> None:
        assert target(state, None, "in-cluster", LaunchConfig()) == ServerTarget("in-cluster", "in-cluster")

    def test_a_context_of_this_machines_server_is_this_machine(self, state: Path) -> None:
        kubeconfig(state / "kubeconfig", mine="http://127.0.0.1:1")

        assert target(state, None, "mine", LaunchConfig()) == ServerTarget("", "mine")

    def test_this_machine_has_a_name_before_its_server_has_run(self, state: Path) -> None:
        assert target(state, None, "fairway", LaunchConfig()).own

    def test_a_context_is_looked_for_in_the_configured_kubeconfig_first(self, state: Path, tmp_path: Path) -> None:
        other = kubeconfig(tmp_path / "other", dev="http://other:1")

        assert target(state, None, "dev", LaunchConfig(kubeconfig=str(other))) == ServerTarget(str(other), "dev")

    def test_an_unknown_context_is_refused_with_those_that_there_are(self, state: Path) -> None:
        with pytest.raises(KubeconfigError, match=r"no context 'porod' in .*kube \(prod, dev\)"):
            target(state, None, "porod", LaunchConfig())

    def test_what_is_used_counts_where_nothing_else_is_said(self, state: Path, tmp_path: Path) -> None:
        write_used(state, Used(kubeconfig=str(tmp_path / "kube"), context="prod", namespace="team-a"))

        assert target(state, None, "", LaunchConfig()) == ServerTarget(str(tmp_path / "kube"), "prod", "team-a")
        assert target(state, None, "dev", LaunchConfig()) == ServerTarget(str(tmp_path / "kube"), "dev")
        assert target(state, Path("x"), "", LaunchConfig()) == ServerTarget("x", "")
        assert target(state, None, "", LaunchConfig(kubeconfig="y")) == ServerTarget("y", "")

    def test_what_is_used_is_for_its_owner_alone_and_can_be_forgotten(self, state: Path) -> None:
        write_used(state, Used(kubeconfig="a", context="b"))
        assert (state / "use.json").stat().st_mode & 0o777 == 0o600

        write_used(state, None)
        assert read_used(state) is None

    def test_contexts_that_can_be_named(self, state: Path) -> None:
        assert [name for name, _ in contexts(state)] == ["fairway", "prod", "dev"]


def test_a_server_is_used_until_told_otherwise(state: Path) -> None:
    fairway = CommandLine(state)

    said = fairway("use", "prod", "-n", "team-a")
    assert "context prod (http://prod:1), namespace team-a" in said
    listed = {one["context"]: one for one in json.loads(fairway("use", "-o", "json"))}
    assert listed["prod"]["used"]
    assert listed["prod"]["namespace"] == "team-a"
    assert not listed["fairway"]["used"]

    assert "context prod (http://prod:1)" in fairway.refused("queue"), "the error says which server is meant"
    assert "context dev (http://dev:1)" in fairway.refused("queue", "--context", "dev")

    assert "server of this machine" in fairway("use", "--here")
    assert {one["context"] for one in json.loads(fairway("use", "-o", "json")) if one["used"]} == {"fairway"}


def test_a_configured_server_is_not_overridden_silently(state: Path) -> None:
    (state / "config.yaml").write_text("server: {context: dev}\n")

    assert "overrides `fairway use`" in CommandLine(state).refused("use", "prod")


def test_contexts_are_completed(state: Path) -> None:
    assert completed(state, "use", "p") == ["prod"]
    assert completed(state, "queue", "--context", "") == ["fairway", "prod", "dev"]


Answer = Callable[[str, str], tuple[int, Any]]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """An API server that answers so; its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            code, body = answer(self.command, self.path)
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_HEAD = _answer  # noqa: N815 - as the library calls them

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def cluster(refusal: tuple[int, Any]) -> Answer:
    """A Kubernetes cluster that refuses everything but its version."""
    return lambda _method, path: (200, {"gitVersion": "v1.34.4"}) if path == "/version" else refusal


def status(code: int, reason: str, message: str) -> tuple[int, Any]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


FORBIDDEN = (
    '{resource} is forbidden: User "{user}" cannot list resource "{resource}" in API group "{group}"'
    ' in the namespace "team-a"'
)
BOB = FORBIDDEN.format(user="bob", resource="managedjobs", group="fairway.dev")
FILES = BOB.replace("list", "create").replace("managedjobs", "configmaps").replace("fairway.dev", "")
ACCOUNT = FORBIDDEN.format(user="system:serviceaccount:team-a:runner", resource="pods", group="")
REFUSALS = {
    "a cluster without Fairway": (
        (404, "404 page not found\n"),
        ["has no Fairway", "fairway cluster install --context prod", "fairway use --here"],
    ),
    "a user who may not": (
        status(403, "Forbidden", BOB),
        [
            "user bob lacks the right to list managedjobs.fairway.dev in namespace team-a",
            "kubectl create rolebinding fairway-users --clusterrole=edit --user=bob -n team-a",
        ],
    ),
    "a user who may not store the files of a launch": (
        status(403, "Forbidden", FILES),
        [
            "user bob lacks the right to create configmaps in namespace team-a",
            "kubectl create rolebinding fairway-users --clusterrole=edit --user=bob -n team-a",
        ],
    ),
    "a service account that may not": (
        status(403, "Forbidden", ACCOUNT),
        [
            "kubectl create role fairway-list-pods --verb=list --resource=pods -n team-a",
            "--role=fairway-list-pods --serviceaccount=team-a:runner -n team-a",
        ],
    ),
    "credentials that are not accepted": (
        status(401, "Unauthorized", "Unauthorized"),
        ["does not accept the credentials of user 'prod-user'", "have expired", "kubectl --context prod auth whoami"],
    ),
    "a webhook that is away": (
        status(500, "InternalError", 'Internal error occurred: failed calling webhook "x": connection refused'),
        ["fairway cluster doctor --context prod"],
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_of_a_cluster_comes_with_the_way_out(case: str, state: Path, tmp_path: Path) -> None:
    refusal, sentences = REFUSALS[case]
    with answering(cluster(refusal)) as url:
        path = kubeconfig(tmp_path / "refusing", prod=url)
        said = CommandLine(state).refused("queue", "--kubeconfig", str(path))

    for sentence in sentences:
        assert sentence in said


def test_a_missing_login_program_comes_with_the_way_out(state: Path, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "refusing", prod="http://127.0.0.1:1")
    document = json.loads(path.read_text())
    plugin = {"command": "no-such-login", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    document["users"][0]["user"] = {"exec": plugin}
    path.write_text(json.dumps(document))

    said = CommandLine(state).refused("queue", "--kubeconfig", str(path))

    assert "there is no program 'no-such-login'" in said
    assert "install it, or choose another context" in said


def test_an_expired_certificate_comes_with_the_way_out(state: Path, tmp_path: Path) -> None:
    made = own_certificate(tmp_path, "127.0.0.1", datetime(2010, 1, 1, tzinfo=UTC))  # good for ten years
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.certificate, made.key)
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        path = kubeconfig(tmp_path / "refusing", prod=f"https://127.0.0.1:{server.server_port}")
        document = json.loads(path.read_text())
        document["clusters"][0]["cluster"]["certificate-authority"] = str(made.authority)
        path.write_text(json.dumps(document))
        said = CommandLine(state).refused("queue", "--kubeconfig", str(path))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

    assert "certificate has expired" in said
    assert "check the clock of this machine, or have the cluster's certificates renewed" in said
