"""What holds for every manifest whatever: `inspect` answers, and what it let pass it leaves alone the second time."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import Findings, inspect

KINDS = (
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Node",
    "io.k8s.api.core.v1.Event",
    "io.k8s.api.batch.v1.Job",
    "io.x-k8s.kueue.v1beta1.Workload",
    "io.x-k8s.kueue.v1beta2.ClusterQueue",
    "io.ray.v1.RayJob",
    "dev.fairway.v1alpha1.ManagedJob",
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "1", "500m", "1Gi", "True", "Never", "2026-01-31T12:00:00Z", "YQ=="]),
    st.text(max_size=5),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def manifests(draw: st.DrawFn, name: str) -> Any:
    """Something that mostly has the shape of the kind."""
    return near(draw, definition(name), 0)


def near(draw: st.DrawFn, schema: Schema, depth: int) -> Any:
    if draw(st.integers(0, 12)) == 0:
        return draw(anything)
    if schema.type == "array" and schema.items is not None:
        size = draw(st.integers(0, 2 if depth < 4 else 1))
        return [near(draw, schema.items, depth + 1) for _ in range(size)]
    if schema.values is not None:
        keys = draw(st.sets(st.text("ab", max_size=2), max_size=2))
        return {key: near(draw, schema.values, depth + 1) for key in sorted(keys)}
    if schema.properties:
        chosen = set(draw(st.lists(st.sampled_from(sorted(schema.properties)), max_size=3)))
        if depth < 6:
            chosen |= set(schema.required)
        return {name: near(draw, schema.properties[name], depth + 1) for name in sorted(chosen)}
    return draw(scalar(schema))


def scalar(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.enum:
        return st.sampled_from(schema.enum)
    by_format: dict[str, st.SearchStrategy[Any]] = {
        "quantity": st.sampled_from(["1", 1, 0.5, "1024Mi"]),
        "int-or-string": st.sampled_from([1, "1Gi", 2.0]),
        "date-time": st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00"]),
        "micro-time": st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000001Z"]),
        "byte": st.just("YQ=="),
    }
    by_type: dict[str, st.SearchStrategy[Any]] = {
        "string": st.sampled_from(["a", "main", ""]),
        "integer": st.integers(0, 9),
        "number": st.floats(0, 1),
        "boolean": st.booleans(),
    }
    return by_format.get(schema.format, by_type.get(schema.type, anything))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_second_look_finds_and_changes_nothing_new(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(KINDS))
    schema, manifest = definition(name), data.draw(manifests(name))
    before = copy.deepcopy(manifest)

    first = inspect(schema, manifest)
    after = copy.deepcopy(manifest)
    second = inspect(schema, manifest)

    assert manifest == after
    assert second.unknown == []
    assert (second == Findings()) == (not first.errors), (before, first)
    json.dumps(manifest)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KINDS), anything)
def test_anything_at_all_gets_an_answer(name: str, manifest: Any) -> None:
    findings = inspect(definition(name), manifest)

    assert findings.errors or isinstance(manifest, dict)
