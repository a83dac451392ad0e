"""Objects as a `Table`, which is what `kubectl get` prints, and as metadata alone.

What is in the cells is the kind's business; here they are put into the document. Rows can be tens of thousands, so a
row costs its cells, the metadata it carries, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from fairway.apis.machinery.kind import Column, Kind, Manifest
from fairway.apis.machinery.printing import age
from fairway.errors import BadRequest

Document: TypeAlias = dict[str, Any]
IncludeObject: TypeAlias = Literal["Metadata", "Object", "None"]

META_VERSIONS: Final = ("v1", "v1beta1")
"""The versions of `meta.k8s.io` that a Table can be asked for in."""

_INCLUDED: Final[dict[str, IncludeObject]] = {
    "": "Metadata",
    "Metadata": "Metadata",
    "Object": "Object",
    "None": "None",
}
_NAME: Final = "Name"


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list this is."""

    resource_version: str
    """Of the list; of a single object, its own."""

    continue_: str = ""
    remaining: int | None = None


def _name(manifest: Manifest, _now: datetime) -> Any:
    return manifest["metadata"].get("name", "")


NAME_COLUMN: Final = Column(name=_NAME, value=_name, format="name", description="What the object is called.")
_AGE_COLUMN: Final = Column(name="Age", value=age, type="date", description="How long ago the object was created.")


def included(asked: str) -> IncludeObject:
    """What the query parameter `includeObject` asks for; `BadRequest` if it is none of the known values."""
    found = _INCLUDED.get(asked)
    if found is None:
        raise BadRequest(f'includeObject: Invalid value: "{asked}": must be "Metadata", "Object", "None" or empty')
    return found


def columns_of(kind: Kind, version: str) -> tuple[Column, ...]:
    """All columns of a version: the name first, unless the kind has a place of its own for it."""
    columns = kind.columns.get(version) or (_AGE_COLUMN,)
    return columns if any(column.name == _NAME for column in columns) else (NAME_COLUMN, *columns)


class Rows:
    """Makes the rows of one Table."""

    def __init__(self, kind: Kind, version: str, now: datetime, include: IncludeObject, meta_version: str) -> None:
        self.columns = columns_of(kind, version)
        self._values = [column.value for column in self.columns]
        self._now = now
        self._include = include
        self._meta_version = meta_version

    def row(self, manifest: Manifest) -> Document:
        now = self._now
        return {
            "cells": [value(manifest, now) for value in self._values],
            "object": _shown(manifest, self._include, self._meta_version),
        }


def table(
    kind: Kind,
    version: str,
    manifests: Sequence[Manifest],
    *,
    now: datetime,
    page: Page,
    include_object: IncludeObject = "Metadata",
    with_headers: bool = True,
    meta_version: str = META_VERSIONS[0],
) -> Document:
    """The objects, in the version they are shown in; of a watch, one event's, with headers in the first."""
    rows = Rows(kind, version, now, include_object, meta_version)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{meta_version}",
        "metadata": list_metadata(page),
        "columnDefinitions": [_definition(column) for column in rows.columns] if with_headers else None,
        "rows": [rows.row(manifest) for manifest in manifests],
    }


def bookmark(
    kind: Kind,
    version: str,
    metadata: dict[str, Any],
    *,
    include_object: IncludeObject = "Metadata",
    meta_version: str = META_VERSIONS[0],
) -> Document:
    """The Table of a bookmark, which has no object: one row without values, with the bookmark's metadata."""
    cells = ["" if column.name == _NAME else None for column in columns_of(kind, version)]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{meta_version}",
        "metadata": list_metadata(Page(metadata.get("resourceVersion", ""))),
        "columnDefinitions": None,
        "rows": [{"cells": cells, "object": _shown({"metadata": metadata}, include_object, meta_version)}],
    }


def partial_metadata(manifest: Manifest, meta_version: str = META_VERSIONS[0]) -> Document:
    """An object's metadata alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{meta_version}",
        "metadata": manifest["metadata"],
    }


def partial_metadata_list(
    manifests: Sequence[Manifest],
    *,
    page: Page,
    meta_version: str = META_VERSIONS[0],
) -> Document:
    """The metadata of many."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{meta_version}",
        "metadata": list_metadata(page),
        "items": [partial_metadata(manifest, meta_version) for manifest in manifests],
    }


def _shown(manifest: Manifest, include: IncludeObject, meta_version: str) -> Document | None:
    if include == "Metadata":
        return partial_metadata(manifest, meta_version)
    return manifest if include == "Object" else None


def _definition(column: Column) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def list_metadata(page: Page) -> Document:
    """The metadata of a list or a Table."""
    metadata: Document = {"resourceVersion": page.resource_version}
    if page.continue_:
        metadata["continue"] = page.continue_
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata
