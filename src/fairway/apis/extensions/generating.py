"""CustomResourceDefinitions of our own kinds, for a cluster's kube-apiserver: generated from their records.

The structural schema has types, limits, choices, defaults and how lists merge. The rules of the kind beyond that
(`Kind.rules`) are checked by its webhook.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.schemas.scalars import QUANTITY_PATTERN
from fairway.apis.machinery.schemas.schema import Schema

API_VERSION: Final = "apiextensions.k8s.io/v1"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OURS: Final = "fairway"
"""The value of `MANAGED_BY` on every object that Fairway installs: by it a definition of Kueue's is known as ours."""

Node = dict[str, Any]
Describe = Callable[[str], str]

_EITHER: Final = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_LABELS: Final = {"app.kubernetes.io/name": OURS, "app.kubernetes.io/part-of": OURS, MANAGED_BY: OURS}


def generated(
    kind: Kind, conversion: Mapping[str, Any] | None = None, describe: Describe = lambda _path: ""
) -> Manifest:
    """The definition of a kind; `conversion` is the `clientConfig` of the webhook that converts between its versions.

    Without one its versions are the same but for fields that one of them lacks.
    """
    definition = outline(kind, [_version(kind, version, describe) for version in kind.versions])
    definition["metadata"]["labels"] = dict(_LABELS)
    if conversion is not None:
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": dict(conversion)}
        definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return definition


def outline(kind: Kind, versions: list[Node]) -> Manifest:
    """A definition with the names of a kind and these versions."""
    names: Node = {
        "kind": kind.kind,
        "listKind": kind.list_kind or f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular_name,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    spec: Node = {
        "group": kind.group,
        "names": names,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "versions": versions,
        "conversion": {"strategy": "None"},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": spec,
    }


def _version(kind: Kind, version: str, describe: Describe) -> Node:
    found: Node = {
        "name": version,
        "served": True,
        "storage": version == kind.stored,
        "schema": {"openAPIV3Schema": _root(kind, version, describe)},
    }
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "jsonPath": column.path,
            **({"priority": column.priority} if column.priority else {}),
            "description": column.description,
        }
        for column in kind.columns.get(version, ())
    ]
    if columns:
        found["additionalPrinterColumns"] = columns
    subresources: Node = {"status": {}} if kind.status else {}
    if kind.scale is not None:
        paths = {"specReplicasPath": kind.scale.spec_replicas, "statusReplicasPath": kind.scale.status_replicas}
        if kind.scale.selector:
            paths["labelSelectorPath"] = kind.scale.selector
        subresources["scale"] = {name: "".join(f".{step}" for step in path) for name, path in paths.items()}
    if subresources:
        found["subresources"] = subresources
    if kind.selectable and version == kind.stored:  # kube-apiserver refuses equal ones beside different schemas
        found["selectableFields"] = [{"jsonPath": f".{path}"} for path in kind.selectable]
    return found


def _root(kind: Kind, version: str, describe: Describe) -> Node:
    schema = kind.schemas[version]()
    node = _node(schema, kind.kind, describe)
    node["properties"] = {
        name: {"type": "object"}
        if name == "metadata"
        else ({"description": said} if (said := describe(f"*.{name}")) else {}) | part
        for name, part in node["properties"].items()
    }
    return node


def _node(schema: Schema, path: str, describe: Describe) -> Node:
    """A schema, with what it refers to put in place: a structural schema has no references."""
    if schema.name:
        path = schema.name.rsplit(".", 1)[-1]
    node: Node = {"description": said} if (said := schema.description or describe(path)) else {}
    node |= _typed(schema)
    if schema.properties:
        node["properties"] = {
            name: ({"description": said} if (said := describe(f"{path}.{name}")) else {})
            | _node(part, f"{path}.{name}", describe)
            for name, part in schema.properties.items()
        }
    for word, inner in (("additionalProperties", schema.values), ("items", schema.items)):
        if inner is not None:
            node[word] = _node(inner, path, describe)
            node[word].pop("description", None)  # it is that of the field
    if schema.required:
        node["required"] = list(schema.required)
    if schema.enum:
        node["enum"] = list(schema.enum)
    if schema.nullable:
        node["nullable"] = True
    if schema.open:
        node["x-kubernetes-preserve-unknown-fields"] = True
    if schema.atomic:
        node["x-kubernetes-map-type"] = "atomic"
    node |= _merging(schema) | schema.limits | schema.also
    if schema.default is not None:
        node["default"] = schema.default
    return node


def _typed(schema: Schema) -> Node:
    if schema.format == "quantity":
        return {**_EITHER, "pattern": QUANTITY_PATTERN}
    if schema.format == "int-or-string":
        return dict(_EITHER)
    node: Node = {"type": schema.type} if schema.type else {}
    if schema.format:
        node["format"] = "date-time" if schema.format == "micro-time" else schema.format
    return node


def _merging(schema: Schema) -> Node:
    """How a list merges; a list of objects by a key that may be missing is one value to a kube-apiserver."""
    if schema.list_type == "atomic" or schema.items is None:
        return {}
    if schema.list_type == "set":
        return {"x-kubernetes-list-type": "set"}
    parts = schema.items.properties
    if any(key not in schema.items.required and parts[key].default is None for key in schema.list_keys):
        return {}
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(schema.list_keys)}
