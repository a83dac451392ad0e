"""The engine places admitted workloads in topologies, preempts for a place, and replaces failed nodes."""

from typing import Any

import pytest

from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.events import CheckVerdict
from fairway.admission.instructions import Evict, Place, SecondPassFailed, Start
from fairway.apis.kueue.objects import PodSetUpdate, TopologyRequest
from fairway.testing.builders import (
    Bench,
    admission_check,
    cluster_queue,
    flavor,
    group,
    node,
    on,
    pod_set,
    topology,
    workload,
)

BLOCK, RACK, HOST = "cloud/block", "cloud/rack", "kubernetes.io/hostname"


def host(name: str, block: str, rack: str, cpu: int = 1, pods: int = 10, **more: Any) -> events.NodeAvailable:
    labels = {"group": "tas", BLOCK: block, RACK: rack, HOST: name}
    return events.NodeAvailable(at=0, node=node(name, labels=labels, cpu=cpu, pods=pods, **more))


def tas_bench(*nodes: events.NodeAvailable, config: Config | None = None, **queue: Any) -> Bench:
    """One queue with 20 CPUs of quota in a flavor with blocks, racks and hosts."""
    bench = Bench(
        topology("default", BLOCK, RACK, HOST),
        flavor("tas", labels={"group": "tas"}, topology="default"),
        cluster_queue("cq", on("tas", cpu=20), **queue),
        config=config,
        auto_release=True,
    )
    bench.send(*nodes)
    return bench


def four_racks() -> tuple[events.NodeAvailable, ...]:
    return (
        host("x1", "b1", "r1"),
        host("x2", "b1", "r2"),
        host("x3", "b2", "r1"),
        host("x4", "b2", "r2"),
    )


def placed(bench: Bench, name: str, pod_set: str = "main") -> dict[str, int] | None:
    given = next(one for one in bench.record(name).admission if one.name == pod_set)
    return None if given.placement is None else {",".join(one.values): one.pods for one in given.placement.domains}


def job(name: str, count: int, cpu: int = 1, priority: int = 0, **request: Any) -> Any:
    return workload(name, pod_set(count=count, cpu=cpu, topology=TopologyRequest(**request)), priority=priority)


def test_pods_that_require_a_block_share_it() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(job("a", 2, required=BLOCK))
    assert placed(bench, "a") == {"x1": 1, "x2": 1}


def test_what_is_released_is_free_again() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(job("a", 2, required=BLOCK), job("b", 2, required=BLOCK), job("c", 2, required=BLOCK))
    assert bench.admitted() == ["a", "b"]
    bench.finish("a")
    bench.rest()
    assert placed(bench, "c") == {"x1": 1, "x2": 1}


def test_a_workload_that_fits_in_no_domain_hears_which_is_short() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(job("a", 3, required=BLOCK))
    message = bench.message("a")
    assert message == (
        'couldn\'t assign flavors to pod set main: topology "default" allows to fit only 2 out of 3 pod(s)'
    )
    why = bench.why("a")
    assert why is not None
    assert not why.can_ever_fit
    assert {reason.domain for one in why.obstacles for reason in one.reasons} == {f"{BLOCK}=b1"}


def test_a_request_without_annotations_is_placed_where_all_flavors_have_a_topology() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(workload("plain", count=3, cpu=1))
    assert placed(bench, "plain") == {"x1": 1, "x2": 1, "x3": 1}


def test_a_level_that_the_topology_lacks_is_named() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(job("a", 1, required="cloud/hall"))
    assert 'Flavor "tas" does not contain the requested level' in bench.message("a")


def test_a_queue_whose_topology_is_missing_admits_nothing_until_it_is_there() -> None:
    bench = tas_bench(*four_racks())
    bench.send(events.TopologyDeleted(at=bench.now, name="default"))
    bench.submit(job("a", 1, required=RACK))
    assert bench.pending() == ["a"]
    bench.apply(topology("default", BLOCK, RACK, HOST))
    bench.rest()
    assert placed(bench, "a") == {"x1": 1}


