"""Who is over a limit waits outside the queue with a reason, holds no quota, and starts when there is room again."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from accounting.records import START, attempt
from fairway.accounting.books import AccountBooks
from fairway.apis.fairway.quotas import parse
from fairway.apis.machinery.conditions import is_true
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.limits.controller import LimitsController
from fairway.controllers.limits.decide import LimitedRequest, gpu_hours, judge, rules_of
from fairway.testing.clusters import LocalCluster, local_cluster
from fairway.testing.servers import Server

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = "workloads.kueue.x-k8s.io"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GPU = "nvidia.com/gpu"
SPEC: dict[str, Any] = {
    "flavors": ["default-flavor"],
    "organizations": [
        {
            "name": "cluster-queue",
            "limits": [{"users": ["*"], "maximum": {"cpu": 2}, "jobs": 5}, {"users": ["eve"], "jobs": 1}],
            "budget": {"gpuHours": 1},
        }
    ],
}


def _asked(user: str, cpus: int, name: str = "new", gpus: int = 0) -> LimitedRequest:
    amounts = {"cpu": cpus * 1000, **({GPU: gpus} if gpus else {})}
    return LimitedRequest(f"default/{name}", user, "default", "default", "cluster-queue", amounts)


@pytest.mark.parametrize(
    ("asked", "held", "used", "said"),
    [
        (_asked("ana", 2), [], 0.0, ""),
        (_asked("ana", 1), [_asked("ana", 2, "a")], 0.0, "ana holds 2 of the 2 cpu"),
        (_asked("ana", 1), [_asked("bo", 2, "a")], 0.0, ""),
        (_asked("eve", 1), [_asked("eve", 0, "a")], 0.0, "eve has 1 of the 1 jobs"),
        (_asked("ana", 1, gpus=1), [], 0.5, ""),
        (_asked("ana", 1, gpus=1), [], 1.5, "has used 1.5 of 1 GPU hours in November 2026; it starts from 2026-12-01"),
        (_asked("ana", 1), [], 1.5, ""),
        (_asked("", 1), [_asked("", 2, "a")], 0.0, ""),
    ],
)
def test_limits_and_budgets(asked: LimitedRequest, held: list[LimitedRequest], used: float, said: str) -> None:
    spec, wrong = parse(SPEC)
    assert not wrong
    verdict = judge(asked, held, rules_of([spec]), lambda _organization: used, START)
    assert said in verdict.message
    assert verdict.is_over == bool(said)


def test_a_budget_counts_the_month_with_what_runs() -> None:
    books = AccountBooks()
    month = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
    books.add(books.ledger.observe([attempt("over", queued=0, started=month - 3600, ended=month + 7200)]))
    books.add(books.ledger.observe([attempt("runs", queued=0, started=START, ended=0)]))
    assert gpu_hours(books, "ml", START + 3600) == 3.0
    assert gpu_hours(books, "other", START + 3600) == 0.0


@pytest.mark.parametrize("budget", [{"gpuHours": -1}, {"gpuHours": "many"}, {"hours": 1}, 5])
def test_a_wrong_budget_is_named(budget: Any) -> None:
    organization = {**SPEC["organizations"][0], "budget": budget}
    _, wrong = parse({**SPEC, "organizations": [organization]})
    assert wrong
    assert all("spec.organizations[0].budget" in one.path for one in wrong)


def _with_quota(name: str, user: str, now: str, cpus: str = "3") -> tuple[Any, Any]:
    """A Workload that has quota and waits for the check; its status."""
    containers = [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpus}}}]
    said = {"annotations": {"fairway.dev/user": user}}
    pods = {"name": "main", "count": 1, "template": {"metadata": said, "spec": {"containers": containers}}}
    metadata = {"name": name, "namespace": "default"}
    usage = {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": cpus}}
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    status = {
        "conditions": [{**reserved, "lastTransitionTime": now}],
        "admissionChecks": [{"name": "limits", "state": "Pending", "message": "", "lastTransitionTime": now}],
        "admission": {"clusterQueue": "cluster-queue", "podSetAssignments": [usage]},
    }
    return {"metadata": metadata, "spec": {"queueName": "default", "podSets": [pods]}}, status


def requeue_state(world: LocalCluster) -> Any:
    return ((world.api.get(WORKLOADS, "large", "default") or {}).get("status") or {}).get("requeueState")


def test_where_kueue_admits_who_is_over_is_evicted_from_here_and_queued_again_in_its_time() -> None:
    """Kueue 0.19.2 keeps the quota of a Workload with Retry and a time, and no one else's time ends a back-off."""

    async def story() -> None:
        async with local_cluster() as world:
            definition = {"metadata": {"name": "company"}, "spec": SPEC}
            await world.api.create("quotadefinitions.fairway.dev", definition)
            check = {"metadata": {"name": "limits"}, "spec": {"controllerName": "fairway.dev/limits"}}
            await world.api.create("admissionchecks.kueue.x-k8s.io", check)
            async with world.running(LimitsController(world.cluster, lambda: None, kueue_admits=True)):
                workload, status = _with_quota("large", "ana", stamp(world.clock.now()))
                await world.api.create(WORKLOADS, workload, "default")
                await world.api.patch(WORKLOADS, "large", {"status": status}, subresource="status")
                found: Any = {}
                async with asyncio.timeout(30):
                    while not is_true(found, "Evicted"):
                        await asyncio.sleep(0.001)
                        found = world.api.get(WORKLOADS, "large", "default")
                assert "ana holds 0 of the 2 cpu" in found["metadata"]["annotations"]["fairway.dev/over-limit"]
                again = stamp(world.clock.now() + timedelta(seconds=10))
                assert found["status"]["requeueState"]["requeueAt"] == again
                (entry,) = found["status"]["admissionChecks"]
                assert (entry["state"], entry["retryCount"]) == ("Pending", 1)

                released = [{**one, "status": "False"} for one in status["conditions"]]
                gone = {"conditions": released, "admission": None}
                await world.api.patch(WORKLOADS, "large", {"status": gone}, subresource="status")
                await world.rest()
                world.clock.advance(9)
                await world.rest()
                assert requeue_state(world) == {"requeueAt": again}
                world.clock.advance(2)
                await world.api.until(lambda: not requeue_state(world))

    asyncio.run(story())


