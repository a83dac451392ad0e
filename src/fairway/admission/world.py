"""The whole state of an engine.

The world holds state; it decides nothing. Changes of a workload's state are in :mod:`fairway.admission.lifecycle`,
decisions in :mod:`fairway.admission.cycle`, and what objects mean in :mod:`fairway.admission.objects`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from fairway.admission.clusterqueues import QueueState
from fairway.admission.config import Config
from fairway.admission.flavors import Flavor
from fairway.admission.forest import CohortTree, Forest
from fairway.admission.instructions import Instruction
from fairway.admission.nodes import Nodes
from fairway.admission.podlimits import PodLimits
from fairway.admission.records import Demands, Record
from fairway.admission.resources import FlavorResources
from fairway.admission.shapes import Shapes
from fairway.admission.topology.capacity import Topologies
from fairway.admission.usage import UsageLedger
from fairway.apis.kueue.objects import StopPolicy


class LocalQueueState:
    """A LocalQueue: where it leads, whether it is stopped, and the workloads that name it."""

    __slots__ = ("cluster_queue", "key", "records", "stop_policy", "weight")

    def __init__(self, key: str) -> None:
        self.key = key
        self.cluster_queue = ""
        self.stop_policy = StopPolicy.NONE
        self.weight = 1.0
        self.records: dict[str, Record] = {}

    @property
    def stopped(self) -> bool:
        return self.stop_policy is not StopPolicy.NONE


class Attempts:
    """How many scheduling cycles there were: those that admitted a workload, and those that did not."""

    __slots__ = ("inadmissible", "success")

    def __init__(self) -> None:
        self.success = 0
        self.inadmissible = 0


class World:
    """``local_queues`` also holds those that workloads name but that do not exist; ``known_local_queues`` says which
    do.
    """

    __slots__ = (
        "_sequence",
        "_timers",
        "_wakes",
        "attempts",
        "blocked",
        "checks",
        "config",
        "demands",
        "dirty",
        "flavors",
        "forest",
        "frs",
        "known_local_queues",
        "local_queues",
        "namespaces",
        "nodes",
        "now",
        "out",
        "pod_limits",
        "provisioning_checks",
        "records",
        "room_for_second_pass",
        "second_pass",
        "shortcuts",
        "topologies",
        "unready",
        "usage",
    )

    def __init__(self, config: Config, *, shortcuts: bool = True, attempts: Attempts | None = None) -> None:
        self.config = config
        self.attempts = attempts or Attempts()
        self.shortcuts = shortcuts
        self.now = 0.0
        self.frs = FlavorResources()
        self.demands = Demands(Shapes(config.resources))
        self.forest = Forest(self.frs)
        self.flavors: dict[str, Flavor] = {}
        self.checks: dict[str, bool] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.nodes: Nodes | None = None
        self.topologies = Topologies(self.flavors)
        self.provisioning_checks: set[str] = set()
        self.second_pass: dict[str, int] = {}
        """Workloads that hold quota and need a place in a topology, with the number of their next try."""
        self.room_for_second_pass = False
        self.pod_limits = PodLimits()
        self.local_queues: dict[str, LocalQueueState] = {}
        self.known_local_queues: set[str] = set()
        self.records: dict[str, Record] = {}
        self.unready: set[str] = set()
        self.blocked = ""
        """The workload that was to be admitted when pods of others were not ready: it keeps its place."""
        self.usage = UsageLedger(config.admission_fair_sharing)
        self.out: list[Instruction] = []
        self.dirty: dict[str, None] = {}
        self._wakes: dict[str, float] = {}
        self._timers: list[tuple[float, int, str, str]] = []
        self._sequence = count()

    # Finding one from another

    @property
    def queues(self) -> dict[str, QueueState]:
        return self.forest.queues

    def local_queue(self, key: str) -> LocalQueueState:
        state = self.local_queues.get(key)
        if state is None:
            state = self.local_queues[key] = LocalQueueState(key)
        return state

    def queue_for(self, record: Record) -> QueueState | None:
        """The ClusterQueue that the workload's LocalQueue leads to."""
        local = self.local_queues.get(record.local_queue)
        return self.queues.get(local.cluster_queue) if local is not None else None

    def replaced_by(self, record: Record) -> Record | None:
        """The slice that a slice of the same job would take the place of: one that holds quota of the same queue."""
        if not record.replaces:
            return None
        old = self.records.get(record.replaces)
        if old is None or old.queue is None or old.namespace != record.namespace:
            return None
        return old if old.queue is self.queue_for(record) else None

    def weigh(self, record: Record) -> None:
        """Work out what a workload asks for, less the pods that need their quota no more."""
        pod_sets = self.pod_limits.completed(record.namespace, record.spec.pod_sets)
        record.demand = self.demands.of(pod_sets, record.reclaimed, gang=record.gang)

    # What must be looked at again

    def touch(self, queue: QueueState) -> None:
        """Something in this queue's tree changed: its heads are worth a try."""
        self.dirty[self.forest.tree_of(queue).name] = None

    def take_dirty(self) -> CohortTree | None:
        while self.dirty:
            name = next(iter(self.dirty))
            del self.dirty[name]
            tree = self.forest.tree_named(name)
            if tree is not None:
                return tree
        return None

    def set_ready(self, record: Record) -> None:
        """This workload's pods no longer block admission. The last one unblocks every tree."""
        if record.key in self.unready:
            self.unready.discard(record.key)
            if self.config.pods_ready.block_admission and not self.unready:
                for tree in self.forest:
                    self.dirty[tree.name] = None

    # Timers

    def wake_later(self, queue: QueueState) -> None:
        """Room was made: those parked in this queue's tree are tried again, once the batch is over."""
        self.wake_tree_at(self.forest.tree_of(queue).name, self.now + self.config.requeue_batch_seconds)

    def wake_tree_at(self, root_name: str, at: float) -> None:
        due = self._wakes.get(root_name)
        if due is None or at < due:
            self._wakes[root_name] = at
            heappush(self._timers, (at, next(self._sequence), "wake", root_name))

    def call_at(self, at: float, record: Record) -> None:
        heappush(self._timers, (at, next(self._sequence), "backoff", record.key))

    def place_later(self, record: Record, seconds: float) -> None:
        """Look for a place in a topology after a while."""
        heappush(self._timers, (self.now + seconds, next(self._sequence), "place", record.key))

    def show_later(self, queue: QueueState) -> None:
        """A queue's status may change. Where a cohort has an object, Kueue's cohort controller follows that status, and
        lets everyone in the tree be tried again; so a status that changed is felt after two batches.
        """
        if queue.watched and not queue.shown_later:
            queue.shown_later = True
            at = self.now + self.config.requeue_batch_seconds
            heappush(self._timers, (at, next(self._sequence), "status", queue.name))

    def sample_later(self, local_queue: str) -> None:
        """Look again at what a LocalQueue uses, one sampling interval from now."""
        sharing = self.config.admission_fair_sharing
        if sharing is not None:
            heappush(self._timers, (self.now + sharing.sampling_seconds, next(self._sequence), "sample", local_queue))

    def next_timer(self) -> float | None:
        """When time alone will change something."""
        timers = self._timers
        while timers:
            at, _, kind, name = timers[0]
            if kind != "wake" or self._wakes.get(name) == at:
                return at
            heappop(timers)
        return None

    def take_timer(self) -> tuple[str, str]:
        """The earliest timer, which :meth:`next_timer` announced: what is due, and for whom."""
        at, _, kind, name = heappop(self._timers)
        if kind == "wake":
            del self._wakes[name]
        self.now = max(self.now, at)
        return kind, name
