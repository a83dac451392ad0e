"""Why a workload waits and what would admit it, in sentences for its user.

Pure: the sentences follow from the reasons and remedies passed in. Kueue's own sentences, for conditions and events,
are in `wording`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from fairway.admission.reasons import FOR_GOOD, Code, Explanation, Outcome, PodSetReasons, Reason, Why
from fairway.admission.remedies import MOST_NAMED, Party, Remedies
from fairway.admission.resources import PODS
from fairway.apis.machinery.amounts import readable
from fairway.apis.machinery.quantities import UNLIMITED, quantity_of

_ONE_CPU: Final = 1000
_DECLARED: Final = {"cpu": "--cpus", "memory": "--memory", "nvidia.com/gpu": "--gpus"}
"""Options of `fairway up` that declare the resources of the machine."""

_MOST_SHOWN: Final = 3

_NOT_READY_IN_TIME: Final = "PodsReadyTimeout"

_MESSAGES: Final = {
    Outcome.OVERLAPPING_TARGETS: "its preemption targets overlap with those of another job; it is retried",
    Outcome.NO_LONGER_FITS: "another job has just taken the quota; it is retried",
    Outcome.WAITING_FOR_PODS_READY: "no job is admitted until the pods of all admitted jobs are ready",
    Outcome.FAILED_CHECKS: "an admission check rejected it",
    Outcome.NAMESPACE_MISMATCH: "its ClusterQueue does not accept jobs of this namespace",
    Outcome.NAMESPACE_MISSING: "the namespace {} does not exist",
    Outcome.REQUESTS_EXCEED_LIMITS: "its pods request more than their limits: {}",
    Outcome.OUTSIDE_LIMIT_RANGE: "its pods are outside of the LimitRanges of its namespace: {}",
    Outcome.QUEUE_INACTIVE: "ClusterQueue {} is inactive",
    Outcome.QUEUE_MISSING: "ClusterQueue {} does not exist",
    Outcome.LOCAL_QUEUE_INACTIVE: "queue {} is stopped",
    Outcome.LOCAL_QUEUE_MISSING: "queue {} does not exist",
    Outcome.BACKING_OFF: "it is retried after a backoff",
    Outcome.DEACTIVATED: "it is deactivated",
    Outcome.GATED: "its admission is gated by {}",
    Outcome.SCHEDULER_MISSING: "its pods name the scheduler {}, which does not run here",
    Outcome.ON_HOLD: "admission is on hold for all queues",
}

_CURES: Final = {
    Outcome.ON_HOLD: "an administrator ends it: holdAdmission in the ConfigMap kueue-system/fairway-config",
    Outcome.WAITING_FOR_PODS_READY: "it is tried once the pods of all admitted jobs are ready",
    Outcome.FAILED_CHECKS: "see the admission checks in the status of the Workload",
    Outcome.NAMESPACE_MISMATCH: "label the namespace so that the namespaceSelector of ClusterQueue {queue} selects it, "
    "or change the selector",
    Outcome.NAMESPACE_MISSING: "create the namespace {subject}",
    Outcome.REQUESTS_EXCEED_LIMITS: "lower the requests or raise the limits, and launch it again",
    Outcome.OUTSIDE_LIMIT_RANGE: "change the requests to what `kubectl describe limitranges` shows, and launch it "
    "again; or ask an administrator to change the LimitRange",
    Outcome.QUEUE_MISSING: "create ClusterQueue {subject}, or point LocalQueue {local} to one that exists",
    Outcome.LOCAL_QUEUE_INACTIVE: "set spec.stopPolicy of LocalQueue {subject} to None",
    Outcome.LOCAL_QUEUE_MISSING: "create LocalQueue {subject}, or launch the job in an existing queue: "
    "`fairway queues -v` lists them",
    Outcome.SCHEDULER_MISSING: "remove schedulerName from the pod template: default-scheduler runs here",
    Outcome.DEACTIVATED: "set spec.active of the Workload to true",
    Outcome.GATED: "the controller that gates it must remove the annotation kueue.x-k8s.io/admission-gated-by",
}


class Circumstances(NamedTuple):
    """Facts about a workload that the engine does not have."""

    named: Callable[[str], str]
    """The name of a workload, as the reader may see it."""

    managed_job: str = ""
    """Its ManagedJob, if any: hints then name `fairway jobs` commands."""

    held: bool = False
    """Whether that job is held."""

    inactive: str = ""
    """Why its ClusterQueue admits nothing, in Kueue's words."""

    retry_at: str = ""
    """The end of its backoff, if known."""

    highest_priority: int = 2**31 - 1
    """The highest priority that the reader may set."""


