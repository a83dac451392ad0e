"""What is due for a Workload, and when, worked out from what is stored."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.manifests import condition, workload
from fairway.apis.kueue.configuration import Configuration, WaitForPodsReady
from fairway.controllers.workload.decide import (
    Delete,
    EndBackoff,
    Finish,
    Later,
    LetGo,
    LifecycleCase,
    Outcome,
    RequestEviction,
    at_a_glance,
    decide,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HALF_AN_HOUR = 1800.0
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": True}
OF_A_JOB = {"labels": {"kueue.x-k8s.io/job-uid": "u"}}
IN_USE = ["kueue.x-k8s.io/resource-in-use"]
GONE = Finish("OwnerNotFound", "The workload's owner no longer exists")
LATE = RequestEviction("PodsReadyTimeout", "WaitForStart")
NOT_RECOVERED = RequestEviction("PodsReadyTimeout", "WaitForRecovery")
TOO_LONG = RequestEviction(
    "Deactivated",
    "MaximumExecutionTimeExceeded",
    "exceeding the maximum execution time",
    ("MaximumExecutionTimeExceeded", "The maximum execution time (60s) exceeded"),
)
NOTHING = Later()


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_(kind: str, since: float, reason: str = "") -> dict[str, Any]:
    return condition(kind, "True", reason or kind, ago(since))


def is_not(kind: str, since: float, reason: str) -> dict[str, Any]:
    return condition(kind, "False", reason, ago(since))


def due(made: dict[str, Any], conditions: list[dict[str, Any]], configuration: Configuration, **status: Any) -> Outcome:
    stored = {**made, "status": {"conditions": conditions, **status}}
    return decide(LifecycleCase(stored, NOW, configuration))


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([], NOTHING, id="one that waits is left alone"),
        pytest.param([is_("QuotaReserved", 9999)], NOTHING, id="one that is not admitted yet has no pods to wait for"),
        pytest.param([is_("Admitted", 600)], Later(1200), id="time is left since the admission"),
        pytest.param([is_("Admitted", 1800)], LATE, id="half an hour has passed without a word of pods"),
        pytest.param(
            [is_("Admitted", 1801), is_not("PodsReady", 5, "WaitForStart")], LATE, id="pods that never became ready"
        ),
        pytest.param(
            [is_("Admitted", 1801), is_not("PodsReady", 5, "PodsReady")],
            LATE,
            id="the same in older words",
        ),
        pytest.param([is_("Admitted", 9999), is_("PodsReady", 5, "Started")], NOTHING, id="ready pods may run on"),
        pytest.param(
            [is_("Admitted", 9999), is_not("PodsReady", 800, "WaitForRecovery")],
            Later(1000),
            id="a failed pod has time to recover",
        ),
        pytest.param(
            [is_("Admitted", 9999), is_not("PodsReady", 1800, "WaitForRecovery")],
            NOT_RECOVERED,
            id="a failed pod did not recover",
        ),
        pytest.param(
            [is_("Admitted", 9999), is_("Evicted", 1, "Preempted")], NOTHING, id="one that is evicted already"
        ),
    ],
)
def test_pods_that_are_not_ready_in_time(conditions: list[dict[str, Any]], want: Outcome) -> None:
    assert due(workload(), conditions, Configuration()) == want


@pytest.mark.parametrize(
    ("rules", "conditions", "want"),
    [
        pytest.param(None, [is_("Admitted", 99999)], NOTHING, id="switched off"),
        pytest.param(WaitForPodsReady(timeout_seconds=60), [is_("Admitted", 60)], LATE, id="a shorter time"),
        pytest.param(
            WaitForPodsReady(recovery_timeout_seconds=None),
            [is_("Admitted", 99999), is_not("PodsReady", 99999, "WaitForRecovery")],
            NOTHING,
            id="a recovery may take for ever",
        ),
    ],
)
def test_how_long_pods_may_take_is_configured(
    rules: WaitForPodsReady | None, conditions: list[dict[str, Any]], want: Outcome
) -> None:
    assert due(workload(), conditions, Configuration(wait_for_pods_ready=rules)) == want


@pytest.mark.parametrize(
    ("conditions", "past", "want"),
    [
        pytest.param([is_("Admitted", 20), is_("PodsReady", 9, "Started")], None, Later(40), id="time is left"),
        pytest.param([is_("Admitted", 20), is_("PodsReady", 9, "Started")], 30, Later(10), id="earlier runs count"),
        pytest.param([is_("Admitted", 60), is_("PodsReady", 9, "Started")], None, TOO_LONG, id="the time is over"),
        pytest.param([is_("Admitted", 0)], 60, TOO_LONG, id="earlier runs took it all"),
        pytest.param([is_("Admitted", 20)], None, Later(40), id="the nearer of two times"),
        pytest.param([is_("QuotaReserved", 99)], 60, NOTHING, id="only a run counts"),
        pytest.param(
            [is_("Admitted", 99), is_("DeactivationTarget", 1, "AdmissionCheck")],
            None,
            Later(1701),
            id="on its way",
        ),
        pytest.param([is_("Admitted", 99), is_("Evicted", 1, "Preempted")], None, NOTHING, id="evicted already"),
    ],
)
def test_a_run_may_take_only_so_long(conditions: list[dict[str, Any]], past: int | None, want: Outcome) -> None:
    status = {} if past is None else {"accumulatedPastExecutionTimeSeconds": past}
    assert due(workload(maximumExecutionTimeSeconds=60), conditions, Configuration(), **status) == want


def test_an_inactive_one_has_nothing_to_run_out() -> None:
    made = workload(maximumExecutionTimeSeconds=60, active=False)
    assert due(made, [is_("Admitted", 9999)], Configuration()) == NOTHING


@pytest.mark.parametrize(
    ("metadata", "conditions", "want"),
    [
        pytest.param({}, [], NOTHING, id="one that never had an owner"),
        pytest.param({**OF_A_JOB, "ownerReferences": [OWNER]}, [], NOTHING, id="one with its owner"),
        pytest.param(OF_A_JOB, [], GONE, id="one whose owner is gone"),
        pytest.param(OF_A_JOB, [is_("Finished", 1)], NOTHING, id="a finished one without owner"),
        pytest.param(
            {**OF_A_JOB, "finalizers": IN_USE}, [is_("Finished", 1)], LetGo(), id="a finished one that is kept"
        ),
        pytest.param(
            {"finalizers": IN_USE, "deletionTimestamp": ago(1)},
            [],
            LetGo(),
            id="one that is to go and is nobody's",
        ),
        pytest.param(
            {"finalizers": IN_USE, "deletionTimestamp": ago(1), "ownerReferences": [OWNER]},
            [],
            NOTHING,
            id="one that is to go is its owner's business",
        ),
    ],
)
def test_orphans_end(metadata: dict[str, Any], conditions: list[dict[str, Any]], want: Outcome) -> None:
    assert due(workload(metadata=metadata), conditions, Configuration()) == want


@pytest.mark.parametrize(
    ("kept_for", "since", "want"),
    [
        pytest.param(None, 10**8, NOTHING, id="they are kept for ever"),
        pytest.param(3600, 600, Later(3000), id="not yet"),
        pytest.param(3600, 3600, Delete("Deleted finished workload due to elapsed retention"), id="kept long enough"),
        pytest.param(0, 0, Delete("Deleted finished workload due to elapsed retention"), id="not kept at all"),
    ],
)
def test_how_long_finished_ones_are_kept(kept_for: float | None, since: float, want: Outcome) -> None:
    conditions = [is_("Admitted", 10**8), is_("Finished", since, "Succeeded")]
    assert due(workload(), conditions, Configuration(finished_retention_seconds=kept_for)) == want


some_conditions = st.dictionaries(
    st.sampled_from(["QuotaReserved", "Admitted", "PodsReady", "Evicted", "Finished", "DeactivationTarget"]),
    st.sampled_from(["True", "False"]),
)
some_metadata = st.fixed_dictionaries(
    {},
    optional={
        "ownerReferences": st.sampled_from([[], [OWNER]]),
        "labels": st.sampled_from([{}, OF_A_JOB["labels"]]),
        "deletionTimestamp": st.just(ago(5)),
        "finalizers": st.just(IN_USE),
    },
)
some_configurations = st.builds(
    Configuration,
    wait_for_pods_ready=st.sampled_from([None, WaitForPodsReady()]),
    finished_retention_seconds=st.sampled_from([None, 60.0, 9999.0]),
)


usual_conditions = st.sampled_from(
    [
        {"QuotaReserved": "True", "Admitted": "True"},
        {"QuotaReserved": "True", "Admitted": "True", "Finished": "True"},
        {"Admitted": "True", "Evicted": "True"},
    ]
)
some_specs = st.fixed_dictionaries(
    {},
    optional={
        "maximumExecutionTimeSeconds": st.sampled_from([60, 9999]),
        "active": st.booleans(),
    },
)


BACKING_OFF = is_not("Requeued", 5, "PodsReadyTimeout")


@pytest.mark.parametrize(
    ("conditions", "requeue_at", "want"),
    [
        pytest.param([is_("QuotaReserved", 9), BACKING_OFF], ago(0), EndBackoff(), id="the back-off is over"),
        pytest.param(
            [is_("QuotaReserved", 9), is_not("Requeued", 5, "AdmissionCheck")],
            ago(1),
            EndBackoff(),
            id="that of a check, too",
        ),
        pytest.param([is_("QuotaReserved", 9), BACKING_OFF], ago(-20), Later(20), id="some of it is left"),
        pytest.param([BACKING_OFF], ago(1), NOTHING, id="without quota it is the engine that brings it back"),
        pytest.param(
            [is_("QuotaReserved", 9), is_not("Requeued", 5, "Deactivated")], ago(1), NOTHING, id="it waits for another"
        ),
        pytest.param([is_("QuotaReserved", 9), is_("Requeued", 5)], ago(1), NOTHING, id="it may be queued already"),
    ],
)
def test_the_end_of_a_back_off_while_quota_is_held(
    conditions: list[dict[str, Any]], requeue_at: str, want: Outcome
) -> None:
    evicted = is_("Evicted", 5, "PodsReadyTimeout")
    state = {"count": 1, "requeueAt": requeue_at}
    assert due(workload("w"), [*conditions, evicted], Configuration(), requeueState=state) == want


@settings(max_examples=500, deadline=None)
@given(usual_conditions | some_conditions, some_metadata, some_specs, some_configurations, st.sampled_from([600, 1800]))
def test_what_is_seen_at_a_glance_is_what_is_due(
    conditions: dict[str, str],
    metadata: dict[str, Any],
    spec: dict[str, Any],
    configuration: Configuration,
    since: int,
) -> None:
    made = workload("w")
    made["metadata"] |= metadata
    made["spec"] |= spec
    made["status"] = {"conditions": [condition(kind, status, "Any", ago(since)) for kind, status in conditions.items()]}
    found = at_a_glance(made, lambda: NOW, configuration)
    assert found is None or found == decide(LifecycleCase(made, NOW, configuration))


@pytest.mark.parametrize(
    ("conditions", "retention", "want"),
    [
        pytest.param([], 60.0, NOTHING, id="one that waits"),
        pytest.param([is_("QuotaReserved", 5)], 60.0, NOTHING, id="one that has its quota only"),
        pytest.param(
            [is_("QuotaReserved", 5), is_("Admitted", 5)], None, Later(HALF_AN_HOUR - 5), id="one just admitted"
        ),
        pytest.param([is_("QuotaReserved", 5), is_("Admitted", HALF_AN_HOUR)], None, None, id="one that is late"),
        pytest.param([is_("Admitted", 5), is_("PodsReady", 5)], None, None, id="one that runs"),
        pytest.param([is_("Admitted", 5), is_("Finished", 1)], None, NOTHING, id="one that is kept for good"),
        pytest.param([is_("Admitted", 5), is_("Finished", 1)], 60.0, None, id="one that is kept for a while"),
    ],
)
def test_most_are_seen_at_a_glance(
    conditions: list[dict[str, Any]], retention: float | None, want: Later | None
) -> None:
    stored = {**workload("w"), "status": {"conditions": conditions}}
    assert at_a_glance(stored, lambda: NOW, Configuration(finished_retention_seconds=retention)) == want
