"""Requests that can be read in two ways: two Authorization headers, and fields that are given twice."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fairway.apis.machinery.documents import from_yaml, repeated_field
from fairway.testing.servers import Server
from fuzz.world import Answer, World

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "state", "--insecure") as running:
        yield running


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("second", ["the same", "another"])
def test_two_authorization_headers_are_refused(server: Server, method: str, second: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    body = json.dumps({"metadata": {"generateName": "a-"}}).encode() if method == "POST" else b""
    connection.putrequest(method, MAPS)
    for token in (server.token, server.token if second == "the same" else "fw_other"):
        connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    status = json.loads(answer.read())
    connection.close()
    assert (answer.status, status["reason"]) == (400, "BadRequest")
    assert "more than one Authorization header" in status["message"]


def warnings(answer: Answer) -> str:
    return "\n".join(value.decode() for name, value in answer.headers if name == b"warning")


REPEATED = {
    b'{"metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}': "data.k",
    b'{"metadata": {"name": "a", "name": "b"}}': "metadata.name",
    b'{"metadata": {"name": "a"}, "data": {}, "data": {"k": "1"}}': "data",
    b'{"metadata": {"name": "a", "finalizers": ["x.y/z"]}, "list": [{"a": 1}, {"b": 1, "b": 2}]}': "list[1].b",
}


@pytest.mark.parametrize(("body", "path"), REPEATED.items(), ids=REPEATED.values())
def test_a_field_that_is_given_twice(tmp_path: Path, body: bytes, path: str) -> None:
    assert repeated_field(body) == path
    with World(tmp_path) as world:
        for method, where, content_type in (
            ("POST", MAPS, "application/json"),
            ("PUT", f"{MAPS}/a", "application/json"),
            ("PATCH", f"{MAPS}/a", "application/merge-patch+json"),
            ("PATCH", f"{MAPS}/a", "application/apply-patch+yaml"),
        ):
            query = "?fieldManager=me&fieldValidation=Strict"
            refused = world.ask(method, f"{where}{query}", body, content_type=content_type)
            assert (refused.code, refused.json["reason"]) == (400, "BadRequest")
            assert f'strict decoding error: duplicate field "{path}"' in refused.json["message"]
        warned = world.ask("POST", f"{MAPS}?dryRun=All&fieldValidation=Warn", body)
        assert warned.code == 201
        assert f'299 - "duplicate field \\"{path}\\""' in warnings(warned)
        ignored = world.ask("POST", f"{MAPS}?dryRun=All&fieldValidation=Ignore", body)
        assert (ignored.code, "duplicate" in warnings(ignored)) == (201, False)


YAML = b"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
data:
  k: one
  k: two
immutable: true
data:
  other: three
"""
IN_YAML = ['line 7: key "k" already set in map', 'line 10: key "data" already set in map']


@pytest.mark.parametrize(
    ("method", "where", "content_type"),
    [
        ("POST", MAPS, "application/yaml"),
        ("PUT", f"{MAPS}/a", "application/yaml"),
        ("PATCH", f"{MAPS}/a", "application/apply-patch+yaml"),
    ],
)
def test_a_key_that_is_given_twice_in_yaml(tmp_path: Path, method: str, where: str, content_type: str) -> None:
    with World(tmp_path) as world:
        if method == "PUT":
            assert world.ask("POST", MAPS, YAML, content_type=content_type).code == 201
        refused = world.ask(method, f"{where}?fieldManager=me&fieldValidation=Strict", YAML, content_type=content_type)
        assert (refused.code, refused.json["reason"]) == (400, "BadRequest")
        want = "strict decoding error: yaml: unmarshal errors:\n  " + "\n  ".join(IN_YAML)
        assert refused.json["message"] == want

        for query in ("", "&fieldValidation=Warn", "&fieldValidation=Ignore"):
            taken = world.ask(method, f"{where}?dryRun=All&fieldManager=me{query}", YAML, content_type=content_type)
            assert taken.code in {200, 201}
            assert taken.json["data"] == {"other": "three"}
            said = [line.replace('"', '\\"') in warnings(taken) for line in IN_YAML]
            assert said == [query != "&fieldValidation=Ignore"] * 2


@pytest.mark.parametrize(
    "text",
    [
        b"a: &x {k: 1}\nb: {<<: *x, k: 2}\nc: [{k: 1}, {k: 2}]",
        b"k: {k: {k: 1}}",
        b"'1': a\n2: b",
    ],
)
def test_nothing_is_repeated_in_yaml(text: bytes) -> None:
    repeated: list[str] = []
    from_yaml(text, repeated)
    assert repeated == []


@pytest.mark.parametrize(
    "body", [b"", b"[1, 2]", b"{", b"[" * 5000, b'{"a": {"a": {"a": []}}, "b": [{"a": 1}, {"a": 2}]}']
)
def test_nothing_is_repeated(body: bytes) -> None:
    assert repeated_field(body) == ""
