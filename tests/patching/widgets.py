"""A made-up kind with one of everything that merges its own way, in two versions."""

from typing import Any

from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import NotFound

V1, V2 = "widgets.example.com/v1", "widgets.example.com/v2"
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z"

_TEXT = Schema(type="string")
_PART = Schema(
    type="object",
    properties={
        "name": _TEXT,
        "image": _TEXT,
        "tags": Schema(type="array", items=_TEXT, list_type="set"),
        "env": Schema(
            type="array",
            items=Schema(type="object", properties={"name": _TEXT, "value": _TEXT}),
            list_type="map",
            list_keys=("name",),
        ),
    },
)


def _schema(size: str) -> Schema:
    spec = {
        size: Schema(type="integer"),
        "mode": Schema(type="string", nullable=True),
        "labels": Schema(type="object", values=_TEXT),
        "parts": Schema(type="array", items=_PART, list_type="map", list_keys=("name",)),
        "order": Schema(type="array", items=_TEXT),
        "selector": Schema(type="object", values=_TEXT, atomic=True),
        "limits": Schema(type="object", properties={"low": Schema(type="integer"), "high": Schema(type="integer")}),
        "anything": Schema(open=True),
    }
    return Schema(
        type="object",
        name="com.example.Widget",
        properties={
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
            "spec": Schema(type="object", properties=spec),
            "status": Schema(type="object", open=True),
        },
    )


_SCHEMAS = {V1: _schema("size"), V2: _schema("count")}


def schema_for(version: str) -> Schema:
    return _SCHEMAS[version]


def convert(manifest: dict[str, Any], version: str) -> dict[str, Any]:
    """`size` of the first version is `count` of the second."""
    if version not in _SCHEMAS:
        raise NotFound(version)
    old, new = ("size", "count") if version == V2 else ("count", "size")
    spec = {new if name == old else name: value for name, value in manifest.get("spec", {}).items()}
    return {**manifest, "apiVersion": version} | ({"spec": spec} if "spec" in manifest else {})


def widget(version: str = V1, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}
