"""The nine records: names, versions and columns of Kueue's kinds."""

from collections.abc import Callable, Mapping
from typing import Final

from fairway.apis.kueue.manifests import SERVED_VERSIONS
from fairway.apis.kueue.objects import KINDS as TYPES
from fairway.apis.kueue.rules import rules_of
from fairway.apis.machinery.custom import custom_schemas
from fairway.apis.machinery.jsonpath import compiled, custom_column
from fairway.apis.machinery.kind import Column, Kind, Manifest
from fairway.apis.machinery.metadata import GROUP

_STORED, _OLD = SERVED_VERSIONS


def _record(
    kind: str,
    plural: str,
    *,
    short_names: tuple[str, ...],
    status: bool = False,
    columns: Mapping[str, tuple[Column, ...]] | None = None,
    selectable: tuple[str, ...] = (),
) -> Kind:
    return Kind(
        group=GROUP,
        kind=kind,
        plural=plural,
        versions=SERVED_VERSIONS,
        stored=_STORED,
        short_names=short_names,
        namespaced=TYPES[kind].NAMESPACED,
        status=status,
        schemas=custom_schemas(GROUP, SERVED_VERSIONS, kind),
        columns=columns or {},
        selectable={path: _text_at(path) for path in selectable},
        rules=rules_of(kind, status=status),
    )


def _text_at(path: str) -> Callable[[Manifest], str]:
    find = compiled(f".{path}")
    return lambda manifest: find(manifest) or ""


def _cluster_queue_columns(cohort: str) -> tuple[Column, ...]:
    return (
        custom_column("Cohort", cohort, description="The cohort whose unused quota the queue shares."),
        custom_column("Strategy", ".spec.queueingStrategy", priority=1, description="In which order workloads leave."),
        custom_column(
            "Pending Workloads", ".status.pendingWorkloads", "integer", description="How many workloads wait."
        ),
        custom_column(
            "Admitted Workloads",
            ".status.admittedWorkloads",
            "integer",
            priority=1,
            description="How many workloads are admitted and not finished.",
        ),
    )


_LOCAL_QUEUE_COLUMNS: Final = (
    custom_column("ClusterQueue", ".spec.clusterQueue", description="The queue whose quota this one uses."),
    custom_column("Pending Workloads", ".status.pendingWorkloads", "integer", description="How many workloads wait."),
    custom_column(
        "Admitted Workloads",
        ".status.admittedWorkloads",
        "integer",
        description="How many workloads are admitted and not finished.",
    ),
)

_WORKLOAD_COLUMNS: Final = (
    custom_column("Queue", ".spec.queueName", description="The LocalQueue that it waits in or came through."),
    custom_column(
        "Reserved in", ".status.admission.clusterQueue", description="The ClusterQueue whose quota it holds."
    ),
    custom_column(
        "Admitted", ".status.conditions[?(@.type=='Admitted')].status", description="Whether its pods may start."
    ),
    custom_column("Finished", ".status.conditions[?(@.type=='Finished')].status", description="Whether it has ended."),
    custom_column("Age", ".metadata.creationTimestamp", "date", description="How long ago it was created."),
)

_PRIORITY_COLUMNS: Final = (
    custom_column("Value", ".value", "integer", description="The priority; higher goes first."),
)


KINDS: Final = (
    _record("AdmissionCheck", "admissionchecks", short_names=("ac",), status=True),
    _record(
        "ClusterQueue",
        "clusterqueues",
        short_names=("cq",),
        status=True,
        columns={_STORED: _cluster_queue_columns(".spec.cohortName"), _OLD: _cluster_queue_columns(".spec.cohort")},
    ),
    _record("Cohort", "cohorts", short_names=("co",), status=True),
    _record(
        "LocalQueue",
        "localqueues",
        short_names=("queue", "queues", "lq"),
        status=True,
        columns=dict.fromkeys(SERVED_VERSIONS, _LOCAL_QUEUE_COLUMNS),
    ),
    _record("ProvisioningRequestConfig", "provisioningrequestconfigs", short_names=("prc",)),
    _record("ResourceFlavor", "resourceflavors", short_names=("flavor", "flavors", "rf")),
    _record("Topology", "topologies", short_names=("topo",)),
    _record(
        "Workload",
        "workloads",
        # `wl` is what 0.11 called it and what its guides type.
        short_names=("kwl", "kueueworkload", "kueueworkloads", "wl"),
        status=True,
        columns=dict.fromkeys(SERVED_VERSIONS, _WORKLOAD_COLUMNS),
        selectable=("status.admission.clusterQueue",),
    ),
    _record(
        "WorkloadPriorityClass",
        "workloadpriorityclasses",
        short_names=("wpc",),
        columns=dict.fromkeys(SERVED_VERSIONS, _PRIORITY_COLUMNS),
    ),
)
