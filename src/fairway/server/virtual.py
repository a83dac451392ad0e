"""Resources that are answered on request and are no stored objects: what one of them has to offer the API.

The API looks one up by its place in the path, asks it which verb a request means, authorises and audits that verb as
for any object, and passes the request on.
"""

from typing import Protocol

from fairway.server.requests import OpenRequest, Request
from fairway.server.responses import Response
from fairway.server.routes import Place


class VirtualResource(Protocol):
    """One resource of a group and version."""

    def verb(self, request: Request, where: Place) -> str:
        """What a request is, as roles name it; `NotFound` or `MethodNotAllowed` if there is no such thing."""
        ...

    async def answer(self, request: OpenRequest, where: Place) -> Response:
        """The answer to whoever may do this."""
        ...

    def close(self) -> None:
        """The server is going down: end what takes long."""
        ...
