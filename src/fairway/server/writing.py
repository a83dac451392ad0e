"""Create, update, patch and delete over HTTP."""

from fairway.errors import BadRequest
from fairway.kinds.kind import Kind
from fairway.server import bodies
from fairway.server.negotiation import accepted
from fairway.server.reading import list_head, rendered, selected
from fairway.server.requests import Request
from fairway.server.responses import Response, encode, ok, success, warning_headers
from fairway.server.routes import Route
from fairway.store.objects import Objects, PatchType, Written


async def create(objects: Objects, request: Request, route: Route) -> tuple[Response, Written]:
    """A new object."""
    options = bodies.write_options(request)
    if request.content_type == "application/json":
        data = await bodies.some(request)
        written = await objects.create_from(route.kind, route.version, route.namespace, data, options)
    else:
        manifest = await bodies.manifest(request)
        written = await objects.create(route.kind, route.version, route.namespace, manifest, options)
    return _answer(objects, request, route, written, 201), written


async def update(objects: Objects, request: Request, route: Route) -> tuple[Response, Written]:
    """An object, or its status, replaced."""
    options = bodies.write_options(request)
    key = (route.namespace, route.name)
    written = await objects.update(
        route.kind, route.version, key, await bodies.manifest(request), options, route.subresource
    )
    return _answer(objects, request, route, written, 200), written


async def patch(objects: Objects, request: Request, route: Route) -> tuple[Response, Written]:
    """An object, or its status, changed."""
    is_apply = request.content_type == PatchType.APPLY
    options = bodies.write_options(request, apply=is_apply)
    patch_type, body = await bodies.patch(request)
    key = (route.namespace, route.name)
    written = await objects.patch(route.kind, route.version, key, patch_type, body, options, route.subresource)
    return _answer(objects, request, route, written, 201 if written.created else 200), written


async def bind(objects: Objects, request: Request, route: Route) -> tuple[Response, Written]:
    """A pod given to a node."""
    options = bodies.write_options(request)
    body = await bodies.manifest(request)
    target = body.get("target") if isinstance(body, dict) else None
    node = target.get("name") if isinstance(target, dict) else None
    if not isinstance(node, str) or not node:
        raise BadRequest("target.name: Required value: a binding names the node")
    written = await objects.bind(route.kind, (route.namespace, route.name), node, options)
    return Response(
        201, encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
    ), written


async def delete(objects: Objects, request: Request, route: Route) -> tuple[Response, Written]:
    """One object gone, or marked for deletion."""
    options = await bodies.delete_options(request)
    written = await objects.delete(route.kind, (route.namespace, route.name), options)
    if written.removed and route.kind.resource != "pods":
        return ok(success(_deleted(route.kind, written))), written
    return _answer(objects, request, route, written, 200), written


async def delete_collection(objects: Objects, request: Request, route: Route) -> Response:
    """All that are meant gone, or marked for deletion."""
    options = await bodies.delete_options(request)
    written = await objects.delete_collection(selected(request, route), options)
    items = b",".join(objects.rendered(route.kind, one.entry, route.version) for one in written)
    revision = str(objects.store.revision)
    head = encode({**list_head(route.kind, route.version), "metadata": {"resourceVersion": revision}})
    return Response(200, head[:-1] + b',"items":[' + items + b"]}")


def _answer(objects: Objects, request: Request, route: Route, written: Written, code: int) -> Response:
    accept = request.headers.get(b"accept")
    if accept is None or accept == b"application/json":
        response = Response(code, objects.rendered(route.kind, written.entry, route.version))
    else:
        form = accepted(accept.decode("latin-1"))
        response = rendered(objects, route, written.entry, form, code=code)
    if not written.warnings:
        return response
    return Response(response.code, response.body, response.content_type, warning_headers(written.warnings))


def _deleted(kind: Kind, written: Written) -> dict[str, str]:
    details = {"name": written.entry.name, "kind": kind.plural, "uid": written.entry.meta.uid}
    return {**details, "group": kind.group} if kind.group else details
