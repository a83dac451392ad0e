"""How much there is, how much is left, and who may use it: the quota tree on its own, and seen through admissions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fairway.admission.quota import CohortNode, Leaf, Node, Quota, compile_alone, having, without
from fairway.admission.resources import FlavorResources
from fairway.apis.machinery.quantities import UNLIMITED
from fairway.testing.builders import Bench, Limited, Object, cluster_queue, cohort, on, workload

FRS = FlavorResources()
GPU = FRS.get("default", "gpu")
CPU = FRS.get("default", "cpu")


def leaf(name: str, nominal: int, borrowing: int | None = None, lending: int | None = None) -> Leaf:
    made = Leaf(name)
    made.set_quotas({GPU: Quota(nominal, borrowing, lending)})
    return made


def tree(name: str, *below: Node, own: Quota | None = None) -> CohortNode:
    made = CohortNode(name)
    made.set_quotas({GPU: own} if own is not None else {})
    for node in below:
        node.parent = made
        if isinstance(node, CohortNode):
            made.children.append(node)
        elif isinstance(node, Leaf):
            made.leaves.append(node)
    return made


def everywhere(root: Node) -> dict[str, Mapping[object, int]]:
    """The usage of every node, as it is now."""
    found: dict[str, Mapping[object, int]] = {root.name: {fr: used for fr, used in root.usage.items() if used}}
    if isinstance(root, CohortNode):
        for node in (*root.children, *root.leaves):
            found |= everywhere(node)
    return found


@pytest.mark.parametrize(
    ("a", "b", "own", "used_by_a", "used_by_b", "want_available", "want_potential"),
    [
        pytest.param(leaf("a", 4), leaf("b", 6), None, 0, 0, 10, 10, id="all of the cohort's quota can be had"),
        pytest.param(leaf("a", 4), leaf("b", 6), None, 3, 5, 2, 10, id="what anybody uses is gone for all"),
        pytest.param(leaf("a", 4), leaf("b", 6), Quota(5), 0, 0, 15, 15, id="a cohort's own quota is there for all"),
        pytest.param(leaf("a", 4, borrowing=1), leaf("b", 6), None, 0, 0, 5, 5, id="a borrowing limit caps"),
        pytest.param(
            leaf("a", 4, borrowing=1), leaf("b", 6), None, 5, 0, 0, 5, id="and counts what is borrowed already"
        ),
        pytest.param(leaf("a", 4, borrowing=0), leaf("b", 6), None, 1, 6, 3, 4, id="a limit of none borrows nothing"),
        pytest.param(leaf("a", 4), leaf("b", 6, lending=2), None, 0, 0, 6, 6, id="a lending limit keeps the rest"),
        pytest.param(leaf("a", 4), leaf("b", 6, lending=0), None, 0, 0, 4, 4, id="a limit of none lends nothing"),
        pytest.param(
            leaf("a", 4, lending=1), leaf("b", 6), None, 0, 6, 4, 10, id="what a queue keeps others cannot take"
        ),
        pytest.param(leaf("a", 4, lending=1), leaf("b", 6), None, 2, 7, 1, 10, id="kept quota is used up first"),
        pytest.param(
            leaf("a", 4), leaf("b", 6, lending=2), None, 0, 5, 5, 6, id="use of kept quota takes nothing from others"
        ),
        pytest.param(leaf("a", 4), leaf("b", 6), None, 12, 0, -2, 10, id="negative when more is used than there is"),
        pytest.param(
            leaf("a", 0), leaf("b", UNLIMITED), None, 0, 5, UNLIMITED - 5, UNLIMITED, id="one unlimited lends to all"
        ),
        pytest.param(
            leaf("a", 4, borrowing=2),
            leaf("b", UNLIMITED),
            None,
            1,
            0,
            5,
            6,
            id="a limit holds before an unlimited lender",
        ),
        pytest.param(
            leaf("a", 4), leaf("b", UNLIMITED, lending=3), None, 0, 0, 4, 4, id="unlimited less a limit is all kept"
        ),
    ],
)
def test_two_queues_in_a_cohort(
    a: Leaf, b: Leaf, own: Quota | None, used_by_a: int, used_by_b: int, want_available: int, want_potential: int
) -> None:
    a.usage, b.usage = {}, {}
    tree("cohort", a, b, own=own).compile()
    a.add(GPU, used_by_a)
    b.add(GPU, used_by_b)

    assert (a.available(GPU), a.potential[GPU]) == (want_available, want_potential)


def test_a_queue_in_no_cohort_has_its_own_quota() -> None:
    alone = leaf("alone", 4)
    compile_alone(alone)
    alone.add(GPU, 3)

    assert (alone.available(GPU), alone.potential[GPU], alone.available(CPU)) == (1, 4, 0)


def test_usage_bubbles_up_past_what_each_node_keeps() -> None:
    queue = leaf("queue", 4, lending=1)
    middle = tree("middle", queue, own=Quota(2, lending_limit=1))
    root = tree("root", middle)
    root.compile()

    queue.add(GPU, 3)
    assert [node.usage.get(GPU, 0) for node in (queue, middle, root)] == [3, 0, 0]
    queue.add(GPU, 2)
    assert [node.usage.get(GPU, 0) for node in (queue, middle, root)] == [5, 2, 0]
    queue.add(GPU, 1)
    assert [node.usage.get(GPU, 0) for node in (queue, middle, root)] == [6, 3, 1]
    queue.remove(GPU, 4)
    assert [node.usage.get(GPU, 0) for node in (queue, middle, root)] == [2, 0, 0]


def test_limits_of_cohorts_hold_for_all_below() -> None:
    queue = leaf("queue", 1)
    limited = tree("limited", queue, own=Quota(1, borrowing_limit=2))
    rich = leaf("rich", 50)
    tree("root", limited, rich).compile()

    assert (queue.available(GPU), queue.potential[GPU]) == (4, 4)


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        pytest.param(2, (0, True), id="from the queue itself"),
        pytest.param(3, (1, True), id="from its cohort"),
        pytest.param(6, (2, False), id="from the root"),
        pytest.param(60, (2, False), id="nobody has so much: the whole tree's height"),
    ],
)
def test_how_far_up_quota_comes_from(amount: int, want: tuple[int, bool]) -> None:
    queue = leaf("queue", 2)
    root = tree("root", tree("middle", queue, own=Quota(2)), leaf("other", 10))
    root.compile()
    root.height, root.children[0].height = 2, 1

    assert queue.lowest_fitting_height(GPU, amount) == want


def test_without_and_having_restore_the_state_even_after_an_error() -> None:
    a, b = leaf("a", 4, lending=1), leaf("b", 6)
    root = tree("root", tree("middle", a), b)
    root.compile()
    a.add(GPU, 5)
    b.add(GPU, 3)
    before = everywhere(root)

    with without([(a, ((GPU, 2),)), (b, ((GPU, 3),)), (a, ((GPU, 3),))]), having(b, ((GPU, 9),)):
        assert everywhere(root) == {"root": {GPU: 9}, "middle": {}, "a": {}, "b": {GPU: 9}}
    assert everywhere(root) == before

    with pytest.raises(KeyError), without([(a, ((GPU, 5),))]):
        raise KeyError
    assert everywhere(root) == before


@pytest.mark.parametrize(
    ("objects", "want_admitted"),
    [
        pytest.param([cluster_queue(cpu=4)], 4, id="a queue alone"),
        pytest.param(
            [cluster_queue(cpu=4, cohort="c"), cluster_queue("b", cpu=6, cohort="c")], 10, id="a cohort shares"
        ),
        pytest.param([cluster_queue(cpu=4, cohort="c"), cohort("c", cpu=3)], 7, id="a cohort has quota of its own"),
        pytest.param(
            [cluster_queue(cpu=Limited(4, borrowing=2), cohort="c"), cluster_queue("b", cpu=6, cohort="c")],
            6,
            id="up to the borrowing limit",
        ),
        pytest.param(
            [cluster_queue(cpu=4, cohort="c"), cluster_queue("b", cpu=Limited(6, lending=1), cohort="c")],
            5,
            id="up to what the other lends",
        ),
        pytest.param(
            [
                cluster_queue(cpu=1, cohort="left"),
                cluster_queue("b", cpu=2, cohort="right"),
                cohort("left", cpu=4, parent="root"),
                cohort("right", cpu=8, parent="root"),
                cohort("root", cpu=16),
            ],
            31,
            id="nested cohorts lend through their common root",
        ),
        pytest.param(
            [
                cluster_queue(cpu=1, cohort="left"),
                cluster_queue("b", cpu=2, cohort="right"),
                cohort("left", cpu=Limited(4, borrowing=3), parent="root"),
                cohort("right", cpu=Limited(8, lending=1), parent="root"),
            ],
            6,
            id="limits of nested cohorts count: five own, one lent of three that may be borrowed",
        ),
        pytest.param(
            [cluster_queue(cpu=1, cohort="c"), cluster_queue("b", on("other", cpu=9), cohort="c")],
            1,
            id="another flavor's quota is no help",
        ),
    ],
)
def test_so_many_are_admitted_and_no_more(objects: list[Object], want_admitted: int) -> None:
    bench = Bench(*objects)
    bench.submit_together(*(workload(f"w{number}", cpu=1) for number in range(want_admitted + 3)))

    assert len(bench.admitted()) == want_admitted
    assert bench.engine.overused() == []


def test_quota_kept_by_a_lending_limit_is_there_when_its_owner_comes() -> None:
    bench = Bench(cluster_queue("a", cpu=4, cohort="c"), cluster_queue("b", cpu=Limited(6, lending=2), cohort="c"))
    bench.submit(workload("borrower", queue="a", cpu=6), workload("owner", queue="b", cpu=4))

    assert bench.admitted() == ["borrower", "owner"]


def test_cohorts_in_a_circle_make_their_queues_inactive() -> None:
    bench = Bench(cluster_queue(cpu=4, cohort="x"), cohort("x", parent="y"), cluster_queue("free", cpu=4))
    bench.apply(cohort("y", parent="x"))
    bench.submit(workload("w", cpu=1), workload("other", queue="free", cpu=1))
    assert bench.states() == {"w": "pending", "other": "admitted"}
    assert bench.message("w") == "ClusterQueue cq is inactive"

    bench.apply(cohort("y"))
    bench.advance(1.0)

    assert bench.state("w") == "admitted"


def test_a_lowered_quota_evicts_nobody_and_shows_as_overused() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=3), workload("next", cpu=1), workload("waits", cpu=1))
    bench.apply(cluster_queue(cpu=2))
    bench.rest()

    assert bench.admitted() == ["next", "w"]
    assert bench.engine.overused() == ["cq uses 4000 of default/cpu, 2000 more than it may"]

    bench.finish("w")
    bench.rest()

    assert (bench.admitted(), bench.engine.overused()) == (["next", "waits"], [])


def test_a_queue_that_moves_takes_its_quota_and_usage_along() -> None:
    bench = Bench(
        cluster_queue("a", cpu=4, cohort="x"),
        cluster_queue("b", cpu=4, cohort="x"),
        cluster_queue("c", cpu=4, cohort="y"),
    )
    bench.submit(workload("w", queue="a", cpu=3))
    bench.apply(cluster_queue("a", cpu=4, cohort="y"))
    bench.submit(workload("in-x", queue="b", cpu=5), workload("in-y", queue="c", cpu=5))

    assert bench.states() == {"w": "admitted", "in-x": "pending", "in-y": "admitted"}
