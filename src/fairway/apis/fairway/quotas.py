"""The spec of a QuotaDefinition as typed values: organizations, teams and job types with their resources and users.

`parse` reads a spec and names every wrong field. What becomes of a definition in Kueue or YuniKorn is in
`fairway.quota`.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from fairway.apis.fairway.teams import LOCAL_QUEUE
from fairway.apis.machinery import problems
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.errors import FieldError

QUOTA_LABEL: Final = "fairway.dev/quota"
"""On every object that was made from a definition; the value is the definition's name."""

LIMITS_CHECK: Final = "fairway.dev/limits"
"""The controllerName of the admission check for limits and budgets, which `controllers.limits` answers."""

TARGETS: Final = ("kueue", "yunikorn")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT: Final = re.compile(r"\*|[A-Za-z0-9_.@:-]{1,253}")
T = TypeVar("T")


class QuotaPool(NamedTuple):
    """One resource in one flavor."""

    resource: str
    flavor: str


Amounts = dict[QuotaPool, Quantity]


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum of amounts, pool by pool."""
    found: Amounts = {}
    for part in parts:
        for pool, amount in part.items():
            found[pool] = found.get(pool, ZERO) + amount
    return found


class Members(NamedTuple):
    """Users and groups; `*` is everybody."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.users or self.groups)


class UserLimit(NamedTuple):
    """What each of some users, or each of some groups together, may hold at once."""

    path: str
    members: Members
    maximum: Amounts
    jobs: int | None


class JobType(NamedTuple):
    """A queue for one type of job."""

    path: str
    name: str
    namespace: str
    guaranteed: Amounts
    maximum: Amounts
    weight: Quantity | None
    jobs: int | None
    limits: tuple[UserLimit, ...]


class TeamQuota(NamedTuple):
    """Who shares one quota in one namespace."""

    path: str
    name: str
    namespace: str
    guaranteed: Amounts
    maximum: Amounts
    lend: Amounts
    borrow: bool
    weight: Quantity | None
    jobs: int | None
    types: tuple[JobType, ...]
    submit: Members
    admin: Members
    limits: tuple[UserLimit, ...]
    kueue: Manifest
    """Fields of the ClusterQueue's spec beyond this vocabulary."""

    yunikorn: Manifest
    """Properties of the YuniKorn queue."""

    @property
    def pools(self) -> tuple[QuotaPool, ...]:
        return tuple(dict.fromkeys((*self.guaranteed, *self.maximum, *self.lend)))

    @property
    def namespaces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.namespace, *(one.namespace for one in self.types))))


class Organization(NamedTuple):
    """Teams that share what one of them does not use."""

    path: str
    name: str
    is_team: bool
    """Without `teams` it is one team itself, and the only one in `teams`."""

    parent: str
    guaranteed: Amounts
    """Of the whole organization; teams share what is left of it after their own."""

    maximum: Amounts
    weight: Quantity | None
    submit: Members
    admin: Members
    limits: tuple[UserLimit, ...]
    teams: tuple[TeamQuota, ...]
    gpu_hours: float | None = None
    """What all its jobs together may use in a month."""

    @property
    def total(self) -> Amounts:
        """What is guaranteed to the organization: as it is said, else the sum of its teams."""
        return total(team.guaranteed for team in self.teams) | self.guaranteed

    def is_checked(self, team: TeamQuota) -> bool:
        """Whether the check of limits and budgets has anything to say about jobs of one of its teams. Only users are
        limited: which groups a user is in is not known where jobs are queued."""
        limits = (*self.limits, *team.limits, *(limit for one in team.types for limit in one.limits))
        return self.gpu_hours is not None or any(limit.members.users for limit in limits)

    @property
    def shared(self) -> Amounts:
        """What is guaranteed to the organization and to none of its teams."""
        held = total(team.guaranteed for team in self.teams)
        return {pool: amount - held.get(pool, ZERO) for pool, amount in self.guaranteed.items()}


class FlavorDefinition(NamedTuple):
    """A ResourceFlavor; without a spec it exists already and is only referred to."""

    name: str
    spec: Manifest | None


class QuotaSpec(NamedTuple):
    """A whole definition."""

    flavors: tuple[FlavorDefinition, ...]
    organizations: tuple[Organization, ...]
    targets: tuple[str, ...]
    yunikorn: Manifest
    """Fields of YuniKorn's partition, and further queues below `root`."""

    @property
    def teams(self) -> Iterator[tuple[Organization, TeamQuota]]:
        return ((organization, team) for organization in self.organizations for team in organization.teams)


