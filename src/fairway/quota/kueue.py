"""A definition as Kueue's objects: a Cohort an organization, a ClusterQueue a team, a LocalQueue a job type.

An organization that is one team itself has only the ClusterQueue. Namespaces and queues carry the labels of a team
(`apis.fairway.teams`), so that `fairway teams` and `fairway users --team` know them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fairway.apis.fairway import teams
from fairway.apis.fairway.quotas import (
    LIMITS_CHECK,
    QUOTA_LABEL,
    Members,
    Organization,
    QuotaPool,
    QuotaSpec,
    TeamQuota,
    UserLimit,
)
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO

RBAC: Final = "rbac.authorization.k8s.io"
_FIRST: Final = {"cpu": 0, "memory": 1}
ROLES: Final = {"editor": ("fairway-submit", "edit"), "admin": ("fairway-admin", "admin")}
"""By role of Fairway: the RoleBinding in a team's namespace, and the ClusterRole of Kubernetes."""


class Shortfall(NamedTuple):
    """What a target cannot express."""

    name: str
    path: str
    message: str
    """Why, and the nearest thing that the target has."""

    def __str__(self) -> str:
        return f"{self.path}: {self.name}: {self.message}"


def render(quota: QuotaSpec, name: str, *, checked: bool = True) -> list[Manifest]:
    """The objects of a definition, in the order in which they can be created. Limits and budgets are an admission
    check, unless nothing would answer it (`checked`): a ClusterQueue with such a check admits nothing."""
    check = f"{name}-limits" if checked and any(one.is_checked(team) for one, team in quota.teams) else ""
    return [
        *([_check(check, name)] if check else ()),
        *(_flavor(one.name, one.spec, name) for one in quota.flavors if one.spec is not None),
        *(_cohort(one, name) for one in quota.organizations if not one.is_team),
        *namespaces(quota, name),
        *(
            _cluster_queue(organization, team, quota, name, check if organization.is_checked(team) else "")
            for organization, team in quota.teams
        ),
        *(local for organization, team in quota.teams for local in _local_queues(organization, team, name)),
    ]


def role_bindings(quota: QuotaSpec, name: str) -> list[Manifest]:
    """Who may submit where, as a cluster's RoleBindings; teams in one namespace share them."""
    found: dict[tuple[str, str], Manifest] = {}
    for organization, team in quota.teams:
        for role, members in accounts(organization, team).items():
            binding, cluster_role = ROLES[role]
            everyone = "*" in members.users + members.groups
            named = [("Group", "system:authenticated")] if everyone else [
                *(("User", one) for one in members.users), *(("Group", one) for one in members.groups)
            ]  # fmt: skip
            subjects = [{"apiGroup": RBAC, "kind": kind, "name": one} for kind, one in named]
            for namespace in team.namespaces if subjects and team.types else ():
                metadata = {"name": binding, "namespace": namespace, "labels": _labels(name, organization, team)}
                one = found.setdefault(
                    (namespace, binding),
                    {
                        "apiVersion": f"{RBAC}/v1",
                        "kind": "RoleBinding",
                        "metadata": metadata,
                        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": cluster_role},
                        "subjects": [],
                    },
                )
                one["subjects"] += [subject for subject in subjects if subject not in one["subjects"]]
    return list(found.values())


def accounts(organization: Organization, team: TeamQuota) -> dict[str, Members]:
    """By role, who has it in the namespaces of a team: as said there and for its organization."""

    def both(one: Members, other: Members) -> Members:
        return Members(
            tuple(dict.fromkeys((*one.users, *other.users))), tuple(dict.fromkeys((*one.groups, *other.groups)))
        )

    return {
        "editor": both(organization.submit, team.submit),
        "admin": both(organization.admin, team.admin),
    }


