"""How `client/http` is let in by a real kube-apiserver: exec plugins, certificates, service accounts, server names."""

import asyncio
import base64
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.apiserver import ApiServer
from tools.cluster.certificates import Pair

from cluster.api import authority_of, request
from fairway.client.http.transport import Transport, open_transport
from fairway.client.rest.access import Access
from fairway.client.rest.errors import Unreachable
from fairway.client.rest.kubeconfig import in_cluster
from fairway.errors import Unauthorized
from fairway.runtime.clock import SystemClock

_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def whoami(transport: Transport) -> str:
    """The user that the server takes this client for."""
    review = await transport.json("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=_REVIEW)
    return str(review["status"]["userInfo"]["username"])


def play(kubeconfig: Path, story: Callable[[Transport], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), open_transport(kubeconfig, "", SystemClock()) as transport:
            await story(transport)

    asyncio.run(run())


def kubeconfig(path: Path, apiserver: ApiServer, user: dict[str, Any], **cluster: Any) -> Path:
    authority = base64.b64encode(authority_of(apiserver).read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": apiserver.url, "certificate-authority-data": authority, **cluster}}
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


def plugin(path: Path, statuses: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The exec section for a program that prints these, one after the other, and the last one again and again."""
    for number, status in enumerate(statuses):
        document = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        (path / f"status-{number}").write_text(json.dumps(document))
    program = path / "plugin"
    program.write_text(
        f'#!/bin/sh\ncd "{path}"\nn=$(cat runs 2>/dev/null || echo 0)\necho $((n + 1)) > runs\n'
        "while [ ! -e status-$n ]; do n=$((n - 1)); done\ncat status-$n\n"
    )
    program.chmod(0o755)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def as_status(pair: Pair, expires: str) -> dict[str, Any]:
    return {
        "clientCertificateData": pair.certificate.read_text(),
        "clientKeyData": pair.key.read_text(),
        "expirationTimestamp": expires,
    }


def test_an_exec_plugin_gives_certificates_and_is_run_again_when_they_expire(
    apiserver: ApiServer, tmp_path: Path
) -> None:
    issue = apiserver.plane.authority.issue
    first, second = (issue(name, name) for name in ("exec-one", "exec-two"))
    user = {"exec": plugin(tmp_path, [as_status(first, in_seconds(6)), as_status(second, in_seconds(3600))])}

    async def story(transport: Transport) -> None:
        assert await whoami(transport) == "exec-one"
        while await whoami(transport) == "exec-one":
            pass
        assert [await whoami(transport) for _ in range(20)] == ["exec-two"] * 20
        assert (tmp_path / "runs").read_text().strip() == "2"

    play(kubeconfig(tmp_path / "kubeconfig", apiserver, user), story)


def test_a_token_of_an_exec_plugin_that_is_refused_is_renewed_once(apiserver: ApiServer, tmp_path: Path) -> None:
    account, token = service_account(apiserver, "plugin")
    user = {"exec": plugin(tmp_path, [{"token": "wrong"}, {"token": token}])}
    play(
        kubeconfig(tmp_path / "kubeconfig", apiserver, user),
        lambda transport: expect(whoami(transport), account),
    )

    (tmp_path / "bad").mkdir()
    user = {"exec": plugin(tmp_path / "bad", [{"token": "wrong"}])}

    async def refused(transport: Transport) -> None:
        with pytest.raises(Unauthorized):
            await whoami(transport)
        assert (tmp_path / "bad" / "runs").read_text().strip() == "2"

    play(kubeconfig(tmp_path / "kubeconfig", apiserver, user), refused)


async def expect(answer: Awaitable[str], wanted: str) -> None:
    assert await answer == wanted


def test_rotated_certificate_files_are_used_without_a_restart(apiserver: ApiServer, tmp_path: Path) -> None:
    issue = apiserver.plane.authority.issue
    shown, key = tmp_path / "certificate", tmp_path / "key"

    def rotate(name: str) -> None:
        pair = issue(name, name)
        for source, target in ((pair.certificate, shown), (pair.key, key)):
            shutil.copyfile(source, target.with_suffix(".new"))
            target.with_suffix(".new").replace(target)

    rotate("file-one")

    async def story(transport: Transport) -> None:
        assert await whoami(transport) == "file-one"
        rotate("file-two")
        assert await whoami(transport) == "file-two"

    user = {"client-certificate": "certificate", "client-key": "key"}
    play(kubeconfig(tmp_path / "kubeconfig", apiserver, user), story)


def service_account(apiserver: ApiServer, name: str) -> tuple[str, str]:
    """A service account of `default`, and a token of it."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    request(apiserver, "POST", accounts, {"metadata": {"name": name}})
    token = request(apiserver, "POST", f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 600}})
    return f"system:serviceaccount:default:{name}", token["status"]["token"]


def test_the_service_account_of_a_pod_and_its_rotated_token(apiserver: ApiServer, tmp_path: Path) -> None:
    (first, token), (second, other) = service_account(apiserver, "pod-one"), service_account(apiserver, "pod-two")
    (tmp_path / "token").write_text(token)
    (tmp_path / "namespace").write_text("team")
    shutil.copyfile(authority_of(apiserver), tmp_path / "ca.crt")
    host, _, port = apiserver.url.removeprefix("https://").partition(":")
    environment = {**os.environ, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}

    async def story() -> None:
        async with Transport(Access(in_cluster(environment, tmp_path)), SystemClock()) as transport:
            assert transport.namespace == "team"
            assert await whoami(transport) == first
            (tmp_path / "token").write_text(other)
            assert await whoami(transport) == second

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "works"),
    [pytest.param("localhost", True, id="on the certificate"), pytest.param("other", False, id="not")],
)
def test_the_name_that_the_kubeconfig_expects_on_the_certificate(
    apiserver: ApiServer, tmp_path: Path, name: str, *, works: bool
) -> None:
    pair = apiserver.plane.authority.issue(f"sni-{name}", "sni")
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}

    async def story(transport: Transport) -> None:
        if works:
            assert await whoami(transport) == "sni"
        else:
            with pytest.raises(Unreachable, match="untrusted certificate"):
                await whoami(transport)

    play(kubeconfig(tmp_path / "kubeconfig", apiserver, user, **{"tls-server-name": name}), story)
