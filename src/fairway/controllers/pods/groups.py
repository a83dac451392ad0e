"""One group of pods: composed when it is complete, started and stopped as a whole, waiting for pods in place of others.

Every pod of a group has a finalizer, so that those that ended stay to be counted until the group is done with them.
"""

import math
from collections.abc import Callable

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.controllers.pods.act import PodWriter
from fairway.integrations import conditions, following, injection, names, pod_groups, pods
from fairway.integrations.pod_groups import Stock, Uncomposable
from fairway.integrations.webhooks import annotations_of, maximum_seconds


class PodGroups:
    """Brings pod groups and their workloads in line."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        effects: PodWriter,
        members: Callable[[str, str], list[Manifest]],
    ) -> None:
        """`members` knows the pods of a group, by namespace and name."""
        self._clock = cluster.clock
        self._configuration = configuration
        self._writer = effects
        self._members = members
        self._pods = cluster.cache("pods")
        self._workloads = cluster.cache("workloads")
        self._flavors = cluster.cache("resourceflavors")

    async def reconcile(self, namespace: str, name: str, abandoned: frozenset[str]) -> float | None:
        """One look at a group; the seconds after which to look again, if time alone can change something.

        `abandoned` are the UIDs of pods whose workload was deleted.
        """
        members = pod_groups.in_order(self._members(namespace, name))
        if not members:
            return None
        workload = self._workloads.get(namespace, name)
        if workload is None:
            return await self._without_workload(members, abandoned)
        if annotations_of(workload).get(names.IS_GROUP_WORKLOAD) != "true":
            self._writer.emit_conflict(members[0], name)
            await self._writer.let_go(pod_groups.uncounted(members))
            return None
        stock = self._stock(members, workload)
        if not stock.kept or workload["spec"].get("maximumExecutionTimeSeconds") != maximum_seconds(members[0]):
            return await self._make_match(members, workload)
        workload = await self._tidy(workload, stock)
        if await self._see_end(members, workload, stock):
            return None
        workload = await self._writer.keep_in_step(workload, members[0])
        if conditions.is_true(workload, conditions.EVICTED):
            return await self._evict(namespace, name, workload)
        return await self._run(stock, workload)

    def _stock(self, members: list[Manifest], workload: Manifest) -> Stock:
        evicted = conditions.is_true(workload, conditions.EVICTED)
        return pod_groups.stock(members, workload["spec"]["podSets"], evicted=evicted, now=self._clock.now())

    async def _without_workload(self, members: list[Manifest], abandoned: frozenset[str]) -> float | None:
        first = members[0]
        left_alone = [pod for pod in members if pod["metadata"]["uid"] in abandoned]
        if left_alone:
            await self._writer.stop(left_alone, pods.WORKLOAD_DELETED, "Workload is deleted", everything=True)
            await self._writer.let_go(self._again(left_alone))
            return None
        try:
            if pod_groups.outcome(members) is not None:
                await self._writer.let_go(members)
                return None
            message = "Missing Workload; unable to restore pod templates"
            await self._writer.stop(members, pods.NO_MATCHING_WORKLOAD, message)
            members = self._again(members)
            used = pod_groups.uses_quota_for(members, self._clock.now())
            if used is not None:
                return _look_again(used)
            await self._writer.let_go(pod_groups.uncounted(members))
            kept, excess = pod_groups.chosen(members)
            workload = self._composed(kept)
        except Uncomposable as problem:
            self._writer.emit_refusal(first, str(problem))
            return None
        await self._writer.remove_excess(excess, self._pods)
        await self._writer.create(workload, kept[0])
        return None

    def _again(self, members: list[Manifest]) -> list[Manifest]:
        """These pods as they are now."""
        now = (self._pods.get(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in members)
        uids = {pod["metadata"]["uid"] for pod in members}
        return [pod for pod in now if pod is not None and pod["metadata"]["uid"] in uids]

    def _composed(self, kept: list[Manifest]) -> Manifest:
        templates = [{"template": {"spec": pod["spec"]}} for pod in kept]
        priority = self._writer.priority(kept[0], templates)
        return pod_groups.composed(kept, priority, self._configuration.value.label_keys_to_copy)

    async def _make_match(self, members: list[Manifest], workload: Manifest) -> float | None:
        """The workload is not that of this group as it is now: follow it, or if it has quota already begin anew."""
        first = members[0]
        if pod_groups.is_suspended(members) and not conditions.is_true(workload, conditions.QUOTA_RESERVED):
            try:
                kept, excess = pod_groups.chosen(members)
                wanted = self._composed(kept)
            except Uncomposable as problem:
                self._writer.emit_refusal(first, str(problem))
                return None
            await self._writer.remove_excess(excess, self._pods)
            await self._writer.replace_spec(workload, wanted, first)
            return None
        message = "No matching Workload; restoring pod templates according to existent Workload"
        await self._writer.stop(members, pods.NO_MATCHING_WORKLOAD, message)
        await self._writer.delete(workload, first)
        return 0.0

    async def _tidy(self, workload: Manifest, stock: Stock) -> Manifest:
        """Let every pod that counts own the workload, then part with those that do not."""
        missing = pod_groups.missing_owners(workload, stock.kept)
        if missing:
            workload = await self._writer.add_owners(workload, missing)
        await self._writer.remove_excess(stock.excess, self._pods)
        await self._writer.let_go(stock.replaced)
        return workload

    async def _see_end(self, members: list[Manifest], workload: Manifest, stock: Stock) -> bool:
        """Whether the group is over; if so all that is left of it may go."""
        if not conditions.is_true(workload, conditions.FINISHED):
            outcome = pod_groups.outcome(pod_groups.in_order(stock.kept))
            if outcome is None:
                return False
            await self._writer.finish(workload, members[0], "Succeeded", outcome.message)
        await self._writer.let_go(self._again(members))
        return True

    async def _evict(self, namespace: str, name: str, workload: Manifest) -> float | None:
        evicted = conditions.find(workload, conditions.EVICTED) or {}
        members = pod_groups.in_order(self._members(namespace, name))
        reason = f"{pods.WORKLOAD_EVICTED}DueTo{evicted['reason']}"
        await self._writer.stop(members, reason, evicted["message"])
        members = pod_groups.in_order(self._members(namespace, name))
        if not members:
            return None  # and the workload goes after them
        now = self._clock.now()
        stock = self._stock(members, workload)
        change = self._writer.change(workload)
        self._show_pods(change, workload, stock)
        used = None
        if conditions.is_true(workload, conditions.QUOTA_RESERVED):
            used = pod_groups.uses_quota_for(members, now)
            if used is None:
                change.release(single_pod=False)
        await self._writer.commit(change)
        left = following.seconds_to_expiry(workload, self._configuration.value.deactivated_retention_seconds, now)
        if left is not None and left <= 0:
            await self._writer.expire(members)
            await self._writer.let_go(self._again(members))
            return None
        return min((one for one in (_look_again(used), left) if one is not None), default=None)

    def _show_pods(self, change: WorkloadStatusChange, workload: Manifest, stock: Stock) -> None:
        """Which pods are missing, and which need no quota any more."""
        waiting = pod_groups.waiting_condition(workload, stock.absent)
        if waiting is not None:
            change.set(pod_groups.WAITING, *waiting)
        if stock.kept:
            reclaimable = pod_groups.reclaimable(stock.kept, workload)
            if reclaimable != ((workload.get("status") or {}).get("reclaimablePods") or []):
                change.put("reclaimablePods", reclaimable)

    async def _run(self, stock: Stock, workload: Manifest) -> float | None:
        change = self._writer.change(workload)
        self._show_pods(change, workload, stock)
        waiting = self._configuration.value.wait_for_pods_ready
        wanted, again = self._writer.readiness.due(workload, waiting, ready=_are_ready(stock))
        if wanted is not None:
            change.set(conditions.PODS_READY, *wanted)
        workload = await self._writer.commit(change)
        members = pod_groups.in_order(stock.kept)
        if not conditions.is_true(workload, conditions.ADMITTED):
            await self._writer.stop(members, pods.NOT_ADMITTED, "Not admitted by cluster queue")
            if conditions.is_true(workload, conditions.QUOTA_RESERVED):
                self._writer.emit_check_events(workload, members)
            if not pod_groups.is_serving(members[0]):
                await self._writer.keep_in_step(workload, members[0], queue=True)
        else:
            await self._start([pod for pod in members if pods.is_gated(pod) and not pods.is_deleting(pod)], workload)
        return again

    async def _start(self, gated: list[Manifest], workload: Manifest) -> None:
        """Open all gates or, where one pod cannot run as it was admitted, none."""
        if not gated:
            return
        try:
            infos = {info.name: info for info in injection.infos_of(workload, lambda one: self._flavors.get("", one))}
            patches = [(pod, pods.start_patch(pod, _info_for(pod, infos))) for pod in gated]
        except injection.InjectionConflict as conflict:
            await self._writer.finish(workload, gated[0], "FailedToStart", str(conflict))
            return
        await self._writer.start(patches, workload["status"]["admission"]["clusterQueue"])


def _info_for(pod: Manifest, infos: dict[str, injection.PodSetInfo]) -> injection.PodSetInfo:
    role = pod_groups.role(pod)
    if role not in infos:
        raise injection.InjectionConflict(f"invalid podset infos: podSetInfo with the name '{role}' is not found")
    return infos[role]


def _look_again(used_seconds: float | None) -> float | None:
    """When pods that should have ended by then no longer count; `None` where that is not said."""
    return None if used_seconds is None or math.isinf(used_seconds) else used_seconds + 1


def _are_ready(stock: Stock) -> bool:
    try:
        return pod_groups.all_ready(stock.kept)
    except Uncomposable:
        return False  # the annotation with the total was removed