def shortfalls(quota: QuotaSpec, *, checked: bool = True) -> Iterator[Shortfall]:
    """What Kueue cannot express of a definition, with or without the check of limits and budgets."""
    for organization in quota.organizations:
        yield from _limits(organization.path, organization.limits, checked=checked)
        if organization.gpu_hours is not None and not checked:
            rule = (
                "Kueue has no budgets; the nearest is a quota of GPUs. `fairway cluster install` adds a check for them"
            )
            yield Shortfall("Budget", f"{organization.path}.budget", rule)
        for team in organization.teams:
            yield from _limits(team.path, team.limits, checked=checked)
            yield from _jobs(team.path, team.jobs)
            if organization.is_team and not organization.parent:
                above = [pool for pool, most in team.maximum.items() if most > team.guaranteed.get(pool, ZERO)]
                for pool in above:
                    yield Shortfall(
                        "NothingToBorrow",
                        f"{team.path}.maximum.{pool.resource}",
                        "the organization has no parent to borrow from; its quota is what is guaranteed",
                    )
            for one in team.types:
                yield from _limits(one.path, one.limits, checked=checked)
                yield from _jobs(one.path, one.jobs)
                if one.guaranteed or one.maximum:
                    yield Shortfall(
                        "JobTypeQuota",
                        one.path,
                        "a LocalQueue has no quota; the nearest is the quota of the team, which its job types share",
                    )
            if team.yunikorn:
                yield Shortfall("YuniKornOnly", f"{team.path}.yunikorn", "has no effect in Kueue")
    if quota.yunikorn:
        yield Shortfall("YuniKornOnly", "spec.yunikorn", "has no effect in Kueue")


def _limits(path: str, limits: Iterable[UserLimit], *, checked: bool) -> Iterator[Shortfall]:
    nearest = "the nearest is a team of its own for them, with a maximum"
    for number, limit in enumerate(limits):
        at = f"{path}.limits[{number}]"
        if not checked:
            rule = f"Kueue has no limits per user; {nearest}. `fairway cluster install` adds a check for them"
            yield Shortfall("UserLimits", at, rule)
        elif limit.members.groups:
            rule = f"which groups the user of a job is in is not known where jobs are queued; {nearest}"
            yield Shortfall("UserLimits", f"{at}.groups", rule)


def _jobs(path: str, jobs: int | None) -> Iterator[Shortfall]:
    if jobs is not None:
        yield Shortfall(
            "JobCount",
            f"{path}.jobs",
            "Kueue does not count jobs; the nearest is a quota of the resource `pods`, where all pods request it",
        )


def _labels(name: str, organization: Organization | None = None, team: TeamQuota | None = None) -> dict[str, str]:
    found = {QUOTA_LABEL: name}
    if organization is not None:
        found[teams.ORGANIZATION_LABEL] = organization.name
    if team is not None:
        found[teams.LABEL] = team.name
    return found


def _flavor(flavor: str, spec: Manifest, name: str) -> Manifest:
    metadata = {"name": flavor, "labels": _labels(name)}
    return {"apiVersion": teams.KUEUE, "kind": "ResourceFlavor", "metadata": metadata, "spec": spec}


def _check(check: str, name: str) -> Manifest:
    metadata, spec = {"name": check, "labels": _labels(name)}, {"controllerName": LIMITS_CHECK}
    return {"apiVersion": teams.KUEUE, "kind": "AdmissionCheck", "metadata": metadata, "spec": spec}


def _cohort(organization: Organization, name: str) -> Manifest:
    entries: dict[QuotaPool, Manifest] = {
        pool: {"nominalQuota": str(amount)} for pool, amount in organization.shared.items() if amount > ZERO
    }
    spec: Manifest = {}
    if organization.parent:
        spec["parentName"] = organization.parent
        for pool, most in organization.maximum.items():
            entry = entries.setdefault(pool, {"nominalQuota": "0"})
            entry["borrowingLimit"] = str(most - organization.total.get(pool, ZERO))
    if entries:
        spec["resourceGroups"] = resource_groups(entries, ())
    if organization.weight is not None:
        spec["fairSharing"] = {"weight": str(organization.weight)}
    metadata = {"name": organization.name, "labels": _labels(name, organization)}
    return {"apiVersion": teams.KUEUE, "kind": "Cohort", "metadata": metadata, "spec": spec}


