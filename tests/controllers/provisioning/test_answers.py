"""What the conditions of a request mean for the check."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.provisioning import decide

from .test_requests import spec_of, stored
from .things import CLASS, condition, pod_set, state

RETRY = {"backoffLimitCount": 2, "backoffBaseSeconds": 60, "backoffMaxSeconds": 100}
UPDATES = [
    {
        "name": "main",
        "annotations": {
            "autoscaling.x-k8s.io/consume-provisioning-request": "wl-prov-1",
            "autoscaling.x-k8s.io/provisioning-class-name": CLASS,
        },
    }
]
WAITING = 'Waiting for a provisioner of class "queued-provisioning.gke.io" to process ProvisioningRequest "wl-prov-1"'


def request(*conditions: Manifest, class_name: str = CLASS, **status: Any) -> Manifest:
    made = decide.new_request(
        stored(), "wl-prov-1", spec_of(provisioningClassName=class_name), decide.asks_of(stored(), spec_of())
    )
    return {**made, "status": {"conditions": list(conditions), **status}}


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([], state(message=WAITING), id="a class that is not served here is waited for aloud"),
        pytest.param([condition("Accepted")], state(), id="accepted, and nothing said about room"),
        pytest.param(
            [condition("Accepted"), condition("Provisioned", "False", "In an hour.")],
            state(message="In an hour."),
            id="accepted, with a time to wait for",
        ),
        pytest.param(
            [condition("Accepted"), condition("Provisioned", message="Done")],
            state(state="Ready", message="Done", podSetUpdates=UPDATES),
            id="provisioned",
        ),
        pytest.param(
            [condition("Provisioned"), condition("Failed", message="No stock")],
            state(state="Retry", message="Retrying after failure: No stock", requeueAfterSeconds=60),
            id="failed comes before all else",
        ),
        pytest.param(
            [condition("Provisioned"), condition("CapacityRevoked", message="Gone")],
            state(state="Rejected", message="Gone"),
            id="the room was taken back",
        ),
        pytest.param(
            [condition("Provisioned"), condition("BookingExpired", message="Late")],
            state(state="Retry", message="Retrying after booking expired: Late", requeueAfterSeconds=60),
            id="the room was not used in time",
        ),
    ],
)
def test_the_conditions_of_a_request_decide(conditions: list[Manifest], want: Manifest) -> None:
    assert decide.next_state(state(), stored(), request(*conditions), spec_of(retryStrategy=RETRY), 1) == want


FAILED = condition("Failed", message="No stock")


@pytest.mark.parametrize(
    ("check", "attempt", "want"),
    [
        pytest.param(
            state(retryCount=1),
            2,
            state(state="Retry", message="Retrying after failure: No stock", retryCount=1, requeueAfterSeconds=100),
            id="the second time it waits twice as long, up to the limit",
        ),
        pytest.param(
            state(retryCount=2), 3, state(state="Rejected", message="No stock", retryCount=2), id="then never"
        ),
        pytest.param(
            state(retryCount=1),
            1,
            state(message="Retrying after failure: No stock", retryCount=1),
            id="a request from before the last retry counts no more",
        ),
    ],
)
def test_a_failure_is_tried_again_for_a_while(check: Manifest, attempt: int, want: Manifest) -> None:
    assert decide.next_state(check, stored(), request(FAILED), spec_of(retryStrategy=RETRY), attempt) == want


@pytest.mark.parametrize(
    ("retries", "strategy", "want"),
    [
        pytest.param(0, {}, 60, id="the default at first"),
        pytest.param(2, {"backoffLimitCount": 9}, 240, id="the default later"),
        pytest.param(9, {"backoffLimitCount": 99}, 1800, id="the default at last"),
        pytest.param(0, {"backoffBaseSeconds": 300, "backoffMaxSeconds": 10}, 300, id="a limit below the first wait"),
        pytest.param(1, {"backoffBaseSeconds": 300, "backoffMaxSeconds": 10}, 10, id="which holds from then on"),
    ],
)
def test_the_wait_doubles_up_to_its_limit(retries: int, strategy: dict[str, int], want: int) -> None:
    spec = spec_of(retryStrategy=strategy)
    answer = decide.next_state(state(retryCount=retries), stored(), request(FAILED), spec, retries + 1)

    assert answer["requeueAfterSeconds"] == want


@pytest.mark.parametrize(
    ("happened", "workload"),
    [
        pytest.param("BookingExpired", {"conditions": [condition("Admitted")]}, id="an expired booking once admitted"),
        pytest.param("CapacityRevoked", {"conditions": [condition("Finished")]}, id="revoked room once finished"),
        pytest.param("Provisioned", {}, id="room for a check that is ready"),
    ],
)
def test_what_comes_too_late_changes_nothing(happened: str, workload: Manifest) -> None:
    ready = state(state="Ready", message="Done", podSetUpdates=UPDATES)
    made = stored()
    made["status"] |= workload

    assert decide.next_state(ready, made, request(condition(happened)), spec_of(), 1) is ready


def test_pods_are_sent_to_the_nodes_that_the_provisioner_names() -> None:
    spec = spec_of(
        podSetUpdates={
            "nodeSelector": [
                {"key": "pool", "valueFromProvisioningClassDetail": "NodePool"},
                {"key": "missing", "valueFromProvisioningClassDetail": "Nothing"},
            ]
        }
    )
    done = request(condition("Provisioned"), provisioningClassDetails={"NodePool": "pool-7"})

    assert decide.next_state(state(), stored(), done, spec, 1)["podSetUpdates"] == [
        {**UPDATES[0], "nodeSelector": {"pool": "pool-7"}}
    ]


def test_only_the_first_of_merged_pod_sets_is_updated_as_in_kueue() -> None:
    made = stored(pod_set("a"), pod_set("b"))
    spec = spec_of(podSetMergePolicy="IdenticalPodTemplates")
    done = decide.new_request(made, "wl-prov-1", spec, decide.asks_of(made, spec))
    done["status"] = {"conditions": [condition("Provisioned")]}

    assert [one["name"] for one in decide.next_state(state(), made, done, spec, 1)["podSetUpdates"]] == ["a"]


def test_a_class_that_is_served_here_says_nothing_until_it_knows() -> None:
    new = request(class_name=decide.CHECK_CAPACITY)
    after_eviction = state(message="Reset to Pending after eviction. Previously: Retry")

    assert decide.next_state(after_eviction, stored(), new, spec_of(), 1) == state()
