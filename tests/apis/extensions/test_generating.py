"""Definitions generated from our records: accepted by the rules for definitions, and saying what the record says."""

import copy
from typing import Any

import pytest

from apis.types import samples
from fairway.apis.extensions import definitions
from fairway.apis.extensions.generating import generated
from fairway.apis.extensions.structural import built
from fairway.apis.fairway.records import KINDS as FAIRWAY
from fairway.apis.kueue.records import KINDS as KUEUE
from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import inspect
from fairway.server.crds import definitions as installed
from fairway.server.crds import service_client

OURS = (*FAIRWAY, *KUEUE)
VERSIONS = [pytest.param(kind, version, id=f"{kind.kind}-{version}") for kind in OURS for version in kind.versions]
CLIENT = service_client("fairway-system")


def schema_of(kind: Kind, version: str) -> Schema:
    found = next(one for one in generated(kind)["spec"]["versions"] if one["name"] == version)
    return built(found["schema"]["openAPIV3Schema"], kind.group, version, kind.kind)


def facts(schema: Schema) -> dict[str, Any]:
    """What a schema allows at one place, with formats that OpenAPI lacks written as it writes them."""
    quantity = schema.format == "quantity"
    limits = {word: value for word, value in schema.limits.items() if word != "pattern"}
    return {
        "type": schema.type,
        "format": "int-or-string" if quantity else schema.format,
        "required": sorted(schema.required),
        "choices": sorted([*schema.enum, *schema.also.get("enum", ())]),
        "limits": limits,
        "pattern": schema.limits.get("pattern") or schema.also.get("pattern") or "" if not quantity else "",
        "default": schema.default,
        "nullable": schema.nullable,
        "open": schema.open,
        "atomic": schema.atomic,
        "properties": sorted(schema.properties),
    }


def differences(want: Schema, got: Schema, path: str = "") -> list[str]:
    expected, found = facts(want), facts(got)
    if want.format == "quantity":
        found["pattern"] = ""
    result = [
        f"{path}: {name} {found[name]!r} for {value!r}" for name, value in expected.items() if found[name] != value
    ]
    for name, part in want.properties.items():
        if name in got.properties and (path or name != "metadata"):
            result += differences(part, got.properties[name], f"{path}.{name}")
    for word in ("items", "values"):
        inner, mine = getattr(want, word), getattr(got, word)
        assert (inner is None) == (mine is None), (path, word)
        if inner is not None:
            result += differences(inner, mine, f"{path}.{word}")
    return result


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_the_generated_schema_read_back_is_the_schema_of_the_record(kind: Kind, version: str) -> None:
    assert differences(kind.schemas[version](), schema_of(kind, version)) == []


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.kind)
def test_a_definition_passes_the_rules_for_definitions_and_defines_the_same_names(kind: Kind) -> None:
    definition = generated(kind)
    assert definitions.validate(copy.deepcopy(definition)) == []
    got = definitions.kind_of(definition)
    for name in ("group", "kind", "plural", "singular_name", "short_names", "categories", "namespaced", "status"):
        assert getattr(got, name) == getattr(kind, name)
    assert (got.stored, set(got.versions)) == (kind.stored, set(kind.versions))
    for version, columns in kind.columns.items():
        assert [(one.name, one.type, one.priority, one.path) for one in got.columns[version]] == [
            (one.name, one.type, one.priority, one.path) for one in columns
        ]


@pytest.mark.parametrize("name", sorted(samples.full_samples()))
def test_full_objects_pass_the_generated_schema(name: str) -> None:
    kind = next(kind for kind in KUEUE if kind.kind == name)
    found = inspect(schema_of(kind, kind.stored), copy.deepcopy(samples.full_samples()[name]))
    assert (found.errors, found.unknown) == ([], [])


def test_kueues_kinds_are_installed_only_where_our_engine_admits() -> None:
    by_mode = {mode: [one["spec"]["names"]["kind"] for one in installed(mode, CLIENT)] for mode in ("kueue", "none")}
    ours = ["ManagedJob", "QuotaDefinition"]
    assert by_mode == {"kueue": ours, "none": ours}
    assert len(installed("fairway", CLIENT)) == len(ours) + len(KUEUE)


def test_a_webhook_converts_the_kinds_whose_versions_differ_and_no_others() -> None:
    converted = {
        one["spec"]["names"]["kind"]: one["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
        for one in installed("fairway", CLIENT)
        if one["spec"]["conversion"]["strategy"] == "Webhook"
    }
    service = {"namespace": "fairway-system", "name": "fairway-webhook", "port": 443, "path": "/convert"}
    assert converted == dict.fromkeys(("ClusterQueue", "LocalQueue", "Workload"), service)


def test_every_definition_says_that_it_is_ours() -> None:
    labels = [one["metadata"]["labels"]["app.kubernetes.io/managed-by"] for one in installed("fairway", CLIENT)]
    assert set(labels) == {"fairway"}