def amount(resource: str, value: int, *, down: bool = False) -> str:
    """An amount with its unit: `6 CPUs`, `0.5Gi of memory`, `4 nvidia.com/gpu`; `down` rounds memory down."""
    if value >= UNLIMITED:
        return f"any amount of {resource}"
    if resource == "cpu":
        return "1 CPU" if value == _ONE_CPU else f"{_bare(resource, value)} CPUs"
    if resource == PODS:
        return "1 pod" if value == 1 else f"{value} pods"
    text = _bare(resource, value, down=down)
    return f"{text} of memory" if resource == "memory" else f"{text} {resource}"


def _order(resource: str) -> tuple[int, str]:
    """CPU first, then memory, then the others by name."""
    return ("cpu", "memory").index(resource) if resource in {"cpu", "memory"} else 2, resource


def _bare(resource: str, value: int, *, down: bool = False) -> str:
    """The amount without the name of the resource."""
    if resource == "cpu":
        return f"{(Decimal(value) / _ONE_CPU).normalize():f}"
    return readable(resource, quantity_of(resource, value).nanos, down=down)


# Why it waits, in a sentence


def message(explanation: Explanation, cluster_queue: str, position: int | None = None, *, strict: bool = False) -> str:
    """Why a workload waits; `position` counts from 0."""
    outcome = explanation.outcome
    if outcome is Outcome.BACKING_OFF and explanation.subject == _NOT_READY_IN_TIME:
        return "its pods were not ready in time, so its quota was released; it is retried after a backoff"
    known = _MESSAGES.get(outcome)
    if known is not None:
        return known.format(explanation.subject)
    if outcome is Outcome.NOT_TRIED or not explanation.pod_sets:
        return _turn(position, strict=strict)
    several = len(explanation.pod_sets) > 1
    found = [
        f"{pod_set.name} {sentence}" if several else sentence
        for pod_set in explanation.pod_sets
        for sentence in _needs(pod_set, cluster_queue)
    ]
    if outcome is Outcome.PENDING_PREEMPTION:
        found.append(f"{_jobs(explanation.victims)} being preempted for it")
    return "; ".join(dict.fromkeys(found))


def _turn(position: int | None, *, strict: bool) -> str:
    if not position:
        return "it is about to be tried"
    ahead = "the job" if position == 1 else f"the {position} jobs"
    return f"waits for {ahead} ahead of it" if strict else f"has not been tried yet; {position} ahead of it"


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count} jobs are"


def _needs(pod_set: PodSetReasons, cluster_queue: str) -> Iterator[str]:
    """What stands in the way, flavor by flavor; where one could do, those that never can are left out."""
    by_flavor: dict[str, list[Reason]] = {}
    for reason in pod_set.reasons:
        by_flavor.setdefault(reason.flavor, []).append(reason)
    for reasons in by_flavor.values():
        lasting = [reason for reason in reasons if reason.code in FOR_GOOD]
        if lasting and pod_set.can_ever_fit:
            continue
        if lasting:
            yield from (obstacle(reason, cluster_queue) for reason in lasting)
            continue
        yield _lacks(reasons)


def _lacks(reasons: Sequence[Reason]) -> str:
    """What is short in one flavor."""
    flavor = reasons[0].flavor
    short = sorted((reason for reason in reasons if reason.missing), key=lambda reason: _order(reason.resource))
    full = next((reason for reason in reasons if reason.code is Code.TOPOLOGY_FULL), None)
    if full is not None and not short:
        return _no_place(full)
    if not short:
        return f"quota in {flavor} is free now; it is about to be tried"
    if len(short) == 1:
        return f"needs {amount(short[0].resource, short[0].requested)}, {_free(short[0])} free in {flavor}"
    listed = [f"{amount(reason.resource, reason.requested)} ({_free(reason)} free)" for reason in short]
    return f"needs {_listed(listed)} in {flavor}"


def _free(reason: Reason) -> str:
    return _bare(reason.resource, max(0, reason.requested - reason.missing), down=True)


