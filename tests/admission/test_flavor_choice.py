"""Which flavor a pod set gets: resource groups, taints, selectors and affinity. Fungibility has its own file."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.admission.config import Config, Resources, Transformation
from fairway.apis.kueue.objects import ClusterQueue, ResourceFlavor
from fairway.apis.machinery.quantities import Quantity
from fairway.testing.builders import (
    Bench,
    cluster_queue,
    flavor,
    group,
    on,
    pod_set,
    topology,
    workload,
)


def selector(**labels: str) -> dict[str, Any]:
    return {"nodeSelector": labels}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def tolerations(*given: dict[str, str]) -> dict[str, Any]:
    return {"tolerations": list(given)}


SPOT_TAINT = "spot=true:NoSchedule"
TWO = cluster_queue("cq", on("first", cpu=4), on("second", cpu=4))


@pytest.mark.parametrize(
    ("queue", "requests", "want_flavors"),
    [
        pytest.param(TWO, {"cpu": 4}, {"cpu": "first"}, id="the first flavor that fits is taken"),
        pytest.param(
            cluster_queue("cq", on("first", cpu=1), on("second", cpu=4)),
            {"cpu": 4},
            {"cpu": "second"},
            id="a flavor that is too small is passed over",
        ),
        pytest.param(
            cluster_queue("cq", on("first", cpu=4, memory="1Gi"), on("second", cpu=4, memory="8Gi")),
            {"cpu": 1, "memory": "2Gi"},
            {"cpu": "second", "memory": "second"},
            id="resources of one group come from one flavor",
        ),
        pytest.param(
            cluster_queue(
                "cq", group(on("first", cpu=1), on("second", cpu=4)), group(on("small", gpu=1), on("large", gpu=8))
            ),
            {"cpu": 1, "gpu": 4},
            {"cpu": "first", "nvidia.com/gpu": "large"},
            id="resource groups choose on their own",
        ),
        pytest.param(
            TWO, {"cpu": 1, "memory": 0}, {"cpu": "first"}, id="nothing of a resource that is not covered is ignored"
        ),
        pytest.param(TWO, {}, {}, id="a workload that asks for nothing takes nothing"),
    ],
)
def test_the_flavor_of_each_resource(
    queue: ClusterQueue, requests: dict[str, Any], want_flavors: dict[str, str]
) -> None:
    bench = Bench(queue)
    bench.submit(workload("w", **requests))

    assert (bench.state("w"), bench.flavors_of("w")) == ("admitted", want_flavors)


def test_pod_sets_choose_one_after_the_other() -> None:
    """The second pod set finds what the first left: of the first flavor not enough any more."""
    bench = Bench(TWO)
    bench.submit(workload("w", pod_set("head", cpu=2), pod_set("workers", count=3, cpu=1)))

    assert bench.flavors_of("w", "head") == {"cpu": "first"}
    assert bench.flavors_of("w", "workers") == {"cpu": "second"}
    assert [(each.name, each.count, each.usage) for each in bench.record("w").admission] == [
        ("head", 1, {"cpu": 2000}),
        ("workers", 3, {"cpu": 3000}),
    ]


def test_a_workload_is_admitted_whole_or_not_at_all() -> None:
    bench = Bench(TWO)
    bench.submit(workload("w", pod_set("head", cpu=2), pod_set("workers", cpu=5)))

    assert bench.state("w") == "pending"


@pytest.mark.parametrize(
    ("spot", "pod", "want_flavor"),
    [
        pytest.param(flavor("spot"), {}, "spot", id="no taint keeps nobody away"),
        pytest.param(flavor("spot", taints=[SPOT_TAINT]), {}, "plain", id="NoSchedule keeps pods away"),
        pytest.param(flavor("spot", taints=["spot=true:NoExecute"]), {}, "plain", id="NoExecute keeps pods away"),
        pytest.param(flavor("spot", taints=["spot=true:PreferNoSchedule"]), {}, "spot", id="PreferNoSchedule does not"),
        pytest.param(
            flavor("spot", taints=[SPOT_TAINT]),
            tolerations({"key": "spot", "value": "true", "effect": "NoSchedule"}),
            "spot",
            id="a pod that tolerates the taint may run there",
        ),
        pytest.param(
            flavor("spot", taints=[SPOT_TAINT]),
            tolerations({"key": "spot", "value": "false"}),
            "plain",
            id="a toleration of another value does not help",
        ),
        pytest.param(
            flavor("spot", taints=[SPOT_TAINT, "gpu=a100:NoSchedule"]),
            tolerations({"key": "spot", "operator": "Exists"}),
            "plain",
            id="every taint must be tolerated",
        ),
        pytest.param(
            flavor("spot", taints=[SPOT_TAINT], tolerations=[SPOT_TAINT]),
            {},
            "spot",
            id="what the flavor itself tolerates is added to its pods",
        ),
        pytest.param(
            flavor("spot", labels={"type": "spot"}), selector(type="spot"), "spot", id="a selector that matches"
        ),
        pytest.param(
            flavor("spot", labels={"type": "spot"}), selector(type="plain"), "plain", id="a selector that does not"
        ),
        pytest.param(
            flavor("spot", labels={"type": "spot"}),
            selector(zone="a"),
            "spot",
            id="a selector on a key that the flavor does not have says nothing",
        ),
        pytest.param(
            flavor("spot"),
            selector(only="plain"),
            "spot",
            id="a selector on a key that only another flavor has says nothing about this one",
        ),
        pytest.param(
            flavor("spot", labels={"type": "spot"}),
            affinity([expression("type", "In", "plain", "other")]),
            "plain",
            id="required affinity that does not match",
        ),
        pytest.param(
            flavor("spot", labels={"type": "spot"}),
            affinity([expression("type", "In", "other")], [expression("type", "Exists")]),
            "spot",
            id="one of several affinity terms is enough",
        ),
        pytest.param(
            flavor("spot", labels={"type": "spot"}),
            affinity(
                [expression("type", "In", "other"), expression("zone", "In", "a")], [expression("zone", "In", "b")]
            ),
            "spot",
            id="a term that speaks only of unknown keys matches everything",
        ),
        pytest.param(
            flavor("spot", labels={"type": "spot"}),
            affinity([expression("type", "In", "spot"), expression("type", "NotIn", "spot")]),
            "plain",
            id="all expressions of a term must hold",
        ),
        pytest.param(
            flavor("spot", labels={"generation": "7"}),
            affinity([expression("generation", "Gt", "8")]),
            "plain",
            id="Gt compares numbers",
        ),
    ],
)
def test_who_may_run_on_a_flavor(spot: ResourceFlavor, pod: dict[str, Any], want_flavor: str) -> None:
    plain = flavor("plain", labels={"only": "plain"})
    bench = Bench(spot, plain, cluster_queue("cq", on("spot", cpu=4), on("plain", cpu=4)))
    bench.submit(workload("w", cpu=1, pod=pod))

    assert bench.flavors_of("w") == {"cpu": want_flavor}


def test_preferred_affinity_is_no_obstacle() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [expression("type", "In", "other")]}}]
    pod = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    bench = Bench(flavor("spot", labels={"type": "spot"}), cluster_queue("cq", on("spot", cpu=4)))
    bench.submit(workload("w", cpu=1, pod=pod))

    assert bench.state("w") == "admitted"


def test_each_pod_set_may_need_another_flavor() -> None:
    bench = Bench(
        flavor("spot", labels={"type": "spot"}),
        flavor("plain", labels={"type": "plain"}),
        cluster_queue("cq", on("spot", cpu=4), on("plain", cpu=4)),
    )
    bench.submit(
        workload(
            "w",
            pod_set("head", cpu=1, pod=selector(type="plain")),
            pod_set("workers", cpu=1, pod=selector(type="spot")),
        )
    )

    assert (bench.flavors_of("w", "head"), bench.flavors_of("w", "workers")) == ({"cpu": "plain"}, {"cpu": "spot"})


@pytest.mark.parametrize(
    ("config", "want_state"),
    [
        pytest.param(Config(), "pending", id="a resource without quota blocks"),
        pytest.param(
            Config(resources=Resources(ignore_undeclared=True)), "admitted", id="unless undeclared ones are ignored"
        ),
        pytest.param(
            Config(resources=Resources(excluded_prefixes=("example.com/",))), "admitted", id="or its prefix is excluded"
        ),
    ],
)
def test_resources_that_have_no_quota(config: Config, want_state: str) -> None:
    bench = Bench(cluster_queue(cpu=4), config=config)
    bench.submit(workload("w", pod_set(cpu=1, resources={"example.com/tape": 1})))

    assert bench.state("w") == want_state


@pytest.mark.parametrize(
    ("transformation", "want_usage"),
    [
        pytest.param(
            Transformation(outputs={"credits": Quantity.parse(3)}),
            {"example.com/gpu": 4, "credits": 12},
            id="a transformed resource is counted beside its outputs",
        ),
        pytest.param(
            Transformation(outputs={"credits": Quantity.parse(3)}, replace=True),
            {"credits": 12},
            id="or is replaced by them",
        ),
        pytest.param(
            Transformation(outputs={"credits": Quantity.parse(3)}, replace=True, multiply_by="cpu"),
            {"credits": 24},
            id="or multiplied by another request",
        ),
    ],
)
def test_transformed_resources(transformation: Transformation, want_usage: dict[str, int]) -> None:
    config = Config(resources=Resources(transformations={"example.com/gpu": transformation}))
    quotas = on("default", cpu=100, credits=100, resources={"example.com/gpu": 100})
    bench = Bench(cluster_queue("cq", quotas), config=config)
    bench.submit(workload("w", pod_set(count=2, cpu=2, resources={"example.com/gpu": 2})))
    (assigned,) = bench.record("w").admission

    assert assigned.usage == {"cpu": 4000, **want_usage}


def test_a_flavor_for_topologies_takes_nobody_who_does_not_ask_for_one() -> None:
    with_topology = flavor("racks")
    with_topology = type(with_topology)(
        metadata=with_topology.metadata, spec=type(with_topology.spec)(topology_name="default")
    )
    bench = Bench(
        topology("default", "rack"), with_topology, cluster_queue("cq", on("racks", cpu=4), on("plain", cpu=4))
    )
    bench.submit(workload("w", cpu=1))

    assert bench.flavors_of("w") == {"cpu": "plain"}
