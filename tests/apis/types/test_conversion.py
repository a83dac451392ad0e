"""v1beta1: what is called otherwise, what has another form, and what exists in one version only."""

from typing import Any

import pytest

from fairway.apis.kueue.manifests import decode, encode, load
from fairway.apis.kueue.objects import ClusterQueue, Workload

from .samples import (
    V1BETA1,
    Manifest,
    admitted,
    changed,
    cluster_queue,
    errors_of,
    full_samples,
    local_queue,
    manifest,
    pod_set,
    workload,
)


def old(sample: Manifest) -> Manifest:
    return sample | {"apiVersion": V1BETA1}


def topology(**assignment: Any) -> Manifest:
    sample = admitted(pod_set(count=3))
    return changed(sample, "status.admission.podSetAssignments.0.topologyAssignment", assignment)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(old(cluster_queue(cohort="c")), cluster_queue(cohortName="c"), id="cohort is cohortName"),
        pytest.param(
            old(cluster_queue(admissionChecks=["a", "b"])),
            cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "a"}, {"name": "b"}]}),
            id="a list of checks becomes a strategy",
        ),
        pytest.param(
            old(cluster_queue(admissionChecks=["a"], admissionChecksStrategy={"admissionChecks": [{"name": "b"}]})),
            cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "a"}]}),
            id="a list of checks replaces a strategy",
        ),
        pytest.param(
            old(cluster_queue(admissionChecks=[], admissionChecksStrategy={"admissionChecks": [{"name": "b"}]})),
            cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "b"}]}),
            id="unless it is empty",
        ),
        pytest.param(
            old(cluster_queue(flavorFungibility={"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"})),
            cluster_queue(flavorFungibility={"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}),
            id="Borrow and Preempt stop the search",
        ),
        pytest.param(
            old(
                manifest(
                    "ClusterQueue", "q", status={"pendingWorkloadsStatus": {"lastChangeTime": "2026-01-02T03:04:05Z"}}
                )
            ),
            manifest("ClusterQueue", "q", status={}),
            id="pendingWorkloadsStatus is gone",
        ),
        pytest.param(
            old(
                local_queue()
                | {"status": {"flavorUsage": [{"name": "f", "resources": []}], "flavors": [{"name": "f"}]}}
            ),
            local_queue() | {"status": {"flavorsUsage": [{"name": "f", "resources": []}]}},
            id="flavorUsage is flavorsUsage, and flavors is gone",
        ),
        pytest.param(
            old(
                workload(
                    spec={
                        "priorityClassName": "p",
                        "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
                        "priority": 1,
                    }
                )
            ),
            workload(
                spec={
                    "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "p"},
                    "priority": 1,
                }
            ),
            id="a WorkloadPriorityClass is a reference",
        ),
        pytest.param(
            old(
                workload(
                    spec={
                        "priorityClassName": "p",
                        "priorityClassSource": "scheduling.k8s.io/priorityclass",
                        "priority": 1,
                    }
                )
            ),
            workload(
                spec={
                    "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"},
                    "priority": 1,
                }
            ),
            id="a PriorityClass is a reference",
        ),
        pytest.param(
            old(workload(spec={"priorityClassName": "p", "priorityClassSource": "", "priority": 1})),
            workload(spec={"priority": 1}),
            id="a name without a source refers to nothing",
        ),
        pytest.param(
            old(workload(status={"accumulatedPastExexcutionTimeSeconds": 5})),
            workload(status={"accumulatedPastExecutionTimeSeconds": 5}),
            id="a spelling is corrected",
        ),
        pytest.param(
            old(
                topology(
                    levels=["rack", "host"],
                    domains=[{"values": ["r", "a"], "count": 1}, {"values": ["r", "b"], "count": 2}],
                )
            ),
            topology(
                levels=["rack", "host"],
                slices=[
                    {
                        "domainCount": 2,
                        "valuesPerLevel": [{"universal": "r"}, {"individual": {"roots": ["a", "b"]}}],
                        "podCounts": {"individual": [1, 2]},
                    }
                ],
            ),
            id="domains become slices",
        ),
        pytest.param(
            old(topology(levels=["host"], domains=[{"values": ["a"], "count": 3}])),
            topology(
                levels=["host"],
                slices=[{"domainCount": 1, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"universal": 3}}],
            ),
            id="one domain becomes one slice",
        ),
        pytest.param(
            old(topology(levels=["host"], domains=[])),
            topology(levels=["host"], slices=[]),
            id="no domains, no slices",
        ),
        pytest.param(
            old(manifest("AdmissionCheck", "c", spec={"controllerName": "x/y", "retryDelayMinutes": 15})),
            manifest("AdmissionCheck", "c", spec={"controllerName": "x/y"}),
            id="retryDelayMinutes is gone",
        ),
    ],
)
def test_an_older_manifest_means_the_same_as_a_newer_one(before: Manifest, after: Manifest) -> None:
    assert encode(decode(before)) == encode(decode(after))


