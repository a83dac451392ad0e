"""What kube-apiserver with etcd does under this very load, to compare with.

Measured on 16 November 2026 with ``load`` and ``scenarios`` as they are here: kube-apiserver 1.36.2 and etcd 3.6.8 (with
fsync, on the same ext4 disk; a durable write of 4 KB took 0.2 ms), two cores of an AMD EPYC (family 25) shared with the
generator, 23 GB of memory. TLS, tokens, RBAC; priority and fairness off, Kueue 0.19.2's CRDs without its webhooks,
GOGC=500. Other people used the machine, so each figure is the best of 8 to 15 runs of 2 s that began on idle cores.

    load             clients   answers/s   p50 ms   p99 ms   CPU ms each (apiserver + etcd)
    creates                1         175      5.6      8.7   5.9 + 1.1
    creates                8         297     26.1     49.0   5.6 + 0.9
    creates               32         357     86.7    151.2   5.0 + 0.4
    status patches         1          96      9.9     26.4   9.7 + 1.6
    status patches         8         203     36.8     98.4   8.6 + 0.9
    status patches        32         235    129.1    224.6   6.5 + 0.7
    status applies         8         181     42.0    101.1   9.6 + 1.1
    1000 watchers                   7900 events a second

The goals are ten times an earlier measurement: 225 creates and 200 status patches a second (kube-apiserver 1.34).
"""

from __future__ import annotations

from typing import NamedTuple


class Baseline(NamedTuple):
    rates: dict[int, float]
    """Answers a second, by the number of clients."""
    goal: int | None
    """What Fairway has to reach with the best number of clients."""


CREATES = Baseline({1: 175, 8: 297, 32: 357}, goal=2_250)
PATCHES = Baseline({1: 96, 8: 203, 32: 235}, goal=2_000)
APPLIES = Baseline({8: 181}, goal=None)
WATCHED_EVENTS = 7_900
