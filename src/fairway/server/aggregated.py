"""The aggregated API of a controller on a cluster: kube-apiserver passes requests for its groups on to it.

    GET /apis[/GROUP[/VERSION]]                                             discovery
    GET /apis/explain.fairway.dev/v1alpha1/[namespaces/NS/]waitingjobs…     as on one machine (`waitingjobs`)
    GET /apis/explain.fairway.dev/v1alpha1/[namespaces/NS/]usage|attempts   the history (`accounting`)
    POST /apis/explain.fairway.dev/v1alpha1/simulations                     as on one machine (`simulations`)
    GET /apis/visibility.kueue.x-k8s.io/v1beta2/…/pendingworkloads          only where Fairway decides (`visibility`)

kube-apiserver has authenticated and authorised the user of a request and names them in headers. These are believed
only on a connection with the client certificate of its front proxy.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from fairway.accounting.books import AccountBooks
from fairway.admission.port import Simulator, WaitingExplainer
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.deploy.names import EXPLAIN_GROUP, EXPLAIN_VERSION, VISIBILITY_GROUP, VISIBILITY_VERSION
from fairway.errors import ApiError, MethodNotAllowed, NotFound, Unauthorized, Unavailable
from fairway.server.access.roles import User
from fairway.server.accounting import Accounting, BooksSource
from fairway.server.admissionreview import MASTERS
from fairway.server.discovery import VIRTUAL, Discovery, Virtual
from fairway.server.http import Exchange
from fairway.server.plain import discovered
from fairway.server.requests import Request
from fairway.server.responses import Response, encode, failure, ok
from fairway.server.routes import place
from fairway.server.simulations import WhatIfRuns
from fairway.server.visibility import pending_workloads
from fairway.server.waitingjobs import Onlooker, WaitingJobs

ROOTS: Final = frozenset({"apis", "openapi"})
"""The first segments of the paths that kube-apiserver asks for."""

_HISTORY: Final = ("attempts", "usage")
_READ: Final = ("workloads.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io")

Review = Callable[[Manifest], Awaitable[bool]]
"""Whether the cluster allows what the spec of a SubjectAccessReview says."""


class FrontProxy(NamedTuple):
    """How kube-apiserver identifies itself and the users of the requests that it passes on."""

    authorities: str
    """In PEM: who signs its certificate."""

    names: frozenset[str] = frozenset()
    """The common names that the certificate may have; any if empty."""

    user_headers: tuple[bytes, ...] = ()
    group_headers: tuple[bytes, ...] = ()

    @classmethod
    def read(cls, config_map: Manifest) -> "FrontProxy":
        """From the ConfigMap `kube-system/extension-apiserver-authentication`; `ValueError` if it is incomplete."""
        data: dict[str, str] = config_map.get("data") or {}

        def names(field: str) -> list[str]:
            return msgspec.json.decode(data.get(f"requestheader-{field}") or "[]", type=list[str])

        def headers(field: str) -> tuple[bytes, ...]:
            return tuple(name.lower().encode() for name in names(field))

        authorities, users = data.get("requestheader-client-ca-file", ""), headers("username-headers")
        if not authorities or not users:
            raise ValueError("kube-apiserver has no front proxy (--requestheader-client-ca-file)")
        return cls(authorities, frozenset(names("allowed-names")), users, headers("group-headers"))

    def user(self, exchange: Exchange) -> User:
        """The user of a request; `Unauthorized` if it does not come from the front proxy."""
        subject = exchange.peer_certificate().get("subject", ())
        name = next((value for part in subject for key, value in part if key == "commonName"), None)
        if name is None or (self.names and name not in self.names):
            raise Unauthorized("only kube-apiserver is answered: a client certificate of its front proxy is needed")
        found = [value.decode() for key in self.user_headers for header, value in exchange.headers if header == key]
        if len(found) != 1 or not found[0]:
            raise Unauthorized("the front proxy names no user, or more than one")
        groups = [value.decode() for header, value in exchange.headers if header in self.group_headers]
        return User(found[0], groups=tuple(groups))


class CachedObjects:
    """Keeps the contract of `ObjectView` on the caches of a cluster."""

    revision = ""

    def __init__(self, cluster: Cluster) -> None:
        self._caches = {resource: cluster.cache(resource) for resource in _READ}
        self._clock = cluster.clock

    def now(self) -> datetime:
        return self._clock.now()

    def get(self, resource: str, namespace: str, name: str) -> Manifest | None:
        return self._caches[resource].get(namespace, name)

    def all(self, resource: str) -> Iterable[Manifest]:
        return self._caches[resource].items()


class AggregatedApi:
    """Answers kube-apiserver's requests in one term."""

    def __init__(
        self,
        cluster: Cluster,
        explainer: WaitingExplainer,
        simulator: Simulator,
        review: Review,
        books: BooksSource,
        *,
        decides: bool,
    ) -> None:
        """`decides`: whether Fairway admits, so that the visibility API is not Kueue's."""
        self._view = CachedObjects(cluster)
        self._explainer = explainer
        self._review = review
        self._resources: dict[str, WaitingJobs | Accounting | WhatIfRuns] = {
            "waitingjobs": WaitingJobs(self._view, lambda: explainer, self._onlooker, EXPLAIN_GROUP),
            "simulations": WhatIfRuns(self._view, lambda: simulator, self._onlooker, EXPLAIN_GROUP),
            **{name: Accounting(self._view, partial(_read, books), name, EXPLAIN_GROUP) for name in _HISTORY},
        }
        self._discovery = Discovery((), list(_served(decides=decides)))
        self._decides = decides
        self.proxy: FrontProxy | None = None
        """Until it is known, all requests are refused."""

    async def answer(self, request: Request) -> Response:
        """The response, also to a request that is refused."""
        try:
            if self.proxy is None:
                raise Unauthorized("the front proxy of kube-apiserver is not known")
            request.user = self.proxy.user(request.exchange)
            return await self._answer(request)
        except ApiError as error:
            return Response(error.code, encode(failure(error.code, error.reason, error.message, error.details)))

    async def _answer(self, request: Request) -> Response:
        where = place(request.segments)
        if where is None or request.segments[0] != "apis":
            if request.method not in {"GET", "HEAD"}:
                raise MethodNotAllowed(f"the server does not allow {request.method} on {request.path[:200]}")
            return discovered(self._discovery, request)
        resource = self._resources.get(where.resource)
        if resource is not None and (where.group, where.version) == (EXPLAIN_GROUP, EXPLAIN_VERSION):
            resource.verb(request, where)
            return await resource.answer(request, where)
        if self._decides and (where.group, where.version) == (VISIBILITY_GROUP, VISIBILITY_VERSION):
            if request.method != "GET":
                raise MethodNotAllowed("pending workloads can only be read")
            return ok(await pending_workloads(self._view, request, where, self._explainer.pending))
        raise NotFound("the server could not find the requested resource")

    async def _onlooker(self, request: Request, namespace: str) -> Onlooker:
        """The user of a request, by the RBAC of the cluster.

        Workloads of the namespace that they may ask about are named, and those of others only to users who may read
        all: one review, not one for each namespace.
        """
        user: User = request.user

        def allowed(verb: str, group: str, resource: str, within: str) -> Awaitable[bool]:
            asked = {"verb": verb, "group": group, "resource": resource, "namespace": within}
            return self._review({"user": user.name, "groups": list(user.groups), "resourceAttributes": asked})

        everywhere, may_change = await asyncio.gather(
            allowed("get", "kueue.x-k8s.io", "workloads", ""),
            allowed("patch", "fairway.dev", "managedjobs", namespace),
        )
        return Onlooker(lambda of: everywhere or of == namespace, may_change, MASTERS in user.groups)


def _read(books: BooksSource) -> AccountBooks:
    found = books()
    if found is None:
        raise Unavailable("the history is being read; try again in a second")
    return found


def _served(*, decides: bool) -> Iterable[Virtual]:
    for one in VIRTUAL:
        if one.plural in {"simulations", "waitingjobs"} or one.plural in _HISTORY:
            yield dataclasses.replace(one, group=EXPLAIN_GROUP, versions=(EXPLAIN_VERSION,))
        elif decides and one.group == VISIBILITY_GROUP:
            yield dataclasses.replace(one, versions=(VISIBILITY_VERSION,))


def access_review(spec: Manifest) -> dict[str, Any]:
    """The SubjectAccessReview that asks the cluster."""
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
