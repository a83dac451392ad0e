"""What belongs to which managed job, kept current with every change, by the place of the job.

By place, not by uid: pods of a job that is gone are looked after, too, until they are.
"""

from fairway.apis.machinery.kind import Manifest
from fairway.client.informer import Informer, Key
from fairway.integrations.workloads import controller_of
from fairway.managedjobs.waiting import GROUP, KIND


class Owned:
    """The objects of a kind that managed jobs control; shared, so not to be changed."""

    def __init__(self, cache: Informer) -> None:
        self._by_job: dict[Key, dict[str, Manifest]] = {}
        cache.on_change(self._note)

    def of(self, key: Key) -> list[Manifest]:
        found = self._by_job.get(key)
        return list(found.values()) if found else []

    def _note(self, old: Manifest | None, new: Manifest | None) -> None:
        before, after = job_key(old), job_key(new)
        if old is not None and before is not None and before != after:
            held = self._by_job[before]
            del held[old["metadata"]["name"]]
            if not held:
                del self._by_job[before]
        if new is not None and after is not None:
            self._by_job.setdefault(after, {})[new["metadata"]["name"]] = new


def job_key(manifest: Manifest | None) -> Key | None:
    """The place of the managed job that controls an object; nothing if none does."""
    reference = None if manifest is None else controller_of(manifest)
    if manifest is None or reference is None or reference["kind"] != KIND:
        return None
    if reference["apiVersion"].partition("/")[0] != GROUP:
        return None
    return manifest["metadata"].get("namespace", ""), reference["name"]


def is_of(manifest: Manifest, job: Manifest) -> bool:
    """Whether an object belongs to this very job, and not to one of the same name before it."""
    reference = controller_of(manifest)
    return reference is not None and bool(reference["uid"] == job["metadata"]["uid"])
