"""Short ways to write queues and workloads, and a bench to try them on: ``from fairway.testing.builders import ...``

    bench = Bench(cluster_queue("team-a", cpu=10, cohort="all"), cluster_queue("team-b", cpu=5, cohort="all"))
    bench.submit(workload("train", queue="team-b", cpu=3, count=4))
    assert bench.state("train") == "admitted"

Builders make typed, valid objects. Amounts are written as in manifests (``2``, ``"500m"``, ``"4Gi"``). A keyword that
is no field is the resource of that name (``cpu=2``), ``gpu`` is ``nvidia.com/gpu``, and every other name goes into
``resources={"example.com/tape": 1}``. Quotas without a flavor are of the flavor ``default``; several flavors are given
as ``on("spot", cpu=5)``, several resource groups as ``group(on(...), on(...))``.

A :class:`Bench` is an engine in virtual time with everything around it that a test does not want to spell out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import msgspec

from fairway.admission import events, wording
from fairway.admission.config import Config
from fairway.admission.engine import Engine
from fairway.admission.events import CheckVerdict
from fairway.admission.instructions import Admit, Evict, Instruction
from fairway.admission.reasons import Why
from fairway.admission.records import Record, Stage
from fairway.apis.core.node_views import DEFAULT_SCHEDULER, NodeFacts
from fairway.apis.kueue.objects import (
    AdmissionCheck,
    AdmissionCheckSpec,
    AdmissionChecksStrategy,
    AdmissionCheckStatus,
    AdmissionCheckStrategyRule,
    BorrowWithinCohort,
    BorrowWithinCohortPolicy,
    ClusterQueue,
    ClusterQueuePreemption,
    ClusterQueueSpec,
    Cohort,
    CohortSpec,
    Condition,
    ConditionStatus,
    FairSharing,
    FlavorFungibility,
    FlavorFungibilityPolicy,
    FlavorFungibilityPreference,
    FlavorQuotas,
    LabelSelector,
    LocalQueue,
    LocalQueueSpec,
    Metadata,
    PodSet,
    PodTemplate,
    PreemptionPolicy,
    PriorityClassGroup,
    PriorityClassKind,
    PriorityClassRef,
    QueueingStrategy,
    ResourceFlavor,
    ResourceFlavorSpec,
    ResourceGroup,
    ResourceQuota,
    StopPolicy,
    Taint,
    Toleration,
    Topology,
    TopologyLevel,
    TopologyRequest,
    TopologySpec,
    Workload,
    WorkloadSpec,
)
from fairway.apis.machinery.quantities import Quantity, amount_of

START = 1_700_000_000.0
"""When a bench's clock starts, in seconds since the epoch."""

NAMESPACE = "ns"
DEFAULT_FLAVOR = "default"

Amount: TypeAlias = int | float | str
Limits: TypeAlias = "Amount | Limited"
Object: TypeAlias = ResourceFlavor | Cohort | ClusterQueue | LocalQueue | AdmissionCheck | Topology

_SHORT_NAMES = {"gpu": "nvidia.com/gpu"}


def moment(seconds: float) -> dt.datetime:
    """Seconds since the epoch as objects write it: whole seconds, UTC."""
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC)


# Flavors and quotas


class Limited(NamedTuple):
    """A quota with limits: ``Limited(10, borrowing=5, lending=2)``."""

    nominal: Amount
    borrowing: Amount | None = None
    lending: Amount | None = None


def flavor(
    name: str = DEFAULT_FLAVOR,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    tolerations: Iterable[str] = (),
    topology: str = "",
) -> ResourceFlavor:
    """A flavor; taints and tolerations are written as kubectl does: ``gpu=a100:NoSchedule``, ``gpu:NoSchedule``."""
    spec = ResourceFlavorSpec(
        node_labels=dict(labels or {}),
        node_taints=tuple(map(_taint, taints)),
        tolerations=tuple(map(toleration, tolerations)),
        topology_name=topology,
    )
    return ResourceFlavor(metadata=Metadata(name=name), spec=spec)


