"""Nodes that are declared in a file (`fairway up --nodes FILE`): the shape of a cluster, tried out on one machine.

A declared node has the labels, taints and capacity of the file, and is always ready. Its pods run as processes of this
machine, without a limit of their own: only admission and the scheduler hold them within the declared capacity. Declared
GPUs are numbers; no device goes with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairway.apis.kueue.placements import HOSTNAME
from fairway.apis.machinery.documents import from_yaml
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.names import subdomain_faults
from fairway.apis.machinery.quantities import Quantity
from fairway.client.cluster import Cluster
from fairway.errors import AlreadyExists, BadRequest, FairwayError
from fairway.runner.node import MOST_PODS

DECLARED: Final = "fairway.dev/declared"
"""An annotation of declared nodes; one that is not declared any more is deleted."""

_MOST_NODES: Final = 5000


class DeclaredNodesError(FairwayError):
    """A file of nodes that cannot be used; the message names the place and the way out."""


def read_nodes(path: Path) -> tuple[Manifest, ...]:
    """The nodes of a file: a list `nodes`, or the output of `kubectl get nodes -o yaml`."""
    try:
        data = from_yaml(path.read_bytes())
    except OSError as error:
        raise DeclaredNodesError(f"--nodes {path}: cannot be read: {error.strerror}") from None
    except BadRequest as error:
        raise DeclaredNodesError(f"--nodes {path}: {error}") from None
    if not isinstance(data, Mapping) or not isinstance(listed := data.get("nodes", data.get("items")), list):
        raise DeclaredNodesError(
            f"--nodes {path}: write a list `nodes` with name, labels and capacity of each, or a List of Nodes"
        )
    found: list[Manifest] = []
    for position, one in enumerate(listed):
        where = f"--nodes {path}: nodes[{position}]"
        if not isinstance(one, Mapping):
            raise DeclaredNodesError(f"{where}: write name, labels and capacity")
        found += _nodes(one if "nodes" in data else _summary(one), where)
    if len(found) > _MOST_NODES:
        raise DeclaredNodesError(f"--nodes {path}: {len(found)} nodes; at most {_MOST_NODES} can be declared")
    return tuple(found)


def _summary(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A Node as a line of the list."""
    metadata, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    capacity = status.get("allocatable") or status.get("capacity") or {}
    labels = metadata.get("labels") or {}
    return {
        "name": metadata.get("name"),
        "labels": labels,
        "taints": spec.get("taints") or [],
        "capacity": capacity,
    }


def _nodes(line: Mapping[str, Any], where: str) -> Iterable[Manifest]:
    unknown = set(line) - {"name", "labels", "capacity", "taints", "count"}
    if unknown:
        raise DeclaredNodesError(f"{where}: unknown field {min(unknown)}; there are name, labels, capacity, …")
    name, count = line.get("name"), line.get("count")
    if not isinstance(name, str) or subdomain_faults(name):
        raise DeclaredNodesError(f"{where}.name: {name!r} is not a DNS name in lower case")
    if count is not None and (not isinstance(count, int) or not 1 <= count <= _MOST_NODES):
        raise DeclaredNodesError(f"{where}.count: {count!r} is not a number from 1 to {_MOST_NODES}")
    capacity = {str(resource): str(amount) for resource, amount in (line.get("capacity") or {}).items()}
    wrong = next((resource for resource, amount in capacity.items() if not _is_amount(amount)), None)
    if wrong is not None or "cpu" not in capacity:
        said = f"{wrong}: {capacity[wrong]!r} is not an amount" if wrong is not None else "give at least cpu"
        raise DeclaredNodesError(f"{where}.capacity: {said}, such as {{cpu: 8, memory: 32Gi}}")
    capacity.setdefault("pods", str(MOST_PODS))
    labels = {str(key): str(value) for key, value in (line.get("labels") or {}).items()}
    for each in [name] if count is None else [f"{name}-{number}" for number in range(count)]:
        yield {
            "metadata": {"name": each, "labels": {HOSTNAME: each, **labels}, "annotations": {DECLARED: "true"}},
            "spec": {"taints": list(line.get("taints") or ())},
            "status": {"capacity": capacity, "allocatable": capacity},
        }


def _is_amount(text: str) -> bool:
    try:
        return Quantity.parse(text) >= Quantity.parse(0)
    except ValueError:
        return False


class DeclaredNodes:
    """Keeps the declared nodes in the API, each as it is in the file."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Manifest]) -> None:
        self._declared = {node["metadata"]["name"]: node for node in nodes}
        self._clock = cluster.clock
        self._writer = cluster.writer("fairway-runner")
        self._nodes = cluster.cache("nodes")

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    async def register(self) -> None:
        """Make all nodes and bring them up to date; delete those that were declared before."""
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "Declared", "message": "declared in a file"}
        conditions = [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}]
        for known in list(self._nodes.items()):
            notes = known["metadata"].get("annotations") or {}
            if DECLARED in notes and known["metadata"]["name"] not in self._declared:
                await self._writer.delete("nodes", known)
        for name, node in self._declared.items():
            stored = self._nodes.get("", name)
            status = {**node["status"], "conditions": conditions}
            if stored is None:
                try:
                    await self._writer.create("nodes", {**node, "status": status})
                except AlreadyExists:
                    continue  # made a moment ago; the next start brings it up to date
                continue
            labels = dict.fromkeys(stored["metadata"].get("labels") or {}) | node["metadata"]["labels"]
            patch = {"metadata": {"labels": labels, "annotations": {DECLARED: "true"}}, "spec": node["spec"]}
            stored = await self._writer.patch("nodes", stored, patch)
            gone = dict.fromkeys((stored.get("status") or {}).get("capacity") or {})
            amounts = {**gone, **node["status"]["capacity"]}
            patch = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions}}
            await self._writer.patch("nodes", stored, patch, subresource="status")
