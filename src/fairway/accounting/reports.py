"""Answers about the books: sums by user, queue, team, organization or flavor over time, and lists of attempts."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fairway.accounting.attempts import AttemptEnd, AttemptRecord
from fairway.accounting.books import KEPT_SECONDS, AccountBooks
from fairway.accounting.rollups import Bucket, TimeStep, UsageKey, UsageSum, succeeded_share
from fairway.apis.machinery.amounts import is_binary
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import format_amount
from fairway.errors import BadRequest

ALL: Final = "all"
_FIELDS: Final[Mapping[str, str]] = {
    "user": "user",
    "queue": "queue",
    "clusterQueue": "cluster_queue",
    "team": "team",
    "organization": "organization",
    "namespace": "namespace",
    "kind": "kind",
}
"""What sums are kept apart by, besides `flavor`: as the API and as `UsageKey` and `AttemptRecord` call it."""

BY: Final = (*_FIELDS, "flavor")
NONE: Final = "-"
"""In a query: what has no user, no team and so on."""

_WEEK: Final = 7 * 86400
_MOST: Final = 5000
_DEFAULT: Final = 500
_HOUR: Final = 3600
_MILLI: Final = 1000
_GI: Final = 1 << 30
_IGNORED: Final = frozenset({"continue", "limit", "pretty", "resourceVersion", "timeout", "timeoutSeconds"})
"""What clients send with any list."""

_MOST_ROWS: Final = 50_000


class UsageQuery(NamedTuple):
    """What is asked of the sums."""

    since: int
    until: int
    step: str
    """A `TimeStep`, or `all`."""

    by: tuple[str, ...]
    only: Mapping[str, frozenset[str]]


class AttemptQuery(NamedTuple):
    """What is asked of the attempts."""

    since: int
    until: int
    only: Mapping[str, frozenset[str]]
    limit: int
    before: tuple[int, int] | None


def usage_query(said: Mapping[str, str], now: int) -> UsageQuery:
    """The parameters of a request for sums; `BadRequest` names what is wrong."""
    _check_known(said, ("since", "until", "step", "by", *BY))
    until = min(_moment(said, "until", now), now)
    since = _moment(said, "since", until - _WEEK)
    if since > until:
        raise BadRequest(f"since: Invalid value: {said.get('since', '')!r}: it is later than until")
    step = said.get("step") or ALL
    if step not in (*TimeStep, ALL):
        raise BadRequest(f"step: Unsupported value: {step!r}: one of {', '.join((*TimeStep, ALL))}")
    by = tuple(dict.fromkeys(one for one in (said.get("by") or "").split(",") if one))
    for one in by:
        if one not in BY:
            raise BadRequest(f"by: Unsupported value: {one!r}: any of {', '.join(BY)}")
    size = TimeStep(step) if step != ALL else _coarsest(since, until, now)
    if since < now - KEPT_SECONDS[size]:
        raise BadRequest(
            f"since: Invalid value: {rfc3339(since)}: sums of each {size} are kept for {KEPT_SECONDS[size] // 86400} "
            "days; ask for a larger step, or for whole days or months"
        )
    return UsageQuery(since, until, step, by, _only(said, BY))


def usage(books: AccountBooks, query: UsageQuery, namespace: str, now: int) -> Manifest:
    """The sums of a namespace, or of all."""
    size = TimeStep(query.step) if query.step != ALL else _coarsest(query.since, query.until, now)
    since, until = size.floor(query.since), min(size.ceiling(query.until), max(now, query.until))
    rows: dict[tuple[Any, ...], UsageSum] = {}
    total = UsageSum()
    for start, bucket in books.buckets(size, since, until, now):
        at = start if query.step != ALL else since
        for key, part in _selected(bucket, query, namespace):
            total.add(part)
            for group in _groups(key, query.by):
                found = rows.setdefault((at, *group), UsageSum())
                found.add(_of_flavor(part, group[query.by.index("flavor")]) if "flavor" in query.by else part)
        if len(rows) > _MOST_ROWS:
            raise BadRequest(f"more than {_MOST_ROWS} rows: ask for a shorter time, a larger step, or less in by")
    items = []
    for place in sorted(rows):
        end = min(size.after(place[0]), until) if query.step != ALL else until
        named = dict(zip(query.by, place[1:], strict=True))
        items.append({"start": rfc3339(place[0]), "end": rfc3339(end), **named, **_shown(rows[place])})
    return {
        "since": rfc3339(since),
        "until": rfc3339(until),
        "step": query.step,
        "by": list(query.by),
        "items": items,
        "total": _shown(total),
    }


def attempt_query(said: Mapping[str, str], now: int) -> AttemptQuery:
    """The parameters of a request for attempts; `BadRequest` names what is wrong."""
    _check_known(said, ("since", "until", "limit", "continue", "name", "outcome", *BY))
    limit = said.get("limit") or str(_DEFAULT)
    if not limit.isdecimal() or not 0 < int(limit) <= _MOST:
        raise BadRequest(f"limit: Invalid value: {limit!r}: a number from 1 to {_MOST}")
    before, token = None, said.get("continue")
    if token:
        number, _, index = token.partition(".")
        if not number.isdecimal() or not index.isdecimal() or len(token) > 40:
            raise BadRequest(f"continue: Invalid value: {token[:40]!r}: it is not from an answer before")
        before = int(number), int(index)
    only = _only(said, (*BY, "name", "outcome"))
    wrong = sorted(only.get("outcome", frozenset()).difference(AttemptEnd))
    if wrong:
        raise BadRequest(f"outcome: Unsupported value: {wrong[0]!r}: any of {', '.join(AttemptEnd)}")
    return AttemptQuery(_moment(said, "since", 0), _moment(said, "until", now), only, int(limit), before)


Items = Iterator[Manifest | str | None]


def attempts(books: AccountBooks, query: AttemptQuery, namespace: str, now: int) -> Items:
    """The items of an answer, at last the `continue` token if there may be more; `None` where others may have a turn:
    the whole journal may have to be read.
    """
    matches = _matcher(query, namespace, now)
    left = query.limit
    if query.before is None:
        for line in sorted(books.ledger.open, key=_newest_first):
            if left and matches(line):
                left -= 1
                yield attempt_item(line, now)
    place = None
    for number, (place, line) in enumerate(books.ended(query.before, query.since), 1):
        if not left:
            yield f"{place[0]}.{place[1] + 1}"
            return
        if matches(line):
            left -= 1
            yield attempt_item(line, now)
        if number % 200 == 0:
            yield None


def attempt_item(line: AttemptRecord, now: int) -> Manifest:
    """An attempt as the API tells it."""
    item: Manifest = {
        "metadata": {
            "name": f"{line.workload or line.job}-{line.task}-{line.number}",
            "namespace": line.namespace,
            "uid": f"{line.uid}#{line.task}-{line.number}",
            "creationTimestamp": rfc3339(line.started),
        },
        "job": {"kind": line.kind, "name": line.job, "id": line.job_id},
        "jobName": line.job_name,
        "workload": line.workload,
        "task": line.task,
        "attempt": line.number,
        "user": line.user,
        "queue": line.queue,
        "clusterQueue": line.cluster_queue,
        "team": line.team,
        "organization": line.organization,
        "priority": line.priority,
        "queued": rfc3339(line.queued),
        "started": rfc3339(line.started),
    }
    if line.ended:
        item["ended"] = rfc3339(line.ended)
    amounts: dict[str, int] = {}
    for one in line.held:
        amounts[one.resource] = amounts.get(one.resource, 0) + one.amount
    return {
        **item,
        "waitSeconds": line.wait_seconds,
        "runSeconds": max((line.ended or now) - line.started, 0),
        "outcome": line.outcome,
        "reason": line.reason,
        "message": line.message,
        "flavors": list(line.flavors),
        "pods": line.pods,
        "resources": {resource: format_amount(resource, amount) for resource, amount in amounts.items()},
    }


def rfc3339(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _coarsest(since: int, until: int, now: int) -> TimeStep:
    """The largest buckets that make up a range exactly, where there are such."""
    for step in (TimeStep.MONTH, TimeStep.DAY):
        if step.floor(since) == since and (until >= now or step.floor(until) == until):
            return step
    return TimeStep.HOUR if since >= now - KEPT_SECONDS[TimeStep.HOUR] else TimeStep.DAY


def _selected(bucket: Bucket, query: UsageQuery, namespace: str) -> Iterator[tuple[UsageKey, UsageSum]]:
    flavors = query.only.get("flavor")
    tests = [(field, query.only[name]) for name, field in _FIELDS.items() if name in query.only]
    for key, part in bucket.items():
        if namespace and key.namespace != namespace:
            continue
        if any(getattr(key, field) not in wanted for field, wanted in tests):
            continue
        if flavors is None:
            yield key, part
        elif flavors.intersection(key.flavors or ("",)):
            kept = {flavor: amounts for flavor, amounts in part.held.items() if flavor in flavors}
            yield key._replace(flavors=tuple(one for one in key.flavors if one in flavors)), _with_held(part, kept)


def _groups(key: UsageKey, by: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The groups that a sum belongs to: one, but for each of its flavors."""
    flavors: tuple[str, ...] = (key.flavors or ("",)) if "flavor" in by else ("",)
    for flavor in flavors:
        yield tuple(flavor if one == "flavor" else getattr(key, _FIELDS[one]) for one in by)