def test_pods_outside_the_topology_take_room_until_they_are_gone() -> None:
    bench = tas_bench(host("x1", "b1", "r1"))
    bench.send(events.NodeUsageChanged(at=bench.now, node="x1", amounts={"cpu": 500, "pods": 1}))
    bench.submit(job("a", 1, required=RACK))
    assert 'excluded: resource "cpu": 1' in bench.message("a")
    bench.send(events.NodeUsageChanged(at=bench.now, node="x1", amounts={}))
    bench.rest()
    assert placed(bench, "a") == {"x1": 1}


def test_a_node_that_comes_wakes_who_waits_for_a_place() -> None:
    bench = tas_bench(host("x1", "b1", "r1"))
    bench.submit(job("a", 2, required=BLOCK))
    assert bench.pending() == ["a"]
    bench.send(host("x2", "b1", "r1"))
    bench.rest()
    assert placed(bench, "a") == {"x1": 1, "x2": 1}


def test_heads_of_two_queues_that_chose_the_same_place_get_different_ones_in_one_cycle() -> None:
    bench = Bench(
        topology("default", HOST),
        flavor("tas", labels={"group": "tas"}, topology="default"),
        cluster_queue("one", on("tas", cpu=20), cohort="c"),
        cluster_queue("two", on("tas", cpu=20), cohort="c"),
    )
    bench.send(host("x1", "b1", "r1"), host("x2", "b1", "r1"))
    ask = pod_set(cpu=1, topology=TopologyRequest(required=HOST))
    bench.submit_together(workload("a", ask, queue="one"), workload("b", ask, queue="two"))
    assert {placed(bench, "a") == {"x1": 1}, placed(bench, "b") == {"x2": 1}} == {True}


def test_preemption_makes_the_place_that_is_needed_and_no_more() -> None:
    bench = tas_bench(*four_racks(), within="LowerPriority")
    bench.submit(*(job(f"low{index}", 1, required=HOST) for index in range(4)))
    bench.submit(job("high", 2, priority=10, required=BLOCK))
    bench.rest()
    assert sorted(name for name, _ in bench.evictions()) == ["low0", "low1"] or len(bench.evictions()) == 2
    assert placed(bench, "high") in ({"x1": 1, "x2": 1}, {"x3": 1, "x4": 1})


def test_nobody_is_preempted_for_what_even_empty_domains_cannot_hold() -> None:
    bench = tas_bench(*four_racks(), within="LowerPriority")
    bench.submit(*(job(f"low{index}", 1, required=HOST) for index in range(4)))
    bench.submit(job("high", 3, priority=10, required=BLOCK))
    assert bench.evictions() == []


def test_two_flavors_on_the_same_hosts_do_not_share_a_place() -> None:
    bench = Bench(
        topology("default", HOST),
        flavor("a", labels={"group": "tas"}, topology="default"),
        flavor("b", labels={"group": "tas"}, topology="default"),
        cluster_queue("one", on("a", cpu=20)),
        cluster_queue("two", on("b", cpu=20)),
    )
    bench.send(host("x1", "b1", "r1"))
    ask = pod_set(cpu=1, topology=TopologyRequest(required=HOST))
    bench.submit(workload("first", ask, queue="one"), workload("second", ask, queue="two"))
    assert bench.admitted() == ["first"]
    bench.finish("first")
    bench.rest()
    assert placed(bench, "second") == {"x1": 1}


def test_a_failed_node_is_replaced_and_the_other_pods_stay() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(job("a", 2, preferred=BLOCK))
    bench.send(events.NodeUnavailable(at=bench.now, name="x1"))
    bench.send(events.NodesFailed(at=bench.now, key="ns/a", nodes=("x1",)))
    said = bench.advance(1.5)
    assert [type(one) for one in said if isinstance(one, Place | Evict)] == [Place]
    assert placed(bench, "a") == {"x2": 1, "x3": 1}


