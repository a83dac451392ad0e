"""The records of the custom kinds: what people can call them, and the columns they see."""

import pytest

from fairway.apis.autoscaling import records as autoscaling
from fairway.apis.fairway import records as fairway
from fairway.apis.kueue import records as kueue
from fairway.apis.machinery.kind import Kind
from fairway.apis.ray import records as ray

KINDS: dict[str, Kind] = {kind.kind: kind for module in (autoscaling, fairway, kueue, ray) for kind in module.KINDS}

NAMES = [
    ("AdmissionCheck", "admissionchecks", ("ac",), "status"),
    ("ClusterQueue", "clusterqueues", ("cq",), "status"),
    ("Cohort", "cohorts", ("co",), "status"),
    ("LocalQueue", "localqueues", ("queue", "queues", "lq"), "namespaced, status"),
    ("ManagedJob", "managedjobs", ("mj",), "namespaced, status"),
    ("ProvisioningRequest", "provisioningrequests", ("provreq", "provreqs"), "namespaced, status"),
    ("ProvisioningRequestConfig", "provisioningrequestconfigs", ("prc",), ""),
    ("QuotaDefinition", "quotadefinitions", ("qd",), "status"),
    ("RayCluster", "rayclusters", (), "namespaced, status"),
    ("RayJob", "rayjobs", (), "namespaced, status"),
    ("ResourceFlavor", "resourceflavors", ("flavor", "flavors", "rf"), ""),
    ("Topology", "topologies", ("topo",), ""),
    ("Workload", "workloads", ("kwl", "kueueworkload", "kueueworkloads", "wl"), "namespaced, status"),
    ("WorkloadPriorityClass", "workloadpriorityclasses", ("wpc",), ""),
]


def test_every_record_is_in_the_table_of_names() -> None:
    assert sorted(KINDS) == [name for name, *_ in NAMES]


@pytest.mark.parametrize(("name", "plural", "short_names", "traits"), NAMES)
def test_a_kind_is_called_as_its_definition_calls_it(
    name: str, plural: str, short_names: tuple[str, ...], traits: str
) -> None:
    kind = KINDS[name]
    found = ", ".join(trait for trait in ("namespaced", "status") if getattr(kind, trait))
    assert (kind.plural, kind.short_names, found) == (plural, short_names, traits)


VERSIONS = [
    ("Workload", ("v1beta2", "v1beta1"), "v1beta2"),
    ("ProvisioningRequest", ("v1", "v1beta1"), "v1"),
    ("RayJob", ("v1",), "v1"),
    ("ManagedJob", ("v1alpha1",), "v1alpha1"),
]


@pytest.mark.parametrize(("name", "versions", "stored"), VERSIONS)
def test_the_preferred_version_comes_first_and_is_the_stored_one(
    name: str, versions: tuple[str, ...], stored: str
) -> None:
    assert (KINDS[name].versions, KINDS[name].stored) == (versions, stored)


COLUMNS = {
    "ClusterQueue": ["Cohort", "Strategy (wide)", "Pending Workloads", "Admitted Workloads (wide)"],
    "LocalQueue": ["ClusterQueue", "Pending Workloads", "Admitted Workloads"],
    "ManagedJob": ["ID", "User", "Queue", "Priority", "Recoveries", "Status", "Age", "Message (wide)"],
    "ProvisioningRequest": ["Age"],
    "QuotaDefinition": ["Synced", "Objects", "Drifted", "Age"],
    "RayCluster": [
        "desired workers",
        "available workers",
        "cpus",
        "memory",
        "gpus",
        "tpus (wide)",
        "status",
        "age",
        "head pod IP (wide)",
        "head service IP (wide)",
    ],
    "RayJob": ["job status", "deployment status", "ray cluster name", "start time", "end time", "age"],
    "Workload": ["Queue", "Reserved in", "Admitted", "Finished", "Age"],
    "WorkloadPriorityClass": ["Value"],
}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_columns_of_every_version_are_those_of_the_definition(name: str) -> None:
    kind = KINDS[name]
    for version in kind.versions:
        shown = [f"{one.name} (wide)" if one.priority else one.name for one in kind.columns.get(version, ())]
        assert shown == COLUMNS.get(name, [])


def test_the_older_version_of_a_queue_shows_its_cohort_under_the_older_name() -> None:
    columns = KINDS["ClusterQueue"].columns
    manifest = {"spec": {"cohort": "old", "cohortName": "new"}}
    shown = {version: columns[version][0].value(manifest, None) for version in columns}  # type: ignore[arg-type]
    assert shown == {"v1beta1": "old", "v1beta2": "new"}


def test_workloads_can_be_selected_by_the_queue_that_admitted_them() -> None:
    (path, value), *others = KINDS["Workload"].selectable.items()
    assert (path, others) == ("status.admission.clusterQueue", [])
    assert value({"status": {"admission": {"clusterQueue": "cq"}}}) == "cq"
    assert value({"spec": {}}) == ""


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_schema_is_called_after_its_group_version_and_kind(name: str) -> None:
    kind = KINDS[name]
    for version in kind.versions:
        reverse = ".".join(reversed(kind.group.split(".")))
        assert kind.schemas[version]().name == f"{reverse}.{version}.{name}"
        assert kind.schemas[version]() is kind.schemas[version]()
