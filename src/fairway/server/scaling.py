"""The subresource `scale`: the replicas of an object as an `autoscaling/v1` Scale, whatever its own fields are."""

from typing import Any

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.kind import Scale as Places
from fairway.apis.machinery.printing import NONE, selector_text
from fairway.errors import BadRequest
from fairway.server import bodies
from fairway.server.requests import Request
from fairway.server.routes import Route
from fairway.store.patching.jsonpatch import json_patch
from fairway.store.patching.merge import merge_patch
from fairway.store.verbs import Objects, PatchType, WriteTarget, Written
from fairway.store.verbs.reading import decoded, not_found


def scale_of(kind: Kind, manifest: Manifest) -> Manifest:
    """The Scale of an object."""
    places, metadata = _places(kind), manifest["metadata"]
    known = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = _at(manifest, places.selector) if places.selector else None
    text = selector if isinstance(selector, str) else selector_text(selector)
    status: Manifest = {"replicas": _at(manifest, places.status_replicas) or 0}
    if selector and text != NONE:
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in known if name in metadata},
        "spec": {"replicas": _at(manifest, places.spec_replicas) or 0},
        "status": status,
    }


def stage(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    """Set the replicas of an object as a Scale or a patch of one says."""
    key, kind = (route.namespace, route.name), route.kind
    entry = objects.store.head(kind.resource, key)
    if entry is None:
        raise not_found(kind, route.name)
    scale = scale_of(kind, decoded(entry))
    if route.verb == "patch":
        patch_type, patch = bodies.patch(request, data)
        asked = json_patch(scale, patch) if patch_type is PatchType.JSON else merge_patch(scale, patch)
    else:
        asked = bodies.manifest(request, data)
    spec = asked.get("spec") if isinstance(asked, dict) else None
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    if type(replicas) is not int or replicas < 0:
        raise BadRequest(f"spec.replicas: Invalid value: {replicas!r:.40}: must be a whole number of at least 0")
    change: Any = replicas
    for name in reversed(_places(kind).spec_replicas):
        change = {name: change}
    revision = (asked.get("metadata") or {}).get("resourceVersion") if isinstance(asked, dict) else None
    if revision:
        change = {**change, "metadata": {"resourceVersion": revision}}
    target = WriteTarget(kind, kind.stored, key, bodies.write_options(request), "")
    return objects.stage_patch(target, PatchType.MERGE, change)


def _places(kind: Kind) -> Places:
    if kind.scale is None:
        raise ValueError(f"{kind.resource} has no scale")
    return kind.scale


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
