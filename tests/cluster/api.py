"""Requests of tests to a real API server, apart from the client under test."""

import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

from tools.cluster.apiserver import ApiServer


def authority_of(apiserver: ApiServer) -> Path:
    """The CA that its certificates are from."""
    return apiserver.plane.authority.pair.certificate


def request(apiserver: ApiServer, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
    """The answer to an administrator."""
    tls = ssl.create_default_context(cafile=str(authority_of(apiserver)))
    admin = apiserver.plane.admin
    tls.load_cert_chain(str(admin.certificate), str(admin.key))
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(  # noqa: S310 - an address of this test
        f"{apiserver.url}{path}", data, {"Content-Type": content}, method=method
    )
    with urllib.request.urlopen(asked, context=tls, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def compact(apiserver: ApiServer, revision: int) -> None:
    """Have etcd forget all older revisions."""
    url = f"http://127.0.0.1:{apiserver.plane.addresses.etcd}/v3/kv/compaction"
    body = json.dumps({"revision": revision, "physical": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
        answer.read()
