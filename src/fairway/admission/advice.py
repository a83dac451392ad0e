"""Why a workload waits and what would let it in, in plain words for whoever launched it.

Nothing here looks at state: what is said follows from the reasons and remedies that are passed in. Kueue's own words,
for conditions and events, are in `wording`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from fairway.admission.reasons import FOR_GOOD, Code, Explanation, Outcome, PodSetReasons, Reason, Why
from fairway.admission.remedies import MOST_NAMED, Party, Remedies
from fairway.admission.resources import PODS
from fairway.model.amounts import readable
from fairway.model.quantities import UNLIMITED, quantity_of

_ONE_CPU: Final = 1000
_DECLARED: Final = {"cpu": "--cpus", "memory": "--memory", "nvidia.com/gpu": "--gpus"}
"""The options by which a machine is said to have more than it has."""

_MOST_SHOWN: Final = 3

_NOT_READY_IN_TIME: Final = "PodsReadyTimeout"

_MESSAGES: Final = {
    Outcome.OVERLAPPING_TARGETS: "another job is being given the room that it counted on; it is tried again",
    Outcome.NO_LONGER_FITS: "another job took the room a moment ago; it is tried again",
    Outcome.WAITING_FOR_PODS_READY: "no job starts until the pods of all admitted ones are ready",
    Outcome.FAILED_CHECKS: "an admission check refused it",
    Outcome.NAMESPACE_MISMATCH: "its ClusterQueue does not take jobs of this namespace",
    Outcome.NAMESPACE_MISSING: "the namespace {} does not exist",
    Outcome.REQUESTS_EXCEED_LIMITS: "its pods ask for more than their limits: {}",
    Outcome.QUEUE_INACTIVE: "ClusterQueue {} admits nothing now",
    Outcome.QUEUE_MISSING: "ClusterQueue {} does not exist",
    Outcome.LOCAL_QUEUE_INACTIVE: "queue {} is stopped",
    Outcome.LOCAL_QUEUE_MISSING: "queue {} does not exist",
    Outcome.BACKING_OFF: "it is tried again after a pause",
    Outcome.DEACTIVATED: "it is deactivated",
    Outcome.GATED: "it is held back by {}",
    Outcome.SCHEDULER_MISSING: "its pods ask for the scheduler {}, which does not run here",
}

_CURES: Final = {
    Outcome.WAITING_FOR_PODS_READY: "it is tried as soon as the pods of all admitted jobs are ready",
    Outcome.FAILED_CHECKS: "see the admission checks in the Workload's status for what they ask",
    Outcome.NAMESPACE_MISMATCH: "label the namespace so that the namespaceSelector of ClusterQueue {queue} selects it, "
    "or change the selector",
    Outcome.NAMESPACE_MISSING: "create the namespace {subject}",
    Outcome.REQUESTS_EXCEED_LIMITS: "ask for no more than the limits, and launch it again",
    Outcome.QUEUE_MISSING: "create ClusterQueue {subject}, or let LocalQueue {local} lead to one that exists",
    Outcome.LOCAL_QUEUE_INACTIVE: "set spec.stopPolicy of LocalQueue {subject} to None",
    Outcome.LOCAL_QUEUE_MISSING: "create LocalQueue {subject}, or launch the job in a queue that exists: "
    "`fairway queues` shows them",
    Outcome.SCHEDULER_MISSING: "leave schedulerName out of the pod template: what runs here is default-scheduler",
    Outcome.DEACTIVATED: "set spec.active of the Workload to true",
    Outcome.GATED: "whoever holds it back has to take the annotation kueue.x-k8s.io/admission-gated-by away",
}


class Circumstances(NamedTuple):
    """What is known of a workload besides what the engine says."""

    named: Callable[[str], str]
    """What a workload is called to whoever asks."""

    managed_job: str = ""
    """The ManagedJob that it is of, if it is of one: there are commands for these."""

    held: bool = False
    """Whether somebody put that job on hold."""

    inactive: str = ""
    """Why its ClusterQueue admits nothing, in Kueue's words."""

    retry_at: str = ""
    """When a pause is over, where that is known."""

    highest_priority: int = 2**31 - 1
    """The highest priority that the user who asks may give it."""


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
    """What people name first comes first."""
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
        return "its pods were not ready in time, so it gave its quota back; it is tried again after a pause"
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
        found.append(f"room is being made: {_jobs(explanation.victims)} being stopped")
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
    if not short:
        return f"there is room in {flavor} now, and it is about to be tried"
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
        case Code.AFFINITY_MISMATCH if reason.detail:
            return reason.detail
        case Code.NO_NODE if reason.resource:
            has = f"more than {_bare(resource, reason.capacity, down=True)}" if reason.capacity else "any"
            return f"asks for {amount(resource, reason.requested)} in one pod, and no machine here has {has}"
        case Code.NO_NODE:
            return reason.detail
        case Code.AFFINITY_MISMATCH:
            return f"flavor {flavor} does not have the node labels that the job asks for"
        case Code.EXCEEDS_MAXIMUM:
            besides = f" besides {amount(resource, reason.assumed)} of its other pods" if reason.assumed else ""
            most = amount(resource, reason.capacity, down=True)
            return f"asks for {amount(resource, reason.requested)}{besides}, and {flavor} never has more than {most}"
        case Code.INSUFFICIENT_UNUSED:
            return _lacks([reason])


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
        yield f"ClusterQueue {why.cluster_queue} is StrictFIFO: whatever is free, {first} first"


