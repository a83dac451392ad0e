"""Merges `pod_config` of configuration and task with the pod of the task.

As in SkyPilot, a part may leave out what it has no opinion on, the names of containers included: the container called
`run`, or else the first one, is the one that runs the task. How two layers come together is said in `merging`.
"""

from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Any, Final

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import inspect
from fairway.errors import FieldError
from fairway.managedjobs.merging import merged

RUN: Final = "run"
"""The container that runs the task."""


def wrong_part(part: Any, path: str) -> list[FieldError]:
    """What is wrong with a part of a pod by itself; that something is missing from it is not."""
    found = inspect(_template(), copied(part), path)
    return [
        *(error for error in found.errors if error.rule != "FieldValueRequired"),
        *(FieldError(unknown, None, "FieldUnknown", "pods have no such field") for unknown in found.unknown),
    ]


def layered(layers: Iterable[Manifest]) -> Manifest:
    """Layers of a pod template, the lowest first, as one that shares nothing with them."""
    result: Manifest = {}
    for layer in layers:
        result = merged(result, _with_main(copied(layer)))
    said: Manifest = _said(result)
    return said


def required_terms(one: list[Manifest], other: list[Manifest]) -> list[Manifest]:
    """The terms of a node affinity that hold where both lists of alternatives do; an empty list asks for nothing."""
    if not one or not other:
        return one or other
    return [
        {
            field: [*(left.get(field) or ()), *(right.get(field) or ())]
            for field in ("matchExpressions", "matchFields")
            if left.get(field) or right.get(field)
        }
        for left, right in product(one, other)
    ]


@cache
def _template() -> Schema:
    return definition("io.k8s.api.core.v1.PodTemplateSpec")


def _with_main(layer: Manifest) -> Manifest:
    """The layer with its main container called by name; in place."""
    containers = [one for one in (layer.get("spec") or {}).get("containers") or () if one is not None]
    if containers and not any(container.get("name") == RUN for container in containers):
        containers[0]["name"] = RUN
    return layer


def _said(value: Any) -> Any:
    """Without the nulls that had nothing to take away."""
    if isinstance(value, dict):
        return {name: _said(part) for name, part in value.items() if part is not None}
    return [_said(part) for part in value if part is not None] if isinstance(value, list) else value