def test_a_workload_is_evicted_when_no_node_replaces_the_failed_one() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(job("a", 2, required=BLOCK))
    bench.send(events.NodeUnavailable(at=bench.now, name="x1"))
    bench.send(events.NodesFailed(at=bench.now, key="ns/a", nodes=("x1",)))
    evicted = [one for one in bench.advance(3) if isinstance(one, Evict)]
    assert [one.message for one in evicted] == [
        "Workload was evicted as there was no replacement for unhealthy node(s): x1"
    ]
    bench.rest()
    assert placed(bench, "a") == {"x3": 1, "x4": 1}


def test_a_node_that_is_back_in_time_needs_no_replacement() -> None:
    bench = tas_bench(*four_racks())
    bench.submit(job("a", 2, required=BLOCK))
    bench.send(events.NodesFailed(at=bench.now, key="ns/a", nodes=("x1",)))
    bench.send(events.NodesFailed(at=bench.now, key="ns/a", nodes=()))
    assert not [one for one in bench.advance(3) if isinstance(one, Evict | Place)]


def test_a_place_on_nodes_that_a_check_provides_is_found_after_the_check() -> None:
    bench = tas_bench(checks=["prov"])
    bench.apply(admission_check("prov", controller="kueue.x-k8s.io/provisioning-request"))
    bench.submit(job("a", 1, required=RACK))
    assert [(one.placement, one.delayed) for one in bench.record("a").admission] == [(None, "Pending")]
    update = PodSetUpdate(name="main", node_selector={"fresh": "yes"})
    verdict = CheckVerdict(state="Ready", updates=(update,))
    bench.send(events.CheckReported(at=bench.now, key="ns/a", check="prov", verdict=verdict))
    failed = [one for one in bench.advance(8) if isinstance(one, SecondPassFailed)]
    assert len(failed) == 3
    bench.send(host("x1", "b1", "r1"))
    assert placed(bench, "a") is None
    labels = {"group": "tas", BLOCK: "b1", RACK: "r1", HOST: "x2", "fresh": "yes"}
    said = bench.send(events.NodeAvailable(at=bench.now, node=node("x2", labels=labels, cpu=1, pods=1)))
    assert [type(one) for one in said] == [Place, Start]
    assert placed(bench, "a") == {"x2": 1}


@pytest.mark.parametrize(("balanced", "expected"), [(False, {"x1": 4, "x2": 2}), (True, {"x1": 3, "x2": 3})])
def test_balanced_placement_spreads_evenly_over_as_few_hosts(*, balanced: bool, expected: dict[str, int]) -> None:
    nodes = [host(name, "b1", "r1", cpu=4) for name in ("x1", "x2", "x3")]
    bench = tas_bench(*nodes, config=Config(balanced_placement=balanced))
    bench.submit(job("a", 6, preferred=RACK))
    assert placed(bench, "a") == expected


def test_a_leader_is_placed_with_its_workers() -> None:
    bench = tas_bench(host("x1", "b1", "r1", cpu=2), host("x2", "b1", "r2", cpu=4), host("x3", "b2", "r1", cpu=3))
    together = TopologyRequest(required=RACK, pod_set_group_name="g")
    bench.submit(
        workload(
            "a", pod_set("leader", cpu=1, topology=together), pod_set("workers", count=3, cpu=1, topology=together)
        )
    )
    assert placed(bench, "a", "leader") == {"x2": 1}
    assert placed(bench, "a", "workers") == {"x2": 3}


def test_a_workload_of_more_than_one_topology_flavor_is_refused() -> None:
    bench = Bench(
        topology("default", HOST),
        flavor("a", labels={"group": "tas"}, topology="default"),
        flavor("b", labels={"group": "tas"}, topology="default"),
        cluster_queue("cq", group(on("a", cpu=20)), group(on("b", memory="20Gi"))),
    )
    bench.send(host("x1", "b1", "r1", memory="4Gi"))
    bench.submit(workload("w", pod_set(cpu=1, memory="1Gi", topology=TopologyRequest(required=HOST))))
    assert "more than one TAS flavor assigned: a, b" in bench.message("w")
