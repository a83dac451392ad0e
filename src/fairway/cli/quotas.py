"""What quota there is and who uses it, from ClusterQueues, LocalQueues and Cohorts: figures, and tables of them.

USED counts what is reserved, whether or not the job has started: that is what others cannot have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.amounts import number, readable, unit
from fairway.apis.machinery.conditions import find_in
from fairway.apis.machinery.quantities import Quantity
from fairway.cli import tables
from fairway.cli.outside import Outsider
from fairway.cli.tables import Screen, TableColumn

API: Final = "kueue.x-k8s.io/v1beta2"
_BARS: Final = (20, 12, 6)
"""How wide a bar is: as wide as there is room for."""


class QuotaUsage(NamedTuple):
    """One resource in one flavor; amounts in nano-units."""

    flavor: str
    resource: str
    quota: int
    used: int = 0
    borrowed: int = 0
    borrowing_limit: int | None = None


class ClusterQueueUsage(NamedTuple):
    name: str
    cohort: str = ""
    running: int = 0
    pending: int = 0
    active: bool = True
    trouble: str = ""
    """Why it is not active."""

    pools: tuple[QuotaUsage, ...] = ()


class LocalQueueUsage(NamedTuple):
    name: str
    namespace: str
    cluster_queue: str
    running: int = 0
    pending: int = 0
    active: bool = True
    trouble: str = ""


class CohortUsage(NamedTuple):
    """Queues that lend to each other; the pools are those of all members together."""

    name: str
    parent: str = ""
    pools: tuple[QuotaUsage, ...] = ()


def cluster_queue(manifest: Mapping[str, Any]) -> ClusterQueueUsage:
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    used = _reserved(status)
    active, trouble = _active(status)
    return ClusterQueueUsage(
        name=manifest["metadata"]["name"],
        cohort=spec.get("cohortName") or "",
        running=status.get("admittedWorkloads") or 0,
        pending=_waiting(status),
        active=active,
        trouble=trouble,
        pools=tuple(_pools(spec, used)),
    )


def local_queue(manifest: Mapping[str, Any]) -> LocalQueueUsage:
    status = manifest.get("status") or {}
    active, trouble = _active(status)
    return LocalQueueUsage(
        name=manifest["metadata"]["name"],
        namespace=manifest["metadata"].get("namespace", ""),
        cluster_queue=(manifest.get("spec") or {}).get("clusterQueue") or "",
        running=status.get("admittedWorkloads") or 0,
        pending=_waiting(status),
        active=active,
        trouble=trouble,
    )


def cohorts(queues: Iterable[ClusterQueueUsage], manifests: Iterable[Mapping[str, Any]]) -> list[CohortUsage]:
    """All that queues name or that are declared, with the sums of their direct members and of their own quota."""
    parents: dict[str, str] = {}
    sums: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
    for manifest in manifests:
        name, spec = manifest["metadata"]["name"], manifest.get("spec") or {}
        parents[name] = spec.get("parentName") or ""
        _add(sums.setdefault(name, {}), _pools(spec, {}))
    for queue in queues:
        if queue.cohort:
            parents.setdefault(queue.cohort, "")
            _add(sums.setdefault(queue.cohort, {}), queue.pools)
    return [
        CohortUsage(
            name,
            parents[name],
            tuple(
                QuotaUsage(flavor, resource, quota, used) for (flavor, resource), (quota, used) in sums[name].items()
            ),
        )
        for name in sorted(parents)
    ]


def _add(sums: dict[tuple[str, str], tuple[int, int]], pools: Iterable[QuotaUsage]) -> None:
    for pool in pools:
        quota, used = sums.get((pool.flavor, pool.resource), (0, 0))
        sums[pool.flavor, pool.resource] = quota + pool.quota, used + pool.used


def _pools(spec: Mapping[str, Any], used: Mapping[tuple[str, str], tuple[int, int]]) -> Iterator[QuotaUsage]:
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                key = flavor["name"], resource["name"]
                total, borrowed = used.get(key, (0, 0))
                limit = resource.get("borrowingLimit")
                yield QuotaUsage(
                    *key,
                    quota=_nanos(resource.get("nominalQuota")),
                    used=total,
                    borrowed=borrowed,
                    borrowing_limit=None if limit is None else _nanos(limit),
                )


def _reserved(status: Mapping[str, Any]) -> dict[tuple[str, str], tuple[int, int]]:
    flavors = status.get("flavorsReservation") or status.get("flavorsUsage") or ()
    return {
        (flavor["name"], resource["name"]): (_nanos(resource.get("total")), _nanos(resource.get("borrowed")))
        for flavor in flavors
        for resource in flavor.get("resources") or ()
    }


def _waiting(status: Mapping[str, Any]) -> int:
    """Workloads that wait for quota, and those that have it and wait for an admission check."""
    for_checks = (status.get("reservingWorkloads") or 0) - (status.get("admittedWorkloads") or 0)
    return (status.get("pendingWorkloads") or 0) + max(0, for_checks)


def _active(status: Mapping[str, Any]) -> tuple[bool, str]:
    condition = find_in(status, "Active")
    if condition is None or condition.get("status") == "True":
        return True, ""
    return False, str(condition.get("message") or condition.get("reason") or "")


def _nanos(value: Any) -> int:
    try:
        return Quantity.parse(value).nanos if value is not None else 0
    except ValueError:  # another server's idea of a quantity is no reason to show nothing at all
        return 0


def as_table(queues: Sequence[ClusterQueueUsage], on: Screen) -> str:
    """A line for each resource of each flavor of each queue; what is said of the queue stands in its first line."""
    columns = (
        TableColumn("CLUSTERQUEUE", flexible=True),
        TableColumn("COHORT"),
        TableColumn("RUNNING", right=True),
        TableColumn("PENDING", right=True),
        TableColumn("FLAVOR", flexible=True),
        TableColumn("RESOURCE", flexible=True),
        TableColumn("USAGE"),
        TableColumn("USED", right=True),
        TableColumn("QUOTA", right=True),
        TableColumn("BORROWED", right=True),
    )
    begun: list[tuple[list[tables.Cell], Sequence[QuotaUsage]]] = [
        ([queue.name, queue.cohort or None, queue.running, queue.pending], queue.pools) for queue in queues
    ]
    return _fitting(columns, begun, on, ("RUNNING", "COHORT", "BORROWED"), borrowed=True)


def cohort_table(found: Sequence[CohortUsage], on: Screen) -> str:
    columns = (
        TableColumn("COHORT", flexible=True),
        TableColumn("IN"),
        TableColumn("FLAVOR", flexible=True),
        TableColumn("RESOURCE", flexible=True),
        TableColumn("USAGE"),
        TableColumn("USED", right=True),
        TableColumn("QUOTA", right=True),
    )
    begun: list[tuple[list[tables.Cell], Sequence[QuotaUsage]]] = [
        ([cohort.name, cohort.parent or None], cohort.pools) for cohort in found
    ]
    return _fitting(columns, begun, on, ("IN",), borrowed=False)


def _fitting(
    columns: Sequence[TableColumn],
    begun: Sequence[tuple[list[tables.Cell], Sequence[QuotaUsage]]],
    on: Screen,
    dispensable: Sequence[str],
    *,
    borrowed: bool,
) -> str:
    """The table with the widest bars that the screen has room for; with the smallest, columns may have to go."""
    text = ""
    for width in _BARS:
        rows = [row for begin, pools in begun for row in _with_pools(begin, pools, width, on, borrowed=borrowed)]
        text = tables.fitting(columns, rows, on, dispensable if width == _BARS[-1] else ())
        if on.width is None or tables.width_of(text.partition("\n")[0]) <= on.width:
            break
    return text


def local_table(found: Sequence[LocalQueueUsage], on: Screen) -> str:
    columns = (
        TableColumn("NAMESPACE"),
        TableColumn("LOCALQUEUE", flexible=True),
        TableColumn("CLUSTERQUEUE", flexible=True),
        TableColumn("RUNNING", right=True),
        TableColumn("PENDING", right=True),
    )
    return tables.table(
        columns, [[one.namespace, one.name, one.cluster_queue, one.running, one.pending] for one in found], on
    )


def troubles(queues: Iterable[ClusterQueueUsage | LocalQueueUsage]) -> list[str]:
    """A sentence for each queue that admits nothing."""
    return [
        f"{'ClusterQueue' if isinstance(queue, ClusterQueueUsage) else 'LocalQueue'} {queue.name} admits nothing: "
        f"{tables.plain(queue.trouble) or 'it is not active'}"
        for queue in queues
        if not queue.active
    ]


def _with_pools(
    begin: list[tables.Cell], pools: Sequence[QuotaUsage], width: int, on: Screen, *, borrowed: bool
) -> Iterator[list[tables.Cell]]:
    if not pools:
        yield [*begin, None, None, "", "", "", *([""] if borrowed else [])]
    before = ""
    for index, pool in enumerate(pools):
        row: list[tables.Cell] = [*(begin if index == 0 else [""] * len(begin))]
        row += [pool.flavor if pool.flavor != before else "", pool.resource]
        row += [pool_bar(pool, width, on), readable(pool.resource, pool.used), readable(pool.resource, pool.quota)]
        if borrowed:
            row.append(readable(pool.resource, pool.borrowed) if pool.borrowed else None)
        before = pool.flavor
        yield row


def pool_bar(pool: QuotaUsage, width: int, on: Screen) -> str:
    return tables.usage_bar(pool.used, pool.quota, width, on)


def queue_record(queue: ClusterQueueUsage) -> dict[str, Any]:
    """The queue for `-o json`."""
    return {
        "name": queue.name,
        "cohort": queue.cohort,
        "active": queue.active,
        "trouble": queue.trouble,
        "running": queue.running,
        "pending": queue.pending,
        "pools": [pool_record(pool) for pool in queue.pools],
    }


def cohort_record(cohort: CohortUsage) -> dict[str, Any]:
    return {"name": cohort.name, "parent": cohort.parent, "pools": [pool_record(pool) for pool in cohort.pools]}


def outside_record(pod: Outsider) -> dict[str, Any]:
    """A pod outside every queue."""
    requests = {name: number(name, nanos) for name, nanos in pod.requests.items()}
    return {"namespace": pod.namespace, "name": pod.name, "requests": requests}


def pool_record(pool: QuotaUsage) -> dict[str, Any]:
    """Amounts are numbers, memory in Gi; `null` is a quota that bounds nothing."""
    return {
        "flavor": pool.flavor,
        "resource": pool.resource,
        "unit": unit(pool.resource),
        "quota": number(pool.resource, pool.quota),
        "used": number(pool.resource, pool.used),
        "borrowed": number(pool.resource, pool.borrowed),
        "borrowingLimit": None if pool.borrowing_limit is None else number(pool.resource, pool.borrowing_limit),
    }
