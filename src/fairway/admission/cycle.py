"""One scheduling cycle of a tree, and cycles until nothing changes.

A cycle takes the head of every queue of the tree, finds flavors and victims for each against the usage as it is, puts
them in order, and then goes through them while usage changes: the first to come may take what the next had counted
on. Room that is being made for a preemptor is kept for it during the cycle.

Other workloads keep waiting. A tree is settled when a cycle changed nothing; it is tried again when an event
touches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairway.admission import lifecycle, ordering, sleeping
from fairway.admission.assignment import Assigner, Oracle, Pinned, reduced_counts
from fairway.admission.choices import Assignment, FitVerdict, Mode
from fairway.admission.clusterqueues import QueueState
from fairway.admission.forest import CohortTree
from fairway.admission.instructions import EvictionReason, PodSetAdmission, Preemption
from fairway.admission.preemption import classical, fair
from fairway.admission.preemption.search import PlacementQuestion, Search, Target, cheaper, in_base_order
from fairway.admission.quota import Node, without
from fairway.admission.reasons import Explanation, Outcome
from fairway.admission.records import Progress, Record
from fairway.admission.resources import Amounts, FlavorResource
from fairway.admission.sleeping import Sleep
from fairway.admission.topology.assigning import NotPlaced, TopologyAsk, place_all, still_fit
from fairway.admission.topology.capacity import Occupied
from fairway.admission.world import World
from fairway.apis.kueue.objects import CheckState

_STEPS_ASIDE = frozenset({Outcome.NAMESPACE_MISMATCH, Outcome.SCHEDULER_MISSING})
"""Hindrances that do not hold up those behind a head, even in a StrictFIFO queue."""


class CycleEntry:
    """A head in a cycle, with what it would take and from whom. ``resumed``: its search began behind some flavors."""

    __slots__ = ("assignment", "level", "progress", "queue", "record", "replaced", "resumed", "targets", "usage")

    def __init__(
        self,
        record: Record,
        queue: QueueState,
        assignment: Assignment,
        targets: list[Target],
        *,
        progress: Progress | None,
        replaced: Record | None,
        resumed: bool,
    ) -> None:
        self.replaced = replaced
        self.progress = progress
        self.resumed = resumed
        self.record = record
        self.queue = queue
        self.assignment = assignment
        self.targets = targets
        self.level = assignment.level
        self.usage = assignment.usage


def run(world: World, tree: CohortTree) -> None:
    """Cycle until the tree is still: until a cycle changed nothing and every search would start where it started
    before.
    """
    seen: set[object] = set()
    if world.config.hold_admission:
        return
    while True:
        heads = _heads(tree)
        if not heads or tree.looping:
            return
        before = [record.progress for record, _ in heads]
        tree.cycle += 1
        if Cycle(world, tree).run(heads):
            seen.clear()
            continue
        seen.add(_standing(heads, before))
        if _standing(heads, [record.progress for record, _ in heads]) in seen:
            return


def admit_blocked(world: World) -> None:
    """Once pods block admission no longer, the workload that they held up goes first, if there still is room for it.

    One that timed out would otherwise be before it again, and hold it up again.
    """
    if not world.blocked or world.unready or world.config.hold_admission:
        return
    record = world.records.get(world.blocked)
    world.blocked = ""
    queue = world.queue_for(record) if record is not None and record.lane is not None else None
    if record is None or queue is None or not queue.active:
        return
    cycle = Cycle(world, world.forest.tree_of(queue))
    if cycle.finds_room(record, queue):
        cycle.run([(record, queue)])


def assess(world: World, record: Record, queue: QueueState) -> Assignment:
    """What a workload would get if it were tried now, all flavors considered. Nothing changes by asking."""
    return Cycle(world, world.forest.tree_of(queue)).try_now(record, queue)


def fits(world: World, record: Record, queue: QueueState) -> bool:
    """Whether a workload fits now, without preemption."""
    return Cycle(world, world.forest.tree_of(queue)).finds_room(record, queue)


def victims(world: World, record: Record, queue: QueueState) -> list[Record]:
    """The victims of a workload if it were tried now; empty if it could not preempt, or need not."""
    return Cycle(world, world.forest.tree_of(queue)).would_preempt(record, queue)


def _standing(heads: list[tuple[Record, QueueState]], progress: list[Progress | None]) -> object:
    """How far each head has got through its flavors."""
    return tuple((record.key, _tried(got)) for (record, _), got in zip(heads, progress, strict=True))


def _tried(progress: Progress | None) -> object:
    if progress is None or not progress.unfinished:
        return ()
    return tuple(tuple(pod_set.items()) for pod_set in progress.tried)


def _heads(tree: CohortTree) -> list[tuple[Record, QueueState]]:
    """The next of every active queue."""
    heads = []
    for name in sorted(tree.ready):
        queue = tree.queues[name]
        head = queue.pending.head()
        if head is None:
            tree.ready.discard(name)
        elif queue.active:
            heads.append((head, queue))
    return heads


class Cycle:
    """``changed`` says whether anything was admitted, evicted or moved out of the way."""

    __slots__ = (
        "_admitted",
        "_answers",
        "_changed",
        "_dozing",
        "_kept",
        "_kept_places",
        "_preempted",
        "_tree",
        "_world",
    )

    def __init__(self, world: World, tree: CohortTree) -> None:
        self._world = world
        self._tree = tree
        self._changed = False
        self._admitted = False
        self._kept: list[tuple[QueueState, Amounts]] = []
        self._kept_places: list[tuple[Occupied, ...]] = []
        self._dozing: list[QueueState] = []
        self._preempted: dict[str, Record] = {}
        self._answers: dict[tuple[str, frozenset[FlavorResource], Amounts, tuple[TopologyAsk, ...]], list[Target]] = {}

    def run(self, heads: list[tuple[Record, QueueState]]) -> bool:
        assigner = self._assigner()
        entries = [
            entry
            for record, queue in heads
            if not self._sleeps_on(record, queue) and (entry := self._nominate(assigner, record, queue)) is not None
        ]
        for entry in self._in_order(entries):
            if entry.assignment.placed:
                self._place_again(assigner, entry)
            self._process(entry)
        for queue, amounts in reversed(self._kept):
            queue.leaf.remove_all(amounts)
        for placed in self._kept_places:
            self._world.topologies.give_back(placed)
        for queue in self._dozing:
            queue.pending.park_sleepers(queue)
        if self._admitted:
            self._world.attempts.success += 1
        else:
            self._world.attempts.inadmissible += 1
        return self._changed

    def _in_order(self, entries: list[CycleEntry]) -> Iterator[CycleEntry]:
        if self._world.config.fair_sharing is not None:
            return ordering.by_fair_share(self._tree, entries)
        return ordering.classical(entries)

    def try_now(self, record: Record, queue: QueueState) -> Assignment:
        return self._assigner().assign(record, queue, replaced=_by_pod_set(self._world.replaced_by(record)))

    def finds_room(self, record: Record, queue: QueueState) -> bool:
        replaced = _by_pod_set(self._world.replaced_by(record))
        return self._assigner(_spare_everybody).assign(record, queue, replaced=replaced).mode is Mode.FIT

    def would_preempt(self, record: Record, queue: QueueState) -> list[Record]:
        return [target.record for target in self._targets(record, queue, self.try_now(record, queue))]

    def _assigner(self, oracle: Oracle | None = None) -> Assigner:
        """Not kept, for it knows this cycle: the two would keep each other alive until the collector comes."""
        config = self._world.config
        return Assigner(
            flavors=self._world.flavors,
            nodes=self._world.nodes,
            topologies=self._world.topologies,
            balance=config.balanced_placement,
            oracle=oracle or self._simulate,
            fair=config.fair_sharing is not None,
            ignore_undeclared=config.resources.ignore_undeclared,
            shortcut=self._world.shortcuts,
        )

    def _sleeps_on(self, record: Record, queue: QueueState) -> bool:
        """Whether it is certain that the head finds no room again: it takes its turn and steps back, unexamined."""
        lane = record.lane
        if lane is None or not lane.sleeps(queue):
            return False
        queue.pending.sleep_on(lane)
        self._dozing.append(queue)
        self._changed = True
        return True

    # Nomination: what each head would take, on the usage as it is

    def _nominate(self, assigner: Assigner, record: Record, queue: QueueState) -> CycleEntry | None:
        hindrance = self._hindrance(record, queue)
        if hindrance is not None:
            lifecycle.explain(self._world, record, hindrance)
            if not queue.pending.strict or hindrance.outcome in _STEPS_ASIDE:
                queue.pending.set_aside(record)
                self._changed = True
            return None
        progress = self._progress(record, queue)
        replaced = self._world.replaced_by(record)
        assignment, targets = self._assign(assigner, record, queue, progress, replaced=replaced)
        got_to = None
        if assignment.unfinished:
            got_to = Progress(assignment.tried, self._tree.cycle, queue.generation, record.lane_key)
        return CycleEntry(
            record, queue, assignment, targets, progress=got_to, replaced=replaced, resumed=progress is not None
        )

    def _hindrance(self, record: Record, queue: QueueState) -> Explanation | None:
        """What keeps a head from competing, other than quota."""
        for check in record.checks.values():
            if check.state in (CheckState.RETRY, CheckState.REJECTED):
                return Explanation(Outcome.FAILED_CHECKS)
        if not queue.selects(record.namespace, self._world.namespaces):
            if record.namespace not in self._world.namespaces:
                return Explanation(Outcome.NAMESPACE_MISSING, record.namespace)
            return Explanation(Outcome.NAMESPACE_MISMATCH)
        for index, ask in enumerate(record.demand.asks):
            if ask.shape.violations:
                path = f"spec.podSets[{index}].template.spec"
                details = ", ".join(f"{path}.{violation}" for violation in ask.shape.violations)
                return Explanation(Outcome.REQUESTS_EXCEED_LIMITS, details)
            if self._world.nodes is not None and ask.shape.scheduler not in self._world.nodes.schedulers:
                return Explanation(Outcome.SCHEDULER_MISSING, ask.shape.scheduler)
        outside = self._world.pod_limits.violations(record.namespace, record.spec.pod_sets)
        return Explanation(Outcome.OUTSIDE_LIMIT_RANGE, ", ".join(outside)) if outside else None

    def _assign(
        self,
        assigner: Assigner,
        record: Record,
        queue: QueueState,
        progress: Progress | None,
        pinned: Pinned | None = None,
        replaced: Record | None = None,
    ) -> tuple[Assignment, list[Target]]:
        if replaced is not None:
            part_of = assigner.assign(record, queue, progress, pinned=pinned, replaced=_by_pod_set(replaced))
            targets = self._targets(record, queue, part_of)
            return self._place_preemptor(part_of, targets), targets
        full = assigner.assign(record, queue, progress, pinned=pinned)
        targets = self._targets(record, queue, full)
        if full.mode is Mode.FIT or targets or not record.demand.divisible:
            return self._place_preemptor(full, targets), targets
        part = self._assign_partially(assigner, record, queue, progress, pinned)
        made, targets = part if part is not None else (full, [])
        return self._place_preemptor(made, targets), targets

    def _place_preemptor(self, made: Assignment, targets: list[Target]) -> Assignment:
        """Where the pods of a preemptor are to go once its victims are gone; without victims, in empty domains, so
        that no other workload takes the place and is the next victim.
        """
        if not made.asks or made.placed or made.mode is Mode.NO_FIT:
            return made
        topologies = self._world.topologies
        with topologies.without(one for target in targets for one in target.record.placed):
            found = place_all(topologies, made.asks, empty=not targets, balance=self._world.config.balanced_placement)
        if not isinstance(found, NotPlaced):
            made.put(found)
        return made

    def _assign_partially(
        self,
        assigner: Assigner,
        record: Record,
        queue: QueueState,
        progress: Progress | None,
        pinned: Pinned | None,
    ) -> tuple[Assignment, list[Target]] | None:
        """The largest number of pods that fits, found by halving: what fits is taken to fit with fewer pods, too."""
        full, least = record.demand.full_counts, record.demand.min_counts
        low, high = 0, sum(full) - sum(least) + 1
        most = high
        best: tuple[int, Assignment, list[Target]] | None = None
        while low < high:
            step = (low + high) // 2
            counts = reduced_counts(full, least, step)
            assignment = assigner.assign(record, queue, progress, counts, pinned)
            targets = self._targets(record, queue, assignment)
            if assignment.mode is Mode.FIT or targets:
                best = (step, assignment, targets)
                high = step
            else:
                low = step + 1
        if best is None or low >= most or best[0] != low:
            return None
        return best[1], best[2]

    def _progress(self, record: Record, queue: QueueState) -> Progress | None:
        """Where the last try left off, unless so much has changed since that it starts over."""
        last = record.progress
        if last is None or last.lane_key != record.lane_key or not last.unfinished:
            return None
        if self._tree.cycle - last.cycle > 1 and queue.generation > last.generation:
            return None
        return last

    # Preemption

    def _targets(self, record: Record, queue: QueueState, assignment: Assignment) -> list[Target]:
        if not Mode.NO_FIT < assignment.mode < Mode.FIT:
            return []
        # Kueue leaves the count of pods out of this question; the check before an eviction is issued has it in.
        return self._search(record, queue, assignment.contested, assignment.requests, assignment.asks)

    def _search(
        self,
        record: Record,
        queue: QueueState,
        contested: frozenset[FlavorResource],
        requests: Amounts,
        asks: tuple[TopologyAsk, ...] = (),
    ) -> list[Target]:
        """Ask for victims. While heads are nominated nothing changes, so the same question has the same answer."""
        question = (record.key, contested, requests, asks)
        targets = self._answers.get(question)
        if targets is None:
            targets = self._answers[question] = self._find_targets(record, queue, contested, requests, asks)
        return targets

    def _find_targets(
        self,
        record: Record,
        queue: QueueState,
        contested: frozenset[FlavorResource],
        requests: Amounts,
        asks: tuple[TopologyAsk, ...],
    ) -> list[Target]:
        config = self._world.config
        placement = PlacementQuestion(self._world.topologies, asks, config.balanced_placement) if asks else None
        search = Search(
            tree=self._tree,
            queue=queue,
            record=record,
            contested=contested,
            requests=requests,
            now=self._world.now,
            minimum_run=config.minimum_run_seconds,
            placement=placement,
        )
        targets = self._take_victims(search, shortcut=self._world.shortcuts)
        if targets and self._tree.victims.aged and search.frees_too_much(targets):
            with in_base_order(self._tree):
                targets = cheaper(search, targets, self._take_victims(search, shortcut=False))
        if not targets and search.protected_until is not None:
            self._world.wake_tree_at(self._tree.name, search.protected_until)
        return targets

    def _take_victims(self, search: Search, *, shortcut: bool) -> list[Target]:
        if (sharing := self._world.config.fair_sharing) is not None:
            return fair.find_targets(search, sharing.strategies)
        return classical.find_targets(search, shortcut=shortcut)

    def _simulate(self, record: Record, queue: QueueState, fr: FlavorResource, amount: int) -> FitVerdict:
        """Whether preemption could make room for this much of one flavor-resource, and how far up it would then
        borrow.
        """
        targets = self._search(record, queue, frozenset((fr,)), ((fr, amount),))
        if not targets:
            return FitVerdict(Mode.NO_CANDIDATES, queue.leaf.lowest_fitting_height(fr, amount)[0])
        own = [target.record for target in targets if target.record.queue is queue]
        mode = Mode.PREEMPT if own else Mode.RECLAIM
        freed = sum(part for record in own for used, part in record.usage if used is fr)
        if not queue.leaf.exceeds_quota_with(fr, amount - freed):
            return FitVerdict(mode, 0)
        with without(_held(target.record for target in targets)):
            return FitVerdict(mode, queue.leaf.lowest_fitting_height(fr, amount)[0])

    # Processing: in order, on usage that changes

    def _place_again(self, assigner: Assigner, entry: CycleEntry) -> None:
        """Others may have taken the place since the nomination: look for another one, in the same flavors."""
        if not self._quota_fits(entry) or self._place_fits(entry):
            return
        pinned: Pinned = {
            (index, resource): choice.fr.flavor
            for index, each in enumerate(entry.assignment.pod_sets)
            for resource, choice in each.choices.items()
        }
        self._answers.clear()
        assignment, targets = self._assign(assigner, entry.record, entry.queue, None, pinned, entry.replaced)
        entry.assignment, entry.targets = assignment, targets
        entry.level, entry.usage = assignment.level, assignment.usage

    def _process(self, entry: CycleEntry) -> None:
        record, assignment = entry.record, entry.assignment
        record.progress = entry.progress
        if assignment.mode is Mode.NO_FIT:
            self._wait(entry, Outcome.NO_FIT)
        elif assignment.mode is not Mode.FIT and not entry.targets:
            if entry.queue.reclaim != "Any":
                self._keep(entry.queue, _room_to_keep(entry), assignment.placed)
            self._wait(entry, Outcome.NO_CANDIDATES)
        elif any(target.record.key in self._preempted for target in entry.targets) or (
            entry.replaced is not None and entry.replaced.key in self._preempted
        ):
            self._skip(entry, Outcome.OVERLAPPING_TARGETS)
        elif not self._still_fits(entry):
            self._skip(entry, Outcome.NO_LONGER_FITS)
        elif assignment.mode is not Mode.FIT:
            self._preempt(entry)
        elif self._world.config.pods_ready.block_admission and self._world.unready:
            self._world.blocked = self._world.blocked or record.key
            self._skip(entry, Outcome.WAITING_FOR_PODS_READY)
        else:
            lifecycle.reserve(self._world, record, entry.queue, assignment)
            self._changed = self._admitted = True

    def _still_fits(self, entry: CycleEntry) -> bool:
        return self._quota_fits(entry) and (not entry.assignment.placed or self._place_fits(entry))

    def _place_fits(self, entry: CycleEntry) -> bool:
        gone = {**self._preempted, **{target.record.key: target.record for target in entry.targets}}
        topologies = self._world.topologies
        with topologies.without(one for record in gone.values() for one in record.placed):
            flavors = {ask.flavor for ask in entry.assignment.asks}
            return still_fit(topologies, entry.assignment.placed, flavors)

    def _quota_fits(self, entry: CycleEntry) -> bool:
        leaf = entry.queue.leaf
        if not self._preempted and not entry.targets:
            return all(amount <= 0 or amount <= leaf.available(fr) for fr, amount in entry.usage)
        gone = dict(self._preempted)
        gone.update((target.record.key, target.record) for target in entry.targets)
        with without(_held(gone.values())):
            return all(amount <= max(0, leaf.available(fr)) for fr, amount in entry.usage)

    def _keep(self, queue: QueueState, amounts: Amounts, placed: tuple[Occupied, ...]) -> None:
        """Set room aside for the rest of this cycle."""
        queue.leaf.add_all(amounts)
        self._kept.append((queue, amounts))
        if placed:
            self._world.topologies.take(placed)
            self._kept_places.append(placed)

    def _preempt(self, entry: CycleEntry) -> None:
        record, queue = entry.record, entry.queue
        self._preempted.update((target.record.key, target.record) for target in entry.targets)
        self._keep(queue, entry.usage, entry.assignment.placed)
        for target in entry.targets:
            if target.record.evicted is None:
                lifecycle.evict(
                    self._world, target.record, EvictionReason.PREEMPTED, preemption=_preemption(record, queue, target)
                )
                self._changed = True
        record.progress = None
        if queue.pending.preemptor is not record:
            queue.pending.preemptor = record
            self._changed = True
        self._explain(entry, Outcome.PENDING_PREEMPTION, victims=len(entry.targets))

    def _wait(self, entry: CycleEntry, outcome: Outcome) -> None:
        """No room: step back and let the next one try, unless flavors are left that were not looked at."""
        self._explain(entry, outcome)
        if entry.queue.pending.strict and entry.assignment.lacks_node:
            entry.queue.pending.set_aside(entry.record)
            self._changed = True
        if entry.assignment.unfinished or entry.queue.pending.strict:
            return
        sleep = self._sleep(entry)
        entry.queue.pending.park(entry.record, sleep)
        if sleep is not None:
            self._dozing.append(entry.queue)
        self._changed = True

    def _sleep(self, entry: CycleEntry) -> Sleep | None:
        world = self._world
        if (
            not world.shortcuts
            or entry.resumed
            or entry.replaced is not None
            or world.config.fair_sharing
            or world.config.minimum_run_seconds
        ):
            return None
        return sleeping.after_failed_try(entry.record, entry.queue, entry.assignment, world.frs)

    def _skip(self, entry: CycleEntry, outcome: Outcome) -> None:
        """An earlier head took the room, or the victims: try again in the next cycle."""
        lifecycle.explain(self._world, entry.record, Explanation(outcome))

    def _explain(self, entry: CycleEntry, outcome: Outcome, victims: int = 0) -> None:
        explanation = Explanation(outcome, entry.queue.name, entry.assignment.reasons, victims)
        if entry.record.lane is not None:
            entry.record.lane.explanation = explanation
        lifecycle.explain(self._world, entry.record, explanation)


def _by_pod_set(replaced: Record | None) -> dict[str, PodSetAdmission]:
    """What a slice that is to be replaced has, by pod set."""
    return {} if replaced is None else {one.name: one for one in lifecycle.current_admission(replaced)}


def _spare_everybody(record: Record, queue: QueueState, fr: FlavorResource, amount: int) -> FitVerdict:  # noqa: ARG001
    return FitVerdict(Mode.NO_CANDIDATES, queue.leaf.lowest_fitting_height(fr, amount)[0])


def _held(records: Iterable[Record]) -> list[tuple[Node, Amounts]]:
    return [(record.queue.leaf, record.usage) for record in records if record.queue is not None]


def _room_to_keep(entry: CycleEntry) -> Amounts:
    """What a head without candidates keeps others from taking: up to its quota, or its borrowing limit when it
    borrows.
    """
    leaf = entry.queue.leaf
    kept = []
    for fr, amount in entry.usage:
        left = leaf.nominal.get(fr, 0) - leaf.usage.get(fr, 0)
        if entry.level == 0:
            kept.append((fr, max(0, min(amount, left))))
        elif fr in leaf.borrowing:
            kept.append((fr, max(0, min(amount, left + leaf.borrowing[fr]))))
        else:
            kept.append((fr, amount))
    return tuple(kept)


def _preemption(record: Record, queue: QueueState, target: Target) -> Preemption:
    victim_queue = target.record.queue
    return Preemption(
        reason=target.reason,
        preemptor=record.key,
        preemptor_uid=record.uid,
        preemptor_job_uid=record.job_uid,
        preemptor_path=_path(queue),
        path=_path(victim_queue) if victim_queue is not None else (),
    )


def _path(queue: QueueState) -> tuple[str, ...]:
    return (*(cohort.name for cohort in reversed(list(queue.leaf.path_up()))), queue.name)
