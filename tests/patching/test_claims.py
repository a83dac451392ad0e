"""Which fields a write of conditions changes, by what it looks like, is what comparing the whole statuses says."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.registry import default_registry
from fairway.store.patching import claims
from fairway.store.patching.claims import StatusWrite
from fairway.store.patching.comparing import compare

KINDS = ["workloads", "clusterqueues", "jobs.batch", "pods"]
"""With conditions that are told apart by type, and with some that are one field together."""


def schema_of(name: str) -> Schema:
    kind = default_registry().by_name(name)
    assert kind is not None
    return kind.schemas[kind.stored]()


VALUES = st.sampled_from(["", "True", "other", 0, 1, 1.0, True, None, {}, {"a": 1}, [], ["a"]])
FIELDS = st.dictionaries(st.sampled_from(["status", "reason", "message", "observedGeneration"]), VALUES)


@st.composite
def writes(draw: st.DrawFn) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """A status before and after some conditions are set, and these."""
    types = draw(st.lists(st.sampled_from(["A", "B", "C", 'quoted "D"']), unique=True, min_size=1))
    old = [{"type": kind, **draw(FIELDS)} for kind in types[: draw(st.integers(0, len(types)))]]
    new = [one if draw(st.booleans()) else {"type": one["type"], **draw(FIELDS)} for one in old]
    new += [{"type": kind, **draw(FIELDS)} for kind in types[len(old) :]]
    rest = draw(st.sampled_from([{}, {"admission": {"clusterQueue": "q"}}]))
    pairs: list[tuple[Any, Any]] = [
        (ours, theirs) for ours, theirs in zip(old, new, strict=False) if ours is not theirs
    ]
    pairs += [(None, theirs) for theirs in new[len(old) :]]
    return {**rest, "conditions": old}, {**rest, "conditions": new}, pairs


@given(write=writes(), kind=st.sampled_from(KINDS))
@settings(max_examples=400, deadline=None)
def test_conditions_that_look_alike_change_the_same_fields(
    write: tuple[Any, Any, list[tuple[Any, Any]]], kind: str
) -> None:
    old, new, news = write
    schema = schema_of(kind)

    found = StatusWrite(old, new, "me", "v1", "now", news).compared(schema)

    assert (found.changed, found.gone) == compare({"status": old}, {"status": new}, schema)


def test_so_many_shapes_are_remembered_and_no_more() -> None:
    schema = schema_of("workloads")
    for number in range(3 * claims._MOST_SHAPES):
        one = {"type": f"T{number}", "status": "True"}
        found = StatusWrite({"conditions": []}, {"conditions": [one]}, "me", "v1", "now", [(None, one)]).compared(
            schema
        )
        assert f'k:{{"type":"T{number}"}}' in found.changed["f:status"]["f:conditions"]
        assert len(claims._differences) <= claims._MOST_SHAPES
