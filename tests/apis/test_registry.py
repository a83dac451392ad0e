"""The registry finds kinds by every name they have, and refuses lists that cannot be served."""

from dataclasses import replace
from functools import partial

import pytest

from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.registry import Registry, default_registry

KIND = Kind(
    group="example.com",
    kind="Boat",
    plural="boats",
    versions=("v2", "v1"),
    stored="v2",
    short_names=("bt",),
    schemas={"v1": partial(Schema), "v2": partial(Schema)},
)
PORT = replace(KIND, kind="Port", plural="ports", versions=("v2",), short_names=())


@pytest.fixture
def registry() -> Registry:
    return Registry([KIND, PORT])


def test_a_kind_is_found_by_the_path_of_a_request(registry: Registry) -> None:
    assert registry.by_resource("example.com", "v1", "boats") is KIND
    assert registry.by_resource("example.com", "v1", "ports") is None
    assert registry.by_resource("example.com", "v3", "boats") is None
    assert registry.by_resource("", "v1", "boats") is None


def test_a_kind_is_found_by_what_a_manifest_says(registry: Registry) -> None:
    assert registry.by_kind("example.com", "Port") is PORT
    assert registry.by_kind("", "Port") is None
    assert registry.by_api_version("example.com/v2", "Port") is PORT
    assert registry.by_api_version("example.com/v1", "Port") is None
    assert registry.by_api_version("v2", "Port") is None


@pytest.mark.parametrize("name", ["boats", "boat", "Boat", "bt", "boats.example.com", "bt.example.com"])
def test_a_kind_is_found_by_what_somebody_types(registry: Registry, name: str) -> None:
    assert registry.by_name(name) is KIND


@pytest.mark.parametrize("name", ["ship", "", "boats.example.org"])
def test_what_is_no_name_of_a_kind_finds_none(registry: Registry, name: str) -> None:
    assert registry.by_name(name) is None


def test_groups_list_their_versions_the_preferred_one_first(registry: Registry) -> None:
    assert dict(registry.groups()) == {"example.com": ("v2", "v1")}
    assert registry.of_group("example.com", "v1") == [KIND]


REFUSED = [
    pytest.param([KIND, KIND], "two kinds called Boat in example.com", id="the same kind twice"),
    pytest.param([KIND, replace(PORT, short_names=("bt",))], "both called bt", id="two kinds of one short name"),
    pytest.param([KIND, replace(PORT, plural="boat")], "both called boat", id="a plural that is another's singular"),
    pytest.param([replace(KIND, stored="v3")], "stored as 'v3'", id="a stored version that is not served"),
    pytest.param([replace(KIND, schemas={"v2": Schema})], "no schema for v1", id="a version without a schema"),
    pytest.param([replace(KIND, columns={"v3": ()})], "columns for v3", id="columns of a version that is not served"),
]


@pytest.mark.parametrize(("kinds", "message"), REFUSED)
def test_a_list_that_cannot_be_served_is_refused(kinds: list[Kind], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Registry(kinds)


def test_two_groups_may_use_one_name_and_the_first_on_the_list_is_meant() -> None:
    other = replace(KIND, group="example.org")
    registry = Registry([KIND, other])
    assert registry.by_name("boats") is KIND
    assert registry.by_name("boats.example.org") is other


SERVED = {
    "": {"configmaps", "events", "namespaces", "nodes", "pods", "secrets", "serviceaccounts"},
    "autoscaling.x-k8s.io": {"provisioningrequests"},
    "batch": {"jobs"},
    "coordination.k8s.io": {"leases"},
    "fairway.dev": {"managedjobs"},
    "kueue.x-k8s.io": {
        "admissionchecks",
        "clusterqueues",
        "cohorts",
        "localqueues",
        "provisioningrequestconfigs",
        "resourceflavors",
        "topologies",
        "workloadpriorityclasses",
        "workloads",
    },
    "ray.io": {"rayclusters", "rayjobs"},
    "scheduling.k8s.io": {"priorityclasses"},
}
"""The kinds that the design promises on one machine."""


def test_one_machine_serves_what_the_design_promises() -> None:
    registry = default_registry()
    found: dict[str, set[str]] = {}
    for kind in registry.kinds:
        found.setdefault(kind.group, set()).add(kind.plural)
    missing = {group: plurals - found[group] for group, plurals in SERVED.items() if plurals - found[group]}
    assert missing == {}


def test_every_version_that_is_served_has_a_schema_that_can_be_loaded() -> None:
    for kind in default_registry().kinds:
        for version in kind.versions:
            assert "metadata" in kind.schemas[version]().properties, (kind.resource, version)


def test_no_short_name_means_two_kinds() -> None:
    """Across groups that would be allowed, but people type short names without a group."""
    names = [name for kind in default_registry().kinds for name in {kind.plural, kind.singular_name, *kind.short_names}]
    assert sorted(names) == sorted(set(names))
