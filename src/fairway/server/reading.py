"""Get and list, in the form that the client asks for."""

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import TypeVar

import msgspec
import yaml

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import BadRequest, TooLarge
from fairway.runtime.slices import Slice
from fairway.server.limits import Limits
from fairway.server.negotiation import Accepted, accepted
from fairway.server.requests import Request
from fairway.server.responses import JSON_TYPE, Response, encode, ok
from fairway.server.routes import Route
from fairway.server.scaling import scale_of
from fairway.server.tables import Page as Head
from fairway.server.tables import Rows, included, list_metadata, partial_metadata, partial_metadata_list, table
from fairway.store.entries import Entry
from fairway.store.selectors import Selection
from fairway.store.verbs import Objects
from fairway.store.verbs.listing import ListPage, Paging, check_not_too_new
from fairway.store.verbs.reading import decoded

Item = TypeVar("Item")

_CHUNK_BYTES = 256 << 10
_MOST_LAID_OUT = 256 << 10
_YAML_TYPE = b"application/yaml"


class Streamed(msgspec.Struct, frozen=True):
    """An answer that is sent piece by piece."""

    pieces: AsyncIterator[bytes]
    content_type: bytes = JSON_TYPE
    code: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


def get(objects: Objects, request: Request, route: Route) -> Response:
    """One object."""
    check_not_too_new(objects.store, revision_of(request))
    entry = objects.get(route.kind, route.namespace, route.name)
    if route.subresource == "scale":
        return ok(scale_of(route.kind, decoded(entry)))
    form = accepted(request.header(b"accept"))
    return rendered(objects, route, entry, form, include=request.query.get("includeObject", ""))


def rendered(
    objects: Objects, route: Route, entry: Entry, form: Accepted, *, code: int = 200, include: str = ""
) -> Response:
    """One object in the form that was asked for."""
    data = objects.rendered(route.kind, entry, route.version)
    if not form.shape and not form.yaml:
        return Response(code, data)
    if form.shape == "Table":
        rows = [msgspec.json.decode(data)]
        body = table(
            route.kind,
            route.version,
            rows,
            now=objects.now(),
            page=Head(str(entry.revision)),
            include_object=included(include),
            meta_version=form.version,
        )
        return Response(code, encode(body))
    if form.shape:
        return Response(code, encode(partial_metadata(msgspec.json.decode(data), form.version)))
    return Response(code, yaml_of(data), _YAML_TYPE)


async def list_objects(objects: Objects, request: Request, route: Route, limits: Limits) -> Response | Streamed:
    """The objects that match; a long list is put together in slices while it is being sent."""
    work = objects.slices.begin()
    page = await objects.page_in_slices(selected(request, route), paging(request), work)
    if len(page.entries) > limits.list_objects:
        raise TooLarge(
            f"{len(page.entries)} {route.kind.resource} exceed the limit of a list ({limits.list_objects}); "
            "read pages with `limit`"
        )
    form = accepted(request.header(b"accept"))
    if form.shape:
        head, encoded = _reshaping(objects, request, route, form, page)
    else:
        head = {**list_head(route.kind, route.version), "metadata": list_metadata(_head(page)), "items": []}
        encoded = partial(_stored, objects, route)
    if form.yaml and sum(len(entry.data) for entry in page.entries) <= _MOST_LAID_OUT:
        data = b"".join([piece async for piece in joined(head, page.entries, encoded, work)])
        return Response(200, yaml_of(data), _YAML_TYPE)
    return Streamed(joined(head, page.entries, encoded, work), _YAML_TYPE if form.yaml else JSON_TYPE)


def _reshaping(
    objects: Objects, request: Request, route: Route, form: Accepted, page: ListPage
) -> tuple[Manifest, Callable[[Entry], bytes]]:
    """A list as a Table, or of metadata alone: the document without its items, and how an item is written."""
    if form.shape != "Table":
        head = partial_metadata_list([], page=_head(page), meta_version=form.version)
        return head, lambda entry: encode(partial_metadata(_manifest(objects, route, entry), form.version))
    include, now = included(request.query.get("includeObject", "")), objects.now()
    rows = Rows(route.kind, route.version, now, include, form.version)
    head = table(route.kind, route.version, [], now=now, page=_head(page), meta_version=form.version)
    return head, lambda entry: encode(rows.row(_manifest(objects, route, entry)))


