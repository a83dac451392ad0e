"""Other roles of a user count with the next request."""

from pathlib import Path
from typing import Any

from fairway.server.access.roles import Binding, Role
from fuzz.world import World


def told(world: World, token: str, method: str, path: str) -> tuple[int, Any]:
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = world.ask(method, f"{path}?dryRun=All", {}, token=token, content_type=content_type)
    return answer.code, answer.json.get("message")


def test_other_roles_count_for_what_was_allowed_before(tmp_path: Path) -> None:
    editor, viewer = (Binding(Role.EDITOR),), (Binding(Role.VIEWER),)
    path = "/apis/batch/v1/namespaces/default/jobs/one"
    with World(tmp_path) as world:
        token = world.users.add("ana", editor)
        assert told(world, token, "PATCH", path)[0] == 404
        world.users.change("ana", bindings=viewer)
        assert told(world, token, "PATCH", path)[0] == 403
        world.users.change("ana", bindings=editor)
        assert told(world, token, "PATCH", path)[0] == 404
