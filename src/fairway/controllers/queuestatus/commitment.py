"""What ClusterQueues promise and nodes have, kept current, for whoever writes a ClusterQueue."""

from fairway.apis.kueue.commitment import Amounts, allocatable, promised, warnings
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster


class Commitment:
    """Follows the quotas of all ClusterQueues and the capacities of all nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._queues: dict[str, Amounts] = {}
        self._nodes: dict[str, Amounts] = {}
        cluster.cache("clusterqueues.kueue.x-k8s.io").on_change(self._queue_changed)
        cluster.cache("nodes").on_change(self._node_changed)

    def warnings(self, queue: Manifest) -> tuple[str, ...]:
        """What to say to whoever wrote this ClusterQueue, which the caches may not know yet."""
        name, now = queue["metadata"]["name"], promised(queue)
        if not now:
            return ()
        return tuple(warnings({**self._queues, name: now}, self._nodes))

    def _queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            self._queues.pop((old or {})["metadata"]["name"], None)
        elif old is None or old.get("spec") != new.get("spec"):
            self._queues[new["metadata"]["name"]] = promised(new)

    def _node_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            self._nodes.pop((old or {})["metadata"]["name"], None)
        else:
            self._nodes[new["metadata"]["name"]] = allocatable(new)
