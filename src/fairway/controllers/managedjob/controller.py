"""Looks at every managed job that something happened to, has the state machine decide, and carries that out.

The status is written first, then what it stands for is done; after that the job is looked at again, until there is
nothing to do. What a write answers is in the caches before the write returns, so every look sees what the one before
did.

Nothing is kept for a job that waits: not its tasks, no timer unless it may wait only for so long.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fairway.admission.port import AdmittedBy, Decider
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.readiness import Settling
from fairway.controllers.kit.status import differs
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.managedjob.act import ELSEWHERE, ManagedJobWriter, Refused
from fairway.controllers.managedjob.kubelets import Kubelets
from fairway.controllers.managedjob.observe import (
    JOBS,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    ManagedJobObservation,
    Observer,
    Remotes,
    job_key,
)
from fairway.controllers.managedjob.secrets import LaunchSecrets
from fairway.errors import Forbidden
from fairway.integrations import conditions, names
from fairway.integrations.conditions import shortened
from fairway.integrations.injection import FlavorMissing
from fairway.managedjobs import asking, observing, status
from fairway.managedjobs.deciding import step
from fairway.managedjobs.instructions import JobPlan
from fairway.managedjobs.observation import PodState
from fairway.managedjobs.platform import Platform
from fairway.managedjobs.states import FINAL
from fairway.runtime.worker import Worker

_log = logging.getLogger(__name__)

_PARALLEL: Final = 32
_MOST_STEPS: Final = 32
"""More than any job takes in one go; the rest is for the next time."""

_LONGEST_EVENT: Final = 1024
_SOONEST_SECONDS: Final = 0.001
_COLLECTED: Final = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers of jobs whose dependents the collector looks after while the job is there."""

_UNANSWERED_SECONDS: Final = 30.0
"""When to try again to reach a server that does not answer."""


