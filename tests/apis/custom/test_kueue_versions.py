"""Kueue's two versions of one object: what each is called where, and that a way there and back loses nothing."""

import copy
from typing import Any

import pytest

from apis.types import samples
from apis.types.samples import V1BETA1, Manifest
from fairway.apis.kueue.records import KINDS
from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.schemas.walk import inspect
from fairway.errors import ValidationError

BY_KIND: dict[str, Kind] = {kind.kind: kind for kind in KINDS}

ONLY_STORED = {
    "ClusterQueue": [("spec", "concurrentAdmissionPolicy")],
    "Workload": [("spec", "preemptionGates"), ("status", "preemptionGates")],
}
"""What the older version has no place for, so that Kueue loses it too."""


def stored_sample(name: str) -> Manifest:
    manifest = samples.full_samples()[name]
    for part, field in ONLY_STORED.get(name, []):
        manifest.get(part, {}).pop(field, None)
    if name == "Workload":
        for pod_set in manifest["spec"]["podSets"]:
            pod_set.get("topologyRequest", {}).pop("podsetSliceRequiredTopologyConstraints", None)
    return manifest


@pytest.mark.parametrize("name", sorted(BY_KIND))
def test_the_older_version_of_a_full_object_fits_its_own_schema(name: str) -> None:
    kind = BY_KIND[name]
    older = kind.rules.convert(stored_sample(name), "v1beta1")
    assert older["apiVersion"] == V1BETA1
    findings = inspect(kind.schemas["v1beta1"](), older)
    assert (findings.errors, findings.unknown) == ([], [])


@pytest.mark.parametrize("name", sorted(BY_KIND))
def test_to_the_older_version_and_back_nothing_is_lost(name: str) -> None:
    rules, manifest = BY_KIND[name].rules, stored_sample(name)
    once = rules.convert(rules.convert(manifest, "v1beta1"), "v1beta2")
    # Where pods go can be written in several ways; the first way back settles on one.
    again = rules.convert(rules.convert(once, "v1beta1"), "v1beta2")
    assert again == once
    assert once["metadata"] == manifest["metadata"]
    if name != "Workload":
        assert once == manifest


@pytest.mark.parametrize("name", sorted(BY_KIND))
def test_converting_leaves_its_argument_alone(name: str) -> None:
    rules, manifest = BY_KIND[name].rules, stored_sample(name)
    before = copy.deepcopy(manifest)
    older = rules.convert(manifest, "v1beta1")
    assert manifest == before
    kept = copy.deepcopy(older)
    rules.convert(older, "v1beta2")
    assert older == kept


def test_converting_to_the_version_that_it_has_changes_nothing() -> None:
    manifest = samples.workload()
    assert BY_KIND["Workload"].rules.convert(manifest, "v1beta2") == manifest


def old_workload(**spec: Any) -> Manifest:
    manifest = samples.workload(spec=spec)
    return manifest | {"apiVersion": V1BETA1}


def test_what_the_newer_version_cannot_say_is_refused_by_its_old_name() -> None:
    manifest = old_workload(priorityClassName="high")
    with pytest.raises(ValidationError, match="priority should not be nil when priorityClassName is set") as refusal:
        BY_KIND["Workload"].rules.convert(manifest, "v1beta2")
    assert refusal.value.name == manifest["metadata"]["name"]


def test_a_piece_of_an_object_can_be_converted_too() -> None:
    """Server-side apply sends only the fields that somebody cares about."""
    piece = {
        "apiVersion": V1BETA1,
        "kind": "Workload",
        "metadata": {"name": "w"},
        "status": {"admission": {"clusterQueue": "cq"}},
    }
    converted = BY_KIND["Workload"].rules.convert(piece, "v1beta2")
    assert converted["status"] == {"admission": {"clusterQueue": "cq"}}


PATHS = [
    pytest.param("Workload", "spec.priorityClassRef.name", "spec.priorityClassName", id="the name of a class"),
    pytest.param("ClusterQueue", "spec.cohortName", "spec.cohort", id="a renamed field"),
    pytest.param("LocalQueue", "status.flavorsUsage[0].name", "status.flavorUsage[0].name", id="inside a renamed one"),
    pytest.param("ClusterQueue", "spec.cohortNames", "spec.cohortNames", id="a field that only begins like one"),
    pytest.param("Workload", "metadata.name", "metadata.name", id="a field that is called the same"),
]


@pytest.mark.parametrize(("name", "path", "want"), PATHS)
def test_an_error_is_reported_where_the_older_version_has_the_field(name: str, path: str, want: str) -> None:
    rules = BY_KIND[name].rules
    assert rules.request_path("v1beta1", path) == want
    assert rules.request_path("v1beta2", path) == path