def parse(spec: Mapping[str, Any], path: str = "spec") -> tuple[QuotaSpec, list[FieldError]]:
    """The definition, as far as it can be read, and everything that is wrong with it."""
    reader = _Reader()
    quota = reader.quota(spec, path)
    if not reader.errors:
        reader.errors += _inconsistencies(quota, path)
    return quota, reader.errors


_LIMIT: Final = ("users", "groups", "maximum", "jobs")
_TYPE: Final = ("name", "namespace", "guaranteed", "maximum", "weight", "jobs", "limits")
_TEAM: Final = ("name", "namespace", "guaranteed", "maximum", "lend", "borrow", "weight", "jobs", "types", "submit",
                "admin", "limits", "kueue", "yunikorn")  # fmt: skip
_ORGANIZATION: Final = ("name", "parent", "guaranteed", "maximum", "weight", "types", "submit", "admin", "limits",
                        "teams", "budget")  # fmt: skip
_DEFINITION: Final = ("flavors", "organizations", "targets", "yunikorn")


class _Reader:
    """Reads one spec and collects what is wrong."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._flavors: tuple[str, ...] = ()

    def quota(self, value: object, path: str) -> QuotaSpec:
        fields = self._fields(value, path, _DEFINITION)
        flavors = self._items(fields.get("flavors"), f"{path}.flavors", self._flavor)
        self._flavors = tuple(one.name for one in flavors)
        if not self._flavors:
            self.errors.append(problems.required(f"{path}.flavors", "name at least one ResourceFlavor"))
        targets = self._items(fields.get("targets"), f"{path}.targets", self._target)
        return QuotaSpec(
            flavors,
            self._items(fields.get("organizations"), f"{path}.organizations", self._organization),
            targets or ("kueue",),
            self._free(fields.get("yunikorn"), f"{path}.yunikorn"),
        )

    def _target(self, value: object, path: str) -> str:
        if value not in TARGETS:
            self.errors.append(problems.not_supported(path, value, TARGETS))
        return str(value)

    def _flavor(self, value: object, path: str) -> FlavorDefinition:
        if isinstance(value, str):
            return FlavorDefinition(self._name(value, path, dots=True), None)
        fields = self._fields(value, path, ("name", "nodeLabels", "nodeTaints", "tolerations", "topologyName"))
        spec = {name: part for name, part in fields.items() if name != "name"}
        return FlavorDefinition(self._name(fields.get("name"), f"{path}.name", dots=True), spec)

    def _organization(self, value: object, path: str) -> Organization:
        is_team = isinstance(value, Mapping) and "teams" not in value
        known = (*_ORGANIZATION, *(name for name in _TEAM if name not in _ORGANIZATION)) if is_team else _ORGANIZATION
        fields = self._fields(value, path, known)
        name = self._name(fields.get("name"), f"{path}.name")
        types = fields.get("types")
        if is_team:
            own = {field: part for field, part in fields.items() if field in _TEAM}
            teams: tuple[TeamQuota, ...] = (self._team(own, path, None),)
            fields = {field: part for field, part in fields.items() if field in ("parent", "name", "budget")}
        else:
            teams = self._items(fields.get("teams"), f"{path}.teams", lambda one, at: self._team(one, at, types))
        return Organization(
            path=path,
            name=name,
            is_team=is_team,
            parent=self._name(fields["parent"], f"{path}.parent") if "parent" in fields else "",
            guaranteed=self._amounts(fields, path, "guaranteed"),
            maximum=self._amounts(fields, path, "maximum"),
            weight=self._weight(fields, path),
            submit=self._members(fields, path, "submit"),
            admin=self._members(fields, path, "admin"),
            limits=self._items(fields.get("limits"), f"{path}.limits", self._limit),
            teams=teams,
            gpu_hours=self._budget(fields.get("budget"), f"{path}.budget"),
        )

    def _budget(self, value: object, path: str) -> float | None:
        """`{gpuHours: 1000}`: what may be used in each month."""
        if value is None:
            return None
        hours = self._fields(value, path, ("gpuHours",)).get("gpuHours")
        if isinstance(hours, bool) or not isinstance(hours, int | float) or hours < 0:
            self.errors.append(problems.wrong_type(f"{path}.gpuHours", hours, "must be a number, zero or more"))
            return None
        return float(hours)

    def _team(self, value: object, path: str, types: object) -> TeamQuota:
        fields = self._fields(value, path, _TEAM)
        name = self._name(fields.get("name"), f"{path}.name")
        namespace = self._name(fields["namespace"], f"{path}.namespace") if "namespace" in fields else name
        borrow = fields.get("borrow", True)
        if not isinstance(borrow, bool):
            self.errors.append(problems.wrong_type(f"{path}.borrow", borrow, "must be true or false"))
        types = fields.get("types", types if types is not None else [LOCAL_QUEUE])
        return TeamQuota(
            path=path,
            name=name,
            namespace=namespace,
            guaranteed=self._amounts(fields, path, "guaranteed"),
            maximum=self._amounts(fields, path, "maximum"),
            lend=self._amounts(fields, path, "lend"),
            borrow=bool(borrow),
            weight=self._weight(fields, path),
            jobs=self._count(fields, path),
            types=self._items(types, f"{path}.types", lambda one, at: self._type(one, at, namespace)),
            submit=self._members(fields, path, "submit"),
            admin=self._members(fields, path, "admin"),
            limits=self._items(fields.get("limits"), f"{path}.limits", self._limit),
            kueue=self._free(fields.get("kueue"), f"{path}.kueue"),
            yunikorn=self._free(fields.get("yunikorn"), f"{path}.yunikorn"),
        )

    def _type(self, value: object, path: str, namespace: str) -> JobType:
        fields = self._fields({"name": value} if isinstance(value, str) else value, path, _TYPE)
        return JobType(
            path=path,
            name=self._name(fields.get("name"), path if isinstance(value, str) else f"{path}.name"),
            namespace=self._name(fields["namespace"], f"{path}.namespace") if "namespace" in fields else namespace,
            guaranteed=self._amounts(fields, path, "guaranteed"),
            maximum=self._amounts(fields, path, "maximum"),
            weight=self._weight(fields, path),
            jobs=self._count(fields, path),
            limits=self._items(fields.get("limits"), f"{path}.limits", self._limit),
        )

    def _limit(self, value: object, path: str) -> UserLimit:
        fields = self._fields(value, path, _LIMIT)
        members = self._members({"": {name: fields[name] for name in ("users", "groups") if name in fields}}, path, "")
        found = UserLimit(path, members, self._amounts(fields, path, "maximum"), self._count(fields, path))
        if not members:
            self.errors.append(problems.required(path, 'whom it limits: users or groups, such as users: ["*"]'))
        if not found.maximum and found.jobs is None:
            self.errors.append(problems.required(path, "what it limits: maximum or jobs"))
        return found

    # Values

    def _fields(self, value: object, path: str, known: Iterable[str]) -> dict[str, Any]:
        known = tuple(known)
        if not isinstance(value, Mapping):
            self.errors.append(problems.wrong_type(path, value, f"must be an object with {', '.join(known)}"))
            return {}
        for name in value:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"
                self.errors.append(problems.unknown(f"{path}.{name}", value[name], hint))
        return {name: part for name, part in value.items() if name in known and part is not None}

    def _items(self, value: object, path: str, read: Callable[[object, str], T]) -> tuple[T, ...]:
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self.errors.append(problems.wrong_type(path, value, "must be a list"))
            return ()
        return tuple(read(one, f"{path}[{number}]") for number, one in enumerate(value))

    def _free(self, value: object, path: str) -> Manifest:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.errors.append(problems.wrong_type(path, value, "must be an object"))
            return {}
        return dict(value)

    def _name(self, value: object, path: str, *, dots: bool = False) -> str:
        if value is None or value == "":
            self.errors.append(problems.required(path, "a name"))
            return ""
        parts = value.split(".") if dots and isinstance(value, str) else [value]
        if not all(isinstance(part, str) and _NAME.fullmatch(part) for part in parts):
            rule = "must be lower-case letters, digits and '-', at most 63, beginning and ending with a letter or digit"
            self.errors.append(problems.invalid(path, value, rule))
        return str(value)

    def _amounts(self, fields: Mapping[str, Any], path: str, name: str) -> Amounts:
        value, path = fields.get(name), f"{path}.{name}"
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.errors.append(problems.wrong_type(path, value, "must be amounts by resource, such as {cpu: 8}"))
            return {}
        found: Amounts = {}
        for resource, amount in value.items():
            if not isinstance(amount, Mapping):
                first = self._flavors[0] if self._flavors else ""
                found[QuotaPool(str(resource), first)] = self._quantity(amount, f"{path}.{resource}")
                continue
            for flavor, part in amount.items():
                at = f"{path}.{resource}.{flavor}"
                if flavor not in self._flavors:
                    self.errors.append(problems.not_supported(at, flavor, self._flavors))
                found[QuotaPool(str(resource), str(flavor))] = self._quantity(part, at)
        return found

    def _quantity(self, value: Any, path: str) -> Quantity:
        try:
            found = Quantity.parse(value)
        except ValueError:
            found = -Quantity.parse(1)
        if found < ZERO:
            self.errors.append(problems.invalid(path, value, "must be an amount, such as 8, 500m or 16Gi"))
        return found

    def _weight(self, fields: Mapping[str, Any], path: str) -> Quantity | None:
        return self._quantity(fields["weight"], f"{path}.weight") if "weight" in fields else None

    def _count(self, fields: Mapping[str, Any], path: str) -> int | None:
        value = fields.get("jobs")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            self.errors.append(problems.invalid(f"{path}.jobs", value, "must be a whole number from 1 on"))
            return None
        return value

    def _members(self, fields: Mapping[str, Any], path: str, name: str) -> Members:
        path = f"{path}.{name}" if name else path
        inner = self._fields(fields.get(name) or {}, path, ("users", "groups"))
        return Members(
            self._items(inner.get("users"), f"{path}.users", self._account),
            self._items(inner.get("groups"), f"{path}.groups", self._account),
        )

    def _account(self, value: object, path: str) -> str:
        if not isinstance(value, str) or not _ACCOUNT.fullmatch(value):
            rule = "must be the name of a user or group (letters, digits and _ . @ : -), or '*'"
            self.errors.append(problems.invalid(path, value, rule))
        return str(value)


def _inconsistencies(quota: QuotaSpec, path: str) -> Iterator[FieldError]:
    """What is wrong between fields."""
    yield from _duplicates((one.name, f"{path}.flavors[{i}].name") for i, one in enumerate(quota.flavors))
    yield from _duplicates((one.name, f"{one.path}.name") for one in quota.organizations)
    yield from _duplicates((team.name, f"{team.path}.name") for _, team in quota.teams)
    queues = ({f"{one.namespace}/{one.name}": one.path for one in team.types} for _, team in quota.teams)
    yield from _duplicates(item for found in queues for item in found.items())
    cohorts = {one.name: one for one in quota.organizations if not one.is_team}
    for organization in quota.organizations:
        yield from _wrong_parent(organization, cohorts)
        for pool, left in organization.shared.items():
            if left < ZERO:
                total, at = organization.guaranteed[pool], f"{organization.path}.guaranteed.{pool.resource}"
                rule = f"its teams are guaranteed {total - left}: raise it, or lower theirs"
                yield problems.invalid(at, str(total), rule)
        yield from _wrong_order(organization.path, organization.total, organization.maximum)
        for team in organization.teams:
            yield from _wrong_team(team)


def _wrong_parent(organization: Organization, cohorts: Mapping[str, Organization]) -> Iterator[FieldError]:
    path, seen, at = f"{organization.path}.parent", {organization.name}, organization.parent
    if at and at not in cohorts:
        rule = f"must be an organization with teams; there is {', '.join(sorted(cohorts)) or 'none'}"
        yield problems.invalid(path, at, rule)
    while at in cohorts:
        if at in seen:
            yield problems.invalid(path, organization.parent, "organizations must not be each other's parents")
            return
        seen.add(at)
        at = cohorts[at].parent


def _wrong_team(team: TeamQuota) -> Iterator[FieldError]:
    yield from _duplicates((one.name, one.path) for one in team.types)
    yield from _wrong_order(team.path, team.guaranteed, team.maximum)
    for pool, amount in team.lend.items():
        if amount > team.guaranteed.get(pool, ZERO):
            rule = f"must be at most what is guaranteed ({team.guaranteed.get(pool, ZERO)})"
            yield problems.invalid(f"{team.path}.lend.{pool.resource}", str(amount), rule)
    if not team.borrow:
        for pool, amount in team.maximum.items():
            if amount > team.guaranteed.get(pool, ZERO):
                rule = "is more than is guaranteed, and borrow is false: leave one of them out"
                yield problems.invalid(f"{team.path}.maximum.{pool.resource}", str(amount), rule)
    for one in team.types:
        yield from _wrong_order(one.path, one.guaranteed, one.maximum)
    for pool, amount in total(one.guaranteed for one in team.types).items():
        if amount > team.guaranteed.get(pool, ZERO):
            rule = f"its job types are guaranteed {amount}: raise it, or lower theirs"
            yield problems.invalid(
                f"{team.path}.guaranteed.{pool.resource}", str(team.guaranteed.get(pool, ZERO)), rule
            )


def _wrong_order(path: str, guaranteed: Amounts, maximum: Amounts) -> Iterator[FieldError]:
    for pool, most in maximum.items():
        if most < guaranteed.get(pool, ZERO):
            rule = f"must be at least what is guaranteed ({guaranteed[pool]})"
            yield problems.invalid(f"{path}.maximum.{pool.resource}", str(most), rule)


def _duplicates(named: Iterable[tuple[str, str]]) -> Iterator[FieldError]:
    first: dict[str, str] = {}
    for name, path in named:
        if name in first:
            yield problems.duplicate(path, name, f"also at {first[name]}")
        first.setdefault(name, path)
