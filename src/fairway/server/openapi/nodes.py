"""Schemas in OpenAPI's words, in its two dialects.

Version 3 says all that a schema knows. Version 2 has no alternatives and no nulls, and its readers take the fields that
are listed for all there are, so an open object lists none.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.apis.machinery.schemas.schema import Schema
from fairway.server.openapi.descriptions import description

Node = dict[str, Any]

_BUILTIN: Final = ("io.k8s.api.", "io.k8s.apimachinery.", "io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one version of OpenAPI spells what the other spells differently."""

    reference: Callable[[str], Node]
    """A part that is a definition, by its name."""

    places: str
    """Where definitions are found."""

    alternatives: bool
    nullable: bool
    open_fields: bool
    """Whether an open object lists the fields that are known."""

    left_out: frozenset[str]
    """Value validations that are not published."""


def _whole(name: str) -> Node:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def _beside(name: str) -> Node:
    return {"$ref": f"#/definitions/{name}"}


_IN_NEITHER: Final = frozenset({"properties"})  # rules about metadata, whose schema is shared
V3: Final = Dialect(
    _whole, "#/components/schemas/", alternatives=True, nullable=True, open_fields=True, left_out=_IN_NEITHER
)
V2: Final = Dialect(
    _beside,
    "#/definitions/",
    alternatives=False,
    nullable=False,
    open_fields=False,
    left_out=_IN_NEITHER | {"allOf", "anyOf", "oneOf", "not"},
)


_COMMON: Final = ("apiVersion", "kind", "metadata", "spec", "status")
"""What nearly every kind has, and what is the same in all of them."""


class Definitions:
    """The definitions that a document needs: those asked for, and those that they refer to."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.nodes: dict[str, Node] = {}

    def refer(self, schema: Schema) -> Node:
        """A reference to a named schema, which then is in the document."""
        self._define(schema)
        return {"$ref": f"{self._dialect.places}{schema.name}"}

    def mark(self, schema: Schema, group: str, version: str, kind: str) -> None:
        """Say which kind the objects of this schema have."""
        self._define(schema)
        mine = {"group": group, "kind": kind, "version": version}
        self.nodes[schema.name].setdefault("x-kubernetes-group-version-kind", []).append(mine)

    def _define(self, schema: Schema) -> None:
        if schema.name in self.nodes:
            return
        node = self.nodes[schema.name] = {}
        # What a reference adds to a definition (a default, say) is said beside the reference, not here.
        whole = replace(schema, default=None)
        node |= self._node(whole, schema.name.rsplit(".", 1)[-1], builtin=schema.name.startswith(_BUILTIN))

    def _part(self, schema: Schema, path: str, *, builtin: bool) -> Node:
        if not schema.name:
            return self._node(schema, path, builtin=builtin)
        self._define(schema)
        sentence = {"description": said} if (said := description(path)) else {}
        default = {"default": schema.default} if schema.default is not None else {}
        if sentence or default:
            return sentence | default | self._dialect.reference(schema.name)
        return self.refer(schema)

    def _node(self, schema: Schema, path: str, *, builtin: bool) -> Node:
        node: Node = {}
        said = schema.description or description(path)
        if said:
            node["description"] = said
        node |= self._type(schema, builtin=builtin)
        if schema.properties and (self._dialect.open_fields or not schema.open):
            node["properties"] = {
                name: self._part(part, f"{path}.{name}", builtin=builtin) for name, part in schema.properties.items()
            }
            _describe_common(node["properties"])
        if schema.values is not None:
            node["additionalProperties"] = self._part(schema.values, path, builtin=builtin)
        if schema.items is not None:
            node["items"] = self._part(schema.items, path, builtin=builtin)
        node |= self._facts(schema, builtin=builtin)
        # The sentence is the field's: inside a list or a map it would be said twice.
        for inner in ("items", "additionalProperties"):
            node.get(inner, {}).pop("description", None)
        return node

    def _type(self, schema: Schema, *, builtin: bool) -> Node:
        if schema.format == "quantity":
            return (
                {"oneOf": [{"type": "string"}, {"type": "number"}]}
                if self._dialect.alternatives
                else {"type": "string"}
            )
        if schema.format == "int-or-string":
            either = [{"type": "integer"}, {"type": "string"}]
            if builtin:
                kinds: Node = {"oneOf": either} if self._dialect.alternatives else {"type": "string"}
                return kinds | {"format": "int-or-string"}
            return ({"anyOf": either} if self._dialect.alternatives else {}) | {"x-kubernetes-int-or-string": True}
        node = {"type": schema.type} if schema.type else {}
        if schema.format:
            node["format"] = "date-time" if schema.format == "micro-time" else schema.format
        return node

    def _facts(self, schema: Schema, *, builtin: bool) -> Node:
        facts: Node = {
            "required": list(schema.required) if self._dialect.open_fields or not schema.open else [],
            "enum": list(schema.enum),
            "nullable": schema.nullable and self._dialect.nullable,
            "x-kubernetes-list-type": schema.list_type if schema.list_type != "atomic" else "",
            "x-kubernetes-list-map-keys": list(schema.list_keys),
            "x-kubernetes-map-type": "atomic" if schema.atomic else "",
            "x-kubernetes-patch-merge-key": schema.merge_key,
            "x-kubernetes-patch-strategy": schema.merge_strategy,
            "x-kubernetes-preserve-unknown-fields": schema.open and not builtin,
        }
        node = {word: fact for word, fact in facts.items() if fact} | schema.limits
        if schema.also:
            known = {word: part for word, part in schema.also.items() if word not in self._dialect.left_out}
            node = {**known, **node}
        if schema.default is not None:
            node["default"] = schema.default
        return node


def _describe_common(properties: dict[str, Node]) -> None:
    if not properties.keys() >= {"apiVersion", "kind", "metadata"}:
        return
    for name in _COMMON:
        said = description(f"*.{name}")
        if name in properties and "description" not in properties[name]:
            reference = properties[name].get("$ref")
            if reference and reference.startswith(V3.places):  # nothing may stand beside a reference there
                properties[name] = {"description": said, "allOf": [{"$ref": reference}]}
            else:
                properties[name] = {"description": said} | properties[name]
