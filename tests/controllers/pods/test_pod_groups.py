"""Pods that are admitted as one: composing, starting, replacing, ending, evicting."""

from typing import Any

import pytest

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.errors import ValidationError
from fairway.integrations.pods import is_gated

from .world import FINALIZER, GROUP, TOTAL, PodWorld, played, pod

_T = "2026-01-01T00:00:00Z"
_WAITING = "WaitingForReplacementPods"


async def _group(world: PodWorld, *names: str, total: int | None = None, **options: Any) -> None:
    """Pods of the group `g`, created one after the other."""
    for name in names:
        await world.api.create(
            "pods",
            pod(name, group="g", total=len(names) if total is None else total, **options),
        )
        await world.clock.run_for(1)


async def _composed(world: PodWorld, *names: str, **options: Any) -> None:
    await _group(world, *names, **options)
    await world.until(lambda: world.has("workloads", "g"))


async def _running(world: PodWorld, *names: str, **options: Any) -> None:
    await _composed(world, *names, **options)
    await world.admit("g")
    await world.until(lambda: all(world.is_open(name) for name in names))
    for name in names:
        await world.run(name)
    await world.calm()


def _held(world: PodWorld, name: str) -> bool:
    return FINALIZER in (world.pod(name)["metadata"].get("finalizers") or ())


def _owners(workload: Manifest) -> set[str]:
    return {owner["name"] for owner in workload["metadata"]["ownerReferences"]}


