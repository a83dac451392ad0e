"""Limits per user and group as YuniKorn takes them.

Its validator refuses a whole `queues.yaml` for one limit: a name twice in a queue, a name after `*`, `*` as the only
group, a limit above that of a queue above. What breaks a rule is made to fit or left out, and said.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fairway.apis.fairway.quotas import UserLimit
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.quota.kueue import Shortfall

Resources = dict[str, Quantity]
_EVERYBODY: Final = "*"
_NAMES: Final = {
    "users": re.compile(r"\*|[_a-zA-Z][a-zA-Z0-9:#/_.@-]*\$?"),
    "groups": re.compile(r"\*|[_a-zA-Z][a-zA-Z0-9:_.-]*"),
}


class AccountLimit(NamedTuple):
    """What one user or one group may hold at once."""

    maximum: Resources
    jobs: int | None


Held = Mapping[tuple[str, str], AccountLimit]
"""The limits of a queue and those above it, by `users` or `groups` and the name."""


class QueueLimits(NamedTuple):
    """The limits of one queue."""

    entries: list[Manifest]
    held: Held
    """For the queues below."""

    shortfalls: list[Shortfall]


def queue_limits(
    limits: Iterable[tuple[UserLimit, Resources]], bound: Resources, jobs: int | None, above: Held
) -> QueueLimits:
    """Limits, each with its maximum by resource, in a queue with at most `bound` and `jobs`."""
    shortfalls: list[Shortfall] = []
    found: dict[tuple[str, str], tuple[str, AccountLimit]] = {}
    for limit, maximum in limits:
        for kind, name in _names(limit, shortfalls):
            if (kind, name) in found:
                rule = f"{name!r} is named twice; YuniKorn has one limit a name in a queue, and the first stays"
                shortfalls.append(Shortfall("UserLimits", limit.path, rule))
                continue
            fitting = _fitting(AccountLimit(maximum, limit.jobs), bound, jobs, _above(above, kind, name))
            if any(amount > ZERO for amount in fitting.maximum.values()) or (fitting.jobs and not fitting.maximum):
                found[kind, name] = (limit.path, fitting)
            else:
                rule = "YuniKorn has no limit of nothing; the nearest is to leave it out of `submit`"
                shortfalls.append(Shortfall("UserLimits", limit.path, rule))
    groups = [name for kind, name in found if kind == "groups"]
    if groups == [_EVERYBODY]:
        path, _ = found.pop(("groups", _EVERYBODY))
        rule = "YuniKorn takes groups: ['*'] only beside a named group; the nearest is `maximum` of the queue"
        shortfalls.append(Shortfall("UserLimits", path, rule))
    own = {key: one for key, (_, one) in found.items()}
    return QueueLimits(_entries(found), {**above, **own}, shortfalls)


def _names(limit: UserLimit, shortfalls: list[Shortfall]) -> Iterator[tuple[str, str]]:
    for kind, names in (("users", limit.members.users), ("groups", limit.members.groups)):
        for name in names:
            if _NAMES[kind].fullmatch(name):
                yield kind, name
            else:
                rule = f"{name!r} cannot be in a limit of YuniKorn: a name begins with a letter or '_'"
                shortfalls.append(Shortfall("UserLimits", f"{limit.path}.{kind}", rule))


def _above(above: Held, kind: str, name: str) -> AccountLimit:
    return above.get((kind, name)) or above.get((kind, _EVERYBODY)) or AccountLimit({}, None)


def _fitting(own: AccountLimit, bound: Resources, most_jobs: int | None, above: AccountLimit) -> AccountLimit:
    """At most what the queue has and what holds above; a count above needs one here."""
    maximum = {
        name: min(amount, bound.get(name, amount), above.maximum.get(name, amount))
        for name, amount in own.maximum.items()
    }
    counts = [one for one in (own.jobs, above.jobs) if one is not None]
    if counts and most_jobs is not None:
        counts.append(most_jobs)
    return AccountLimit(maximum, min(counts, default=None))


def _entries(found: Mapping[tuple[str, str], tuple[str, AccountLimit]]) -> list[Manifest]:
    """Names of one limit that hold the same are one entry; `*` comes after all names."""
    entries: dict[str, Manifest] = {}
    for last in (False, True):
        for (kind, name), (path, one) in found.items():
            if (name == _EVERYBODY) is last:
                key = f"{path} {last} {one}"
                entry = entries.setdefault(key, {"limit": path.removeprefix("spec."), "users": [], "groups": []})
                entry[kind].append(name)
                entry |= {"maxresources": one.maximum, "maxapplications": one.jobs}
    return [{name: part for name, part in one.items() if part} for one in entries.values()]
