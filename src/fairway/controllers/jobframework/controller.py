"""Wiring: which changes make which job be looked at."""

from functools import partial
from typing import TypeAlias

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.jobframework.act import JobWriter
from fairway.controllers.jobframework.reconcile import Reconciler
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.owners import OwnerIndex, controller_uid
from fairway.integrations import webhooks
from fairway.integrations.framework import Framework
from fairway.integrations.frameworks import FRAMEWORKS
from fairway.integrations.priorities import MissingPriorityClass
from fairway.integrations.workloads import controller_of
from fairway.runtime.worker import Worker

Key: TypeAlias = tuple[int, str, str]
"""Which framework, namespace, name."""

_PARALLEL = 32


class FrameworkController:
    """Keeps the jobs of every kind and their workloads in line."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        recorder: Recorder,
        frameworks: tuple[Framework, ...] = FRAMEWORKS,
    ) -> None:
        self._configuration = configuration
        self._tools = JobWriter(cluster, configuration, recorder, frameworks)
        self._reconcilers = [Reconciler(self._tools, framework) for framework in frameworks]
        self._caches = [cluster.cache(framework.resource) for framework in frameworks]
        self._children = [OwnerIndex(controller_uid, cache) for cache in self._caches]
        self._kinds = {(one.group, one.kind): index for index, one in enumerate(frameworks)}
        self._worker: Worker[Key] = Worker("frameworks", cluster.clock, self._reconcile, parallel=_PARALLEL)
        self._lacking_class: dict[str, set[Key]] = {}
        """By the name of a priority class that does not exist, the jobs that name it."""
        self._awaiting: dict[tuple[str, str], set[Key]] = {}
        """By namespace and name of a workload to be made beforehand, the jobs that name it."""
        self._listen()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def _listen(self) -> None:
        for index, cache in enumerate(self._caches):
            cache.on_change(partial(self._job_changed, index))
        self._tools.workloads.on_change(self._workload_changed)
        for index, one in enumerate(self._reconcilers):
            if one.slices is not None:
                one.slices.pods.on_change(partial(self._pod_changed, index))
        self._tools.namespaces.on_change(self._namespace_changed)
        self._tools.workload_classes.on_change(self._class_changed)
        self._tools.priority_classes.on_change(self._class_changed)
        self._configuration.on_change(self._configuration_changed)

    async def _reconcile(self, key: Key) -> float | None:
        index, namespace, name = key
        try:
            return await self._reconcilers[index].reconcile(namespace, name)
        except MissingPriorityClass as missing:
            self._lacking_class.setdefault(missing.name, set()).add(key)
            job = self._caches[index].get(namespace, name)
            if job is not None:
                self._tools.recorder.warning(job, "ErrWorkloadCompose", str(missing))
            return None

    def _job_changed(self, index: int, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            if old is not None:
                self._forget(index, old)
            return
        if not self._may_be_ours(new) or (old is not None and self._reconcilers[index].has_started(old, new)):
            return
        key = _key(index, new)
        prebuilt = webhooks.prebuilt_workload(new)
        if prebuilt:
            self._awaiting.setdefault((key[1], prebuilt), set()).add(key)
        self._worker.add(key)

    def _forget(self, index: int, job: Manifest) -> None:
        self._reconcilers[index].note_gone(job)
        key = _key(index, job)
        awaited = (key[1], webhooks.prebuilt_workload(job))
        waiting = self._awaiting.get(awaited)
        if waiting is not None:
            waiting.discard(key)
            if not waiting:
                del self._awaiting[awaited]

    def _may_be_ours(self, job: Manifest) -> bool:
        return bool(
            webhooks.queue_name(job)
            or self._configuration.value.manage_jobs_without_queue_name
            or controller_of(job) is not None
        )

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        manifest = new or old
        if manifest is None:
            return
        metadata = manifest["metadata"]
        for waiting in self._awaiting.get((metadata["namespace"], metadata["name"]), ()):
            self._worker.add(waiting)
        reference = controller_of(manifest)
        if reference is None:
            return
        index = self._kinds.get((reference["apiVersion"].rpartition("/")[0], reference["kind"]))
        if index is None:
            return
        if new is None:
            self._reconcilers[index].note_departed(manifest)
        key = (index, metadata["namespace"], reference["name"])
        if new is None or not self._reconcilers[index].needs_no_look(old, new, reference):
            self._worker.add(key)
        elif old is not None:  # both are over, so there is nothing to wait for
            self._worker.withdraw(key)
        for kind, children in enumerate(self._children):
            for child in children.of(reference["uid"]):
                self._worker.add(_key(kind, child))

    def _pod_changed(self, index: int, old: Manifest | None, new: Manifest | None) -> None:
        """A pod of an elastic job came, went, or left room for another."""
        pod, keeper = new or old, self._reconcilers[index].slices
        if pod is not None and keeper is not None:
            for name in keeper.jobs_of(pod):
                self._worker.add((index, pod["metadata"]["namespace"], name))

    def _namespace_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is not None and new is not None and old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._look_at_all(new["metadata"]["name"])

    def _class_changed(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None:
            for key in self._lacking_class.pop(new["metadata"]["name"], ()):
                self._worker.add(key)

    def _configuration_changed(self, _configuration: Configuration) -> None:
        self._look_at_all()

    def _look_at_all(self, namespace: str | None = None) -> None:
        for index, cache in enumerate(self._caches):
            for job in cache.items():
                if namespace is None or job["metadata"]["namespace"] == namespace:
                    self._worker.add(_key(index, job))


def _key(index: int, job: Manifest) -> Key:
    return index, *key_of(job)
