"""What kube-apiserver with etcd does under this load, to compare with.

Measured on 16 November 2026: kube-apiserver 1.36.2 and etcd 3.6.8 (with fsync, on the ext4 disk where a durable write
of 4 KB takes 0.2 ms), on two cores of an AMD EPYC (family 25) that the generator shares, 23 GB of memory. TLS, tokens,
RBAC; priority and fairness off; Kueue 0.19.2's CRDs without its webhooks; GOGC=500. No controller manager beside it.

Others used the machine at the same time. So a run of 2 s began only when less than a quarter of the cores was in use,
and the best of about 15 runs counts, from three starts of the servers. That is kinder to kube-apiserver than the table
is to Fairway, which takes the better of two runs: from run to run the figures differed by a factor of two and more.
The figures marked * are from the first start, the CPU beside them from the best run of a later one. Only in the last
start did the Job exist that owns the Workloads, and only after the first was the apiserver's heap limited, to 4 GiB.

    load             clients   answers/s   p50 ms   p99 ms   CPU ms each (apiserver + etcd)
    creates                1         175      5.6      8.7    5.9 + 1.1
    creates                8        *297     26.1     49.0    6.4 + 1.0
    creates               32         357     86.7    151.2    5.0 + 0.4
    status patches         1         *96      9.9     26.4   10.7 + 1.7
    status patches         8         203     36.8     98.4    8.6 + 0.9
    status patches        32        *235    129.1    224.6    8.2 + 0.6
    status applies         8         181     42.0    101.1    9.6 + 1.1

    1000 watchers: 21 700 events/s, the best of 4 runs of 40 creates (the others: 8 900, 11 700, 14 900); from the
    create's answer to the last watcher p50 49 ms, p99 63 ms in that run.

The goals are ten times an earlier measurement, 225 creates and 200 status patches a second (kube-apiserver 1.34), not
ten times these.
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
WATCHED_EVENTS = 21_700
"""Events a second that all of 1000 watchers received together."""