@pytest.mark.parametrize("kind", sorted(full_samples()))
def test_what_both_versions_know_survives_the_way_there_and_back(kind: str) -> None:
    newer = full_samples()[kind]
    for path in ("spec.concurrentAdmissionPolicy", "spec.preemptionGates", "status.preemptionGates"):
        part, name = path.split(".")
        if name in newer.get(part, {}):
            newer = changed(newer, path, ...)
    if kind == "Workload":
        newer = changed(newer, "spec.podSets.0.topologyRequest.podsetSliceRequiredTopologyConstraints", ...)
    value = decode(newer)
    older = encode(value, "v1beta1")

    assert older["apiVersion"] == V1BETA1
    assert encode(decode(older), "v1beta1") == older
    if kind != "Workload":  # the same domains may be written as slices in several ways
        assert decode(older) == value


def test_a_workload_keeps_its_domains_through_both_versions() -> None:
    older = encode(decode(full_samples()["Workload"]), "v1beta1")

    assert older["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] == {
        "levels": ["example.com/rack", "kubernetes.io/hostname"],
        "domains": [
            {"values": ["r1", "node-1.local"], "count": 1},
            {"values": ["r1", "node-2.local"], "count": 2},
        ],
    }
    assert older["spec"]["priorityClassName"] == "high"
    assert older["spec"]["priorityClassSource"] == "kueue.x-k8s.io/workloadpriorityclass"
    assert "preemptionGates" not in older["spec"] | older["status"]


@pytest.mark.parametrize(
    ("sample", "want"),
    [
        pytest.param(
            cluster_queue(cohortName="c"),
            "spec.cohortName: Unknown field",
            id="a newer name",
        ),
        pytest.param(
            cluster_queue(concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}}),
            "spec.concurrentAdmissionPolicy: Unknown field",
            id="a newer field",
        ),
        pytest.param(
            workload(spec={"priorityClassRef": {"group": "kueue.x-k8s.io"}}),
            "spec.priorityClassRef: Unknown field",
            id="a newer form",
        ),
        pytest.param(
            cluster_queue(cohort=5),
            "spec.cohort: Invalid value: 5: must be of type string",
            id="the old path",
        ),
        pytest.param(
            cluster_queue(admissionChecks="a"),
            'spec.admissionChecks: Invalid value: "a": must be of type array',
            id="checks that are no list",
        ),
        pytest.param(
            workload(spec={"priorityClassName": "p", "priorityClassSource": "x", "priority": 1}),
            'spec.priorityClassSource: Unsupported value: "x": supported values: '
            '"kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""',
            id="an unknown source",
        ),
        pytest.param(
            workload(spec={"priorityClassSource": 1}),
            "spec.priorityClassSource: Invalid value: 1: must be of type string",
            id="a source that is no text",
        ),
        pytest.param(
            workload(spec={"priorityClassName": 1, "priority": 1}),
            "spec.priorityClassName: Invalid value: 1: must be of type string",
            id="a name that is no text",
        ),
        pytest.param(
            workload(spec={"priorityClassName": "p"}),
            'spec: Invalid value: "p": priority should not be nil when priorityClassName is set',
            id="a name without a number",
        ),
        pytest.param(
            topology(levels=["a", "b"], domains=[{"values": ["x"], "count": 1}]),
            "status.admission.podSetAssignments[0].topologyAssignment.domains[0].values: Invalid value: "
            '["x"]: must have one value for each of the 2 levels',
            id="a domain that lacks a level",
        ),
        pytest.param(
            topology(levels=["a"], domains=[], slices=[]),
            "status.admission.podSetAssignments[0].topologyAssignment.slices: Unknown field",
            id="slices",
        ),
        pytest.param(
            changed(admitted(), "status.admission.clusterQueue", ...),
            "status.admission.clusterQueue: Required value",
            id="an admission to nowhere",
        ),
    ],
)
def test_what_is_wrong_with_an_older_manifest_is_told_in_its_own_terms(sample: Manifest, want: str) -> None:
    assert str(errors_of(lambda: decode(old(sample)))[0]) == want


def test_broken_rules_are_told_with_the_paths_of_the_manifest() -> None:
    errors = errors_of(lambda: load(old(cluster_queue(cohort="Not_A_Name"))))
    assert [error.path for error in errors] == ["spec.cohort"]

    source = "scheduling.k8s.io/priorityclass"
    spec = {"priorityClassName": "Not_A_Name", "priorityClassSource": source, "priority": 1}
    errors = errors_of(lambda: load(old(workload(spec=spec))))
    assert [error.path for error in errors] == ["spec.priorityClassName"]


def test_typed_values_are_of_the_stored_version() -> None:
    queue = decode(old(cluster_queue(cohort="c")))
    assert isinstance(queue, ClusterQueue)
    assert queue.spec.cohort_name == "c"

    assert isinstance(decode(old(workload())), Workload)
