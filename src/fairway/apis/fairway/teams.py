"""Teams: a namespace, a ClusterQueue in the cohort of all teams, and the LocalQueue `default` that leads to it.

A team is those three objects and nothing besides: the label `fairway.dev/team` on them is all that tells a team's from
others, so whatever is changed with kubectl afterwards is the team from then on. The ClusterQueue that Fairway makes on
a first start has what the teams leave of the machine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from fairway.apis.machinery.quantities import ZERO, Quantity

Manifest: TypeAlias = dict[str, Any]

LABEL: Final = "fairway.dev/team"
ORGANIZATION_LABEL: Final = "fairway.dev/organization"
"""On the namespaces and queues of an organization."""

COHORT: Final = "teams"
LOCAL_QUEUE: Final = "default"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
MADE: Final = "fairway.dev/made-by"
"""On a namespace that was made with its team, and goes with it."""

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_NONE: Final = "0"


class TeamShare(NamedTuple):
    """One resource in one flavor."""

    flavor: str
    resource: str


Quotas: TypeAlias = dict[TeamShare, Quantity]
"""In the order in which a ClusterQueue has them."""


def quotas_of(queue: Mapping[str, Any]) -> Quotas:
    """The nominal quotas of a ClusterQueue."""
    return {share: Quantity.parse(resource.get("nominalQuota", 0)) for share, resource in _resources(queue)}


def borrows(queue: Mapping[str, Any]) -> bool:
    """Whether a ClusterQueue may use what others in its cohort leave idle."""
    limits = [resource.get("borrowingLimit") for _, resource in _resources(queue)]
    in_cohort = bool((queue.get("spec") or {}).get("cohortName"))
    return in_cohort and any(limit is None or Quantity.parse(limit) > ZERO for limit in limits)


def _resources(queue: Mapping[str, Any]) -> Iterator[tuple[TeamShare, Mapping[str, Any]]]:
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                yield TeamShare(flavor["name"], resource["name"]), resource


def is_team(queue: Mapping[str, Any]) -> bool:
    return LABEL in (queue["metadata"].get("labels") or {})


def manifests(team: str, namespace: str, groups: list[Manifest]) -> tuple[Manifest, Manifest, Manifest]:
    """The namespace, the ClusterQueue and the LocalQueue of a team; `groups` are the ClusterQueue's resource groups."""
    labels = {LABEL: team}
    home = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "labels": dict(labels), "annotations": {MADE: "fairway"}},
    }
    queue = {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": team, "labels": dict(labels)},
        "spec": cluster_queue_spec(COHORT, [namespace], groups),
    }
    local = {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": LOCAL_QUEUE, "namespace": namespace, "labels": dict(labels)},
        "spec": {"clusterQueue": team},
    }
    return home, queue, local


def cluster_queue_spec(cohort: str, namespaces: Sequence[str], groups: list[Manifest]) -> Manifest:
    """The ClusterQueue of a team: for its namespaces alone, and it always gets back what others borrowed."""
    selector: Manifest = {"matchLabels": {_NAME_LABEL: namespaces[0]}}
    if len(namespaces) > 1:
        names = {"key": _NAME_LABEL, "operator": "In", "values": list(namespaces)}
        selector = {"matchExpressions": [names]}
    return {
        **({"cohortName": cohort} if cohort else {}),
        "namespaceSelector": selector,
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        "resourceGroups": groups,
    }


def resource_groups(like: Mapping[str, Any], quotas: Quotas, *, borrow: bool | None) -> list[Manifest]:
    """The resource groups of a ClusterQueue with other quotas; those that are not named stay as they are.

    `borrow` lifts or sets the borrowing limits; `None` leaves them.
    """

    def changed(flavor: str, resource: Mapping[str, Any]) -> Manifest:
        share = TeamShare(flavor, resource["name"])
        after = {**resource, "nominalQuota": str(quotas.get(share, Quantity.parse(resource.get("nominalQuota", 0))))}
        if borrow is not None:
            after.pop("borrowingLimit", None)
        if borrow is False:
            after["borrowingLimit"] = _NONE
        return after

    return [
        {
            **group,
            "flavors": [
                {**flavor, "resources": [changed(flavor["name"], one) for one in flavor["resources"]]}
                for flavor in group["flavors"]
            ],
        }
        for group in (like.get("spec") or {}).get("resourceGroups") or ()
    ]


def left_by(queues: Iterable[Mapping[str, Any]], capacity: Quotas) -> Quotas:
    """What teams leave of a capacity, share by share; nothing where they have all of it or more."""
    left = dict(capacity)
    for queue in queues:
        if is_team(queue):
            for share, quota in quotas_of(queue).items():
                if share in left:
                    left[share] = max(left[share] - quota, ZERO)
    return left
