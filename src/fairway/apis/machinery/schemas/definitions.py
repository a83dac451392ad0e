"""The named schemas that Fairway knows, by the names that an API server publishes them under.

`definition("io.k8s.api.core.v1.Pod")` answers a resolved tree: a reference is the referred `Schema` itself, so that
walkers and caches of schemas meet each definition once. The results must not be modified.

The data (`data/*.json`) is structure alone. `kubernetes`, `operators`, `kueue`, `ray` and `autoscaling` are written by
`tools/schemas/generate.py` and never by hand; `fairway` is our own kind. A node is one of

- a string: `"string"`, `"integer:int32"` (type and format), `":quantity"` (no type), `"#io.k8s.api…"` (a reference);
- an object with the fields of `Schema`, where `ref` is a reference whose facts the other fields override. A node with
  `properties` or `values` is an object, one with `items` an array, without saying so.
"""

import json
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final

from fairway.apis.machinery.schemas.schema import Schema

FILES: Final = {
    "dev.fairway.": "fairway",
    "io.k8s.sparkoperator.": "spark",
    "io.k8s.": "kubernetes",
    "io.ray.": "ray",
    "io.x-k8s.autoscaling.": "autoscaling",
    "io.x-k8s.jobset.": "jobset",
    "io.x-k8s.kueue.": "kueue",
    "org.dask.kubernetes.": "dask",
    "org.kubeflow.": "kubeflow",
}
"""The file of a definition by the beginning of its name; the first that fits."""

_MORE: Final = {"kubernetes": "operators"}
"""A second file, read only where a name is not in the first: kinds that are stored for operators."""

_LISTS: Final = frozenset({"required", "enum", "list_keys"})
_CHILDREN: Final = frozenset({"properties", "values", "items", "ref"})

_resolved: dict[str, Schema] = {}
_leaves: dict[str, Schema] = {}


class UnknownDefinition(LookupError):
    """Nothing in the data has this name."""


def names() -> tuple[str, ...]:
    """Every definition there is, sorted."""
    return tuple(sorted(name for file in (*FILES.values(), *_MORE.values()) for name in _data(file)))


def definition(name: str) -> Schema:
    """The schema with this name; the same object every time."""
    found = _resolved.get(name)
    if found is not None:
        return found
    file = next((file for prefix, file in FILES.items() if name.startswith(prefix)), "")
    node = _data(file).get(name) if file else None
    if node is None and file in _MORE:
        node = _data(_MORE[file]).get(name)
    if node is None:
        raise UnknownDefinition(name)
    if isinstance(node, str):
        node = _spelled(node)
    schema = _without_children(node, Schema(name=name))
    # Known before its children are read: a definition that contains itself finds itself here.
    _resolved[name] = schema
    _add_children(schema, node)
    return schema


@cache
def _data(file: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath("data", f"{file}.json").read_bytes()
    content: dict[str, Any] = json.loads(text)
    return content


def _schema(node: str | dict[str, Any]) -> Schema:
    if isinstance(node, str):
        return definition(node[1:]) if node.startswith("#") else _leaf(node)
    if "ref" in node:
        return _without_children(node, replace(definition(node["ref"])))
    schema = _without_children(node, Schema())
    _add_children(schema, node)
    return schema


def _leaf(spelled: str) -> Schema:
    """Most nodes are plain strings and numbers; all of a kind are one object."""
    found = _leaves.get(spelled)
    if found is None:
        found = _leaves[spelled] = _without_children(_spelled(spelled), Schema())
    return found


def _spelled(node: str) -> dict[str, Any]:
    kind, _, kind_format = node.partition(":")
    return {"type": kind, "format": kind_format}


def _without_children(node: dict[str, Any], schema: Schema) -> Schema:
    for word, fact in node.items():
        if word not in _CHILDREN:
            setattr(schema, word, tuple(fact) if word in _LISTS else fact)
    if "type" not in node and "ref" not in node:
        if "properties" in node or "values" in node:
            schema.type = "object"
        elif "items" in node:
            schema.type = "array"
    return schema


def _add_children(schema: Schema, node: dict[str, Any]) -> None:
    for name, child in node.get("properties", {}).items():
        schema.properties[name] = _schema(child)
    if "values" in node:
        schema.values = _schema(node["values"])
    if "items" in node:
        schema.items = _schema(node["items"])
