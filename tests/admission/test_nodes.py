"""What no node can ever run gets no quota, and gets it by itself once a node can."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairway.admission import advice
from fairway.admission.reasons import Outcome
from fairway.admission.records import GANG, POD_GROUP
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.kueue.objects import ClusterQueue, PodSet, QueueingStrategy
from fairway.testing.builders import (
    Bench,
    admission_check,
    cluster_queue,
    flavor,
    group,
    node,
    on,
    pod_set,
    workload,
)

from .worlds import examples

ACCELERATOR = "skypilot.co/accelerator"
LARGE = cluster_queue("cq", cpu=100, memory="100Gi", gpu=100)
LAPTOP = node(cpu=2, memory="4Gi")
V100 = node(cpu=8, memory="64Gi", gpu=4, labels={ACCELERATOR: "v100"})


def accelerators(*models: str) -> dict[str, Any]:
    """As the pods of a managed job ask for a model."""
    terms = [
        {"matchExpressions": [{"key": ACCELERATOR, "operator": "In", "values": list(models)}]},
        {"matchExpressions": [{"key": ACCELERATOR, "operator": "DoesNotExist"}]},
    ]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def asking(spec: dict[str, Any] | None = None, **requests: Any) -> Any:
    return workload("w", pod=spec or {}, **requests)


def sentence(bench: Bench, name: str = "w") -> str:
    why = bench.why(name)
    assert why is not None
    return advice.message(why.explanation, why.cluster_queue, why.position)


@pytest.mark.parametrize(
    ("nodes", "spec", "requests", "want"),
    [
        pytest.param(
            [LAPTOP],
            {},
            {"cpu": 6},
            "asks for 6 CPUs in one pod, and no machine here has more than 2",
            id="too many CPUs",
        ),
        pytest.param(
            [LAPTOP, node("n2", cpu=4, memory="4Gi")],
            {},
            {"cpu": 6},
            "asks for 6 CPUs in one pod, and no machine here has more than 4",
            id="too many CPUs for the largest of several",
        ),
        pytest.param(
            [LAPTOP],
            {},
            {"gpu": 1},
            "asks for 1 nvidia.com/gpu in one pod, and no machine here has any",
            id="a GPU where there is none",
        ),
        pytest.param(
            [V100],
            accelerators("t4"),
            {"gpu": 4},
            "no machine here has T4; this one has V100:4",
            id="another model than there is",
        ),
        pytest.param(
            [V100, node("n2", gpu=8, cpu=8, labels={ACCELERATOR: "a100"})],
            accelerators("t4", "l4"),
            {"gpu": 1},
            "no machine here has T4 or L4; there are V100:4, A100:8",
            id="other models than there are",
        ),
        pytest.param(
            [LAPTOP],
            {"nodeSelector": {"disk": "ssd"}},
            {"cpu": 1},
            "no machine here has the node label disk=ssd",
            id="a label that no node has",
        ),
        pytest.param(
            [node("n1", cpu=4, labels={"a": "1"}), node("n2", cpu=4, labels={"b": "1"})],
            {"nodeSelector": {"a": "1", "b": "1"}},
            {"cpu": 1},
            "no machine here has all of the node labels a=1, b=1",
            id="labels that no node has together",
        ),
        pytest.param(
            [node("n1", cpu=4, taints=["dedicated=ml:NoSchedule"])],
            {},
            {"cpu": 1},
            "its pods do not tolerate the taint dedicated=ml:NoSchedule of node n1",
            id="a taint that is not tolerated",
        ),
        pytest.param(
            [node("n1", cpu=4, memory="1Gi"), node("n2", cpu=1, memory="64Gi")],
            {},
            {"cpu": 4, "memory": "32Gi"},
            "no machine here is large enough for all that one of its pods asks for",
            id="enough of each, but not on one node",
        ),
    ],
)
def test_what_no_node_can_ever_run_is_inadmissible_with_what_there_is(
    nodes: list[NodeFacts], spec: dict[str, Any], requests: dict[str, Any], want: str
) -> None:
    bench = Bench(LARGE)
    bench.set_nodes(*nodes)

    bench.submit(asking(spec, **requests))

    why = bench.why("w")
    assert bench.state("w") == "pending"
    assert why is not None
    assert not why.can_ever_fit
    assert sentence(bench) == want


@pytest.mark.parametrize(
    ("nodes", "spec", "requests"),
    [
        pytest.param([V100], accelerators("v100"), {"gpu": 4}, id="the model that there is"),
        pytest.param(
            [node(cpu=8, gpu=4)], accelerators("t4"), {"gpu": 4}, id="a model where nobody said what there is"
        ),
        pytest.param([V100], {}, {"gpu": 4}, id="any model"),
        pytest.param([LAPTOP], {}, {"cpu": 2}, id="all of a node"),
        pytest.param([], {}, {"cpu": 6}, id="no node is known: quota alone decides"),
    ],
)
def test_what_some_node_can_run_is_admitted(
    nodes: list[NodeFacts], spec: dict[str, Any], requests: dict[str, Any]
) -> None:
    bench = Bench(LARGE)
    bench.set_nodes(*nodes)

    bench.submit(asking(spec, **requests))

    assert bench.state("w") == "admitted"


def test_only_the_size_of_one_pod_counts() -> None:
    """The pods of a Job run one after the other where they have to."""
    bench = Bench(LARGE)
    bench.set_nodes(LAPTOP)

    bench.submit(workload("w", queue="cq", cpu=1, count=5))

    assert bench.state("w") == "admitted"


# Gangs: pods that run at the same time

GANGS = pytest.mark.parametrize("kind", [GANG, POD_GROUP])


@GANGS
@pytest.mark.parametrize(
    ("nodes", "pod_sets", "want"),
    [
        pytest.param(
            [LAPTOP],
            [pod_set(count=3, cpu=1)],
            "its 3 pods run together, and the machines here have room for 2 of them",
            id="more pods than one machine has room for",
        ),
        pytest.param(
            [node("n1", cpu=3), node("n2", cpu=3)],
            [pod_set(count=3, cpu=2)],
            "its 3 pods run together, and the machines here have room for 2 of them",
            id="enough CPUs in all, but each pod needs two on one machine",
        ),
        pytest.param(
            [LAPTOP],
            [pod_set("a", count=1, cpu=1), pod_set("b", count=2, cpu=1)],
            "its pods run together and ask for 3 CPUs, the machines here have 2 CPUs",
            id="several pod sets that fit one by one",
        ),
        pytest.param(
            [node("n1", cpu=2, labels={"disk": "ssd"}), node("n2", cpu=8)],
            [pod_set(count=3, cpu=1, pod={"nodeSelector": {"disk": "ssd"}})],
            "its 3 pods run together, and the machines here have room for 2 of them",
            id="only the nodes that the pods select count",
        ),
        pytest.param(
            [node("n1", cpu=2), node("n2", cpu=8, taints=["dedicated=ml:NoSchedule"])],
            [pod_set(count=3, cpu=1)],
            "its 3 pods run together, and the machines here have room for 2 of them",
            id="only the nodes that the pods tolerate count",
        ),
        pytest.param(
            [replace(node(cpu=3, gpu=6), models={"v100": 4, "t4": 2})],
            [pod_set(count=4, cpu=1, gpu=1)],
            "its 4 pods run together, and the machines here have room for 3 of them",
            id="models of one machine share its CPUs",
        ),
    ],
)
def test_a_gang_that_all_nodes_together_cannot_run_is_inadmissible(
    kind: str, nodes: list[NodeFacts], pod_sets: list[PodSet], want: str
) -> None:
    bench = Bench(LARGE)
    bench.set_nodes(*nodes)

    bench.submit(workload("w", *pod_sets, annotations={kind: "true"}))

    why = bench.why("w")
    assert bench.state("w") == "pending"
    assert why is not None
    assert not why.can_ever_fit
    assert sentence(bench) == want


def test_a_gang_that_is_too_large_holds_up_nobody_and_runs_when_a_node_comes() -> None:
    bench = Bench(cluster_queue("cq", cpu=100, strategy="StrictFIFO"))
    bench.set_nodes(LAPTOP)
    bench.submit(workload("w", cpu=1, count=4, annotations={GANG: "true"}))
    bench.submit(workload("later", cpu=1))
    assert bench.states() == {"w": "pending", "later": "admitted"}

    bench.set_nodes(LAPTOP, node("n2", cpu=2))
    bench.rest()
    assert bench.state("w") == "admitted"


def test_a_gang_and_a_job_with_the_same_pods_do_not_wait_in_one_lane() -> None:
    bench = Bench(LARGE)
    bench.set_nodes(LAPTOP)
    bench.submit(workload("gang", cpu=1, count=5, annotations={GANG: "true"}), workload("job", cpu=1, count=5))

    assert bench.states() == {"gang": "pending", "job": "admitted"}


@examples(150)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=4),
    st.tuples(st.integers(1, 4), st.integers(0, 4)),
    st.integers(1, 20),
)
def test_one_kind_of_pod_is_refused_exactly_when_it_does_not_fit(
    sizes: list[tuple[int, int]], pod: tuple[int, int], count: int
) -> None:
    """Packed node by node, as the scheduler does."""
    cpu, gpu = pod
    fits = sum(min(cpus // cpu, gpus // gpu if gpu else cpus) for cpus, gpus in sizes)
    bench = Bench(cluster_queue("cq", cpu=1000, gpu=1000))
    bench.set_nodes(*(node(f"n{number}", cpu=cpus, gpu=gpus) for number, (cpus, gpus) in enumerate(sizes)))

    bench.submit(workload("w", cpu=cpu, gpu=gpu, count=count, annotations={GANG: "true"}))

    assert (bench.state("w") == "admitted") == (count <= fits)


@examples(150)
@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=4), min_size=1, max_size=3)
)
def test_a_gang_that_fits_is_never_refused(pods_by_node: list[list[tuple[int, int]]]) -> None:
    """Nodes that are just large enough for the pods on them: a packing exists."""
    bench = Bench(cluster_queue("cq", cpu=1000, gpu=1000))
    bench.set_nodes(
        *(
            node(f"n{number}", cpu=sum(cpu for cpu, _ in pods), gpu=sum(gpu for _, gpu in pods))
            for number, pods in enumerate(pods_by_node)
        )
    )
    counts = Counter(pod for pods in pods_by_node for pod in pods)
    sets = [
        pod_set(f"s{number}", count=count, cpu=cpu, gpu=gpu)
        for number, ((cpu, gpu), count) in enumerate(counts.items())
    ]

    bench.submit(workload("w", *sets, annotations={POD_GROUP: "true"}))

    assert bench.state("w") == "admitted"


def test_a_node_that_comes_or_grows_lets_it_in_by_itself() -> None:
    bench = Bench(LARGE)
    bench.set_nodes(LAPTOP)
    bench.submit(asking(cpu=6))
    assert bench.state("w") == "pending"

    bench.set_nodes(LAPTOP, node("n2", cpu=8))
    bench.rest()

    assert bench.state("w") == "admitted"


def test_what_runs_is_left_alone_when_its_node_shrinks() -> None:
    bench = Bench(LARGE)
    bench.set_nodes(node(cpu=8))
    bench.submit(asking(cpu=6))

    bench.set_nodes(LAPTOP)
    bench.rest()

    assert bench.state("w") == "admitted"
    assert not bench.evictions()


def test_a_flavor_without_a_node_is_passed_over() -> None:
    bench = Bench(
        flavor("spot", labels={"capacity": "spot"}),
        flavor("reserved", labels={"capacity": "reserved"}),
        cluster_queue("cq", on("spot", cpu=10), on("reserved", cpu=10)),
    )
    bench.set_nodes(node(cpu=4, labels={"capacity": "reserved"}))

    bench.submit(asking(cpu=2))

    assert bench.flavors_of("w") == {"cpu": "reserved"}


def test_more_than_the_quota_is_said_as_kueue_says_it() -> None:
    bench = Bench(cluster_queue("cq", cpu=4))
    bench.set_nodes(LAPTOP)

    bench.submit(asking(cpu=6))

    assert "> maximum capacity (4)" in bench.message("w")


def test_models_that_are_flavors_say_what_no_machine_has() -> None:
    bench = Bench(
        flavor("v100", labels={ACCELERATOR: "v100"}),
        cluster_queue("cq", on("v100", cpu=8, gpu=4)),
    )
    bench.set_nodes(V100)

    bench.submit(asking(accelerators("t4"), gpu=1))

    assert sentence(bench) == "no machine here has T4; this one has V100:4"


def test_where_checks_are_asked_for_they_say_whether_there_is_capacity() -> None:
    queue = cluster_queue("cq", cpu=100, checks=["provisioning"])
    bench = Bench(admission_check("provisioning"), queue)
    bench.set_nodes(LAPTOP)

    bench.submit(asking(cpu=6))

    assert bench.state("w") == "reserved"


@pytest.mark.parametrize("strategy", list(QueueingStrategy))
@pytest.mark.parametrize(
    "hopeless",
    [asking(cpu=6), asking({"schedulerName": "yunikorn"}, cpu=1)],
    ids=["no node", "no scheduler"],
)
def test_one_that_can_never_run_holds_up_nobody(strategy: QueueingStrategy, hopeless: Any) -> None:
    queue: ClusterQueue = cluster_queue("cq", cpu=100, strategy=strategy)
    bench = Bench(queue)
    bench.set_nodes(LAPTOP)

    bench.submit(hopeless)
    bench.submit(workload("later", queue="cq", cpu=1))

    assert bench.states() == {"w": "pending", "later": "admitted"}


def test_an_unknown_scheduler_is_inadmissible_and_alone() -> None:
    bench = Bench(LARGE)
    bench.set_nodes(LAPTOP)

    bench.submit(asking({"schedulerName": "yunikorn"}, cpu=1))

    why = bench.why("w")
    assert why is not None
    assert why.explanation.outcome is Outcome.SCHEDULER_MISSING
    assert not why.explanation.can_ever_fit
    assert sentence(bench) == "its pods name the scheduler yunikorn, which does not run here"


def test_a_scheduler_that_comes_lets_it_in() -> None:
    bench = Bench(LARGE)
    bench.set_nodes(LAPTOP)
    bench.submit(asking({"schedulerName": "yunikorn"}, cpu=1))

    bench.set_nodes(LAPTOP, schedulers=["default-scheduler", "yunikorn"])
    bench.rest()

    assert bench.state("w") == "admitted"


def test_several_models_of_one_machine_are_told_apart() -> None:
    machine = replace(node(cpu=8, gpu=6), models={"v100": 4, "t4": 2})
    bench = Bench(
        flavor("v100", labels={ACCELERATOR: "v100"}),
        flavor("t4", labels={ACCELERATOR: "t4"}),
        cluster_queue("cq", group(on("default", cpu=8)), group(on("v100", gpu=4), on("t4", gpu=2))),
    )
    bench.set_nodes(machine)

    bench.submit(workload("small", pod=accelerators("t4"), gpu=2))
    bench.submit(workload("none", pod=accelerators("l4"), gpu=1))

    assert bench.flavors_of("small")["nvidia.com/gpu"] == "t4"
    assert sentence(bench, "none") == "no machine here has L4; this one has V100:4, T4:2"
