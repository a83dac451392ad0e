"""Pods as they are created and changed: who is held back, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.selectors import LabelSelector
from fairway.integrations import pod_webhook
from fairway.integrations.pods import is_gated

QUEUE = "kueue.x-k8s.io/queue-name"
MANAGED = "kueue.x-k8s.io/managed"
GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
ROLE = "kueue.x-k8s.io/role-hash"
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
BOTH = f"both the '{TOTAL}' annotation and the '{GROUP}' label should be set"


class Around:
    """Surroundings as a test wants them."""

    def __init__(self, configuration: Configuration, *, default_queue: bool, owner_is_managed: bool) -> None:
        self._configuration = configuration
        self._default_queue = default_queue
        self._owner_is_managed = owner_is_managed

    @property
    def configuration(self) -> Configuration:
        return self._configuration

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return {"kubernetes.io/metadata.name": namespace}

    def has_default_queue(self, namespace: str) -> bool:  # noqa: ARG002
        return self._default_queue

    def owner_is_managed(self, manifest: Manifest) -> bool:  # noqa: ARG002
        return self._owner_is_managed

    def owner_is_job(self, manifest: Manifest) -> bool:  # noqa: ARG002
        return self._owner_is_managed

    def manages(self, manifest: Manifest, framework: str) -> bool:  # noqa: ARG002
        raise AssertionError("the pods' webhook decides that itself")


def around(
    configuration: Configuration | None = None, *, default_queue: bool = False, owner_is_managed: bool = False
) -> Around:
    return Around(configuration or Configuration(), default_queue=default_queue, owner_is_managed=owner_is_managed)


def pod(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, namespace: str = "default"
) -> Manifest:
    metadata: Manifest = {"name": "a", "namespace": namespace}
    if labels is not None:
        metadata["labels"] = dict(labels)
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}


def running(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Manifest:
    return {**pod(labels, annotations), "status": {"phase": "Running"}}


def waiting(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Manifest:
    found = pod(labels, annotations)
    found["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    return found


@pytest.mark.parametrize(
    ("given", "surroundings", "want"),
    [
        pytest.param(pod({QUEUE: "q"}), around(), True, id="a pod in a queue is held back"),
        pytest.param(pod(), around(), False, id="a pod without a queue is left alone"),
        pytest.param(pod(), around(default_queue=True), True, id="the default queue takes a pod without one"),
        pytest.param(
            pod(),
            around(Configuration(manage_jobs_without_queue_name=True)),
            True,
            id="all pods are held back where jobs without a queue are managed",
        ),
        pytest.param(
            pod({QUEUE: "q"}), around(owner_is_managed=True), False, id="a pod of a job in the queue is left alone"
        ),
        pytest.param(
            pod({QUEUE: "q"}, namespace="kube-system"), around(), False, id="the system's namespaces are left alone"
        ),
        pytest.param(
            pod({QUEUE: "q"}),
            around(Configuration(pod_namespace_selector=LabelSelector(match_labels={"team": "red"}))),
            False,
            id="a selector for pods narrows the namespaces",
        ),
        pytest.param(
            pod({QUEUE: "q"}),
            around(Configuration(frameworks=("batch/job",))),
            False,
            id="no pod is held back while the framework is off",
        ),
    ],
)
def test_who_is_held_back(given: Manifest, surroundings: Around, *, want: bool) -> None:
    assert pod_webhook.on_create(given, surroundings) == []
    assert is_gated(given) is want
    assert (given["metadata"].get("labels") or {}).get(MANAGED) == ("true" if want else None)


def test_a_single_pod_gets_a_finalizer_and_no_role() -> None:
    given = pod({QUEUE: "q"})
    pod_webhook.on_create(given, around())
    assert given["metadata"]["finalizers"] == [MANAGED]
    assert ROLE not in (given["metadata"].get("annotations") or {})


def test_a_pod_gets_the_gate_of_topologies_too_which_cannot_be_added_later() -> None:
    given = pod({QUEUE: "q"})
    pod_webhook.on_create(given, around())
    assert [gate["name"] for gate in given["spec"]["schedulingGates"]] == [
        "kueue.x-k8s.io/admission",
        "kueue.x-k8s.io/topology",
    ]


def test_the_number_of_a_pod_in_its_group_may_be_in_another_label() -> None:
    given = pod({QUEUE: "q", GROUP: "g", "rank": "3"}, {TOTAL: "4", "kueue.x-k8s.io/pod-group-pod-index-label": "rank"})
    assert pod_webhook.on_create(given, around()) == []
    assert given["metadata"]["labels"]["kueue.x-k8s.io/pod-group-pod-index"] == "3"


def test_a_pod_of_a_group_gets_a_finalizer_and_its_role() -> None:
    given = pod({QUEUE: "q", GROUP: "g"}, {TOTAL: "2"})
    assert pod_webhook.on_create(given, around()) == []
    assert given["metadata"]["finalizers"] == [MANAGED]
    # As it will be stored: with a priority, and with tolerations of nodes that are ill.
    assert given["metadata"]["annotations"][ROLE] == "bf90803c"
    assert "tolerations" not in given["spec"]


def test_a_pod_that_its_parent_suspends_is_gated_and_nothing_else() -> None:
    given = pod(None, {"kueue.x-k8s.io/pod-suspending-parent": "deployment"})
    assert pod_webhook.on_create(given, around()) == []
    assert is_gated(given)
    assert "labels" not in given["metadata"]


def test_nothing_is_done_twice() -> None:
    given = pod({QUEUE: "q", GROUP: "g"}, {TOTAL: "2"})
    pod_webhook.on_create(given, around())
    once = {**given, "spec": dict(given["spec"]), "metadata": dict(given["metadata"])}
    pod_webhook.on_create(given, around())
    assert given == once


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            pod({MANAGED: "no"}),
            [f"metadata.labels[{MANAGED}]: Forbidden: managed label value can only be 'true'"],
            id="a label that only the queue sets",
        ),
        pytest.param(
            pod({GROUP: "g"}), [f"metadata.annotations[{TOTAL}]: Required value: {BOTH}"], id="a group without a size"
        ),
        pytest.param(
            pod(None, {TOTAL: "2"}), [f"metadata.labels[{GROUP}]: Required value: {BOTH}"], id="a size without a group"
        ),
        pytest.param(
            pod(None, {GROUP: "g"}),
            [
                (
                    f"metadata.annotations[{TOTAL}]: Required value: both the '{TOTAL}' annotation and the '{GROUP}'"
                    " annotation should be set"
                )
            ],
            id="a group by annotation without a size",
        ),
        pytest.param(
            pod({GROUP: "g"}, {TOTAL: "0"}),
            [
                (
                    f"metadata.annotations[{TOTAL}]: Invalid value: \"0\": incorrect annotation value '{TOTAL}=0': "
                    "group total count should be greater than zero"
                )
            ],
            id="a group of nobody",
        ),
        pytest.param(
            pod({GROUP: "g"}, {TOTAL: "many"}),
            [f'metadata.annotations[{TOTAL}]: Invalid value: "many": strconv.Atoi: parsing "many": invalid syntax'],
            id="a size that is no number",
        ),
        pytest.param(
            pod({GROUP: "g", "kueue.x-k8s.io/prebuilt-workload-name": "w"}, {TOTAL: "1"}),
            [
                (
                    'metadata.labels[kueue.x-k8s.io/prebuilt-workload-name]: Invalid value: "w": '
                    "prebuilt workload and pod group should be equal"
                )
            ],
            id="a group with a prebuilt workload of another name",
        ),
        pytest.param(
            pod({"kueue.x-k8s.io/max-exec-time-seconds": "0"}),
            ["metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: 0: should be greater than 0"],
            id="no time to run",
        ),
    ],
)
def test_what_is_refused(given: Manifest, want: list[str]) -> None:
    assert [str(error) for error in pod_webhook.on_create(given, around())] == want


def test_names_of_groups_and_queues_are_those_of_objects() -> None:
    errors = pod_webhook.on_create(pod({GROUP: "Not_A_Name", QUEUE: "Neither_This"}, {TOTAL: "1"}), around())
    assert [error.path for error in errors] == [f"metadata.labels[{QUEUE}]", f"metadata.labels[{GROUP}]"]


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(waiting({QUEUE: "q"}), waiting({QUEUE: "r"}), [], id="a waiting pod may go to another queue"),
        pytest.param(
            running({QUEUE: "q"}),
            running({QUEUE: "r"}),
            [f'metadata.labels[{QUEUE}]: Invalid value: "r": field is immutable'],
            id="a running pod stays in its queue",
        ),
        pytest.param(
            waiting({GROUP: "g"}, {TOTAL: "1"}),
            waiting({GROUP: "h"}, {TOTAL: "1"}),
            [f'metadata.labels[{GROUP}]: Invalid value: "h": field is immutable'],
            id="a pod stays in its group",
        ),
        pytest.param(
            running({GROUP: "g"}, {TOTAL: "1", RETRIABLE: "false"}),
            running({GROUP: "g"}, {TOTAL: "1"}),
            [f"metadata.annotations[{RETRIABLE}]: Forbidden: unretriable pod group can't be converted to retriable"],
            id="who gives up gives up",
        ),
        pytest.param(
            running({GROUP: "g"}, {TOTAL: "1"}),
            running({GROUP: "g"}, {TOTAL: "1", RETRIABLE: "false"}),
            [],
            id="giving up is allowed",
        ),
        pytest.param(
            running({"kueue.x-k8s.io/priority-class": "low"}),
            running({}),
            [
                (
                    'metadata.labels[kueue.x-k8s.io/priority-class]: Invalid value: "": '
                    "WorkloadPriorityClass cannot be removed from a workload"
                )
            ],
            id="a class cannot be taken away",
        ),
    ],
)
def test_changes(old: Manifest, new: Manifest, want: list[str]) -> None:
    assert [str(error) for error in pod_webhook.on_update(old, new, around())] == want


def test_a_change_of_anything_else_is_not_looked_at() -> None:
    old: Any = running({MANAGED: "no"})
    new = {**old, "spec": {"containers": []}}
    assert pod_webhook.on_update(old, new, around()) == []


_KEYS = [
    MANAGED,
    GROUP,
    TOTAL,
    "other",
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/prebuilt-workload-name",
]
_TEXTS = st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(["", "a", "B!", "2", "true"]), max_size=3)


@given(labels=_TEXTS, annotations=_TEXTS)
def test_what_a_pod_does_not_have_need_not_be_asked_about(labels: dict[str, str], annotations: dict[str, str]) -> None:
    pod: Manifest = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {}}
    asked = {**pod, "metadata": {"labels": {MANAGED: "true", **labels}, "annotations": annotations}}

    assert pod_webhook._wrong(pod) == pod_webhook._wrong(asked)
