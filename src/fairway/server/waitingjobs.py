"""Why Workloads wait, over HTTP: read-only, worked out when it is asked for.

    GET …[/namespaces/NS]/waitingjobs              everyone who waits, queue by queue, in their order
    GET …/namespaces/NS/waitingjobs/WORKLOAD       all about one: what is missing, who holds it, what would help

The decider answers (`fairway.admission.port`); where there is none (an API alone), the list is empty.
`kubectl get waitingjobs` prints them.
"""

from collections.abc import Callable
from typing import Final

from fairway.admission.port import WaitingExplainer
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import BadRequest, MethodNotAllowed, NotFound
from fairway.server.access.roles import allowed, is_admin
from fairway.server.requests import Request
from fairway.server.responses import Response
from fairway.server.routes import ResourcePath
from fairway.server.virtual import rendered
from fairway.store.verbs import Objects

GROUP: Final = "fairway.dev"
VERSION: Final = "v1alpha1"
_WORKLOADS: Final = "workloads.kueue.x-k8s.io"

_COLUMNS: Final = (
    custom_column("Owner", ".owner.name", description="The job that waits."),
    custom_column("Queue", ".localQueue", description="The LocalQueue that it waits in."),
    custom_column("ClusterQueue", ".clusterQueue", priority=1, description="The ClusterQueue of that LocalQueue."),
    custom_column("Position", ".position", "integer", description="Its place in the ClusterQueue, from 1."),
    custom_column("Priority", ".priority", "integer", description="The priority it has now."),
    custom_column("Message", ".message", description="Why it waits."),
    custom_column("Age", ".metadata.creationTimestamp", "date", description="How long ago it was created."),
)
_KIND: Final = Kind(
    group=GROUP,
    kind="WaitingJob",
    plural="waitingjobs",
    versions=(VERSION,),
    stored=VERSION,
    schemas={},
    columns={VERSION: _COLUMNS},
)


class WaitingJobs:
    """Keeps the contract of `VirtualResource`."""

    def __init__(self, objects: Objects, explainer: Callable[[], WaitingExplainer | None]) -> None:
        """`explainer` gives the decider to ask now; without one, the list is empty."""
        self._objects = objects
        self._explainer = explainer

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
            return rendered(self._objects, request, _KIND, [item], item)
        explainer = self._explainer()
        items = [_typed(item) for item in await explainer.all(where.namespace)] if explainer is not None else []
        whole = {
            "kind": "WaitingJobList",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {"resourceVersion": str(self._objects.store.revision)},
            "items": items,
        }
        return rendered(self._objects, request, _KIND, items, whole)

    def close(self) -> None:
        """None takes long."""

    async def _one(self, request: Request, where: ResourcePath) -> Manifest:
        user = request.user

        def may_read(namespace: str) -> bool:
            return allowed(user, verb="get", group="kueue.x-k8s.io", resource="workloads", namespace=namespace)

        explainer = self._explainer()
        found = None
        if explainer is not None:
            found = await explainer.one(
                where.namespace,
                where.name,
                may_read,
                may_change=allowed(user, verb="patch", group=GROUP, resource="managedjobs", namespace=where.namespace),
                any_priority=is_admin(user),
            )
        if found is not None:
            return _typed(found)
        stored = self._objects.store.get(_WORKLOADS, (where.namespace, where.name))
        why = f"the Workload {where.name} does not wait" if stored is not None else f"there is no Workload {where.name}"
        raise NotFound(
            f'waitingjobs.{GROUP} "{where.name}" not found: {why}',
            details={"name": where.name, "group": GROUP, "kind": "waitingjobs"},
        )


def _typed(item: Manifest) -> Manifest:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": _KIND.kind, **item}
