"""A compiled ClusterQueue: its quota node, rules, pending workloads and holders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from fairway.admission.holders import Holders
from fairway.admission.pending import PendingQueue
from fairway.admission.precedents import Precedents
from fairway.admission.quota import Leaf, Quota
from fairway.admission.records import Record, Stage
from fairway.admission.resources import PODS, FlavorResource, FlavorResources
from fairway.apis.kueue.objects import (
    AdmissionMode,
    BorrowWithinCohortPolicy,
    ClusterQueue,
    ClusterQueueSpec,
    FlavorFungibilityPolicy,
    FlavorFungibilityPreference,
    LabelSelector,
    PreemptionPolicy,
    QueueingStrategy,
    StopPolicy,
)
from fairway.apis.kueue.objects import FairSharing as Weight
from fairway.apis.kueue.objects import ResourceGroup as GroupManifest
from fairway.apis.machinery.quantities import Quantity, amount_of

if TYPE_CHECKING:
    from fairway.admission.forest import CohortTree


class FlavorSlot(NamedTuple):
    """One flavor of a resource group, with the flavor-resource of each resource it covers."""

    name: str
    frs: dict[str, FlavorResource]


class FlavorGroup(NamedTuple):
    """Resources that are always taken from the same flavor, and the flavors to try, in order."""

    covered: frozenset[str]
    flavors: tuple[FlavorSlot, ...]


class CheckRule(NamedTuple):
    """An admission check, and the flavors that need it (none: all of them)."""

    name: str
    flavors: frozenset[str]


class QueueState:
    """``inactive`` lists why the queue admits nothing; it is active when the list is empty.

    ``generation`` grows when flavors that were passed over are worth another look, ``epoch`` with every change of the
    queue itself or of what a holder uses, and with holders that come and go if it may preempt them. ``by_local_queue``
    has the holders again, by where they came from. ``watched`` says that some cohort above it has an object, ``shown``
    is what the queue's status showed last, and ``shown_later`` that it is about to be looked at again.
    ``topology_flavors`` are its flavors with a topology, ``only_topologies`` says that all are, and of
    ``delayed_flavors`` the nodes come with an admission check, so that pods are placed after it.
    """

    __slots__ = (
        "borrow_threshold",
        "borrowing_preemption",
        "by_local_queue",
        "checks",
        "cohort_name",
        "delayed_flavors",
        "epoch",
        "generation",
        "group_of",
        "groups",
        "holders",
        "inactive",
        "leaf",
        "may_borrow_flavor",
        "may_preempt_flavor",
        "name",
        "namespace_selector",
        "only_topologies",
        "order_by_usage",
        "pending",
        "precedents",
        "prefer_preemption",
        "reclaim",
        "selected",
        "shown",
        "shown_later",
        "stop_policy",
        "terminating",
        "topology_flavors",
        "tree",
        "victims",
        "watched",
        "within",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.leaf = Leaf(name)
        self.pending = PendingQueue()
        self.precedents = Precedents()
        self.holders: dict[str, Record] = {}
        self.by_local_queue: dict[str, dict[str, Record]] = {}
        self.victims = Holders()
        self.generation = 0
        self.epoch = 0
        self.inactive: tuple[str, ...] = ()
        self.terminating = False
        self.watched = False
        self.shown: object = None
        self.shown_later = False
        self.tree: CohortTree = cast(
            "CohortTree", None
        )  # every queue is linked into a tree before anything is asked of it
        self.cohort_name = ""
        self.groups: tuple[FlavorGroup, ...] = ()
        self.group_of: dict[str, FlavorGroup] = {}
        self.checks: tuple[CheckRule, ...] = ()
        self.namespace_selector: LabelSelector | None = None
        self.selected: dict[str, bool] = {}
        self.stop_policy = StopPolicy.NONE
        self.order_by_usage = False
        self.topology_flavors: frozenset[str] = frozenset()
        self.only_topologies = False
        self.delayed_flavors: frozenset[str] = frozenset()
        self.reclaim = self.within = PreemptionPolicy.NEVER
        self.borrowing_preemption = False
        self.borrow_threshold: int | None = None
        self.may_borrow_flavor = True
        self.may_preempt_flavor = False
        self.prefer_preemption = False

    @property
    def active(self) -> bool:
        return not self.inactive

    @property
    def covers_pods(self) -> bool:
        return PODS in self.group_of

    def configure(self, manifest: ClusterQueue, frs: FlavorResources) -> bool:
        """Take over a changed object; whether its place in the tree or its quotas changed."""
        spec = manifest.spec
        self.precedents.clear()
        self.terminating = manifest.metadata.deletion_timestamp is not None
        self._configure_rules(spec)
        groups = compile_groups(spec.resource_groups, frs)
        quotas = compile_quotas(spec.resource_groups, frs)
        moved = (groups, quotas, spec.cohort_name) != (self.groups, self.leaf.quotas, self.cohort_name)
        self.cohort_name = spec.cohort_name
        self.groups = groups
        self.group_of = {resource: group for group in groups for resource in group.covered}
        self.leaf.set_quotas(quotas)
        self.leaf.weight = weight_of(spec.fair_sharing)
        return moved

    def _configure_rules(self, spec: ClusterQueueSpec) -> None:
        self.pending.set_strict(strict=spec.queueing_strategy is QueueingStrategy.STRICT_FIFO)
        self.namespace_selector = spec.namespace_selector
        self.selected.clear()
        self.stop_policy = spec.stop_policy
        self.order_by_usage = (
            spec.admission_scope is not None
            and spec.admission_scope.admission_mode is AdmissionMode.USAGE_BASED_ADMISSION_FAIR_SHARING
        )
        self.reclaim = spec.preemption.reclaim_within_cohort
        self.within = spec.preemption.within_cluster_queue
        borrow = spec.preemption.borrow_within_cohort
        self.borrowing_preemption = borrow.policy is not BorrowWithinCohortPolicy.NEVER
        self.borrow_threshold = borrow.max_priority_threshold
        fungibility = spec.flavor_fungibility
        self.may_borrow_flavor = fungibility.when_can_borrow is FlavorFungibilityPolicy.MAY_STOP_SEARCH
        self.may_preempt_flavor = fungibility.when_can_preempt is FlavorFungibilityPolicy.MAY_STOP_SEARCH
        self.prefer_preemption = fungibility.preference is FlavorFungibilityPreference.PREEMPTION_OVER_BORROWING
        strategy = spec.admission_checks_strategy
        self.checks = tuple(
            CheckRule(rule.name, frozenset(rule.on_flavors))
            for rule in (strategy.admission_checks if strategy is not None else ())
        )

    def flavor_names(self) -> Iterable[str]:
        return (slot.name for group in self.groups for slot in group.flavors)

    def required_checks(self, flavors: Iterable[str]) -> tuple[str, ...]:
        """The checks that workloads on these flavors need, by name."""
        used = frozenset(flavors)
        return tuple(sorted(rule.name for rule in self.checks if not rule.flavors or rule.flavors & used))

    def checks_of_everybody(self) -> tuple[str, ...]:
        """The checks that every workload needs here, whatever its flavors will be, by name."""
        flavors = frozenset(self.flavor_names())
        return tuple(sorted(rule.name for rule in self.checks if not rule.flavors or rule.flavors >= flavors))

    def selects(self, namespace: str, namespaces: Mapping[str, dict[str, str]]) -> bool:
        """Whether workloads of this namespace are let in.

        Answers are kept until the selector or the namespace changes.
        """
        selected = self.selected.get(namespace)
        if selected is None:
            labels = namespaces.get(namespace)
            selector = self.namespace_selector
            selected = labels is not None and selector is not None and selector.matches(labels)
            self.selected[namespace] = selected
        return selected

    def status(self) -> object:
        """All that a ClusterQueue's status shows of its workloads."""
        admitted = [record for record in self.holders.values() if record.stage is Stage.ADMITTED]
        used = frozenset((fr, amount) for fr, amount in self.leaf.usage.items() if amount)
        running = frozenset((record.key, record.usage) for record in admitted)
        return len(self.pending), len(self.holders), used, running

    # Who holds quota here

    def take(self, record: Record) -> None:
        record.queue = self
        self.holders[record.key] = record
        self.list_holder(record)
        self._file(record)
        self.epoch += self.may_preempt
        self.leaf.add_all(record.usage)

    def give_back(self, record: Record) -> None:
        """Removals make room, so flavors that were passed over are worth another look: the generation grows."""
        self._unfile(record)
        record.queue = None
        del self.holders[record.key]
        self.unlist_holder(record)
        self.note_other_holders()
        self.leaf.remove_all(record.usage)

    def list_holder(self, record: Record) -> None:
        """Count a holder for its LocalQueue."""
        self.by_local_queue.setdefault(record.local_queue, {})[record.key] = record

    def unlist_holder(self, record: Record) -> None:
        listed = self.by_local_queue[record.local_queue]
        del listed[record.key]
        if not listed:
            del self.by_local_queue[record.local_queue]

    def changed(self, record: Record) -> None:
        """A holder changed in place (it was evicted, admitted, or its priority moved)."""
        self._unfile(record)
        self._file(record)
        self.note_other_holders()

    def note_other_holders(self) -> None:
        """Other holders matter to a head that found no room only if this queue may preempt them."""
        self.generation += 1
        self.epoch += self.may_preempt

    def grow(self) -> None:
        self.generation += 1
        self.epoch += 1

    @property
    def may_preempt(self) -> bool:
        return self.within is not PreemptionPolicy.NEVER or self.reclaim is not PreemptionPolicy.NEVER

    def _file(self, record: Record) -> None:
        record.filed_under = record.victim_key
        self.victims.add(record)
        self.tree.victims.add(record)
        self.tree.losses.clear()

    def _unfile(self, record: Record) -> None:
        self.victims.discard(record)
        self.tree.victims.discard(record)
        self.tree.losses.clear()

    def own_victims(self) -> Iterator[Record]:
        """Holders in the order this queue would preempt its own in: heavier LocalQueues first, where usage decides."""
        usage_of = self.pending.usage_of
        if usage_of is None:
            return iter(self.victims)
        return iter(
            sorted(
                self.holders.values(),
                key=lambda record: (record.evicted is None, -usage_of(record.local_queue), record.victim_key),
            )
        )


def weight_of(sharing: Weight | None) -> float:
    return sharing.weight.nanos / 10**9 if sharing is not None else 1.0


def compile_groups(groups: Iterable[GroupManifest], frs: FlavorResources) -> tuple[FlavorGroup, ...]:
    return tuple(
        FlavorGroup(
            frozenset(group.covered_resources),
            tuple(
                FlavorSlot(
                    flavor.name, {resource: frs.get(flavor.name, resource) for resource in group.covered_resources}
                )
                for flavor in group.flavors
            ),
        )
        for group in groups
    )


def compile_quotas(groups: Iterable[GroupManifest], frs: FlavorResources) -> dict[FlavorResource, Quota]:
    return {
        frs.get(flavor.name, quota.name): Quota(
            amount_of(quota.name, quota.nominal_quota),
            _limit(quota.name, quota.borrowing_limit),
            _limit(quota.name, quota.lending_limit),
        )
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _limit(resource: str, quantity: Quantity | None) -> int | None:
    return None if quantity is None else amount_of(resource, quantity)
