"""Rules about workloads when they are made: their pods, priority, topology, and the status that controllers write."""

from typing import Any

import pytest

from fairway.apis.kueue.manifests import load

from .samples import (
    TIME,
    Manifest,
    admitted,
    changed,
    condition,
    container,
    errors_of,
    pod_set,
    pod_spec,
    workload,
)

GATES = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"
ASSIGNED = "status.admission.podSetAssignments[0]"


def annotated(annotation: str, value: str, *pod_sets: Manifest) -> Manifest:
    return workload(*pod_sets, metadata={"annotations": {f"kueue.x-k8s.io/{annotation}": value}})


def prioritised(group: str, kind: str, **spec: Any) -> Manifest:
    return workload(spec={"priorityClassRef": {"group": group, "kind": kind, "name": "p"}} | spec)


def checked(**fields: Any) -> Manifest:
    check = {"name": "c", "state": "Ready", "lastTransitionTime": TIME, "message": ""} | fields
    return workload(status={"admissionChecks": [check]})


def updating(**fields: Any) -> Manifest:
    return checked(podSetUpdates=[{"name": "main"} | fields])


def placed(levels: list[str] | None = None, **part: Any) -> Manifest:
    values = [{"universal": "r"}, {"individual": {"roots": ["a", "b"]}}]
    one = {"domainCount": 2, "valuesPerLevel": values, "podCounts": {"universal": 1}} | part
    assignment = {"levels": levels or ["rack", "host"], "slices": [one]}
    return changed(admitted(), "status.admission.podSetAssignments.0.topologyAssignment", assignment)


