"""CustomResourceDefinitions of users with the real kubectl: applied, used in every way, deleted."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.testing.servers import Server

from .kubectl import Kubectl

_numbers = iter(range(1, 1000))

SPEC = {
    "type": "object",
    "required": ["cronSpec"],
    "properties": {
        "cronSpec": {"type": "string", "pattern": r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$", "description": "When."},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "number": {"type": "integer"}},
            },
        },
    },
}
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}


def definition(group: str, **changes: Any) -> Manifest:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": copy.deepcopy(SPEC), "status": STATUS}}
        },
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"},
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
        ],
    }
    short = group.partition(".")[0]
    names = {"plural": "crontabs", "kind": "CronTab", "shortNames": [f"ct{short}"], "categories": [f"all{short}"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crontabs.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version], **changes},
    }


def crontab(group: str, name: str = "mine", **spec: Any) -> Manifest:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "* * * * */5", **spec},
    }


@pytest.fixture
def group(kubectl: Kubectl, server: Server) -> Iterator[str]:
    """The group of a definition that is established; each test has its own."""
    name = f"g{next(_numbers)}.example.com"
    kubectl("apply -f -", given=definition(name))
    kubectl(f"wait --for=condition=Established crd/crontabs.{name} --timeout=30s")
    yield name
    server.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crontabs.{name}")


def test_objects_are_applied_listed_and_explained(kubectl: Kubectl, group: str) -> None:
    assert kubectl("apply -f -", given=crontab(group, color="red")).strip() == f"crontab.{group}/mine created"
    assert kubectl("apply -f -", given=crontab(group, color="red")).strip() == f"crontab.{group}/mine unchanged"
    short = group.partition(".")[0]
    lines = kubectl(f"get ct{short}").splitlines()
    assert [line.split() for line in lines] == [["NAME", "SPEC", "REPLICAS"], ["mine", *"****", "*/5", "1"]]
    assert "PHASE" in kubectl(f"get ct{short} -o wide")
    assert "mine" in kubectl(f"get all{short}")
    assert "mine" in kubectl(f"get crontabs.{group} --field-selector spec.color=red -o name")
    assert kubectl(f"get crontabs.{group} --field-selector spec.color=blue -o name") == ""
    assert "cronSpec\t<string> -required-" in kubectl(f"explain crontabs.spec --api-version={group}/v1")
    assert "crontabs" in kubectl(f"api-resources --api-group={group}")


def test_what_the_schema_forbids_is_refused_by_field(kubectl: Kubectl, group: str) -> None:
    result = kubectl.run("apply -f -", given=crontab(group, cronSpec="nope", color="green", replicas=11))
    assert result.code == 1
    for said in ("spec.cronSpec: Invalid value", 'supported values: "red", "blue"', "less than or equal to 10"):
        assert said in result.errors
    assert 'unknown field "spec.size"' in kubectl.run("apply -f -", given=crontab(group, size=1)).errors


def test_server_side_apply_merges_lists_by_their_keys(kubectl: Kubectl, group: str) -> None:
    for manager, port in (("one", {"name": "a", "number": 1}), ("two", {"name": "b", "number": 2})):
        kubectl(f"apply --server-side --field-manager={manager} -f -", given=crontab(group, ports=[port]))
    ports = json.loads(kubectl(f"get crontabs.{group} mine -o json"))["spec"]["ports"]
    assert [port["name"] for port in ports] == ["a", "b"]


def test_status_and_scale_have_doors_of_their_own(kubectl: Kubectl, group: str) -> None:
    kubectl("apply -f -", given=crontab(group))
    resource = f"crontabs.{group}"
    kubectl(f'patch {resource} mine --subresource=status --type=merge -p \'{{"status":{{"phase":"Up"}}}}\'')
    kubectl(f'patch {resource} mine --type=merge -p \'{{"status":{{"phase":"Down"}}}}\'')
    kubectl(f"scale {resource} mine --replicas=4")
    found = json.loads(kubectl(f"get {resource} mine -o json"))
    assert (found["status"]["phase"], found["spec"]["replicas"], found["metadata"]["generation"]) == ("Up", 4, 2)
    assert json.loads(kubectl(f"get {resource} mine --subresource=scale -o json"))["spec"] == {"replicas": 4}


def test_changes_are_watched(kubectl: Kubectl, group: str) -> None:
    with kubectl.following(f"get crontabs.{group} --watch -o name") as lines:
        kubectl("apply -f -", given=crontab(group, "seen"))
        lines.until("seen")


def test_cel_rules_are_warned_of(kubectl: Kubectl) -> None:
    manifest = definition("cel.example.com")
    raw = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    raw["x-kubernetes-validations"] = [{"rule": "self.spec.replicas > 1"}]
    result = kubectl.run("apply -f -", given=manifest)
    kubectl("delete crd crontabs.cel.example.com")
    assert "x-kubernetes-validations are not evaluated by this server: 1 CEL rule" in result.errors


def test_a_deleted_definition_takes_all_along(kubectl: Kubectl, group: str) -> None:
    kubectl("apply -f -", given=crontab(group))
    kubectl(f"delete crd crontabs.{group}")
    assert "the server doesn't have a resource type" in kubectl.run(f"get crontabs.{group}").errors
    kubectl("apply -f -", given=definition(group))
    kubectl(f"wait --for=condition=Established crd/crontabs.{group} --timeout=30s")
    assert kubectl(f"get crontabs.{group} -o name") == ""


def test_two_versions_show_the_same_object(kubectl: Kubectl) -> None:
    group = "two.example.com"
    manifest = definition(group)
    older = {**manifest["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    manifest["spec"]["versions"].append(older)
    kubectl("apply -f -", given=manifest)
    kubectl(f"wait --for=condition=Established crd/crontabs.{group} --timeout=30s")
    kubectl("apply -f -", given={**crontab(group), "apiVersion": f"{group}/v1beta1"})
    shown = [json.loads(kubectl(f"get crontabs.{version}.{group} mine -o json")) for version in ("v1", "v1beta1")]
    kubectl(f"delete crd crontabs.{group}")
    assert [one["apiVersion"] for one in shown] == [f"{group}/v1", f"{group}/v1beta1"]
    assert shown[0]["spec"] == shown[1]["spec"]


def test_a_malicious_definition_neither_stops_nor_slows_the_server(kubectl: Kubectl, server: Server) -> None:
    group = "evil.example.com"
    manifest = definition(group)
    spec = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["cronSpec"]["pattern"] = "^(a+)+$"
    kubectl("apply -f -", given=manifest)
    kubectl(f"wait --for=condition=Established crd/crontabs.{group} --timeout=30s")
    refused = kubectl.run("apply -f -", given=crontab(group, cronSpec="a" * 5000 + "b"))
    kubectl(f"delete crd crontabs.{group}")
    assert refused.code == 1
    assert "spec.cronSpec: Invalid value" in refused.errors
