"""What the API says about itself, compared with what a kube-apiserver says of the same kinds.

`data/discovery.json` holds the answers of kube-apiserver 1.36 with the definitions of Kueue 0.19.2, KubeRay 1.6.2 and
the cluster autoscaler installed. It serves more than one machine does, so the comparison is by what both have.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from fairway.apis.registry import default_registry
from fairway.server.discovery import AGGREGATED_VERSIONS, VIRTUAL, Discovery, aggregated_type, version_info

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "discovery.json").read_text())
GROUP_VERSIONS = sorted(
    (path.removeprefix("/apis/") if path != "/api/v1" else "/v1").rpartition("/")[::2]
    for path in RECORDED["resources"]
    if path != "/apis/ray.io/v1alpha1"
)


@pytest.fixture(scope="module")
def discovery() -> Discovery:
    return Discovery(default_registry().kinds)


def by_name(entries: list[dict[str, Any]], key: str = "name") -> dict[str, dict[str, Any]]:
    return {entry[key]: {**entry, "verbs": sorted(entry["verbs"])} for entry in entries}


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
def test_a_resource_list_says_of_each_resource_what_a_real_one_says(
    discovery: Discovery, group: str, version: str
) -> None:
    document = discovery.resources(group, version)
    assert document is not None
    path = f"/apis/{group}/{version}" if group else "/api/v1"
    ours, theirs = by_name(document["resources"]), by_name(RECORDED["resources"][path]["resources"])
    compared = ours.keys() & theirs.keys()
    assert compared
    for name in compared:
        expected = theirs[name]
        if name == "workloads":
            expected = expected | {"shortNames": [*expected["shortNames"], "wl"]}
        assert ours[name] == expected
    assert document["groupVersion"] == RECORDED["resources"][path]["groupVersion"]


def test_every_resource_that_is_served_was_compared_or_is_known_to_be_ours_alone(discovery: Discovery) -> None:
    recorded = {name for one in RECORDED["resources"].values() for name in by_name(one["resources"])}
    served = set()
    for one in discovery.groups()["groups"]:
        for version in one["versions"]:
            document = discovery.resources(one["name"], version["version"])
            assert document is not None
            served |= set(by_name(document["resources"]))
    not_compared = [kind for kind in default_registry().kinds if kind.acknowledged or kind.inert or kind.yields]
    acknowledged = {f"{kind.plural}{part}" for kind in not_compared for part in ("", "/status", "/scale")}
    assert served - recorded - acknowledged == {
        "customresourcedefinitions",
        "customresourcedefinitions/status",
        "clusterqueues/pendingworkloads",
        "localqueues/pendingworkloads",
        "managedjobs",
        "managedjobs/files",
        "managedjobs/log",
        "managedjobs/status",
        "quotadefinitions",
        "quotadefinitions/status",
        "attempts",
        "groups",
        "simulations",
        "usage",
        "users",
        "waitingjobs",
        "runtimeclasses",
    }


@pytest.mark.parametrize("group", [one["name"] for one in RECORDED["groups"] if one["name"] != "ray.io"])
def test_a_group_has_the_versions_of_a_real_one_in_its_order(discovery: Discovery, group: str) -> None:
    expected = next(one for one in RECORDED["groups"] if one["name"] == group)
    assert discovery.group(group) == {"kind": "APIGroup", "apiVersion": "v1", **expected}
    assert expected in discovery.groups()["groups"]


def test_a_group_or_version_that_is_not_served_has_no_document(discovery: Discovery) -> None:
    assert discovery.group("resource.k8s.io") is None
    assert discovery.group("") is None
    assert discovery.resources("batch", "v2") is None
    assert discovery.resources("", "v2") is None


def test_the_core_versions_come_with_the_address_of_the_server(discovery: Discovery) -> None:
    document = discovery.api_versions("127.0.0.1:6443")
    assert document["versions"] == ["v1"]
    assert document["serverAddressByClientCIDRs"] == [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]


def normalised(resource: dict[str, Any], group: str, version: str) -> dict[str, Any]:
    """A resource of the aggregated form; a real server leaves out group and version where they go without saying."""
    kind = resource["responseKind"]
    whole = {**resource, "verbs": sorted(resource["verbs"])}
    whole["responseKind"] = {**kind, "group": kind["group"] or group, "version": kind["version"] or version}
    return whole


@pytest.mark.parametrize("group", [one["metadata"].get("name", "") for one in RECORDED["aggregated"]])
def test_the_aggregated_form_says_of_each_resource_what_a_real_one_says(discovery: Discovery, group: str) -> None:
    documents = {one["metadata"].get("name", ""): one for one in discovery.aggregated(core=not group)["items"]}
    expected = next(one for one in RECORDED["aggregated"] if one["metadata"].get("name", "") == group)
    versions = {one["version"]: one for one in expected["versions"]}
    assert documents[group]["metadata"] == expected["metadata"]
    for ours in documents[group]["versions"]:
        theirs = by_name(versions[ours["version"]]["resources"], "resource")
        for resource in ours["resources"]:
            if resource["resource"] not in theirs:
                continue
            want = normalised(theirs[resource["resource"]], group, ours["version"])
            if resource["resource"] == "workloads":
                want["shortNames"] = [*want["shortNames"], "wl"]
            found = normalised(resource, group, ours["version"])
            subs, want_subs = found.pop("subresources", []), want.pop("subresources", [])
            assert found == want
            known = by_name(want_subs, "subresource")
            for sub in subs:
                assert normalised(sub, group, ours["version"]) == normalised(
                    known[sub["subresource"]], group, ours["version"]
                )


def test_both_aggregated_versions_have_the_same_content(discovery: Discovery) -> None:
    first, second = (discovery.aggregated(core=False, version=version) for version in AGGREGATED_VERSIONS)
    assert first.pop("apiVersion") == "apidiscovery.k8s.io/v2"
    assert second.pop("apiVersion") == "apidiscovery.k8s.io/v2beta1"
    assert first == second
    assert aggregated_type("v2") == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_the_aggregated_form_and_the_old_one_list_the_same(discovery: Discovery) -> None:
    for core in (True, False):
        for group in discovery.aggregated(core=core)["items"]:
            for version in group["versions"]:
                old = discovery.resources(group["metadata"].get("name", ""), version["version"])
                assert old is not None
                listed = {one["name"]: one["verbs"] for one in old["resources"]}
                described = {}
                for one in version["resources"]:
                    if one["responseKind"]["kind"]:
                        described[one["resource"]] = one["verbs"]
                    for sub in one.get("subresources", []):
                        described[f"{one['resource']}/{sub['subresource']}"] = sub["verbs"]
                assert described == listed


def test_the_queues_of_the_visibility_api_are_only_a_place_for_what_is_pending(discovery: Discovery) -> None:
    """With a kind of their own, `kubectl get clusterqueues` could mean either group."""
    group = next(
        one
        for one in discovery.aggregated(core=False)["items"]
        if one["metadata"]["name"] == "visibility.kueue.x-k8s.io"
    )
    assert [one["version"] for one in group["versions"]] == ["v1beta2", "v1beta1"]
    for version in group["versions"]:
        for resource in version["resources"]:
            assert (resource["responseKind"]["kind"], resource["verbs"]) == ("", [])
            (sub,) = resource["subresources"]
            assert sub["responseKind"]["kind"] == "PendingWorkloadsSummary"
            assert sub["verbs"] == ["get"]


def test_reviews_can_only_be_created(discovery: Discovery) -> None:
    reviews = [one for one in VIRTUAL if one.group.endswith(".k8s.io")]
    assert {one.plural for one in reviews if not one.subresource} == {
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    }
    assert {one.verbs for one in reviews} == {("create",)}


def test_who_waits_can_only_be_looked_at(discovery: Discovery) -> None:
    document = discovery.resources("fairway.dev", "v1alpha1")
    assert document is not None
    assert by_name(document["resources"])["waitingjobs"] == {
        "name": "waitingjobs",
        "singularName": "waitingjob",
        "namespaced": True,
        "kind": "WaitingJob",
        "verbs": ["get", "list"],
    }


def test_the_version_is_one_that_clients_can_compare() -> None:
    version = version_info()
    assert (version["major"], version["minor"]) == ("1", "34")
    assert version["gitVersion"].startswith("v1.34.0+fairway-")
    recorded_fields = {
        *("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"),
        "platform",
    }
    assert version.keys() == recorded_fields
