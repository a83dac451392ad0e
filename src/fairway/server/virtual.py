"""Resources that are answered on request and are no stored objects: what one of them has to offer the API.

The API looks one up by its place in the path, asks it which verb a request means, authorises and audits that verb as
for any object, and passes the request on.
"""

from typing import Any, Protocol

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.server.negotiation import accepted
from fairway.server.reading import Streamed, yaml_of
from fairway.server.requests import Request
from fairway.server.responses import Response, encode
from fairway.server.routes import ResourcePath
from fairway.server.tables import Page, included, partial_metadata, partial_metadata_list, table
from fairway.store.verbs import Objects


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


def rendered(objects: Objects, request: Request, kind: Kind, items: list[Manifest], whole: Any) -> Response:
    """Objects in the form that the request accepts: as they are (`whole`, one or a list), as a Table, or in YAML."""
    form = accepted(request.header(b"accept"))
    page = Page(str(objects.store.revision))
    if form.shape == "Table":
        whole = table(
            kind,
            kind.stored,
            items,
            now=objects.now(),
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