def obstacle(reason: Reason, cluster_queue: str) -> str:
    """What keeps a workload from one flavor."""
    flavor, resource = reason.flavor, reason.resource
    match reason.code:
        case Code.RESOURCE_NOT_COVERED:
            return f"ClusterQueue {cluster_queue} has no quota for {resource}"
        case Code.FLAVOR_NOT_FOUND:
            return f"ResourceFlavor {flavor} does not exist"
        case Code.TOPOLOGY_UNSUPPORTED:
            return f"flavor {flavor} {reason.detail}"
        case Code.UNTOLERATED_TAINT:
            return f"flavor {flavor} has the taint {reason.detail}, which the job does not tolerate"
        case Code.OTHER_SLICE_FLAVOR:
            return f"the pods that it has run in flavor {reason.detail or 'none'}, not in {flavor}"
        case Code.NO_NODE | Code.GANG_TOO_LARGE:
            return _no_machine(reason)
        case Code.AFFINITY_MISMATCH:
            return reason.detail or f"flavor {flavor} does not have the node labels that the job selects"
        case Code.EXCEEDS_MAXIMUM:
            besides = f" besides {amount(resource, reason.assumed)} of its other pods" if reason.assumed else ""
            most = amount(resource, reason.capacity, down=True)
            return f"asks for {amount(resource, reason.requested)}{besides}, and {flavor} never has more than {most}"
        case Code.INSUFFICIENT_UNUSED:
            return _lacks([reason])
        case Code.TOPOLOGY_FULL | Code.TOPOLOGY_TOO_SMALL:
            return _no_place(reason)


def _no_place(reason: Reason) -> str:
    """The topology domain that is short, and by how much."""
    if not reason.domain:
        return f"no place in the topology of {reason.flavor}: {reason.detail}"
    room = f"{reason.domain} has room for {reason.capacity} of the {reason.requested} that are placed together"
    if reason.code is Code.TOPOLOGY_FULL:
        return f"quota in {reason.flavor} is free, but of its topology no domain is: {room}"
    return f"no domain in the topology of {reason.flavor} is large enough, even if it were empty: {room}"


def _no_machine(reason: Reason) -> str:
    if reason.code is Code.NO_NODE and not reason.resource:
        return reason.detail
    if reason.code is Code.NO_NODE:
        has = f"more than {_bare(reason.resource, reason.capacity, down=True)}" if reason.capacity else "any"
        return f"asks for {amount(reason.resource, reason.requested)} in one pod, and no machine here has {has}"
    if not reason.resource:
        count, most = reason.requested, reason.capacity
        return f"its {count} pods run together, and the machines here have room for {most} of them"
    requested = amount(reason.resource, reason.requested)
    most_there_is = amount(reason.resource, reason.capacity, down=True)
    return f"its pods run together and ask for {requested}, the machines here have {most_there_is}"


# What would let it in


def hints(why: Why, found: Remedies, known: Circumstances) -> list[str]:
    """What would let a workload in, best first; nothing where there is nothing to be done."""
    return list(dict.fromkeys(_hints(why, found, known)))


def _hints(why: Why, found: Remedies, known: Circumstances) -> Iterator[str]:
    yield from _cures(why, known)
    for pod_set in why.obstacles:
        if not pod_set.can_ever_fit:
            yield from (_change(reason, why.cluster_queue) for reason in pod_set.reasons if reason.code in FOR_GOOD)
    yield from _room(why, found, known)
    yield from _rank(why, found, known)
    for limit in found.limits:
        yield (
            f"there is unused quota in the cohort, but ClusterQueue {why.cluster_queue} borrows no more than "
            f"{amount(limit.resource, limit.amount)} of {limit.flavor}: raise its borrowingLimit"
        )
    if why.position and found.strict:
        first = "the job ahead of it starts" if why.position == 1 else f"the {why.position} jobs ahead of it start"
        yield f"ClusterQueue {why.cluster_queue} is StrictFIFO: {first} first"


def _cures(why: Why, known: Circumstances) -> Iterator[str]:
    outcome, subject = why.explanation.outcome, why.explanation.subject
    if outcome is Outcome.DEACTIVATED and known.held:
        yield f"the job is held: `fairway jobs release {known.managed_job}` queues it again"
    elif outcome is Outcome.QUEUE_INACTIVE:
        yield f"ClusterQueue {subject}: {known.inactive or 'it is stopped, or an object it refers to is missing'}"
    elif outcome is Outcome.BACKING_OFF:
        when = f"at {known.retry_at}" if known.retry_at else "when its backoff is over"
        yield f"it is retried {when}"
    elif outcome in _CURES:
        yield _CURES[outcome].format(subject=subject, queue=why.cluster_queue, local=why.local_queue)


