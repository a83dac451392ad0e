"""A definition in Kueue's objects, compared with what there is, and made from it."""

import copy
from typing import Any

import pytest
from hypothesis import given

from fairway.apis.kueue.manifests import encode, load
from fairway.quota.compare import DEFAULTS, Action, ObjectKey, compare, patch_of
from fairway.quota.importing import from_kueue
from fairway.quota.kueue import render, role_bindings, shortfalls

from .definitions import example, read, specs, stored

QUEUE = ObjectKey("ClusterQueue", "", "vision")


def by_key(spec: dict[str, Any]) -> dict[str, Any]:
    return {f"{one['kind']} {one['metadata']['name']}": one.get("spec") for one in render(read(spec), "company")}


def test_an_organization_is_a_cohort_a_team_a_cluster_queue_and_a_type_a_local_queue() -> None:
    found = by_key(example())
    assert found["ClusterQueue vision"] == {
        "cohortName": "ml",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "vision"}},
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        "fairSharing": {"weight": "2"},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {
                        "name": "default-flavor",
                        "resources": [
                            {"name": "cpu", "nominalQuota": "3", "borrowingLimit": "2"},
                            {"name": "memory", "nominalQuota": "6Gi"},
                        ],
                    }
                ],
            }
        ],
    }
    assert "cohortName" not in found["ClusterQueue data"]
    assert "Cohort data" not in found
    assert found["LocalQueue spark"] == {"clusterQueue": "data"}


@given(specs())
def test_kueue_accepts_every_object(spec: dict[str, Any]) -> None:
    for one in render(read(spec), "company"):
        if one["apiVersion"].startswith("kueue"):
            load(one)


@given(specs())
def test_what_was_rendered_does_not_differ(spec: dict[str, Any]) -> None:
    quota = read(spec)
    assert compare(render(quota, "x"), stored(quota, "x"), "x") == []


@given(specs())
def test_an_imported_definition_changes_nothing(spec: dict[str, Any]) -> None:
    live = stored(read(spec), "x", labelled=False)
    imported, said = from_kueue(live, "new")
    assert said == []
    drift = [one for one in compare(render(read(imported), "new"), live, "new") if one.is_drift] if live else []
    assert drift == []


def test_a_cluster_queue_without_a_local_queue_is_imported_without_a_namespace() -> None:
    queue = ObjectKey("ClusterQueue", "", "lonely")
    live = {queue: {"kind": "ClusterQueue", "metadata": {"name": "lonely"}, "spec": {**DEFAULTS["ClusterQueue"]}}}
    live[ObjectKey("ResourceFlavor", "", "any")] = {"kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}}
    imported, _ = from_kueue(live, "x")
    assert [one.action for one in compare(render(read(imported), "x"), live, "x")] == [Action.ADOPT, Action.ADOPT]


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor"])
def test_the_defaults_are_those_of_kueues_schemas(kind: str) -> None:
    spec = {"clusterQueue": "any"} if kind == "LocalQueue" else {}
    sample = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "any"}, "spec": spec}
    assert encode(load(sample)).get("spec", {}) == spec | DEFAULTS.get(kind, {})


def test_the_objects_of_another_definition_are_not_imported() -> None:
    theirs = stored(read(example()), "theirs")
    mine = {"flavors": [{"name": "mine"}], "organizations": [{"name": "solo", "guaranteed": {"cpu": 1}}]}
    imported, _ = from_kueue({**theirs, **stored(read(mine), "x", labelled=False)}, "new")
    assert imported["flavors"] == [{"name": "mine"}]
    assert [one["name"] for one in imported["organizations"]] == ["solo"]


