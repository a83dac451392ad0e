"""A definition as YuniKorn's `queues.yaml`: `root.<organization>.<team>.<job type>`, with access lists and limits.

An organization that is one team itself has no level for the team: `root.<organization>.<job type>`.
"""

import base64
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fairway.apis.fairway.quotas import (
    Amounts,
    Members,
    Organization,
    QuotaPool,
    QuotaSpec,
    TeamQuota,
    UserLimit,
    total,
)
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.errors import BadRequest, TooLarge
from fairway.quota.compare import Action, FieldDifference, ObjectDifference, ObjectKey
from fairway.quota.kueue import Shortfall
from fairway.quota.yunikornlimits import Held, Resources, queue_limits

CONFIG_MAP: Final = "yunikorn-configs"
CONFIG_KEY: Final = "queues.yaml"
COMPRESSED_KEY: Final = f"{CONFIG_KEY}.gz"
"""In `binaryData`, where it has precedence over the other."""

NAMESPACE: Final = "yunikorn"
"""Where YuniKorn's chart installs it."""

NOTHING: Final = QuotaSpec((), (), ("yunikorn",), {})
PARTITION: Final = ("nodesortpolicy", "preemption", "usergroupresolver", "placementrules")
_LONGEST_PATH: Final = 63
_LONGEST_CONFIG: Final = 16 << 20
_TIMES_AS_MANY: Final = 20
"""How many times as many values a configuration may have as an object: 1 000 queues have 14 000."""

_MEBI: Final = 1 << 20
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9_.@-]*\$?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9_-]*")
"""Names that YuniKorn keeps in an access list; it drops others without a word."""


def queue_path(organization: Organization, team: TeamQuota, job_type: str) -> str:
    """The queue of a job."""
    middle = () if organization.is_team else (team.name,)
    return ".".join(("root", organization.name, *middle, job_type))


def namespace_of(quota: QuotaSpec) -> str:
    """The namespace of YuniKorn."""
    return str(quota.yunikorn.get("namespace") or NAMESPACE)


def render(quota: QuotaSpec) -> Manifest:
    """The content of `queues.yaml`."""
    return _Renderer(quota).config()


