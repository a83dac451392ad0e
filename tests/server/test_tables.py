"""Tables: the cells that a kube-apiserver gives for the same objects, and the documents around them.

`data/tables.json` holds objects and what kube-apiserver 1.36 made of them, with the definitions of Kueue 0.19.2,
KubeRay 1.6.2 and the cluster autoscaler: columns without their descriptions, and cells at the time of the answer.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairway.apis.machinery.kind import Column, Kind
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.registry import default_registry
from fairway.errors import BadRequest
from fairway.server import tables
from fairway.server.tables import Page

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "tables.json").read_text())
REGISTRY = default_registry()
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "spot", "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:00:00Z"},
    "spec": {"nodeLabels": {"a": "b"}},
}


def kind_of(plural: str, group: str = "kueue.x-k8s.io", version: str = "v1beta2") -> Kind:
    kind = REGISTRY.by_resource(group, version, plural)
    assert kind is not None
    return kind


FLAVORS = kind_of("resourceflavors")


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: f"{one['apiVersion']} {one['plural']}")
def test_columns_and_cells_are_those_of_a_real_server(recorded: dict[str, Any]) -> None:
    group, _, version = recorded["apiVersion"].rpartition("/")
    kind = kind_of(recorded["plural"], group, version)
    document = tables.table(
        kind, version, recorded["objects"], now=datetime.fromisoformat(recorded["now"]), page=Page("1")
    )
    columns = [{key: one[key] for key in one if key != "description"} for one in document["columnDefinitions"]]
    assert columns == recorded["columns"]
    assert [row["cells"] for row in document["rows"]] == recorded["cells"]


def test_a_table_has_the_form_that_kubectl_reads() -> None:
    document = tables.table(FLAVORS, "v1beta2", [FLAVOR], now=NOW, page=Page("9", "more", 3))
    assert document == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9", "continue": "more", "remainingItemCount": 3},
        "columnDefinitions": [
            {
                "name": "Name",
                "type": "string",
                "format": "name",
                "description": "What the object is called.",
                "priority": 0,
            },
            {
                "name": "Age",
                "type": "date",
                "format": "",
                "description": "How long ago the object was created.",
                "priority": 0,
            },
        ],
        "rows": [
            {
                "cells": ["spot", "4m5s"],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": FLAVOR["metadata"],
                },
            }
        ],
    }


def test_a_table_of_nothing_has_columns_and_no_rows() -> None:
    document = tables.table(FLAVORS, "v1beta2", [], now=NOW, page=Page("9"))
    assert (len(document["columnDefinitions"]), document["rows"]) == (2, [])
    assert document["metadata"] == {"resourceVersion": "9"}


def test_the_last_page_says_that_nothing_remains() -> None:
    document = tables.table(FLAVORS, "v1beta2", [], now=NOW, page=Page("9", remaining=0))
    assert document["metadata"] == {"resourceVersion": "9", "remainingItemCount": 0}


INCLUDED = [
    pytest.param("Object", FLAVOR, id="the whole object"),
    pytest.param("None", None, id="nothing of the object"),
]


@pytest.mark.parametrize(("include_object", "want"), INCLUDED)
def test_a_row_carries_as_much_of_its_object_as_was_asked_for(
    include_object: tables.IncludeObject, want: object
) -> None:
    document = tables.table(FLAVORS, "v1beta2", [FLAVOR], now=NOW, page=Page("9"), include_object=include_object)
    assert document["rows"][0]["object"] == want


@pytest.mark.parametrize(
    ("asked", "want"), [("", "Metadata"), ("Metadata", "Metadata"), ("Object", "Object"), ("None", "None")]
)
def test_what_a_client_asks_to_be_included_is_understood(asked: str, want: str) -> None:
    assert tables.included(asked) == want


@pytest.mark.parametrize("asked", ["metadata", "All", " "])
def test_what_cannot_be_included_is_refused_with_what_can(asked: str) -> None:
    with pytest.raises(BadRequest, match='"Metadata", "Object", "None"'):
        tables.included(asked)


def test_later_events_of_a_watch_come_without_headers() -> None:
    document = tables.table(FLAVORS, "v1beta2", [FLAVOR], now=NOW, page=Page("7"), with_headers=False)
    assert document["columnDefinitions"] is None
    assert document["rows"][0]["cells"] == ["spot", "4m5s"]


def test_a_bookmark_is_a_row_without_values() -> None:
    metadata = {"resourceVersion": "12", "annotations": {"k8s.io/initial-events-end": "true"}}
    assert tables.bookmark(FLAVORS, "v1beta2", metadata) == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "12"},
        "columnDefinitions": None,
        "rows": [
            {
                "cells": ["", None],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata},
            }
        ],
    }


def test_a_kind_with_a_place_of_its_own_for_the_name_gets_no_second_one() -> None:
    """Events begin with when they were last seen."""
    columns = (
        Column(name="Reason", value=lambda manifest, _now: manifest["reason"]),
        Column(name="Name", value=lambda manifest, _now: manifest["metadata"]["name"], priority=1),
    )
    kind = Kind(
        group="",
        kind="Event",
        plural="events",
        versions=("v1",),
        stored="v1",
        schemas={"v1": Schema},
        columns={"v1": columns},
    )
    document = tables.table(kind, "v1", [{"metadata": {"name": "e"}, "reason": "Started"}], now=NOW, page=Page("1"))
    assert [one["name"] for one in document["columnDefinitions"]] == ["Reason", "Name"]
    assert document["rows"][0]["cells"] == ["Started", "e"]


def test_the_older_version_of_the_form_is_said_at_every_level() -> None:
    document = tables.table(FLAVORS, "v1beta2", [FLAVOR], now=NOW, page=Page("9"), meta_version="v1beta1")
    assert document["apiVersion"] == document["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_metadata_alone_leaves_the_object_as_it_was() -> None:
    assert tables.partial_metadata(FLAVOR) == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": FLAVOR["metadata"],
    }
    assert FLAVOR["kind"] == "ResourceFlavor"


def test_a_list_of_metadata_says_where_it_stands() -> None:
    document = tables.partial_metadata_list([FLAVOR, FLAVOR], page=Page("9", "more"))
    assert document == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9", "continue": "more"},
        "items": [tables.partial_metadata(FLAVOR)] * 2,
    }


CUSTOM = [pytest.param(kind, id=kind.resource) for kind in REGISTRY.kinds if not kind.builtin]


@pytest.mark.parametrize("kind", CUSTOM)
def test_an_object_with_nothing_but_a_name_has_a_cell_for_every_column(kind: Kind) -> None:
    """Little of a custom kind is required, and one object must not break the listing of all."""
    for version in kind.versions:
        bare = {"apiVersion": kind.api_version(version), "kind": kind.kind, "metadata": {"name": "x"}}
        document = tables.table(kind, version, [bare], now=NOW, page=Page("1"))
        assert len(document["rows"][0]["cells"]) == len(document["columnDefinitions"])
