"""A pod that stands alone, from its gate to its end."""

from typing import Any

import pytest

from fairway.apis.kueue.configuration import Configuration, WaitForPodsReady
from fairway.apis.machinery.kind import Manifest
from fairway.integrations.pods import is_gated

from .world import FINALIZER, PodWorld, played, pod


async def _waiting(world: PodWorld, name: str = "a", **options: Any) -> str:
    """A pod with a workload; the name of that."""
    await world.api.create("pods", pod(name, **options))
    await world.until(lambda: world.api.names("workloads"))
    return str(world.only_workload()["metadata"]["name"])


async def _running(world: PodWorld, name: str = "a", **options: Any) -> str:
    workload = await _waiting(world, name, **options)
    await world.admit(workload)
    await world.until(lambda: world.is_open(name))
    await world.run(name)
    await world.calm()
    return workload


def test_gets_a_workload_of_its_own() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world, labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"})
        made, found = world.pod("a"), world.workload(name)
        assert name.startswith("pod-a-")
        assert is_gated(made)
        assert made["metadata"]["finalizers"] == [FINALIZER]
        assert found["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": made["metadata"]["uid"]}
        [owner] = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", made["metadata"]["uid"], True)
        [pod_set] = found["spec"]["podSets"]
        assert (pod_set["name"], pod_set["count"], found["spec"]["queueName"]) == ("main", 1, "user-queue")
        assert found["spec"]["maximumExecutionTimeSeconds"] == 60
        assert await world.events("a") == [("CreatedWorkload", f"Created Workload: default/{name}")]

    played(story)