CHANGES = [
    ("a queue is held", ("stopPolicy",), "Hold", ["spec.stopPolicy"]),
    ("a queue leaves its cohort", ("cohortName",), "other", ["spec.cohortName"]),
    ("a weight", ("fairSharing", "weight"), "3", ["spec.fairSharing.weight"]),
    ("preemption", ("preemption", "withinClusterQueue"), "Never", ["spec.preemption.withinClusterQueue"]),
    ("the same amount in other words", ("fairSharing", "weight"), "2000m", []),
    ("a field of a newer Kueue", ("somethingNew",), {"a": 1}, ["spec.somethingNew"]),
]


@pytest.mark.parametrize(("path", "value", "fields"), [pytest.param(*rest, id=name) for name, *rest in CHANGES])
def test_a_change_by_hand_is_found_and_taken_back(path: tuple[str, ...], value: Any, fields: list[str]) -> None:
    quota = read(example())
    live = dict(stored(quota, "x"))
    at = live[QUEUE]["spec"]
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    found = compare(render(quota, "x"), live, "x")
    assert [field.path for one in found for field in one.fields] == fields
    for one in found:
        live[one.key] = merged(live[one.key], patch_of(one))
    assert compare(render(quota, "x"), live, "x") == []


def merged(value: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), part)
    return found


def test_quotas_differ_by_flavor_and_resource() -> None:
    quota = read(example())
    live = stored(quota, "x")
    live[QUEUE]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "9"
    (one,) = compare(render(quota, "x"), live, "x")
    (field,) = one.fields
    assert (field.path, field.live, field.defined) == (
        "spec.resourceGroups[0].flavors[default-flavor].resources[cpu].nominalQuota", "9", "3"
    )  # fmt: skip


def test_objects_of_ours_that_are_not_defined_any_more_go_and_namespaces_are_released() -> None:
    spec = example()
    live = stored(read(spec), "x")
    del spec["organizations"][0]["teams"][1]
    found = {str(one.key): one.action for one in compare(render(read(spec), "x"), live, "x")}
    assert found == {
        "Cohort ml": Action.UPDATE,
        "LocalQueue speech/default": Action.DELETE,
        "LocalQueue speech/ray": Action.DELETE,
        "LocalQueue speech/training": Action.DELETE,
        "ClusterQueue speech": Action.DELETE,
        "AdmissionCheck x-limits": Action.DELETE,
        "Namespace speech": Action.RELEASE,
    }


def test_objects_of_another_definition_are_left_alone() -> None:
    spec = example()
    live = stored(read(spec), "theirs")
    found = [one for one in compare(render(read(spec), "ours"), live, "ours") if not one.blocked]
    assert [str(one.key) for one in found] == ["AdmissionCheck ours-limits"], "each has its own"
    assert compare([], live, "ours") == []


def test_a_local_queue_cannot_change_its_team() -> None:
    spec = example()
    live = copy.deepcopy(stored(read(spec), "x"))
    live[ObjectKey("LocalQueue", "data", "spark")]["spec"]["clusterQueue"] = "vision"
    (one,) = compare(render(read(spec), "x"), live, "x")
    assert "cannot change that" in one.blocked


def test_what_kueue_cannot_express_is_named_with_the_nearest() -> None:
    spec = example()
    limits = [{"groups": ["vision"], "jobs": 1}, {"users": ["ana"], "jobs": 1}]
    spec["organizations"][0]["teams"][0].update(jobs=3, limits=limits, types=[{"name": "ray", "maximum": {"cpu": 1}}])
    spec["organizations"][1]["maximum"] = {"cpu": 8}
    found = {one.name: str(one) for one in shortfalls(read(spec))}
    assert found["UserLimits"].startswith("spec.organizations[0].teams[0].limits[0].groups: ")
    assert sorted(found) == ["JobCount", "JobTypeQuota", "NothingToBorrow", "UserLimits"]
    assert all("nearest" in text or "its quota is" in text for text in found.values())


LIMIT = {"users": ["*"], "jobs": 3}


