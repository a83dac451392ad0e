"""Single pods: their workloads, how they start, how they are stopped, how they ended."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import pods
from fairway.integrations.injection import InjectionConflict, PodSetInfo
from fairway.integrations.pods import JobOutcome
from fairway.integrations.priorities import Priority

_GATE = {"name": "kueue.x-k8s.io/admission"}
_NOW = "2026-01-01T00:00:00Z"


def pod(phase: str = "Pending", *, message: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    container = {"name": "main", "image": "one", "resources": {"requests": {"cpu": "1"}}, "imagePullPolicy": "Always"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "labels": labels or {}, "annotations": {}},
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase, **({"message": message} if message else {})},
    }


def test_a_workload_is_named_after_its_pod() -> None:
    named = pod()
    named["metadata"] |= {"name": "job1-2ea4-head", "uid": "8ad6b2f5"}
    name = pods.name_of_workload(named)
    assert name == "pod-job1-2ea4-head-0c6ef"


def test_a_workload_takes_over_what_the_queue_needs() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q", "team": "red", "kueue.x-k8s.io/max-exec-time-seconds": "30"}
    made = pods.composed(pod(labels=labels), Priority(5, None), ["team", "absent"])
    assert made["metadata"]["labels"] == {"team": "red", "kueue.x-k8s.io/job-uid": "u"}
    assert made["spec"]["queueName"] == "q"
    assert made["spec"]["priority"] == 5
    assert made["spec"]["maximumExecutionTimeSeconds"] == 30


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(pod("Pending"), None, id="not while it waits"),
        pytest.param(pod("Running"), None, id="not while it runs"),
        pytest.param(pod("Succeeded"), JobOutcome(succeeded=True, message=""), id="well"),
        pytest.param(pod("Failed", message="why"), JobOutcome(succeeded=False, message="why"), id="badly, and why"),
    ],
)
def test_how_it_ended(found: Manifest, want: JobOutcome | None) -> None:
    assert pods.outcome(found) == want


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(pod("Pending", schedulingGates=[_GATE]), True, id="behind its gate"),
        pytest.param(pod("Pending"), False, id="past its gate"),
        pytest.param(pod("Pending", schedulingGates=[{"name": "other"}]), False, id="behind somebody else's gate"),
        pytest.param(pod("Failed"), True, id="over"),
    ],
)
def test_whether_it_is_suspended(found: Manifest, *, want: bool) -> None:
    assert pods.is_suspended(found) is want


def test_a_start_opens_its_own_gate_and_adds_what_was_admitted() -> None:
    gates = [{"name": "other"}, _GATE, {"name": "kueue.x-k8s.io/topology"}]
    found = pod(labels={"a": "b"}, schedulingGates=gates, nodeSelector={"zone": "1"})
    info = PodSetInfo(name="main", count=1, labels={"c": "d"}, node_selector={"machine": "here"})
    patch = pods.start_patch(found, info)
    assert patch["spec"]["schedulingGates"] == [{"name": "other"}]
    assert patch["spec"]["nodeSelector"] == {"zone": "1", "machine": "here"}
    assert patch["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert found["spec"]["schedulingGates"] == gates


def test_a_start_against_the_pods_own_wishes_is_refused() -> None:
    info = PodSetInfo(name="main", count=1, node_selector={"zone": "2"})
    with pytest.raises(InjectionConflict):
        pods.start_patch(pod(schedulingGates=[_GATE], nodeSelector={"zone": "1"}), info)


def test_a_stop_is_said_once() -> None:
    found = pod("Running")
    patch = pods.stop_patch(found, "NotAdmitted", "Not admitted by cluster queue", _NOW)
    assert patch is not None
    assert patch["metadata"] == {"uid": "u"}
    found["status"]["conditions"] = patch["status"]["conditions"]
    assert pods.stop_patch(found, "NotAdmitted", "Not admitted by cluster queue", _NOW) is None
    assert pods.stop_patch(found, "WorkloadDeleted", "Workload is deleted", _NOW) is not None


def _workload(found: Manifest, **status: Any) -> Manifest:
    return {**pods.composed(found, Priority(0, None), []), "status": status}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, True, id="as it was"),
        pytest.param({"image": "two"}, False, id="with another image"),
        pytest.param({"resources": {"requests": {"cpu": "1000m"}}}, True, id="with the same amount, written otherwise"),
        pytest.param({"env": []}, True, id="with an empty field"),
    ],
)
def test_whether_a_workload_is_still_that_of_the_pod(change: dict[str, Any], *, want: bool) -> None:
    found = pod(schedulingGates=[_GATE])
    workload = _workload(found)
    found["spec"]["containers"] = [{**found["spec"]["containers"][0], **change}]
    assert pods.matches(found, workload, lambda _: None) is want


def test_variables_that_are_set_twice_do_not_make_another_pod() -> None:
    found = pod(schedulingGates=[_GATE])
    found["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert pods.matches(found, _workload(found), lambda _: None)


def test_tolerations_that_admission_adds_do_not_make_another_pod() -> None:
    found = pod()
    workload = _workload(found, conditions=[{"type": "Admitted", "status": "True"}])
    found["spec"]["tolerations"] = [{"key": "queue"}]
    assert pods.matches(found, workload, lambda _: None)
