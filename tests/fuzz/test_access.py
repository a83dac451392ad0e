"""Every verb on every resource for every role, as `docs/operate/access.md` says, and what the audit log keeps."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from fairway.apis.machinery.kind import Kind
from fairway.apis.registry import default_registry
from fairway.server.access.roles import Binding, Role
from fuzz.world import World

KINDS: Final = default_registry().kinds
READ: Final = frozenset({"get", "list", "watch"})
WRITE: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
NOTHING: Final[frozenset[str]] = frozenset()

WRONG: Final = "fw_" + "x" * 43

# docs/operate/access.md, "The roles": what viewer and editor may do with which resource.
JOBS: Final = {
    *("pods", "podtemplates", "configmaps", "serviceaccounts"),
    *("jobs", "jobsets", "managedjobs", "rayclusters", "rayjobs", "sparkapplications"),
    *("daskclusters", "daskjobs", "mpijobs", "pytorchjobs", "tfjobs"),
}
READ_ONLY: Final = {
    *("services", "endpoints", "endpointslices", "ingresses", "ingressclasses", "networkpolicies"),
    *("limitranges", "persistentvolumeclaims", "persistentvolumes", "storageclasses", "poddisruptionbudgets"),
    *("deployments", "replicasets", "statefulsets", "daemonsets", "cronjobs", "horizontalpodautoscalers"),
}
QUEUES: Final = {"workloads", "localqueues", "provisioningrequests", "leases"}
SHARED: Final = {
    "clusterqueues",
    "cohorts",
    "resourceflavors",
    "topologies",
    "admissionchecks",
    "provisioningrequestconfigs",
    "workloadpriorityclasses",
    "priorityclasses",
    "customresourcedefinitions",
    "quotadefinitions",
    "runtimeclasses",
}
PLACES: Final = {"namespaces", "nodes"}
SHARED_WITH_STATUS: Final = {"clusterqueues", "cohorts", "admissionchecks"}


class Asked(NamedTuple):
    """One question to a resource."""

    verb: str
    kind: Kind
    part: str
    namespace: str

    @property
    def path(self) -> str:
        kind = self.kind
        root = f"/apis/{kind.group}/{kind.stored}" if kind.group else f"/api/{kind.stored}"
        inside = f"/namespaces/{self.namespace}" if self.namespace and kind.namespaced else ""
        path = f"{root}{inside}/{kind.plural}"
        if self.verb in {"list", "watch", "create", "deletecollection"} and not self.part:
            return f"{path}?dryRun=All" + ("&watch=1" if self.verb == "watch" else "")
        name = self.namespace if kind.plural == "namespaces" else "nope"
        return f"{path}/{name}{f'/{self.part}' if self.part else ''}?dryRun=All"

    @property
    def method(self) -> str:
        return {
            "create": "POST",
            "update": "PUT",
            "patch": "PATCH",
            "delete": "DELETE",
            "deletecollection": "DELETE",
        }.get(self.verb, "GET")


def documented(role: Role, bound_to: str, asked: Asked) -> bool:
    """What the document says; `bound_to` is the namespace of the role, empty for the whole server."""
    if not bound_to:
        return role is Role.ADMIN or asked.verb in _everywhere(role, asked.kind.plural, asked.part)
    resource = asked.kind.plural
    if asked.kind.namespaced:
        return asked.namespace == bound_to and asked.verb in _inside(role, resource, asked.part)
    if resource == "namespaces":
        return asked.namespace == bound_to and asked.verb == "get"
    if asked.part:
        return resource in SHARED_WITH_STATUS and asked.verb in READ
    return resource in SHARED and asked.verb in READ


def _everywhere(role: Role, resource: str, part: str) -> frozenset[str]:
    if part == "status":
        return READ
    if part:
        return READ if part in {"log", "files", "scale"} else NOTHING
    if resource in QUEUES | SHARED | PLACES | READ_ONLY | {"events"}:
        return READ
    if resource in JOBS:
        return READ | WRITE if role is not Role.VIEWER else READ
    if resource == "secrets":
        return READ | WRITE if role is not Role.VIEWER else NOTHING
    return NOTHING


def _inside(role: Role, resource: str, part: str) -> frozenset[str]:
    if role is Role.ADMIN and not part and resource in QUEUES | {"events"}:
        return READ | WRITE
    return _everywhere(role, resource, part)


def questions(kind: Kind) -> Iterator[Asked]:
    spaces = ("team", "other") if kind.namespaced or kind.plural == "namespaces" else ("",)
    for namespace in spaces:
        for verb in READ | WRITE:
            if verb == "deletecollection" and kind.plural == "namespaces":
                continue  # there is no such door
            whole = kind.plural == "namespaces" and verb in {"list", "watch", "create"}
            yield Asked(verb, kind, "", "" if whole else namespace)
        for part in (*(("status",) if kind.status else ()), *kind.subresources):
            verbs = {"status": ("get", "update", "patch"), "binding": ("create",)}.get(part, ("get",))
            for verb in verbs:
                yield Asked(verb, kind, part, namespace)
    if kind.namespaced:
        for verb in ("list", "watch"):
            yield Asked(verb, kind, "", "")


@pytest.fixture(scope="module")
def tokens(world: World) -> dict[tuple[Role, str], str]:
    for name in ("team", "other"):
        assert world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return {
        (role, namespace): world.add_user(f"{role}-{namespace or 'all'}", Binding(role, namespace or None))
        for role in Role
        for namespace in ("", "team")
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_each_role_may_do_what_is_documented(world: World, tokens: dict[tuple[Role, str], str], kind: Kind) -> None:
    nobody = world.users.get("nobody")
    token = world.add_user("nobody") if nobody is None else world.users.add_token("nobody")
    for asked in questions(kind):
        for (role, namespace), known in tokens.items():
            answer = world.ask(asked.method, asked.path, {}, token=known, content_type=_content_type(asked))
            assert (answer.code != 403) == documented(role, namespace, asked), (role, namespace, asked.verb, asked.path)
        assert world.ask(asked.method, asked.path, {}, token=token).code == 403
        assert world.ask(asked.method, asked.path, {}, token="").code == 403
        assert world.ask(asked.method, asked.path, {}, token=WRONG).code == 401


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_each_role_may_do_the_same_in_a_transaction(
    world: World, tokens: dict[tuple[Role, str], str], kind: Kind
) -> None:
    path = "/apis/fairway.dev/v1alpha1/namespaces/team/transactions?dryRun=All"
    for asked in questions(kind):
        if asked.part or asked.verb not in {"create", "patch", "delete"}:
            continue
        body = {"spec": {"operations": [_operation(asked)]}}
        for (role, namespace), known in tokens.items():
            want = role is not Role.VIEWER and documented(role, namespace, asked)
            answer = world.ask("POST", path, body, token=known)
            assert (answer.code != 403) == want, (role, namespace, asked.verb, asked.path)


def _operation(asked: Asked) -> dict[str, Any]:
    kind = asked.kind
    identity = {"apiVersion": kind.api_version(kind.stored), "kind": kind.kind}
    place = {"namespace": asked.namespace} if kind.namespaced else {}
    name = asked.namespace if kind.plural == "namespaces" and asked.namespace else "nope"
    if asked.verb == "create":
        return {"verb": "create", "manifest": {**identity, "metadata": {"name": name}}, **place}
    patch = {"patch": {"metadata": {"labels": {"a": "b"}}}} if asked.verb == "patch" else {}
    return {"verb": asked.verb, **identity, "name": name, **place, **patch}


def _content_type(asked: Asked) -> str:
    return "application/merge-patch+json" if asked.verb == "patch" else "application/json"


VISIBILITY: Final = "/apis/visibility.kueue.x-k8s.io/v1beta2"
FAIRWAY: Final = "/apis/fairway.dev/v1alpha1"
PATHS: dict[str, tuple[str, dict[tuple[Role, str], bool]]] = {
    "why jobs wait": (
        f"{FAIRWAY}/namespaces/team/waitingjobs",
        {(role, place): True for role in Role for place in ("", "team")},
    ),
    "why jobs of others wait": (
        f"{FAIRWAY}/namespaces/other/waitingjobs",
        {(role, place): not place for role in Role for place in ("", "team")},
    ),
    "why all jobs wait": (
        f"{FAIRWAY}/waitingjobs",
        {(role, place): not place for role in Role for place in ("", "team")},
    ),
    "metrics": ("/metrics", {(role, place): not place for role in Role for place in ("", "team")}),
    "who waits in a ClusterQueue": (
        f"{VISIBILITY}/clusterqueues/a/pendingworkloads",
        {(role, place): not place for role in Role for place in ("", "team")},
    ),
    "who waits in a LocalQueue": (
        f"{VISIBILITY}/namespaces/team/localqueues/a/pendingworkloads",
        {(role, place): True for role in Role for place in ("", "team")},
    ),
    "who waits in another's LocalQueue": (
        f"{VISIBILITY}/namespaces/other/localqueues/a/pendingworkloads",
        {(role, place): not place for role in Role for place in ("", "team")},
    ),
}


@pytest.mark.parametrize(("path", "want"), PATHS.values(), ids=PATHS)
def test_each_role_sees_what_is_documented(
    world: World, tokens: dict[tuple[Role, str], str], path: str, want: dict[tuple[Role, str], bool]
) -> None:
    for who, token in tokens.items():
        assert (world.ask("GET", path, token=token).code != 403) == want[who], who
    assert world.ask("GET", path, token="").code == 403


OPEN: Final = ("/healthz", "/livez", "/readyz", "/version")
FOR_USERS: Final = ("/api", "/apis", "/api/v1", "/apis/batch", "/apis/batch/v1", "/openapi/v2", "/openapi/v3", "/")


def test_what_is_open_to_everybody(world: World) -> None:
    token = world.add_user("roleless")
    for path in (*OPEN, *FOR_USERS):
        assert world.ask("GET", path, token=token).code == 200
        assert world.ask("GET", path, token="").code == (200 if path in OPEN else 403)
        assert world.ask("GET", path, token=WRONG).code == 401
        assert world.ask("POST", path, {}, token=token).code in {403, 405}


def test_only_the_admin_may_ask_about_others(world: World, tokens: dict[tuple[Role, str], str]) -> None:
    body = {"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    for who, token in tokens.items():
        assert (world.ask("POST", path, body, token=token).code == 201) == (who == (Role.ADMIN, "")), who


# The audit log

MAPS: Final = "/api/v1/namespaces/default/configmaps"
MARK: Final = "c29tZXRoaW5nIHNlY3JldA"
"""In every body; nowhere else."""

MERGE: Final = "application/merge-patch+json"
BODY: Final = {"metadata": {"name": "a", "annotations": {"note": MARK}}, "data": {"v": MARK}}
Line = dict[str, Any]
WRITES: list[tuple[str, str, Any, dict[str, Any], Line]] = [
    ("POST", MAPS, BODY, {}, {"verb": "create", "code": 201, "name": "a", "user": "admin"}),
    ("POST", MAPS, BODY, {}, {"verb": "create", "code": 409, "user": "admin"}),
    ("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "dry"}}, {}, {"verb": "create", "code": 201, "dryRun": True}),
    ("POST", MAPS, {"metadata": {"generateName": "g-"}}, {}, {"verb": "create", "code": 201}),
    ("POST", MAPS, MARK.encode(), {}, {"verb": "create", "code": 400}),
    ("POST", MAPS, b"x" * (4 << 20), {}, {"verb": "create", "code": 413}),
    ("POST", MAPS, BODY, {"content_type": "text/plain"}, {"verb": "create", "code": 415}),
    ("POST", MAPS, BODY, {"token": ""}, {"verb": "create", "code": 403, "user": "system:anonymous"}),
    ("POST", MAPS, BODY, {"token": "fw_wrong"}, {"verb": "create", "code": 401, "user": ""}),
    ("PUT", f"{MAPS}/a", {**BODY, "data": {}}, {}, {"verb": "update", "code": 200, "name": "a"}),
    ("PUT", f"{MAPS}/nope", {}, {}, {"verb": "update", "code": 404, "name": "nope"}),
    ("PUT", MAPS, {}, {}, {"verb": "update", "code": 405}),
    ("PATCH", f"{MAPS}/a", {"data": {"w": MARK}}, {"content_type": MERGE}, {"verb": "patch", "code": 200, "name": "a"}),
    ("PATCH", f"{MAPS}/a", [], {"content_type": MERGE}, {"verb": "patch", "code": 400, "name": "a"}),
    ("PUT", "/api/v1/nodes/n/status", {}, {}, {"verb": "update", "code": 404, "subresource": "status", "name": "n"}),
    ("POST", "/apis/nope/v1/nopes", BODY, {}, {"verb": "create", "code": 404, "group": "nope", "resource": "nopes"}),
    ("DELETE", f"{MAPS}/a", {"dryRun": ["All"]}, {}, {"verb": "delete", "code": 200, "name": "a", "dryRun": True}),
    ("DELETE", f"{MAPS}/a", None, {}, {"verb": "delete", "code": 200, "name": "a"}),
    ("DELETE", f"{MAPS}/a", None, {}, {"verb": "delete", "code": 404, "name": "a"}),
    ("DELETE", MAPS, None, {}, {"verb": "deletecollection", "code": 200}),
    ("DELETE", "/api/v1/namespaces", None, {}, {"verb": "deletecollection", "code": 405}),
]  # fmt: skip
READS: list[tuple[str, str, Any]] = [
    ("GET", MAPS, None),
    ("GET", f"{MAPS}/a", None),
    ("GET", f"{MAPS}?watch=1", None),
    ("GET", "/apis", None),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
]


def test_every_write_leaves_one_line_and_no_read_does(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for method, path, body, how, want in WRITES:
            assert world.ask(method, path, body, **how).code == want["code"], (method, path)
            for read in READS:
                world.ask(*read)
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]

    assert len(lines) == len(WRITES)
    for line, (method, path, _, _, want) in zip(lines, WRITES, strict=True):
        assert {name: line.get(name, "") for name in want} == want, (method, path)
        assert line["source"] == "127.0.0.1"
        assert line.get("dryRun", False) == want.get("dryRun", False)
        is_stored = line["code"] in {200, 201} and line["verb"] != "deletecollection" and not want.get("dryRun")
        assert ("resourceVersion" in line) == is_stored


def test_no_token_and_no_body_is_in_any_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with World(tmp_path) as world:
        for method, path, body, how, _ in WRITES:
            world.ask(method, path, body, **how)
        monkeypatch.setattr(world.objects, "page_in_slices", broken)
        broken_answer = world.run(asked_for_trouble(world))
        token = world.token
    kept = "".join(path.read_text() for path in tmp_path.iterdir()) + caplog.text

    assert "it broke on purpose" in caplog.text
    assert "on purpose" not in broken_answer
    for secret in (token, "fw_wrong", MARK):
        assert secret not in kept


def broken(*_: Any) -> None:
    raise RuntimeError("it broke on purpose")


async def asked_for_trouble(world: World) -> str:
    """The answer to a request that a bug prevents."""
    exchange = world.begin("GET", f"{MAPS}?labelSelector=a")
    await exchange.until_ended()
    assert exchange.code == 500
    return exchange.sent.decode()
