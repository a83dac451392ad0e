"""What somebody may write is remembered: whoever asks again is told the same, and other roles count at once."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.server.access.roles import Binding, Role
from fuzz.world import World

ROLES: dict[str, tuple[Binding, ...]] = {
    "chief": (Binding(Role.ADMIN),),
    "editor": (Binding(Role.EDITOR),),
    "viewer": (Binding(Role.VIEWER),),
    "admin-here": (Binding(Role.ADMIN, "default"),),
    "editor-there": (Binding(Role.EDITOR, "canary"),),
    "nobody": (),
}
METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
PATHS = tuple(
    f"{place}{rest}"
    for place in (
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/canary/configmaps",
        "/api/v1/namespaces/default/secrets",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads",
        "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/clusterqueues",
        "/api/v1/namespaces",
        "/apis/none/v1/namespaces/default/things",
    )
    for rest in ("", "/one", "/one/status", "/one/nothing")
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def told(world: World, token: str, method: str, path: str) -> tuple[int, Any]:
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = world.ask(method, f"{path}?dryRun=All", {}, token=token, content_type=content_type)
    return answer.code, answer.json.get("message")


def test_what_is_remembered_is_what_would_be_found_out_again(world: World) -> None:
    tokens = [world.users.add(name, bindings) for name, bindings in ROLES.items()]
    asked = list(itertools.product(tokens, METHODS, PATHS))
    found = []
    for one in asked:
        world.api._known.clear()
        found.append(told(world, *one))
    assert {code for code, _ in found} >= {403, 404, 405}
    assert [told(world, *one) for one in reversed(asked)] == found[::-1]
    assert world.api._known
    assert [told(world, *one) for one in asked] == found


def test_other_roles_count_for_what_was_allowed_before(world: World) -> None:
    token = world.users.add("ana", ROLES["editor"])
    path = "/apis/batch/v1/namespaces/default/jobs/one"
    assert told(world, token, "PATCH", path)[0] == 404
    world.users.change("ana", bindings=ROLES["viewer"])
    assert told(world, token, "PATCH", path)[0] == 403
    world.users.change("ana", bindings=ROLES["editor"])
    assert told(world, token, "PATCH", path)[0] == 404


def test_what_is_remembered_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.server.app._MOST_KNOWN", 3)
    for number in range(10):
        told(world, world.token, "PATCH", f"/api/v1/namespaces/n{number}/configmaps/one")
        assert len(world.api._known) <= 3
