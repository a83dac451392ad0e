"""The surroundings of a job as the caches know them."""

from collections.abc import Mapping
from typing import Final

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.owners import NestedTooDeep, OwnerMissing, Owners
from fairway.integrations import names, pods, webhooks
from fairway.integrations.framework import Framework

_NONE: Mapping[str, str] = {}
_MOST_REMEMBERED: Final = 1024


class CachedSurroundings:
    """Keeps the contract of `jobs.surroundings.Surroundings`."""

    def __init__(self, cluster: Cluster, configuration: ConfigurationSource, frameworks: tuple[Framework, ...]) -> None:
        self._source = configuration
        self._owners = Owners(cluster, configuration, frameworks)
        self._namespaces = cluster.cache("namespaces")
        self._queues = cluster.cache("localqueues.kueue.x-k8s.io")
        self._selected: dict[tuple[str, str], tuple[Configuration, Manifest | None, bool]] = {}
        """By framework and namespace, what was found out and from which states of both."""

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
        """Whether jobs of this kind in the object's namespace are the queue's business; worked out once a state."""
        configuration, namespace = self._source.value, manifest["metadata"].get("namespace", "")
        found, place = self._namespaces.get("", namespace), (framework, namespace)
        known = self._selected.get(place)
        if known is None or known[0] is not configuration or known[1] is not found:
            labels = self.namespace_labels(namespace)
            selector = configuration.pod_namespace_selector if framework == pods.FRAMEWORK else None
            selected = configuration.namespace_selector.matches(labels) and (
                selector is None or selector.matches(labels)
            )
            if len(self._selected) >= _MOST_REMEMBERED:
                self._selected.clear()
            known = self._selected[place] = configuration, found, selected
        return known[2]