@pytest.mark.parametrize(
    ("sample", "want"),
    [
        pytest.param(
            changed(workload(), "spec.podSets", []),
            "spec.podSets: Invalid value: 0: spec.podSets in body should have at least 1 items",
            id="a workload has pods",
        ),
        pytest.param(
            workload(*(pod_set(f"p{i}") for i in range(19))),
            "spec.podSets: Too many: 19: must have at most 18 items",
            id="not too many kinds of them",
        ),
        pytest.param(
            workload(pod_set(), pod_set()),
            'spec.podSets[1]: Duplicate value: {"name":"main"}',
            id="two pod sets of one name",
        ),
        pytest.param(
            workload(pod_set("Main")),
            'spec.podSets[0].name: Invalid value: "Main": spec.podSets[0].name in body should match '
            "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            id="names of pod sets are in lower case",
        ),
        pytest.param(
            workload(pod_set(count=1, minCount=2)),
            "spec.podSets[0].minCount: Invalid value: 2: minCount should be positive and less or equal to count",
            id="a minimum above the count",
        ),
        pytest.param(
            workload(pod_set(count=1, minCount=0)),
            "spec.podSets[0].minCount: Invalid value: 0: spec.podSets[0].minCount in body should be greater than or "
            "equal to 1",
            id="a minimum of nothing",
        ),
        pytest.param(
            workload(pod_set("a", minCount=1), pod_set("b", minCount=1)),
            "spec.podSets: Invalid value: 2: at most one podSet can use minCount",
            id="two pod sets that may shrink",
        ),
        pytest.param(
            annotated("elastic-job", "true", pod_set(minCount=1)),
            "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together",
            id="shrinking in two ways",
        ),
        pytest.param(
            workload(pod_set(template={"spec": {}})),
            "spec.podSets[0].template.spec.containers: Required value",
            id="a pod without containers",
        ),
        pytest.param(
            workload(pod_set(template={"spec": pod_spec(container(requests={"cpu": "-1"}))})),
            'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater '
            "than or equal to 0",
            id="a negative request",
        ),
        pytest.param(
            workload(pod_set(template={"spec": pod_spec(container(limits={"pods": 1}))})),
            'spec.podSets[0].template.spec.containers[0].resources.limits[pods]: Invalid value: "pods": the key is '
            "reserved for internal kueue use",
            id="the reserved resource",
        ),
        pytest.param(
            workload(pod_set(template={"spec": pod_spec(), "metadata": {"labels": {"a": "b c"}}})),
            'spec.podSets[0].template.metadata.labels: Invalid value: "b c": a valid label must be',
            id="labels of pods",
        ),
        pytest.param(
            workload(pod_set(template={"spec": pod_spec(), "metadata": {"annotations": {"a b": ""}}})),
            'spec.podSets[0].template.metadata.annotations: Invalid value: "a b": name part must consist',
            id="annotations of pods",
        ),
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack"})),
            "spec.podSets[0].topologyRequest.podSetSliceSize: Required value: must be set when "
            "podSetSliceRequiredTopology is specified",
            id="slices without a size",
        ),
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 0})),
            "spec.podSets[0].topologyRequest.podSetSliceSize: Invalid value: 0: must be greater than 0",
            id="slices of nothing",
        ),
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceSize": 1})),
            "spec.podSets[0].topologyRequest.podSetSliceSize: Forbidden: may not be set when "
            "podSetSliceRequiredTopology is not specified",
            id="a size without slices",
        ),
        pytest.param(
            workload(
                pod_set(topologyRequest={"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 0}]})
            ),
            "spec.podSets[0].topologyRequest.podsetSliceRequiredTopologyConstraints[0].size: Invalid value: 0: spec",
            id="constraints of nothing",
        ),
        pytest.param(
            prioritised("kueue.x-k8s.io", "WorkloadPriorityClass"),
            "spec.priority: Invalid value: null: priority should not be nil when priorityClassRef is set",
            id="a priority without a number",
        ),
        pytest.param(
            prioritised("kueue.x-k8s.io", "PriorityClass", priority=1),
            'spec.priorityClassRef.kind: Invalid value: "PriorityClass": only the WorkloadPriorityClass kind is '
            "allowed for the kueue.x-k8s.io group",
            id="a kind of another group",
        ),
        pytest.param(
            prioritised("scheduling.k8s.io", "WorkloadPriorityClass", priority=1),
            'spec.priorityClassRef.kind: Invalid value: "WorkloadPriorityClass": only the PriorityClass kind is '
            "allowed for the scheduling.k8s.io group",
            id="and the other way round",
        ),
        pytest.param(
            annotated("admission-gated-by", "a.io/x,,b.io/y"),
            f'{GATES}: Invalid value: "a.io/x,,b.io/y": cannot contain empty gate names',
            id="an empty gate",
        ),
        pytest.param(
            annotated("admission-gated-by", "a.io/x, a.io/x"),
            f'{GATES}: Invalid value: "a.io/x, a.io/x": duplicate gate name: a.io/x',
            id="a gate twice",
        ),
        pytest.param(
            annotated("admission-gated-by", "gate"),
            f'{GATES}: Invalid value: "gate": must be a domain-prefixed path (such as "acme.io/foo")',
            id="a gate without a domain",
        ),
        pytest.param(
            annotated("admission-gated-by", "A/x"),
            f'{GATES}: Invalid value: "A": a lowercase RFC 1123 subdomain must consist',
            id="the domain of a gate",
        ),
        pytest.param(
            annotated("admission-gated-by", "a.io/x?"),
            f'{GATES}: Invalid value: "x?": Invalid path',
            id="the path of one",
        ),
        pytest.param(
            annotated("admission-gated-by", "a.io/" + "x" * 60),
            f"{GATES}: Too long: may not be more than 63 bytes",
            id="a long gate",
        ),
        pytest.param(
            workload(status={"conditions": [condition("x" * 64)]}),
            f'status.conditions[0].type: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes',
            id="a condition with a long name",
        ),
        pytest.param(
            workload(
                status={"schedulingStats": {"evictions": [{"reason": "r", "underlyingCause": "", "count": 1}] * 2}}
            ),
            'status.schedulingStats.evictions[1]: Duplicate value: {"reason":"r","underlyingCause":""}',
            id="evictions that are counted twice",
        ),
        pytest.param(
            workload(status={"conditions": [condition("QuotaReserved")]}),
            "status.admission: Required value: must be set while the QuotaReserved condition is true",
            id="quota that is reserved nowhere",
        ),
        pytest.param(
            changed(admitted(), "status.admission.podSetAssignments", []),
            "status.admission.podSetAssignments: Invalid value: 0: podSetAssignments must have the same number of "
            "podSets as the spec",
            id="pods without an assignment",
        ),
        pytest.param(
            changed(admitted(), "status.admission.podSetAssignments.0.name", "other"),
            f'{ASSIGNED}.name: Not found: "other"',
            id="an assignment without pods",
        ),
        pytest.param(
            changed(admitted(), "status.admission.podSetAssignments.0.resourceUsage", {"cpu": "1"}),
            f'{ASSIGNED}.resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3',
            id="usage that the pods cannot share",
        ),
        pytest.param(
            placed(levels=["host"]),
            f"{ASSIGNED}.topologyAssignment.slices[0].valuesPerLevel: Invalid value: 2: valuesPerLevel must have the "
            "same length as the number of levels in this TopologyAssignment",
            id="more values than levels",
        ),
        pytest.param(
            placed(podCounts={}),
            f"{ASSIGNED}.topologyAssignment.slices[0].podCounts: Invalid value: {{}}: exactly one of the fields in "
            "[universal individual] must be set",
            id="no counts",
        ),
        pytest.param(
            placed(podCounts={"individual": [1, 2, 3]}),
            f"{ASSIGNED}.topologyAssignment.slices[0].podCounts.individual: Invalid value: 3: podCounts.individual "
            "must have length equal to domainCount",
            id="more counts than domains",
        ),
        pytest.param(
            placed(valuesPerLevel=[{"universal": "r"}, {}]),
            f"{ASSIGNED}.topologyAssignment.slices[0].valuesPerLevel[1]: Invalid value: {{}}: exactly one of the "
            "fields in [universal individual] must be set",
            id="a level without values",
        ),
        pytest.param(
            placed(valuesPerLevel=[{"universal": "r"}, {"individual": {"roots": ["a"]}}]),
            f"{ASSIGNED}.topologyAssignment.slices[0].valuesPerLevel[1]: Invalid value: 1: "
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this "
            "TopologyAssignmentSlice",
            id="more domains than values",
        ),
        pytest.param(
            workload(status={"reclaimablePods": [{"name": "other", "count": 1}]}),
            'status.reclaimablePods[other].name: Unsupported value: "other": supported values: "main"',
            id="reclaimable pods of nobody",
        ),
        pytest.param(
            workload(status={"reclaimablePods": [{"name": "main", "count": 2}]}),
            "status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1",
            id="more reclaimable pods than there are",
        ),
        pytest.param(
            updating(name="other"),
            'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "other": supported values: "main"',
            id="an update of nobody",
        ),
        pytest.param(
            updating(labels={"a": "b c"}),
            'status.admissionChecks[0].podSetUpdates[0].labels: Invalid value: "b c": a valid label must be',
            id="labels of an update",
        ),
        pytest.param(
            updating(nodeSelector={"a": "b c"}),
            'status.admissionChecks[0].podSetUpdates[0].nodeSelector: Invalid value: "b c": a valid label must be',
            id="the selector of an update",
        ),
        pytest.param(
            updating(annotations={"a b": ""}),
            'status.admissionChecks[0].podSetUpdates[0].annotations: Invalid value: "a b": name part must consist',
            id="annotations of an update",
        ),
        pytest.param(
            updating(tolerations=[{}]),
            "status.admissionChecks[0].podSetUpdates[0].tolerations[0]: Invalid value: {}: operator must be Exists "
            "when 'key' is empty, which means 'match all values and all keys'",
            id="tolerations of an update",
        ),
        pytest.param(
            checked(retryCount=-1),
            "status.admissionChecks[0].retryCount: Invalid value: -1: status.admissionChecks[0].retryCount in body "
            "should be greater than or equal to 0",
            id="retries below zero",
        ),
        pytest.param(
            workload(status={"clusterName": "a", "nominatedClusterNames": ["b"]}),
            'status.clusterName: Invalid value: "a": clusterName and nominatedClusterNames are mutually exclusive',
            id="a cluster that is chosen and still to be chosen",
        ),
        pytest.param(
            workload(spec={"preemptionGates": [{"name": "g"}, {"name": "g"}]}),
            'spec.preemptionGates[1]: Duplicate value: {"name":"g"}',
            id="a preemption gate twice",
        ),
    ],
)
def test_creating(sample: Manifest, want: str) -> None:
    errors = errors_of(lambda: load(sample))

    assert str(errors[0]).startswith(want)
    assert len(errors) == 1


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(admitted(), id="an admitted workload"),
        pytest.param(
            workload(pod_set(template={"spec": {"containers": [{"name": "", "resources": {}}]}})),
            id="a container whose name is empty, which the definition lets pass",
        ),
        pytest.param(workload(pod_set(count=0)), id="no pods at all"),
        pytest.param(workload(pod_set(count=3, minCount=3)), id="a minimum at the count"),
        pytest.param(prioritised("scheduling.k8s.io", "PriorityClass", priority=1), id="a priority class of pods"),
        pytest.param(annotated("admission-gated-by", "a.io/x, b.io/y"), id="two gates"),
        pytest.param(annotated("admission-gated-by", ""), id="no gate"),
        pytest.param(placed(), id="pods that know their place"),
        pytest.param(updating(tolerations=[{"operator": "Exists"}], labels={"a": "b"}), id="an update by a check"),
        pytest.param(
            workload(pod_set(template={"spec": pod_spec(container(requests={"cpu": 2}, limits={"cpu": 1}))})),
            id="more requested than allowed, which is found when it is tried",
        ),
        pytest.param(
            workload(status={"conditions": [condition("QuotaReserved", "False")]}), id="quota that is not reserved"
        ),
    ],
)
def test_these_are_fine(sample: Manifest) -> None:
    load(sample)
