"""Create, update, patch and delete over HTTP: what a request asks for, and the answer when it is durable.

Who waits for the disk, and how, is not decided here.
"""

from typing import Final

from fairway.apis.machinery.kind import Kind
from fairway.errors import BadRequest
from fairway.server import acknowledging, bodies, scaling
from fairway.server.negotiation import accepted
from fairway.server.reading import Streamed, joined, list_head, rendered, selected
from fairway.server.requests import Request
from fairway.server.responses import Response, encode, ok, success, warning_headers
from fairway.server.routes import Route
from fairway.store.verbs import Objects, PatchType, WriteOptions, WriteTarget, Written
from fairway.store.verbs.reading import decoded


def create(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    """A new object."""
    options = bodies.write_options(request)
    kind, version, namespace = route.kind, route.version, route.namespace
    if request.content_type == "application/json":
        return objects.stage_create_from(kind, version, namespace, bodies.some(data), options)
    return objects.stage_create(kind, version, namespace, bodies.manifest(request, data), options)


def update(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    """An object, or its status, replaced."""
    target = _target(route, bodies.write_options(request))
    return objects.stage_update(target, bodies.manifest(request, data))


def patch(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    """An object, or its status, changed."""
    is_apply = request.content_type == PatchType.APPLY
    target = _target(route, bodies.write_options(request, apply=is_apply))
    return objects.stage_patch(target, *bodies.patch(request, data))


def bind(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    """A pod given to a node."""
    options = bodies.write_options(request)
    body = bodies.manifest(request, data)
    target = body.get("target") if isinstance(body, dict) else None
    node = target.get("name") if isinstance(target, dict) else None
    if not isinstance(node, str) or not node:
        raise BadRequest("target.name: Required value: a binding needs a node")
    return objects.stage_bind(route.kind, (route.namespace, route.name), node, options)


def delete(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    """One object gone, or marked for deletion."""
    options = bodies.delete_options(request, data)
    return objects.stage_delete(route.kind, (route.namespace, route.name), options)


_VERBS: Final = {"create": create, "update": update, "patch": patch, "delete": delete}


def stage(objects: Objects, request: Request, route: Route, data: bytes) -> Written:
    """What a request that writes one object asks for, with `data` as its body; the answer waits for the disk."""
    acknowledged = acknowledging.stage(objects, request, route, data) if acknowledging.concerns(route) else None
    if acknowledged is not None:
        return acknowledged
    if route.subresource == "scale":
        return scaling.stage(objects, request, route, data)
    if request.raw_query:
        bodies.check_repeated(request, data)
    write = bind if route.subresource == "binding" else _VERBS[route.verb]
    return write(objects, request, route, data)


def answer(objects: Objects, request: Request, route: Route, written: Written) -> Response:
    """The response to a write, once it is durable."""
    if route.subresource == "binding":
        return ok({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)
    if route.subresource == "scale":
        return ok(scaling.scale_of(route.kind, decoded(written.entry)))
    warnings = _warnings(route, written) + request.repeated
    if written.removed and route.verb == "delete" and route.kind.resource != "pods":
        body = encode(success(_deleted(route.kind, written)))
        return Response(200, body, headers=warning_headers(warnings))
    code = 201 if route.verb == "create" or written.created else 200
    accept = request.headers.get(b"accept")
    if accept is None or accept == b"application/json":
        response = Response(code, objects.rendered(route.kind, written.entry, route.version))
    else:
        form = accepted(accept.decode("latin-1"))
        response = rendered(objects, route, written.entry, form, code=code)
    if not warnings:
        return response
    return Response(response.code, response.body, response.content_type, warning_headers(warnings))


def _warnings(route: Route, written: Written) -> tuple[str, ...]:
    """The warnings of the write itself, and those of the kind about each of its objects."""
    if route.kind.warn is None or route.verb == "delete" or route.subresource:
        return written.warnings
    return (*written.warnings, *route.kind.warn(decoded(written.entry)))


def _target(route: Route, options: WriteOptions) -> WriteTarget:
    return WriteTarget(route.kind, route.version, (route.namespace, route.name), options, route.subresource)


async def delete_collection(objects: Objects, request: Request, route: Route) -> Streamed:
    """All objects that match deleted, or marked for deletion."""
    options = bodies.delete_options(request, await request.body())
    written = await objects.delete_collection(selected(request, route), options)
    metadata = {"resourceVersion": str(objects.store.revision)}
    head = {**list_head(route.kind, route.version), "metadata": metadata, "items": []}

    def encoded(one: Written) -> bytes:
        return objects.rendered(route.kind, one.entry, route.version)

    return Streamed(joined(head, written, encoded, objects.slices.begin()))


def _deleted(kind: Kind, written: Written) -> dict[str, str]:
    details = {"name": written.entry.name, "kind": kind.plural, "uid": written.entry.meta.uid, "group": kind.group}
    return {name: value for name, value in details.items() if value}
