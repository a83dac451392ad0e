"""What a placement costs among a thousand nodes in three levels: blocks, racks and hosts.

Nodes are half full at random. Measured is the median of placements alone, and of a whole admission by the engine, from
the event of a new workload to the instruction.
"""

from __future__ import annotations

import random
import time
from statistics import median
from typing import NamedTuple

from fairway.admission import events
from fairway.admission.instructions import Admit
from fairway.admission.topology.assigning import NotPlaced, TopologyAsk, place_all
from fairway.admission.topology.requests import PodSetTopology
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.kueue.objects import TopologyRequest
from fairway.testing.builders import Bench, cluster_queue, flavor, on, pod_set, topology, workload

BLOCK, RACK, HOST = "cloud/block", "cloud/rack", "kubernetes.io/hostname"
_PODS = 40


class PlacementCost(NamedTuple):
    nodes: int
    place_seconds: float
    admit_seconds: float


def nodes(blocks: int, racks: int, hosts: int) -> list[NodeFacts]:
    drawn = random.Random(1)
    made = []
    for block in range(blocks):
        for rack in range(racks):
            for host in range(hosts):
                name = f"n-{block}-{rack}-{host}"
                labels = {"group": "tas", BLOCK: f"b{block}", RACK: f"b{block}r{rack}", HOST: name}
                has = {"cpu": drawn.randint(4, 16) * 1000, "memory": drawn.randint(8, 64) << 30, "pods": 110}
                made.append(NodeFacts(name=name, labels=labels, taints=(), unschedulable=False, allocatable=has))
    return made


def measure(blocks: int, racks: int, hosts: int, rounds: int) -> PlacementCost:
    bench = Bench(
        topology("default", BLOCK, RACK, HOST),
        flavor("tas", labels={"group": "tas"}, topology="default"),
        cluster_queue("cq", on("tas", cpu=10**6, memory="100Ti")),
    )
    machines = nodes(blocks, racks, hosts)
    bench.engine.handle(*(events.NodeAvailable(at=bench.now, node=one) for one in machines))
    requests = [TopologyRequest(required=BLOCK), TopologyRequest(preferred=RACK), TopologyRequest(unconstrained=True)]
    admitted, placed = [], []
    for number in range(rounds):
        ask = pod_set(count=_PODS, cpu=1, memory="1Gi", topology=requests[number % len(requests)])
        event = events.WorkloadAdded(at=bench.now, workload=workload(f"w{number}", ask, created=0.0))
        begun = time.process_time()
        said = bench.engine.handle(event)
        admitted.append(time.process_time() - begun)
        if not any(isinstance(one, Admit) for one in said):
            raise AssertionError(f"workload {number} was not admitted: {said}")
        placed.append(_place(bench, f"ns/w{number}"))
    return PlacementCost(len(machines), median(placed), median(admitted))


def _place(bench: Bench, key: str) -> float:
    """The time of one more placement like that of a workload, which is not kept."""
    record = bench.engine.record(key)
    topologies = bench.engine._world.topologies  # noqa: SLF001 - the engine has no door for a placement alone
    if record is None:
        raise AssertionError(key)
    ask = record.demand.asks[0]
    wanted = [TopologyAsk("tas", PodSetTopology(ask.name, ask.pods, ask.shape, ask.topology))]
    begun = time.process_time()
    found = place_all(topologies, wanted)
    seconds = time.process_time() - begun
    if isinstance(found, NotPlaced):
        raise AssertionError(found)  # noqa: TRY004 - what is wrong is not a type
    return seconds
