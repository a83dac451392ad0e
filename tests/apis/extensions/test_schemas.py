"""What the schema of a definition does to an object: as kube-apiserver validates, prunes and defaults it."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.extensions.structural import built, wrong_schema
from fairway.apis.machinery.schemas.walk import inspect

from .samples import with_spec

PATH = "spec.versions[0].schema.openAPIV3Schema"

VALUES = [
    ("an integer", {"type": "integer"}, 1, None),
    ("a whole float is an integer", {"type": "integer"}, 1.0, None),
    ("a string is no integer", {"type": "integer"}, "1", "must be of type integer"),
    ("an integer beyond int32", {"type": "integer", "format": "int32"}, 2**31, "must be between"),
    ("a number of an enum", {"type": "integer", "enum": [1, 2]}, 3, "supported values"),
    ("a number of an enum that is there", {"type": "integer", "enum": [1, 2]}, 2, None),
    ("true is not 1", {"enum": [1], "x-kubernetes-preserve-unknown-fields": True}, True, "supported values"),
    ("a string of an enum", {"type": "string", "enum": ["a"]}, "b", 'supported values: "a"'),
    ("an enum and a length", {"type": "string", "enum": ["a", "bb"], "maxLength": 1}, "bb", "may not be more than 1"),
    ("a pattern", {"type": "string", "pattern": "^a+$"}, "b", "should match '^a+$'"),
    ("a pattern that matches", {"type": "string", "pattern": "^a+$"}, "aa", None),
    ("a maximum", {"type": "integer", "maximum": 3}, 4, "should be less than or equal to 3"),
    ("an exclusive maximum", {"type": "integer", "maximum": 3, "exclusiveMaximum": True}, 3, "should be less than 3"),
    ("an exclusive minimum", {"type": "number", "minimum": 0, "exclusiveMinimum": True}, 0, "greater than 0"),
    ("a multiple", {"type": "integer", "multipleOf": 5}, 7, "should be a multiple of 5"),
    ("a multiple of a tenth", {"type": "number", "multipleOf": 0.1}, 0.3, None),
    ("too many items", {"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"], "at most 1 items"),
    ("too few items", {"type": "array", "items": {"type": "string"}, "minItems": 1}, [], "at least 1 items"),
    ("an item of another type", {"type": "array", "items": {"type": "string"}}, [1], "must be of type string"),
    (
        "a set with an item twice",
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ["a", "a"],
        "Duplicate value",
    ),
    (
        "a list map with a key twice",
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        [{"name": "a"}, {"name": "a"}],
        "Duplicate value",
    ),
    (
        "a required field",
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        {},
        "Required",
    ),
    (
        "too few properties",
        {"type": "object", "minProperties": 1, "properties": {"a": {"type": "string"}}},
        {},
        "at least 1",
    ),
    ("int or string, int", {"x-kubernetes-int-or-string": True}, 1, None),
    ("int or string, string", {"x-kubernetes-int-or-string": True}, "1", None),
    ("int or string, neither", {"x-kubernetes-int-or-string": True}, True, "must be of type integer or string"),
    ("int or string with a pattern", {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%$"}, "x", "should match"),
    ("one of two, both", {"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "one and only one"),
    ("one of two", {"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}, 1, None),
    ("any of two, none", {"type": "integer", "anyOf": [{"minimum": 1}, {"minimum": 2}]}, 0, "at least one schema"),
    ("all of two", {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 2}]}, 3, "all the schemas"),
    ("not", {"type": "string", "not": {"pattern": "^x"}}, "xy", "must not validate the schema"),
    ("a date", {"type": "string", "format": "date"}, "2026-02-30", "must be of type date"),
    ("a time", {"type": "string", "format": "date-time"}, "today", "must be a time"),
    ("an address", {"type": "string", "format": "ipv4"}, "1.2.3.4", None),
    ("no address", {"type": "string", "format": "ipv4"}, "1.2.3.400", "must be of type ipv4"),
    ("a format that nobody knows", {"type": "string", "format": "poem"}, "anything", None),
    (
        "an embedded object without its kind",
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        {"apiVersion": "v1"},
        "Required",
    ),
    ("null where it is allowed", {"type": "string", "nullable": True}, None, None),
]


@pytest.mark.parametrize(("raw", "value", "said"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_a_value_is_validated_by_its_schema(raw: Any, value: object, said: str | None) -> None:
    whole = with_spec(field=raw)
    assert wrong_schema(whole, PATH) == []
    manifest = {"metadata": {"name": "x"}, "spec": {"field": value}}

    errors = [str(error) for error in inspect(built(whole, "example.com", "v1", "Thing"), manifest).errors]

    if said is None:
        assert errors == []
    else:
        assert any(said in error and error.startswith("spec.field") for error in errors), errors


SCHEMAS = [
    ("no type at the root", {}, f"{PATH}.type: Required value: must not be empty at the root"),
    (
        "another type at the root",
        {"type": "string"},
        f'{PATH}.type: Invalid value: "string": must be object at the root',
    ),
    (
        "a field without a type",
        with_spec(a={}),
        f"{PATH}.properties[spec].properties[a].type: Required value: must not be empty for specified object fields",
    ),
    (
        "items without a type",
        with_spec(a={"type": "array", "items": {}}),
        "properties[a].items.type: Required value: must not be empty for specified array items",
    ),
    (
        "an array without items",
        with_spec(a={"type": "array"}),
        "properties[a].items: Required value: must be specified",
    ),
    ("a reference", with_spec(a={"type": "object", "$ref": "#/x"}), "$ref is not supported"),
    ("unique items", with_spec(a={"type": "array", "items": {"type": "string"}, "uniqueItems": True}), "quadratic"),
    (
        "properties and free keys",
        with_spec(
            a={"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}
        ),
        "additionalProperties and properties are mutual exclusive",
    ),
    ("a bad pattern", with_spec(a={"type": "string", "pattern": "("}), "must be a valid regular expression, but isn't"),
    ("a pattern with look-ahead", with_spec(a={"type": "string", "pattern": "(?=a)b"}), "unsupported Perl syntax"),
    (
        "a default of another type",
        with_spec(a={"type": "integer", "default": "x"}),
        'default: Invalid value: "x": must be of type integer',
    ),
    (
        "a default with an unknown field",
        with_spec(a={"type": "object", "properties": {}, "default": {"b": 1}}),
        "must be pruned",
    ),
    (
        "a list map without keys",
        with_spec(a={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
        "must not be empty if x-kubernetes-list-type is map",
    ),
    (
        "a list map with an optional key",
        with_spec(
            a={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "properties": {"n": {"type": "string"}}},
            }
        ),
        "so it must have a default or be a required property",
    ),
    (
        "types inside alternatives",
        with_spec(a={"type": "string", "anyOf": [{"type": "string"}]}),
        "must be undefined to be structural",
    ),
    (
        "rules about metadata",
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
        "must not specify anything other than name and generateName",
    ),
    (
        "a word of another type",
        with_spec(a={"type": "string", "minLength": "x"}),
        "is not of the type that this word has",
    ),
    ("a type nobody knows", with_spec(a={"type": "float"}), 'Unsupported value: "float"'),
]


@pytest.mark.parametrize(("raw", "said"), [row[1:] for row in SCHEMAS], ids=[row[0] for row in SCHEMAS])
def test_a_schema_that_is_not_structural_is_refused(raw: Any, said: str) -> None:
    assert any(said in str(error) for error in wrong_schema(raw, PATH)), [str(one) for one in wrong_schema(raw, PATH)]


def test_a_schema_that_is_too_deep_is_refused() -> None:
    raw: Any = {"type": "string"}
    for _ in range(60):
        raw = {"type": "object", "properties": {"a": raw}}
    assert any("nested too deeply" in str(error) for error in wrong_schema(raw, PATH))


def test_names_of_objects_can_be_restricted() -> None:
    names = {"metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}}}
    schema = built({"type": "object", "properties": names}, "example.com", "v1", "Thing")
    assert [one.path for one in inspect(schema, {"metadata": {"name": "b"}}).errors] == ["metadata.name"]


def test_a_validation_that_takes_too_long_is_refused() -> None:
    many = [{"pattern": f"^x{number}$"} for number in range(200)]
    raw = with_spec(a={"type": "array", "items": {"type": "string", "anyOf": many}})
    schema = built(raw, "example.com", "v1", "Thing")
    errors = inspect(schema, {"metadata": {}, "spec": {"a": ["y"] * 5000}}).errors
    assert ["take too long to evaluate" in str(error) for error in errors] == [True]


PRUNED = with_spec(
    known={"type": "string", "default": "given"},
    nested={
        "type": "object",
        "default": {},
        "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "string", "nullable": True}},
    },
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"c": {"type": "object"}}},
    named={"type": "object", "additionalProperties": {"type": "object", "properties": {"d": {"type": "string"}}}},
    list={"type": "array", "items": {"type": "object", "properties": {"e": {"type": "boolean", "default": True}}}},
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abcde", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdez"), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["known", "nested", "free", "named", "list", "unknown"])


@given(spec=st.dictionaries(FIELDS, JSON))
def test_pruning_and_defaulting_twice_is_the_same_as_once(spec: dict[str, Any]) -> None:
    schema = built(PRUNED, "example.com", "v1", "Thing")
    manifest = {"metadata": {"name": "x"}, "spec": spec}
    first = inspect(schema, manifest)
    if first.errors:
        return
    once = copy.deepcopy(manifest)

    again = inspect(schema, manifest)

    assert (manifest, again.errors, again.unknown) == (once, [], [])
    assert "unknown" not in manifest["spec"]
    assert manifest["spec"]["nested"]["a"] is not None


def test_unknown_fields_are_pruned_where_the_schema_says_nothing() -> None:
    spec = {"free": {"x": {"y": 1}, "c": {"z": 1}}, "named": {"n": {"d": "1", "z": 2}}, "z": 1, "known": None}
    manifest: dict[str, Any] = {"metadata": {}, "spec": spec}
    findings = inspect(built(PRUNED, "example.com", "v1", "Thing"), manifest)

    assert sorted(findings.unknown) == ["spec.free.c.z", "spec.named[n].z", "spec.z"]
    assert manifest["spec"] == {
        "free": {"x": {"y": 1}, "c": {}},
        "named": {"n": {"d": "1"}},
        "known": "given",
        "nested": {"a": 1},
    }
