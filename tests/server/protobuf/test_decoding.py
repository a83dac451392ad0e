"""A body in protobuf is read as the manifest that an API server would have understood."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.server.protobuf import decode

from .encoding import envelope, key, message, number
from .recordings import created, recordings

SAMPLES = recordings("samples")
OBJECTS = recordings("objects")
CREATED = created()
ASKED = {
    "auth whoami": ("authentication.k8s.io/v1", "SelfSubjectReview", None),
    "auth can-i get pods --subresource=log": (
        "authorization.k8s.io/v1", "SelfSubjectAccessReview",
        {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods", "subresource": "log"}},
    ),
    "auth can-i create jobs.batch --namespace=protobuf-recorded": (
        "authorization.k8s.io/v1", "SelfSubjectAccessReview",
        {
            "resourceAttributes": {
                "namespace": "protobuf-recorded", "verb": "create", "group": "batch", "resource": "jobs",
            },
        },
    ),
    "auth can-i get /metrics": (
        "authorization.k8s.io/v1", "SelfSubjectAccessReview",
        {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
    ),
    "auth can-i --list": ("authorization.k8s.io/v1", "SelfSubjectRulesReview", {"namespace": "default"}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "want"), SAMPLES.values(), ids=SAMPLES)
def test_every_field_of_every_message_is_read_as_kubernetes_reads_it(body: bytes, want: Manifest) -> None:
    assert decode(body) == want


@pytest.mark.parametrize(("body", "want"), OBJECTS.values(), ids=OBJECTS)
def test_an_object_from_an_api_server_is_the_same_in_both_forms(body: bytes, want: Manifest) -> None:
    assert decode(body) == want


@pytest.mark.parametrize(("body", "want"), CREATED.values(), ids=CREATED)
def test_what_kubectl_creates_is_what_it_shows_beforehand(body: bytes, want: Manifest) -> None:
    assert decode(body) == want


def test_questions_of_kubectl_are_understood() -> None:
    asked = {name: decode(body) for name, (body, _) in recordings("kubectl", "command").items() if name not in CREATED}

    assert {name: (one["apiVersion"], one["kind"], one.get("spec")) for name, one in asked.items()} == ASKED


def config_map(*content: bytes) -> Manifest:
    return decode(envelope("v1", "ConfigMap", *content))


def job(*spec: bytes) -> Any:
    return decode(envelope("batch/v1", "Job", message(2, *spec)))["spec"]


def test_fields_that_are_not_known_are_passed_over() -> None:
    unknown = number(999, 5) + message(1000, b"text") + key(1001, 1) + bytes(8) + key(1002, 5) + bytes(4)

    assert config_map(unknown, message(1, unknown, message(1, b"mine"))) == {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"},
    }  # fmt: skip


def test_of_a_field_that_is_sent_twice_the_last_counts() -> None:
    assert config_map(message(1, message(1, b"first"), message(1, b"last")))["metadata"] == {"name": "last"}


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        pytest.param(message(2, b"value") + message(1, b"key"), {"key": "value"}, id="value before key"),
        pytest.param(message(1, b"key"), {"key": ""}, id="no value"),
        pytest.param(message(2, b"value"), {"": "value"}, id="no key"),
        pytest.param(b"", {"": ""}, id="neither"),
    ],
)
def test_entries_of_maps_may_lack_a_part(entry: bytes, want: dict[str, str]) -> None:
    assert config_map(message(2, entry))["data"] == want


@pytest.mark.parametrize(
    ("codes", "want"),
    [
        pytest.param(number(3, 1) + number(3, -2), [1, -2], id="one by one"),
        pytest.param(message(3, b"\x01\xac\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"), [1, 300, -2], id="packed"),
        pytest.param(message(3, b"\x01") + number(3, 2), [1, 2], id="both ways"),
    ],
)
def test_lists_of_numbers_come_packed_or_one_by_one(codes: bytes, want: list[int]) -> None:
    policy = job(message(11, message(1, message(2, codes))))["podFailurePolicy"]

    assert policy["rules"][0]["onExitCodes"]["values"] == want


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        (-1, -1),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),
        (2**32 + 7, 7),
    ],
)
def test_numbers_have_32_bits_where_kubernetes_has_them(sent: int, want: int) -> None:
    assert job(number(1, sent))["parallelism"] == want


@pytest.mark.parametrize(
    ("seconds", "nanoseconds", "want"),
    [
        (0, 0, "1970-01-01T00:00:00.000000Z"),
        (-1, 999_999_999, "1969-12-31T23:59:59.999999Z"),
        (253_402_300_799, 0, "9999-12-31T23:59:59.000000Z"),
        (-62_135_596_800, 0, None),
    ],
)
def test_times(seconds: int, nanoseconds: int, want: str | None) -> None:
    renewed = message(4, number(1, seconds), number(2, nanoseconds))
    lease = decode(envelope("coordination.k8s.io/v1", "Lease", message(2, renewed)))

    assert lease["spec"] == {"renewTime": want}


@pytest.mark.parametrize("api_version", ["v1", "batch/v1", "meta.k8s.io/v1", "kueue.x-k8s.io/v1beta1"])
def test_options_of_a_delete_come_in_the_version_of_the_object(api_version: str) -> None:
    body = envelope(api_version, "DeleteOptions", number(1, 0), message(4, b"Foreground"))

    assert decode(body) == {
        "apiVersion": api_version,
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }
