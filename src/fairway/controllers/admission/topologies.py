"""The events about nodes for topologies: which take pods, and what pods outside topologies take on them.

Nothing is followed while there is no Topology. Then there is an event when a node begins or ceases to take pods or
changes, and one when the sum of the pods on a node changes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.admission import events
from fairway.admission.resources import PODS
from fairway.apis.core.node_views import NodeFacts, facts_of
from fairway.apis.core.pod_requests import pod_requests
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import amount_of
from fairway.client.cluster import Cluster
from fairway.integrations.topology import is_placed

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class TopologySource:
    """The caches of nodes and pods, and what the engine knows of them."""

    def __init__(self, cluster: Cluster, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._topologies = cluster.cache("topologies")
        self._nodes = cluster.cache("nodes")
        self._pods = cluster.cache("pods")
        self._following = False
        self._told: dict[str, NodeFacts] = {}
        self._usage: dict[str, dict[str, int]] = {}
        self._counted: dict[Key, tuple[str, dict[str, int]]] = {}
        self._dirty_nodes: set[str] = set()
        self._dirty_pods: dict[Key, None] = {}
        self._nodes.on_change(self._note_node)
        self._pods.on_change(self._note_pod)

    async def synced(self) -> None:
        for cache in (self._topologies, self._nodes, self._pods):
            await cache.synced.wait()

    def everything(self, at: float) -> list[events.Event]:
        """All that matters now, for an engine that knows nothing."""
        self._following = False
        return self.news(at)

    def news(self, at: float) -> list[events.Event]:
        """All that changed since it was last asked for."""
        if not self._following:
            if not any(True for _ in self._topologies.items()):
                return []
            self._follow()
        told: list[events.Event] = []
        nodes, self._dirty_nodes = self._dirty_nodes, set()
        for name in sorted(nodes):
            told += self._about_node(name, at)
        pods, self._dirty_pods = self._dirty_pods, {}
        changed = {node: None for key in pods for node in self._recount(key)}
        told += [
            events.NodeUsageChanged(at=at, node=node, amounts=dict(self._usage.get(node) or {})) for node in changed
        ]
        return told

    def _follow(self) -> None:
        self._following = True
        self._told.clear()
        self._usage.clear()
        self._counted.clear()
        self._dirty_nodes = {node["metadata"]["name"] for node in self._nodes.items()}
        self._dirty_pods = {key_of(pod): None for pod in self._pods.items() if _counts(pod)}

    def _about_node(self, name: str, at: float) -> list[events.Event]:
        node = self._nodes.get("", name)
        facts = facts_of(node) if node is not None else None
        if facts is None or facts.condition or facts.unschedulable:
            gone = self._told.pop(name, None) is not None
            return [events.NodeUnavailable(at=at, name=name)] if gone else []
        if self._told.get(name) == facts:
            return []
        self._told[name] = facts
        return [events.NodeAvailable(at=at, node=facts)]

    def _recount(self, key: Key) -> list[str]:
        """Count a pod anew; the nodes with another sum."""
        changed = []
        before = self._counted.pop(key, None)
        if before is not None:
            self._add(*before, sign=-1)
            changed.append(before[0])
        pod = self._pods.get(*key)
        if pod is not None and _counts(pod):
            amounts = _amounts(pod["spec"])
            node = pod["spec"]["nodeName"]
            if before == (node, amounts):
                changed.clear()
            else:
                changed.append(node)
            self._counted[key] = (node, amounts)
            self._add(node, amounts, sign=1)
        return changed

    def _add(self, node: str, amounts: Mapping[str, int], *, sign: int) -> None:
        usage = self._usage.setdefault(node, {})
        for resource, amount in amounts.items():
            usage[resource] = usage.get(resource, 0) + sign * amount
        if usage.get(PODS, 0) <= 0:
            del self._usage[node]

    def _note_node(self, old: Manifest | None, new: Manifest | None) -> None:
        node = new if new is not None else old
        if self._following and node is not None:
            self._dirty_nodes.add(node["metadata"]["name"])
            if old is None or new is None or facts_of(old) != facts_of(new):
                self._wake()

    def _note_pod(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new if new is not None else old
        if not self._following or pod is None:
            return
        key = key_of(pod)
        if key in self._counted or (new is not None and _counts(new)):
            if key in self._counted and new is not None and _counts(new) and old is not None and _same(old, new):
                return
            self._dirty_pods[key] = None
            self._wake()


def _same(old: Manifest, new: Manifest) -> bool:
    return bool(old["spec"] == new["spec"])


def _counts(pod: Manifest) -> bool:
    """Whether a pod takes room on a node that no placement knows of."""
    return (
        bool(pod["spec"].get("nodeName"))
        and (pod.get("status") or {}).get("phase") not in _ENDED
        and not is_placed(pod)
    )


def _amounts(spec: Mapping[str, Any]) -> dict[str, int]:
    amounts = {name: max(0, amount_of(name, quantity)) for name, quantity in pod_requests(spec).items()}
    return {**amounts, PODS: 1}
