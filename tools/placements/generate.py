"""Random topologies and requests, to be placed by Kueue itself: the input of ``record_test.go``.

    python tools/placements/generate.py SEED COUNT >cases.json

Copy ``record_test.go`` into ``pkg/cache/scheduler`` of Kueue's module, build it there with ``go test -c`` and run it
with ``RECORD_IN=cases.json RECORD_OUT=results.json``. ``tests/admission/topology/data/placements.json.gz`` has cases
and results side by side.
"""

import json
import random
import sys
from typing import Any

HOSTNAME = "kubernetes.io/hostname"
LEVELS = ("cloud/block", "cloud/rack", HOSTNAME)


def case(random: random.Random) -> dict[str, Any]:
    levels = list(random.choice([LEVELS, LEVELS, LEVELS, LEVELS[:2], LEVELS[2:], LEVELS[1:]]))
    nodes = _nodes(random)
    sets = _sets(random, levels)
    made: dict[str, Any] = {"levels": levels, "nodes": nodes, "sets": sets, "balanced": random.random() < 0.3}
    made["empty"] = random.random() < 0.1
    if len(sets) == 1 and levels[-1] == HOSTNAME and random.random() < 0.3:
        _fail_a_node(random, made)
    return made


def _nodes(random: random.Random) -> list[dict[str, Any]]:
    nodes = []
    for block in range(random.randint(1, 3)):
        for rack in range(random.randint(1, 3)):
            for host in range(random.randint(1, 4)):
                name = f"x{random.randint(0, 9)}-{block}{rack}{host}"
                cpu = random.choice([1, 2, 3, 4, 4, 8]) * 1000
                used = random.choice([0, 0, 0, 1, 2]) * 1000
                labels = {"cloud/block": f"b{block}", "cloud/rack": f"r{rack}", HOSTNAME: name}
                labels["zone"] = random.choice(["a", "a", "b"])
                node = {"name": name, "labels": labels, "cpu": cpu, "pods": random.choice([2, 5, 110])}
                node |= {"used": used, "usedPods": used // 1000}
                nodes.append(node | {"taint": random.choice(["", "", "", "", "", "gone"])})
    return nodes


def _request(random: random.Random, levels: list[str], count: int) -> dict[str, Any] | None:
    kind = random.choice(["required", "required", "preferred", "preferred", "unconstrained", "slices", "none"])
    request: dict[str, Any] = {}
    if kind in ("required", "preferred"):
        request[kind] = random.choice(levels)
    elif kind == "unconstrained":
        request["unconstrained"] = True
    elif kind == "none":
        return None
    if kind == "slices" or (kind in ("required", "preferred") and random.random() < 0.4):
        size = random.choice([size for size in (1, 2, 3, 4) if size <= count])
        if random.random() < 0.3 and len(levels) > 1:
            picked = sorted(random.sample(range(len(levels)), 2))
            inner = random.choice([one for one in (1, 2, 3, 4) if size % one == 0])
            sizes = (size, inner)
            request["podsetSliceRequiredTopologyConstraints"] = [
                {"topology": levels[at], "size": one} for at, one in zip(picked, sizes, strict=True)
            ]
        else:
            request |= {"podSetSliceRequiredTopology": random.choice(levels), "podSetSliceSize": size}
    return request


def _sets(random: random.Random, levels: list[str]) -> list[dict[str, Any]]:
    sets = []
    for position in range(random.choice([1, 1, 1, 2])):
        count = random.randint(1, 12)
        request = _request(random, levels, count)
        one = {"name": f"set{position}", "count": count, "cpu": random.choice([500, 1000, 1000, 2000])}
        one |= {"request": request, "implied": request is None}
        sets.append(one | {"selector": {"zone": "a"} if random.random() < 0.15 else {}})
    if len(sets) == 2 and random.random() < 0.6:
        level = {random.choice(["required", "preferred"]): random.choice(levels)}
        for one in sets:
            one |= {"request": {**level, "podSetGroupName": "together"}, "implied": False}
        sets[random.randint(0, 1)]["count"] = 1
    return sets


def _fail_a_node(random: random.Random, made: dict[str, Any]) -> None:
    """An assignment of some hosts with room, of which one has failed and is gone."""
    nodes = made["nodes"]
    hosts = sorted({node["labels"][HOSTNAME] for node in nodes})
    picked = sorted(random.sample(hosts, min(len(hosts), random.randint(1, 4))))
    failed = random.choice(picked)
    domains = [{"Values": [host], "Count": random.randint(1, 3)} for host in picked]
    made["nodes"] = [node for node in nodes if node["labels"][HOSTNAME] != failed]
    made |= {"unhealthy": failed, "existing": {"Levels": [HOSTNAME], "Domains": domains}, "empty": False}
    made["balanced"] = False  # Kueue 0.19.2 divides by zero there
    made["sets"][0]["count"] = sum(domain["Count"] for domain in domains)


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    generator = random.Random(seed)  # noqa: S311 - not for secrets
    json.dump([case(generator) for _ in range(count)], sys.stdout)


if __name__ == "__main__":
    main()
