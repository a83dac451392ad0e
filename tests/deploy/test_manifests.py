"""The objects of an installation: what any cluster's administrator would look for."""

from typing import Any

import pytest

from fairway.deploy.manifests import Installation
from fairway.deploy.names import CONTROLLER_USER, LEADER_LABEL, NAMESPACE, WAYS, Way
from fairway.deploy.permissions import CONTROLLER_PERMISSIONS, permissions
from fairway.installing import installation_objects
from fairway.integrations.frameworks import FRAMEWORKS

HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def rendered(way: Way, **chosen: Any) -> list[dict[str, Any]]:
    return installation_objects(Installation(way=way, image="fairway:test", version="test", **chosen), monitoring=True)


def one(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (found,) = [o for o in objects if o["kind"] == kind and name in ("", o["metadata"]["name"])]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_objects_are_unique_labelled_and_in_the_namespace(way: Way) -> None:
    objects = rendered(way, managed_by="me")
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]

    assert len(keys) == len(set(keys))
    assert {namespace for _, namespace, _ in keys} <= {None, NAMESPACE, "kube-system"}
    assert all(o["metadata"]["labels"]["app.kubernetes.io/name"] == "fairway" for o in objects)
    assert all(o["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "me" for o in objects)


@pytest.mark.parametrize("way", WAYS)
def test_definitions_come_first_and_webhooks_after_the_controller(way: Way) -> None:
    kinds = [o["kind"] for o in rendered(way)]

    assert kinds[0] == "CustomResourceDefinition"
    assert kinds.index("Namespace") == kinds.count("CustomResourceDefinition")
    assert all(kinds.index(hook) > kinds.index("Deployment") for hook in HOOKS)


def test_kueues_kinds_are_defined_only_where_fairway_admits() -> None:
    groups = {
        way: {o["spec"]["group"] for o in rendered(way) if o["kind"] == "CustomResourceDefinition"} for way in WAYS
    }

    assert groups == {"kueue": {"fairway.dev"}, "none": {"fairway.dev"}, "fairway": {"fairway.dev", "kueue.x-k8s.io"}}


def test_the_pod_meets_the_restricted_pod_security_standard_with_a_read_only_root() -> None:
    spec = one(rendered("kueue"), "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(set(volume) == {"name", "emptyDir"} for volume in spec["volumes"])
    probes = {"livenessProbe", "readinessProbe", "startupProbe"}
    assert {probe for probe in container if probe.endswith("Probe")} == probes
    assert container["resources"]["requests"]
    assert container["resources"]["limits"]["memory"]


def test_the_service_reaches_the_leader_only_and_probes_do_not_depend_on_it() -> None:
    objects = rendered("kueue")
    deployment = one(objects, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]

    assert one(objects, "Service")["spec"]["selector"] == {**labels, LEADER_LABEL: "true"}
    assert LEADER_LABEL not in labels
    assert one(objects, "PodDisruptionBudget")["spec"]["selector"] == {"matchLabels": labels}


@pytest.mark.parametrize("way", WAYS)
def test_no_rule_has_a_wildcard_or_writes_roles(way: Way) -> None:
    roles = [o for o in rendered(way) if o["kind"] in {"Role", "ClusterRole"}]
    rules = [rule for role in roles for rule in role["rules"]]

    assert rules
    assert all("*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in rules)
    assert all("rbac.authorization.k8s.io" not in rule["apiGroups"] for rule in rules)
    assert not {"impersonate", "escalate", "bind"} & {verb for rule in rules for verb in rule["verbs"]}


def test_every_row_of_the_table_says_why_and_is_used_by_some_way_once() -> None:
    for way in WAYS:
        granted = [
            (row.namespace, row.group, resource, verb, row.names)
            for row in permissions(way)
            for resource in row.resources
            for verb in row.verbs
        ]
        assert len(granted) == len(set(granted))
    assert all(row.why and row.ways for row in CONTROLLER_PERMISSIONS)


def test_jobs_of_every_kind_may_be_started_and_deleted_after_their_retention() -> None:
    granted = {
        f"{resource}.{row.group}": set(row.verbs) for row in permissions("fairway") for resource in row.resources
    }

    assert {kind.resource: granted[kind.resource] for kind in FRAMEWORKS} == {
        kind.resource: {"list", "watch", "patch", "delete"} for kind in FRAMEWORKS
    }


def test_no_kueue_object_but_workloads_is_written_where_kueue_admits() -> None:
    """And whether the check that Fairway itself answers, `fairway.dev/limits`, is active."""
    written = {
        resource
        for row in permissions("kueue")
        if row.group == "kueue.x-k8s.io" and set(row.verbs) - {"get", "list", "watch"}
        for resource in row.resources
    }

    assert written <= {"workloads", "workloads/status", "workloads/finalizers", "admissionchecks/status"}


def test_where_nothing_admits_no_right_on_kueues_kinds_is_given() -> None:
    assert not [row for row in permissions("none") if row.group == "kueue.x-k8s.io"]


@pytest.mark.parametrize("way", WAYS)
def test_webhooks_leave_out_the_controller_and_the_pods_of_the_cluster_itself(way: Way) -> None:
    all_hooks = [hook for o in rendered(way) if o["kind"] in HOOKS for hook in o["webhooks"]]
    scheduling = [hook for hook in all_hooks if hook["name"].endswith(".schedule.fairway.dev")]
    hooks = [hook for hook in all_hooks if hook not in scheduling]

    assert {hook["rules"][0]["resources"][0] for hook in hooks} >= {"managedjobs"}
    assert ("pods" in {hook["rules"][0]["resources"][0] for hook in hooks}) == (way == "fairway")
    for hook in hooks:
        assert CONTROLLER_USER in hook["matchConditions"][0]["expression"]
        if hook["rules"][0]["apiGroups"] == [""]:
            (outside,) = hook["namespaceSelector"]["matchExpressions"]
            assert {"kube-system", NAMESPACE} <= set(outside["values"])
    assert {hook["rules"][0]["resources"][0] for hook in scheduling} >= {"pods", "jobs", "rayjobs", "sparkapplications"}
    for hook in scheduling:
        outside, labelled = hook["namespaceSelector"]["matchExpressions"]
        assert {"kube-system", NAMESPACE} <= set(outside["values"])
        assert labelled == {"key": "fairway.dev/organization", "operator": "Exists"}
        controller, owned = hook["matchConditions"]
        assert CONTROLLER_USER in controller["expression"]
        assert "ownerReferences" in owned["expression"]


def test_users_get_jobs_by_the_roles_edit_and_view() -> None:
    objects = rendered("kueue")
    prefix = "rbac.authorization.k8s.io/aggregate-to-"

    assert one(objects, "ClusterRole", "fairway-viewer")["metadata"]["labels"][f"{prefix}view"] == "true"
    assert one(objects, "ClusterRole", "fairway-user")["metadata"]["labels"][f"{prefix}edit"] == "true"


def test_kueue_may_read_managed_jobs_where_it_admits_and_nothing_else() -> None:
    role = one(rendered("kueue"), "ClusterRole", "fairway-kueue")

    assert role["rules"] == [
        {"apiGroups": ["fairway.dev"], "resources": ["managedjobs"], "verbs": ["get", "list", "watch"]}
    ]
    assert not [o for o in rendered("fairway") if o["metadata"]["name"] == "fairway-kueue"]
