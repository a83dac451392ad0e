"""The OpenAPI documents: that they hang together, and that they say what kubectl looks for in them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.schemas.definitions import definition, names
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.registry import default_registry
from fairway.server.openapi import documents, operations
from fairway.server.openapi.descriptions import described
from fairway.server.openapi.nodes import V2, V3, Definitions

KINDS = default_registry().kinds
SERVED = operations.group_versions(KINDS)
METHODS = ("get", "put", "post", "delete", "patch")


@cache
def v3(group_version: str) -> dict[str, Any]:
    document = documents.v3_document(KINDS, group_version)
    assert document is not None
    return document


def methods(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for word, value in node.items():
            if word == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def kind_named(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.kind == name)


def test_the_index_has_an_address_for_each_group_version() -> None:
    paths = documents.v3_index(KINDS)["paths"]

    assert set(paths) == {f"api/{one}" if one == "v1" else f"apis/{one}" for one in SERVED}
    assert paths["apis/batch/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/batch/v1?hash=")


def test_an_address_changes_with_what_it_holds_and_only_then() -> None:
    changed = [replace(kind, status=False) if kind.kind == "Job" else kind for kind in KINDS]
    before, again, after = (documents.v3_index(kinds)["paths"] for kinds in (KINDS, KINDS, changed))

    assert before == again
    assert {place for place in before if before[place] != after[place]} == {"apis/batch/v1"}


def test_there_is_no_document_for_what_is_not_served() -> None:
    assert documents.v3_document(KINDS, "batch/v2") is None
    assert documents.v3_document(KINDS, "") is None


@pytest.mark.parametrize("group_version", SERVED)
def test_a_document_refers_only_to_what_it_defines(group_version: str) -> None:
    document = v3(group_version)
    defined = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    operation_ids = [operation["operationId"] for _path, _method, operation in methods(document)]

    assert set(references(document)) <= defined
    assert len(set(operation_ids)) == len(operation_ids) > 0
    assert json.loads(documents.encoded(document)) == document


def test_version_2_refers_only_to_what_it_defines() -> None:
    document = documents.v2_document(KINDS)
    operation_ids = [operation["operationId"] for _path, _method, operation in methods(document)]

    assert set(references(document)) <= {f"#/definitions/{name}" for name in document["definitions"]}
    assert len(set(operation_ids)) == len(operation_ids)


def test_version_2_knows_no_alternatives_and_no_nulls() -> None:
    document = documents.v2_document(KINDS)
    for name in [name for name in document["definitions"] if "JSONSchemaProps" in name]:
        del document["definitions"][name]  # its fields have these names
    text = documents.encoded(document).decode()

    assert [word for word in ("anyOf", "oneOf", "allOf", "nullable") if f'"{word}":' in text] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_kubectl_learns_that_the_server_finds_unknown_fields(kind: Kind) -> None:
    """It looks at the PATCH operations of the kind for the parameter, and refuses `--validate=strict` without."""
    for version in kind.versions:
        group, _, plain = kind.api_version(version).rpartition("/")
        mine = {"group": group, "kind": kind.kind, "version": plain}
        patches = [
            operation
            for _path, method, operation in methods(v3(kind.api_version(version)))
            if method == "patch" and operation["x-kubernetes-group-version-kind"] == mine
        ]

        assert patches
        for patch in patches:
            query = {parameter["name"] for parameter in patch["parameters"] if parameter["in"] == "query"}
            assert query == {"dryRun", "fieldManager", "fieldValidation", "force"}
            assert (operations.STRATEGIC in patch["requestBody"]["content"]) == kind.builtin


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_kubectl_finds_the_schema_of_a_kind(kind: Kind) -> None:
    for version in kind.versions:
        schemas = v3(kind.api_version(version))["components"]["schemas"]
        group, _, plain = kind.api_version(version).rpartition("/")
        for name in (kind.kind, f"{kind.kind}List"):
            mine = {"group": group, "kind": name, "version": plain}
            found = [node for node in schemas.values() if mine in node.get("x-kubernetes-group-version-kind", ())]

            assert len(found) == 1
            assert found[0]["properties"]["metadata"]


@pytest.mark.parametrize(
    ("group_version", "plural", "want"),
    [
        pytest.param(
            "v1",
            "pods",
            {
                "/api/v1/pods": {"list"},
                "/api/v1/namespaces/{namespace}/pods": {"list", "post", "deletecollection"},
                "/api/v1/namespaces/{namespace}/pods/{name}": {"get", "put", "patch", "delete"},
                "/api/v1/namespaces/{namespace}/pods/{name}/status": {"get", "put", "patch"},
                "/api/v1/namespaces/{namespace}/pods/{name}/log": {"get"},
                "/api/v1/namespaces/{namespace}/pods/{name}/binding": {"post"},
            },
            id="a kind in namespaces, with subresources",
        ),
        pytest.param(
            "kueue.x-k8s.io/v1beta2",
            "resourceflavors",
            {
                "/apis/kueue.x-k8s.io/v1beta2/resourceflavors": {"list", "post", "deletecollection"},
                "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/{name}": {"get", "put", "patch", "delete"},
            },
            id="a kind outside namespaces, without status",
        ),
        pytest.param(
            "authorization.k8s.io/v1",
            "selfsubjectaccessreviews",
            {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"post"}},
            id="a question",
        ),
    ],
)
def test_the_paths_of_a_kind(group_version: str, plural: str, want: dict[str, set[str]]) -> None:
    found: dict[str, set[str]] = {}
    for path, _method, operation in methods(v3(group_version)):
        if plural in path.split("/"):
            found.setdefault(path, set()).add(operation["x-kubernetes-action"])

    assert found == want


def test_every_variable_of_a_path_is_a_parameter() -> None:
    for document in [*map(v3, SERVED), documents.v2_document(KINDS)]:
        for path, item in document["paths"].items():
            variables = {part.strip("{}") for part in path.split("/") if part.startswith("{")}
            assert {one["name"] for one in item["parameters"] if one["in"] == "path" and one["required"]} == variables


def test_a_subresource_that_nobody_described_is_a_mistake() -> None:
    odd = replace(kind_named("Pod"), subresources=("exec",))

    with pytest.raises(ValueError, match="exec of pods"):
        documents.v3_document([odd], "v1")


def node(schema: Schema, *, version: int) -> dict[str, Any]:
    whole = Schema(type="object", name="dev.fairway.Whole", properties={"field": schema})
    definitions = Definitions(V3 if version == 3 else V2)
    definitions.refer(whole)
    return dict(definitions.nodes["dev.fairway.Whole"]["properties"]["field"])


EITHER = [{"type": "integer"}, {"type": "string"}]


@pytest.mark.parametrize(
    ("schema", "want_v3", "want_v2"),
    [
        pytest.param(
            Schema(format="int-or-string", limits={"pattern": "^x$"}),
            {"anyOf": EITHER, "x-kubernetes-int-or-string": True, "pattern": "^x$"},
            {"x-kubernetes-int-or-string": True, "pattern": "^x$"},
            id="a number or text",
        ),
        pytest.param(
            Schema(type="object", open=True, properties={"a": Schema(type="string")}, required=("a",)),
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "x-kubernetes-preserve-unknown-fields": True,
            },
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            id="an open object",
        ),
        pytest.param(
            Schema(type="string", format="date-time", nullable=True),
            {"type": "string", "format": "date-time", "nullable": True},
            {"type": "string", "format": "date-time"},
            id="a null",
        ),
        pytest.param(
            Schema(
                type="array",
                items=Schema(type="object", properties={"k": Schema(type="string")}, atomic=True),
                list_type="map",
                list_keys=("k",),
                merge_key="k",
                merge_strategy="merge",
                limits={"maxItems": 3},
            ),
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"k": {"type": "string"}},
                    "x-kubernetes-map-type": "atomic",
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "x-kubernetes-patch-merge-key": "k",
                "x-kubernetes-patch-strategy": "merge",
                "maxItems": 3,
            },
            None,
            id="how a list merges",
        ),
        pytest.param(
            Schema(type="object", values=Schema(type="string")),
            {"type": "object", "additionalProperties": {"type": "string"}},
            None,
            id="a map",
        ),
        pytest.param(
            Schema(type="string", enum=("a", "b"), default="a", description="A letter."),
            {"description": "A letter.", "type": "string", "enum": ["a", "b"], "default": "a"},
            None,
            id="choices, a default and a sentence",
        ),
        pytest.param(
            replace(definition("io.k8s.api.core.v1.ObjectReference"), default={}),
            {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ObjectReference"}]},
            {"default": {}, "$ref": "#/definitions/io.k8s.api.core.v1.ObjectReference"},
            id="a reference with a default",
        ),
    ],
)
def test_a_schema_in_both_dialects(schema: Schema, want_v3: dict[str, Any], want_v2: dict[str, Any] | None) -> None:
    assert node(schema, version=3) == want_v3
    assert node(schema, version=2) == (want_v3 if want_v2 is None else want_v2)


def test_quantities_of_kubernetes() -> None:
    name = "io.k8s.apimachinery.pkg.api.resource.Quantity"

    assert v3("v1")["components"]["schemas"][name]["oneOf"] == [{"type": "string"}, {"type": "number"}]
    assert documents.v2_document(KINDS)["definitions"][name]["type"] == "string"


def test_explain_has_sentences() -> None:
    workload = v3("kueue.x-k8s.io/v1beta2")["components"]["schemas"]["io.x-k8s.kueue.v1beta2.Workload"]
    pod_sets = workload["properties"]["spec"]["properties"]["podSets"]

    assert "description" in workload
    assert "description" in pod_sets
    assert "description" not in pod_sets["items"]
    assert "description" in pod_sets["items"]["properties"]["count"]
    assert workload["properties"]["metadata"]["description"]


def test_every_served_kind_has_a_sentence() -> None:
    assert {kind.kind for kind in KINDS} - described() == set()


def test_every_sentence_is_about_something() -> None:
    paths: set[str] = {f"*.{name}" for name in ("apiVersion", "kind", "metadata", "spec", "status")}
    paths |= {kind.kind for kind in KINDS}

    def add(schema: Schema, path: str) -> None:
        paths.add(path)
        for name, part in schema.properties.items():
            add(part if not part.name else Schema(), f"{path}.{name}")
        for inner in (schema.items, schema.values):
            if inner is not None and not inner.name:
                add(inner, path)

    for name in names():
        add(definition(name), name.rsplit(".", 1)[-1])

    assert described() - paths == set()
