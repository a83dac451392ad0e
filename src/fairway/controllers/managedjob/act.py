"""What the state machine wants, done. Each step may have been done before: a process that was killed starts over."""

import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fairway.admission.records import EARNED_PRIORITY
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.kit.writes import add_finalizer, all_done, commit, remove_finalizer
from fairway.controllers.managedjob.kubelets import Kubelets
from fairway.controllers.managedjob.observe import (
    JOBS,
    ORIGIN_NAME,
    ORIGIN_NAMESPACE,
    ORIGIN_UID,
    ManagedJobObservation,
    Remotes,
)
from fairway.entrypoints import scheduler_plugin
from fairway.errors import AlreadyExists, BadRequest, FairwayError, Forbidden, Invalid, NotFound, ValidationError
from fairway.integrations import conditions, injection
from fairway.integrations.priorities import Priority
from fairway.integrations.workloads import controller_of
from fairway.managedjobs import asking, pods
from fairway.managedjobs import instructions as told
from fairway.managedjobs.asking import Base
from fairway.managedjobs.observation import FOR_EVER, ManagedJobSpec
from fairway.managedjobs.observing import FINALIZER
from fairway.managedjobs.platform import Platform
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.tasks.writing import mapping_of
from fairway.schedulers.plugin import SchedulingError
from fairway.schedulers.scheduling import complete_attempt

_SAME = ("name", "recover", "queue", "aging", "secretName", "podConfig", "rank", "numJobs", "array")

ELSEWHERE: Final = "fairway.dev/elsewhere"
"""Keeps a job from going before it is gone from other servers, too."""

_log = logging.getLogger(__name__)
_LASTING: Final = (ValidationError, Invalid, BadRequest, injection.InjectionConflict)
"""Trying again does not help. A cluster also forbids what it will allow later: pods beyond a ResourceQuota, or before
the namespace has its service account."""


def remote_manifest(manifest: Manifest, job: ManagedJobSpec, life: ManagedJobStatus, base: Base) -> Manifest:
    """What to submit; classes of this cluster may be unknown there, so the priority is a number."""
    if life.remote is None:
        raise ValueError("only a job of another server is created there")
    metadata, spec = manifest["metadata"], manifest["spec"]
    candidate = msgspec.structs.replace(job.candidate(life.task, life.candidate), infra="")
    task = msgspec.structs.replace(job.task(life.task), candidates=(candidate,), provision_timeout_seconds=None)
    given = {name: spec[name] for name in _SAME if name in spec}
    if base.value is not None:
        given["priority"] = base.value
    if given.get("secretName"):
        # Here it may be for many jobs; there each has its own, which goes when it does.
        given["secretName"] = life.remote.name
    if job.hold:
        given["hold"] = True
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {
            "name": life.remote.name,
            "labels": {ORIGIN_UID: metadata["uid"]},
            "annotations": {ORIGIN_NAMESPACE: metadata["namespace"], ORIGIN_NAME: metadata["name"]},
        },
        "spec": {**given, "provisionTimeoutSeconds": FOR_EVER, "tasks": [mapping_of(task)]},
    }


class Refused(FairwayError):
    """What a job asks for is not possible, now or later."""


