"""The states of a RayJob: from each, what brings it to which other, and what is done on the way."""

import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.ray import jobs
from fairway.ray.jobs import Deployment, JobInfo, RayJobSeen, RayJobStep

from .objects import NOW, deleted, ray_cluster, ray_job, ready_cluster, submitter

READY = ready_cluster()
STARTING = ray_cluster()
DONE = JobInfo("SUCCEEDED", "Job finished successfully.", 1767323040000, 1767323045000)
BROKEN = JobInfo("FAILED", "exit code 1", 1767323040000, 1767323045000)
PENDING = JobInfo("PENDING", "not started yet")
ENDED: dict[str, Any] = {"endTime": "2026-01-02T03:04:05Z"}


def _plan(job: Manifest, seen: RayJobSeen = RayJobSeen(), seconds: float = 0.0) -> jobs.RayJobPlan:  # noqa: B008 - frozen
    suffixes = (f"{number:05}" for number in itertools.count(1))
    return jobs.decide(job, seen, lambda: next(suffixes), NOW + timedelta(seconds=seconds))


def _seen(cluster: Manifest | None = READY, by: Manifest | None = None, **fields: Any) -> RayJobSeen:
    return RayJobSeen(cluster=cluster, submitter=by, **fields)


@pytest.mark.parametrize(
    ("job", "seen", "state"),
    [
        pytest.param(ray_job(), _seen(None), "Initializing", id="a new job is initialized"),
        pytest.param(ray_job(suspend=True), _seen(None), "Suspended", id="a suspended one waits"),
        pytest.param(ray_job("Initializing", suspend=True), _seen(), "Suspending", id="suspended before it ran"),
        pytest.param(ray_job("Running", suspend=True), _seen(), "Suspending", id="suspended while it runs"),
        pytest.param(ray_job("Suspending", suspend=True), _seen(None), "Suspended", id="suspended once all is gone"),
        pytest.param(ray_job("Suspended"), _seen(None), None, id="resumed from the beginning"),
        pytest.param(ray_job("Initializing"), _seen(by=submitter()), "Running", id="submitted on a ready cluster"),
        pytest.param(
            ray_job("Initializing", submissionMode="HTTPMode"), _seen(), "Running", id="HTTPMode needs no submitter"
        ),
        pytest.param(
            ray_job("Initializing", submissionMode="InteractiveMode", status={"jobId": None}),
            _seen(),
            "Waiting",
            id="InteractiveMode waits for a submission",
        ),
        pytest.param(
            ray_job("Waiting", submissionMode="InteractiveMode", jobId="mine"),
            _seen(),
            "Running",
            id="until it issaid",
        ),
        pytest.param(
            ray_job("Running"), _seen(by=submitter("Complete"), info=DONE), "Complete", id="succeeded and printed"
        ),
        pytest.param(
            ray_job("Running"),
            _seen(by=submitter("Complete"), info=JobInfo("STOPPED")),
            "Complete",
            id="a stopped one is complete",
        ),
        pytest.param(ray_job("Running"), _seen(by=submitter("Complete"), info=BROKEN), "Failed", id="the app failed"),
        pytest.param(
            ray_job("Running", backoffLimit=1), _seen(by=submitter("Complete"), info=BROKEN), "Retrying", id="retried"
        ),
        pytest.param(
            ray_job("Running", backoffLimit=1, status={"failed": 1}),
            _seen(by=submitter("Complete"), info=BROKEN),
            "Failed",
            id="retries end",
        ),
        pytest.param(ray_job("Retrying", backoffLimit=1), _seen(None), None, id="a retry begins anew"),
        pytest.param(
            ray_job("Running", activeDeadlineSeconds=5, backoffLimit=3),
            _seen(by=submitter(), info=PENDING),
            "Failed",
            id="its deadline is the end, also with retries left",
        ),
        pytest.param(
            ray_job("Initializing", preRunningDeadlineSeconds=5), _seen(STARTING), "Failed", id="it never came to run"
        ),
        pytest.param(ray_job("Running"), _seen(by=submitter("Failed")), "Failed", id="it could not be submitted"),
        pytest.param(
            ray_job("Running"), _seen(by=submitter(), silent_seconds=300), "Failed", id="Ray did not answer for long"
        ),
        pytest.param(ray_job(entrypoint=None), _seen(None), "ValidationFailed", id="an invalid job is refused"),
        pytest.param(
            ray_job("ValidationFailed"), _seen(None), "Initializing", id="and goes on when it has been corrected"
        ),
    ],
)
def test_a_state_leads_to(job: Manifest, seen: RayJobSeen, state: str | None) -> None:
    plan = _plan(job, seen)

    assert plan.status is not None
    assert plan.status["jobDeploymentStatus"] == state