@pytest.mark.parametrize(
    ("changes", "checked"),
    [
        ({}, ["speech"]),
        ({"limits": [LIMIT]}, ["speech", "vision"]),
        ({"budget": {"gpuHours": 10}}, ["speech", "vision"]),
        ({"types": [{"name": "default", "limits": [LIMIT]}]}, ["speech", "vision"]),
        ({"limits": [{"groups": ["vision"], "jobs": 3}]}, ["speech"]),
    ],
    ids=["of a team", "of an organization", "a budget", "of a job type", "groups are not known"],
)
def test_limits_of_users_and_budgets_are_a_check_of_the_queues_that_have_them(
    changes: dict[str, Any], checked: list[str]
) -> None:
    spec = example()
    spec["organizations"][0] |= changes
    found = render(read(spec), "company")
    assert found[0]["spec"] == {"controllerName": "fairway.dev/limits"}
    strategies = {
        one["metadata"]["name"]: one["spec"]["admissionChecksStrategy"]
        for one in found
        if one["kind"] == "ClusterQueue" and "admissionChecksStrategy" in one["spec"]
    }
    assert strategies == {one: {"admissionChecks": [{"name": "company-limits"}]} for one in checked}


def test_the_check_comes_after_those_that_a_team_has_anyway() -> None:
    spec = example()
    own = {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}
    spec["organizations"][0]["teams"][1]["kueue"] = own
    found = by_key(spec)["ClusterQueue speech"]
    assert found["admissionChecksStrategy"]["admissionChecks"] == [{"name": "a"}, {"name": "company-limits"}]
    assert own == {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}


def test_without_limits_and_where_nothing_answers_it_there_is_no_check() -> None:
    spec = example()
    spec["organizations"][0]["budget"] = {"gpuHours": 10}
    kinds = {one["kind"] for one in render(read(spec), "company", checked=False)}
    assert "AdmissionCheck" not in kinds
    found = {one.path: one.name for one in shortfalls(read(spec), checked=False)}
    assert found == {
        "spec.organizations[0].budget": "Budget",
        "spec.organizations[0].teams[1].limits[0]": "UserLimits",
    }
    del spec["organizations"][0]["budget"], spec["organizations"][0]["teams"][1]["limits"]
    assert not any(one.startswith("AdmissionCheck") for one in by_key(spec))


def test_limits_and_budgets_are_imported_from_the_definition_that_was_applied() -> None:
    """They are in no object of Kueue."""
    spec = example() | {"flavors": [{"name": "default-flavor"}]}
    ml = spec["organizations"][0]
    ml |= {"budget": {"gpuHours": 10}, "limits": [LIMIT], "types": ["default", {"name": "ray", "limits": [LIMIT]}]}
    imported, said = from_kueue(stored(read(spec), "x"), "x", {"spec": spec})
    assert said == []
    found, teams = imported["organizations"][0], imported["organizations"][0]["teams"]
    assert (found["budget"], found["limits"]) == (ml["budget"], ml["limits"])
    assert teams[0]["limits"] == ml["teams"][1]["limits"]
    assert [team["types"] for team in teams] == [["default", {"name": "ray", "limits": [LIMIT]}]] * 2
    assert compare(render(read(imported), "x"), stored(read(spec), "x"), "x") == []


def test_on_a_cluster_who_may_submit_is_a_role_binding() -> None:
    found = {
        (one["metadata"]["namespace"], one["roleRef"]["name"]): [subject["name"] for subject in one["subjects"]]
        for one in role_bindings(read(example()), "x")
    }
    assert found == {
        ("vision", "edit"): ["vision"],
        ("vision", "admin"): ["ml-leads"],
        ("speech", "edit"): ["speech"],
        ("speech", "admin"): ["ml-leads"],
        ("data", "edit"): ["data"],
    }


def test_teams_in_one_namespace_share_its_role_binding() -> None:
    spec = example()
    spec["organizations"][0]["teams"][1] |= {"namespace": "vision", "types": ["speech"]}
    edit, _admin, _data = role_bindings(read(spec), "x")
    assert [subject["name"] for subject in edit["subjects"]] == ["vision", "speech"]
