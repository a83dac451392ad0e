"""The surroundings of a job as the caches know them."""

from collections.abc import Mapping

from fairway.client.cluster import Cluster
from fairway.controllers.configuration import ConfigurationSource
from fairway.controllers.frameworks.owners import NestedTooDeep, OwnerMissing, Owners
from fairway.jobs import names, pods, webhooks
from fairway.jobs.framework import Framework
from fairway.kinds.kind import Manifest
from fairway.model.configuration import Configuration

_NONE: Mapping[str, str] = {}


class CachedSurroundings:
    """Keeps the contract of `jobs.surroundings.Surroundings`."""

    def __init__(self, cluster: Cluster, configuration: ConfigurationSource, frameworks: tuple[Framework, ...]) -> None:
        self._source = configuration
        self._owners = Owners(cluster, configuration, frameworks)
        self._namespaces = cluster.cache("namespaces")
        self._queues = cluster.cache("localqueues.kueue.x-k8s.io")

    @property
    def configuration(self) -> Configuration:
        return self._source.value

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get("", namespace)
        return _NONE if found is None else found["metadata"].get("labels") or _NONE

    def has_default_queue(self, namespace: str) -> bool:
        return self._queues.get(namespace, names.DEFAULT_QUEUE) is not None

    def owner_is_job(self, manifest: Manifest) -> bool:
        return self._owners.is_job(manifest)

    def owner_is_managed(self, manifest: Manifest) -> bool:
        try:
            return self._owners.ancestor(manifest) is not None
        except (NestedTooDeep, OwnerMissing):
            return False

    def manages(self, manifest: Manifest, framework: str) -> bool:
        configuration = self._source.value
        return (
            framework in configuration.frameworks
            and bool(webhooks.queue_name(manifest) or configuration.manage_jobs_without_queue_name)
            and self.is_selected(manifest, framework)
            and not self.owner_is_managed(manifest)
        )

    def is_selected(self, manifest: Manifest, framework: str) -> bool:
        """Whether jobs of this kind in the object's namespace are the queue's business."""
        configuration = self._source.value
        labels = self.namespace_labels(manifest["metadata"].get("namespace", ""))
        selector = configuration.pod_namespace_selector if framework == pods.FRAMEWORK else None
        return configuration.namespace_selector.matches(labels) and (selector is None or selector.matches(labels))
