"""The next write: the commonest one is made without a draft, and is the one that a draft would have come to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.admission.instructions import Admit, Instruction, PodSetAdmission, Requeue, RequeueReason
from fairway.admission.reasons import Explanation, Outcome
from fairway.admission.records import Record, Stage
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.admission.decide import WorkloadCase, next_step
from fairway.controllers.admission.observe import seen
from fairway.testing.builders import workload

CREATED = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
KEY = "default/w"

RESOURCES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu"])
POD_SETS = st.builds(
    PodSetAdmission,
    st.sampled_from(["main", "workers"]),
    st.integers(0, 5),
    st.dictionaries(RESOURCES, st.sampled_from(["default", "spot"])),
    st.dictionaries(RESOURCES, st.integers(0, 10**12)),
)
ADMISSIONS = st.builds(
    Admit,
    at=st.just(0.0),
    key=st.just(KEY),
    cluster_queue=st.sampled_from(["cq", "a-queue-of-another-team"]),
    pod_sets=st.lists(POD_SETS, max_size=3).map(tuple),
    admitted=st.booleans(),
)
REQUEUE = Requeue(at=0.0, key=KEY, reason=RequeueReason.BACKOFF_FINISHED)


@given(
    said=ADMISSIONS,
    besides=st.sampled_from([(), (REQUEUE,)]),
    generation=st.sampled_from([None, 1, 7]),
    active=st.booleans(),
    required=st.sampled_from([None, (), ("check",)]),
    waited=st.integers(0, 10**9),
    explanation=st.sampled_from([None, Explanation(Outcome.NO_FIT, "cq")]),
)
def test_a_first_admission_is_written_as_a_draft_would_have_it(
    said: Admit,
    besides: tuple[Instruction, ...],
    generation: int | None,
    active: bool,  # noqa: FBT001 - as hypothesis gives it
    required: tuple[str, ...] | None,
    waited: int,
    explanation: Explanation | None,
) -> None:
    now = CREATED + timedelta(microseconds=waited)
    metadata: dict[str, Any] = {
        "name": "w",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": stamp(CREATED),
    }
    if generation is not None:
        metadata["generation"] = generation
    fresh = {"metadata": metadata, "spec": {"active": active}}
    record = Record(workload("w", queue="lq", cpu=1), "default/lq")
    record.stage, record.admission, record.active = Stage.ADMITTED, said.pod_sets, active

    def step(manifest: dict[str, Any]) -> object:
        case = WorkloadCase(manifest, seen(manifest), record, required, now, stamp(now), lambda _: None)
        return next_step(case, [said, *besides], explanation)

    # With an empty list of conditions the status is as good as none, but it is a draft's business.
    assert step(fresh) == step({**fresh, "status": {"conditions": []}})
