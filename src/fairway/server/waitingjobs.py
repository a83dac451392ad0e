"""Why Workloads wait, over HTTP: read-only, worked out when it is asked for.

    GET …[/namespaces/NS]/waitingjobs              everyone who waits, queue by queue, in their order
    …?limit=200[&continue=400]                     200 of them, from the 401st on
    GET …/namespaces/NS/waitingjobs/WORKLOAD       all about one: what is missing, who holds it, what would help

The decider answers (`fairway.admission.port`); where there is none (an API alone), the list is empty.
`kubectl get waitingjobs` prints them.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from fairway.admission.port import Forecasting, WaitingExplainer, WaitingPage
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import BadRequest, MethodNotAllowed, NotFound
from fairway.server.requests import Request
from fairway.server.responses import Response
from fairway.server.routes import ResourcePath
from fairway.server.virtual import ObjectView, rendered

GROUP: Final = "fairway.dev"
VERSION: Final = "v1alpha1"
_WORKLOADS: Final = "workloads.kueue.x-k8s.io"

_COLUMNS: Final = (
    custom_column("Owner", ".owner.name", description="The job that waits."),
    custom_column("Queue", ".localQueue", description="The LocalQueue that it waits in."),
    custom_column("ClusterQueue", ".clusterQueue", priority=1, description="The ClusterQueue of that LocalQueue."),
    custom_column("Position", ".position", "integer", description="Its place in the ClusterQueue, from 1."),
    custom_column("Priority", ".priority", "integer", description="The priority it has now."),
    custom_column("Expected-Start", ".expectedStart.message", description="When it will probably start."),
    custom_column("Message", ".message", description="Why it waits."),
    custom_column("Age", ".metadata.creationTimestamp", "date", description="How long ago it was created."),
)


_NO_FORECAST: Final = {
    **dict.fromkeys(("at", "earliest", "latest", "computedAt", "usualErrorSeconds")),
    "known": False,
    "basis": "",
    "message": "unknown: the process that decides does not answer",
}


class Onlooker(NamedTuple):
    """What a user may see and do, as `WaitingExplainer.one` needs it."""

    may_read: Callable[[str], bool]
    """Whether they may read Workloads of a namespace."""

    may_change: bool
    any_priority: bool


class WaitingJobs:
    """Keeps the contract of `VirtualResource`."""

    def __init__(
        self,
        view: ObjectView,
        explainer: Callable[[], WaitingExplainer | None],
        onlooker: Callable[[Request, str], Awaitable[Onlooker]],
        group: str = GROUP,
    ) -> None:
        """`explainer` gives the decider to ask now; without one, the list is empty. `onlooker` gives the permissions of
        the user of a request in a namespace.
        """
        self._view = view
        self._explainer = explainer
        self._onlooker = onlooker
        self._kind = Kind(
            group=group,
            kind="WaitingJob",
            plural="waitingjobs",
            versions=(VERSION,),
            stored=VERSION,
            schemas={},
            columns={VERSION: _COLUMNS},
        )

    def verb(self, request: Request, where: ResourcePath) -> str:
        if where.subresource:
            raise NotFound("the server could not find the requested resource")
        if request.method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(f"waiting jobs can only be read, not changed with {request.method}")
        if where.name and not where.namespace:
            raise NotFound("waiting jobs belong to a namespace: the path must name it")
        return "get" if where.name else "list"

    async def answer(self, request: Request, where: ResourcePath) -> Response:
        for name in ("watch", "labelSelector", "fieldSelector"):
            if request.query.get(name) not in {None, "", "0", "false"}:
                raise BadRequest(f"{name}: Forbidden: waiting jobs are computed for each request; select in the client")
        if where.name:
            item = await self._one(request, where)
            return rendered(self._view, request, self._kind, [item], item)
        explainer = self._explainer()
        first, limit = _part(request)
        found = await explainer.page(where.namespace, first, limit) if explainer is not None else WaitingPage([])
        items = [self._typed(item) for item in found.items]
        more = {"continue": str(first + len(items))} if found.has_more else {}
        whole: Manifest = {
            "kind": "WaitingJobList",
            "apiVersion": f"{self._kind.group}/{VERSION}",
            "metadata": {"resourceVersion": self._view.revision, **more},
            **({"forecast": explainer.forecast()} if isinstance(explainer, Forecasting) else {}),
            "items": items,
        }
        return rendered(self._view, request, self._kind, items, whole)

    def close(self) -> None:
        """None takes long."""

    async def _one(self, request: Request, where: ResourcePath) -> Manifest:
        explainer = self._explainer()
        found = None
        if explainer is not None:
            user = await self._onlooker(request, where.namespace)
            found = await explainer.one(
                where.namespace,
                where.name,
                user.may_read,
                may_change=user.may_change,
                any_priority=user.any_priority,
            )
        if found is not None:
            return self._typed(found)
        stored = self._view.get(_WORKLOADS, where.namespace, where.name)
        why = f"the Workload {where.name} does not wait" if stored is not None else f"there is no Workload {where.name}"
        raise NotFound(
            f'{self._kind.resource} "{where.name}" not found: {why}',
            details={"name": where.name, "group": self._kind.group, "kind": "waitingjobs"},
        )

    def _typed(self, item: Manifest) -> Manifest:
        given = {"apiVersion": f"{self._kind.group}/{VERSION}", "kind": self._kind.kind}
        return {**given, "expectedStart": _NO_FORECAST, **item}


def _part(request: Request) -> tuple[int, int | None]:
    """Where the part of the list begins that is asked for, and how long it is at most."""
    first, limit = request.number("continue") or 0, request.number("limit") or 0
    for name, value in (("continue", first), ("limit", limit)):
        if value < 0:
            raise BadRequest(f"{name}: Invalid value: {value}: must not be negative")
    return first, limit or None