def test_a_complete_group_gets_one_workload_with_a_pod_set_a_role() -> None:
    async def story(world: PodWorld) -> None:
        await _group(world, "a", total=3)
        await _group(world, "b", total=3)
        assert world.api.names("workloads") == set()
        few = ("ErrWorkloadCompose", "'g' group has fewer runnable pods than expected")
        assert few in await world.events("a")
        await _composed(world, "big", total=3, cpu="4")
        found = world.workload("g")
        assert found["metadata"]["annotations"]["kueue.x-k8s.io/is-group-workload"] == "true"
        assert _owners(found) == {"a", "b", "big"}
        assert not any(owner.get("controller") for owner in found["metadata"]["ownerReferences"])
        sizes = {one["name"]: one["count"] for one in found["spec"]["podSets"]}
        roles = [world.pod(name)["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] for name in ("a", "big")]
        assert sizes == {roles[0]: 2, roles[1]: 1}
        assert list(sizes) == sorted(sizes)
        assert ("CreatedWorkload", "Created Workload: default/g") in await world.events("a")
        assert all(is_gated(world.pod(name)) and _held(world, name) for name in ("a", "b", "big"))

    played(story)


def test_an_admitted_group_starts_as_a_whole() -> None:
    async def story(world: PodWorld) -> None:
        await _composed(world, "a", "b")
        world.writes.clear()
        await world.admit("g")
        await world.until(lambda: world.is_open("a") and world.is_open("b"))
        await world.calm()
        assert sorted(world.writes) == ["MODIFIED pods/a", "MODIFIED pods/b", "MODIFIED workloads/g"]
        for name in ("a", "b"):
            assert ("Started", "Admitted by clusterQueue cluster-queue") in await world.events(name)
            assert world.pod(name)["spec"]["nodeSelector"] == {"machine": "here"}

    played(story)


def test_a_group_of_which_one_pod_cannot_run_does_not_start_at_all() -> None:
    async def story(world: PodWorld) -> None:
        await _group(world, "a", total=2)
        await _composed(world, "b", total=2, nodeSelector={"machine": "elsewhere"})
        await world.admit("g")
        await world.until(lambda: world.condition("g", "Finished"))
        assert world.reason("g", "Finished") == "FailedToStart"
        await world.calm()
        assert is_gated(world.pod("a"))
        assert is_gated(world.pod("b"))
        assert not _held(world, "a")

    played(story)


def test_fast_admission_needs_one_pod_and_starts_the_others_as_they_come() -> None:
    async def story(world: PodWorld) -> None:
        fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
        await _composed(world, "a", total=3, annotations=fast)
        [pod_set] = world.workload("g")["spec"]["podSets"]
        assert pod_set["count"] == 3
        await world.admit("g")
        await world.until(lambda: world.is_open("a"))
        assert world.condition("g", _WAITING) is None
        await _group(world, "b", total=3, annotations=fast)
        await world.until(lambda: world.is_open("b"))
        assert _owners(world.workload("g")) == {"a", "b"}
        assert ("OwnerReferencesAdded", "Added 1 owner reference(s)") in await world.events("g")

    played(story)


@pytest.mark.parametrize("admitted", [False, True])
def test_pods_that_are_too_many_are_deleted_the_youngest_first(*, admitted: bool) -> None:
    async def story(world: PodWorld) -> None:
        await _composed(world, "a", "b")
        if admitted:
            await world.admit("g")
            await world.until(lambda: world.is_open("a") and world.is_open("b"))
        await _group(world, "c", total=2)
        await world.until(lambda: not world.has("pods", "c"))
        assert world.has("pods", "a")
        assert world.has("pods", "b")
        assert ("ExcessPodDeleted", "Excess pod deleted") in await world.events("c")

    played(story)


def test_pods_that_are_too_many_before_there_is_a_workload_are_deleted() -> None:
    async def story(world: PodWorld) -> None:
        await world.stop()
        await _group(world, "a", "b", "c", total=2)
        await world.start()
        await world.until(lambda: not world.has("pods", "c"))
        await world.until(lambda: world.has("workloads", "g"))
        assert _owners(world.workload("g")) == {"a", "b"}

    played(story)


def test_pods_that_all_were_deleted_before_admission_are_replaced() -> None:
    async def story(world: PodWorld) -> None:
        await _composed(world, "a", "b")
        for name in ("a", "b"):
            await world.api.delete("pods", name)
        await world.until(lambda: world.status("g", _WAITING) == "True")
        await _group(world, "c", "d", "e", total=2)
        await world.until(lambda: not any(world.has("pods", name) for name in ("a", "b", "e")))
        await world.until(lambda: world.status("g", _WAITING) == "False")
        assert world.has("pods", "c")
        assert world.has("pods", "d")

    played(story)


def test_all_succeeded_finishes_the_group_and_lets_its_pods_go() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        await world.report("a", "Succeeded")
        await world.until(lambda: world.workload("g")["status"].get("reclaimablePods"))
        [pod_set] = world.workload("g")["spec"]["podSets"]
        assert world.workload("g")["status"]["reclaimablePods"] == [{"name": pod_set["name"], "count": 1}]
        assert world.condition("g", "Finished") is None
        await world.report("b", "Succeeded")
        await world.until(lambda: world.condition("g", "Finished"))
        assert world.condition("g", "Finished") == ("True", "Succeeded", "Pods succeeded: 2/2.")
        await world.until(lambda: not _held(world, "a") and not _held(world, "b"))
        assert ("FinishedWorkload", "Workload 'default/g' is declared finished") in await world.events("a")

    played(story)


def test_a_pod_that_succeeded_counts_although_it_was_deleted() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        await world.report("a", "Succeeded")
        await world.api.delete("pods", "a")
        await world.calm()
        assert world.has("pods", "a")
        await world.report("b", "Succeeded")
        await world.until(lambda: world.condition("g", "Finished"))
        assert world.condition("g", "Finished") == ("True", "Succeeded", "Pods succeeded: 2/2.")
        await world.until(lambda: not world.has("pods", "a"))

    played(story)


def test_a_failed_pod_is_waited_for_and_its_replacement_starts_in_its_place() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        await world.report("b", "Failed")
        await world.until(lambda: world.condition("g", _WAITING))
        assert world.condition("g", _WAITING) == ("True", "PodsFailed", "Some Failed pods need replacement")
        assert world.condition("g", "Finished") is None
        assert _held(world, "b")
        await _group(world, "c", total=2)
        await world.until(lambda: world.is_open("c"))
        await world.until(lambda: not _held(world, "b"))
        assert world.condition("g", _WAITING) == ("False", "PodsReady", "No pods need replacement")
        assert "c" in _owners(world.workload("g"))
        await world.run("c")
        for name in ("a", "c"):
            await world.report(name, "Succeeded")
        await world.until(lambda: world.condition("g", "Finished"))
        assert world.condition("g", "Finished") == ("True", "Succeeded", "Pods succeeded: 2/2.")

    played(story)


def test_a_failed_pod_that_is_not_replaced_keeps_the_group_open() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        await world.report("a", "Succeeded")
        await world.report("b", "Failed")
        await world.calm()
        await world.clock.run_for(3600)
        await world.calm()
        assert world.condition("g", "Finished") is None

    played(story)


def test_a_pod_that_may_not_be_retried_ends_the_group_once_none_runs() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        await world.report("b", "Failed")
        retriable = {"metadata": {"annotations": {"kueue.x-k8s.io/retriable-in-group": "false"}}}
        await world.api.patch("pods", "b", retriable)
        await world.calm()
        assert world.condition("g", "Finished") is None
        await world.report("a", "Succeeded")
        await world.until(lambda: world.condition("g", "Finished"))
        assert world.condition("g", "Finished") == ("True", "Succeeded", "Pods succeeded: 1/2.")
        with pytest.raises(ValidationError, match="unretriable pod group can't be converted to retriable"):
            await world.api.patch(
                "pods", "b", {"metadata": {"annotations": {"kueue.x-k8s.io/retriable-in-group": "true"}}}
            )

    played(story)


def test_a_serving_group_never_finishes_and_gives_nothing_back() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", annotations={"kueue.x-k8s.io/pod-group-serving": "true"})
        await world.report("a", "Succeeded")
        await world.calm()
        assert world.condition("g", "Finished") is None
        assert not world.workload("g")["status"].get("reclaimablePods")

    played(story)


def test_an_evicted_group_holds_its_quota_until_none_of_its_pods_runs() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        await world.evict("g")
        await world.until(lambda: all("deletionTimestamp" in world.pod(name)["metadata"] for name in ("a", "b")))
        for name in ("a", "b"):
            [target] = [one for one in world.pod(name)["status"]["conditions"] if one["type"] == "TerminationTarget"]
            assert target["reason"] == "WorkloadEvictedDueToPreempted"
            assert ("Stopped", "Preempted to accommodate b") in await world.events(name)
        await world.end("a")
        await world.calm()
        assert world.status("g", "QuotaReserved") == "True"
        await world.end("b")
        await world.until(lambda: world.status("g", "QuotaReserved") == "False")
        assert world.condition("g", "QuotaReserved") == ("False", "Pending", "Preempted to accommodate b")
        assert world.condition("g", "Requeued") == ("True", "Preempted", "Preempted to accommodate b")
        assert world.condition("g", _WAITING) == ("True", "Preempted", "Preempted to accommodate b")
        assert "admission" not in world.workload("g")["status"]

    played(story)


def test_an_evicted_group_goes_on_with_the_pods_that_are_made_again() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        uid = world.workload("g")["metadata"]["uid"]
        await world.evict("g")
        await world.until(lambda: all("deletionTimestamp" in world.pod(name)["metadata"] for name in ("a", "b")))
        for name in ("a", "b"):
            await world.end(name)
        await world.until(lambda: world.status("g", "QuotaReserved") == "False")
        await _group(world, "c", total=2)
        await world.calm()
        assert world.status("g", _WAITING) == "True"
        await _group(world, "d", total=2)
        await world.until(lambda: world.status("g", _WAITING) == "False")
        await world.until(lambda: not world.has("pods", "a") and not world.has("pods", "b"))
        assert is_gated(world.pod("c"))
        await world.admit("g")
        await world.until(lambda: world.is_open("c") and world.is_open("d"))
        assert world.workload("g")["metadata"]["uid"] == uid

    played(story)


def test_pods_made_again_while_the_old_ones_still_end_are_kept() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a", "b")
        await world.evict("g")
        await world.until(lambda: all("deletionTimestamp" in world.pod(name)["metadata"] for name in ("a", "b")))
        await _group(world, "c", "d", total=2)
        await world.calm()
        assert is_gated(world.pod("c"))
        assert is_gated(world.pod("d"))
        assert world.status("g", "QuotaReserved") == "True"
        for name in ("a", "b"):
            await world.end(name)
        await world.until(lambda: world.status("g", "QuotaReserved") == "False")
        assert world.status("g", _WAITING) == "False"
        assert not world.has("pods", "a")

    played(story)


def test_pods_that_do_not_end_in_time_hold_no_quota() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a")
        await world.evict("g")
        await world.until(lambda: "deletionTimestamp" in world.pod("a")["metadata"])
        await world.clock.run_for(58)
        await world.calm()
        assert world.status("g", "QuotaReserved") == "True"
        await world.clock.run_for(5)
        await world.until(lambda: world.status("g", "QuotaReserved") == "False")

    played(story)


def test_a_workload_of_the_same_name_that_is_not_the_groups_keeps_it_from_starting() -> None:
    async def story(world: PodWorld) -> None:
        template = {"spec": pod("x")["spec"]}
        foreign = {"metadata": {"name": "g"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]}}
        await world.api.create("workloads", foreign)
        await _group(world, "a", total=1)
        await world.calm()
        told = 'A Workload named "g" already exists but is not a pod group workload; this pod group cannot be admitted'
        assert ("WorkloadNameConflict", told) in await world.events("a")
        await world.api.delete("workloads", "g")
        await world.until(lambda: world.has("workloads", "g"))
        assert _owners(world.workload("g")) == {"a"}

    played(story)


@pytest.mark.parametrize(
    "queue", [pytest.param("user-queue", id="of a queue"), pytest.param(None, id="that no queue manages")]
)
def test_pods_that_name_a_foreign_workload_as_their_group_come_and_go_and_leave_it_as_it_is(queue: str | None) -> None:
    async def story(world: PodWorld) -> None:
        template = {"spec": pod("x")["spec"]}
        foreign = {"metadata": {"name": "g"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]}}
        await world.api.create("workloads", foreign)
        await world.admit("g")
        before = world.workload("g")
        await world.api.create("pods", pod("a", queue=queue, group="g", total=1))
        await world.calm()
        await world.api.delete("pods", "a")
        await world.until(lambda: not world.has("pods", "a"))
        await world.calm()
        assert world.workload("g") == before

    played(story)


