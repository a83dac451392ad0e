"""For whom a job has to go, in words for its user: the condition of its Workload names only uids, as Kueue's does.

Known from the decision itself, while this process lives; after a restart the condition's own words are used.
"""

from collections.abc import Callable
from typing import Protocol

from fairway.admission.instructions import Admit, Evict, Instruction
from fairway.apis.machinery.kind import Manifest
from fairway.client.informer import Informer
from fairway.controllers.deciding import Queueing
from fairway.integrations.workloads import controller_of


class Deciding(Queueing, Protocol):
    """Whoever owns the engine, and tells what it decides."""

    def on_decided(self, listener: Callable[[list[Instruction]], None]) -> None:
        """Call this with what was decided."""


class Preemptors:
    """Remembers for whom each workload was preempted, until it is admitted again."""

    def __init__(self, queueing: Deciding, workloads: Informer) -> None:
        self._workloads = workloads
        self._by_victim: dict[str, str] = {}
        queueing.on_decided(self._note)
        workloads.on_change(self._changed)

    def said_of(self, workload: Manifest) -> str:
        """A sentence about who preempted a workload; empty if that is not known."""
        preemptor = self._by_victim.get(_key(workload))
        if preemptor is None:
            return ""
        namespace, _, name = preemptor.partition("/")
        found = self._workloads.get(namespace, name)
        owner = None if found is None else controller_of(found)
        with_priority = "" if found is None else f" with priority {found['spec'].get('priority') or 0}"
        if namespace != workload["metadata"]["namespace"]:
            # Who may read this need not be one who may know what is there.
            return f"preempted by a job of another namespace{with_priority}"
        whose = f"Workload {name}" if owner is None else f"{owner['kind']} {owner['name']}"
        return f"preempted by {whose}{with_priority}"

    def _note(self, said: list[Instruction]) -> None:
        for one in said:
            if isinstance(one, Evict) and one.preemption is not None:
                self._by_victim[one.key] = one.preemption.preemptor
            elif isinstance(one, Admit):
                self._by_victim.pop(one.key, None)

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None and old is not None:
            self._by_victim.pop(_key(old), None)


def _key(workload: Manifest) -> str:
    return f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
