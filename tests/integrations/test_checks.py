"""What is said of a Workload that has its quota and waits for its admission checks."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import checks


def a_workload(*found: tuple[str, str, str], **conditions: str) -> Manifest:
    listed = [{"type": kind, "status": "True", "reason": reason} for kind, reason in conditions.items()]
    said = [{"name": name, "state": state, "message": message} for name, state, message in found]
    metadata = {"name": "w", "namespace": "team"}
    return {"metadata": metadata, "status": {"conditions": listed, "admissionChecks": said}}


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param({}, False, id="in its queue"),
        pytest.param({"QuotaReserved": "r"}, True, id="with its quota"),
        pytest.param({"QuotaReserved": "r", "Admitted": "a"}, False, id="admitted"),
        pytest.param({"QuotaReserved": "r", "Finished": "f"}, False, id="finished"),
    ],
)
def test_who_waits_for_checks(conditions: dict[str, str], want: bool) -> None:  # noqa: FBT001 - a table
    assert checks.waits_for_checks(a_workload(**conditions)) is want


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            [("cap", "Pending", "no capacity")], "has its quota and waits for check cap: no capacity", id="pending"
        ),
        pytest.param(
            [("cap", "Pending", "")],
            "has its quota and waits for check cap, which has not answered yet",
            id="without a message",
        ),
        pytest.param(
            [("cap", "Retry", "later")],
            "has its quota and check cap says Retry (later): its quota is released and it is retried",
            id="another try",
        ),
        pytest.param(
            [("cap", "Rejected", "")],
            "has its quota and check cap says Rejected: its quota is released and it is deactivated",
            id="rejected",
        ),
        pytest.param(
            [("a", "Ready", "fine"), ("b", "Pending", "x"), ("c", "Pending", "y")],
            "has its quota and waits for check b: x; waits for check c: y",
            id="several, of which one is ready",
        ),
        pytest.param([], "has its quota and waits for its admission checks", id="none listed yet"),
    ],
)
def test_what_it_waits_for(found: list[tuple[str, str, str]], want: str) -> None:
    assert checks.message(a_workload(*found, QuotaReserved="r")) == want


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        pytest.param(None, "`fairway describe admissionchecks cap`", id="a check that is gone"),
        pytest.param({"spec": {"controllerName": "acme.com/budget"}}, "(decided by acme.com/budget)", id="of others"),
        pytest.param(
            {"spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"}},
            "`fairway get provisioningrequests --namespace team`",
            id="capacity",
        ),
    ],
)
def test_where_to_look(stored: dict[str, Any] | None, words: str) -> None:
    (hint,) = checks.hints(a_workload(("cap", "Pending", ""), QuotaReserved="r"), lambda _: stored)
    assert words in hint


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param("AdmissionCheck", ["its quota was released because a check asked for a retry: why"], id="retry"),
        pytest.param(
            "DeactivatedDueToAdmissionCheck",
            ["a check rejected it: why; it is retried only after spec.active is set to true"],
            id="rejected",
        ),
        pytest.param("Preempted", [], id="not by a check"),
    ],
)
def test_what_a_check_said_last(reason: str, want: list[str]) -> None:
    waits = a_workload(Evicted=reason)
    waits["status"]["conditions"][0]["message"] = "why"
    assert checks.last_verdict(waits) == want
    assert checks.last_verdict(None) == []