def test_starts_in_one_write_when_it_is_admitted() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        world.writes.clear()
        await world.admit(name)
        await world.until(lambda: world.is_open("a"))
        await world.calm()
        assert world.writes == [f"MODIFIED workloads/{name}", "MODIFIED pods/a"]
        started = world.pod("a")
        assert started["spec"]["nodeSelector"] == {"machine": "here"}
        assert {"key": "queue", "operator": "Exists", "effect": "NoSchedule"} in started["spec"]["tolerations"]
        assert started["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
        assert started["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == "cluster-queue"
        assert ("Started", "Admitted by clusterQueue cluster-queue") in await world.events("a")

    played(story)


def test_costs_four_writes_from_the_controller_when_it_ends_at_once() -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        await world.report("a", "Succeeded")
        await world.until(lambda: world.condition(name, "Finished"))
        await world.calm()
        by_others = ["ADDED pods/a", f"MODIFIED workloads/{name}", *["MODIFIED pods/a"] * 3]
        by_it = [f"ADDED workloads/{name}", *["MODIFIED pods/a"] * 2, f"MODIFIED workloads/{name}"]
        # The flavor was there first, and namespaces.
        assert sorted(one for one in world.writes if "flavor" not in one) == sorted(by_others + by_it)

    played(story)


def test_that_ended_can_be_deleted_at_once_and_keeps_the_finalizers_of_others() -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        found = world.pod("a")["metadata"]["finalizers"]
        await world.api.patch("pods", "a", {"metadata": {"finalizers": [*found, "example.com/mine"]}})
        await world.report("a", "Succeeded")
        await world.until(lambda: world.condition(name, "Finished"))
        await world.calm()
        assert world.pod("a")["metadata"]["finalizers"] == ["example.com/mine"]

    played(story)


@pytest.mark.parametrize(
    ("phase", "message", "want"),
    [
        pytest.param("Succeeded", "", ("True", "Succeeded", ""), id="a pod that succeeded"),
        pytest.param("Failed", "out of luck", ("True", "Failed", "out of luck"), id="a pod that failed, in its words"),
    ],
)
def test_finishes_its_workload(phase: str, message: str, want: tuple[str, str, str]) -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        await world.report("a", phase, message=message)
        await world.until(lambda: world.condition(name, "Finished"))
        assert world.condition(name, "Finished") == want
        assert ("FinishedWorkload", f"Workload 'default/{name}' is declared finished") in await world.events("a")

    played(story)


def test_evicted_is_deleted_and_gives_its_quota_back_at_once() -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        world.writes.clear()
        await world.evict(name)
        await world.until(lambda: world.condition(name, "Finished"))
        going = world.pod("a")
        assert "deletionTimestamp" in going["metadata"]
        [target] = [one for one in going["status"]["conditions"] if one["type"] == "TerminationTarget"]
        assert (target["reason"], target["message"]) == ("WorkloadEvictedDueToPreempted", "Preempted to accommodate b")
        assert world.condition(name, "QuotaReserved") == ("False", "Pending", "Preempted to accommodate b")
        assert world.condition(name, "Requeued") == ("False", "Preempted", "Preempted to accommodate b")
        assert world.condition(name, "Admitted") == ("False", "NoReservation", "The workload has no reservation")
        assert world.condition(name, "Finished") == (
            "True",
            "OwnerNotFound",
            "The workload's owner no longer exists",
        )
        assert "admission" not in world.workload(name)["status"]
        assert ("Stopped", "Preempted to accommodate b") in await world.events("a")
        assert world.writes.count(f"MODIFIED workloads/{name}") == 2  # the eviction, and what followed
        await world.end("a")
        await world.until(lambda: not world.has("workloads", name))

    played(story)


def test_evicted_before_it_has_a_node_goes_at_once_and_its_workload_after_it() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        await world.admit(name)
        await world.until(lambda: world.is_open("a"))
        await world.evict(name)
        await world.until(lambda: not world.has("pods", "a") and not world.has("workloads", name))

    played(story)


def test_evicted_behind_its_gate_waits_for_another_chance() -> None:
    """Kueue leaves such a workload un-requeued for ever, because it takes every single pod for one that is deleted."""

    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        await world.admit(name, checks=[{"name": "prov", "state": "Pending", "message": "", "lastTransitionTime": _T}])
        await world.calm()
        await world.evict(name)
        await world.until(lambda: world.condition(name, "Requeued"))
        assert world.condition(name, "Requeued") == ("True", "Preempted", "Preempted to accommodate b")
        assert is_gated(world.pod("a"))
        await world.admit(name)
        await world.until(lambda: world.is_open("a"))

    played(story)


def test_deleted_by_somebody_frees_its_quota_while_it_ends() -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        await world.api.delete("pods", "a")
        await world.until(lambda: world.condition(name, "Finished"))
        assert world.condition(name, "Finished") == (
            "True",
            "OwnerNotFound",
            "The workload's owner no longer exists",
        )

    played(story)


def test_goes_when_its_workload_is_deleted_even_behind_its_gate() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        await world.api.delete("workloads", name)
        await world.until(lambda: not world.has("pods", "a"))
        assert ("Stopped", "Workload is deleted") in await world.events("a")
        assert world.api.names("workloads") == set()

    played(story)


def test_made_again_under_its_name_is_not_taken_for_the_one_whose_workload_went() -> None:
    async def story(world: PodWorld) -> None:
        await _waiting(world)
        await world.api.delete("pods", "a")
        await world.until(lambda: not world.has("pods", "a"))
        await world.api.create("pods", pod("a"))
        await world.until(lambda: world.has("pods", "a") and len(world.api.names("workloads")) == 1)
        await world.calm()
        [owner] = world.only_workload()["metadata"]["ownerReferences"]
        assert owner["uid"] == world.pod("a")["metadata"]["uid"]

    played(story)


def made_beforehand(spec: Manifest) -> Manifest:
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": spec}}]
    return {"metadata": {"name": "beforehand"}, "spec": {"queueName": "user-queue", "podSets": pod_sets}}


def test_uses_the_workload_that_was_made_beforehand() -> None:
    async def story(world: PodWorld) -> None:
        await world.api.create("pods", pod("a", labels={"kueue.x-k8s.io/prebuilt-workload-name": "beforehand"}))
        await world.calm()
        assert world.api.names("workloads") == set()
        await world.api.create("workloads", made_beforehand(world.pod("a")["spec"]))
        await world.calm()
        [owner] = world.only_workload()["metadata"]["ownerReferences"]
        assert owner["uid"] == world.pod("a")["metadata"]["uid"]
        await world.admit("beforehand")
        await world.until(lambda: world.is_open("a"))
        await world.run("a")
        await world.report("a", "Succeeded")
        await world.until(lambda: world.condition("beforehand", "Finished"))
        assert world.reason("beforehand", "Finished") == "Succeeded"

    played(story)


def test_does_not_use_a_workload_made_beforehand_for_another_pod() -> None:
    async def story(world: PodWorld) -> None:
        await world.api.create("workloads", made_beforehand(pod("a", cpu="2")["spec"]))
        await world.api.create("pods", pod("a", labels={"kueue.x-k8s.io/prebuilt-workload-name": "beforehand"}))
        await world.until(lambda: world.condition("beforehand", "Finished"))
        assert world.reason("beforehand", "Finished") == "OutOfSync"
        assert is_gated(world.pod("a"))

    played(story)


def test_that_runs_without_admission_is_stopped() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        await world.api.patch("pods", "a", {"spec": {"schedulingGates": None}})
        await world.until(lambda: not world.has("pods", "a"))
        assert ("Stopped", "Not admitted by cluster queue") in await world.events("a")
        await world.until(lambda: not world.has("workloads", name))

    played(story)


def test_that_cannot_run_as_admitted_never_starts() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world, nodeSelector={"machine": "elsewhere"})
        await world.admit(name)
        await world.until(lambda: world.condition(name, "Finished"))
        _, reason, message = world.condition(name, "Finished") or ("", "", "")
        assert reason == "FailedToStart"
        assert message.startswith("invalid admission check PodSetUpdate: conflict for nodeSelector")
        assert is_gated(world.pod("a"))

    played(story)


def test_moves_to_another_queue_while_it_waits() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        await world.api.patch("pods", "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
        await world.until(lambda: world.workload(name)["spec"]["queueName"] == "other")

    played(story)


def test_follows_the_class_that_its_label_names() -> None:
    async def story(world: PodWorld) -> None:
        for value, name in ((10, "low"), (1000, "high")):
            await world.api.create("workloadpriorityclasses", {"metadata": {"name": name}, "value": value})
        name = await _waiting(world, labels={"kueue.x-k8s.io/priority-class": "low"})
        assert world.workload(name)["spec"]["priority"] == 10
        await world.api.patch("pods", "a", {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}})
        await world.until(lambda: world.workload(name)["spec"]["priority"] == 1000)
        assert world.workload(name)["spec"]["priorityClassRef"]["name"] == "high"
        assert ("UpdatedWorkload", f"Updated workload priority class: default/{name}") in await world.events("a")

    played(story)


def test_of_a_class_that_does_not_exist_waits_until_it_does() -> None:
    async def story(world: PodWorld) -> None:
        await world.api.create("pods", pod("a", labels={"kueue.x-k8s.io/priority-class": "later"}))
        await world.calm()
        assert world.api.names("workloads") == set()
        await world.api.create("workloadpriorityclasses", {"metadata": {"name": "later"}, "value": 7})
        await world.until(lambda: world.api.names("workloads"))
        assert world.only_workload()["spec"]["priority"] == 7

    played(story)


def test_passes_gates_and_provisioning_parameters_on() -> None:
    async def story(world: PodWorld) -> None:
        gates = "kueue.x-k8s.io/admission-gated-by"
        given = {gates: "example.com/one", "provreq.kueue.x-k8s.io/size": "4", "example.com/other": "x"}
        name = await _waiting(world, annotations=given)
        del given["example.com/other"]
        assert world.workload(name)["metadata"]["annotations"] == given
        await world.api.patch("pods", "a", {"metadata": {"annotations": {gates: None}}})
        await world.until(lambda: gates not in world.workload(name)["metadata"]["annotations"])
        assert ("UpdatedWorkload", 'Updated workload AdmissionGatedBy to ""') in await world.events("a")

    played(story)


def test_changed_while_it_waits_changes_its_workload() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        uid = world.workload(name)["metadata"]["uid"]
        containers = [{**world.pod("a")["spec"]["containers"][0], "image": "other"}]
        await world.api.patch("pods", "a", {"spec": {"containers": containers}})
        await world.until(
            lambda: world.workload(name)["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["image"] == "other"
        )
        assert world.workload(name)["metadata"]["uid"] == uid
        told = ("UpdatedWorkload", f"Updated not matching Workload for suspended job: default/{name}")
        assert told in await world.events("a")

    played(story)


def test_changed_while_it_runs_is_stopped() -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        containers = [{**world.pod("a")["spec"]["containers"][0], "image": "other"}]
        await world.api.patch("pods", "a", {"spec": {"containers": containers}})
        await world.until(lambda: "deletionTimestamp" in world.pod("a")["metadata"])
        await world.until(lambda: not world.has("workloads", name))
        told = await world.events("a")
        assert ("DeletedWorkload", f"Deleted not matching Workload: default/{name}") in told

    played(story)


def test_says_what_admission_checks_wait_for() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        check = {"name": "prov", "state": "Pending", "message": "ETA 5 min", "lastTransitionTime": _T}
        await world.admit(name, checks=[check])
        await world.calm()
        assert ("UpdatedAdmissionCheck", "prov: ETA 5 min") in await world.events("a")

    played(story)


@pytest.mark.parametrize(
    ("configuration", "seconds", "want"),
    [
        pytest.param(Configuration(), 2, ("True", "Started"), id="said a moment later"),
        pytest.param(
            Configuration(wait_for_pods_ready=WaitForPodsReady(block_admission=True)),
            0,
            ("True", "Started"),
            id="said at once where others wait for it",
        ),
        pytest.param(Configuration(wait_for_pods_ready=None), 5, None, id="not said where nobody asks"),
    ],
)
def test_readiness_of_a_pod(configuration: Configuration, seconds: float, want: tuple[str, str] | None) -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        for _ in range(round(seconds / 0.25)):
            await world.clock.run_for(0.25)
            await world.calm()
        found = world.condition(name, "PodsReady")
        assert (found and found[:2]) == want

    played(story, configuration)


def test_that_is_ready_no_more_and_then_again_has_recovered() -> None:
    async def story(world: PodWorld) -> None:
        name = await _running(world)
        await world.until(lambda: world.condition(name, "PodsReady"))
        await world.report("a", "Running", ready=False)
        await world.until(lambda: world.status(name, "PodsReady") == "False")
        assert world.reason(name, "PodsReady") == "WaitForRecovery"
        await world.report("a", "Running", ready=True)
        await world.until(lambda: world.status(name, "PodsReady") == "True")
        assert world.reason(name, "PodsReady") == "Recovered"

    played(story)


def test_that_nobody_put_into_a_queue_is_left_alone() -> None:
    async def story(world: PodWorld) -> None:
        await world.api.create("pods", pod("a", queue=None))
        await world.calm()
        assert not is_gated(world.pod("a"))
        assert world.api.names("workloads") == set()

    played(story)


def test_waits_for_ever_to_be_looked_at_while_the_framework_is_off() -> None:
    async def story(world: PodWorld) -> None:
        world.configuration.set(Configuration(frameworks=("batch/job",)))
        labels = {"kueue.x-k8s.io/managed": "true"}
        gated = pod("a", labels=labels, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
        await world.api.create("pods", gated)
        await world.calm()
        assert world.api.names("workloads") == set()
        world.configuration.set(Configuration())
        await world.until(lambda: world.api.names("workloads"))

    played(story)


def test_that_the_queue_gave_up_is_deleted_when_its_time_is_over() -> None:
    async def story(world: PodWorld) -> None:
        name = await _waiting(world)
        await world.admit(
            name, checks=[{"name": "prov", "state": "Rejected", "message": "no", "lastTransitionTime": _T}]
        )
        await world.api.patch("workloads", name, {"spec": {"active": False}})
        await world.evict(name, "DeactivatedDueToAdmissionCheck", "The workload is deactivated due to a check")
        await world.calm()
        assert world.has("pods", "a")
        await world.clock.run_for(61)
        await world.until(lambda: not world.has("pods", "a"))
        assert ("Deleted", "Deleted job: deactivation retention period expired") in await world.events("a")

    played(story, Configuration(deactivated_retention_seconds=60))


_T = "2026-01-01T00:00:00Z"
