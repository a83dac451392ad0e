"""What of a workload may change once it holds quota, and what may not."""

from typing import Any

import pytest

from fairway.apis.kueue.manifests import decode

from .samples import (
    TIME,
    Manifest,
    admitted,
    changed,
    condition,
    errors_of,
    pod_set,
    pod_spec,
    validate_update,
    workload,
)

ELASTIC = {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
PRIORITY = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_PRIORITY = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
GATES = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"
TOPOLOGY = {
    "levels": ["host"],
    "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"universal": 3}}],
}


def prioritised(ref: Manifest | None, **parts: Any) -> Manifest:
    return admitted(spec={"priority": 1} | ({} if ref is None else {"priorityClassRef": ref}), **parts)


def reclaiming(count: int | None, *pod_sets: Manifest, **parts: Any) -> Manifest:
    pods = [] if count is None else [{"name": "main", "count": count}]
    return admitted(*pod_sets, status={"reclaimablePods": pods}, **parts)


def checked(state: str, **update: Any) -> Manifest:
    check = {
        "name": "c",
        "state": state,
        "lastTransitionTime": TIME,
        "message": "",
        "podSetUpdates": [{"name": "main"} | update],
    }
    return workload(status={"admissionChecks": [check]})


def gated(gates: str | None) -> Manifest:
    annotations = {} if gates is None else {"kueue.x-k8s.io/admission-gated-by": gates}
    return workload(metadata={"annotations": annotations})


def shrunk(sample: Manifest, count: int) -> Manifest:
    """The workload after its job gave pods back; what was admitted stays."""
    return changed(sample, "spec.podSets.0.count", count)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            admitted(),
            changed(admitted(), "spec.podSets.0.template.spec.restartPolicy", "Never"),
            'spec.podSets[0]: Invalid value: {"name":"main"',
            id="the pods of who holds quota",
        ),
        pytest.param(
            admitted(),
            shrunk(admitted(), 4),
            'spec.podSets[0]: Invalid value: {"name":"main"',
            id="their number goes up",
        ),
        pytest.param(
            admitted(pod_set("a"), pod_set("b")),
            changed(admitted(pod_set("a"), pod_set("b")), "spec.podSets.1", ...),
            "status.admission.podSetAssignments: Invalid value: 2: podSetAssignments must have the same number",
            id="a pod set is gone",
        ),
        pytest.param(
            admitted(),
            changed(admitted(), "spec.queueName", "other"),
            'spec.queueName: Invalid value: "other": queueName is immutable while workload quota reserved',
            id="the queue of who holds quota",
        ),
        pytest.param(
            prioritised(PRIORITY),
            prioritised(None),
            "spec.priorityClassRef: Invalid value: null: priorityClassRef is immutable while workload quota reserved",
            id="a priority is taken away",
        ),
        pytest.param(
            prioritised(PRIORITY),
            prioritised(POD_PRIORITY),
            'spec.priorityClassRef.group: Invalid value: "scheduling.k8s.io": priorityClassRef.group is immutable '
            "while workload quota reserved",
            id="a priority of another group",
        ),
        pytest.param(
            prioritised(POD_PRIORITY),
            prioritised(POD_PRIORITY | {"name": "low"}),
            'spec.priorityClassRef.name: Invalid value: "low": priorityClassRef.name is immutable for '
            "scheduling.k8s.io/priorityclass while workload quota reserved",
            id="another priority of pods",
        ),
        pytest.param(
            admitted(spec={"maximumExecutionTimeSeconds": 5}),
            admitted(spec={"maximumExecutionTimeSeconds": 6}),
            "spec.maximumExecutionTimeSeconds: Invalid value: 6: maximumExecutionTimeSeconds is immutable while "
            "workload quota reserved",
            id="the time of who runs",
        ),
        pytest.param(
            admitted(),
            changed(admitted(), "status.admission.clusterQueue", "other"),
            'status.admission: Invalid value: {"clusterQueue":"other"',
            id="where the quota is",
        ),
        pytest.param(
            admitted(),
            changed(admitted(), "status.admission.podSetAssignments.0.flavors", {"cpu": "other"}),
            'status.admission: Invalid value: {"clusterQueue":"team-a"',
            id="which flavor it is of",
        ),
        pytest.param(
            reclaiming(2),
            reclaiming(1),
            "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2",
            id="pods that were done run again",
        ),
        pytest.param(
            reclaiming(2),
            reclaiming(None),
            "status.reclaimablePods[main]: Required value: cannot be removed",
            id="pods that were done are forgotten",
        ),
        pytest.param(
            reclaiming(3, pod_set(count=3), metadata=ELASTIC),
            shrunk(reclaiming(2, pod_set(count=3), metadata=ELASTIC), 1),
            "status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1",
            id="more pods are done than are left",
        ),
        pytest.param(
            checked("Ready", labels={"a": "b"}),
            checked("Ready", labels={"a": "c"}),
            "status.admissionChecks[0].podSetUpdates: Invalid value: "
            '[{"name":"main","labels":{"a":"c"}}]: field is immutable',
            id="what a check said",
        ),
        pytest.param(
            workload(status={"clusterName": "a"}),
            workload(status={"clusterName": "b"}),
            'status.clusterName: Invalid value: "b": clusterName is immutable once set',
            id="another cluster",
        ),
        pytest.param(
            workload(status={"nominatedClusterNames": ["a"]}),
            workload(status={"clusterName": "b"}),
            'status.clusterName: Invalid value: "b": when setting clusterName it must be one of the '
            "nominatedClusterNames",
            id="a cluster that nobody proposed",
        ),
        pytest.param(
            gated(None),
            gated("a.io/x"),
            f"{GATES}: Forbidden: cannot add admission gate after creation",
            id="a late gate",
        ),
        pytest.param(
            gated("a.io/x"),
            gated("a.io/x,a.io/y"),
            f"{GATES}: Forbidden: can only remove gates, not add new ones",
            id="another gate",
        ),
        pytest.param(
            workload(),
            workload(status={"conditions": [condition("QuotaReserved")]}),
            "status.admission: Required value: must be set while the QuotaReserved condition is true",
            id="quota without an admission",
        ),
    ],
)
def test_what_may_not_change(old: Manifest, new: Manifest, want: str) -> None:
    errors = errors_of(lambda: validate_update(decode(old), decode(new)))

    assert str(errors[0]).startswith(want)


