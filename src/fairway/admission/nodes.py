"""Whether the nodes could ever run the pods of a workload: an opt-in beyond Kueue, which leaves nodes to the scheduler.

A request that no node can serve, however empty it is, would be given quota, never start and keep others from that
quota. Where the nodes are known (``NodesChanged``) such a request gets no flavor. Only what lasts counts: the size of
nodes, their labels and the taints of their specs. Pods that are on them, a cordon or a node that is not ready pass.

Pods of a gang run at the same time: a gang is refused when there are more of them than fit on all nodes together. The
number that fits is an upper bound (each resource on its own, no affinity between pods), so no gang is refused that
could run. Other pods may run one after the other, so only one of them is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from fairway.admission.flavors import Flavor
from fairway.admission.reasons import Code, Reason
from fairway.admission.records import PodSetDemand
from fairway.admission.resources import merged
from fairway.admission.shapes import Shape
from fairway.apis.core.accelerators import LABEL as ACCELERATOR
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.machinery.selectors import matches_expression

_GPU: Final = "nvidia.com/gpu"
_MOST_KEPT: Final = 4096
_MOST_SHOWN: Final = 5


class Nodes:
    """The nodes as they are. Verdicts are kept by shape and flavor until there are too many of them."""

    __slots__ = ("_machines", "_nodes", "_total", "_verdicts", "schedulers")

    def __init__(self, nodes: tuple[NodeFacts, ...], schedulers: frozenset[str]) -> None:
        self._machines = len(nodes)
        self._nodes = tuple(view for node in nodes for view in node.views())
        self._total = dict(merged(node.allocatable.items() for node in nodes))
        self.schedulers = schedulers
        self._verdicts: dict[tuple[object, ...], Reason | None] = {}

    def refusal(self, shape: Shape, flavor: Flavor) -> Reason | None:
        """Why no node can ever run such pods in this flavor; ``None`` if one can."""
        question = (shape, flavor)
        try:
            return self._verdicts[question]
        except KeyError:
            # What no node has, whatever the flavor, says more than what this flavor's nodes do not have.
            return self._keep(question, flavor, self._judge(shape, None) or self._judge(shape, flavor))

    def gang_refusal(self, asks: tuple[PodSetDemand, ...], index: int, flavor: Flavor) -> Reason | None:
        """Why the nodes can never run these pods at the same time, those of one pod set in this flavor."""
        question = (tuple((ask.shape, ask.pods) for ask in asks), index, flavor)
        try:
            return self._verdicts[question]
        except KeyError:
            return self._keep(question, flavor, self._judge_gang(asks, asks[index], flavor))

    def _keep(self, question: tuple[object, ...], flavor: Flavor, verdict: Reason | None) -> Reason | None:
        if len(self._verdicts) >= _MOST_KEPT:
            self._verdicts.clear()
        if verdict is not None:
            verdict = structs.replace(verdict, flavor=flavor.name)
        self._verdicts[question] = verdict
        return verdict

    def detailed(self, obstacle: Reason, shape: Shape) -> Reason:
        """A flavor's affinity mismatch, with what no node has, if that is why."""
        if obstacle.code is not Code.AFFINITY_MISMATCH or any(_selects(shape, {}, node.labels) for node in self._nodes):
            return obstacle
        return structs.replace(obstacle, detail=self._missing_labels(shape, {}))

    def _judge(self, shape: Shape, flavor: Flavor | None) -> Reason | None:
        labels = flavor.labels if flavor is not None else {}
        chosen = [node for node in self._nodes if _selects(shape, labels, node.labels)]
        if not chosen:
            return Reason(Code.NO_NODE, detail=self._missing_labels(shape, labels))
        open_to_it = _tolerated(shape, flavor, chosen)
        if not open_to_it:
            taint = chosen[0].taints[0]
            mark = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
            return Reason(Code.NO_NODE, detail=f"its pods do not tolerate the taint {mark} of {_these(chosen)}")
        return _too_large(shape, open_to_it)

    def _judge_gang(self, asks: tuple[PodSetDemand, ...], ask: PodSetDemand, flavor: Flavor) -> Reason | None:
        selected = [node for node in self._nodes if _selects(ask.shape, flavor.labels, node.labels)]
        most = _most_pods(ask.shape, _tolerated(ask.shape, flavor, selected))
        if most is not None and ask.pods > most:
            return Reason(Code.GANG_TOO_LARGE, requested=ask.pods, capacity=most)
        in_all = merged([(name, amount * each.pods) for name, amount in each.shape.asks.items()] for each in asks)
        for name, amount in in_all:
            if amount > self._total.get(name, 0):
                return Reason(Code.GANG_TOO_LARGE, resource=name, requested=amount, capacity=self._total.get(name, 0))
        return None

    def _missing_labels(self, shape: Shape, labels: Mapping[str, str]) -> str:
        """The labels that no node has, or not together."""
        models = _models(shape)
        if models and not any(_model_of(node) in {"", *models} for node in self._nodes):
            return f"no machine here has {' or '.join(model.upper() for model in models)}; {self._have()}"
        wanted = {**shape.node_selector, **labels}
        for key, value in wanted.items():
            if not any(node.labels.get(key) == value for node in self._nodes):
                return f"no machine here has the node label {key}={value}"
        if wanted and not any(_has(node.labels, wanted) for node in self._nodes):
            listed = ", ".join(f"{key}={value}" for key, value in wanted.items())
            return f"no machine here has all of the node labels {listed}"
        return "no machine here matches its node affinity"

    def _have(self) -> str:
        """The accelerators that there are."""
        here = [(_model_of(node).upper() or "a GPU", node.allocatable.get(_GPU, 0)) for node in self._nodes]
        shown = list(dict.fromkeys(f"{model}:{count}" for model, count in here if count))
        listed = ", ".join(shown[:_MOST_SHOWN]) + (" …" if len(shown) > _MOST_SHOWN else "")
        if self._machines == 1:
            return f"this one has {listed or 'no GPU'}"
        return f"there {'are' if len(shown) > 1 else 'is'} {listed}" if shown else "none has a GPU"