def _taint(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key=key, value=value, effect=effect)


def toleration(text: str) -> Toleration:
    """``key=value:Effect`` tolerates that value, ``key:Effect`` any value; without ``:Effect`` any effect."""
    pair, _, effect = text.partition(":")
    key, has_value, value = pair.partition("=")
    return Toleration(key=key, operator="Equal" if has_value else "Exists", value=value, effect=effect)


def on(flavor_name: str, *, resources: Mapping[str, Limits] | None = None, **quotas: Limits) -> FlavorQuotas:
    """Quotas of one flavor: ``on("spot", cpu=8, memory=Limited("32Gi", lending="8Gi"))``."""
    named = {_resource(name): limits for name, limits in {**quotas, **(resources or {})}.items()}
    return FlavorQuotas(name=flavor_name, resources=tuple(_quota(name, limits) for name, limits in named.items()))


def _resource(name: str) -> str:
    return _SHORT_NAMES.get(name, name)


def _quota(name: str, limits: Limits) -> ResourceQuota:
    nominal, borrowing, lending = limits if isinstance(limits, Limited) else Limited(limits)
    return ResourceQuota(
        name=name,
        nominal_quota=Quantity.parse(nominal),
        borrowing_limit=None if borrowing is None else Quantity.parse(borrowing),
        lending_limit=None if lending is None else Quantity.parse(lending),
    )


def group(*flavors: FlavorQuotas) -> ResourceGroup:
    """Flavors to try in this order; all cover the resources of the first."""
    return ResourceGroup(covered_resources=tuple(quota.name for quota in flavors[0].resources), flavors=flavors)


def _groups(given: tuple[FlavorQuotas | ResourceGroup, ...], quotas: Mapping[str, Limits]) -> tuple[ResourceGroup, ...]:
    groups = [each for each in given if isinstance(each, ResourceGroup)]
    flavors = tuple(each for each in given if isinstance(each, FlavorQuotas))
    if flavors:
        groups.insert(0, group(*flavors))
    if quotas:
        groups.insert(0, group(on(DEFAULT_FLAVOR, resources=quotas)))
    return tuple(groups)


# Queues


def cohort(
    name: str, *groups: FlavorQuotas | ResourceGroup, parent: str = "", weight: Amount | None = None, **quotas: Limits
) -> Cohort:
    """A cohort with its own quotas, if any are given."""
    spec = CohortSpec(parent_name=parent, resource_groups=_groups(groups, quotas), fair_sharing=_weight(weight))
    return Cohort(metadata=Metadata(name=name), spec=spec)


def node(
    name: str = "n1", *, labels: Mapping[str, str] | None = None, taints: Iterable[str] = (), **has: Amount
) -> NodeFacts:
    """A node with this much of each resource: ``node(cpu=8, memory="16Gi", gpu=4)``."""
    allocatable = {_resource(resource): Quantity.parse(amount) for resource, amount in has.items()}
    return NodeFacts(
        name=name,
        labels=dict(labels or {}),
        taints=tuple(map(_taint, taints)),
        unschedulable=False,
        allocatable={resource: amount_of(resource, quantity) for resource, quantity in allocatable.items()},
    )


def topology(name: str, *levels: str) -> Topology:
    """A topology of these node labels, from the widest level to the narrowest."""
    spec = TopologySpec(levels=tuple(TopologyLevel(node_label=level) for level in levels))
    return Topology(metadata=Metadata(name=name), spec=spec)


