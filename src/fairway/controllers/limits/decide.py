"""Whether a Workload is within the limits of its user and the budget of its organization."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from fairway.accounting.books import AccountBooks
from fairway.accounting.reports import is_gpu, rfc3339
from fairway.accounting.rollups import TimeStep
from fairway.apis.fairway.quotas import Members, QuotaSpec, UserLimit
from fairway.apis.machinery.quantities import amount_of, format_amount

_EVERYBODY: Final = "*"
_HOUR: Final = 3600


class LimitedRequest(NamedTuple):
    """What a Workload asks for or holds."""

    key: str
    user: str
    namespace: str
    queue: str
    cluster_queue: str
    amounts: Mapping[str, int]


class LimitScope(NamedTuple):
    """A limit, and the queues in which it counts."""

    limit: UserLimit
    what: str
    """`organization ml`."""

    cluster_queues: frozenset[str]
    queue: tuple[str, str] | None = None
    """Namespace and name of the LocalQueue, where it is for one job type."""

    def covers(self, one: LimitedRequest) -> bool:
        return one.cluster_queue in self.cluster_queues and self.queue in (None, (one.namespace, one.queue))


class MonthlyBudget(NamedTuple):
    """GPU hours of an organization."""

    organization: str
    cluster_queues: frozenset[str]
    gpu_hours: float


class LimitRules(NamedTuple):
    """Everything that definitions limit."""

    limits: tuple[LimitScope, ...] = ()
    budgets: tuple[MonthlyBudget, ...] = ()


class LimitVerdict(NamedTuple):
    """Whether a Workload may start; if not, why, and from when on if that is known."""

    message: str = ""
    until: int = 0

    @property
    def is_over(self) -> bool:
        return bool(self.message)


WITHIN: Final = LimitVerdict()


def rules_of(definitions: Iterable[QuotaSpec]) -> LimitRules:
    """The limits and budgets of definitions."""
    limits: list[LimitScope] = []
    budgets: list[MonthlyBudget] = []
    for organization in (one for definition in definitions for one in definition.organizations):
        queues = frozenset(team.name for team in organization.teams)
        limits += [LimitScope(one, f"organization {organization.name}", queues) for one in organization.limits]
        if organization.gpu_hours is not None:
            budgets.append(MonthlyBudget(organization.name, queues, organization.gpu_hours))
        for team in organization.teams:
            own = frozenset({team.name})
            limits += [LimitScope(one, f"team {team.name}", own) for one in team.limits]
            for kind in team.types:
                place = kind.namespace, kind.name
                limits += [LimitScope(one, f"queue {kind.name}", own, place) for one in kind.limits]
    return LimitRules(tuple(limits), tuple(budgets))


def judge(
    asked: LimitedRequest,
    holding: Iterable[LimitedRequest],
    rules: LimitRules,
    used_gpu_hours: Callable[[str], float],
    now: int,
) -> LimitVerdict:
    """Whether a Workload is within all limits, beside what `holding` holds. A budget is for jobs with GPUs."""
    others = [one for one in holding if one.user == asked.user and one.key != asked.key]
    for scope in rules.limits:
        if scope.covers(asked) and _limits(scope.limit.members, asked.user):
            said = next(_over(asked, [one for one in others if scope.covers(one)], scope), "")
            if said:
                return LimitVerdict(f"{asked.user} {said}; it starts when other jobs of {asked.user} end")
    for budget in rules.budgets:
        if asked.cluster_queue in budget.cluster_queues and any(is_gpu(name) for name in asked.amounts):
            used = used_gpu_hours(budget.organization)
            if used >= budget.gpu_hours:
                until = TimeStep.MONTH.after(TimeStep.MONTH.floor(now))
                month = datetime.fromtimestamp(now, UTC).strftime("%B %Y")
                return LimitVerdict(
                    f"organization {budget.organization} has used {used:.1f} of {budget.gpu_hours:g} GPU hours in "
                    f"{month}; it starts from {rfc3339(until)} on, or when the budget is raised",
                    until,
                )
    return WITHIN


def gpu_hours(books: AccountBooks, organization: str, now: int) -> float:
    """What an organization has used in the month of now, with what runs."""
    start = TimeStep.MONTH.floor(now)
    total = 0
    for _, bucket in books.buckets(TimeStep.MONTH, start, now + 1, now):
        for key, part in bucket.items():
            if key.organization == organization:
                for held in part.held.values():
                    total += sum(amount for name, amount in held.items() if is_gpu(name))
    return total / _HOUR


def _limits(members: Members, user: str) -> bool:
    """Groups are left out: who is in them is not known where Workloads are."""
    return bool(user) and (_EVERYBODY in members.users or user in members.users)


def _over(asked: LimitedRequest, others: list[LimitedRequest], scope: LimitScope) -> Iterator[str]:
    limit = scope.limit
    if limit.jobs is not None and len(others) + 1 > limit.jobs:
        yield f"has {len(others)} of the {limit.jobs} jobs that a user of {scope.what} may run at once"
    most: dict[str, int] = {}
    for pool, quantity in limit.maximum.items():
        most[pool.resource] = most.get(pool.resource, 0) + amount_of(pool.resource, quantity)
    for resource, allowed in most.items():
        wanted = asked.amounts.get(resource, 0)
        held = sum(one.amounts.get(resource, 0) for one in others)
        if wanted and held + wanted > allowed:
            shown = [format_amount(resource, amount) for amount in (held, allowed, wanted)]
            yield (
                f"holds {shown[0]} of the {shown[1]} {resource} that a user of {scope.what} may hold at once, and this "
                f"job needs {shown[2]}"
            )