class _Renderer:
    """Renders a definition, and collects which limits are not as defined."""

    def __init__(self, quota: QuotaSpec) -> None:
        self._quota = quota
        self._known = sorted({pool.resource for _, team in quota.teams for pool in team.pools})
        self.shortfalls: list[Shortfall] = []

    def config(self) -> Manifest:
        own = self._quota.yunikorn
        queues = [self._organization(one) for one in self._quota.organizations if one.teams]
        partition = {name: own[name] for name in PARTITION if name in own}
        rules = {"placementrules": [{"name": "provided", "create": False}]}
        root = {"name": "root", "queues": [*queues, *(own.get("queues") or [])]}
        return {"partitions": [{"name": "default", **rules, **partition, "queues": [root]}]}

    def _organization(self, organization: Organization) -> Manifest:
        guaranteed = _summed(organization.total)
        alone = organization.teams[0] if organization.is_team else None
        most = _summed(alone.maximum if alone is not None else organization.maximum)
        if alone is not None and not alone.borrow:
            most = guaranteed
        if not organization.parent:  # nothing to borrow beyond what it is guaranteed
            most = dict.fromkeys(self._known, ZERO) | guaranteed | ({} if alone is not None else most)
        if alone is not None:
            queue = _queue(alone.name, guaranteed, most, alone.submit, alone.admin, alone.jobs, everybody=True)
            held = self._limit(queue, alone.limits, most, alone.jobs, {})
            return queue | _own(alone) | {"parent": True, "queues": self._leaves(alone, most, held)}
        queue = _queue(organization.name, guaranteed, most, organization.submit, organization.admin, None)
        held = self._limit(queue, organization.limits, most, None, {})
        teams = [self._team(one, organization, most, held) for one in organization.teams]
        return queue | {"parent": True, "queues": teams}

    def _team(self, team: TeamQuota, organization: Organization, bound: Resources, above: Held) -> Manifest:
        guaranteed = _summed(team.guaranteed)
        covered = {pool.resource for pool in team.pools}
        most = {resource: ZERO for resource in self._known if resource not in covered}
        most |= guaranteed if not team.borrow else _summed(team.maximum)
        most = {resource: min(amount, bound.get(resource, amount)) for resource, amount in most.items()}
        named = bool(organization.submit or organization.admin)
        queue = _queue(team.name, guaranteed, most, team.submit, team.admin, team.jobs, everybody=not named)
        held = self._limit(queue, team.limits, bound | most, team.jobs, above)
        return queue | _own(team) | {"parent": True, "queues": self._leaves(team, bound | most, held)}

    def _leaves(self, team: TeamQuota, bound: Resources, above: Held) -> list[Manifest]:
        found = []
        for one in team.types:
            most = {name: min(amount, bound.get(name, amount)) for name, amount in _summed(one.maximum).items()}
            jobs = min(one.jobs or team.jobs, team.jobs) if team.jobs else one.jobs
            queue = _queue(one.name, _summed(one.guaranteed), most, Members(), Members(), jobs, everybody=False)
            # Gangs are refused in a queue that is sorted fairly.
            queue["properties"] = {"application.sort.policy": "fifo"}
            self._limit(queue, one.limits, bound | most, jobs, above)
            found.append(queue)
        return found

    def _limit(
        self, queue: Manifest, limits: Iterable[UserLimit], bound: Resources, jobs: int | None, above: Held
    ) -> Held:
        found = queue_limits(((one, _summed(one.maximum)) for one in limits), bound, jobs, above)
        self.shortfalls += found.shortfalls
        for entry in found.entries:
            if "maxresources" in entry:
                entry["maxresources"] = _texts(entry["maxresources"])
        if found.entries:
            queue["limits"] = found.entries
        return found.held


def _own(team: TeamQuota) -> Manifest:
    return {"properties": dict(team.yunikorn["properties"])} if team.yunikorn.get("properties") else {}


def _queue(
    name: str,
    guaranteed: Resources,
    most: Resources,
    submit: Members,
    admin: Members,
    jobs: int | None,
    *,
    everybody: bool = False,
) -> Manifest:
    queue: Manifest = {"name": name}
    resources = {word: _texts(amounts) for word, amounts in (("guaranteed", guaranteed), ("max", most)) if amounts}
    if resources:
        queue["resources"] = resources
    if jobs is not None:
        queue["maxapplications"] = jobs
    queue |= _access(submit, admin)
    if everybody and "submitacl" not in queue and "adminacl" not in queue:
        queue["submitacl"] = "*"
    return queue


def _access(submit: Members, admin: Members) -> Manifest:
    return {word: acl(members) for word, members in (("submitacl", submit), ("adminacl", admin)) if members}


def acl(members: Members) -> str:
    """An access list of YuniKorn: users, a space, groups."""
    if "*" in members.users + members.groups:
        return "*"
    users = ",".join(one for one in members.users if _USER.fullmatch(one))
    groups = ",".join(one for one in members.groups if _GROUP.fullmatch(one))
    return f"{users} {groups}" if groups else users


def _texts(amounts: Resources) -> dict[str, str]:
    return {_name(resource): amount_text(resource, amount) for resource, amount in amounts.items()}


def amount_text(resource: str, amount: Quantity) -> str:
    """An amount as YuniKorn reads it: whole numbers, CPUs in thousandths."""
    if resource == "cpu":
        return f"{amount.milli()}m"
    value = amount.value()
    return f"{value // _MEBI}Mi" if value and value % _MEBI == 0 else str(value)


def _name(resource: str) -> str:
    return "vcore" if resource == "cpu" else resource


