"""Requests of any shape to every endpoint: an answer comes, it explains itself, and nothing else is harmed."""

import json
import time
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Kind
from fuzz.effort import examples
from fuzz.manifests import KINDS, NAMESPACE, collection, valid
from fuzz.strategies import ACCEPTS, BODIES, CONTENT_TYPES, JUNK, METHODS, NAMES, PARAMETERS, QUERIES, VALUES, places
from fuzz.world import World

ROOTS: Final = st.sampled_from(
    ["api", "apis", "api/v1", "apis/batch/v1", "apis/kueue.x-k8s.io/v1beta1", "apis/visibility.kueue.x-k8s.io/v1beta2",
     "apis/authorization.k8s.io/v1", "openapi", "openapi/v2", "openapi/v3", "openapi/v3/apis/batch", "version",
     "healthz", "livez", "readyz", "metrics", "", "/", "api//v1", "../api/v1", "api/v1/..", "%2e%2e",
     "api/v1/namespaces/fuzz/pods"]
)  # fmt: skip
REVIEWS: Final = st.sampled_from(
    [
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/nope",
        "/apis/authorization.k8s.io/v9/selfsubjectaccessreviews",
    ]
)
SPECS: Final = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("resourceAttributes", "nonResourceAttributes", "user", "groups", "uid", "extra", "namespace"), JUNK
    ),
)
HEADERS: Final = st.fixed_dictionaries({"content_type": CONTENT_TYPES, "accept": ACCEPTS})


def ask(world: World, method: str, target: str, body: bytes, headers: dict[str, str]) -> None:
    sent = [(b"accept", headers["accept"].encode("latin-1"))]
    content_type = headers["content_type"]
    world.ask(method, target.encode("latin-1", "replace"), body, headers=sent, content_type=content_type)


@pytest.fixture(scope="module", autouse=True)
def population(world: World) -> None:
    """One object of each kind, called `base`."""
    for kind in KINDS:
        manifest = valid(kind)
        manifest["metadata"]["name"] = "base"
        assert world.ask("POST", collection(kind, kind.stored), manifest).code in {201, 409}


@examples(120)
@given(st.data())
def test_any_request_for_objects(world: World, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from(KINDS))
    version = data.draw(st.sampled_from([*kind.versions, "v9"]))
    namespace = data.draw(st.sampled_from([NAMESPACE, NAMESPACE, ""]) | NAMES)
    path = collection(kind, version, namespace)
    path += data.draw(st.sampled_from(["", "/base", "/base/status", "/base/log", "/base/binding", "/base/scale/x"]))
    path += data.draw(st.sampled_from(["", "", "/"]) | NAMES.map(lambda name: f"/{name}"))
    method = data.draw(METHODS)
    query = data.draw(QUERIES)
    ask(world, method, f"{path}?{query}", data.draw(BODIES), data.draw(HEADERS))
    world.check_canary()


@examples(100)
@given(ROOTS, st.lists(NAMES, max_size=5), METHODS, QUERIES, BODIES, HEADERS)
def test_any_path(
    world: World, root: str, segments: list[str], method: str, query: str, body: bytes, headers: dict[str, str]
) -> None:
    if "canary" not in segments:
        ask(world, method, f"/{root}/{'/'.join(segments)}?{query}", body, headers)
    world.check_canary()


@examples(100)
@given(st.data())
def test_any_value_of_any_parameter(world: World, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from(KINDS))
    path = collection(kind, kind.stored) + data.draw(st.sampled_from(["", "/base", "/base/log"]))
    method = data.draw(st.sampled_from(["GET", "GET", "POST", "PUT", "PATCH", "DELETE"]))
    parameters = data.draw(st.lists(st.tuples(PARAMETERS, VALUES), min_size=1, max_size=3))
    query = "&".join(f"{name}={value}" for name, value in parameters)
    manifest: dict[str, Any] = {"metadata": {"name": "base", "labels": {"a": "b"}}}
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body = b"" if method in {"GET", "DELETE"} else json.dumps(manifest).encode()
    world.ask(method, f"{path}?dryRun=All&{query}", body, content_type=content_type)
    world.check_canary()


@examples(100)
@given(REVIEWS, st.one_of(SPECS, JUNK), st.sampled_from(["application/json", "application/yaml"]))
def test_any_question_about_access(world: World, path: str, spec: Any, content_type: str) -> None:
    for body in ({"spec": spec}, spec, {"kind": spec, "apiVersion": spec}):
        world.ask("POST", path, body, content_type=content_type)


@examples(60)
@given(REVIEWS | st.just("/api/v1/namespaces/fuzz/configmaps"), st.binary(max_size=80), st.booleans())
def test_any_bytes_in_place_of_protobuf(world: World, path: str, data: bytes, enveloped: bool) -> None:  # noqa: FBT001
    body = b"k8s\x00" + data if enveloped else data
    world.ask("POST", path, body, content_type="application/vnd.kubernetes.protobuf")


@examples(25)
@given(JUNK, QUERIES)
def test_any_options_of_a_delete(world: World, options: Any, query: str) -> None:
    names = ("preconditions", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "dryRun", "kind")
    world.ask("POST", "/api/v1/namespaces/fuzz/pods", valid_pod())
    for body in (options, dict.fromkeys(names, options), *({name: options} for name in names)):
        world.ask("DELETE", f"/api/v1/namespaces/fuzz/pods/victim?{query}", body)
        world.ask("DELETE", f"/api/v1/namespaces/fuzz/secrets?labelSelector=no&{query}", body)
    world.ask("DELETE", "/api/v1/namespaces/fuzz/pods/victim", {"gracePeriodSeconds": 0})
    world.check_canary()