def test_what_a_deleted_managed_job_held_is_free_again() -> None:
    """The job goes before its Workload, which then no longer says whose it was."""

    async def story() -> None:
        async with local_cluster() as world:
            await world.api.create("quotadefinitions.fairway.dev", {"metadata": {"name": "company"}, "spec": SPEC})
            check = {"metadata": {"name": "limits"}, "spec": {"controllerName": "fairway.dev/limits"}}
            await world.api.create("admissionchecks.kueue.x-k8s.io", check)

            async def launch(name: str) -> None:
                spec = {"tasks": [{"run": "true"}], "user": "ana"}
                made = await world.api.create("managedjobs.fairway.dev", {"metadata": {"name": name}, "spec": spec})
                workload, status = _with_quota(name, "", stamp(world.clock.now()), cpus="2")
                owner = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "name": name, "controller": True}
                workload["metadata"]["ownerReferences"] = [{**owner, "uid": made["metadata"]["uid"]}]
                await world.api.create(WORKLOADS, workload, "default")
                await world.api.patch(WORKLOADS, name, {"status": status}, subresource="status")
                await world.api.until(lambda: state(name) == "Ready")

            def state(name: str) -> str:
                found: Any = world.api.get(WORKLOADS, name, "default")
                return str(found["status"]["admissionChecks"][0]["state"])

            async with world.running(LimitsController(world.cluster, lambda: None)):
                await launch("first")
                await world.api.delete("managedjobs.fairway.dev", "first")
                await world.api.until(lambda: world.api.get(WORKLOADS, "first", "default") is None)
                await launch("second")

    asyncio.run(story())


def _job(name: str, user: str, until: Path, **more: str) -> dict[str, Any]:
    script = f"while [ ! -e {until} ]; do sleep 0.1; done"
    resources = {"requests": {"cpu": "1", **more}, "limits": more}
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], "resources": resources}
    metadata = {
        "name": name,
        "labels": {"kueue.x-k8s.io/queue-name": "default"},
        "annotations": {"fairway.dev/user": user},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": metadata, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_user_over_the_limit_waits_without_quota_and_starts_when_a_job_ends(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    with Server(tmp_path / "state", "--insecure", "--cpus=8", "--gpus=2", jobs=True) as server:

        def call(method: str, path: str, body: Any, kind: str = "application/json") -> None:
            answer = server.call(method, path, body, content_type=kind)
            assert answer.code in {200, 201}, answer.body

        organization = {**SPEC["organizations"][0], "budget": {"gpuHours": 0}}
        definition = {"metadata": {"name": "company"}, "spec": {**SPEC, "organizations": [organization]}}
        call("POST", "/apis/fairway.dev/v1alpha1/quotadefinitions", definition)
        call(
            "POST",
            f"{KUEUE}/admissionchecks",
            {"metadata": {"name": "limits"}, "spec": {"controllerName": "fairway.dev/limits"}},
        )
        checks = {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "limits"}]}}}
        call("PATCH", f"{KUEUE}/clusterqueues/cluster-queue", checks, "application/merge-patch+json")
        for number in range(4):
            call("POST", JOBS, _job(f"ana-{number}", "ana", stop))
        call("POST", JOBS, _job("bo-0", "bo", stop))
        call("POST", JOBS, _job("gpu-0", "bo", stop, **{GPU: "1"}))

        def running() -> list[str]:
            items = server.call("GET", JOBS).body["items"]
            return sorted(one["metadata"]["name"] for one in items if (one.get("status") or {}).get("active"))

        def waiting() -> dict[str, str]:
            items = server.call("GET", "/apis/fairway.dev/v1alpha1/waitingjobs").body["items"]
            return {one["owner"]["name"]: one["message"] for one in items}

        def settled() -> bool:
            told = waiting()
            return len(running()) == 3 and len(told) == 3 and not any("its quota" in one for one in told.values())

        _eventually(settled)
        assert sorted(name.partition("-")[0] for name in running()) == ["ana", "ana", "bo"]
        told = waiting()
        assert "has used 0.0 of 0 GPU hours in" in told.pop("gpu-0")
        assert all("ana holds 2 of the 2 cpu that a user of team cluster-queue" in one for one in told.values()), told

        def reserving() -> int:
            status = server.call("GET", f"{KUEUE}/clusterqueues/cluster-queue").body["status"]
            return int(status["reservingWorkloads"])

        _eventually(lambda: reserving() == 3)
        stop.touch()
        _eventually(
            lambda: (
                [
                    one["metadata"]["name"]
                    for one in server.call("GET", JOBS).body["items"]
                    if not (one.get("status") or {}).get("completionTime")
                ]
                == ["gpu-0"]
            )
        )
