"""The decider in another process: asked over TLS with its token, and what is said while it does not answer."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllers.admission.plays import Play, play
from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.client.explainer import RemoteExplainer, secret_of
from fairway.controllers.decider.stored import StoredExplainer
from fairway.runtime.clock import SystemClock
from fairway.server.certificates import Certificate, own_certificate
from fairway.server.endpoint import ControllerEndpoint
from fairway.server.http.frames import PREFACE
from fairway.server.listening import bound_socket
from fairway.testing.builders import cluster_queue, flavor, local_queue, workload
from fairway.testing.clusters import LocalCluster, cluster_on
from server.http.client import SETTINGS, Client, frame

TOKEN = "the-token-of-this-endpoint"  # noqa: S105
QUEUES = (flavor(), cluster_queue("cq", cpu=4, within="LowerPriority"), local_queue("lq", "cq"))


class Far:
    """An engine behind an endpoint, and an API server's way to it."""

    def __init__(self, endpoint: ControllerEndpoint, port: int, certificate: Certificate, on_stage: Play) -> None:
        self.endpoint = endpoint
        self.port = port
        self.certificate = certificate
        self.on_stage = on_stage
        self.secret: Manifest | None = secret_of(f"https://127.0.0.1:{port}", TOKEN, certificate.authority.read_bytes())

    async def request(self, method: str, path: str, token: str = TOKEN, body: str = "") -> tuple[int, str]:
        tls = ssl.create_default_context(cafile=str(self.certificate.authority))
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        answer = (await reader.read()).decode()
        writer.close()
        return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


@asynccontextmanager
async def far(state: Path) -> AsyncIterator[Far]:
    async with play(*QUEUES) as on_stage:
        await on_stage.submit(workload("holder", queue="lq", cpu=4, priority=9), workload("w", queue="lq", cpu=2))
        await on_stage.pass_time(2)
        endpoint = ControllerEndpoint(TOKEN, lambda: b"kueue_pending_workloads 1\n", default_registry())
        endpoint.explainer = on_stage.waiting
        with bound_socket("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
            certificate = own_certificate(state, "127.0.0.1", SystemClock().now())
            server = await endpoint.serve(listening, certificate)
            try:
                yield Far(endpoint, port, certificate, on_stage)
            finally:
                server.close()


def anything(_: str) -> bool:
    return True


def run(tmp_path: Path, story: Callable[[Far], Any]) -> None:
    async def told() -> None:
        async with far(tmp_path / "tls") as there:
            await story(there)

    asyncio.run(told())


@pytest.mark.parametrize(
    ("method", "path", "token", "body", "want"),
    [
        pytest.param("GET", "/healthz", "", "", (200, "ok"), id="health for anybody"),
        pytest.param("GET", "/readyz", "", "", (200, "ok"), id="readiness for anybody"),
        pytest.param("GET", "/metrics", TOKEN, "", (200, "kueue_pending_workloads 1\n"), id="metrics with the token"),
        pytest.param("GET", "/metrics", "x", "", (401, "a token is needed"), id="metrics with another token"),
        pytest.param("POST", "/explainer/page", "", "{}", (401, "a token is needed"), id="questions without a token"),
        pytest.param("POST", "/explainer/page", TOKEN, "[]", (400, None), id="not a question"),
        pytest.param("POST", "/explainer/one", TOKEN, "{}", (400, None), id="half a question"),
        pytest.param("GET", "/explainer/page", TOKEN, "", (404, None), id="another method"),
        pytest.param("GET", "/secrets", TOKEN, "", (404, None), id="another path"),
        pytest.param("GET", "secrets", TOKEN, "", (400, None), id="a path without a slash"),
    ],
)
def test_answers(tmp_path: Path, method: str, path: str, token: str, body: str, want: tuple[int, str | None]) -> None:
    async def story(there: Far) -> None:
        code, text = await there.request(method, path, token, body)
        assert code == want[0]
        assert want[1] is None or text == want[1]

    run(tmp_path, story)


def test_requests_of_a_client_share_one_http2_connection(tmp_path: Path) -> None:
    """As client-go and kube-apiserver's webhooks and aggregation ask."""

    async def story(there: Far) -> None:
        tls = ssl.create_default_context(cafile=str(there.certificate.authority))
        tls.set_alpn_protocols(["h2"])
        streams = await asyncio.open_connection("127.0.0.1", there.port, ssl=tls)
        async with asyncio.timeout(20):
            client = Client(TOKEN, streams)
            client.send(PREFACE, frame(SETTINGS))
            client.ask(1, "GET", "/healthz")
            client.ask(3, "GET", "/metrics")
            assert (await client.answer(1)).body == b"ok"
            assert (await client.answer(3)).body == b"kueue_pending_workloads 1\n"
        streams[1].close()

    run(tmp_path, story)


def test_a_body_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    async def story(there: Far) -> None:
        code, text = await there.request("POST", "/explainer/page", body=" " * ((1 << 20) + 1))
        assert (code, text) == (413, "the body is larger than the limit of 1048576 bytes")

    run(tmp_path, story)


def test_the_api_server_gets_the_answers_of_the_engine(tmp_path: Path) -> None:
    async def story(there: Far) -> None:
        engine = there.on_stage.waiting
        remote = RemoteExplainer(lambda: there.secret, lambda: ["default", "team"], engine, SystemClock())
        there.on_stage.api.objects  # noqa: B018 - the store is the engine's; the answers travel as JSON
        assert (await remote.page()).items == json.loads(json.dumps((await engine.page()).items))
        assert (await remote.page("elsewhere")).items == []
        for may_read in (anything, lambda namespace: namespace == "team"):
            asked = {"may_change": True, "any_priority": False}
            one = await remote.one("default", "w", may_read, **asked)
            assert one == json.loads(json.dumps(await engine.one("default", "w", may_read, **asked)))
        assert await remote.one("default", "holder", anything, may_change=True, any_priority=True) is None
        (pending,) = await remote.pending("cq") or ()
        assert (pending.namespace, pending.name, pending.local_queue_name, pending.priority) == (
            "default",
            "w",
            "lq",
            0,
        )
        remote.close()

    run(tmp_path, story)


@pytest.mark.parametrize("how", ["it does not lead", "nothing listens", "another token", "no Secret", "half a Secret"])
def test_without_an_answer_the_conditions_speak(tmp_path: Path, how: str) -> None:
    async def story(there: Far) -> None:
        if how == "it does not lead":
            there.endpoint.explainer = None
        elif how == "no Secret":
            there.secret = None
        else:
            assert there.secret is not None
            data = there.secret["data"]
            changed = {"nothing listens": ("url", "https://127.0.0.1:1"), "another token": ("token", "x")}
            name, value = changed.get(how, ("url", ""))
            there.secret = {"data": {**data, name: base64.b64encode(value.encode()).decode()}}
        near = LocalCluster(
            there.on_stage.api, cluster_on(there.on_stage.api, there.on_stage.clock), there.on_stage.clock
        )
        fallback = StoredExplainer(near.cluster)
        async with near.running():
            remote = RemoteExplainer(lambda: there.secret, lambda: ["default"], fallback, SystemClock())
            (item,) = (await remote.page()).items
            assert item["message"].startswith("couldn't assign flavors to pod set main")
            one = await remote.one("default", "w", anything, may_change=True, any_priority=True)
            assert one is not None
            assert one["message"] == item["message"]
            assert await remote.pending("cq") is None
            remote.close()

    run(tmp_path, story)