def _stored(objects: Objects, route: Route, entry: Entry) -> bytes:
    return entry.data if route.version == route.kind.stored else objects.rendered(route.kind, entry, route.version)


async def joined(
    head: Manifest, items: Iterable[Item], encoded: Callable[[Item], bytes], work: Slice, end: bytes = b"]}"
) -> AsyncIterator[bytes]:
    """The JSON of a document that ends with an empty list, with these items in it, in pieces of bounded size."""
    parts, size, first = [encode(head)[: -len(end)]], 0, True
    for item in items:
        if not first:
            parts.append(b",")
        first = False
        data = encoded(item)
        parts.append(data)
        size += len(data)
        if size > _CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
        if work.is_over:
            await work.pause()
    parts.append(end)
    yield b"".join(parts)


def selected(request: Request, route: Route) -> Selection:
    """Which objects a list, a watch or a deletion of many is about."""
    query = request.query
    fields = query.get("fieldSelector", "")
    if route.name:
        fields = f"metadata.name={route.name}" + (f",{fields}" if fields else "")
    return Selection(route.kind, route.namespace, query.get("labelSelector", ""), fields)


def revision_of(request: Request) -> int:
    """The query's `resourceVersion`, 0 if there is none."""
    text = request.query.get("resourceVersion", "")
    if not text:
        return 0
    if len(text) > 18 or not (text.isascii() and text.isdigit()):
        raise BadRequest(f"resourceVersion: Invalid value: {text[:80]!r}: must be a resourceVersion of this server")
    return int(text)


def paging(request: Request) -> Paging:
    """Which part of a list is asked for, and as of when."""
    limit = request.number("limit") or 0
    if limit < 0:
        raise BadRequest(f"limit: Invalid value: {limit}: must not be negative")
    match = request.query.get("resourceVersionMatch", "")
    revision, token = revision_of(request), request.query.get("continue", "")
    if match not in {"", "Exact", "NotOlderThan"}:
        raise BadRequest(f"resourceVersionMatch: Unsupported value: {match[:80]!r}: supported: Exact, NotOlderThan")
    if match and not request.query.get("resourceVersion"):
        raise BadRequest("resourceVersionMatch: Forbidden: it is forbidden unless resourceVersion is provided")
    if match == "Exact" and not revision:
        raise BadRequest('resourceVersionMatch: Forbidden: "Exact" is forbidden for resourceVersion "0"')
    if token and revision:
        raise BadRequest("specifying resource version is not allowed when using continue")
    exact = match == "Exact" or (bool(limit) and not match and revision > 0)
    return Paging(limit=limit, token=token, revision=revision, exact=exact)


def _manifest(objects: Objects, route: Route, entry: Entry) -> Manifest:
    """A decoded object in the version that was asked for."""
    if route.version == route.kind.stored:
        return decoded(entry)
    manifest: Manifest = msgspec.json.decode(objects.rendered(route.kind, entry, route.version))
    return manifest


def yaml_of(data: bytes) -> bytes:
    """JSON as YAML is usually written. What is large stays as it is: that is YAML too, and laying it out takes long."""
    if len(data) > _MOST_LAID_OUT:
        return data
    text: str = yaml.dump(
        msgspec.json.decode(data), Dumper=yaml.CSafeDumper, sort_keys=True, default_flow_style=False, allow_unicode=True
    )
    return text.encode()


def list_head(kind: Kind, version: str) -> dict[str, str]:
    """What a list of a kind begins with."""
    return {"kind": kind.list_kind or f"{kind.kind}List", "apiVersion": kind.api_version(version)}


def _head(page: ListPage) -> Head:
    return Head(str(page.revision), page.token, page.remaining)