class ManagedJobWriter:
    """Writes for the controller."""

    def __init__(
        self, cluster: Cluster, platform: Platform, remotes: Remotes | None, kubelets: Kubelets | None = None
    ) -> None:
        self._kubelets = kubelets
        self._cluster = cluster
        self._clock = cluster.clock
        self._platform = platform
        self._remotes = remotes
        self._writer = cluster.writer("fairway-managed-jobs")
        self._pods = cluster.cache("pods")
        self._workloads = cluster.cache(WORKLOADS)
        self._flavors = cluster.cache("resourceflavors.kueue.x-k8s.io")

    async def carry_out(self, look: ManagedJobObservation, instruction: told.JobAction) -> None:
        """Do what is said; `Refused` if it cannot be done."""
        match instruction:
            case told.MakeWorkload():
                await self._make_workload(look, instruction)
            case told.SetPriority():
                await self._set_priority(look, instruction)
            case told.SetActive(active=active):
                await self._patch_workload(look, {"spec": {"active": active}})
            case told.ReleaseQuota():
                await self._release(look)
            case told.FinishWorkload():
                await self._finish(look, instruction)
            case told.DeleteWorkload(name=name):
                await self._delete_workload(look, name)
            case told.StartPods():
                await self._start(look)
            case told.StopPods(names=names):
                await all_done(self._writer.delete("pods", look.pods[name]) for name in names if name in look.pods)
            case told.LetGoOfPods(names=names):
                gone = [look.pods[name] for name in names if name in look.pods]
                if self._kubelets is not None:
                    await self._kubelets.logs.keep(look.manifest, look.life, gone)
                await self.let_go(gone)
            case told.Delegate():
                await self._delegate(look, instruction)
            case told.ChangeRemote():
                await self._change_remote(instruction)

    # Workloads

    async def _make_workload(self, look: ManagedJobObservation, wanted: told.MakeWorkload) -> None:
        priority = Priority(wanted.priority, look.base.class_ref)
        try:
            workload = asking.workload_for(
                look.manifest, look.job, look.life, self._platform, look.seen.queue, priority, wanted.earned
            )
            await self._writer.create(WORKLOADS, workload)
        except AlreadyExists:
            if look.life.workload in look.workloads:
                return
            if self._workloads.get(look.manifest["metadata"]["namespace"], look.life.workload) is None:
                raise  # the caches will show it
            name = look.life.workload
            raise Refused(f"there is a Workload {name} that is not the job's; delete it, then retry") from None
        except _LASTING as error:
            raise Refused(str(error)) from error

    async def _set_priority(self, look: ManagedJobObservation, wanted: told.SetPriority) -> None:
        if look.workload is None or look.seen.workload is None:
            return
        spec: dict[str, Any] = {"priority": wanted.priority}
        held, named = look.seen.workload.priority_class, look.base.class_name
        if held != named and not (look.seen.workload.reserved and "" in {held, named}):
            spec["priorityClassRef"] = look.base.class_ref
        patch: Manifest = {"spec": spec}
        if wanted.earned != look.seen.workload.earned:
            patch["metadata"] = {"annotations": {EARNED_PRIORITY: str(wanted.earned) if wanted.earned else None}}
        await self._patch_workload(look, patch)

    async def _patch_workload(self, look: ManagedJobObservation, patch: Manifest) -> None:
        if look.workload is not None:
            await self._writer.patch(WORKLOADS, look.workload, patch, locked=True)

    async def _release(self, look: ManagedJobObservation) -> None:
        if look.workload is not None:
            change = WorkloadStatusChange(look.workload, self._clock.now())
            change.release()
            await commit(self._writer, WORKLOADS, change)

    async def set_condition(self, workload: Manifest, kind: str, status: str, reason: str, message: str) -> None:
        change = WorkloadStatusChange(workload, self._clock.now())
        change.set(kind, status, reason, message)
        await commit(self._writer, WORKLOADS, change)

    async def _finish(self, look: ManagedJobObservation, end: told.FinishWorkload) -> None:
        workload = look.workloads.get(end.name)
        if workload is not None:
            reason = "Succeeded" if end.succeeded else "Failed"
            await self.set_condition(workload, conditions.FINISHED, "True", reason, end.message)

    async def _delete_workload(self, look: ManagedJobObservation, name: str) -> None:
        workload = look.workloads.get(name)
        if workload is not None:
            await self._writer.delete(WORKLOADS, workload)

    # Pods

    async def _start(self, look: ManagedJobObservation) -> None:
        attempt, workload = look.life.live_attempt, look.workload
        if attempt is None or look.seen.workload is None:
            return
        task, candidate = look.job.task(attempt.task), look.job.candidate(attempt.task, look.life.candidate)
        try:
            infos = () if workload is None else injection.infos_of(workload, lambda name: self._flavors.get("", name))
            made = pods.attempt_pods(
                look.manifest,
                candidate,
                task=task,
                task_index=attempt.task,
                attempt=attempt.attempt,
                cause=attempt.cause,
                infos={info.name: info for info in infos},
                platform=self._platform,
            )
            complete_attempt(look.manifest, made, f"{attempt.task}-{attempt.attempt}", scheduler_plugin)
        except (*_LASTING, SchedulingError) as error:
            raise Refused(str(error)) from error
        for needed in self._platform.needed(look.manifest, attempt.task, task):
            await self._ensure(needed)
        await all_done(self._make_pod(pod, look) for pod in made if pod["metadata"]["name"] not in look.pods)

    async def _ensure(self, manifest: Manifest) -> None:
        try:
            await self._writer.create(f"{manifest['kind'].lower()}s", manifest)
        except AlreadyExists:
            return
        except _LASTING as error:
            raise Refused(str(error)) from error

    async def _make_pod(self, pod: Manifest, look: ManagedJobObservation) -> None:
        metadata = pod["metadata"]
        metadata["finalizers"] = [FINALIZER]
        try:
            await self._writer.create("pods", pod)
        except AlreadyExists:
            there = self._pods.get(metadata["namespace"], metadata["name"])
            owner = None if there is None else controller_of(there)
            if there is None or (owner is not None and owner["uid"] == look.job.uid):
                raise  # the caches will show it
            raise Refused(f"there is a pod {metadata['name']} that is not the job's; delete it, then retry") from None
        except _LASTING as error:
            raise Refused(str(error)) from error

    async def let_go(self, gone: Iterable[Manifest]) -> None:
        """Remove the finalizer of pods whose end is recorded, or is not needed."""
        await all_done(self._let_one_go(pod) for pod in gone)

    async def _let_one_go(self, pod: Manifest) -> None:
        try:
            pod = await self.unbind(pod)
            # No kubelet confirms the end of a pod whose node was deleted.
            force = self._kubelets is not None and self._kubelets.nodes.state_of(pod).gone
            if force or "deletionTimestamp" not in pod["metadata"]:
                await self._writer.delete("pods", pod, grace_seconds=0 if force else None)
        except NotFound:
            return

    async def unbind(self, pod: Manifest) -> Manifest:
        """A pod no longer waits for us when it is to go."""
        return await remove_finalizer(self._writer, "pods", pod, FINALIZER)

    async def stop_all(self, look: ManagedJobObservation) -> None:
        """Everything of a job that is here is to go."""
        for resource, owned in (("pods", look.pods), (WORKLOADS, look.workloads)):
            living = [one for one in owned.values() if "deletionTimestamp" not in one["metadata"]]
            await all_done(self._writer.delete(resource, one) for one in living)

    # Other servers

    async def _delegate(self, look: ManagedJobObservation, instruction: told.Delegate) -> None:
        if self._remotes is None:
            return
        await self.hold_on_to(look.manifest)
        manifest = remote_manifest(look.manifest, look.job, look.life, look.base)
        namespace = look.manifest["metadata"]["namespace"]
        name = look.manifest["spec"].get("secretName")
        try:
            secret = await self._cluster.get("secrets", namespace, name) if name else None
            await self._remotes.submit(instruction.context, manifest, namespace=namespace, secret=secret)
        except (*_LASTING, Forbidden, AlreadyExists, NotFound) as error:
            raise Refused(str(error)) from error

    async def withdraw(self, context: str, name: str) -> bool:
        """Delete a job on another server; returns whether it is deleted, or its context no longer exists."""
        if self._remotes is None or not self._remotes.knows(context):
            return True
        try:
            await self._remotes.delete(context, name)
        except FairwayError as error:
            _log.warning("cannot delete job %s on %s: %s; retrying", name, context, error)
            return False
        return True

    async def hold_on_to(self, job: Manifest) -> Manifest:
        """Keep a job from going before what it has elsewhere is gone."""
        return await add_finalizer(self._writer, JOBS, job, ELSEWHERE)

    async def let_job_go(self, job: Manifest) -> None:
        await remove_finalizer(self._writer, JOBS, job, ELSEWHERE)

    async def _change_remote(self, change: told.ChangeRemote) -> None:
        if self._remotes is None:
            return
        wanted = {"hold": change.hold, "cancel": change.cancel, "priority": change.priority}
        spec = {name: value for name, value in wanted.items() if value is not None}
        await self._remotes.change(change.context, change.name, spec)