def _cures(why: Why, known: Circumstances) -> Iterator[str]:
    outcome, subject = why.explanation.outcome, why.explanation.subject
    if outcome is Outcome.DEACTIVATED and known.held:
        yield f"the job is on hold: `fairway jobs release {known.managed_job}` lets it queue again"
    elif outcome is Outcome.QUEUE_INACTIVE:
        yield f"ClusterQueue {subject}: {known.inactive or 'it is stopped, or something that it names is missing'}"
    elif outcome is Outcome.BACKING_OFF:
        when = f"at {known.retry_at}" if known.retry_at else "when its pause is over"
        yield f"it is tried again {when}"
    elif outcome in _CURES:
        yield _CURES[outcome].format(subject=subject, queue=why.cluster_queue, local=why.local_queue)


def _change(reason: Reason, queue: str) -> str:
    """How an obstacle that waiting does not cure is got rid of."""
    flavor, resource = reason.flavor, reason.resource
    match reason.code:
        case Code.EXCEEDS_MAXIMUM:
            return (
                f"the queue can never give more than {amount(resource, reason.capacity, down=True)} in {flavor}: "
                f"ask for less, or raise nominalQuota of {resource} in ClusterQueue {queue}"
            )
        case Code.RESOURCE_NOT_COVERED:
            return f"ask for no {resource}, choose another queue, or give ClusterQueue {queue} a quota for it"
        case Code.FLAVOR_NOT_FOUND:
            return f"create ResourceFlavor {flavor}, or take it out of ClusterQueue {queue}"
        case Code.UNTOLERATED_TAINT:
            return f"let the job tolerate {reason.detail} to use {flavor}, or choose another queue"
        case Code.NO_NODE if reason.resource in _DECLARED:
            most = (
                f"the largest machine has {amount(resource, reason.capacity, down=True)}"
                if reason.capacity
                else "there is none"
            )
            option = f"`fairway up {_DECLARED[resource]} …` declares more for this one"
            return f"ask for what a machine here can give: {most}; {option}"
        case Code.NO_NODE:
            return "ask for what a machine here has: `fairway describe nodes` shows it"
        case Code.AFFINITY_MISMATCH if reason.detail:
            return "ask for what a machine here has: `fairway describe nodes` shows it"
        case Code.AFFINITY_MISMATCH:
            return f"ask for node labels that ResourceFlavor {flavor} has, or choose another queue"
        case _:
            return f"{obstacle(reason, queue)}: choose another queue"


def _room(why: Why, found: Remedies, known: Circumstances) -> Iterator[str]:
    """Who would have to end. Where others may take the room first, no start is promised."""
    sure = not why.position and not found.contended
    starts = "would start" if sure else "would have room, if nobody takes it first,"
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
    """Whom it may preempt, or could."""
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