def _too_large(shape: Shape, nodes: Iterable[NodeFacts]) -> Reason | None:
    """The resource of which no single node has enough; ``None`` if one node has enough of all."""
    nodes = tuple(nodes)
    if any(all(amount <= node.allocatable.get(name, 0) for name, amount in shape.asks.items()) for node in nodes):
        return None
    for name, amount in shape.asks.items():
        most = max(node.allocatable.get(name, 0) for node in nodes)
        if amount > most:
            return Reason(Code.NO_NODE, resource=name, requested=amount, capacity=most)
    return Reason(Code.NO_NODE, detail="no machine here is large enough for all that one of its pods asks for")


def _tolerated(shape: Shape, flavor: Flavor | None, nodes: list[NodeFacts]) -> list[NodeFacts]:
    tolerations = (*shape.tolerations, *(flavor.tolerations if flavor is not None else ()))
    return [
        node
        for node in nodes
        if all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in node.taints)
    ]


def _most_pods(shape: Shape, nodes: list[NodeFacts]) -> int | None:
    """How many such pods fit on these nodes at most; ``None`` if they ask for nothing."""
    asks = {name: amount for name, amount in shape.asks.items() if amount > 0}
    if not asks:
        return None
    views: dict[str, list[NodeFacts]] = {}
    for node in nodes:
        views.setdefault(node.name, []).append(node)
    shared = {name: amount for name, amount in asks.items() if name != _GPU}
    most = 0
    for of_node in views.values():
        fitting = sum(_fitting(asks, view) for view in of_node)
        most += min(fitting, _fitting(shared, of_node[0])) if shared else fitting
    return most


def _fitting(asks: Mapping[str, int], node: NodeFacts) -> int:
    return min(node.allocatable.get(name, 0) // amount for name, amount in asks.items())


def _selects(shape: Shape, wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    if not _has(labels, shape.node_selector) or not _has(labels, wanted):
        return False
    return not shape.affinity or any(
        all(matches_expression(key, operator, values, labels) for key, operator, values in term.expressions)
        and (bool(term.expressions) or term.has_match_fields)
        for term in shape.affinity
    )


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def _models(shape: Shape) -> tuple[str, ...]:
    """The accelerators that a pod asks for by name."""
    found = [shape.node_selector[ACCELERATOR]] if ACCELERATOR in shape.node_selector else []
    for term in shape.affinity:
        for key, operator, values in term.expressions:
            if key == ACCELERATOR and operator == "In":
                found += values
    return tuple(dict.fromkeys(found))


def _model_of(node: NodeFacts) -> str:
    return node.labels.get(ACCELERATOR, "")


def _these(nodes: list[NodeFacts]) -> str:
    return f"node {nodes[0].name}" if len(nodes) == 1 else "the nodes here"
