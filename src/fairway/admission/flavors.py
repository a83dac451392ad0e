"""Compiled ResourceFlavors: whether pods of a shape may run on a flavor's nodes.

Quota is not looked at here; that is :mod:`fairway.admission.assignment`.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.admission.reasons import Code, Reason
from fairway.admission.shapes import Shape
from fairway.apis.kueue.objects import ResourceFlavor, Taint, TaintEffect
from fairway.apis.machinery.selectors import matches_expression

_HARD = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)


class Flavor:
    """One flavor. Verdicts are kept by shape: the same kind of pod is judged once."""

    __slots__ = ("_taints", "_verdicts", "labels", "name", "tolerations", "topology")

    def __init__(self, flavor: ResourceFlavor) -> None:
        self.name = flavor.metadata.name
        self.topology = flavor.spec.topology_name
        self.labels = flavor.spec.node_labels
        self._taints = tuple(taint for taint in flavor.spec.node_taints if taint.effect in _HARD)
        self.tolerations = flavor.spec.tolerations
        self._verdicts: dict[Shape, Reason | None] = {}

    def obstacle(self, shape: Shape) -> Reason | None:
        """What keeps pods of this shape off this flavor, if anything does."""
        try:
            return self._verdicts[shape]
        except KeyError:
            verdict = self._verdicts[shape] = self._judge(shape)
            return verdict

    def _judge(self, shape: Shape) -> Reason | None:
        tolerations = (*shape.tolerations, *self.tolerations)
        for taint in self._taints:
            if not any(toleration.tolerates(taint) for toleration in tolerations):
                return Reason(Code.UNTOLERATED_TAINT, flavor=self.name, detail=_go_taint(taint))
        if not _matches(shape, self.labels):
            return Reason(Code.AFFINITY_MISMATCH, flavor=self.name)
        return None


def _matches(shape: Shape, labels: Mapping[str, str]) -> bool:
    """Selectors and required affinity, as far as they speak of labels that this flavor has.

    A key that the flavor does not have says nothing about it: its nodes may well carry that label.
    """
    for key, value in shape.node_selector.items():
        if key in labels and labels[key] != value:
            return False
    if not shape.affinity:
        return True
    for term in shape.affinity:
        known = [(key, operator, values) for key, operator, values in term.expressions if key in labels]
        if all(matches_expression(key, operator, values, labels) for key, operator, values in known):
            return True
    return False


def _go_taint(taint: Taint) -> str:
    """The taint as Kueue's messages print it: a Go struct whose time was never set."""
    return f"{{{taint.key} {taint.value} {taint.effect} <nil>}}"
