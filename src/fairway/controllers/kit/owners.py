"""Owners: what each controls, and the job of the queue that an object's chain of controllers leads to."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Lister
from fairway.client.informer import Informer
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.errors import FairwayError
from fairway.integrations import webhooks
from fairway.integrations.framework import Framework
from fairway.integrations.workloads import controller_of

LONGEST_CHAIN: Final = 10
_MANAGED_JOB: Final = "fairway.dev/managedjob"
"""Always in the queue, with a Workload of its own."""

K = TypeVar("K", bound=Hashable)


class OwnerIndex(Generic[K]):
    """Objects of a kind by their owner, kept current with every change; shared, so not to be changed."""

    def __init__(self, owner: Callable[[Manifest], K | None], cache: Informer | None = None) -> None:
        """`owner` depends on the namespace, the owner references and annotations that do not change. Without a cache,
        call `note`.
        """
        self._owner = owner
        self._owned: dict[K, dict[str, Manifest]] = {}
        if cache is not None:
            cache.on_change(self.note)

    def __contains__(self, owner: K) -> bool:
        return owner in self._owned

    def of(self, owner: K) -> list[Manifest]:
        """What this owner has, in the order in which it came."""
        return list(self._owned.get(owner, {}).values())

    def note(self, old: Manifest | None, new: Manifest | None) -> None:
        """Take in a change."""
        before = None if old is None else self._owner(old)
        after = before if have_same_owners(old, new) else None if new is None else self._owner(new)
        if old is not None and before is not None and before != after:
            owned = self._owned.get(before, {})
            owned.pop(old["metadata"]["uid"], None)
            if not owned:
                self._owned.pop(before, None)
        if new is not None and after is not None:
            self._owned.setdefault(after, {})[new["metadata"]["uid"]] = new


def have_same_owners(old: Manifest | None, new: Manifest | None) -> bool:
    """Whether an object that changed has the owner references that it had."""
    if old is None or new is None:
        return False
    return bool(old["metadata"].get("ownerReferences") == new["metadata"].get("ownerReferences"))


def controller_uid(manifest: Manifest) -> str | None:
    reference = controller_of(manifest)
    return None if reference is None else str(reference["uid"])


class NestedTooDeep(FairwayError):
    """The chain of owners of an object is too long."""


class OwnerMissing(FairwayError):
    """An object's controller is not there: the object will follow it."""


class Owners:
    """Looks up controllers in the caches of the kinds that the queue manages."""

    def __init__(self, cluster: Lister, configuration: ConfigurationSource, frameworks: Iterable[Framework]) -> None:
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
