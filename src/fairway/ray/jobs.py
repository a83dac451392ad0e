"""The life of a RayJob, as KubeRay's operator drives it: the observed state goes in, the next step comes out."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery import conditions
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.integrations.ray_job import BY_JOB, IN_HEAD, SUBMITTER_CONTAINER, submission_mode
from fairway.ray import clusters, deletion, nodes, submission, validation

FINALIZER: Final = "ray.io/rayjob-finalizer"
POLL_SECONDS: Final = 3.0
"""How often Ray is asked about a running job, as KubeRay does; the end of its submitter is noticed at once."""

TRANSITION_GRACE_SECONDS: Final = 300.0
SUBMITTER_GRACE_SECONDS: Final = 30.0
_TERMINAL: Final = frozenset({"STOPPED", "SUCCEEDED", "FAILED"})


class Deployment(StrEnum):
    """`status.jobDeploymentStatus`."""

    NEW = ""
    INITIALIZING = "Initializing"
    WAITING = "Waiting"
    RUNNING = "Running"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RETRYING = "Retrying"
    COMPLETE = "Complete"
    FAILED = "Failed"
    VALIDATION_FAILED = "ValidationFailed"


class JobInfo(Struct, frozen=True):
    """What Ray says about a submission."""

    status: str
    message: str = ""
    start_time: int | None = None
    end_time: int | None = None
    """Milliseconds."""


class RayJobSeen(Struct, frozen=True, kw_only=True):
    """What a RayJob's next step depends on."""

    cluster: Manifest | None = None
    submitter: Manifest | None = None
    """The Job that submits, or the head pod where a container of it does."""

    info: JobInfo | None = None
    """`None` if Ray was not asked or did not answer, or knows no such submission."""

    is_submitted: bool = True
    """False if Ray answered that it knows no such submission."""


class RayJobStep(StrEnum):
    """What is to be done after the status is written."""

    ADD_FINALIZER = "add finalizer"
    CREATE_CLUSTER = "create cluster"
    CREATE_SUBMITTER = "create submitter"
    SUBMIT = "submit"
    DELETE_CLUSTER = "delete cluster"
    DELETE_WORKERS = "delete workers"
    DELETE_SUBMITTER = "delete submitter"
    DELETE_SELF = "delete self"


class RayJobPlan(Struct, frozen=True, kw_only=True):
    status: Manifest | None = None
    """A merge patch."""

    steps: tuple[RayJobStep, ...] = ()
    warning: tuple[str, str] | None = None
    """Reason and message of an event."""

    again_seconds: float | None = None


NOTHING: Final = RayJobPlan()


def deployment(job: Manifest) -> Deployment:
    return Deployment((job.get("status") or {}).get("jobDeploymentStatus") or "")


def is_over(job: Manifest) -> bool:
    return deployment(job) in {Deployment.COMPLETE, Deployment.FAILED}


def may_have_driver(job: Manifest) -> bool:
    """Whether a submission may still run on its cluster."""
    status = job.get("status") or {}
    return bool(status.get("jobId")) and status.get("jobStatus") not in _TERMINAL


def wants_info(job: Manifest) -> bool:
    """Whether Ray is to be asked about the job."""
    return deployment(job) is Deployment.RUNNING and not job["spec"].get("suspend")


def decide(job: Manifest, seen: RayJobSeen, fresh: Callable[[], str], now: datetime) -> RayJobPlan:
    """The next step; to be asked again until a plan is empty. `fresh` makes the random end of a name."""
    state = deployment(job)
    if state in {Deployment.NEW, Deployment.VALIDATION_FAILED}:
        return _begin(job, fresh, now)
    return _RULES[state](job, seen, now)


def not_installed(job: Manifest, now: datetime) -> RayJobPlan:
    """What a RayJob says where there is no Ray; its conditions are those of its cluster, as in KubeRay."""
    said = clusters.NOT_INSTALLED, clusters.NOT_INSTALLED_MESSAGE
    before = (job.get("status") or {}).get("rayClusterStatus") or {}
    found = conditions.with_condition(
        before.get("conditions") or (), "RayClusterProvisioned", "False", *said, stamp(now)
    )
    status = {"reason": said[0], "message": said[1], "rayClusterStatus": {"conditions": found}}
    changed = _changes(job, status)
    return RayJobPlan(status=changed, warning=said if changed else None)


