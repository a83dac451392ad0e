"""Requests with a body in protobuf, as the server takes them."""

import pytest

from fairway.errors import UnsupportedMediaType
from fairway.server import bodies
from fairway.server.http import Exchange
from fairway.server.requests import Request
from fairway.store.verbs import DeleteOptions

from .encoding import envelope, message, number
from .recordings import created

PROTOBUF = b"application/vnd.kubernetes.protobuf"


def request(media_type: bytes = PROTOBUF) -> Request:
    return Request(Exchange("POST", b"/", b"", [(b"content-type", media_type)], ""))


def test_the_object_in_the_body() -> None:
    body, want = created()["create namespace protobuf-recorded"]

    assert bodies.manifest(request(), body) == want


def test_parameters_of_the_media_type_do_not_matter() -> None:
    body, want = created()["create serviceaccount robot"]

    assert bodies.manifest(request(PROTOBUF + b"; charset=utf-8"), body) == want


def test_options_of_a_delete() -> None:
    body = envelope(
        "batch/v1",
        "DeleteOptions",
        number(1, 0),
        message(2, message(1, b"uid-1"), message(2, b"42")),
        message(4, b"Foreground"),
        message(5, b"All"),
    )

    assert bodies.delete_options(request(), body) == DeleteOptions(
        uid="uid-1", resource_version="42", propagation="Foreground", grace_seconds=0, dry_run=True
    )


def test_a_kind_of_its_own_is_sent_in_another_format() -> None:
    body = envelope("kueue.x-k8s.io/v1beta2", "LocalQueue")

    with pytest.raises(UnsupportedMediaType, match="send it as application/json or application/yaml"):
        bodies.manifest(request(), body)


@pytest.mark.parametrize("media_type", [b"application/protobuf", b"application/cbor", b"text/plain"])
def test_other_formats_are_refused(media_type: bytes) -> None:
    with pytest.raises(UnsupportedMediaType, match="accepted media types include: application/json, application/yaml"):
        bodies.manifest(request(media_type), b"k8s\0")