def _summed(amounts: Amounts) -> Resources:
    """By resource, because YuniKorn has no flavors; rounded down, because parts that are rounded up could sum to more
    than the whole.
    """
    by_resource = total({QuotaPool(pool.resource, ""): amount} for pool, amount in amounts.items())
    return {pool.resource: _whole(pool.resource, amount) for pool, amount in by_resource.items()}


def _whole(resource: str, amount: Quantity) -> Quantity:
    return Quantity(amount.nanos - amount.nanos % (10**6 if resource == "cpu" else 10**9), amount.format)


def shortfalls(quota: QuotaSpec) -> Iterator[Shortfall]:
    """What YuniKorn cannot express of a definition."""
    used = {pool.flavor for _, team in quota.teams for pool in team.pools}
    if len(used) > 1 or any(one.spec for one in quota.flavors):
        yield Shortfall(
            "Flavors",
            "spec.flavors",
            "YuniKorn has no flavors; the nearest is the sum over all flavors, and a nodeSelector in the pods",
        )
    if quota.organizations:
        yield Shortfall(
            "Namespaces",
            "spec.organizations",
            "YuniKorn's queues are not tied to namespaces; the nearest are the access lists of `submit` and `admin`",
        )
    renderer = _Renderer(quota)
    renderer.config()
    yield from renderer.shortfalls
    for organization in quota.organizations:
        if organization.parent:
            yield Shortfall(
                "Parent",
                f"{organization.path}.parent",
                "is left out, so that the queue stays root.<organization>; all organizations share root, the nearest "
                "bound is `maximum`",
            )
        if organization.gpu_hours is not None:
            rule = "YuniKorn has no budgets; the nearest is a smaller `maximum` of GPUs"
            yield Shortfall("Budget", f"{organization.path}.budget", rule)
        yield from _weight(organization.path, organization.weight)
        yield from _members(f"{organization.path}.submit", organization.submit)
        yield from _members(f"{organization.path}.admin", organization.admin)
        for team in organization.teams:
            yield from _team_shortfalls(organization, team)


def _team_shortfalls(organization: Organization, team: TeamQuota) -> Iterator[Shortfall]:
    yield from _weight(team.path, team.weight)
    yield from _members(f"{team.path}.submit", team.submit)
    yield from _members(f"{team.path}.admin", team.admin)
    if not (team.submit or team.admin or organization.submit or organization.admin):
        yield Shortfall(
            "NoSubmitters",
            f"{team.path}.submit",
            "no user or group is named, so all may submit (submitacl '*')",
        )
    if team.lend:
        yield Shortfall(
            "Lending",
            f"{team.path}.lend",
            "others may always use what is idle; the nearest is a smaller `maximum` for them",
        )
    if team.kueue:
        yield Shortfall("KueueOnly", f"{team.path}.kueue", "has no effect in YuniKorn")
    for pool, amount in (*team.guaranteed.items(), *team.maximum.items()):
        if pool.resource != "cpu" and amount.nanos % 10**9:
            at = f"{team.path}: {pool.resource}"
            yield Shortfall(
                "Fraction", at, f"YuniKorn has whole numbers; the nearest is {_whole(pool.resource, amount)}"
            )
    if team.name == organization.name and not organization.is_team:
        rule = "a team named like its organization: its jobs look for root.<organization>.<job type>; rename the team"
        yield Shortfall("SameName", f"{team.path}.name", rule)
    for one in team.types:
        path = queue_path(organization, team, one.name)
        if len(path) > _LONGEST_PATH:
            rule = f"the queue {path} has {len(path)} characters; gangs need a path of at most {_LONGEST_PATH}"
            yield Shortfall("PathTooLong", one.path, rule)
        yield from _weight(one.path, one.weight)


def _weight(path: str, weight: Quantity | None) -> Iterator[Shortfall]:
    if weight is not None:
        yield Shortfall(
            "Weight",
            f"{path}.weight",
            "YuniKorn shares in proportion to what is guaranteed; the nearest is to guarantee more",
        )


