"""Who is behind an object: the job of the queue, if there is one, that its chain of controllers leads to."""

from collections.abc import Iterable
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.informer import Informer
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.errors import FairwayError
from fairway.integrations import webhooks
from fairway.integrations.framework import Framework
from fairway.integrations.workloads import controller_of

LONGEST_CHAIN: Final = 10
_MANAGED_JOB: Final = "fairway.dev/managedjob"
"""Always in the queue, with a Workload of its own."""


class NestedTooDeep(FairwayError):
    """Nobody is found behind an object, for too many are."""


class OwnerMissing(FairwayError):
    """An object's controller is not there: the object will follow it."""


class Owners:
    """Looks up controllers in the caches of the kinds that the queue manages."""

    def __init__(self, cluster: Cluster, configuration: ConfigurationSource, frameworks: Iterable[Framework]) -> None:
        self._configuration = configuration
        self._kinds: dict[tuple[str, str], tuple[str, Informer]] = {
            (framework.group, framework.kind): (framework.name, cluster.cache(framework.resource))
            for framework in frameworks
        }
        self._kinds["", "Pod"] = ("pod", cluster.cache("pods"))
        self._kinds["fairway.dev", "ManagedJob"] = (_MANAGED_JOB, cluster.cache("managedjobs.fairway.dev"))

    def is_job(self, manifest: Manifest) -> bool:
        """Whether the controller of an object is of a kind that the queue manages."""
        reference = controller_of(manifest)
        known = None if reference is None else self._known(reference)
        return known is not None and (known[0] == _MANAGED_JOB or known[0] in self._configuration.value.frameworks)

    def ancestor(self, manifest: Manifest) -> Manifest | None:
        """The uppermost job of the queue that an object belongs to."""
        reference = controller_of(manifest)
        if reference is None:
            return None
        configuration = self._configuration.value
        namespace = manifest["metadata"].get("namespace", "")
        found: Manifest | None = None
        seen = {manifest["metadata"].get("uid")}
        while reference is not None:
            known = self._known(reference)
            if known is None:
                break
            framework, cache = known
            parent = cache.get(namespace, reference["name"])
            if parent is None:
                raise OwnerMissing(f"{reference['kind']} {namespace}/{reference['name']} does not exist")
            uid = parent["metadata"]["uid"]
            if uid != reference["uid"]:
                break
            named = configuration.manage_jobs_without_queue_name or webhooks.queue_name(parent)
            if framework == _MANAGED_JOB or (named and framework in configuration.frameworks):
                found = parent
            if uid in seen or len(seen) > LONGEST_CHAIN:
                raise NestedTooDeep(f"the owners of {namespace}/{manifest['metadata'].get('name')} do not end")
            seen.add(uid)
            reference = controller_of(parent)
        return found

    def _known(self, reference: dict[str, Any]) -> tuple[str, Informer] | None:
        group = reference["apiVersion"].rpartition("/")[0]
        return self._kinds.get((group, reference["kind"]))
