"""Why a workload waits and what would help, in plain words."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.admission import advice
from fairway.admission.advice import Circumstances
from fairway.admission.reasons import Explanation, Outcome
from fairway.apis.machinery.quantities import UNLIMITED
from fairway.testing.builders import (
    Bench,
    Limited,
    Object,
    cluster_queue,
    cohort,
    flavor,
    key_of,
    local_queue,
    on,
    pod_set,
    workload,
)


def named(key: str) -> str:
    return f"job {key.partition('/')[2]}"


def told(bench: Bench, name: str = "w", **known: Any) -> tuple[str, list[str]]:
    """The sentence and the hints for one that waits."""
    key = key_of(name)
    why, found = bench.engine.why(key), bench.engine.remedies(key)
    assert why is not None
    assert found is not None
    message = advice.message(why.explanation, why.cluster_queue, why.position, strict=found.strict)
    return message, advice.hints(why, found, Circumstances(named, **known))


@pytest.mark.parametrize(
    ("resource", "value", "want"),
    [
        ("cpu", 6000, "6 CPUs"),
        ("cpu", 1000, "1 CPU"),
        ("cpu", 1500, "1.5 CPUs"),
        ("cpu", 100000, "100 CPUs"),
        ("cpu", 0, "0 CPUs"),
        ("memory", 16 << 30, "16Gi of memory"),
        ("memory", 512 << 20, "0.5Gi of memory"),
        ("memory", 1536 << 20, "1.5Gi of memory"),
        ("memory", 0, "0Gi of memory"),
        ("ephemeral-storage", 512 << 20, "0.5Gi ephemeral-storage"),
        ("nvidia.com/gpu", 2000, "2000 nvidia.com/gpu"),
        ("nvidia.com/gpu", 4, "4 nvidia.com/gpu"),
        ("pods", 1, "1 pod"),
        ("pods", 3, "3 pods"),
        ("cpu", UNLIMITED, "any amount of cpu"),
    ],
)
def test_amounts_are_written_as_people_write_them(resource: str, value: int, want: str) -> None:
    assert advice.amount(resource, value) == want


@pytest.mark.parametrize(
    ("objects", "running", "asked", "want_message", "want_hints"),
    [
        pytest.param(
            [cluster_queue(cpu=9)],
            [workload("train-3", cpu=6, priority=10)],
            {"cpu": 6},
            "needs 6 CPUs, 3 free in default",
            ["would start when job train-3 (6 CPUs, priority 10) ends"],
            id="somebody holds it, and no priority would help",
        ),
        pytest.param(
            [cluster_queue(cpu=9, within="LowerPriority")],
            [workload("train-3", cpu=6, priority=10)],
            {"cpu": 6},
            "needs 6 CPUs, 3 free in default",
            [
                "would start when job train-3 (6 CPUs, priority 10) ends",
                (
                    "raise the priority above 10 to preempt job train-3 (6 CPUs, priority 10), "
                    "with `fairway jobs priority w 11`"
                ),
            ],
            id="a higher priority would help",
        ),
        pytest.param(
            [cluster_queue(cpu=9)],
            [workload("a", cpu=4), workload("b", cpu=4)],
            {"cpu": 4},
            "needs 4 CPUs, 1 free in default",
            ["would start when one of these ends: job a (4 CPUs, priority 0) or job b (4 CPUs, priority 0)"],
            id="the end of any one would do",
        ),
        pytest.param(
            [cluster_queue(cpu=9)],
            [workload("a", cpu=4), workload("b", cpu=4)],
            {"cpu": 9},
            "needs 9 CPUs, 1 free in default",
            ["would start when all of these have ended: job a (4 CPUs, priority 0) and job b (4 CPUs, priority 0)"],
            id="several have to end",
        ),
        pytest.param(
            [cluster_queue(cpu=9, memory="10Gi")],
            [workload("a", cpu=4, memory="9728Mi")],
            {"cpu": 9, "memory": "768Mi"},
            "needs 9 CPUs (5 free) and 0.75Gi of memory (0.5Gi free) in default",
            ["would start when job a (4 CPUs, 9.5Gi of memory, priority 0) ends"],
            id="two resources are short",
        ),
        pytest.param(
            [cluster_queue(cpu=9)],
            [],
            {"cpu": 12},
            "asks for 12 CPUs, and default never has more than 9 CPUs",
            [
                (
                    "the queue can never give more than 9 CPUs in default: ask for less, or raise nominalQuota of cpu "
                    "in ClusterQueue cq"
                )
            ],
            id="more than there will ever be",
        ),
        pytest.param(
            [cluster_queue(cpu=9)],
            [],
            {"resources": {"cpu": 1, "nvidia.com/gpu": 1}},
            "ClusterQueue cq has no quota for nvidia.com/gpu",
            ["do not request nvidia.com/gpu, choose another queue, or give ClusterQueue cq a quota for it"],
            id="a resource that the queue does not have",
        ),
        pytest.param(
            [flavor("tainted", taints=["spot=true:NoSchedule"]), cluster_queue("cq", on("tainted", cpu=9))],
            [],
            {"cpu": 1},
            "flavor tainted has the taint {spot true NoSchedule <nil>}, which the job does not tolerate",
            ["add a toleration for {spot true NoSchedule <nil>} to the job to use tainted, or choose another queue"],
            id="a taint",
        ),
        pytest.param(
            [cluster_queue("cq", on("one", cpu=2), on("two", cpu=5))],
            [workload("a", cpu=5)],
            {"cpu": 3},
            "needs 3 CPUs, 0 free in two",
            ["would start when job a (5 CPUs, priority 0) ends"],
            id="of two flavors only the one that could do is told of",
        ),
        pytest.param(
            [cohort("all", cpu=4), cluster_queue("cq", cpu=Limited(2, borrowing=1), cohort="all")],
            [workload("a", cpu=2)],
            {"cpu": 2},
            "needs 2 CPUs, 1 free in default",
            [
                "would start when job a (2 CPUs, priority 0) ends",
                (
                    "there is unused quota in the cohort, but ClusterQueue cq borrows no more than 1 CPU of default: "
                    "raise its borrowingLimit"
                ),
            ],
            id="a borrowing limit",
        ),
    ],
)
def test_what_is_said_of_the_first_in_its_queue(
    objects: list[Object], running: list[Any], asked: dict[str, Any], want_message: str, want_hints: list[str]
) -> None:
    bench = Bench(*objects)
    bench.submit(*running)
    bench.submit(workload("w", pod_set(**asked)))

    assert told(bench, managed_job="w") == (want_message, want_hints)


def test_no_start_is_promised_to_who_is_not_first() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("a", cpu=4), workload("first", cpu=3), workload("w", cpu=4))

    message, hints = told(bench)
    assert message == "needs 4 CPUs, 0 free in default"
    assert hints == ["would have room, unless another job takes it first, when job a (4 CPUs, priority 0) ends"]


def test_no_start_is_promised_where_another_queue_may_take_the_room() -> None:
    bench = Bench(cluster_queue("a", cpu=4, cohort="all"), cluster_queue("b", cpu=4, cohort="all"))
    bench.submit(workload("x", queue="a", cpu=4), workload("y", queue="b", cpu=4))
    bench.submit(workload("other", queue="b", cpu=1), workload("w", queue="a", cpu=2))

    _, (hint,) = told(bench)
    assert hint.startswith("would have room, unless another job takes it first, when one of these ends: job x")


def test_of_many_holders_some_are_named() -> None:
    bench = Bench(cluster_queue(cpu=20))
    bench.submit(*(workload(f"a{number:02}", cpu=1) for number in range(20)))
    bench.submit(workload("w", cpu=1), workload("large", cpu=20))

    _, (one,) = told(bench)
    assert one.endswith("job a00 (1 CPU, priority 0), job a01 (1 CPU, priority 0) or job a02 (1 CPU, priority 0) "
                        "(or some others)")  # fmt: skip
    _, (many,) = told(bench, "large")
    assert many.endswith("job a04 (1 CPU, priority 0) and 15 others")


def test_room_that_is_being_made() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("low", cpu=4), workload("w", cpu=4, priority=5))

    assert told(bench) == (
        "needs 4 CPUs, 0 free in default; 1 job is being preempted for it",
        ["would start when job low (4 CPUs, priority 0) is gone: it is being stopped"],
    )


def test_behind_the_head_of_a_strict_queue() -> None:
    bench = Bench(cluster_queue(cpu=4, strategy="StrictFIFO"))
    bench.submit(workload("a", cpu=3), workload("head", cpu=4), workload("w", cpu=1))

    assert told(bench) == (
        "waits for the job ahead of it",
        ["ClusterQueue cq is StrictFIFO: the job ahead of it starts first"],
    )


def test_several_pod_sets_are_told_apart() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("a", cpu=4))
    bench.submit(workload("w", pod_set("leader", cpu=1), pod_set("workers", cpu=3)))

    message, _ = told(bench)
    assert message == "leader needs 1 CPU, 0 free in default; workers needs 4 CPUs, 0 free in default"


@pytest.mark.parametrize(
    ("objects", "known", "want"),
    [
        pytest.param(
            [cluster_queue(cpu=4, stop="Hold")],
            {"inactive": "Can't admit new workloads: is stopped."},
            ("ClusterQueue cq is inactive", ["ClusterQueue cq: Can't admit new workloads: is stopped."]),
            id="a stopped ClusterQueue",
        ),
        pytest.param(
            [local_queue("cq", "nowhere")],
            {},
            (
                "ClusterQueue nowhere does not exist",
                ["create ClusterQueue nowhere, or point LocalQueue cq to one that exists"],
            ),
            id="a queue that leads nowhere",
        ),
        pytest.param(
            [],
            {},
            (
                "queue cq does not exist",
                [
                    "create LocalQueue cq, or launch the job in an existing queue: `fairway queues -v` lists them",
                ],
            ),
            id="a queue that does not exist",
        ),
        pytest.param(
            [cluster_queue(cpu=4), local_queue("cq", "cq", stop="Hold")],
            {},
            ("queue cq is stopped", ["set spec.stopPolicy of LocalQueue cq to None"]),
            id="a stopped LocalQueue",
        ),
        pytest.param(
            [cluster_queue(cpu=4, namespaces={"team": "a"})],
            {},
            (
                "its ClusterQueue does not accept jobs of this namespace",
                [
                    (
                        "label the namespace so that the namespaceSelector of ClusterQueue cq selects it, or change "
                        "the selector"
                    )
                ],
            ),
            id="a namespace that is not selected",
        ),
    ],
)
def test_what_keeps_a_workload_from_being_tried(
    objects: list[Object], known: dict[str, Any], want: tuple[str, list[str]]
) -> None:
    bench = Bench(*objects)
    bench.submit(workload("w", cpu=1))

    assert told(bench, **known) == want


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param({}, "set spec.active of the Workload to true", id="by somebody"),
        pytest.param(
            {"held": True, "managed_job": "train-7"},
            "the job is held: `fairway jobs release train-7` queues it again",
            id="by a hold",
        ),
    ],
)
def test_what_is_deactivated(known: dict[str, Any], want: str) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=5))
    bench.set_active("w", active=False)

    message, hints = told(bench, **known)
    assert (message, hints[0]) == ("it is deactivated", want)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_a_sentence(outcome: Outcome) -> None:
    sentence = advice.message(Explanation(outcome, "something"), "cq", 0)
    assert sentence
    assert "{" not in sentence