def cluster_queue(  # noqa: PLR0913 - a builder names every field
    name: str = "cq",
    *groups: FlavorQuotas | ResourceGroup,
    cohort: str = "",
    strategy: str = "BestEffortFIFO",
    within: str = "Never",
    reclaim: str = "Never",
    borrow_within: str | int = "Never",
    when_can_borrow: str = "MayStopSearch",
    when_can_preempt: str = "TryNextFlavor",
    preference: str | None = None,
    checks: Mapping[str, Iterable[str]] | Iterable[str] = (),
    namespaces: Mapping[str, str] | None = None,
    stop: str = "None",
    weight: Amount | None = None,
    **quotas: Limits,
) -> ClusterQueue:
    """A ClusterQueue.

    ``within``, ``reclaim`` and ``borrow_within`` are the preemption policies; a number for ``borrow_within`` is
    ``LowerPriority`` with that threshold. ``checks`` are names, or names with the flavors that need them.
    ``namespaces`` are the labels that a namespace must have (none: every namespace is selected).
    """
    borrow_policy, threshold = (
        ("LowerPriority", borrow_within) if isinstance(borrow_within, int) else (borrow_within, None)
    )
    rules = checks if isinstance(checks, Mapping) else dict.fromkeys(checks, ())
    spec = ClusterQueueSpec(
        resource_groups=_groups(groups, quotas),
        cohort_name=cohort,
        queueing_strategy=QueueingStrategy(strategy),
        namespace_selector=LabelSelector(match_labels=dict(namespaces or {})),
        flavor_fungibility=FlavorFungibility(
            when_can_borrow=FlavorFungibilityPolicy(when_can_borrow),
            when_can_preempt=FlavorFungibilityPolicy(when_can_preempt),
            preference=None if preference is None else FlavorFungibilityPreference(preference),
        ),
        preemption=ClusterQueuePreemption(
            within_cluster_queue=PreemptionPolicy(within),
            reclaim_within_cohort=PreemptionPolicy(reclaim),
            borrow_within_cohort=BorrowWithinCohort(
                policy=BorrowWithinCohortPolicy(borrow_policy),
                max_priority_threshold=threshold,
            ),
        ),
        admission_checks_strategy=AdmissionChecksStrategy(
            admission_checks=tuple(
                AdmissionCheckStrategyRule(name=check, on_flavors=tuple(flavors)) for check, flavors in rules.items()
            )
        )
        if rules
        else None,
        stop_policy=StopPolicy(stop),
        fair_sharing=_weight(weight),
    )
    return ClusterQueue(metadata=Metadata(name=name), spec=spec)


def _weight(weight: Amount | None) -> FairSharing | None:
    return None if weight is None else FairSharing(weight=Quantity.parse(weight))


def local_queue(
    name: str, cluster_queue: str, *, namespace: str = NAMESPACE, stop: str = "None", weight: Amount | None = None
) -> LocalQueue:
    spec = LocalQueueSpec(cluster_queue=cluster_queue, stop_policy=StopPolicy(stop), fair_sharing=_weight(weight))
    return LocalQueue(metadata=Metadata(name=name, namespace=namespace), spec=spec)


def admission_check(name: str, *, active: bool = True, controller: str = "example.com/checks") -> AdmissionCheck:
    """An AdmissionCheck whose controller says that it is active, or not."""
    condition = Condition(
        type="Active",
        status=ConditionStatus.TRUE if active else ConditionStatus.FALSE,
        reason="Active" if active else "Inactive",
        message="",
        last_transition_time=moment(START),
    )
    return AdmissionCheck(
        metadata=Metadata(name=name),
        spec=AdmissionCheckSpec(controller_name=controller),
        status=AdmissionCheckStatus(conditions=(condition,)),
    )


# Workloads


def pod_set(
    name: str = "main",
    *,
    count: int = 1,
    min_count: int | None = None,
    resources: Mapping[str, Amount] | None = None,
    pod: Mapping[str, Any] | None = None,
    topology: TopologyRequest | None = None,
    **requests: Amount,
) -> PodSet:
    """Pods of one kind; ``requests`` are those of each pod, ``pod`` is merged into its spec (``{"priority": 1}``)."""
    asked = {_resource(each): str(amount) for each, amount in {**requests, **(resources or {})}.items()}
    spec = {"containers": [{"name": "c", "image": "busybox", "resources": {"requests": asked}}], **(pod or {})}
    return PodSet(
        name=name, count=count, min_count=min_count, template=PodTemplate(spec=spec), topology_request=topology
    )