class ManagedJobController:
    """Leads all managed jobs of all users through their lives."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        recorder: Recorder,
        decider: Decider,
        platform: Platform,
        remotes: Remotes | None = None,
        kubelets: Kubelets | None = None,
        admitted_by: AdmittedBy = AdmittedBy.FAIRWAY,
    ) -> None:
        """`remotes` are other servers; without them, jobs run here or not at all. `kubelets` are those of a cluster;
        without them, the runner of this machine looks after pods, logs and secrets itself.
        """
        self._clock = cluster.clock
        self._configuration = configuration
        self._recorder = recorder
        self._remotes = remotes
        self._writer = cluster.writer("fairway-managed-jobs")
        self._jobs = cluster.cache(JOBS)
        self._observer = Observer(cluster, decider, remotes, kubelets, admitted_by)
        self._effects = ManagedJobWriter(cluster, platform, remotes, kubelets)
        self._settling = Settling(cluster.clock.monotonic)
        self._refused: dict[str, str] = {}
        """By the uid of a job, why what it asks for cannot be; until it is written down."""

        self._worker: Worker[Key] = Worker("managed job", cluster.clock, self._reconcile, parallel=_PARALLEL)
        self._pods = cluster.cache("pods")
        self._forsaken: Worker[Key] = Worker("pod without a managed job", cluster.clock, self._forsake, parallel=4)
        self._kubelets = kubelets
        self._secrets = LaunchSecrets(cluster) if kubelets is None else None
        self._jobs.on_change(self._job_changed)
        cluster.cache(WORKLOADS).on_change(self._workload_changed)
        self._pods.on_change(self._pod_changed)
        cluster.cache(LOCAL_QUEUES).on_change(self._queue_changed)
        cluster.cache(WORKLOAD_CLASSES).on_change(self._class_changed)
        cluster.cache(PRIORITY_CLASSES).on_change(self._default_class_changed)
        if kubelets is not None:
            kubelets.nodes.on_change(lambda pod: self._wake(None, pod, observing.pod_of))
        if remotes is not None:
            remotes.on_change(self._remote_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._forsaken.run())
            for part in (self._secrets, self._kubelets):
                if part is not None:
                    group.create_task(part.run())
            if self._remotes is not None:
                group.create_task(self._remotes.run())

    # What happens

    def _job_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        job = new or old
        if job is None:
            return
        if new is None:
            self._refused.pop(job["metadata"]["uid"], None)
        if old is None or new is None or differs(old, new):
            self._worker.add(key_of(job))

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None and old is not None:
            self._settling.forget(old["metadata"]["uid"])
        self._wake(old, new, _says)

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and _is_forsaken(new):
            self._forsaken.add(key_of(new))
        if self._kubelets is not None:
            self._kubelets.logs.pod_changed(new)
            if new is None and old is not None:
                self._kubelets.logs.pod_gone(old)
        self._wake(old, new, observing.pod_of)

    def _wake(self, old: Manifest | None, new: Manifest | None, matters: Callable[[Manifest], object]) -> None:
        """Look at the job of an object of which something changed that matters, and at the one it was taken from."""
        before = None if old is None else job_key(old)
        after = None if new is None else job_key(new)
        if before is not None and before != after:
            self._worker.add(before)
        if after is not None and (old is None or new is None or before != after or matters(old) != matters(new)):
            self._worker.add(after)

    def _queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        """A default queue that appears takes in those who name none."""
        if old is not None or new is None or new["metadata"]["name"] != names.DEFAULT_QUEUE:
            return
        for job in self._jobs.items():
            if job["metadata"]["namespace"] == new["metadata"]["namespace"] and _is_live(job):
                self._worker.add(key_of(job))

    def _class_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        """A class of the queue came or has another value: jobs that name it follow."""
        if new is None or (old is not None and old["value"] == new["value"]):
            return
        for job in self._jobs.items():
            if _is_live(job) and asking.may_name_class(job, new["metadata"]["name"]):
                self._worker.add(key_of(job))

    def _default_class_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        """Of pods' classes, only the default one says something about jobs."""
        if not any(one is not None and one.get("globalDefault") for one in (old, new)):
            return
        for job in self._jobs.items():
            if _is_live(job):
                self._worker.add(key_of(job))

    def _remote_changed(self, namespace: str, name: str) -> None:
        """A job elsewhere changed; without a name, a server told of everything that it has."""
        if name:
            self._worker.add((namespace, name))
            return
        for job in self._jobs.items():
            if (job.get("status") or {}).get("infra") and _is_live(job):
                self._worker.add(key_of(job))

    # What is done about it

    async def _reconcile(self, key: Key) -> float | None:
        await self._let_orphans_go(key)
        look = self._look(key)
        if look is not None and "deletionTimestamp" in look.manifest["metadata"]:
            return await self._leave(look)
        if look is not None and look.life.withdrawing and not await self._withdraw(look):
            self._worker.add_after(key, _UNANSWERED_SECONDS)
        for _ in range(_MOST_STEPS):
            look = self._look(key)
            if look is None or "deletionTimestamp" in look.manifest["metadata"]:
                return None
            plan = step(look.job, look.life, look.seen, self._clock.now())
            if plan.is_empty:
                return self._earliest(plan, await self._show_readiness(look))
            await self._carry_out(look, plan)
        _log.warning("managed job %s/%s: not settled after %d steps; retrying", *key, _MOST_STEPS)
        return 1.0

    def _look(self, key: Key) -> ManagedJobObservation | None:
        job = self._jobs.get(*key)
        refused = "" if job is None else self._refused.get(job["metadata"]["uid"], "")
        return self._observer.look(key, refused)

    async def _carry_out(self, look: ManagedJobObservation, plan: JobPlan) -> None:
        if plan.life is not None:
            # Before the write: its response may be lost, and a refusal must not count for the job's next life.
            self._refused.pop(look.job.uid, None)
            change = status.status_patch(look.manifest.get("status") or {}, plan.life)
            manifest = await self._writer.patch(
                JOBS, look.manifest, {"status": change}, subresource="status", locked=True
            )
            look = look._replace(manifest=manifest, life=plan.life)
            for notice in plan.tell:
                tell = self._recorder.warning if notice.warning else self._recorder.normal
                tell(manifest, notice.reason, shortened(notice.message, _LONGEST_EVENT))
        for instruction in plan.do:
            try:
                await self._effects.carry_out(look, instruction)
            except Refused as refused:
                self._refused[look.job.uid] = str(refused)
                return
            except Forbidden as forbidden:
                await self._say(look, str(forbidden))
                raise  # it may be allowed later
            except FlavorMissing as missing:
                self._recorder.warning(look.manifest, "FlavorMissing", str(missing))
                raise  # it may come back
            look = self._refreshed(look)

    async def _say(self, look: ManagedJobObservation, message: str) -> None:
        """Show on the job what keeps it from starting."""
        message = shortened(message, _LONGEST_EVENT)
        if look.life.message != message:
            self._recorder.warning(look.manifest, "FailedCreate", message)
            await self._writer.patch(JOBS, look.manifest, {"status": {"message": message}}, subresource="status")

    def _refreshed(self, look: ManagedJobObservation) -> ManagedJobObservation:
        """The same decision, on the objects as they are after what was done: the next step must not meet a conflict."""
        fresh = self._look(key_of(look.manifest))
        if fresh is None:
            return look
        workload = fresh.workloads.get(look.life.workload)
        return look._replace(workload=workload, workloads=fresh.workloads, pods=fresh.pods)

    async def _withdraw(self, look: ManagedJobObservation) -> bool:
        """Delete jobs on other servers that are no longer wanted there; returns whether the servers answered."""
        left = [one for one in look.life.withdrawing if not await self._effects.withdraw(one.infra, one.name)]
        if len(left) < len(look.life.withdrawing):
            change = status.status_patch(look.manifest.get("status") or {}, look.life.replace(withdrawing=tuple(left)))
            await self._writer.patch(JOBS, look.manifest, {"status": change}, subresource="status", locked=True)
        return not left

    async def _leave(self, look: ManagedJobObservation) -> float | None:
        """A job that is being deleted takes along what it has elsewhere; what it has here, the collector takes, but
        only when it is gone: where it has to wait, we do.
        """
        waits_for = look.manifest["metadata"].get("finalizers") or ()
        if not _COLLECTED.intersection(waits_for):
            await self._effects.stop_all(look)
        if ELSEWHERE not in waits_for:
            return None
        gone = look.life.withdrawn().withdrawing
        if not all([await self._effects.withdraw(one.infra, one.name) for one in gone]):
            return _UNANSWERED_SECONDS
        await self._effects.let_job_go(look.manifest)
        return None

    async def _show_readiness(self, look: ManagedJobObservation) -> float | None:
        """Say on the Workload whether its pods are ready, where that is followed; in how many seconds to look again."""
        workload, attempt = look.workload, look.life.live_attempt
        if workload is None:
            return None
        if conditions.is_true(workload, conditions.FINISHED):
            self._settling.forget(workload["metadata"]["uid"])
            return None
        up = [pod.state in {PodState.RUNNING, PodState.SUCCEEDED} for pod in look.seen.pods]
        ready = attempt is not None and len(up) == look.job.task(look.life.task).num_nodes and all(up)
        waiting = self._configuration.value.wait_for_pods_ready
        wanted, left = self._settling.due(workload, waiting, ready=ready)
        if wanted is not None:
            await self._effects.set_condition(workload, conditions.PODS_READY, *wanted)
        return left

    async def _let_orphans_go(self, key: Key) -> None:
        """Pods of a job that is gone may go, too, once nothing of them runs."""
        gone = [
            pod
            for pod in self._observer.orphans(key)
            if "deletionTimestamp" in pod["metadata"] and (seen := self._observer.pod_of(pod)).is_over and seen.kept
        ]
        if gone:
            await self._effects.let_go(gone)

    async def _forsake(self, key: Key) -> None:
        """A pod that was taken from its job, as orphans are, is its new owner's to look after."""
        pod = self._pods.get(*key)
        if pod is not None and _is_forsaken(pod):
            await self._effects.unbind(pod)

    def _earliest(self, plan: JobPlan, readiness: float | None) -> float | None:
        seconds = [] if readiness is None else [readiness]
        if plan.again_at is not None:
            seconds.append((plan.again_at - self._clock.now()).total_seconds())
        return max(_SOONEST_SECONDS, min(seconds)) if seconds else None


def _is_forsaken(pod: Manifest) -> bool:
    return job_key(pod) is None and observing.FINALIZER in (pod["metadata"].get("finalizers") or ())


def _is_live(job: Manifest) -> bool:
    return (job.get("status") or {}).get("phase") not in FINAL


def _says(workload: Manifest) -> tuple[object, bool]:
    """What of a Workload matters here: its state, and whether the queue has looked at it at all."""
    return observing.workload_of(workload), conditions.find(workload, conditions.QUOTA_RESERVED) is not None