def _begin(job: Manifest, fresh: Callable[[], str], now: datetime) -> RayJobPlan:
    spec = job["spec"]
    if problem := validation.wrong_job(job):
        refusal = {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed", "message": problem}
        return RayJobPlan(status=_changes(job, refusal), warning=("InvalidRayJobSpec", problem))
    if FINALIZER not in (job["metadata"].get("finalizers") or ()):
        return RayJobPlan(steps=(RayJobStep.ADD_FINALIZER,))
    if spec.get("suspend"):
        return RayJobPlan(status=_changes(job, {"jobDeploymentStatus": Deployment.SUSPENDED}))
    name = job["metadata"]["name"]
    interactive = submission_mode(job) == submission.BY_USER
    status: dict[str, Any] = {
        "jobDeploymentStatus": Deployment.INITIALIZING,
        "jobId": None if interactive else spec.get("jobId") or f"{name}-{fresh()}",
        "rayClusterName": submission.selected_cluster(job) or f"{name}-{fresh()}",
        "startTime": stamp(now),
        "endTime": None,
        "reason": None,
        "message": None,
        "observedGeneration": job["metadata"].get("generation", 1),
    }
    return RayJobPlan(status=_changes(job, status))


def _initializing(job: Manifest, seen: RayJobSeen, now: datetime) -> RayJobPlan:
    if plan := _suspending(job) or _overdue(job, now):
        return plan
    if problem := validation.wrong_job(job):  # it was changed meanwhile
        return _failed(job, {}, "ValidationFailed", problem, now)
    cluster = seen.cluster
    if cluster is None:
        if submission.selected_cluster(job):
            return _not_found(job, now)
        return RayJobPlan(steps=(RayJobStep.CREATE_CLUSTER,))
    mirrored = _mirrored(cluster)
    if (cluster.get("status") or {}).get("state") != clusters.READY:
        return RayJobPlan(status=_changes(job, mirrored), again_seconds=_until_deadline(job, now))
    mode = submission_mode(job)
    if mode == submission.BY_USER:
        return RayJobPlan(status=_changes(job, {**mirrored, "jobDeploymentStatus": Deployment.WAITING}))
    if mode == BY_JOB and seen.submitter is None:
        return RayJobPlan(status=_changes(job, mirrored), steps=(RayJobStep.CREATE_SUBMITTER,))
    return RayJobPlan(status=_changes(job, {**mirrored, "jobDeploymentStatus": Deployment.RUNNING}))


def _not_found(job: Manifest, now: datetime) -> RayJobPlan:
    name = f"{job['metadata']['namespace']}/{submission.selected_cluster(job)}"
    message = f"RayCluster {name} set in the clusterSelector is not found. It must be created manually"
    status = _changes(job, {"message": message})
    warning = ("RayClusterNotFound", message) if status else None
    return RayJobPlan(status=status, warning=warning, again_seconds=_until_deadline(job, now))


def _mirrored(cluster: Manifest) -> dict[str, Any]:
    """What a RayJob's status repeats of its cluster's."""
    status = cluster.get("status") or {}
    found: dict[str, Any] = {"rayClusterStatus": status, "reason": None, "message": None}
    if address := nodes.dashboard_of(cluster):
        found["dashboardURL"] = address
    return found


def _waiting(job: Manifest, _seen: RayJobSeen, now: datetime) -> RayJobPlan:
    if plan := _overdue(job, now):
        return plan
    identifier = job["spec"].get("jobId")
    if not identifier:
        return RayJobPlan(again_seconds=_until_deadline(job, now))
    return RayJobPlan(status=_changes(job, {"jobId": identifier, "jobDeploymentStatus": Deployment.RUNNING}))


def _running(job: Manifest, seen: RayJobSeen, now: datetime) -> RayJobPlan:
    if plan := _suspending(job) or _overdue(job, now):
        return plan
    if seen.cluster is None:
        if submission.selected_cluster(job):
            return _not_found(job, now)
        return _failed(job, {}, "AppFailed", f"RayCluster {job['status'].get('rayClusterName')} not found.", now)
    info, said = seen.info, {"rayClusterStatus": seen.cluster.get("status") or {}}
    if info is not None:
        said |= {"jobStatus": info.status, "message": info.message or None, "rayJobInfo": _times(info)}
        if info.status in _TERMINAL:
            return _ended(job, seen, info, said, now)
    if submission_mode(job) == IN_HEAD and seen.submitter is None:
        return _failed(job, said, "AppFailed", "Ray head pod not found.", now)
    finished = _submitter_end(seen.submitter)
    if finished is not None and (plan := _without_submitter(job, seen, finished, said, now)):
        return plan
    if not seen.is_submitted and submission_mode(job) == submission.BY_REQUEST:
        return RayJobPlan(status=_changes(job, said), steps=(RayJobStep.SUBMIT,), again_seconds=POLL_SECONDS)
    left = _until_deadline(job, now)
    return RayJobPlan(
        status=_changes(job, said), again_seconds=POLL_SECONDS if left is None else min(left, POLL_SECONDS)
    )


def _without_submitter(
    job: Manifest, seen: RayJobSeen, finished: tuple[str, datetime], said: dict[str, Any], now: datetime
) -> RayJobPlan | None:
    """The submitter has ended, and the driver has not, as far as is known."""
    failure, at = finished
    if failure and job["status"].get("jobStatus") == "FAILED":
        return _failed(job, said, "AppFailed", job["status"].get("message") or "", now)
    if failure:
        return _failed(job, said, "SubmissionFailed", failure, now)
    if not seen.is_submitted:
        return _failed(job, said, "AppFailed", "Submitter completed but Ray job not found in RayCluster.", now)
    if (now - at).total_seconds() < SUBMITTER_GRACE_SECONDS:
        return None
    text = (
        f"The RayJob submitter finished at {stamp(at)} but the ray job did not reach terminal state within "
        f"{SUBMITTER_GRACE_SECONDS:.0f}s"
    )
    reason = "JobDeploymentStatusTransitionGracePeriodExceeded"
    return _failed(job, {**said, "jobStatus": "FAILED"}, reason, text, now)


def _ended(job: Manifest, seen: RayJobSeen, info: JobInfo, said: dict[str, Any], now: datetime) -> RayJobPlan:
    """The driver has ended; the submitter is given time to print the rest of its output."""
    reason = None
    if submission_mode(job) in {BY_JOB, IN_HEAD} and _submitter_end(seen.submitter) is None:
        ended = now if info.end_time is None else datetime.fromtimestamp(info.end_time / 1000, UTC)
        left = TRANSITION_GRACE_SECONDS - (now - ended).total_seconds()
        if left > 0 and seen.submitter is not None:
            return RayJobPlan(status=_changes(job, said), again_seconds=min(left, POLL_SECONDS))
        reason = "JobDeploymentStatusTransitionGracePeriodExceeded" if seen.submitter is not None else None
    if info.status == "FAILED":
        return _failed(job, said, reason or "AppFailed", info.message, now)
    count = job["status"].get("succeeded") or 0
    succeeded = {"succeeded": count + 1} if info.status == "SUCCEEDED" else {}
    end = {"jobDeploymentStatus": Deployment.COMPLETE, "endTime": stamp(now), "reason": reason, **succeeded}
    return RayJobPlan(status=_changes(job, {**said, **end}))


def _failed(job: Manifest, said: Mapping[str, Any], reason: str, message: str, now: datetime) -> RayJobPlan:
    """One more failure: the next attempt, or the end."""
    failures = (job["status"].get("failed") or 0) + 1
    again = reason != "DeadlineExceeded" and failures <= (job["spec"].get("backoffLimit") or 0)
    state = Deployment.RETRYING if again else Deployment.FAILED
    status = {**said, "jobDeploymentStatus": state, "reason": reason, "message": message or None, "failed": failures}
    if not again:
        status["endTime"] = stamp(now)
    return RayJobPlan(status=_changes(job, status), warning=(reason, message or reason))


def _suspending(job: Manifest) -> RayJobPlan | None:
    if not job["spec"].get("suspend"):
        return None
    return RayJobPlan(status=_changes(job, {"jobDeploymentStatus": Deployment.SUSPENDING}))


def _clearing(job: Manifest, seen: RayJobSeen, _now: datetime) -> RayJobPlan:
    """Suspending, or between two attempts: remove cluster and submitter, then forget them."""
    steps = (
        *((RayJobStep.DELETE_CLUSTER,) if seen.cluster is not None and not _is_deleted(seen.cluster) else ()),
        *((RayJobStep.DELETE_SUBMITTER,) if seen.submitter is not None and not _is_deleted(seen.submitter) else ()),
    )
    if seen.cluster is not None or seen.submitter is not None:
        return RayJobPlan(steps=steps)
    suspending = deployment(job) is Deployment.SUSPENDING
    fields = (
        "jobId",
        "rayClusterName",
        "dashboardURL",
        "jobStatus",
        "reason",
        "message",
        "rayClusterStatus",
        "rayJobInfo",
    )
    status: dict[str, Any] = dict.fromkeys(fields)
    status["jobDeploymentStatus"] = Deployment.SUSPENDED if suspending else None
    return RayJobPlan(status=_changes(job, status))


def _suspended(job: Manifest, _seen: RayJobSeen, _now: datetime) -> RayJobPlan:
    if job["spec"].get("suspend"):
        return NOTHING
    return RayJobPlan(status=_changes(job, {"jobDeploymentStatus": None}))


def _over(job: Manifest, seen: RayJobSeen, now: datetime) -> RayJobPlan:
    policy, again = deletion.due(job, seen.cluster, now)
    return RayJobPlan(steps=_POLICIES[policy], again_seconds=again)


_POLICIES: Final[Mapping[str, tuple[RayJobStep, ...]]] = {
    deletion.NONE: (),
    deletion.WORKERS: (RayJobStep.DELETE_WORKERS,),
    deletion.CLUSTER: (RayJobStep.DELETE_CLUSTER,),
    deletion.SELF: (RayJobStep.DELETE_SELF,),
}


def _overdue(job: Manifest, now: datetime) -> RayJobPlan | None:
    for name, reason in _DEADLINES:
        moment = _deadline(job, name)
        if moment is not None and now >= moment:
            text = (
                f"The RayJob has passed the {name}. StartTime: {job['status'].get('startTime')}. "
                f"{name[0].upper()}{name[1:]}: {job['spec'][name]}"
            )
            return _failed(job, {}, reason, text, now)
    return None


_DEADLINES: Final = (
    ("activeDeadlineSeconds", "DeadlineExceeded"),
    ("preRunningDeadlineSeconds", "PreRunningDeadlineExceeded"),
)

_NOT_DURING: Final = {
    "activeDeadlineSeconds": Deployment.WAITING,
    "preRunningDeadlineSeconds": Deployment.RUNNING,
}


def _deadline(job: Manifest, name: str) -> datetime | None:
    seconds, start = job["spec"].get(name), _moment(job["status"].get("startTime"))
    if seconds is None or start is None:
        return None
    if deployment(job) is _NOT_DURING[name]:
        return None
    return start + timedelta(seconds=seconds)


def _until_deadline(job: Manifest, now: datetime) -> float | None:
    moments = [moment for name, _ in _DEADLINES if (moment := _deadline(job, name)) is not None]
    return max(0.01, (min(moments) - now).total_seconds()) if moments else None


def _submitter_end(submitter: Manifest | None) -> tuple[str, datetime] | None:
    """How a submitter ended: why it failed, or nothing, and when; `None` while it has not."""
    if submitter is None:
        return None
    if submitter["kind"] == "Pod":
        return _container_end(submitter)
    for kind in ("Failed", "Complete"):
        condition = conditions.find(submitter, kind)
        if condition is not None and condition["status"] == "True":
            said = f"Reason: {condition.get('reason')}. Message: {condition.get('message')}"
            failure = f"Job submission has failed. {said}" if kind == "Failed" else ""
            return failure, datetime.fromisoformat(condition["lastTransitionTime"])
    return None


def _container_end(pod: Manifest) -> tuple[str, datetime] | None:
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (one.get("state") or {}).get("terminated")
        if one["name"] == SUBMITTER_CONTAINER and ended:
            code = ended.get("exitCode")
            said = f"Ray head pod container {one['name']} terminated with exit code {code}: {ended.get('reason')}"
            text = said if code else ""
            moment = _moment(ended.get("finishedAt"))
            return None if moment is None else (text, moment)
    return None


def _times(info: JobInfo) -> dict[str, str]:
    named = {"startTime": info.start_time, "endTime": info.end_time}
    return {name: stamp(datetime.fromtimestamp(moment / 1000, UTC)) for name, moment in named.items() if moment}


def _moment(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text)


def _is_deleted(manifest: Manifest) -> bool:
    return "deletionTimestamp" in manifest["metadata"]


def _changes(job: Manifest, status: Mapping[str, Any]) -> Manifest | None:
    plain = {name: value.value if isinstance(value, Deployment) else value for name, value in status.items()}
    return clusters.changes(job.get("status") or {}, plain)


_RULES: Final[Mapping[Deployment, Callable[[Manifest, RayJobSeen, datetime], RayJobPlan]]] = {
    Deployment.INITIALIZING: _initializing,
    Deployment.WAITING: _waiting,
    Deployment.RUNNING: _running,
    Deployment.SUSPENDING: _clearing,
    Deployment.RETRYING: _clearing,
    Deployment.SUSPENDED: _suspended,
    Deployment.COMPLETE: _over,
    Deployment.FAILED: _over,
}
