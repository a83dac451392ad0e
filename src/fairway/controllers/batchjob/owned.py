"""Which pods are whose, kept current with every change, so that no job has to look through all pods."""

from collections.abc import Collection

from fairway.apis.machinery.kind import Manifest
from fairway.client.informer import Key
from fairway.controllers.batchjob import pods as facts


class OwnedPods:
    """Pods by the job that controls them, and the pods that nobody controls by their namespace."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[str, Manifest]] = {}
        self._orphans: dict[str, dict[str, Manifest]] = {}

    def of(self, job_uid: str) -> Collection[Manifest]:
        return list(self._by_owner.get(job_uid, {}).values())

    def has(self, job_uid: str) -> bool:
        """Whether there is a pod of this job."""
        return job_uid in self._by_owner

    def orphans(self, namespace: str) -> Collection[Manifest]:
        return list(self._orphans.get(namespace, {}).values())

    def note(self, old: Manifest | None, new: Manifest | None) -> None:
        """Take in a change."""
        before = None if old is None else _shelf(old)
        after = before if is_with_the_same(old, new) else None if new is None else _shelf(new)
        if old is not None and before is not None and before != after:
            self._take(before, old)
        if new is not None and after is not None:
            self._shelves(after[0]).setdefault(after[1], {})[facts.uid(new)] = new

    def _take(self, shelf: tuple[str, str], pod: Manifest) -> None:
        shelves = self._shelves(shelf[0])
        pods = shelves.get(shelf[1], {})
        pods.pop(facts.uid(pod), None)
        if not pods:
            shelves.pop(shelf[1], None)

    def _shelves(self, kind: str) -> dict[str, dict[str, Manifest]]:
        return self._by_owner if kind == "owner" else self._orphans


def is_with_the_same(old: Manifest | None, new: Manifest | None) -> bool:
    """Whether a pod that changed has the owners that it had."""
    if old is None or new is None:
        return False
    return bool(old["metadata"].get("ownerReferences") == new["metadata"].get("ownerReferences"))


def owner_key(pod: Manifest) -> Key | None:
    """The namespace and name of the job that controls a pod."""
    owner = facts.owner(pod)
    return None if owner is None else (pod["metadata"].get("namespace", ""), owner["name"])


def _shelf(pod: Manifest) -> tuple[str, str] | None:
    owner = facts.owner_uid(pod)
    if owner is not None:
        return "owner", owner
    return None if facts.has_controller(pod) else ("namespace", pod["metadata"].get("namespace", ""))
