"""What kube-apiserver with etcd does under this very load, to compare with.

PLACEHOLDER
"""

from __future__ import annotations

from typing import NamedTuple


class Baseline(NamedTuple):
    rates: dict[int, float]
    """Successful answers a second, by the number of clients."""
    goal: int | None
    """What Fairway has to reach with the best number of clients."""


CREATES = Baseline({1: 116, 8: 297, 32: 317}, goal=2_250)
PATCHES = Baseline({1: 96, 8: 137, 32: 235}, goal=2_000)
APPLIES = Baseline({8: 137}, goal=None)
