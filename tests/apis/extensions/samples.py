"""Definitions for tests."""

from typing import Any

from fairway.apis.machinery.kind import Manifest

CRONTABS = "crontabs.stable.example.com"


def version(name: str, schema: Any = None, *, storage: bool = True, **fields: Any) -> Manifest:
    """One version; any object with a spec of anything unless a schema is given."""
    raw = schema if schema is not None else {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": raw}, **fields}


def crontabs(*versions: Manifest, group: str = "stable.example.com", **names: Any) -> Manifest:
    """The definition of Kubernetes' own guide."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crontabs.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"], **names},
            "versions": list(versions) or [version("v1")],
        },
    }


def with_spec(**properties: Any) -> Manifest:
    """A schema whose `spec` has these fields."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
