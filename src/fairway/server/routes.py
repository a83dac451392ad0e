"""What a path and a method ask for: which kind, which object, which verb."""

from typing import Final, NamedTuple

from fairway.apis.machinery.kind import Kind
from fairway.apis.registry import Registry
from fairway.errors import MethodNotAllowed, NotFound
from fairway.server.discovery import ONE_BY_ONE
from fairway.server.requests import Request


class Route(NamedTuple):
    """A request for objects of one kind."""

    verb: str
    """`get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`, as roles name them."""

    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str


class ResourcePath(NamedTuple):
    """A path that leads to a resource, of whatever kind it turns out to be."""

    group: str
    version: str
    namespace: str
    resource: str
    name: str
    subresource: str


_ONE: Final = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MANY: Final = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_PARTS: Final = {
    "status": {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch"},
    "scale": {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch"},
    "log": {"GET": "get", "HEAD": "get"},
    "files": {"GET": "get"},
    "binding": {"POST": "create"},
}
_ATTEMPTS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def place(segments: list[str]) -> ResourcePath | None:
    """Where a path leads; `None` if it is no path to a resource."""
    if len(segments) >= 3 and segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    elif len(segments) >= 4 and segments[0] == "apis":
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    resource, name, subresource = (*rest, "", "")[:3]
    return ResourcePath(group, version, namespace, resource, name, subresource)


def route(registry: Registry, request: Request, where: ResourcePath) -> Route:
    """What a request for a resource asks for; `NotFound` or `MethodNotAllowed` if there is no such thing."""
    group, version, namespace, resource, name, subresource = where
    kind = registry.by_resource(group, version, resource)
    if kind is None or (namespace and not kind.namespaced):
        raise NotFound("the server could not find the requested resource")
    if subresource:
        if subresource not in kind.subresources and not (subresource == "status" and kind.status):
            raise NotFound("the server could not find the requested resource")
        verbs = _PARTS.get(subresource, {})
    else:
        verbs = _ONE if name else _MANY
    verb = verbs.get(request.method)
    if verb is None:
        raise _not_allowed(request, kind)
    if verb == "deletecollection" and (kind.plural in ONE_BY_ONE or (kind.namespaced and not namespace)):
        raise _not_allowed(request, kind)
    if kind.namespaced and not namespace and (name or verb == "create"):
        raise NotFound(f"{kind.resource} belong to a namespace: the path must name it")
    if request.method == "GET" and not subresource and request.query.get("watch") and request.flag("watch"):
        verb = "watch"
    return Route(verb, kind, kind.version_in(group, version), namespace, name, subresource)


def attempted(method: str, where: ResourcePath) -> str:
    """The verb of a request that was refused before it was parsed; empty if it is no write."""
    if method == "DELETE":
        return "delete" if where.name else "deletecollection"
    return _ATTEMPTS.get(method, "")


def _not_allowed(request: Request, kind: Kind) -> MethodNotAllowed:
    return MethodNotAllowed(
        f"the server does not allow {request.method} on this path of {kind.resource}",
        details={"group": kind.group, "kind": kind.plural},
    )
