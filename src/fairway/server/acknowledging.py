"""Writes of acknowledged kinds: what install manifests of built-in components hold (`apis/components.py`).

Whatever a manifest says about an object that is there changes nothing, in any form of patch; what is not there is
stored by its name. What belongs to the server itself outlasts a delete, which then answers without a uid: clients that
wait for the end of the object take the one that they find for another.
"""

from dataclasses import replace
from typing import Any, Final

import msgspec

from fairway.apis import components
from fairway.apis.extensions.records import DEFINITIONS, RESOURCE
from fairway.apis.machinery.documents import from_json
from fairway.apis.machinery.schemas.walk import inspect
from fairway.errors import Forbidden, ValidationError
from fairway.server import bodies, protobuf
from fairway.server.requests import Request
from fairway.server.routes import Route
from fairway.store.verbs import Objects, PatchType, Written
from fairway.store.verbs.intake import check_place, identified
from fairway.store.verbs.reading import decoded, not_found
from fairway.store.verbs.writing import drafted

_IDENTITY: Final = components.identity_schema("")
MOST_DEFINITIONS: Final = 1000
"""CustomResourceDefinitions that a server keeps."""


def concerns(route: Route) -> bool:
    """Whether a write may be acknowledged rather than carried out."""
    return (
        route.kind.acknowledged
        or route.kind.inert
        or route.kind is DEFINITIONS
        or (route.verb == "delete" and (route.kind.resource, (route.namespace, route.name)) in components.LASTING)
    )


def stage(objects: Objects, request: Request, route: Route, data: bytes) -> Written | None:
    """The answer to a write of what is built in, or to the deletion of an object that lasts; `None` for any other."""
    if route.kind is DEFINITIONS and not _is_of_built_in(objects, request, route, data):
        _check_room(objects, route)
        return None
    if route.kind.inert and not _is_of_component(objects, request, route, data):
        return None
    if route.verb == "delete":
        return _delete(objects, request, route, data)
    if route.verb == "create":
        _refuse_protobuf(request, route)
        return _create(objects, request, route, _identity(data) or bodies.manifest(request, data))
    found = _existing(objects, route, route.name)
    if found is None and request.content_type == PatchType.APPLY:
        body = _identity(data) or bodies.patch(request, data)[1]
        return _create(objects, request, route, body, apply=True)
    if found is None and _is_definition(route):
        return _not_listed(route, route.name)
    if found is None:
        raise not_found(route.kind, route.name)
    return found


def _is_of_built_in(objects: Objects, request: Request, route: Route, data: bytes) -> bool:
    """Whether a definition is of a kind that the server has itself, or comes with a built-in component."""
    name = route.name or str(_metadata(request, data).get("name") or "")
    return objects.registry.is_built_in(name)


def _is_of_component(objects: Objects, request: Request, route: Route, data: bytes) -> bool:
    """Whether an object of a kind that is only stored belongs to the install manifest of a built-in component."""
    found = objects.store.head(route.kind.resource, (route.namespace, route.name)) if route.name else None
    if found is not None:
        return components.component_of(decoded(found)) is not None
    if route.verb == "create" or request.content_type == PatchType.APPLY:
        return components.component_of({"metadata": _metadata(request, data)}) is not None
    return False


def _metadata(request: Request, data: bytes) -> dict[str, Any]:
    """The metadata of the object in a body, before anything is known of it."""
    body = _identity(data)
    if body is None and request.content_type == PatchType.APPLY:
        body = bodies.patch(request, data)[1]
    elif body is None and request.content_type != protobuf.CONTENT_TYPE:
        body = bodies.manifest(request, data)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _check_room(objects: Objects, route: Route) -> None:
    if len(objects.store.collection(RESOURCE)) < MOST_DEFINITIONS:
        return
    if route.verb == "create" or objects.store.head(RESOURCE, ("", route.name)) is None:
        raise Forbidden(f"this server keeps {MOST_DEFINITIONS} definitions, and so many are there: delete one first")


class _Head(msgspec.Struct, rename="camel"):
    """The parts of an object that are kept of it."""

    api_version: str | None = None
    kind: str | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


def _identity(data: bytes) -> dict[str, Any] | None:
    """The identity of an object in JSON, without reading the rest: KubeRay's definitions have 30 000 values each."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except msgspec.MsgspecError:
        return None  # YAML, or nothing that can be used: the usual way says what is wrong
    given = {"apiVersion": head.api_version, "kind": head.kind, "metadata": from_json(bytes(head.metadata))}
    return {name: value for name, value in given.items() if value is not None}


def _is_definition(route: Route) -> bool:
    return route.kind is DEFINITIONS


def _not_listed(route: Route, name: str) -> Written:
    """A definition that comes with a component, and whose kind is not served."""
    manifest = {
        "apiVersion": route.kind.api_version(route.version),
        "kind": route.kind.kind,
        "metadata": {"name": name},
    }
    return Written(drafted(route.kind, ("", name), manifest), created=route.verb == "create")


def _create(objects: Objects, request: Request, route: Route, body: Any, *, apply: bool = False) -> Written:
    # Fields that no write can change have no owner.
    options = replace(bodies.write_options(request, apply=apply), tracked=False)
    manifest = identified(route.kind, route.version, body)
    check_place(route.kind, manifest, route.namespace, route.name)
    name = str(manifest["metadata"].get("name") or "")
    found = _existing(objects, route, name)
    if found is not None and (_is_definition(route) or components.component_of(manifest) is not None):
        return found
    if _is_definition(route):
        return _not_listed(route, name)
    if route.kind.inert:  # only its identity counts, so only that is checked
        errors = inspect(_IDENTITY, manifest).errors
        if errors:
            raise ValidationError(route.kind.kind, name, errors)
        options = replace(options, trusted=True)
    return objects.stage_create(route.kind, route.version, route.namespace, manifest, options)


def _refuse_protobuf(request: Request, route: Route) -> None:
    """What commands such as `kubectl create deployment` send is never of an install manifest: say why it is refused."""
    if request.content_type == protobuf.CONTENT_TYPE:
        errors = route.kind.rules.validate({"kind": route.kind.kind, "metadata": {"name": "unnamed"}})
        raise ValidationError(route.kind.kind, "", errors)


def _delete(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    options = bodies.delete_options(request, data)
    key = (route.namespace, route.name)
    is_definition = _is_definition(route)
    if not is_definition and (route.kind.resource, key) not in components.LASTING:
        return objects.stage_delete(route.kind, key, options)
    if not is_definition and objects.store.head(route.kind.resource, key) is None:
        raise not_found(route.kind, route.name)
    gone = {"metadata": {"name": route.name, "namespace": route.namespace}}
    return Written(drafted(route.kind, key, gone), (components.STAYS,), removed=True)


def _existing(objects: Objects, route: Route, name: str) -> Written | None:
    entry = objects.store.head(route.kind.resource, (route.namespace, name))
    return None if entry is None else Written(entry, durable=objects.store.settling())