def workload(  # noqa: PLR0913 - a builder names every field
    name: str,
    *pod_sets: PodSet,
    queue: str = "cq",
    namespace: str = NAMESPACE,
    priority: int = 0,
    priority_class: str = "",
    created: float | None = None,
    uid: str = "",
    active: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    count: int = 1,
    min_count: int | None = None,
    pod: Mapping[str, Any] | None = None,
    **requests: Amount,
) -> Workload:
    """A workload of the given pod sets, or of one, ``main``, with these requests for each of its ``count`` pods.

    ``created`` is in seconds after :data:`START`; when it is left out, a bench sets it to the time of the submit. A
    ``priority_class`` is a WorkloadPriorityClass, which gives the ``priority``.
    """
    sets = pod_sets or (pod_set(count=count, min_count=min_count, pod=pod, resources=requests),)
    metadata = Metadata(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        creation_timestamp=None if created is None else moment(START + created),
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
    )
    by_class = PriorityClassRef(group=PriorityClassGroup.WORKLOAD, kind=PriorityClassKind.WORKLOAD, name=priority_class)
    spec = WorkloadSpec(
        pod_sets=sets,
        queue_name=queue,
        priority=priority,
        priority_class_ref=by_class if priority_class else None,
        active=active,
    )
    return Workload(metadata=metadata, spec=spec)


# The bench


