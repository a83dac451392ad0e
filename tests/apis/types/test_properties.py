"""What must hold for any manifest: only `ValidationError` escapes, and whatever is read survives being written."""

import contextlib
import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.apis.core.pod_requests import pod_shape
from fairway.apis.kueue.manifests import decode, encode, load
from fairway.apis.kueue.objects import KINDS, AnyObject, Workload
from fairway.errors import ValidationError

from .samples import (
    Manifest,
    admitted,
    cluster_queue,
    cohort,
    full_pod_spec,
    full_samples,
    group,
    local_queue,
    validate_update,
    workload,
)

BASES = [*full_samples().values(), cluster_queue(), cohort(group()), local_queue(), workload(), admitted()]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "1Gi", "-1", "1e3", "1e9999999", "Never", "Any", "main", "a/b/c", "x" * 300])
    | st.sampled_from(["2026-01-02T03:04:05Z", "0001-01-01T00:00:00+14:00", "kueue.x-k8s.io/v1beta1", "True"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in the data where something stands."""
    if isinstance(data, dict):
        steps: list[tuple[Any, Any]] = list(data.items())
    elif isinstance(data, list):
        steps = list(enumerate(data))
    else:
        return []
    return [place for step, item in steps for place in ((*path, step), *places(item, (*path, step)))]


@st.composite
def spoiled(draw: st.DrawFn, base: Any, times: int = 3) -> Any:
    """The data with some places replaced, removed, doubled or renamed."""
    data = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, times))):
        found = places(data)
        if not found:
            break
        *parents, last = draw(st.sampled_from(found))
        place = data
        for step in parents:
            place = place[step]
        match draw(st.sampled_from(["replace", "replace", "remove", "double", "rename"])):
            case "remove":
                del place[last]
            case "double" if isinstance(place, list):
                place.insert(last, copy.deepcopy(place[last]))
            case "rename" if isinstance(place, dict):
                place[draw(st.text(max_size=12))] = place.pop(last)
            case _:
                place[last] = draw(anything)
    return data


manifests = st.sampled_from(BASES).flatmap(spoiled)
older_manifests = st.sampled_from([encode(decode(base), "v1beta1") for base in BASES]).flatmap(spoiled)


def loaded(data: Any) -> AnyObject | None:
    try:
        return load(data)
    except ValidationError as error:
        reasons = str(error)
    assert reasons
    return None


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(manifests)
def test_a_manifest_is_loaded_or_refused_with_reasons(data: Any) -> None:
    value = loaded(data)

    if value is not None:
        assert load(encode(value)) == value


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(older_manifests)
def test_an_older_manifest_is_loaded_or_refused_with_reasons(data: Any) -> None:
    value = loaded(data)

    if value is not None:
        assert load(encode(value)) == value
        older = encode(value, "v1beta1")
        assert encode(load(older), "v1beta1") == older


@settings(max_examples=100, deadline=None)
@given(anything | st.fixed_dictionaries({"apiVersion": anything, "kind": anything | st.sampled_from(sorted(KINDS))}))
def test_anything_at_all_is_refused_with_reasons(data: Any) -> None:
    assert loaded(data) is None


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(spoiled(full_pod_spec()))
def test_a_pod_spec_that_is_valid_has_a_shape(spec: Any) -> None:
    sample = workload({"template": {"spec": spec}})
    value = loaded(sample)

    if value is not None:
        assert isinstance(value, Workload)
        shape = pod_shape(value.spec.pod_sets[0].template)
        assert all(amount >= 0 for amount in shape.requests.values())


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(st.sampled_from(BASES).flatmap(lambda base: st.tuples(st.just(base), spoiled(base, times=1))))
def test_a_change_is_taken_or_refused_with_reasons(pair: tuple[Manifest, Any]) -> None:
    old, new = load(pair[0]), loaded(pair[1])

    if new is not None and type(new) is type(old):
        with contextlib.suppress(ValidationError):
            validate_update(old, new)


@given(st.sampled_from(BASES))
def test_whatever_is_stored_may_stay_as_it_is(base: Manifest) -> None:
    value = load(base)

    validate_update(value, load(encode(value)))
    assert load(encode(value)) == value
