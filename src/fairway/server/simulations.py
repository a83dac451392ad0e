"""What-if runs over HTTP: the live state with changes, played by the engine; nothing is stored.

    POST …/simulations      {"spec": {"changes": [{"quota": {"clusterQueue": "team-a", "resource": "cpu", …}}, …]}}

The simulator (`fairway.admission.port`) works in a process of its own. Jobs of namespaces that the user may not read
have no name in the answer.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fairway.admission.port import Simulator
from fairway.apis.machinery.documents import from_json
from fairway.apis.machinery.timestamps import stamp
from fairway.errors import BadRequest, MethodNotAllowed, NotFound, Unavailable
from fairway.server.requests import Request
from fairway.server.responses import Response, ok
from fairway.server.routes import ResourcePath
from fairway.server.virtual import ObjectView
from fairway.server.waitingjobs import Onlooker

KIND: Final = "Simulation"
VERSION: Final = "v1alpha1"
_LARGEST_BODY: Final = 1 << 20
_NUMBERS: Final = {"horizonSeconds": 10 * 366 * 86400, "limit": 5000}
_FIELDS: Final = frozenset({"changes", *_NUMBERS})
_STRANGER: Final = {"namespace": "", "workload": "", "owner": None, "user": "", "shown": "a job of another team"}


class WhatIfRuns:
    """Keeps the contract of `VirtualResource`."""

    def __init__(
        self,
        view: ObjectView,
        simulator: Callable[[], Simulator | None],
        onlooker: Callable[[Request, str], Awaitable[Onlooker]],
        group: str = "fairway.dev",
    ) -> None:
        self._view = view
        self._simulator = simulator
        self._onlooker = onlooker
        self._group = group

    def verb(self, request: Request, where: ResourcePath) -> str:
        if where.subresource or where.name or where.namespace:
            raise NotFound("simulations have no names and belong to no namespace: POST to …/simulations")
        if request.method != "POST":
            raise MethodNotAllowed(f"simulations are computed by POST and not stored: no {request.method}")
        return "create"

    async def answer(self, request: Request, where: ResourcePath) -> Response:  # noqa: ARG002 - there is one place
        simulator = self._simulator()
        if simulator is None:
            raise Unavailable("this server runs no queue, so there is nothing to simulate")
        spec = _spec(from_json(await request.body(_LARGEST_BODY)))
        user = await self._onlooker(request, "")
        status = await simulator.compare(spec)
        for job in status["jobs"]:
            if not user.may_read(job["namespace"]):
                job.update(_STRANGER)
        created = stamp(self._view.now())
        return ok(
            {
                "kind": KIND,
                "apiVersion": f"{self._group}/{VERSION}",
                "metadata": {"creationTimestamp": created},
                "spec": spec,
                "status": status,
            },
            201,
        )

    def close(self) -> None:
        """The simulator bounds the time that one takes."""


def _spec(body: Any) -> dict[str, Any]:
    spec = body.get("spec") if isinstance(body, dict) else None
    if not isinstance(spec, dict):
        raise BadRequest('spec: Required value: a simulation is {"spec": {"changes": [...]}}')
    unknown = sorted(spec.keys() - _FIELDS)
    if unknown:
        raise BadRequest(f"spec.{unknown[0]}: unknown field; there are {', '.join(sorted(_FIELDS))}")
    if not isinstance(spec.get("changes", []), list):
        raise BadRequest("spec.changes: Invalid value: a list is expected")
    for name, most in _NUMBERS.items():
        value = spec.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most
        ):
            raise BadRequest(f"spec.{name}: Invalid value: {value!r}: a number from 1 to {most}")
    return spec
