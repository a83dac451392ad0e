"""Dominant resource shares: how much more than its own a node of the tree uses, by its most contended resource.

For each resource, what the node uses beyond its subtree's quota is set against all that its parent could lend; the
largest such ratio (in thousandths), divided by the node's weight, is its share. Lower shares are served first, higher
shares are taken from first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fairway.admission.quota import Node
from fairway.admission.resources import FlavorResource


class DominantShare(NamedTuple):
    ratio: float
    weight: float
    borrowed: tuple[FlavorResource, ...]
    resource: str = ""

    @property
    def borrowing(self) -> bool:
        return bool(self.borrowed)

    @property
    def boundless(self) -> bool:
        """A node of weight zero that borrows: its share is infinite, and among such nodes the plain ratio decides."""
        return self.weight == 0 and self.ratio != 0

    @property
    def value(self) -> float:
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rank(self) -> tuple[bool, float]:
        """Orders shares: greater is further beyond its own."""
        return (True, self.ratio) if self.boundless else (False, self.value)


BELOW_ALL = DominantShare(ratio=-1.0, weight=1.0, borrowed=())


def share_of(node: Node) -> DominantShare:
    parent = node.parent
    if parent is None:
        return DominantShare(0.0, node.weight, ())
    usage = node.usage
    beyond: dict[str, int] = {}
    borrowed = []
    for fr, quota in node.subtree.items():
        over = usage.get(fr, 0) - quota
        if over > 0:
            beyond[fr.resource] = beyond.get(fr.resource, 0) + over
            borrowed.append(fr)
    ratio, dominant = 0.0, ""
    for resource, over in beyond.items():
        lendable = parent.lendable.get(resource, 0)
        if lendable > 0:
            this = float(over) * 1000.0 / float(lendable)
            if this > ratio or (this == ratio and resource < dominant):
                ratio, dominant = this, resource
    return DominantShare(ratio, node.weight, tuple(borrowed), dominant)


def weighted_share(share: DominantShare) -> int:
    """The number that a status shows: rounded up, the largest integer when infinite."""
    return 2**63 - 1 if share.boundless else math.ceil(share.value)
