"""One pod that stands alone: from its gate to its end.

Its workload goes with it: the pod is its only owner. A finalizer keeps the pod until its workload is finished, so that
its end is seen and counted also if it is deleted while no controller runs.
"""

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.workloads import OUT_OF_SYNC
from fairway.controllers.pods.act import PodWriter
from fairway.integrations import conditions, following, injection, pods
from fairway.integrations.webhooks import prebuilt_workload
from fairway.integrations.workloads import controller_of


class SinglePods:
    """Brings single pods and their workloads in line."""

    def __init__(self, cluster: Cluster, configuration: ConfigurationSource, effects: PodWriter) -> None:
        self._clock = cluster.clock
        self._configuration = configuration
        self._writer = effects
        self._pods = cluster.cache("pods")
        self._workloads = cluster.cache("workloads")
        self._flavors = cluster.cache("resourceflavors")

    async def reconcile(self, pod: Manifest, abandoned: frozenset[str]) -> float | None:
        """One look at a pod; the seconds after which to look again, if time alone can change something.

        `abandoned` are the UIDs of pods whose workload was deleted.
        """
        workload = self._workload_of(pod)
        if workload is None and (waiting := self._prebuilt(pod)) is not None:
            workload = await self._writer.take_over(waiting, pod)
        if workload is None:
            await self._without_workload(pod, workload_deleted=pod["metadata"]["uid"] in abandoned)
            return None
        if conditions.is_true(workload, conditions.FINISHED):
            await self._writer.let_go([pod])
            return None
        outcome = pods.outcome(pod)
        if outcome is not None:
            reason = "Succeeded" if outcome.succeeded else "Failed"
            await self._writer.finish(workload, pod, reason, outcome.message)
            await self._writer.let_go([pod])
            return None
        if pods.is_deleting(pod):
            await self._orphan(workload, pod)
            return None
        if not pods.matches(pod, workload, self._flavor):
            await self._make_match(pod, workload)
            return None
        workload = await self._writer.keep_in_step(workload, pod)
        if conditions.is_true(workload, conditions.EVICTED):
            return await self._evict(pod, workload)
        return await self._run(pod, workload)

    def _workload_of(self, pod: Manifest) -> Manifest | None:
        name = prebuilt_workload(pod) or pods.name_of_workload(pod)
        found = self._workloads.get(pod["metadata"]["namespace"], name)
        owned = found is not None and any(
            owner["uid"] == pod["metadata"]["uid"] for owner in found["metadata"].get("ownerReferences") or ()
        )
        return found if owned else None

    def _prebuilt(self, pod: Manifest) -> Manifest | None:
        """The workload that was made beforehand for a pod, while no other controls it."""
        found = self._workloads.get(pod["metadata"]["namespace"], prebuilt_workload(pod))
        return found if found is not None and controller_of(found) is None else None

    def _flavor(self, name: str) -> Manifest | None:
        return self._flavors.get("", name)

    async def _without_workload(self, pod: Manifest, *, workload_deleted: bool) -> None:
        if workload_deleted:
            await self._writer.stop([pod], pods.WORKLOAD_DELETED, "Workload is deleted", everything=True)
        elif pods.is_terminated(pod) or pods.is_deleting(pod):
            await self._writer.let_go([pod])
        elif not pods.is_gated(pod):
            message = "Missing Workload; unable to restore pod templates"
            await self._writer.stop([pod], pods.NO_MATCHING_WORKLOAD, message)
        elif not prebuilt_workload(pod):
            await self._writer.create(self._composed(pod), pod)

    def _composed(self, pod: Manifest) -> Manifest:
        priority = self._writer.priority(pod, [{"template": {"spec": pod["spec"]}}])
        return pods.composed(pod, priority, self._configuration.value.label_keys_to_copy)

    async def _make_match(self, pod: Manifest, workload: Manifest) -> None:
        """The pod was changed since its workload was made: follow it, or if it has quota already begin anew. A workload
        that was made beforehand is not changed.
        """
        if prebuilt_workload(pod):
            await self._writer.finish(workload, pod, *OUT_OF_SYNC)
            return
        if pods.is_gated(pod) and not conditions.is_true(workload, conditions.QUOTA_RESERVED):
            await self._writer.replace_spec(workload, self._composed(pod), pod)
            return
        message = "No matching Workload; restoring pod templates according to existent Workload"
        await self._writer.stop([pod], pods.NO_MATCHING_WORKLOAD, message)
        await self._writer.delete(workload, pod)

    async def _evict(self, pod: Manifest, workload: Manifest) -> float | None:
        evicted = conditions.find(workload, conditions.EVICTED) or {}
        reason = f"{pods.WORKLOAD_EVICTED}DueTo{evicted['reason']}"
        await self._writer.stop([pod], reason, evicted["message"])
        left = self._pods.get(*key_of(pod))
        if left is None or left["metadata"]["uid"] != pod["metadata"]["uid"]:
            return None  # and its workload goes after it
        if pods.is_deleting(left):
            await self._orphan(workload, left)
            return None
        if conditions.is_true(workload, conditions.QUOTA_RESERVED):
            # It never ran: it still waits behind its gate, and its workload for another chance.
            change = self._writer.change(workload)
            change.release(single_pod=False)
            workload = await self._writer.commit(change)
        return await self._expire(pod, workload)

    async def _expire(self, pod: Manifest, workload: Manifest) -> float | None:
        kept = self._configuration.value.deactivated_retention_seconds
        left = following.seconds_to_expiry(workload, kept, self._clock.now())
        if left is not None and left <= 0:
            await self._writer.expire([pod])
            return None
        return left

    async def _orphan(self, workload: Manifest, pod: Manifest) -> None:
        """The pod is being deleted: its workload is no longer needed."""
        change = self._writer.change(workload)
        if conditions.is_true(workload, conditions.EVICTED) and conditions.is_true(workload, conditions.QUOTA_RESERVED):
            change.release(single_pod=True)
        change.finish("OwnerNotFound", "The workload's owner no longer exists")
        await self._writer.commit(change)
        await self._writer.let_go([pod])

    async def _run(self, pod: Manifest, workload: Manifest) -> float | None:
        if conditions.is_true(workload, conditions.ADMITTED):
            if pods.is_gated(pod):
                await self._start(pod, workload)
                return None
        elif not pods.is_gated(pod):
            await self._writer.stop([pod], pods.NOT_ADMITTED, "Not admitted by cluster queue")
            return None
        else:
            if conditions.is_true(workload, conditions.QUOTA_RESERVED):
                self._writer.emit_check_events(workload, [pod])
            workload = await self._writer.keep_in_step(workload, pod, queue=True)
        return await self._show_readiness(pod, workload)

    async def _start(self, pod: Manifest, workload: Manifest) -> None:
        try:
            patch = pods.start_patch(pod, _only(injection.infos_of(workload, self._flavor)))
        except injection.InjectionConflict as conflict:
            await self._writer.finish(workload, pod, "FailedToStart", str(conflict))
            return
        await self._writer.start([(pod, patch)], workload["status"]["admission"]["clusterQueue"])

    async def _show_readiness(self, pod: Manifest, workload: Manifest) -> float | None:
        change = self._writer.change(workload)
        waiting = self._configuration.value.wait_for_pods_ready
        wanted, again = self._writer.readiness.due(workload, waiting, ready=pods.is_ready(pod))
        if wanted is not None:
            change.set(conditions.PODS_READY, *wanted)
        await self._writer.commit(change)
        return again


def _only(infos: list[injection.PodSetInfo]) -> injection.PodSetInfo:
    if len(infos) != 1:
        raise injection.InjectionConflict(f"invalid podset infos: expecting 1 pod set got {len(infos)}")
    return infos[0]