def _members(path: str, members: Members) -> Iterator[Shortfall]:
    if "*" in members.users + members.groups:
        return
    refused = [
        *(user for user in members.users if not _USER.fullmatch(user)),
        *(group for group in members.groups if not _GROUP.fullmatch(group)),
    ]
    for one in refused:
        rule = f"{one!r} cannot be in an access list; the nearest is a group of letters, digits, '-' and '_'"
        yield Shortfall("AccessList", path, rule)


# Comparing


def config_of(config_map: Manifest | None) -> Any:
    """The queues in a ConfigMap of YuniKorn, as it reads them; `BadRequest` if they cannot be read."""
    from fairway.apis.machinery.documents import from_yaml  # noqa: PLC0415 - loads YAML, which Kueue does not need

    held = config_map or {}
    packed = (held.get("binaryData") or {}).get(COMPRESSED_KEY)
    if packed is None:
        text = ((held.get("data") or {}).get(CONFIG_KEY) or "").encode()
    else:
        try:
            text = zlib.decompressobj(wbits=31).decompress(base64.b64decode(packed), _LONGEST_CONFIG)
        except (ValueError, zlib.error) as error:
            raise BadRequest(f"binaryData[{COMPRESSED_KEY}] cannot be unpacked: {error}") from None
    try:
        return from_yaml(text, times=_TIMES_AS_MANY)
    except TooLarge as error:
        raise BadRequest(str(error)) from None


def flattened(config: Any) -> dict[str, Manifest]:
    """The queues of a configuration by path; the fields of the partition are those of the empty path."""
    found: dict[str, Manifest] = {}
    for partition in _items(config, "partitions"):
        if partition.get("name") == "default":
            found[""] = {name: part for name, part in partition.items() if name not in ("name", "queues")}
            for queue in _items(partition, "queues"):
                _flatten(queue, "", found)
    return found


def _items(value: Any, field: str) -> list[Manifest]:
    """The objects of a list; none where a file that was edited by hand has something else."""
    items = value.get(field) if isinstance(value, Mapping) else None
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []  # type: ignore[misc]


def _flatten(queue: Manifest, above: str, found: dict[str, Manifest]) -> None:
    path = f"{above}.{queue.get('name', '')}".lower().lstrip(".")
    found[path] = {name: part for name, part in queue.items() if name not in ("name", "queues", "parent")}
    for child in _items(queue, "queues"):
        _flatten(child, path, found)


def compare_configs(desired: Manifest, live: Any) -> list[ObjectDifference]:
    """How YuniKorn's configuration differs, queue by queue."""
    wanted, has = flattened(desired), flattened(live)
    result = []
    for path in dict.fromkeys((*wanted, *has)):
        key = ObjectKey("Queue", "", path) if path else ObjectKey("Partition", "", "default")
        if path not in has:
            result.append(ObjectDifference(key, Action.CREATE))
        elif path not in wanted:
            result.append(ObjectDifference(key, Action.DELETE))
        elif fields := tuple(_differing(has[path], wanted[path], "")):
            result.append(ObjectDifference(key, Action.UPDATE, fields))
    return result


def _differing(live: Any, desired: Any, path: str) -> Iterator[FieldDifference]:
    if isinstance(live, Mapping) and isinstance(desired, Mapping):
        for name in dict.fromkeys((*desired, *live)):
            yield from _differing(live.get(name), desired.get(name), f"{path}.{name}".lstrip("."))
    elif _value(live, path) != _value(desired, path):
        yield FieldDifference(path, live, desired)


def _value(value: Any, path: str) -> Any:
    """An amount by its value: `64Mi`, or `1000m` of vcore as `1`. What a limit is called means nothing."""
    if ("resources" in path or "maxresources" in path) and isinstance(value, str | int):
        try:
            return Quantity.parse(value)
        except ValueError:
            return value
    if isinstance(value, list):
        return [
            {k: _deep(v, k) for k, v in one.items() if k != "limit"} if isinstance(one, Mapping) else one
            for one in value
        ]
    return value


def _deep(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _value(part, name) for key, part in value.items()}
    return value
