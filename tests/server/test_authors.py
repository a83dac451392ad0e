"""Who writes: gatekeepers hear the authenticated name, and who may speak for others."""

from pathlib import Path

import pytest

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import FieldError
from fairway.server.access.roles import Binding, Role
from fairway.store.verbs.gatekeeping import Author, Nobody
from fuzz.world import World

MAPS = "/api/v1/namespaces/default/configmaps"
TRANSACTIONS = "/apis/fairway.dev/v1alpha1/namespaces/default/transactions"


class Listener(Nobody):
    def __init__(self) -> None:
        self.heard: list[Author] = []

    def on_create(self, kind: Kind, manifest: Manifest, author: Author) -> list[FieldError]:
        self.heard.append(author)
        return super().on_create(kind, manifest, author)


@pytest.mark.parametrize(
    ("binding", "want_for_others"),
    [
        pytest.param(Binding(Role.EDITOR), False, id="an editor speaks for themselves"),
        pytest.param(Binding(Role.ADMIN), True, id="an admin may speak for others"),
        pytest.param(Binding(Role.ADMIN, "default"), False, id="the admin of a namespace may not"),
    ],
)
@pytest.mark.parametrize("way", ["create", "apply", "transaction"])
def test_the_author_is_who_was_authenticated(
    tmp_path: Path, binding: Binding, way: str, *, want_for_others: bool
) -> None:
    with World(tmp_path) as world:
        listener = Listener()
        world.objects.ask(listener)
        token = world.add_user("ann", binding)
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        if way == "create":
            answer = world.ask("POST", MAPS, manifest, token=token)
        elif way == "apply":
            path = f"{MAPS}/a?fieldManager=me"
            answer = world.ask("PATCH", path, manifest, token=token, content_type="application/apply-patch+yaml")
        else:
            operations = {"spec": {"operations": [{"verb": "create", "manifest": manifest}]}}
            answer = world.ask("POST", TRANSACTIONS, operations, token=token)

        assert answer.code == 201
        assert listener.heard == [Author("ann", want_for_others)]