@pytest.mark.parametrize(
    ("job", "seen", "steps"),
    [
        pytest.param(ray_job("Initializing"), _seen(None), (RayJobStep.CREATE_CLUSTER,), id="the cluster first"),
        pytest.param(ray_job("Initializing"), _seen(STARTING), (), id="nothing while it starts"),
        pytest.param(ray_job("Initializing"), _seen(), (RayJobStep.CREATE_SUBMITTER,), id="then the submitter"),
        pytest.param(
            ray_job("Running", submissionMode="HTTPMode"),
            _seen(is_submitted=False),
            (RayJobStep.SUBMIT,),
            id="or a request",
        ),
        pytest.param(
            ray_job("Suspending", suspend=True),
            _seen(by=submitter()),
            (RayJobStep.DELETE_CLUSTER, RayJobStep.DELETE_SUBMITTER),
            id="suspending deletes both",
        ),
        pytest.param(ray_job("Suspending", suspend=True), _seen(deleted(READY)), (), id="and waits until all is gone"),
        pytest.param(
            ray_job("Complete", status=ENDED), _seen(), (RayJobStep.DELETE_CLUSTER,), id="shutdown after the end"
        ),
        pytest.param(
            ray_job("Complete", status=ENDED, shutdownAfterJobFinishes=False),
            _seen(),
            (),
            id="no shutdown no deletion",
        ),
        pytest.param(
            ray_job(
                "Failed",
                status=ENDED | {"jobStatus": "FAILED"},
                shutdownAfterJobFinishes=None,
                deletionStrategy={
                    "deletionRules": [
                        {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED"}},
                        {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED"}},
                    ]
                },
            ),
            _seen(),
            (RayJobStep.DELETE_SELF,),
            id="the rule of its end",
        ),
    ],
)
def test_on_the_way_is_done(job: Manifest, seen: RayJobSeen, steps: tuple[RayJobStep, ...]) -> None:
    assert _plan(job, seen).steps == steps


def test_every_attempt_has_a_cluster_and_a_submission_of_its_own() -> None:
    plan = _plan(ray_job())

    assert plan.status is not None
    assert (plan.status["jobId"], plan.status["rayClusterName"]) == ("train-00001", "train-00002")


def test_suspending_forgets_the_attempt() -> None:
    job = ray_job("Suspending", suspend=True, status={"jobStatus": "RUNNING", "dashboardURL": "127.0.0.2:20002"})

    plan = _plan(job, _seen(None))

    gone = dict.fromkeys(("jobId", "rayClusterName", "dashboardURL", "jobStatus"))
    assert plan.status == {**gone, "jobDeploymentStatus": "Suspended"}


def test_a_driver_that_has_ended_waits_for_the_rest_of_its_output_but_not_for_ever() -> None:
    seen = _seen(by=submitter(), info=DONE)

    at_once, late = _plan(ray_job("Running"), seen), _plan(ray_job("Running"), seen, 301)

    assert at_once.status is not None
    assert "jobDeploymentStatus" not in at_once.status
    assert late.status is not None
    assert late.status["jobDeploymentStatus"] == "Complete"
    assert late.status["reason"] == "JobDeploymentStatusTransitionGracePeriodExceeded"


def test_a_cluster_is_kept_until_the_ttl_has_passed() -> None:
    job = ray_job("Complete", status=ENDED, ttlSecondsAfterFinished=60)

    assert _plan(job, _seen()) == jobs.RayJobPlan(again_seconds=60.0)
    assert _plan(job, _seen(), 60).steps == (RayJobStep.DELETE_CLUSTER,)


def test_a_failure_says_what_ray_says() -> None:
    plan = _plan(ray_job("Running"), _seen(by=submitter("Complete"), info=BROKEN))

    assert plan.status is not None
    said = {name: plan.status[name] for name in ("jobStatus", "reason", "message", "failed", "endTime")}
    end = "2026-01-02T03:04:05Z"
    assert said == {"jobStatus": "FAILED", "reason": "AppFailed", "message": "exit code 1", "failed": 1, "endTime": end}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"suspend": True, "shutdownAfterJobFinishes": False}, "is not allowed to be suspended"),
        ({"rayClusterSpec": None}, "one of RayClusterSpec or ClusterSelector must be set"),
        ({"backoffLimit": 1, "clusterSelector": {"ray.io/cluster": "x"}}, "incompatible with ClusterSelector"),
        ({"submissionMode": "SidecarMode", "submitterConfig": {"backoffLimit": 1}}, "SubmitterConfig"),
        ({"runtimeEnvYAML": "- a"}, "runtimeEnvYAML must be a mapping, not list"),
    ],
)
def test_an_invalid_job_is_refused_with_the_reason(spec: dict[str, Any], said: str) -> None:
    assert said in jobs.wrong(ray_job(**spec))


_INFOS = st.sampled_from([None, PENDING, DONE, BROKEN, JobInfo("STOPPED"), JobInfo("RUNNING")])


@given(
    state=st.sampled_from([one for one in Deployment if one]),
    suspend=st.booleans(),
    cluster=st.sampled_from([None, STARTING, READY, deleted(READY)]),
    by=st.sampled_from([None, submitter(), submitter("Complete"), submitter("Failed")]),
    info=_INFOS,
    mode=st.sampled_from(["K8sJobMode", "HTTPMode", "InteractiveMode"]),
)
def test_properties_of_every_step(
    state: Deployment, *, suspend: bool, cluster: Manifest | None, by: Manifest | None, info: JobInfo | None, mode: str
) -> None:
    job = ray_job(state, suspend=suspend, submissionMode=mode, status=ENDED if state in _OVER else {})

    plan = _plan(job, _seen(cluster, by, info=info))

    changed = (plan.status or {}).get("jobDeploymentStatus", state)
    if state in _OVER:
        assert changed == state
    if suspend and state not in _OVER:
        assert RayJobStep.CREATE_CLUSTER not in plan.steps
        assert changed in {"Suspending", "Suspended", "Waiting", "Running", "Retrying", None}
    assert not (RayJobStep.CREATE_CLUSTER in plan.steps and cluster is not None)


_OVER = {Deployment.COMPLETE, Deployment.FAILED}
