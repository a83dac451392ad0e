"""Resources that are answered on request and are no stored objects: what one of them has to offer the API.

The API looks one up by its place in the path, asks it which verb a request means, authorises and audits that verb as
for any object, and passes the request on.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.server.negotiation import accepted
from fairway.server.reading import Streamed, yaml_of
from fairway.server.requests import Request
from fairway.server.responses import Response, encode
from fairway.server.routes import ResourcePath
from fairway.server.tables import Page, included, partial_metadata, partial_metadata_list, table
from fairway.store.verbs import Objects
from fairway.store.verbs.reading import readable


class VirtualResource(Protocol):
    """One resource of a group and version."""

    def verb(self, request: Request, where: ResourcePath) -> str:
        """What a request is, as roles name it; `NotFound` or `MethodNotAllowed` if there is no such thing."""
        ...

    async def answer(self, request: Request, where: ResourcePath) -> Response | Streamed:
        """The response to an authorised request."""
        ...

    def close(self) -> None:
        """The server is going down: end what takes long."""
        ...


class ObjectView(Protocol):
    """The objects that an answer is made from, read-only: those of a store, or of the caches of a cluster."""

    @property
    def revision(self) -> str:
        """The `resourceVersion` of a list."""
        ...

    def now(self) -> datetime: ...

    def get(self, resource: str, namespace: str, name: str) -> Manifest | None: ...

    def all(self, resource: str) -> Iterable[Manifest]: ...


class StoreView:
    """Keeps the contract of `ObjectView` on a store."""

    def __init__(self, objects: Objects) -> None:
        self._store = objects.store
        self.now = objects.now

    @property
    def revision(self) -> str:
        return str(self._store.revision)

    def get(self, resource: str, namespace: str, name: str) -> Manifest | None:
        entry = self._store.get(resource, (namespace, name))
        return None if entry is None else readable(entry)

    def all(self, resource: str) -> Iterable[Manifest]:
        return (readable(entry) for entry in self._store.collection(resource).entries.values())


def rendered(view: ObjectView, request: Request, kind: Kind, items: list[Manifest], whole: Any) -> Response:
    """Objects in the form that the request accepts: as they are (`whole`, one or a list), as a Table, or in YAML."""
    form = accepted(request.header(b"accept"))
    page = Page(view.revision)
    if form.shape == "Table":
        whole = table(
            kind,
            kind.stored,
            items,
            now=view.now(),
            page=page,
            include_object=included(request.query.get("includeObject", "")),
            meta_version=form.version,
        )
    elif form.shape == "PartialObjectMetadataList":
        whole = partial_metadata_list(items, page=page, meta_version=form.version)
    elif form.shape:
        whole = partial_metadata(whole, form.version)
    data = encode(whole)
    return Response(200, yaml_of(data), b"application/yaml") if form.yaml else Response(200, data)
