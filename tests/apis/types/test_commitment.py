"""Quotas that add up to more than the nodes have."""

from typing import Any

import pytest

from fairway.apis.kueue.commitment import allocatable, promised, warnings


def queue(*, checks: bool = False, **quotas: Any) -> dict[str, Any]:
    resources = [
        {"name": name.replace("gpu", "nvidia.com/gpu"), "nominalQuota": amount} for name, amount in quotas.items()
    ]
    spec: dict[str, Any] = {"resourceGroups": [{"flavors": [{"name": "f", "resources": resources}]}]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "provisioning"}]}
    return {"spec": spec}


WAITS = "what is admitted beyond that waits"
LAPTOP = {"status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        pytest.param({"a": queue(cpu=1), "b": queue(cpu="1")}, [], id="as much as there is"),
        pytest.param(
            {"a": queue(cpu=9)},
            ["ClusterQueue a has a quota of 9 cpu, and the nodes have 2: what is admitted beyond that waits"],
            id="one queue",
        ),
        pytest.param(
            {"a": queue(cpu=2), "b": queue(cpu="1500m")},
            [f"all ClusterQueues together have a quota of 3.5 cpu (a 2, b 1.5), and the nodes have 2: {WAITS}"],
            id="several queues",
        ),
        pytest.param(
            {"a": queue(memory="8Gi")},
            ["ClusterQueue a has a quota of 8Gi memory, and the nodes have 4Gi: what is admitted beyond that waits"],
            id="memory",
        ),
        pytest.param(
            {"a": queue(gpu=4)},
            [f"ClusterQueue a has a quota of 4 nvidia.com/gpu, and the nodes have 0: {WAITS}"],
            id="GPUs where there are none",
        ),
        pytest.param({"a": queue(credits=100)}, [], id="what quota alone counts"),
        pytest.param({"a": queue(cpu="10G")}, [], id="a quota that is meant to bound nothing"),
        pytest.param({"a": queue(checks=True, cpu=9)}, [], id="checks that find nodes"),
    ],
)
def test_more_than_the_nodes_have(queues: dict[str, Any], want: list[str]) -> None:
    found = {name: promised(one) for name, one in queues.items()}

    assert warnings(found, {"n": allocatable(LAPTOP)}) == want


def test_without_nodes_there_is_nothing_to_compare_with() -> None:
    assert warnings({"a": promised(queue(cpu=9))}, {}) == []
