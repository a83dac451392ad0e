"""Slices of elastic jobs: which of them count, how they follow their job, and which pods they let go."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import slices

TRUE = "True"


def a_slice(name: str, replaces: str = "", *, count: int = 1, conditions: tuple[str, ...] = ()) -> Manifest:
    annotations = {"kueue.x-k8s.io/elastic-job": "true", "kueue.x-k8s.io/workload-slice-name": "one"}
    if replaces:
        annotations["kueue.x-k8s.io/workload-slice-replacement-for"] = f"ns/{replaces}"
    said = [{"type": kind, "status": TRUE, "reason": kind, "message": ""} for kind in conditions]
    return {
        "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
        "spec": {"podSets": [{"name": "main", "count": count}]},
        "status": {"conditions": said},
    }


RESERVED = ("QuotaReserved", "Admitted")
EVICTED = ("QuotaReserved", "Admitted", "Evicted")
REPLACED = (slices.REPLACED, "Replaced to accommodate a new workload slice")
OUT_OF_SYNC = ("OutOfSync", "The workload slice is out of sync with its parent job")


@pytest.mark.parametrize(
    ("found", "selected", "retained", "ended"),
    [
        pytest.param([], None, None, [], id="none yet"),
        pytest.param([a_slice("one")], "one", None, [], id="one that waits"),
        pytest.param([a_slice("one", conditions=RESERVED)], "one", "one", [], id="one that runs"),
        pytest.param(
            [a_slice("one", conditions=RESERVED), a_slice("two", "one")], "two", "one", [], id="one grows, and waits"
        ),
        pytest.param(
            [a_slice("one", conditions=RESERVED), a_slice("two", "one", conditions=RESERVED)],
            "two",
            "two",
            [("one", *REPLACED)],
            id="the larger one is admitted",
        ),
        pytest.param(
            [a_slice("one", conditions=EVICTED), a_slice("two", "one")],
            "two",
            None,
            [("one", *REPLACED)],
            id="the one that ran was evicted",
        ),
        pytest.param(
            [a_slice("one", conditions=RESERVED), a_slice("two", "one"), a_slice("three", "one")],
            "two",
            "one",
            [("three", *OUT_OF_SYNC)],
            id="two made at once for the same place",
        ),
    ],
)
def test_one_slice_has_the_quota_and_at_most_one_waits_for_its_place(
    found: list[Manifest], selected: str | None, retained: str | None, ended: list[tuple[str, str, str]]
) -> None:
    sorted_out = slices.sorted_out(found)
    assert (sorted_out.selected or {"metadata": {"name": None}})["metadata"]["name"] == selected
    assert (sorted_out.retained or {"metadata": {"name": None}})["metadata"]["name"] == retained
    assert [(one.workload["metadata"]["name"], one.reason, one.message) for one in sorted_out.ended] == ended


@pytest.mark.parametrize(
    ("conditions", "held", "wanted", "in_place"),
    [((), 2, 5, True), ((), 2, 1, True), (RESERVED, 2, 1, True), (RESERVED, 2, 5, False)],
)
def test_a_slice_with_quota_only_shrinks_in_place(
    conditions: tuple[str, ...],
    held: int,
    wanted: int,
    in_place: bool,  # noqa: FBT001 - a table
) -> None:
    found = slices.resized(a_slice("one", count=held, conditions=conditions), {"main": wanted})
    assert found == ([{"name": "main", "count": wanted}] if in_place else None)


@pytest.mark.parametrize(
    ("found", "active"),
    [
        ([a_slice("one", conditions=RESERVED)], "one"),
        ([a_slice("one", conditions=RESERVED), a_slice("two", "one")], "one"),
        ([a_slice("one", conditions=RESERVED), a_slice("two", "one", conditions=("QuotaReserved",))], None),
        ([a_slice("one", conditions=EVICTED)], None),
        ([a_slice("one")], None),
    ],
)
def test_pods_go_by_the_newest_slice_with_quota_once_it_is_admitted(found: list[Manifest], active: str | None) -> None:
    chosen = slices.active_slice(found)
    assert (None if chosen is None else chosen["metadata"]["name"]) == active


def a_pod(name: str, *, gated: bool, phase: str = "Pending") -> Manifest:
    spec: dict[str, Any] = {"schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}]} if gated else {}
    labels = {"kueue.x-k8s.io/podset": "main"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}}


PODS = st.lists(st.tuples(st.booleans(), st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])), max_size=12)


@given(count=st.integers(0, 8), pods=PODS)
def test_no_more_pods_go_than_the_slice_has(count: int, pods: list[tuple[bool, str]]) -> None:
    made = [
        a_pod(f"p{number:02}", gated=gated, phase="Pending" if gated and phase == "Running" else phase)
        for number, (gated, phase) in enumerate(pods)
    ]
    chosen = slices.released_pods(a_slice("one", count=count, conditions=RESERVED), made)
    live = [pod for pod in made if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    free = [pod for pod in live if not slices.is_gated(pod)]
    gated = [pod for pod in live if slices.is_gated(pod)]
    assert chosen == gated[: max(0, count - len(free))]
    assert slices.opened(a_pod("p", gated=True)) == {"spec": {"schedulingGates": None}}