def test_all_pods_go_when_somebody_deletes_the_workload() -> None:
    async def story(world: PodWorld) -> None:
        await _composed(world, "a", "b")
        await world.api.delete("workloads", "g")
        await world.until(lambda: not world.has("pods", "a") and not world.has("pods", "b"))
        assert ("Stopped", "Workload is deleted") in await world.events("a")

    played(story)


def test_an_incomplete_group_lets_deleted_pods_go() -> None:
    async def story(world: PodWorld) -> None:
        await _group(world, "a", total=2)
        await world.api.delete("pods", "a")
        await world.until(lambda: not world.has("pods", "a"))

    played(story)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            {"labels": {"kueue.x-k8s.io/queue-name": "other"}},
            "pods 'a' and 'b' has different queue names: user-queue!=other",
            id="of different queues",
        ),
        pytest.param(
            {"annotations": {TOTAL: "3"}},
            f"pods 'a' and 'b' has different '{TOTAL}' values: 2!=3",
            id="of groups of different sizes",
        ),
    ],
)
def test_pods_that_do_not_fit_together_get_no_workload(change: Manifest, want: str) -> None:
    async def story(world: PodWorld) -> None:
        await _group(world, "a", total=2)
        other = pod("b", group="g", total=2)
        for field, values in change.items():
            other["metadata"][field].update(values)
        await world.api.create("pods", other)
        await world.calm()
        assert world.api.names("workloads") == set()
        assert ("ErrWorkloadCompose", want) in await world.events("a")

    played(story)


