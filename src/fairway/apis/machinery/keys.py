"""How an object of a kind is found."""

from typing import TypeAlias

from fairway.apis.machinery.kind import Manifest

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


def key_of(manifest: Manifest) -> Key:
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