def valid_pod() -> dict[str, Any]:
    pod = valid(next(kind for kind in KINDS if kind.kind == "Pod"))
    pod["metadata"]["name"] = "victim"
    pod["spec"]["nodeName"] = "here"
    return pod


@examples(100)
@given(st.data())
def test_any_question_for_a_log(world: World, data: st.DataObject) -> None:
    names = st.sampled_from(
        [
            "attempt",
            "container",
            "follow",
            "limitBytes",
            "previous",
            "rank",
            "sinceSeconds",
            "sinceTime",
            "stream",
            "tailLines",
            "task",
            "timestamps",
        ]
    )
    parameters = data.draw(st.lists(st.tuples(names, VALUES), max_size=4))
    query = "&".join(f"{name}={value}" for name, value in parameters)
    world.ask("GET", f"/api/v1/namespaces/fuzz/pods/running/log?{query}")
    world.ask("GET", f"/apis/fairway.dev/v1alpha1/namespaces/fuzz/managedjobs/base/log?{query}")


@pytest.fixture(scope="module", autouse=True)
def running_pod(world: World) -> None:
    pod = valid_pod()
    pod["metadata"]["name"] = "running"
    made = world.ask("POST", "/api/v1/namespaces/fuzz/pods", pod)
    status = world.ask("PUT", "/api/v1/namespaces/fuzz/pods/running/status", {**made.json, "status": pod["status"]})
    assert status.code == 200


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_body_that_is_too_large(world: World, kind: Kind) -> None:
    large = b'{"metadata":{"name":"large"},"data":{"a":"' + b"x" * (3 << 20) + b'"}}'
    path = collection(kind, kind.stored)
    for method, target in (("POST", path), ("PUT", f"{path}/base"), ("PATCH", f"{path}/base"), ("DELETE", f"{path}/x")):
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        told = [(b"content-length", b"%d" % len(large))]
        assert world.ask(method, target, pieces=[large], content_type=content_type).code == 413
        assert world.ask(method, target, pieces=[large[:1000], large], content_type=content_type).code == 413
        assert world.ask(method, target, pieces=[b"{", b"}"], headers=told, content_type=content_type).code == 413


DEEP: Final = {
    "lists in an annotation": b'{"metadata":{"name":"deep","annotations":' + b"[" * 150 + b"]" * 150 + b"}}",
    "maps in an annotation": b'{"metadata":{"name":"deep","annotations":' + b'{"a":' * 150 + b"1" + b"}" * 152,
    "maps in what is unknown": b'{"metadata":{"name":"deep"},"nope":' + b'{"a":' * 190 + b"1" + b"}" * 191,
    "maps in owned fields": b'{"metadata":{"managedFields":[{"fieldsV1":'
    + b'{"a":' * 150
    + b"1"
    + b"}" * 150
    + b"}]}}",
    "as deep as can be read": b'{"a":' * 199 + b"{}" + b"}" * 199,
    "deeper than can be read": b'{"a":' * 200 + b"{}" + b"}" * 200,
}


@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP)
def test_a_deep_body(world: World, body: bytes) -> None:
    for kind in KINDS:
        path = collection(kind, kind.stored)
        world.ask("POST", f"{path}?dryRun=All", body)
        world.ask("PUT", f"{path}/base?dryRun=All", body)
        for patch_type in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"):
            manager = "&fieldManager=x" if "apply" in patch_type else ""
            world.ask("PATCH", f"{path}/base?dryRun=All{manager}", body, content_type=f"application/{patch_type}")
    world.check_canary()


LENGTH: Final = 16_000
SELECTORS: Final = {
    "spaces in brackets": "a in (" + " " * LENGTH,
    "values without end": "a in (" + "b," * (LENGTH // 2),
    "keys without end": "a," * (LENGTH // 2) + "!!",
    "a key without end": "a" * LENGTH + "!",
    "spaces": "a" + " " * LENGTH + "(",
    "dots": "a" + "." * LENGTH,
    "escapes": "a=" + "\\" * LENGTH,
    "longer than may be": "a" * 20_000,
}


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=SELECTORS)
def test_a_long_selector_is_read_at_once(world: World, selector: str) -> None:
    """Two thousand spaces after `a in (` used to take nine seconds, eight times as many an hour."""
    began = time.process_time()
    for name in ("labelSelector", "fieldSelector"):
        world.ask("GET", f"/api/v1/namespaces/fuzz/configmaps?{name}={quote(selector)}")

    assert time.process_time() - began < 2


LONG_VALUES: Final = st.sampled_from(
    [
        "a",
        "a.",
        "a-",
        "-",
        "1",
        "a/",
        "a_",
        "a--",
        " ",
        "1,",
        "1-2,",
        "a:",
        "$(",
        "/..",
        "é",
        "%",
        "a@",
        "[",
        "1h",
        "{",
        ".",
    ]
).map(lambda part: (part * 40_000)[:40_000] + "!")


@examples(60)
@given(st.data())
def test_a_long_value_is_judged_at_once(world: World, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from(KINDS))
    manifest = valid(kind)
    manifest["metadata"]["name"] = "long"
    words = [place for place in places(manifest) if isinstance(place.holder[place.key], str)]
    place = data.draw(st.sampled_from(words))
    place.holder[place.key] = data.draw(LONG_VALUES)
    began = time.process_time()
    world.ask("POST", f"{collection(kind, kind.stored)}?dryRun=All", manifest)

    assert time.process_time() - began < 2