def test_another_limit_of_time_makes_another_workload() -> None:
    async def story(world: PodWorld) -> None:
        await _composed(world, "a")
        assert "maximumExecutionTimeSeconds" not in world.workload("g")["spec"]
        label = {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}}}
        await world.api.patch("pods", "a", label)
        await world.until(lambda: world.workload("g")["spec"].get("maximumExecutionTimeSeconds") == 60)
        told = ("UpdatedWorkload", "Updated not matching Workload for suspended job: default/g")
        assert told in await world.events("a")

    played(story)


def test_another_limit_of_time_with_quota_begins_anew() -> None:
    async def story(world: PodWorld) -> None:
        await _composed(world, "a")
        before = world.workload("g")["metadata"]["uid"]
        check = {"name": "prov", "state": "Pending", "message": "", "lastTransitionTime": _T}
        await world.admit("g", checks=[check])
        await world.api.patch("pods", "a", {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}}})
        await world.until(lambda: world.has("workloads", "g") and world.workload("g")["metadata"]["uid"] != before)
        assert world.workload("g")["spec"]["maximumExecutionTimeSeconds"] == 60
        assert ("DeletedWorkload", "Deleted not matching Workload: default/g") in await world.events("a")

    played(story)


def test_readiness_needs_all_pods() -> None:
    async def story(world: PodWorld) -> None:
        await _composed(world, "a", "b")
        await world.admit("g")
        await world.until(lambda: world.is_open("a") and world.is_open("b"))
        await world.run("a")
        await world.until(lambda: world.condition("g", "PodsReady"))
        assert (world.status("g", "PodsReady"), world.reason("g", "PodsReady")) == ("False", "WaitForStart")
        await world.run("b")
        await world.until(lambda: world.status("g", "PodsReady") == "True")

    played(story)


def test_a_group_by_annotation_is_a_group_as_well() -> None:
    async def story(world: PodWorld) -> None:
        await world.api.create("pods", pod("a", annotations={GROUP: "g", TOTAL: "1"}))
        await world.until(lambda: world.has("workloads", "g"))
        assert _held(world, "a")

    played(story)


def test_labels_to_copy_are_those_that_all_pods_agree_on() -> None:
    async def story(world: PodWorld) -> None:
        await _group(world, "a", total=2, labels={"team": "red"})
        await _composed(world, "b", total=2)
        assert world.workload("g")["metadata"]["labels"] == {"team": "red"}

    played(story, Configuration(label_keys_to_copy=("team",)))


def test_a_group_of_which_all_pods_are_gone_leaves_nothing() -> None:
    async def story(world: PodWorld) -> None:
        await _running(world, "a")
        await world.report("a", "Succeeded")
        await world.until(lambda: not _held(world, "a"))
        await world.api.delete("pods", "a")
        await world.until(lambda: not world.has("workloads", "g"))

    played(story)