def namespaces(quota: QuotaSpec, name: str) -> Iterator[Manifest]:
    """Those of the teams; their labels say to which organization and team the jobs in them belong."""
    seen: set[str] = set()
    for organization, team in quota.teams:
        for namespace in team.namespaces if team.types else ():  # without a LocalQueue it has nothing to submit to
            if namespace not in seen:
                seen.add(namespace)
                metadata = {"name": namespace, "labels": _labels(name, organization, team)}
                yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _cluster_queue(organization: Organization, team: TeamQuota, quota: QuotaSpec, name: str, check: str) -> Manifest:
    cohort = organization.parent if organization.is_team else organization.name
    entries: dict[QuotaPool, Manifest] = {}
    for pool in team.pools:
        guaranteed = team.guaranteed.get(pool, ZERO)
        entry = entries[pool] = {"nominalQuota": str(guaranteed)}
        if cohort and not team.borrow:
            entry["borrowingLimit"] = "0"
        elif cohort and pool in team.maximum:
            entry["borrowingLimit"] = str(team.maximum[pool] - guaranteed)
        if cohort and pool in team.lend:
            entry["lendingLimit"] = str(team.lend[pool])
    spec = teams.cluster_queue_spec(
        cohort, team.namespaces, resource_groups(entries, [one.name for one in quota.flavors])
    )
    if team.weight is not None:
        spec["fairSharing"] = {"weight": str(team.weight)}
    metadata = {"name": team.name, "labels": _labels(name, organization, team)}
    spec = {field: value for field, value in (spec | team.kueue).items() if value is not None}
    if check:
        others = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
        spec["admissionChecksStrategy"] = {"admissionChecks": [*others, {"name": check}]}
    return {"apiVersion": teams.KUEUE, "kind": "ClusterQueue", "metadata": metadata, "spec": spec}


def _local_queues(organization: Organization, team: TeamQuota, name: str) -> Iterator[Manifest]:
    for one in team.types:
        spec: Manifest = {"clusterQueue": team.name}
        if one.weight is not None:
            spec["fairSharing"] = {"weight": str(one.weight)}
        metadata = {"name": one.name, "namespace": one.namespace, "labels": _labels(name, organization, team)}
        yield {"apiVersion": teams.KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": spec}


def resource_groups(entries: Mapping[QuotaPool, Manifest], order: Iterable[str]) -> list[Manifest]:
    """Kueue's resource groups: flavors that share a resource are in one group, each with all its resources.

    Flavors come in the order in which they are to be tried; a flavor without an amount of a resource has none of it.
    """
    places = {flavor: place for place, flavor in enumerate(order)}
    groups: list[tuple[set[str], set[str]]] = []
    for pool in entries:
        resources, flavors = {pool.resource}, {pool.flavor}
        apart = []
        for group in groups:
            if group[0] & resources or group[1] & flavors:
                resources |= group[0]
                flavors |= group[1]
            else:
                apart.append(group)
        groups = [*apart, (resources, flavors)]
    found = []
    for resources, flavors in sorted(groups, key=lambda one: min(map(_rank, one[0]))):
        covered = sorted(resources, key=_rank)
        found.append(
            {
                "coveredResources": covered,
                "flavors": [
                    {"name": flavor, "resources": [_quota(entries, resource, flavor) for resource in covered]}
                    for flavor in sorted(flavors, key=lambda one: (places.get(one, 0), one))
                ],
            }
        )
    return found


def _quota(entries: Mapping[QuotaPool, Manifest], resource: str, flavor: str) -> dict[str, Any]:
    return {"name": resource, **entries.get(QuotaPool(resource, flavor), {"nominalQuota": "0"})}


def _rank(resource: str) -> tuple[int, str]:
    return _FIRST.get(resource, len(_FIRST)), resource
