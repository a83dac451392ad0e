"""Where the server is and how it is asked: addresses, request bytes, and single questions in blocking style.

The load itself is in ``load`` (closed loops) and ``watching`` (streams).
"""

from __future__ import annotations

import http.client
import json
import ssl
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import yaml

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Refused(Exception):
    """The server answered a question of the benchmark's own with something else than success."""


class Target(NamedTuple):
    """A server to put load on."""

    host: str
    port: int
    tls: bool
    token: str

    @classmethod
    def at(cls, url: str, token: str) -> Target:
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        return cls(parts.hostname or "127.0.0.1", parts.port or (443 if tls else 80), tls, token)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Target:
        """The server and the token of the current context."""
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return cls.at(cluster["server"], user["token"])

    @property
    def trust(self) -> ssl.SSLContext | None:
        """Any certificate will do: what is measured is the server's speed, not its identity."""
        return _trusting() if self.tls else None

    def head(self, method: str, path: str, *, length: int = 0, content_type: str = JSON) -> bytes:
        """The bytes of a request up to its body, made once and sent many times."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            f"Authorization: Bearer {self.token}",
            f"Accept: {JSON}",
        ]
        if length:
            lines += [f"Content-Type: {content_type}", f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode()


@cache
def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


class Session:
    """One kept connection for single questions, each answered before the next."""

    def __init__(self, target: Target, timeout_seconds: float = 120.0) -> None:
        self._target = target
        trust = target.trust
        self._connection: http.client.HTTPConnection
        if trust is None:
            self._connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout_seconds)
        else:
            self._connection = http.client.HTTPSConnection(
                target.host, target.port, timeout=timeout_seconds, context=trust
            )

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of the answer; another status than 2xx is an error."""
        headers = {"Authorization": f"Bearer {self._target.token}", "Accept": JSON, "Content-Type": JSON}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if not 200 <= answer.status < 300:
            raise Refused(f"{method} {path}: {answer.status} {content[:500].decode(errors='replace')}")
        return content

    def revision(self, path: str) -> str:
        """The resourceVersion of a list, from which a watch misses nothing."""
        revision: str = json.loads(self.ask("GET", f"{path}?limit=1"))["metadata"]["resourceVersion"]
        return revision

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