def _of_flavor(part: UsageSum, flavor: str) -> UsageSum:
    return _with_held(part, {flavor: part.held[flavor]} if flavor in part.held else {})


def _with_held(part: UsageSum, held: dict[str, dict[str, int]]) -> UsageSum:
    found = UsageSum(held=held)
    for field in ("started", "run_seconds", "wait_seconds", "longest_wait", "waits", "ends", "running"):
        setattr(found, field, getattr(part, field))
    return found


def _shown(found: UsageSum) -> Manifest:
    amounts: dict[str, int] = {}
    for held in found.held.values():
        for resource, amount in held.items():
            amounts[resource] = amounts.get(resource, 0) + amount
    shown: Manifest = {
        "hours": {resource: round(_unit(resource, amounts[resource]) / _HOUR, 4) for resource in sorted(amounts)},
        "gpuHours": round(sum(amount for name, amount in amounts.items() if is_gpu(name)) / _HOUR, 4),
        "runSeconds": found.run_seconds,
        "started": found.started,
        "ended": sum(found.ends.values()),
        "running": found.running,
        **{end.lower(): found.ends.get(end, 0) for end in AttemptEnd if end is not AttemptEnd.RUNNING},
    }
    share = succeeded_share(found.ends)
    if share is not None:
        shown["successRate"] = share
    if found.started:
        shown["wait"] = {
            "mean": round(found.wait_seconds / found.started, 1),
            **{f"p{share:g}": found.percentile(share / 100) for share in (50, 90, 99)},
            "max": found.longest_wait,
        }
    return shown


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs, of any maker."""
    return resource.endswith("/gpu")


def _unit(resource: str, amount: int) -> float:
    """Cores, Gi, or how many."""
    if resource == "cpu":
        return amount / _MILLI
    return amount / _GI if is_binary(resource) else amount


def _matcher(query: AttemptQuery, namespace: str, now: int) -> Callable[[AttemptRecord], bool]:
    only = query.only
    tests = [(field, only[name]) for name, field in (*_FIELDS.items(), ("outcome", "outcome")) if name in only]
    named, flavors = only.get("name"), only.get("flavor")

    def matches(line: AttemptRecord) -> bool:
        return (
            (not namespace or line.namespace == namespace)
            and (line.ended or now) >= query.since
            and line.started <= query.until
            and all(getattr(line, field) in wanted for field, wanted in tests)
            and (named is None or line.job_name in named or line.job in named)
            and (flavors is None or bool(flavors.intersection(line.flavors or ("",))))
        )

    return matches


def _newest_first(line: AttemptRecord) -> tuple[int, str, int]:
    return -line.started, line.uid, line.task


def _check_known(said: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in said:
        if name not in known and name not in _IGNORED:
            raise BadRequest(f"{name[:40]}: Unsupported parameter: there are {', '.join(known)}")


def _only(said: Mapping[str, str], names: tuple[str, ...]) -> dict[str, frozenset[str]]:
    return {
        name: frozenset("" if one == NONE else one for one in said[name].split(",")) for name in names if said.get(name)
    }


def _moment(said: Mapping[str, str], name: str, default: int) -> int:
    text = said.get(name)
    if not text:
        return default
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{name}: Invalid value: {text[:40]!r}: a date such as 2026-11-18, or a time such as 2026-11-18T08:00:00Z"
        ) from None
