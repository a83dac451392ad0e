"""Attempts for tests, with a day in November 2026 as their time."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from fairway.accounting.attempts import AttemptEnd, AttemptRecord, HeldAmount

START = int(datetime(2026, 11, 18, tzinfo=UTC).timestamp())
GPU = "nvidia.com/gpu"


def attempt(uid: str = "a", number: int = 1, **said: Any) -> AttemptRecord:
    """An attempt of ana's on two cores and a GPU for an hour, unless something else is said."""
    fields: dict[str, Any] = {
        "uid": uid,
        "task": 0,
        "number": number,
        "namespace": "ml",
        "kind": "Job",
        "job": f"train-{uid}",
        "job_name": "train",
        "job_id": 0,
        "workload": f"job-train-{uid}",
        "user": "ana",
        "queue": "training",
        "cluster_queue": "research",
        "team": "research",
        "organization": "ml",
        "priority": 0,
        "queued": START,
        "started": START + 60,
        "ended": START + 3660,
        "outcome": AttemptEnd.SUCCEEDED.value,
        "reason": "",
        "message": "",
        "pods": 1,
        "held": (HeldAmount("default", "cpu", 2000), HeldAmount("a100", GPU, 1)),
    }
    fields |= said
    if not fields["ended"]:
        fields["outcome"] = AttemptEnd.RUNNING.value
    return AttemptRecord(**fields)


_ENDS = [end.value for end in AttemptEnd if end is not AttemptEnd.RUNNING]


@st.composite
def attempts(draw: st.DrawFn) -> list[AttemptRecord]:
    """Ended attempts of some users and jobs, up to three days long."""
    found = []
    for index in range(draw(st.integers(1, 25))):
        started = START + draw(st.integers(-20 * 86400, 0))
        found.append(
            attempt(
                f"u{index}",
                user=draw(st.sampled_from(["ana", "bo"])),
                queue=draw(st.sampled_from(["training", "serving"])),
                queued=started - draw(st.integers(0, 90_000)),
                started=started,
                ended=started + draw(st.integers(0, 3 * 86400)),
                outcome=draw(st.sampled_from(_ENDS)),
                held=draw(
                    st.sampled_from(
                        [
                            (),
                            (HeldAmount("default", "cpu", 1500),),
                            (HeldAmount("a", "cpu", 7), HeldAmount("b", GPU, 2)),
                        ]
                    )
                ),
            )
        )
    return found
