"""One look at a job: what the caches, the queue and other servers say of it, put together for the state machine."""

from typing import NamedTuple

import msgspec

from fairway.admission.port import Decider
from fairway.apis.machinery.keys import Key
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.owners import OwnerIndex, controller_uid
from fairway.controllers.managedjob.parsing import Tasks
from fairway.controllers.managedjob.preempting import Preemptors
from fairway.controllers.managedjob.remoting import Remotes
from fairway.integrations import conditions
from fairway.integrations.workloads import controller_of, namespaced_name
from fairway.managedjobs import asking, observing, status
from fairway.managedjobs.asking import Base
from fairway.managedjobs.observation import JobObservation, ManagedJobSpec, ObservedRemote
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.waiting import GROUP, KIND

JOBS = "managedjobs.fairway.dev"
WORKLOADS = "workloads.kueue.x-k8s.io"
LOCAL_QUEUES = "localqueues.kueue.x-k8s.io"
WORKLOAD_CLASSES = "workloadpriorityclasses.kueue.x-k8s.io"
PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"


class Look(NamedTuple):
    """A job and all that was seen of it, with the manifests that it was seen in."""

    manifest: Manifest
    job: ManagedJobSpec
    life: ManagedJobStatus
    seen: JobObservation
    base: Base
    workload: Manifest | None
    workloads: dict[str, Manifest]
    pods: dict[str, Manifest]


class Observer:
    """Looks from memory alone: no look waits for anything."""

    def __init__(self, cluster: Cluster, decider: Decider, remotes: Remotes | None) -> None:
        self._decider = decider
        self._remotes = remotes
        self._tasks = Tasks()
        self._preemptors = Preemptors(cluster.cache(WORKLOADS))
        self._jobs = cluster.cache(JOBS)
        self._queues = cluster.cache(LOCAL_QUEUES)
        self._workload_classes = cluster.cache(WORKLOAD_CLASSES)
        self._priority_classes = cluster.cache(PRIORITY_CLASSES)
        self.workloads = OwnerIndex(job_key, cluster.cache(WORKLOADS))
        self.pods = OwnerIndex(job_key, cluster.cache("pods"))

    def look(self, key: Key, refused: str) -> Look | None:
        """A job as it is now; nothing if it is gone."""
        manifest = self._jobs.get(*key)
        if manifest is None:
            return None
        tasks, unreadable = self._tasks.of(manifest)
        past, garbled = _past(manifest)
        job = observing.job_of(manifest, tasks, unreadable or garbled)
        uid = job.uid
        pods = {one["metadata"]["name"]: one for one in self.pods.of(key) if controller_uid(one) == uid}
        workloads = {one["metadata"]["name"]: one for one in self.workloads.of(key) if controller_uid(one) == uid}
        workload = workloads.get(past.workload)
        base = asking.base_priority(manifest, job, past, self._workload_classes, self._priority_classes)
        seen = JobObservation(
            workload=None if workload is None else observing.workload_of(workload, self._preemptors.said_of(workload)),
            others=_strays(workloads, past),
            pods=tuple(observing.pod_of(one) for one in pods.values()),
            predecessor=bool(self.orphans(key)),
            base_priority=base.value,
            priority_class=base.class_name,
            queue=asking.queue_of(manifest, job, past, lambda name: self._queues.get(key[0], name) is not None),
            can_ever_run=self._can_ever_run(job, past, workload),
            refused=refused,
            remote=self._remote(past),
        )
        return Look(manifest, job, past, seen, base, workload, workloads, pods)

    def orphans(self, key: Key) -> list[Manifest]:
        """Pods of a job that is gone or going, or of one before it that had its name."""
        job = self._jobs.get(*key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return self.pods.of(key)
        return [pod for pod in self.pods.of(key) if controller_uid(pod) != job["metadata"]["uid"]]

    def _can_ever_run(self, job: ManagedJobSpec, past: ManagedJobStatus, workload: Manifest | None) -> bool | None:
        """What the queue thinks of it; asked only where the job has somewhere else to go, once it was tried."""
        if workload is None or len(job.task(past.task).candidates) == 1:
            return None
        reserved = conditions.find(workload, conditions.QUOTA_RESERVED)
        if reserved is None or reserved["status"] == "True":
            return None
        return self._decider.can_ever_fit(namespaced_name(workload))

    def _remote(self, past: ManagedJobStatus) -> ObservedRemote | None:
        if not past.infra or self._remotes is None:
            return None
        if not self._remotes.knows(past.infra):
            return ObservedRemote(context_known=False)
        if past.remote is None:
            return ObservedRemote()
        known, found = self._remotes.sighting(past.infra, past.remote.name)
        if found is None:
            return ObservedRemote(known=known)
        spec = found["spec"]
        return ObservedRemote(
            known=known,
            uid=found["metadata"]["uid"],
            status=found.get("status") or {},
            hold=spec.get("hold", False),
            cancel=spec.get("cancel", False),
            priority=spec.get("priority"),
        )


def _past(manifest: Manifest) -> tuple[ManagedJobStatus, str]:
    """What is remembered of a job; if not all of it can be read, also why: somebody else wrote into its status."""
    try:
        return status.read(manifest), ""
    except msgspec.ValidationError as error:
        return status.salvaged(manifest), f"its status cannot be read: {error}"


def _strays(workloads: dict[str, Manifest], past: ManagedJobStatus) -> tuple[str, ...]:
    return tuple(
        name
        for name, one in workloads.items()
        if name != past.workload
        and not conditions.is_true(one, conditions.FINISHED)
        and "deletionTimestamp" not in one["metadata"]
    )


def job_key(manifest: Manifest) -> Key | None:
    """Namespace and name of the managed job that controls an object.

    Not its uid: pods of a job that was deleted are looked after, too.
    """
    reference = controller_of(manifest)
    if reference is None or reference["kind"] != KIND:
        return None
    if reference["apiVersion"].partition("/")[0] != GROUP:
        return None
    return manifest["metadata"].get("namespace", ""), reference["name"]