class Bench:
    """An engine, a clock, and a job controller if wanted.

    What a test does not mention is made for it: the namespace ``ns``, plain flavors for the quotas of a ClusterQueue,
    and a LocalQueue named like each ClusterQueue (not with ``local_queues=False``). After every batch of events the
    engine's invariants are checked.

    With ``auto_release=True`` the bench plays the job controller: an evicted workload releases its quota
    ``release_after`` seconds later. Workloads are named without their namespace where it is ``ns``.
    """

    def __init__(
        self,
        *objects: Object,
        config: Config | None = None,
        auto_release: bool = False,
        release_after: float = 0.0,
        local_queues: bool = True,
    ) -> None:
        self.engine = Engine(config)
        self.now = START
        self.said: list[Instruction] = []
        """Everything that the engine has instructed so far."""
        self.heard: list[tuple[events.Event, ...]] = []
        """Every batch of events so far; replaying them gives the same decisions."""
        self._auto_release = auto_release
        self._release_after = release_after
        self._local_queues = local_queues
        self._known: set[str] = set()
        self._releases: list[tuple[float, int, str]] = []
        self.send(events.NamespaceChanged(at=self.now, name=NAMESPACE, labels={}))
        self.apply(*objects)

    # Telling

    def send(self, *happened: events.Event) -> list[Instruction]:
        """Tell the engine, in one batch, and check its invariants. What ``auto_release`` leads to is answered too."""
        self.now = max([self.now, *(event.at for event in happened)])
        self.heard.append(happened)
        said = self.engine.handle(*happened)
        self.said += said
        broken = self.engine.violations()
        assert not broken, f"after {happened}: {broken}; {self.story()}"
        if self._auto_release:
            said = said + self._release_evicted(said)
        return said

    def _release_evicted(self, said: list[Instruction]) -> list[Instruction]:
        keys = [each.key for each in said if isinstance(each, Evict)]
        if not self._release_after:
            return self.send(*(events.QuotaReleased(at=self.now, key=key) for key in keys)) if keys else []
        for key in keys:
            heappush(self._releases, (self.now + self._release_after, len(self.heard), key))
        return []

    def apply(self, *objects: Object) -> list[Instruction]:
        """Create or change objects, one after the other."""
        said = []
        for each in objects:
            if isinstance(each, ClusterQueue):
                said += self._make_flavors(each)
            said += self.send(_event_of(each, self.now))
            self._known.add(f"{each.KIND}/{each.key}")
            if isinstance(each, ClusterQueue) and self._local_queues:
                said += self._make_local_queue(each.name)
        return said

    def _make_flavors(self, queue: ClusterQueue) -> list[Instruction]:
        names = dict.fromkeys(quotas.name for each in queue.spec.resource_groups for quotas in each.flavors)
        return self.apply(*(flavor(name) for name in names if f"ResourceFlavor/{name}" not in self._known))

    def _make_local_queue(self, name: str) -> list[Instruction]:
        if f"LocalQueue/{NAMESPACE}/{name}" in self._known:
            return []
        return self.apply(local_queue(name, name))

    def submit(self, *workloads: Workload) -> list[Instruction]:
        """Create workloads a second apart, as the creation times of objects are in whole seconds."""
        said = []
        for each in workloads:
            said += self.send(events.WorkloadAdded(at=self.now, workload=created_at(each, self.now)))
            said += self.advance(1.0)
        return said

    def submit_together(self, *workloads: Workload) -> list[Instruction]:
        """Create workloads in one batch, at the same time; the clock does not move."""
        stamped = (created_at(each, self.now) for each in workloads)
        return self.send(*(events.WorkloadAdded(at=self.now, workload=each) for each in stamped))

    def finish(self, *names: str) -> list[Instruction]:
        return self.send(*(events.WorkloadFinished(at=self.now, key=key_of(name)) for name in names))

    def delete(self, *names: str) -> list[Instruction]:
        return self.send(*(events.WorkloadDeleted(at=self.now, key=key_of(name)) for name in names))

    def release(self, *names: str) -> list[Instruction]:
        """The jobs of evicted workloads have stopped."""
        return self.send(*(events.QuotaReleased(at=self.now, key=key_of(name)) for name in names))

    def set_active(self, name: str, *, active: bool) -> list[Instruction]:
        return self.send(events.ActiveChanged(at=self.now, key=key_of(name), active=active))

    def set_priority(self, name: str, priority: int) -> list[Instruction]:
        return self.send(events.PriorityChanged(at=self.now, key=key_of(name), priority=priority))

    def reclaim_pods(self, name: str, **counts: int) -> list[Instruction]:
        return self.send(events.PodsReclaimed(at=self.now, key=key_of(name), counts=counts))

    def set_pods_ready(self, name: str, *, ready: bool = True) -> list[Instruction]:
        return self.send(events.PodsReadyChanged(at=self.now, key=key_of(name), ready=ready))

    def report_check(
        self, name: str, check: str, state: str, *, message: str = "", after_seconds: float | None = None
    ) -> list[Instruction]:
        verdict = CheckVerdict(state=state, message=message, requeue_after_seconds=after_seconds)
        return self.send(events.CheckReported(at=self.now, key=key_of(name), check=check, verdict=verdict))

    def request_eviction(self, name: str, reason: str, *, cause: str = "", message: str = "") -> list[Instruction]:
        key = key_of(name)
        return self.send(events.EvictionRequested(at=self.now, key=key, reason=reason, cause=cause, message=message))

    def set_nodes(self, *nodes: NodeFacts, schedulers: Iterable[str] = (DEFAULT_SCHEDULER,)) -> list[Instruction]:
        """These are the nodes from now on."""
        return self.send(events.NodesChanged(at=self.now, nodes=nodes, schedulers=frozenset(schedulers)))

    def fail_write(self, name: str) -> list[Instruction]:
        return self.send(events.WriteFailed(at=self.now, key=key_of(name)))

    # Time

    def advance(self, seconds: float) -> list[Instruction]:
        """Let time pass, stopping wherever the engine wants to be woken or a job has stopped."""
        end = self.now + seconds
        said: list[Instruction] = []
        while (due := self._next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            if self._releases and self._releases[0][0] <= self.now:
                said += self.send(events.QuotaReleased(at=self.now, key=heappop(self._releases)[2]))
            else:
                said += self.send(events.TimePassed(at=self.now))
        self.now = end
        return said + self.send(events.TimePassed(at=end))

    def rest(self, most_stops: int = 1000) -> list[Instruction]:
        """Let time pass until time alone changes nothing any more."""
        said: list[Instruction] = []
        for _ in range(most_stops):
            due = self._next_due()
            if due is None:
                return said
            said += self.advance(max(0.0, due - self.now))
        raise AssertionError(f"no rest after {most_stops} stops; {self.story()}")

    def _next_due(self) -> float | None:
        dues = [self.engine.next_wakeup, self._releases[0][0] if self._releases else None]
        return min((due for due in dues if due is not None), default=None)

    # Looking

    def record(self, name: str) -> Record:
        key = key_of(name)
        return next(record for record in self.engine.records() if record.key == key)

    def state(self, name: str) -> str:
        """``pending``, ``reserved``, ``admitted`` or ``finished``; who is evicted stays admitted until released."""
        return self.record(name).stage.name.lower()

    def states(self) -> dict[str, str]:
        return {_short(record): record.stage.name.lower() for record in self.engine.records()}

    def pending(self) -> list[str]:
        """Who waits, by name."""
        return self._at(Stage.PENDING)

    def admitted(self) -> list[str]:
        """Who is admitted (those being evicted among them), by name."""
        return self._at(Stage.ADMITTED)

    def _at(self, stage: Stage) -> list[str]:
        return sorted(_short(record) for record in self.engine.records() if record.stage is stage)

    def evicting(self) -> list[str]:
        """Evicted workloads that still hold quota, by name."""
        holders = (record for record in self.engine.records() if record.stage in (Stage.RESERVED, Stage.ADMITTED))
        return sorted(_short(record) for record in holders if record.evicted is not None)

    def flavors_of(self, name: str, pod_set: str = "main") -> dict[str, str]:
        """The flavor of each resource that a pod set got; nothing while it waits."""
        found = (each.flavors for each in self.record(name).admission if each.name == pod_set)
        return next(found, {})

    def counts_of(self, name: str) -> dict[str, int]:
        """How many pods of each pod set were admitted."""
        return {each.name: each.count for each in self.record(name).admission}

    def admissions(self) -> list[str]:
        """Who got quota, in that order, since the bench was made."""
        return [short_name(each.key) for each in self.said if isinstance(each, Admit)]

    def evictions(self) -> list[tuple[str, str]]:
        """Evictions with their reasons (that of the preemption, where it is one), in order."""
        return evictions_in(self.said)

    def why(self, name: str) -> Why | None:
        return self.engine.why(key_of(name))

    def message(self, name: str) -> str:
        """Why a workload waits, in a sentence; empty when it does not."""
        why = self.why(name)
        return wording.waiting(why.explanation) if why is not None else ""

    def story(self) -> str:
        """What the engine has said, for the message of a failed test."""
        return "\n  ".join(["it said:", *(f"{each.at - START:+.1f} {each}" for each in self.said[-40:])])


def evictions_in(said: Iterable[Instruction]) -> list[tuple[str, str]]:
    """The evictions among some instructions, as :meth:`Bench.evictions` gives them."""
    return [
        (short_name(each.key), str(each.reason if each.preemption is None else each.preemption.reason))
        for each in said
        if isinstance(each, Evict)
    ]


def created_at(made: Workload, seconds: float) -> Workload:
    """The workload, created at this time unless it says otherwise."""
    if made.metadata.creation_timestamp is not None:
        return made
    metadata = msgspec.structs.replace(made.metadata, creation_timestamp=moment(seconds))
    return msgspec.structs.replace(made, metadata=metadata)


def key_of(name: str) -> str:
    """The key of a workload: its name with the bench's namespace before it, where it names none."""
    return name if "/" in name else f"{NAMESPACE}/{name}"


def short_name(key: str) -> str:
    return key.removeprefix(f"{NAMESPACE}/")


def _short(record: Record) -> str:
    return short_name(record.key)


def _event_of(made: Object, now: float) -> events.Event:
    match made:
        case ResourceFlavor():
            return events.FlavorChanged(at=now, flavor=made)
        case Cohort():
            return events.CohortChanged(at=now, cohort=made)
        case ClusterQueue():
            return events.QueueChanged(at=now, queue=made)
        case LocalQueue():
            return events.LocalQueueChanged(at=now, queue=made)
        case AdmissionCheck():
            return events.CheckChanged(at=now, check=made)
        case Topology():
            return events.TopologyChanged(at=now, topology=made)