def test_a_pod_set_less_is_also_a_change_of_pod_sets() -> None:
    old = admitted(pod_set("a"), pod_set("b"))
    errors = errors_of(lambda: validate_update(decode(old), decode(changed(old, "spec.podSets.1", ...))))

    assert [(error.path, error.message) for error in errors][-1] == ("spec.podSets", "field is immutable")


BROKEN = workload(status={"conditions": [condition("QuotaReserved")]})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            workload(),
            workload(pod_set(count=5, template={"spec": pod_spec(restartPolicy="Never")}), spec={"queueName": "other"}),
            id="anything while it waits",
        ),
        pytest.param(workload(), admitted(pod_set()), id="getting quota"),
        pytest.param(admitted(pod_set()), workload(), id="losing it"),
        pytest.param(admitted(), shrunk(admitted(), 2), id="giving pods back"),
        pytest.param(
            changed(admitted(), "status.conditions.1.status", "False"),
            changed(admitted(spec={"maximumExecutionTimeSeconds": 5}), "status.conditions.1.status", "False"),
            id="its time before it runs",
        ),
        pytest.param(
            prioritised(PRIORITY), prioritised(PRIORITY | {"name": "low"}), id="another priority for the queue"
        ),
        pytest.param(prioritised(PRIORITY), prioritised(PRIORITY) | {}, id="nothing"),
        pytest.param(
            admitted(),
            changed(admitted(), "status.admission.podSetAssignments.0.topologyAssignment", TOPOLOGY),
            id="where the pods go, later",
        ),
        pytest.param(reclaiming(1), reclaiming(2), id="more pods are done"),
        pytest.param(reclaiming(None), reclaiming(2), id="the first pods are done"),
        pytest.param(
            reclaiming(2, pod_set(count=3), metadata=ELASTIC),
            shrunk(reclaiming(None, pod_set(count=3), metadata=ELASTIC), 1),
            id="done pods of an elastic job that became smaller",
        ),
        pytest.param(
            shrunk(reclaiming(2, pod_set(count=3), metadata=ELASTIC), 1),
            changed(shrunk(reclaiming(2, pod_set(count=3), metadata=ELASTIC), 1), "spec.active", value=False),
            id="a count that was left behind",
        ),
        pytest.param(checked("Pending", labels={"a": "b"}), checked("Ready", labels={"a": "c"}), id="a check decides"),
        pytest.param(
            workload(status={"nominatedClusterNames": ["a"]}), workload(status={"clusterName": "a"}), id="a cluster"
        ),
        pytest.param(workload(status={"clusterName": "a"}), workload(), id="no cluster any more"),
        pytest.param(
            workload(),
            workload(
                status={"clusterName": "a"},
                metadata={"annotations": {"kueue.x-k8s.io/workload-slice-replacement-for": "ns/w"}},
            ),
            id="the cluster of the slice that it replaces",
        ),
        pytest.param(gated("a.io/x, a.io/y"), gated("a.io/y"), id="a gate opens"),
        pytest.param(gated("a.io/x"), gated(None), id="the last gate opens"),
        pytest.param(BROKEN, changed(BROKEN, "spec.active", value=False), id="what was broken before may be repaired"),
    ],
)
def test_what_may_change(old: Manifest, new: Manifest) -> None:
    validate_update(decode(old), decode(new))
