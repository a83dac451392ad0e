"""Listens to pods and workloads, and looks at every pod or group that something happened to."""

from typing import Final, TypeAlias

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.pods.act import PodWriter
from fairway.controllers.pods.groups import PodGroups
from fairway.controllers.pods.single import SinglePods
from fairway.integrations import conditions, names, pods
from fairway.integrations.webhooks import annotations_of, prebuilt_workload, queue_name
from fairway.integrations.workloads import controller_of
from fairway.runtime.worker import Worker

_Key: TypeAlias = tuple[str, str, str]
"""What a look is taken at: a pod or a group, its namespace, its name."""

_POD: Final = "pod"
_GROUP: Final = "group"


class PodController:
    """Keeps pods, pod groups and their workloads in line."""

    def __init__(self, cluster: Cluster, configuration: ConfigurationSource, recorder: Recorder) -> None:
        self._configuration = configuration
        self._pods = cluster.cache("pods")
        self._namespaces = cluster.cache("namespaces")
        self._writer = PodWriter(cluster, recorder)
        self._single = SinglePods(cluster, configuration, self._writer)
        self._groups = PodGroups(cluster, configuration, self._writer, self._members)
        self._by_group: dict[tuple[str, str], set[str]] = {}
        """The names of the pods of each group."""

        self._awaiting: dict[tuple[str, str], set[_Key]] = {}
        """By namespace and name of a workload to be made beforehand, the pods that name it."""

        self._abandoned: dict[_Key, frozenset[str]] = {}
        """The UIDs of pods whose workload was deleted while it was in use."""

        self._worker: Worker[_Key] = Worker("pods", cluster.clock, self._reconcile)
        self._pods.on_change(self._pod_changed)
        cluster.cache("workloads").on_change(self._workload_changed)
        configuration.on_change(self._configured)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _reconcile(self, key: _Key) -> float | None:
        sort, namespace, name = key
        abandoned = self._abandoned.get(key, frozenset())
        again = None
        if sort == _GROUP:
            if any(self._is_ours(pod) for pod in self._members(namespace, name)):
                again = await self._groups.reconcile(namespace, name, abandoned)
        else:
            pod = self._pods.get(namespace, name)
            if pod is not None and self._is_ours(pod) and not pods.group_name(pod):
                again = await self._single.reconcile(pod, abandoned)
        if abandoned and self._abandoned.get(key) is abandoned:
            del self._abandoned[key]
        return again

    def _members(self, namespace: str, group: str) -> list[Manifest]:
        found = (self._pods.get(namespace, name) for name in self._by_group.get((namespace, group), ()))
        return [pod for pod in found if pod is not None]

    def _is_ours(self, pod: Manifest) -> bool:
        """Whether the queue decides about a managed pod, as it is configured now."""
        configuration = self._configuration.value
        if pods.FRAMEWORK not in configuration.frameworks or not pods.is_managed(pod):
            return False
        if not queue_name(pod) and not configuration.manage_jobs_without_queue_name:
            return False
        namespace = self._namespaces.get("", pod["metadata"]["namespace"])
        return namespace is not None and configuration.namespace_selector.matches(
            namespace["metadata"].get("labels") or {}
        )

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        before, after = _key_of(old), _key_of(new)
        if old is not None and before is not None and before != after:
            self._leave(before, old)
            self._worker.add(before)
        if new is None or after is None:
            return
        if before != after:
            self._join(after, new)
        if before != after or old is None or _differ(old, new):
            self._worker.add(after)

    def _join(self, key: _Key, pod: Manifest) -> None:
        if key[0] == _GROUP:
            self._by_group.setdefault(key[1:], set()).add(pod["metadata"]["name"])
        elif prebuilt := prebuilt_workload(pod):
            self._awaiting.setdefault((key[1], prebuilt), set()).add(key)

    def _leave(self, key: _Key, pod: Manifest) -> None:
        awaited = (key[1], prebuilt_workload(pod))
        waiting = self._awaiting.get(awaited)
        if waiting is not None:
            waiting.discard(key)
            if not waiting:
                del self._awaiting[awaited]
        members = self._by_group.get(key[1:]) if key[0] == _GROUP else None
        if members is not None:
            members.discard(pod["metadata"]["name"])
            if not members:
                del self._by_group[key[1:]]

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        workload = new or old
        if workload is None:
            return
        metadata = workload["metadata"]
        for waiting in self._awaiting.get((metadata["namespace"], metadata["name"]), ()):
            self._worker.add(waiting)
        key = _key_of_owner(workload)
        if new is None:
            by_others = self._writer.forget(workload)
            if key is not None and by_others and not conditions.is_true(workload, conditions.FINISHED):
                owners = metadata.get("ownerReferences") or ()
                self._abandoned[key] = frozenset(owner["uid"] for owner in owners)
            if (metadata["namespace"], metadata["name"]) in self._by_group:
                self._worker.add((_GROUP, metadata["namespace"], metadata["name"]))
        if key is not None:
            self._worker.add(key)

    def _configured(self, _: Configuration) -> None:
        for pod in self._pods.items():
            key = _key_of(pod)
            if key is not None:
                self._worker.add(key)


def _key_of(pod: Manifest | None) -> _Key | None:
    """What is to be looked at when something happens to a pod; `None` if it is no pod of the queue."""
    if pod is None or not pods.is_managed(pod):
        return None
    metadata, group = pod["metadata"], pods.group_name(pod)
    return (_GROUP, metadata["namespace"], group) if group else (_POD, metadata["namespace"], metadata["name"])


def _key_of_owner(workload: Manifest) -> _Key | None:
    """The pod or the group that a workload was made for; `None` if that is something else."""
    metadata = workload["metadata"]
    if annotations_of(workload).get(names.IS_GROUP_WORKLOAD) == "true":
        return _GROUP, metadata["namespace"], metadata["name"]
    owner = controller_of(workload)
    if owner is None or owner["kind"] != "Pod" or owner["apiVersion"] != "v1":
        return None
    return _POD, metadata["namespace"], owner["name"]


def _differ(old: Manifest, new: Manifest) -> bool:
    """Whether something changed that matters here; most of what a node tells of its pods does not."""
    if pods.phase(old) != pods.phase(new) or pods.is_ready(old) != pods.is_ready(new):
        return True
    before, after = old["metadata"], new["metadata"]
    fields = ("generation", "labels", "annotations", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds")
    return any(before.get(field) != after.get(field) for field in fields) or old["spec"] != new["spec"]
