"""What pods ask for and what nodes have left."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.scheduler.things import node, pod_spec
from fairway.apis.core.node_views import facts_of
from fairway.apis.core.pod_requests import PodSpec
from fairway.apis.machinery.schemas.definitions import definition
from fairway.controllers.kit.capacity import (
    NO_NODES,
    Demand,
    Room,
    best_node,
    demand_of,
    explained,
    put,
    shortage,
)

GI = 1024**3
UNTOLERATED = "node(s) had untolerated taint(s)"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"


def room(*taken: dict[str, Any], **facts: Any) -> Room:
    """A node with these pods on it."""
    made = Room(facts_of(node(**facts)))
    for spec in taken:
        made.take(demand_of(spec))
    return made


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_fields_of_a_pod_spec_that_are_not_read_are_no_obstacle() -> None:
    """A bound pod that could not be read would be one that takes nothing."""
    served = set(definition("io.k8s.api.core.v1.PodSpec").properties)
    unread = served - {field.encode_name for field in msgspec.structs.fields(PodSpec)}
    spec = pod_spec({"cpu": "1"})

    assert demand_of({**spec, **{name: {"any": ["thing"]} for name in unread}}) == demand_of(spec)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(pod_spec(), (), id="a pod that asks for nothing takes nothing"),
        pytest.param(
            pod_spec({"cpu": "1.5", "memory": "1Gi", "nvidia.com/gpu": "2"}),
            (("cpu", 1500), ("memory", GI), ("nvidia.com/gpu", 2)),
            id="requests are taken in the units of the scheduler",
        ),
        pytest.param(
            {
                **pod_spec({"cpu": "1"}),
                "initContainers": [{"name": "first", "resources": {"requests": {"cpu": "3"}}}],
            },
            (("cpu", 3000),),
            id="a large init container decides",
        ),
        pytest.param(
            {
                **pod_spec({"cpu": "1"}),
                "initContainers": [
                    {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
                ],
            },
            (("cpu", 3000),),
            id="a sidecar runs beside the others",
        ),
        pytest.param(
            pod_spec({"cpu": "1"}, overhead={"cpu": "250m"}), (("cpu", 1250),), id="the overhead of the pod is added"
        ),
        pytest.param(pod_spec({"cpu": "0", "memory": "1"}), (("memory", 1),), id="a request for nothing is no request"),
    ],
)
def test_a_pod_takes_what_it_requests(spec: dict[str, Any], want: tuple[tuple[str, int], ...]) -> None:
    assert demand_of(spec).requests == want


GPU_TAINT = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("where", "spec", "want"),
    [
        pytest.param(room(), pod_spec({"cpu": "4", "memory": "8Gi"}), [], id="a pod that fills the node fits"),
        pytest.param(room(), pod_spec({"cpu": "4001m"}), ["Insufficient cpu"], id="too much of one resource"),
        pytest.param(
            room(pod_spec({"cpu": "3", "memory": "8Gi"})),
            pod_spec({"cpu": "2", "memory": "1"}),
            ["Insufficient cpu", "Insufficient memory"],
            id="too much of two resources besides the pod that is there",
        ),
        pytest.param(
            room(),
            pod_spec({"nvidia.com/gpu": "1"}),
            ["Insufficient nvidia.com/gpu"],
            id="a resource that the node does not have",
        ),
        pytest.param(
            room(pod_spec(), allocatable={"pods": "1"}),
            pod_spec({"cpu": "5"}),
            ["Too many pods", "Insufficient cpu"],
            id="no place for another pod",
        ),
        pytest.param(room(unschedulable=True), pod_spec(), ["node(s) were unschedulable"], id="a cordoned node"),
        pytest.param(
            room(unschedulable=True),
            pod_spec(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            [],
            id="a cordoned node and a pod that does not mind",
        ),
        pytest.param(room(ready="False"), pod_spec(), [UNTOLERATED], id="a node that is not ready"),
        pytest.param(room(ready="Unknown"), pod_spec(), [UNTOLERATED], id="a node that is not heard of"),
        pytest.param(room(ready=None), pod_spec(), [UNTOLERATED], id="a node that never said it is ready"),
        pytest.param(room(taints=[GPU_TAINT]), pod_spec({"cpu": "9"}), [UNTOLERATED], id="a taint comes before room"),
        pytest.param(
            room(taints=[{**GPU_TAINT, "effect": "NoExecute"}]), pod_spec(), [UNTOLERATED], id="a taint that evicts"
        ),
        pytest.param(
            room(taints=[{**GPU_TAINT, "effect": "PreferNoSchedule"}]), pod_spec(), [], id="a taint that only asks"
        ),
        pytest.param(
            room(taints=[GPU_TAINT]),
            pod_spec(tolerations=[{"key": "gpu", "value": "a100"}]),
            [],
            id="a tolerated taint",
        ),
        pytest.param(
            room(labels={"zone": "a"}),
            pod_spec(nodeSelector={"zone": "b"}),
            [UNSELECTED],
            id="another label is asked for",
        ),
        pytest.param(room(labels={"zone": "a"}), pod_spec(nodeSelector={"zone": "a"}), [], id="the label is asked for"),
        pytest.param(
            room(labels={"zone": "a"}),
            pod_spec(affinity=affinity({"matchExpressions": [expression("zone", "NotIn", "a")]})),
            [UNSELECTED],
            id="an affinity against the label",
        ),
        pytest.param(
            room(labels={"zone": "a"}),
            pod_spec(
                affinity=affinity(
                    {"matchExpressions": [expression("zone", "In", "b")]},
                    {"matchExpressions": [expression("zone", "Exists")]},
                )
            ),
            [],
            id="one of two affinities holds",
        ),
        pytest.param(
            room(name="n1"),
            pod_spec(affinity=affinity({"matchFields": [expression("metadata.name", "In", "n2")]})),
            [UNSELECTED],
            id="an affinity to another node",
        ),
        pytest.param(
            room(name="n1"),
            pod_spec(affinity=affinity({"matchFields": [expression("metadata.name", "In", "n1")]})),
            [],
            id="an affinity to this node",
        ),
        pytest.param(room(), pod_spec(affinity=affinity({})), [UNSELECTED], id="an affinity that says nothing"),
    ],
)
def test_a_node_says_why_a_pod_cannot_run_on_it(where: Room, spec: dict[str, Any], want: list[str]) -> None:
    assert where.why_not(demand_of(spec)) == want


def listening(port: int, address: str | None = None, protocol: str = "TCP") -> dict[str, Any]:
    wanted: dict[str, Any] = {"containerPort": port, "hostPort": port, "protocol": protocol}
    if address is not None:
        wanted["hostIP"] = address
    return {"containers": [{"name": "main", "ports": [wanted]}]}


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param(listening(80), listening(80), False, id="the same port"),
        pytest.param(listening(80), listening(81), True, id="another port"),
        pytest.param(listening(80), listening(80, protocol="UDP"), True, id="another protocol"),
        pytest.param(listening(80, "10.0.0.1"), listening(80, "10.0.0.2"), True, id="another address"),
        pytest.param(listening(80, "10.0.0.1"), listening(80), False, id="an address and all of them"),
    ],
)
def test_two_pods_do_not_share_a_port_of_the_node(one: dict[str, Any], other: dict[str, Any], *, want: bool) -> None:
    place = room(one)

    assert (place.why_not(demand_of(other)) == []) is want
    place.give_back(demand_of(one))
    assert place.why_not(demand_of(other)) == []


def test_the_message_counts_the_nodes_that_give_each_reason() -> None:
    rooms = [room(name="n1"), room(name="n2", allocatable={"cpu": "1"}), room(name="n3", unschedulable=True)]

    assert explained(rooms, demand_of(pod_spec({"cpu": "8", "memory": "9Gi"}))) == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient memory."
    )
    assert explained([], demand_of(pod_spec())) == NO_NODES


def test_the_emptiest_node_gets_the_pod_and_the_first_of_equals() -> None:
    half, empty, other = room(pod_spec({"cpu": "2"}), name="a"), room(name="c"), room(name="b")

    assert best_node([half, empty, other], demand_of(pod_spec({"cpu": "1"}))) == "b"
    assert best_node([half], demand_of(pod_spec({"cpu": "3"}))) is None


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param([({"cpu": "1"}, 8)], None, id="all cores of both nodes"),
        pytest.param(
            [({"cpu": "3"}, 3)],
            "1 of 3 pods do not fit: 0/2 nodes are available: 2 Insufficient cpu.",
            id="enough cores, but not in one place",
        ),
        pytest.param(
            [({"cpu": "1"}, 2), ({"cpu": "3"}, 2)], None, id="the large ones are placed before the small ones"
        ),
        pytest.param([], None, id="nothing at all"),
    ],
)
def test_a_set_of_pods_fits_or_not(asked: list[tuple[dict[str, str], int]], want: str | None) -> None:
    rooms = [room(name="n1"), room(name="n2")]

    assert shortage(rooms, [(demand_of(pod_spec(requests)), count) for requests, count in asked]) == want


def test_without_nodes_nothing_fits() -> None:
    assert shortage([], [(demand_of(pod_spec({"cpu": "1"})), 2)]) == f"2 of 2 pods do not fit: {NO_NODES}"


AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 5), "gpu": st.integers(0, 3)})


@given(
    nodes=st.lists(AMOUNTS, max_size=4),
    asked=st.lists(st.tuples(AMOUNTS, st.integers(0, 6)), max_size=5),
)
def test_putting_pods_on_nodes_takes_all_that_fits_and_no_more(
    nodes: list[dict[str, int]], asked: list[tuple[dict[str, int], int]]
) -> None:
    rooms = [
        room(name=f"n{number}", allocatable={name: str(value) for name, value in amounts.items()})
        for number, amounts in enumerate(nodes)
    ]
    placed = 0
    for amounts, count in asked:
        demand = demand_of(pod_spec({name: str(value) for name, value in amounts.items()}))
        here = put(rooms, demand, count)
        placed += here
        assert here == count or all(one.why_not(demand) for one in rooms)

    assert sum(one.pods for one in rooms) == placed
    for one in rooms:
        assert one.node is not None
        assert one.pods <= one.node.allocatable["pods"]
        assert all(used <= one.node.allocatable.get(name, 0) for name, used in one.used.items())


@given(st.lists(AMOUNTS, max_size=6), st.data())
def test_a_node_is_empty_again_when_its_pods_are_gone_in_whatever_order(
    asked: list[dict[str, int]], data: st.DataObject
) -> None:
    place = room()
    demands = [Demand(requests=tuple(sorted(amounts.items()))) for amounts in asked]
    for demand in demands:
        place.take(demand)
    for demand in data.draw(st.permutations(demands)):
        place.give_back(demand)

    assert (place.pods, set(place.used.values()) - {0}, dict(place.ports)) == (0, set(), {})


MIXED = {"labels": {"gpu.fairway.dev/v100": "4", "gpu.fairway.dev/t4": "2"}, "allocatable": {"nvidia.com/gpu": "6"}}


def gpus(count: int, model: str = "") -> dict[str, Any]:
    selector = {"nodeSelector": {"skypilot.co/accelerator": model}} if model else {}
    return pod_spec({"nvidia.com/gpu": str(count)}, **selector)


@pytest.mark.parametrize(
    ("taken", "wanted", "want"),
    [
        pytest.param([], gpus(2, "t4"), [], id="a model that is there"),
        pytest.param([], gpus(1, "a100"), [UNSELECTED], id="a model that is not there"),
        pytest.param([], gpus(3, "t4"), ["Insufficient nvidia.com/gpu"], id="more than there are of it"),
        pytest.param([gpus(4, "v100")], gpus(2, "t4"), [], id="the other model is taken"),
        pytest.param([gpus(2, "t4")], gpus(1, "t4"), ["Insufficient nvidia.com/gpu"], id="this model is taken"),
        pytest.param([gpus(4, "v100")], gpus(2), [], id="any model"),
        pytest.param([gpus(4, "v100")], gpus(3), ["Insufficient nvidia.com/gpu"], id="more than are left of any"),
        pytest.param([gpus(1)], gpus(2, "t4"), ["Insufficient nvidia.com/gpu"], id="one of any may be one of these"),
        pytest.param([gpus(1)], gpus(1, "t4"), [], id="enough, whichever the other one got"),
    ],
)
def test_gpus_of_several_models(taken: list[dict[str, Any]], wanted: dict[str, Any], want: list[str]) -> None:
    assert room(*taken, **MIXED).why_not(demand_of(wanted)) == want
