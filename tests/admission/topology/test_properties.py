"""What holds for every placement, whatever the nodes and the requests."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.topology.scenes import asks, topologies
from fairway.admission.topology.assigning import NotPlaced, place_all, still_fit, taken_by
from fairway.admission.topology.requests import slice_constraints

BLOCK, RACK, HOST = "block", "rack", "kubernetes.io/hostname"
LEVELS = (BLOCK, RACK, HOST)


@st.composite
def nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for index in range(draw(st.integers(1, 10))):
        labels = {BLOCK: f"b{draw(st.integers(0, 1))}", RACK: f"r{draw(st.integers(0, 2))}", HOST: f"n{index}"}
        cpu = draw(st.integers(0, 6)) * 1000
        made.append({"name": f"n{index}", "labels": labels, "cpu": cpu, "pods": draw(st.integers(1, 8))})
    return made


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 8))
    request: dict[str, Any] = {draw(st.sampled_from(("required", "preferred"))): draw(st.sampled_from(LEVELS))}
    if draw(st.booleans()):
        sizes = [size for size in (1, 2, 3, 4) if count % size == 0]
        request |= {"podSetSliceRequiredTopology": draw(st.sampled_from(LEVELS))}
        request |= {"podSetSliceSize": draw(st.sampled_from(sizes))}
    kind = draw(st.sampled_from((request, {"unconstrained": True}, None)))
    return {"name": "a", "count": count, "cpu": draw(st.sampled_from((500, 1000, 2000))), "request": kind}


@settings(max_examples=120)
@given(nodes(), st.lists(requests(), min_size=1, max_size=3), st.booleans())
def test_every_pod_has_one_place_and_no_leaf_is_overcommitted(
    machines: list[dict[str, Any]],
    wanted: list[dict[str, Any]],
    balance: bool,  # noqa: FBT001
) -> None:
    named = [{**one, "name": f"set{index}"} for index, one in enumerate(wanted)]
    world, ask = topologies(LEVELS, machines), asks(named)
    tree = world.tree("f")
    assert tree is not None
    before = {resource: list(column) for resource, column in tree.left.items()}
    found = place_all(world, ask, balance=balance)
    assert place_all(world, ask, balance=balance) == found, "the same question has the same answer"
    assert tree.left == before, "asking changes nothing"
    if isinstance(found, NotPlaced):
        return
    path = {machine["labels"][HOST]: tuple(machine["labels"][level] for level in LEVELS) for machine in machines}
    for one in ask:
        placement = found[one.pod_set.name]
        assert placement.pods == one.pod_set.pods
        assert len({domain.values for domain in placement.domains}) == len(placement.domains)
        request = one.pod_set.request
        if request is not None and request.required is not None:
            depth = LEVELS.index(request.required) + 1
            assert len({path[domain.values[-1]][:depth] for domain in placement.domains}) == 1
        for constraint in slice_constraints(request):
            depth = LEVELS.index(constraint.topology) + 1
            in_domain: Counter[tuple[str, ...]] = Counter()
            for domain in placement.domains:
                in_domain[path[domain.values[-1]][:depth]] += domain.pods
            assert all(pods % constraint.size == 0 for pods in in_domain.values()), "slices are whole in one domain"
    taken = taken_by(ask, found)
    assert still_fit(world, taken, ["f"])
    world.take(taken)
    assert all(amount >= 0 for column in tree.left.values() for amount in column)
    world.give_back(taken)
    assert tree.left == before, "what is released is free again"
    assert not world.used()
