"""Whatever else comes in protobuf is refused: with a reason, and soon."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import BadRequest, UnsupportedMediaType
from fairway.server.protobuf import decode

from .encoding import envelope, key, message, number
from .recordings import recordings

LARGEST_BODY = 3 << 20
REAL = [body for file in ("samples", "objects") for body, _ in recordings(file).values() if len(body) < 3000]

ZERO_FIELD = b"\x02\x00"
REFUSED = {
    "no envelope": (b"{}", "does not begin with 'k8s'"),
    "an empty envelope": (b"k8s\0", "does not say which kind"),
    "a kind that is a number": (b"k8s\0" + message(1, number(1, 1)), "field 1 is a number where a text"),
    "an envelope that ends early": (b"k8s\0\x0a\xff", "reaches beyond the end"),
    "a field without content": (b"k8s\0\x0a", "reaches beyond the end"),
    "a number without end": (b"k8s\0" + b"\xff" * 20, "more than 64 bits"),
    "a group": (envelope("v1", "ConfigMap", key(1, 3), key(1, 4)), "unknown wire type 3"),
    "a field with the number 0": (envelope("v1", "ConfigMap", ZERO_FIELD), "number 0"),
    "a part that is longer than the whole": (envelope("v1", "ConfigMap", b"\x0a\x7f\x00"), "reaches beyond the end"),
    "half of eight bytes": (envelope("v1", "ConfigMap", key(99, 1), bytes(4)), "reaches beyond the end"),
    "an object that is a number": (envelope("v1", "ConfigMap", number(1, 1)), "field 1 is a number where a text"),
    "a number that is a text": (envelope("batch/v1", "Job", message(2, message(1, b"1"))), "field 1 is not a number"),
    "a text that is not UTF-8": (envelope("v1", "ConfigMap", message(1, message(1, b"\xff"))), "'utf-8' codec"),
    "a time beyond the calendar": (
        envelope("v1", "ConfigMap", message(1, message(8, number(1, 2**62)))),
        "in no year between 1 and 9999",
    ),
    "an empty quantity": (
        envelope("v1", "Node", message(3, message(1, message(1, b"cpu"), message(2, message(1, b""))))),
        "a quantity is empty",
    ),
    "a port that is neither": (
        envelope(
            "v1", "Pod", message(2, message(2, message(10, message(1, message(3, message(1, number(1, 2)))))))
        ),
        "neither a number",
    ),
    "field managers that are not JSON": (
        envelope("v1", "ConfigMap", message(1, message(17, message(7, message(1, b"{"))))),
        "not valid JSON",
    ),
    "field managers nested without end": (
        envelope("v1", "ConfigMap", message(1, message(17, message(7, message(1, b"[" * 5000 + b"]" * 5000))))),
        "deeper than",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_well_formed_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        decode(body)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
        ("ray.io/v1", "RayJob"),
        ("batch/v2", "CronJob"),
        ("batch/v2", "Job"),
        ("", "Pod"),
    ],
)
def test_kinds_without_a_protobuf_form_are_refused_as_a_format(api_version: str, kind: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=f"{kind} of {api_version} is not understood in protobuf"):
        decode(envelope(api_version, kind, b"\xff"))


TWO_BYTES = LARGEST_BODY // 2 - 100
BOMBS = {
    "empty containers": ("v1", "Pod", message(2, message(2) * TWO_BYTES)),
    "empty containers that hide each other": ("v1", "Pod", message(2) * TWO_BYTES),
    "packed numbers": ("v1", "Pod", message(2, message(14, message(4, b"\x01" * LARGEST_BODY)))),
    "unknown fields": ("v1", "Pod", b"\x78\x01" * TWO_BYTES),
    "empty labels": ("v1", "Pod", message(1, message(11) * TWO_BYTES)),
}


@pytest.mark.parametrize(("api_version", "kind", "content"), BOMBS.values(), ids=BOMBS)
def test_small_bodies_do_not_become_large_objects(api_version: str, kind: str, content: bytes) -> None:
    begun = time.process_time()
    with pytest.raises(BadRequest, match="too many values"):
        decode(envelope(api_version, kind, content))

    assert time.process_time() - begun < 5


def test_a_config_map_of_many_entries_is_taken() -> None:
    entries = b"".join(
        message(2, message(1, f"entry-{index:06}".encode()), message(2, b"twenty-two more bytes."))
        for index in range(15_000)
    )

    assert len(decode(envelope("v1", "ConfigMap", entries))["data"]) == 15_000


@given(st.binary(max_size=200))
def test_random_bytes_do_no_more_than_be_refused(content: bytes) -> None:
    for body in (content, b"k8s\0" + content, envelope("v1", "Pod", content), envelope("batch/v1", "Job", content)):
        _decoded_or_refused(body)


@given(st.sampled_from(REAL), st.integers(0, 3000))
def test_real_messages_that_end_early_do_no_more_than_be_refused(body: bytes, end: int) -> None:
    _decoded_or_refused(body[:end])


@given(
    st.sampled_from(REAL),
    st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=4)), min_size=1, max_size=5),
)
def test_real_messages_with_some_bytes_changed_do_no_more_than_be_refused(
    body: bytes, changes: list[tuple[int, bytes]]
) -> None:
    for position, content in changes:
        body = body[:position] + content + body[position + len(content) :]
    _decoded_or_refused(body)


def _decoded_or_refused(body: bytes) -> None:
    try:
        manifest = decode(body)
    except (BadRequest, UnsupportedMediaType):
        return
    assert manifest["kind"]
