"""Who writes: admission plugins know the authenticated user, and whether they may impersonate others."""

from pathlib import Path

import pytest

from fairway.apis.machinery.admission import ALLOWED, AdmissionChain, AdmissionRequest, AdmissionResponse, UserInfo
from fairway.server.access.roles import Binding, Role
from fuzz.world import World

MAPS = "/api/v1/namespaces/default/configmaps"
TRANSACTIONS = "/apis/fairway.dev/v1alpha1/namespaces/default/transactions"


class Listening:
    resources = ("configmaps",)

    def __init__(self) -> None:
        self.heard: list[UserInfo] = []

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        self.heard.append(request.user)
        return ALLOWED


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
        listener = Listening()
        world.objects.use_admission(AdmissionChain(listener))
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
        assert [one[:2] for one in listener.heard] == [("ann", want_for_others)]
        assert "system:authenticated" in listener.heard[0].groups
