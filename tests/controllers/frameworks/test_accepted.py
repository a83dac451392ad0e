"""Workloads like others before them: stored just as if each had been held against the schema."""

import asyncio
import copy
from typing import Any

import pytest

from fairway.client.cluster import Writer
from fairway.controllers.frameworks.accepted import AcceptedSpecs
from fairway.errors import ValidationError
from fairway.jobs.priorities import Priority
from fairway.jobs.workloads import new_workload, pod_set
from fairway.kinds.kind import Manifest
from fairway.testing.clusters import local_cluster

WORKLOADS = "workloads.kueue.x-k8s.io"


class Watched(Writer):
    """A writer that notes what it was told about trust."""

    trusted: list[bool]

    async def create(self, resource: str, manifest: Manifest, *, trusted: bool = False) -> Manifest:
        self.trusted.append(trusted)
        return await super().create(resource, manifest, trusted=trusted)


def a_workload(name: str, *, metadata: Any = None, queue: str = "q", count: int = 1, **pod: Any) -> Manifest:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}], **pod}}
    if metadata is not None:
        template["metadata"] = metadata
    made = new_workload(name, "default", [], [pod_set("main", template, count)], queue, Priority(0, None))
    return copy.deepcopy(made)


def labels(**given: str) -> Manifest:
    return {"labels": {"batch.kubernetes.io/job-name": "train", **given}, "annotations": {"a": "b"}}


async def stored(trusted: list[bool], *workloads: Manifest) -> list[Manifest]:
    """What becomes of workloads that are made one after the other."""
    async with local_cluster() as world, world.running():
        writer = world.cluster.writer("kueue")
        watched = Watched(writer._cluster, writer._client)
        watched.trusted = trusted
        accepted = AcceptedSpecs(watched)
        return [await accepted.create(copy.deepcopy(one)) for one in workloads]


async def stored_the_long_way(workload: Manifest) -> Manifest:
    async with local_cluster() as world, world.running():
        return await world.cluster.writer("kueue").create(WORKLOADS, copy.deepcopy(workload))


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param({}, {}, True, id="the same again"),
        pytest.param({"metadata": labels()}, {"metadata": labels(other="x")}, True, id="labels of its own"),
        pytest.param({"metadata": labels()}, {}, True, id="no labels"),
        pytest.param({}, {"metadata": {"labels": {}, "annotations": {}}}, True, id="empty metadata"),
        pytest.param({}, {"count": 2}, False, id="another count"),
        pytest.param({}, {"queue": "other"}, False, id="another queue"),
        pytest.param({}, {"terminationGracePeriodSeconds": 5}, False, id="another pod"),
        pytest.param({"metadata": {"name": "named"}}, {"metadata": {"name": "named"}}, False, id="more metadata"),
        pytest.param({"metadata": {"unknown": 1}}, {"metadata": {"unknown": 1}}, False, id="unknown metadata"),
        pytest.param({}, {"metadata": {"labels": None}}, False, id="labels that are none"),
        pytest.param({"unknown": 1}, {"unknown": 1}, False, id="a field that is cut off"),
        pytest.param({"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]},
                     {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]}, False,
                     id="a field that is filled in"),
        pytest.param({"hostname": "x" * 20_000}, {"hostname": "x" * 20_000}, False, id="too large to be remembered"),
    ],
)  # fmt: skip
def test_a_workload_like_another_is_stored_as_the_long_way_would(
    first: dict[str, Any],
    second: dict[str, Any],
    want: bool,  # noqa: FBT001 - a table
) -> None:
    trusted: list[bool] = []
    made = asyncio.run(stored(trusted, a_workload("a", **first), a_workload("b", **second)))

    assert trusted == [False, want]
    assert made[1]["spec"] == asyncio.run(stored_the_long_way(a_workload("b", **second)))["spec"]
    assert list(made[1]["spec"]) == [*a_workload("b")["spec"], "active"]


def test_what_is_refused_is_refused_again() -> None:
    wrong = a_workload("a", queue="Not A Name")

    async def play() -> None:
        async with local_cluster() as world, world.running():
            accepted = AcceptedSpecs(world.cluster.writer("kueue"))
            for _ in range(2):
                with pytest.raises(ValidationError):
                    await accepted.create(copy.deepcopy(wrong))

    asyncio.run(play())


def test_only_so_many_are_remembered() -> None:
    trusted: list[bool] = []
    many = [a_workload(f"w-{number}", queue=f"q-{number % 300}") for number in range(301)]
    asyncio.run(stored(trusted, *many, a_workload("last", queue="q-299")))

    assert trusted == [False] * 301 + [True]
