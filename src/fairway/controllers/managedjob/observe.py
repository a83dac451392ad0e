"""One look at a job: what the caches, the decider and other servers say of it, put together for the state machine."""

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from fairway.admission.port import AdmittedBy, Decider
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.informer import Informer
from fairway.client.sighting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID, Sighting
from fairway.controllers.kit.owners import OwnerIndex, controller_uid
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.managedjob.kubelets import ClusterNodes, Kubelets
from fairway.integrations import conditions
from fairway.integrations.workloads import controller_of, namespaced_name
from fairway.managedjobs import asking, gpulabels, observing, status
from fairway.managedjobs.asking import Base
from fairway.managedjobs.observation import (
    JobObservation,
    ManagedJobSpec,
    ObservedPod,
    ObservedRemote,
    ObservedWorkload,
    StartObstacle,
)
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.parse import stored_tasks
from fairway.managedjobs.tasks.task import Task
from fairway.managedjobs.waiting import GROUP, KIND
from fairway.schedulers.scheduling import scheduler_of

_MOST: Final = 256
"""So many are kept: those that run and change, not those that wait."""

_PREEMPTOR: Final = re.compile(r"to accommodate a workload \(UID: ([^,)]+)")
__all__ = ["ORIGIN_NAME", "ORIGIN_NAMESPACE", "ORIGIN_UID", "Handler", "Remotes", "Sighting"]
Handler = Callable[[str, str], None]
"""Told the namespace and name of the original, here, of a job that changed there; two empty texts when a server has
told of everything (again): any job that was handed to it may have changed or be gone."""

JOBS = "managedjobs.fairway.dev"
LOCAL_QUEUES = "localqueues.kueue.x-k8s.io"
WORKLOAD_CLASSES = "workloadpriorityclasses.kueue.x-k8s.io"
PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"


class Tasks:
    """Remembers the tasks of the jobs that were looked at last."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, int], tuple[tuple[Task, ...], str]] = OrderedDict()

    def of(self, job: Manifest) -> tuple[tuple[Task, ...], str]:
        """The tasks; or none, and why they cannot be read."""
        key = (job["metadata"]["uid"], job["metadata"].get("generation", 0))
        found = self._read.pop(key, None)
        if found is None:
            try:
                found = stored_tasks(job), ""
            except TaskError as error:
                found = (), str(error)
        self._read[key] = found
        if len(self._read) > _MOST:
            self._read.popitem(last=False)
        return found


class Preemptors:
    """Finds the Workload that another one was preempted for."""

    def __init__(self, workloads: Informer) -> None:
        self._workloads = workloads
        self._by_uid: dict[str, tuple[str, str]] = {}
        workloads.on_change(self._changed)

    def said_of(self, workload: Manifest) -> str:
        """A sentence about who preempted a workload; empty if that is not known."""
        preempted = conditions.find(workload, "Preempted")
        if preempted is None or preempted["status"] != "True":
            return ""
        uid = _PREEMPTOR.search(preempted.get("message") or "")
        place = None if uid is None else self._by_uid.get(uid[1])
        found = None if place is None else self._workloads.get(*place)
        if found is None:
            return ""
        metadata = found["metadata"]
        with_priority = f" with priority {found['spec'].get('priority') or 0}"
        if metadata["namespace"] != workload["metadata"]["namespace"]:
            # Who may read this need not be one who may know what is there.
            return f"preempted by a job of another namespace{with_priority}"
        owner = controller_of(found)
        whose = f"Workload {metadata['name']}" if owner is None else f"{owner['kind']} {owner['name']}"
        return f"preempted by {whose}{with_priority}"

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None and old is not None:
            self._by_uid.pop(old["metadata"]["uid"], None)
        elif old is None and new is not None:
            self._by_uid[new["metadata"]["uid"]] = key_of(new)


class Remotes(Protocol):
    """The servers behind the contexts of a kubeconfig. Refusals are the `ApiError`s that they send; a server that does
    not answer raises another `FairwayError`. Jobs are in the namespace that the context names.
    """

    def knows(self, context: str) -> bool:
        """Whether there is such a context."""

    def sighting(self, context: str, name: str) -> Sighting:
        """A job there, from memory; asking for it makes the context be followed from then on."""

    async def submit(self, context: str, manifest: Manifest, *, namespace: str, secret: Manifest | None) -> Manifest:
        """Make a job there, and before it whatever it needs: its archives, which are found here below `namespace`, and
        its Secret (`secret` is the one here; it gets the name that `spec.secretName` of the job says).

        `manifest` has no namespace; its name is the same whenever it is submitted, so where a job of that name with
        the same origin uid is there already, that one is the answer; one of another origin is `AlreadyExists`.
        """

    async def change(self, context: str, name: str, spec: Manifest) -> Manifest | None:
        """Merge into the spec of a job there; `None` if it is gone."""

    async def delete(self, context: str, name: str) -> None:
        """Delete a job there, and the Secret that was made for it; nothing if it is gone."""

    def on_change(self, handler: Handler) -> None:
        """Tell this handler of every change of a job that is followed, also that one is gone, and of every job here
        (by what the annotations of the jobs there say) when a server answers again."""

    async def run(self) -> None:
        """Follow until cancelled."""


class ManagedJobObservation(NamedTuple):
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

    def __init__(
        self,
        cluster: Cluster,
        decider: Decider,
        remotes: Remotes | None,
        kubelets: Kubelets | None = None,
        admitted_by: AdmittedBy = AdmittedBy.FAIRWAY,
    ) -> None:
        self._kubelets = kubelets
        self._admitted_by = admitted_by
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

    def look(self, key: Key, refused: str) -> ManagedJobObservation | None:
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
        queue = asking.queue_of(manifest, job, past, lambda name: self._queues.get(key[0], name) is not None)
        way = AdmittedBy.NONE if not queue and scheduler_of(manifest) else self._admitted_by
        base = asking.base_priority(manifest, job, past, self._workload_classes, self._priority_classes)
        seen = JobObservation(
            workload=self._workload(job, past, workload, way),
            admitted_by=way,
            others=_strays(workloads, past),
            pods=tuple(map(self.pod_of, pods.values())),
            predecessor=bool(self.orphans(key)),
            base_priority=base.value,
            priority_class=base.class_name,
            queue=queue,
            can_ever_run=self._can_ever_run(job, past, workload),
            refused=refused,
            remote=self._remote(past),
        )
        return ManagedJobObservation(manifest, job, past, seen, base, workload, workloads, pods)

    def pod_of(self, pod: Manifest) -> ObservedPod:
        """A pod, with what is known of its node."""
        return observing.pod_of(pod) if self._kubelets is None else self._pod_of(pod, self._kubelets.nodes)

    def _pod_of(self, pod: Manifest, nodes: ClusterNodes) -> ObservedPod:
        found = observing.pod_of(pod, nodes.state_of(pod))
        if found.obstacle is StartObstacle.UNSCHEDULABLE:
            models = observing.asked_models(pod)
            if said := gpulabels.missing(models, nodes.labels()):
                return msgspec.structs.replace(found, message=f"{observing.WAITS_FOR_NODE}{said}")
        return found

    def _workload(
        self, job: ManagedJobSpec, past: ManagedJobStatus, workload: Manifest | None, way: AdmittedBy
    ) -> ObservedWorkload | None:
        if free := observing.without_queue(job, past, way):
            return free
        return None if workload is None else observing.workload_of(workload, self._preemptors.said_of(workload))

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
    """What is remembered of a job; if not all of it can be read, also why: its status was edited."""
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
