"""The paths that lead to no object: health, version, metrics, discovery and OpenAPI."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fairway.apis.registry import Registry
from fairway.errors import ApiError, MethodNotAllowed, NotAcceptable, NotFound
from fairway.server import openapi
from fairway.server.discovery import Discovery, aggregated_type, version_info
from fairway.server.metrics import Metrics
from fairway.server.negotiation import accepted
from fairway.server.requests import Request
from fairway.server.responses import Response, encode, ok

_TEXT: Final = b"text/plain; charset=utf-8"
_METRICS: Final = b"text/plain; version=0.0.4; charset=utf-8"
_FOR_EVER: Final = ((b"cache-control", b"public, immutable"),)
"""The address of an OpenAPI document changes with its content."""


class Plain:
    """Answers requests that are about the server, not about objects. Documents are encoded once for the same kinds."""

    def __init__(
        self,
        registry: Registry,
        metrics: Metrics,
        is_ready: Callable[[], str],
        check_writable: Callable[[], Awaitable[None]],
    ) -> None:
        """`is_ready` tells what is still missing, an empty string when nothing is."""
        self._check_writable = check_writable
        self._registry = registry
        self._metrics = metrics
        self._is_ready = is_ready
        self._discovery: Discovery | None = None
        self._documents: dict[str, bytes] = {}
        self._v3_documents: dict[str, bytes] = {}
        """By group version."""

        registry.observe(self._forget)

    def _forget(self, group: str) -> None:
        """The kinds of a group are others now."""
        self._discovery = None
        self._documents.clear()
        for name in [one for one in self._v3_documents if one.rpartition("/")[0] == group]:
            del self._v3_documents[name]

    async def answer(self, request: Request) -> Response:
        """The answer to a GET on one of these paths; `NotFound` for any other."""
        if request.segments[:1] == ["readyz"] and request.method in {"GET", "HEAD"}:
            return await self._readiness(request)
        return self._document(request)

    async def _readiness(self, request: Request) -> Response:
        """Whether requests should come, in kube-apiserver's form; what is wrong in detail is in the server's log."""
        checks = {"ping": "", "listening": self._is_ready(), "storage": await self._storage()}
        name = request.segments[1] if len(request.segments) > 1 else ""
        if name:
            if name not in checks:
                raise NotFound(f"there is no check {name[:80]!r}; there are {', '.join(checks)}")
            checks = {name: checks[name]}
        lines = [f"[-]{one} failed: {wrong}" if wrong else f"[+]{one} ok" for one, wrong in checks.items()]
        if any(checks.values()):
            return Response(503, "\n".join([*lines, "readyz check failed", ""]).encode(), _TEXT)
        if "verbose" in request.query:
            return Response(200, "\n".join([*lines, "readyz check passed", ""]).encode(), _TEXT)
        return Response(200, b"ok", _TEXT)

    async def _storage(self) -> str:
        try:
            await self._check_writable()
        except ApiError as error:
            return "a write was not durable in time" if error.code == 503 else "nothing can be written"
        return ""

    def _document(self, request: Request) -> Response:
        if request.method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(f"the server does not allow {request.method} on {request.path[:200]}")
        match request.segments:
            case ["healthz" | "livez", *_]:
                return Response(200, b"ok", _TEXT)
            case ["version"]:
                return ok(version_info())
            case ["metrics"]:
                return Response(200, self._metrics.exposition(), _METRICS)
            case []:
                return ok({"paths": self._paths()})
            case ["api" | "apis", *_]:
                if self._discovery is None:
                    self._discovery = Discovery(self._registry.kinds)
                return discovered(self._discovery, request)
            case ["openapi", *rest]:
                return self._openapi(request, rest)
        raise NotFound("the server could not find the requested resource")

    def _openapi(self, request: Request, rest: list[str]) -> Response:
        kinds = self._registry.kinds
        match rest:
            case ["v2"]:
                header = request.header(b"accept")
                if any(one in header for one in openapi.PROTOBUF_ACCEPTED):
                    data = self._once("v2.pb", lambda: openapi.v2_protobuf(kinds))
                    return Response(200, data, openapi.PROTOBUF_CONTENT_TYPE.encode())
                if "protobuf" in header and "json" not in header and "*/*" not in header:
                    raise NotAcceptable("OpenAPI v2 is served as application/json and as gnostic's protobuf")
                return Response(200, self._once("v2", lambda: encode(openapi.v2_document(kinds))))
            case ["v3"]:
                return Response(200, self._once("v3", lambda: encode(openapi.v3_index(kinds, self._v3_documents))))
            case ["v3", "api", version]:
                return self._v3(request, version)
            case ["v3", "apis", group, version]:
                return self._v3(request, f"{group}/{version}")
        raise NotFound("the server could not find the requested resource")

    def _v3(self, request: Request, group_version: str) -> Response:
        kinds = self._registry.kinds
        data = self._v3_documents.get(group_version)
        if data is None:
            document = openapi.v3_document(kinds, group_version)
            if document is None:
                raise NotFound(f"there is no OpenAPI document for {group_version[:200]}")
            data = self._v3_documents[group_version] = openapi.encoded(document)
        return Response(200, data, headers=_FOR_EVER if "hash" in request.query else ())

    def _once(self, name: str, make: Callable[[], bytes]) -> bytes:
        data = self._documents.get(name)
        if data is None:
            data = self._documents[name] = make()
        return data

    def _paths(self) -> list[str]:
        groups = self._registry.groups()
        versions = [
            f"/apis/{group}/{version}" if group else f"/api/{version}" for group in groups for version in groups[group]
        ]
        named = [f"/apis/{group}" for group in groups if group]
        fixed = ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        return sorted([*fixed, *named, *versions])


def discovered(discovery: Discovery, request: Request) -> Response:
    """The document of `/api…` or `/apis…` that a GET asks for."""
    document: dict[str, Any] | None = None
    match request.segments:
        case ["api" | "apis" as root]:
            form = accepted(request.header(b"accept"))
            if form.shape == "APIGroupDiscoveryList":
                body = discovery.aggregated(core=root == "api", version=form.version)
                return Response(200, encode(body), aggregated_type(form.version).encode())
            document = discovery.groups() if root == "apis" else discovery.api_versions(request.header(b"host"))
        case ["api", version]:
            document = discovery.resources("", version)
        case ["apis", group]:
            document = discovery.group(group)
        case ["apis", group, version]:
            document = discovery.resources(group, version)
    if document is None:
        raise NotFound("the server could not find the requested resource")
    return ok(document)