def _change(reason: Reason, queue: str) -> str:
    """How to remove an obstacle that does not go away by itself."""
    flavor, resource = reason.flavor, reason.resource
    match reason.code:
        case Code.EXCEEDS_MAXIMUM:
            return (
                f"the queue can never give more than {amount(resource, reason.capacity, down=True)} in {flavor}: "
                f"ask for less, or raise nominalQuota of {resource} in ClusterQueue {queue}"
            )
        case Code.RESOURCE_NOT_COVERED:
            return f"do not request {resource}, choose another queue, or give ClusterQueue {queue} a quota for it"
        case Code.FLAVOR_NOT_FOUND:
            return f"create ResourceFlavor {flavor}, or remove it from ClusterQueue {queue}"
        case Code.UNTOLERATED_TAINT:
            return f"add a toleration for {reason.detail} to the job to use {flavor}, or choose another queue"
        case Code.NO_NODE if reason.resource in _DECLARED:
            most = (
                f"the largest machine has {amount(resource, reason.capacity, down=True)}"
                if reason.capacity
                else "there is none"
            )
            option = f"`fairway up {_DECLARED[resource]} …` declares more for this one"
            return f"request what a machine here has: {most}; {option}"
        case Code.NO_NODE:
            return "request what a machine here has: `fairway describe nodes` shows it"
        case Code.GANG_TOO_LARGE:
            return "request fewer or smaller pods, or add machines: `fairway describe nodes` shows what there is"
        case Code.AFFINITY_MISMATCH if reason.detail:
            return "request what a machine here has: `fairway describe nodes` shows it"
        case Code.AFFINITY_MISMATCH:
            return f"select node labels that ResourceFlavor {flavor} has, or choose another queue"
        case _:
            return f"{obstacle(reason, queue)}: choose another queue"


def _room(why: Why, found: Remedies, known: Circumstances) -> Iterator[str]:
    """Which workloads would have to end; promises no start where others may take the room first."""
    sure = not why.position and not found.contended
    starts = "would start" if sure else "would have room, unless another job takes it first,"
    if found.going:
        they, are = ("it", "is") if len(found.going) == 1 else ("they", "are")
        yield f"{starts} when {_who(found.going, known)} {are} gone: {they} {are} being stopped"
    if len(found.alone) == 1:
        yield f"{starts} when {_who(found.alone, known)} ends"
    elif found.alone:
        more = " (or some others)" if len(found.alone) >= MOST_NAMED else ""
        yield f"{starts} when one of these ends: {_who(found.alone[:_MOST_SHOWN], known, 'or')}{more}"
    elif found.together:
        shown = found.together[:MOST_NAMED]
        rest = len(found.together) - len(shown)
        yield f"{starts} when all of these have ended: {_who(shown, known, 'and', rest)}"


def _rank(why: Why, found: Remedies, known: Circumstances) -> Iterator[str]:
    """Which workloads it may preempt, now or with a higher priority."""
    if found.victims and why.explanation.outcome is not Outcome.PENDING_PREEMPTION:
        yield f"when its turn comes it may preempt {_who(found.victims[:MOST_NAMED], known, 'and')}"
    if found.priority is None or found.priority > known.highest_priority:
        return
    by = f", with `fairway jobs priority {known.managed_job} {found.priority}`" if known.managed_job else ""
    shown = found.outranked[:MOST_NAMED]
    rest = len(found.outranked) - len(shown)
    yield (f"raise the priority above {found.priority - 1} to preempt {_who(shown, known, 'and', rest)}{by}")


def _who(parties: Sequence[Party], known: Circumstances, last: str = "and", rest: int = 0) -> str:
    names = [
        f"{known.named(party.workload)} ({', '.join([*_held(party), f'priority {party.priority}'])})"
        for party in parties
    ]
    if rest:
        names.append("1 other" if rest == 1 else f"{rest} others")
    return _listed(names, last)


def _held(party: Party) -> list[str]:
    return [amount(resource, value) for resource, value in sorted(party.held, key=lambda pair: _order(pair[0]))]


def _listed(parts: Iterable[str], last: str = "and") -> str:
    found = list(parts)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} {last} {found[-1]}"
