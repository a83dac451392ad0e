"""Why jobs wait: what the server's decider says, or what the stored objects say.

A server of ours serves `waitingjobs`. On a cluster the controller serves the same as an aggregated API; where it is not
installed or does not answer, conditions of Workloads and the positions of Kueue's visibility API are used.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fairway.client.rest import paths
from fairway.errors import ApiError, Forbidden, NotFound

if TYPE_CHECKING:
    from fairway.cli.jobs.records import PendingRow
    from fairway.cli.session import Session

Manifest = dict[str, Any]

KUEUE: Final = "kueue.x-k8s.io/v1beta2"
_VISIBILITY: Final = "visibility.kueue.x-k8s.io/v1beta2"
_JSON: Final = "application/json"
_MOST_QUEUES: Final = 20
"""Of so many LocalQueues the positions are asked for."""


def who_waits(session: "Session", namespace: str | None) -> "list[PendingRow]":
    """The waiting Workloads of a namespace, or of all, with their positions as far as they are known."""
    from fairway.cli.jobs.records import PendingRow, decode_waiting  # noqa: PLC0415 - help must not wait for it

    if session.explains:
        try:
            path = paths.waiting(namespace, cluster=session.is_cluster)
            return decode_waiting(session.rest.raw(path, accept=_JSON)).items
        except ApiError as error:
            _give_up(session, error)
    import msgspec  # noqa: PLC0415

    return msgspec.convert(_stored(session, namespace), list[PendingRow])


def waiting_job(session: "Session", namespace: str, workload: str) -> Manifest | None:
    """All about one waiting Workload; `None` if it does not wait."""
    if session.explains:
        try:
            found: Manifest = session.rest.get(paths.waiting(namespace, workload, cluster=session.is_cluster))
        except ApiError as error:
            if isinstance(error, NotFound) and (error.details or {}).get("name") == workload:
                return None
            _give_up(session, error)
        else:
            return found
    try:
        stored = session.rest.get(paths.resource(KUEUE, "workloads", namespace, workload))
    except (NotFound, Forbidden):
        return None
    return next(iter(_items(session, [stored])), None)


def _give_up(session: "Session", error: ApiError) -> None:
    """Use the stored objects for the rest of the session, on a cluster; an error elsewhere."""
    if not session.is_cluster:
        raise error
    session.explains = False


def _stored(session: "Session", namespace: str | None) -> list[Manifest]:
    try:
        workloads = session.rest.get(paths.resource(KUEUE, "workloads", namespace))["items"]
    except (NotFound, Forbidden):  # a cluster without Kueue, or a user who may not look
        return []
    return _items(session, workloads)


def _items(session: "Session", workloads: Sequence[Manifest]) -> list[Manifest]:
    from fairway.integrations import conditions  # noqa: PLC0415 - only where the controller does not answer
    from fairway.integrations.waiting import item_with_quota, item_without_quota  # noqa: PLC0415

    places = _Places(session)
    items = []
    for workload in workloads:
        if conditions.is_true(workload, conditions.FINISHED):
            continue
        if conditions.is_true(workload, conditions.QUOTA_RESERVED):
            item = item_with_quota(workload)
        else:
            namespace, queue = workload["metadata"]["namespace"], workload["spec"].get("queueName", "")
            item = item_without_quota(workload, places.cluster_queue(namespace, queue))
            item |= places.of(namespace, queue, workload["metadata"]["name"])
        if item is not None:
            items.append(item)
    return items


class _Places:
    """ClusterQueues of LocalQueues, and the positions of Workloads in them; each is asked for once."""

    def __init__(self, session: "Session") -> None:
        self._rest = session.rest
        self._cluster_queues: dict[tuple[str, str], str] = {}
        self._positions: dict[tuple[str, str], dict[str, Manifest]] = {}

    def cluster_queue(self, namespace: str, queue: str) -> str:
        if (namespace, queue) not in self._cluster_queues:
            try:
                found = self._rest.get(paths.resource(KUEUE, "localqueues", namespace, queue)) if queue else {}
            except ApiError:
                found = {}
            self._cluster_queues[namespace, queue] = str((found.get("spec") or {}).get("clusterQueue") or "")
        return self._cluster_queues[namespace, queue]

    def of(self, namespace: str, queue: str, workload: str) -> Manifest:
        """The positions of a Workload; empty if they are not known."""
        if not queue or ((namespace, queue) not in self._positions and len(self._positions) >= _MOST_QUEUES):
            return {}
        if (namespace, queue) not in self._positions:
            path = paths.resource(_VISIBILITY, "localqueues", namespace, queue, "pendingworkloads")
            try:
                items = self._rest.get(path)["items"]
            except ApiError:
                items = []
            self._positions[namespace, queue] = {one["metadata"]["name"]: one for one in items}
        found = self._positions[namespace, queue].get(workload)
        if found is None:
            return {}
        return {
            "position": found.get("positionInClusterQueue", 0) + 1,
            "localPosition": found.get("positionInLocalQueue", 0) + 1,
        }
