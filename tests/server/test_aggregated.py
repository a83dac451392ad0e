"""Which requests the aggregated API believes: those of the front proxy's certificate, and its headers."""

from typing import Any

import pytest

from fairway.errors import Unauthorized
from fairway.server.aggregated import FrontProxy
from fairway.server.http import Exchange

DATA = {
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
}
BOB = [(b"x-remote-user", b"bob"), (b"x-remote-group", b"dev"), (b"x-remote-group", b"system:authenticated")]


class Shown(Exchange):
    """A request with the certificate of its client."""

    def __init__(self, headers: list[tuple[bytes, bytes]], name: str) -> None:
        super().__init__("GET", b"/apis", b"", headers, "")
        self._name = name

    def peer_certificate(self) -> dict[str, Any]:
        return {"subject": ((("organizationName", "o"),), (("commonName", self._name),))} if self._name else {}


def test_the_headers_of_the_front_proxy_name_user_and_groups() -> None:
    user = FrontProxy.read({"data": DATA}).user(Shown(BOB, "front-proxy-client"))
    assert (user.name, user.groups) == ("bob", ("dev", "system:authenticated"))


def test_any_name_signed_by_the_authority_is_allowed_where_none_is_listed() -> None:
    proxy = FrontProxy.read({"data": {**DATA, "requestheader-allowed-names": "[]"}})
    assert proxy.user(Shown(BOB, "whatever")).name == "bob"


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        pytest.param(BOB, "", id="no certificate"),
        pytest.param(BOB, "kubelet", id="the certificate of another client"),
        pytest.param([], "front-proxy-client", id="no user"),
        pytest.param([(b"x-remote-user", b"")], "front-proxy-client", id="an empty user"),
        pytest.param([*BOB, (b"x-remote-user", b"eve")], "front-proxy-client", id="two users"),
    ],
)
def test_all_else_is_refused(headers: list[tuple[bytes, bytes]], name: str) -> None:
    with pytest.raises(Unauthorized):
        FrontProxy.read({"data": DATA}).user(Shown(headers, name))


@pytest.mark.parametrize("missing", ["requestheader-client-ca-file", "requestheader-username-headers"])
def test_an_incomplete_config_map_is_no_front_proxy(missing: str) -> None:
    with pytest.raises(ValueError, match="front proxy"):
        FrontProxy.read({"data": {**DATA, missing: ""}})
