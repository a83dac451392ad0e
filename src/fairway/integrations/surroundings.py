"""The context of job webhooks: configuration, namespaces, queues and owners."""

from collections.abc import Mapping
from typing import Protocol

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest


class ClusterView(Protocol):
    """Answers at once, from what is known already."""

    @property
    def configuration(self) -> Configuration:
        """What is configured now."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it does not exist."""

    def has_default_queue(self, namespace: str) -> bool:
        """Whether jobs that name no queue go to the queue `default` of their namespace."""

    def owner_is_managed(self, manifest: Manifest) -> bool:
        """Whether the controller of an object, or one further up, is a job of the queue: then the object is not."""

    def owner_is_job(self, manifest: Manifest) -> bool:
        """Whether the controller of an object is of a kind that the queue manages, in a queue or not: such an object
        is never put into the default queue by itself.
        """

    def manages(self, manifest: Manifest, framework: str) -> bool:
        """Whether the queue decides when this object runs.

        So it is where the framework (`batch/job`, `pod` …) is on, the namespace is selected, no owner is managed, and
        it names a queue or need not.
        """
