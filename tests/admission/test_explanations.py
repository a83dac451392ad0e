"""Why a workload waits: as data, and in Kueue's words."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.admission.instructions import Explain
from fairway.admission.reasons import (
    Code,
    Explanation,
    Holder,
    Outcome,
    PodSetReasons,
    Reason,
    Shortage,
    Why,
)
from fairway.admission.wording import waiting
from fairway.testing.builders import Bench, Object, cluster_queue, cohort, flavor, on, pod_set, workload

HEAD = "couldn't assign flavors to pod set main: "


def test_the_whole_answer() -> None:
    bench = Bench(cluster_queue("a", cpu=4, cohort="all"), cluster_queue("b", cpu=4, cohort="all"))
    bench.submit(workload("own", queue="a", cpu=1, priority=3), workload("borrower", queue="b", cpu=6))
    bench.submit(workload("before", queue="a", cpu=4, priority=1), workload("w", queue="a", cpu=2))
    short = PodSetReasons("main", (Reason(Code.INSUFFICIENT_UNUSED, "default", "cpu", missing=1000, requested=2000),))

    assert bench.why("w") == Why(
        workload="ns/w",
        cluster_queue="a",
        local_queue="a",
        position=1,
        local_position=1,
        priority=0,
        explanation=Explanation(Outcome.NO_CANDIDATES, "a", (short,)),
        obstacles=(short,),
        can_ever_fit=True,
        shortages=(
            Shortage(
                "main",
                "default",
                "cpu",
                1000,
                (Holder("ns/own", "a", 3, 1000, evicting=False), Holder("ns/borrower", "b", 0, 6000, evicting=False)),
            ),
        ),
        ahead=("ns/before",),
    )


@pytest.mark.parametrize("name", ["runs", "done", "nobody"])
def test_who_does_not_wait_has_no_reason(name: str) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("runs", cpu=1), workload("done", cpu=1))
    bench.finish("done")

    assert bench.why(name) is None


@pytest.mark.parametrize(
    ("objects", "asked", "want_message", "want_can_ever_fit"),
    [
        pytest.param(
            [cluster_queue(cpu=4)],
            {"cpu": 2},
            HEAD + "insufficient unused quota for cpu in flavor default, 1 more needed",
            True,
            id="others use it: so much more is needed",
        ),
        pytest.param(
            [cluster_queue(cpu=4)],
            {"cpu": "1500m"},
            HEAD + "insufficient unused quota for cpu in flavor default, 500m more needed",
            True,
            id="cpu is counted in thousandths",
        ),
        pytest.param(
            [cluster_queue(cpu=4, memory="4Gi")],
            {"memory": "6Gi"},
            HEAD + "insufficient quota for memory in flavor default, previously considered podsets requests (0)"
            " + current podset request (6Gi) > maximum capacity (4Gi)",
            False,
            id="there never is so much",
        ),
        pytest.param(
            [cluster_queue(cpu=4)],
            {"memory": 1},
            HEAD + "resource memory unavailable in ClusterQueue",
            False,
            id="none exist",
        ),
        pytest.param(
            [
                flavor("spot", taints=["spot=true:NoSchedule"]),
                cluster_queue("cq", on("default", cpu=3), on("spot", cpu=9)),
            ],
            {"cpu": 3},
            HEAD + "insufficient unused quota for cpu in flavor default, 3 more needed,"
            " untolerated taint {spot true NoSchedule <nil>} in flavor spot",
            True,
            id="each flavor has its reason",
        ),
        pytest.param(
            [flavor("spot", taints=["spot=true:NoSchedule"]), cluster_queue("cq", on("spot", cpu=9))],
            {"cpu": 3},
            HEAD + "untolerated taint {spot true NoSchedule <nil>} in flavor spot",
            False,
            id="no flavor is left by the taints",
        ),
        pytest.param(
            [cluster_queue("cq", on("small", cpu=2), on("large", cpu=4))],
            {"cpu": 3},
            HEAD + "insufficient quota for cpu in flavor small, previously considered podsets requests (0)"
            " + current podset request (3) > maximum capacity (2),"
            " insufficient unused quota for cpu in flavor large, 2 more needed",
            True,
            id="one flavor is too small, the other would do",
        ),
    ],
)
def test_what_a_flavor_lacks(
    objects: list[Object],
    asked: dict[str, Any],
    want_message: str,
    want_can_ever_fit: bool,  # noqa: FBT001 - a table
) -> None:
    bench = Bench(*objects)
    bench.submit(workload("holder", cpu=3), workload("w", **asked))
    why = bench.why("w")

    assert why is not None
    assert (bench.message("w"), why.can_ever_fit) == (want_message, want_can_ever_fit)


def test_selectors_that_match_no_flavor() -> None:
    bench = Bench(flavor("a100", labels={"gpu": "a100"}), cluster_queue("cq", on("a100", cpu=4)))
    bench.submit(workload("w", cpu=1, pod={"nodeSelector": {"gpu": "h100"}}))
    why = bench.why("w")

    assert bench.message("w") == HEAD + "flavor a100 doesn't match node affinity"
    assert why is not None
    assert why.explanation.pod_sets == (PodSetReasons("main", (Reason(Code.AFFINITY_MISMATCH, flavor="a100"),)),)
    assert not why.can_ever_fit


def test_each_pod_set_has_its_reasons() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("holder", cpu=4))
    bench.submit(workload("w", pod_set("head", cpu=1), pod_set("workers", cpu=1, count=2), priority=-1))

    assert bench.message("w") == (
        "couldn't assign flavors to pod set head: insufficient unused quota for cpu in flavor default, 1 more needed; "
        "couldn't assign flavors to pod set workers: insufficient unused quota for cpu in flavor default, 3 more needed"
    )


def test_a_later_pod_set_is_told_what_the_earlier_ones_take() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", pod_set("head", cpu=2), pod_set("workers", cpu=1, count=3)))

    assert bench.message("w") == (
        "couldn't assign flavors to pod set workers: insufficient quota for cpu in flavor default,"
        " previously considered podsets requests (2) + current podset request (3) > maximum capacity (4)"
    )


def test_a_preemptor_says_for_how_many_it_waits() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("a", cpu=2), workload("b", cpu=2), workload("w", cpu=4, priority=1))
    why = bench.why("w")

    assert bench.message("w") == (
        HEAD
        + "insufficient unused quota for cpu in flavor default, 4 more needed. Pending the preemption of 2 workload(s)"
    )
    assert why is not None
    assert (why.explanation.outcome, why.explanation.victims) == (Outcome.PENDING_PREEMPTION, 2)
    assert [(holder.workload, holder.evicting) for holder in why.shortages[0].holders] == [
        ("ns/a", True),
        ("ns/b", True),
    ]


def test_who_was_overtaken_in_a_cycle() -> None:
    strict = [cluster_queue(name, cpu=2, cohort="all", strategy="StrictFIFO") for name in ("a", "b")]
    bench = Bench(*strict)
    said = bench.submit_together(workload("wa", queue="a", cpu=3), workload("wb", queue="b", cpu=3))
    (first, *_) = (each for each in said if isinstance(each, Explain))

    assert waiting(first.explanation) == "Workload no longer fits after processing another workload"


def test_what_is_said_once_is_not_said_again() -> None:
    bench = Bench(cluster_queue(cpu=4), cluster_queue("other", cpu=4))
    bench.submit(workload("holder", cpu=2, count=2), workload("w", cpu=4))
    said = bench.apply(cluster_queue(cpu=4)) + bench.rest()
    assert said == []

    said = bench.reclaim_pods("holder", main=1) + bench.rest()
    assert [(type(each), each.key) for each in said] == [(Explain, "ns/w")]
    assert bench.message("w").endswith("2 more needed")


def test_positions_follow_the_order_of_the_queue() -> None:
    bench = Bench(cluster_queue(cpu=1))
    bench.submit(workload("runs", cpu=1))
    bench.submit(*(workload(f"w{number:02}", cpu=1) for number in range(12)), workload("urgent", cpu=1, priority=1))
    last = bench.why("w11")

    assert last is not None
    assert (last.position, last.ahead) == (12, ("ns/urgent", *(f"ns/w{number:02}" for number in range(9))))


def test_only_borrowers_of_other_queues_are_named_as_holders() -> None:
    bench = Bench(
        cluster_queue("a", cpu=4, cohort="all"),
        cluster_queue("within", cpu=4, cohort="all"),
        cluster_queue("beyond", cpu=1, cohort="all"),
        cohort("all"),
    )
    bench.submit(workload("mine", queue="a", cpu=2), workload("theirs", queue="within", cpu=4))
    bench.submit(workload("borrows", queue="beyond", cpu=3), workload("w", queue="a", cpu=2))
    why = bench.why("w")

    assert why is not None
    assert [holder.workload for holder in why.shortages[0].holders] == ["ns/mine", "ns/borrows"]


def test_the_future_is_judged_over_all_flavors() -> None:
    """Overtaken on the first flavor, the last try spoke only of the second; once, that meant that `wb` never fits."""
    quotas = (on("f0", cpu=2), on("f1", cpu=0))
    bench = Bench(cluster_queue("a", *quotas, cohort="x"), cluster_queue("b", *quotas, cohort="x"))
    bench.submit_together(workload("wa", queue="a", cpu=3), workload("wb", queue="b", cpu=3))
    why = bench.why("wb")
    assert why is not None
    assert why.can_ever_fit
    assert "flavor f0" not in bench.message("wb")

    bench.finish("wa")
    bench.rest()
    assert bench.state("wb") == "admitted"


@pytest.mark.parametrize(
    ("explanation", "want_message"),
    [
        pytest.param(
            Explanation(
                Outcome.NO_FIT,
                pod_sets=(
                    PodSetReasons(
                        "main",
                        (
                            Reason(Code.UNTOLERATED_TAINT, flavor="f1", detail="{dedicated f1 NoSchedule <nil>}"),
                            Reason(Code.INSUFFICIENT_UNUSED, "f0", "cpu", missing=2000),
                        ),
                    ),
                ),
            ),
            HEAD + "insufficient unused quota for cpu in flavor f0, 2 more needed,"
            " untolerated taint {dedicated f1 NoSchedule <nil>} in flavor f1",
            id="reasons are sorted",
        ),
        pytest.param(
            Explanation(
                Outcome.NO_FIT,
                pod_sets=(
                    PodSetReasons("main", (Reason(Code.INSUFFICIENT_UNUSED, "g0", "nvidia.com/gpu", missing=3),)),
                ),
            ),
            HEAD + "insufficient unused quota for nvidia.com/gpu in flavor g0, 3 more needed",
            id="whole devices",
        ),
        pytest.param(
            Explanation(
                Outcome.NO_FIT, pod_sets=(PodSetReasons("main", (Reason(Code.FLAVOR_NOT_FOUND, flavor="f0"),)),)
            ),
            HEAD + "flavor f0 not found",
            id="a flavor that does not exist",
        ),
        pytest.param(
            Explanation(Outcome.QUEUE_INACTIVE, "cq-a"), "ClusterQueue cq-a is inactive", id="a stopped queue"
        ),
        pytest.param(Explanation(Outcome.DEACTIVATED), "The workload is deactivated", id="a deactivated workload"),
        pytest.param(
            Explanation(Outcome.OVERLAPPING_TARGETS),
            "Workload has overlapping preemption targets with another workload",
            id="overlapping targets",
        ),
    ],
)
def test_sentences_are_kueues(explanation: Explanation, want_message: str) -> None:
    assert waiting(explanation) == want_message


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_a_sentence(outcome: Outcome) -> None:
    reasons = (PodSetReasons("main", tuple(Reason(code, "f0", "cpu") for code in Code)),)

    assert waiting(Explanation(outcome, "subject", reasons, victims=1))
