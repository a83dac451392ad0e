"""The states of a RayJob: from each, what brings it to which other, and what is done on the way."""

import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.ray import jobs, validation
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


def _rules(*rules: tuple[str, int, str]) -> dict[str, Any]:
    """A spec with rules of deletion: policy, seconds, and the status of the job."""
    found = [
        {"policy": policy, "condition": {"jobStatus": status, "ttlSeconds": seconds}}
        for policy, seconds, status in rules
    ]
    return {"shutdownAfterJobFinishes": None, "deletionStrategy": {"deletionRules": found}}


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
            id="until it is named",
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
            ray_job("Waiting", submissionMode="InteractiveMode", preRunningDeadlineSeconds=5),
            _seen(),
            "Failed",
            id="nothing was submitted in time",
        ),
        pytest.param(
            ray_job("Initializing", submissionMode="InteractiveMode", jobId="mine"),
            _seen(),
            "Waiting",
            id="InteractiveMode waits also if the submission is named already",
        ),
        pytest.param(ray_job("Running"), _seen(None), "Failed", id="its cluster was deleted"),
        pytest.param(
            ray_job("Running", submissionMode="SidecarMode"),
            _seen(),
            "Failed",
            id="the head and its submitter are gone",
        ),
        pytest.param(
            ray_job("Running"),
            _seen(by=submitter("Complete", at="2026-01-02T03:04:04Z"), is_submitted=False),
            "Failed",
            id="the submitter ended and submitted nothing",
        ),
        pytest.param(
            ray_job("Initializing", entrypoint="python 'train.py"), _seen(), "Failed", id="it became invalid meanwhile"
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
        pytest.param(
            ray_job(
                "Complete",
                status=ENDED | {"jobStatus": "SUCCEEDED"},
                **_rules(("DeleteWorkers", 0, "SUCCEEDED"), ("DeleteCluster", 0, "SUCCEEDED")),
            ),
            _seen(),
            (RayJobStep.DELETE_CLUSTER,),
            id="of several rules the one that deletes most",
        ),
        pytest.param(
            ray_job(
                "Complete",
                status=ENDED,
                shutdownAfterJobFinishes=None,
                deletionStrategy={
                    "deletionRules": [{"policy": "DeleteSelf", "condition": {"jobDeploymentStatus": "Failed"}}]
                },
            ),
            _seen(),
            (),
            id="no rule of another end",
        ),
        pytest.param(
            ray_job(
                "Complete",
                status=ENDED | {"jobStatus": "STOPPED"},
                deletionStrategy={"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {"policy": "DeleteSelf"}},
            ),
            _seen(),
            (),
            id="a stopped job has neither succeeded nor failed",
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


def test_a_failed_submitter_of_a_failed_driver_is_a_failure_of_the_driver() -> None:
    plan = _plan(
        ray_job("Running", status={"jobStatus": "FAILED", "message": "exit code 1"}), _seen(by=submitter("Failed"))
    )

    assert plan.warning == ("AppFailed", "exit code 1")


def test_a_driver_that_did_not_end_with_its_submitter_has_failed() -> None:
    plan = _plan(ray_job("Running"), _seen(by=submitter("Complete"), info=JobInfo("RUNNING")), 30)

    assert plan.status is not None
    assert (plan.status["jobStatus"], plan.status["jobDeploymentStatus"]) == ("FAILED", "Failed")


def test_a_job_in_interactive_mode_is_looked_at_again_at_its_deadline() -> None:
    job = ray_job("Waiting", submissionMode="InteractiveMode", preRunningDeadlineSeconds=60, activeDeadlineSeconds=1)

    assert _plan(job, _seen()) == jobs.RayJobPlan(again_seconds=55.0)


def test_a_selected_cluster_that_is_not_there_is_named_once() -> None:
    job = ray_job("Initializing", clusterSelector={"ray.io/cluster": "shared"}, rayClusterSpec=None)
    said = "RayCluster default/shared set in the clusterSelector is not found. It must be created manually"

    plan = _plan(job, _seen(None))
    assert plan == jobs.RayJobPlan(status={"message": said}, warning=("RayClusterNotFound", said))
    job["status"]["message"] = said
    assert _plan(job, _seen(None)) == jobs.NOTHING


@pytest.mark.parametrize(
    ("job", "stops"),
    [
        pytest.param(ray_job("Running", status={"jobStatus": "RUNNING"}), True, id="while it runs"),
        pytest.param(ray_job("Failed", status={"jobStatus": "RUNNING"}), True, id="after its deadline"),
        pytest.param(ray_job("Complete", status={"jobStatus": "SUCCEEDED"}), False, id="not after its end"),
        pytest.param(ray_job(), False, id="not before anything was submitted"),
    ],
)
def test_a_driver_is_stopped_with_its_job(job: Manifest, *, stops: bool) -> None:
    assert jobs.may_have_driver(job) is stops


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"suspend": True, "shutdownAfterJobFinishes": False}, "is not allowed to be suspended"),
        ({"rayClusterSpec": None}, "one of RayClusterSpec or ClusterSelector must be set"),
        ({"backoffLimit": 1, "clusterSelector": {"ray.io/cluster": "x"}}, "incompatible with ClusterSelector"),
        ({"submissionMode": "SidecarMode", "submitterConfig": {"backoffLimit": 1}}, "SubmitterConfig"),
        ({"runtimeEnvYAML": "- a"}, "runtimeEnvYAML must be a mapping, not list"),
        ({"entrypoint": "python 'train.py"}, "entrypoint is not a command line: No closing quotation"),
        ({"entrypointResources": "{a}"}, "entrypointResources is not JSON"),
        ({"entrypointResources": "[1]"}, "entrypointResources must be a JSON object"),
        ({"submissionMode": "HttpMode"}, "submissionMode HttpMode is none of K8sJobMode, HTTPMode,"),
        ({"ttlSecondsAfterFinished": -1}, "TTLSecondsAfterFinished must be a non-negative integer"),
        ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds must be a positive integer"),
        ({"backoffLimit": -1}, "backoffLimit must be a positive integer"),
        ({"clusterSelector": {"a": "b"}}, "cluster name in ClusterSelector should not be empty"),
        (
            {"deletionStrategy": {"onSuccess": {"policy": "DeleteNone"}, "onFailure": {"policy": "DeleteSelf"}}},
            "while deletion policy is 'DeleteNone'",
        ),
        (
            _rules(("DeleteWorkers", 5, "SUCCEEDED"), ("DeleteCluster", 4, "SUCCEEDED")),
            "for jobStatus 'SUCCEEDED': DeleteCluster TTL (4) must be >= DeleteWorkers TTL (5)",
        ),
        (_rules(("DeleteSelf", 5, "FAILED"), ("DeleteSelf", 6, "FAILED")), "deletionRules[1]: duplicate rule"),
    ],
)
def test_an_invalid_job_is_refused_with_the_reason(spec: dict[str, Any], said: str) -> None:
    assert said in validation.wrong_job(ray_job(**spec))


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
