"""What a CustomResourceDefinition must be, in kube-apiserver's words, and which kind comes of one."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from fairway.apis.extensions import definitions
from fairway.apis.extensions.definitions import kind_of, warnings
from fairway.apis.machinery.kind import Manifest

from .samples import crontabs, version, with_spec

Change = Callable[[Manifest], None]


def put(*path: str, value: Any) -> Change:
    def change(manifest: Manifest) -> None:
        found: Any = manifest
        for name in path[:-1]:
            found = found[int(name)] if isinstance(found, list) else found.setdefault(name, {})
        found[path[-1]] = value

    return change


def names(**values: Any) -> Change:
    return lambda manifest: manifest["spec"]["names"].update(values)


def first_version(**values: Any) -> Change:
    return lambda manifest: manifest["spec"]["versions"][0].update(values)


WRONG = [
    ("another name", put("metadata", "name", value="x.example.com"), 'must be spec.names.plural+"."+spec.group'),
    ("a group without a dot", put("spec", "group", value="example"), "should be a domain with at least one dot"),
    (
        "a protected group",
        put("spec", "group", value="foo.k8s.io"),
        "metadata.annotations[api-approved.kubernetes.io]: Required",
    ),
    ("an upper case plural", names(plural="CronTabs"), "spec.names.plural: Invalid value"),
    ("a kind that is no name", names(kind="Cron Tab"), "may have mixed case, but should otherwise match"),
    ("a list like its items", names(listKind="CronTab"), "kind and listKind may not be the same"),
    ("a short name that is none", names(shortNames=["C T"]), "spec.names.shortNames[0]: Invalid value"),
    ("another scope", put("spec", "scope", value="Galaxy"), 'supported values: "Cluster", "Namespaced"'),
    ("old pruning", put("spec", "preserveUnknownFields", value=True), "spec.preserveUnknownFields: Invalid value"),
    (
        "another conversion",
        put("spec", "conversion", value={"strategy": "Magic"}),
        'supported values: "None", "Webhook"',
    ),
    ("no version", put("spec", "versions", value=[]), "spec.versions: Required value"),
    ("no stored version", first_version(storage=False), "must have exactly one version marked as storage version"),
    (
        "a version twice",
        lambda one: one["spec"]["versions"].append(version("v1", storage=False)),
        "unique version names",
    ),
    ("no schema", first_version(schema=None), "openAPIV3Schema: Required value: schemas are required"),
    (
        "a column of another type",
        first_version(additionalPrinterColumns=[{"name": "A", "type": "float", "jsonPath": ".a"}]),
        "must be one of boolean,date,integer,number,string",
    ),
    (
        "a scale elsewhere",
        first_version(subresources={"scale": {"specReplicasPath": ".metadata.x", "statusReplicasPath": ".status.r"}}),
        "should be a json path under .spec",
    ),
    (
        "a selectable object",
        first_version(selectableFields=[{"jsonPath": ".spec"}]),
        "must point to a field of type string",
    ),
    (
        "selectable metadata",
        first_version(selectableFields=[{"jsonPath": ".metadata.name"}]),
        "must not point to fields in metadata",
    ),
    (
        "a huge schema",
        first_version(schema={"openAPIV3Schema": with_spec(**{f"f{n}": {"type": "string"} for n in range(50_001)})}),
        "this server takes 50000 of a definition",
    ),
]


@pytest.mark.parametrize(("change", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_definition_is_refused(change: Change, said: str) -> None:
    manifest = crontabs()
    definitions.default(manifest)
    assert definitions.validate(manifest) == []
    change(manifest)
    assert any(said in str(error) for error in definitions.validate(manifest)), list(
        map(str, definitions.validate(manifest))
    )


def test_names_that_are_left_out_are_filled_in() -> None:
    manifest = crontabs()
    definitions.default(manifest)
    assert manifest["spec"]["names"] | {"singular": "crontab", "listKind": "CronTabList"} == manifest["spec"]["names"]
    assert manifest["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    ("change", "path"),
    [(put("spec", "scope", value="Cluster"), "spec.scope"), (names(kind="Other"), "spec.names.kind")],
)
def test_what_objects_are_stored_by_cannot_change_once_they_are_served(change: Change, path: str) -> None:
    old = crontabs()
    definitions.default(old)
    new = copy.deepcopy(old)
    change(new)
    assert path not in {error.path for error in definitions.validate_update(old, new)}
    old["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    assert path in {error.path for error in definitions.validate_update(old, new)}


def test_a_version_that_objects_may_be_stored_in_stays() -> None:
    old = crontabs(version("v1"), version("v2", storage=False))
    definitions.default(old)
    old["status"] = {"storedVersions": ["v1"]}
    new = copy.deepcopy(old)
    new["spec"]["versions"] = [version("v2")]
    assert [error.path for error in definitions.validate_update(old, new)] == ["status.storedVersions[0]"]


def test_versions_come_in_the_order_of_kubernetes() -> None:
    given = ["v1alpha1", "foo", "v10beta3", "v1", "v2", "v1beta2", "v11alpha2"]
    manifest = crontabs(*(version(name, storage=name == "v1") for name in given))
    definitions.default(manifest)
    assert kind_of(manifest).versions == ("v2", "v1", "v10beta3", "v1beta2", "v11alpha2", "v1alpha1", "foo")


def test_what_has_no_effect_is_said() -> None:
    rules = {"type": "object", "x-kubernetes-validations": [{"rule": "true"}, {"rule": "false"}]}
    column = {"name": "Odd", "type": "string", "jsonPath": ".spec[?(@.a>1)]"}
    manifest = crontabs(version("v1", rules, additionalPrinterColumns=[column]), version("v2", storage=False))
    manifest["spec"]["conversion"] = {"strategy": "Webhook"}
    said = " / ".join(warnings(manifest))
    assert "2 CEL rules" in said
    assert "calls no conversion webhooks" in said
    assert "'Odd' is left out" in said
    assert warnings(crontabs()) == ()


def test_without_a_conversion_webhook_only_the_stored_version_is_served() -> None:
    manifest = crontabs(version("v1"), version("v2", storage=False))
    manifest["spec"]["conversion"] = {"strategy": "Webhook"}
    assert kind_of(manifest).versions == ("v1",)
