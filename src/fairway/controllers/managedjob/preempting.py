"""For whom a job has to go, in words for its user: the condition of its Workload names only uids, as Kueue's does."""

import re
from typing import Final

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.informer import Informer
from fairway.integrations import conditions
from fairway.integrations.workloads import controller_of

_PREEMPTOR: Final = re.compile(r"to accommodate a workload \(UID: ([^,)]+)")


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
