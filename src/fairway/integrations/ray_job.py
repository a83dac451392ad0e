"""ray.io/v1 RayJob: the pod sets of its RayCluster, and one for the pod that submits the job."""

from collections.abc import Sequence
from typing import Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError
from fairway.integrations import injection, ray_cluster, topology, webhooks
from fairway.integrations.framework import StopProgress, StopStep

SUBMITTER: Final = "submitter"
BY_JOB: Final = "K8sJobMode"
IN_HEAD: Final = "SidecarMode"
SUBMITTER_CONTAINER: Final = "ray-job-submitter"
_RESOURCES: Final = {
    "limits": {"cpu": "1", "memory": "1Gi"},
    "requests": {"cpu": "500m", "memory": "200Mi"},
}
"""Of a submitter without a template, as KubeRay makes it."""

_PATH: Final = "spec.rayClusterSpec"
_AUTOSCALING: Final = "a kueue managed job should only use autoscaling when workload slicing is enabled"


class RayJob:
    """`ray.io/rayjob`; a job on an existing cluster (`clusterSelector`) is left alone."""

    name = "ray.io/rayjob"
    resource = "rayjobs.ray.io"
    group = "ray.io"
    kind = "RayJob"
    validates_unqueued = False

    def is_skipped(self, job: Manifest) -> bool:
        return bool(job["spec"].get("clusterSelector")) or not job["spec"].get("rayClusterSpec")

    def pod_sets(self, job: Manifest) -> list[Manifest]:
        spec = job["spec"]
        found = ray_cluster.pod_sets_of(spec["rayClusterSpec"], webhooks.annotations_of(job))
        mode = submission_mode(job)
        if mode == BY_JOB:
            template = _submitter_template(job)
            submitter: Manifest = {"name": SUBMITTER, "template": template, "count": 1}
            request = topology.topology_request(template)
            found.append(submitter if request is None else {**submitter, "topologyRequest": request})
        elif mode == IN_HEAD:
            template = ray_cluster.with_container(found[0]["template"], SUBMITTER_CONTAINER, _RESOURCES)
            found[0] = {**found[0], "template": template}
        return found

    def is_suspended(self, job: Manifest) -> bool:
        return bool(job["spec"].get("suspend"))

    def is_active(self, job: Manifest) -> bool:
        return bool(_deployment_status(job) not in {"", "Suspended"})

    def is_on_hold(self, job: Manifest) -> bool:
        return _deployment_status(job) == "ValidationFailed"

    def suspend(self, job: Manifest) -> None:
        job["spec"]["suspend"] = True

    def suspension(self) -> Manifest:
        return {"spec": {"suspend": True}}

    def start(self, job: Manifest, infos: Sequence[injection.PodSetInfo]) -> Manifest:
        spec = job["spec"]
        by_job = submission_mode(job) == BY_JOB
        ray_cluster.check_count(1 + len(ray_cluster.groups_of(spec["rayClusterSpec"])) + by_job, infos)
        patch: Manifest = {"suspend": False}
        if changes := ray_cluster.injected(spec["rayClusterSpec"], infos):
            patch["rayClusterSpec"] = changes
        if by_job:
            template = _submitter_template(job)
            new = injection.injected(template, infos[-1])
            given = "submitterPodTemplate" in spec
            patch["submitterPodTemplate"] = injection.difference(template, new) if given else copied(new)
        return {"spec": patch}

    def stop(self, job: Manifest, pod_sets: Sequence[Manifest] | None) -> StopStep | StopProgress:
        return ray_cluster.stop_at_once(job["spec"], _restored(job, ray_cluster.templates_before(pod_sets)))

    def finished(self, job: Manifest) -> tuple[bool, str] | None:
        if _deployment_status(job) not in {"Complete", "Failed"}:
            return None
        status = job["status"]
        return status.get("jobStatus") == "SUCCEEDED", status.get("message") or ""

    def pods_ready(self, job: Manifest) -> bool:
        return ((job.get("status") or {}).get("rayClusterStatus") or {}).get("state") == "ready"

    def wrong_on_create(self, job: Manifest) -> list[FieldError]:
        spec = job["spec"]
        selector, cluster = spec.get("clusterSelector"), spec.get("rayClusterSpec")
        if selector and cluster is None:
            return []
        if selector:
            rule = "a kueue managed job should not use an existing cluster"
            return [problems.invalid("spec.clusterSelector", selector, rule)]
        if cluster is None:
            rule = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
            return [problems.required(_PATH, rule)]
        errors = []
        if not spec.get("shutdownAfterJobFinishes"):
            rule = "a kueue managed job should delete the cluster after finishing"
            errors.append(problems.invalid("spec.shutdownAfterJobFinishes", value=False, message=rule))
        return [*errors, *ray_cluster.wrong_cluster(job, cluster, _PATH, _AUTOSCALING)]

    def wrong_on_update(self, old: Manifest, new: Manifest) -> list[FieldError]:  # noqa: ARG002 - the protocol's
        return self.wrong_on_create(new)


def submitter_container(image: str) -> Manifest:
    """The container that submits, as KubeRay makes it where there is no template."""
    return {"name": SUBMITTER_CONTAINER, "image": image, "resources": _RESOURCES}


def submission_mode(job: Manifest) -> str:
    return str(job["spec"].get("submissionMode") or BY_JOB)


def _deployment_status(job: Manifest) -> str:
    return str((job.get("status") or {}).get("jobDeploymentStatus") or "")


def _submitter_template(job: Manifest) -> Manifest:
    """The template that is given, or the one that KubeRay uses: the head's image, so that the versions of Ray agree."""
    spec = job["spec"]
    given: Manifest | None = spec.get("submitterPodTemplate")
    if given is not None:
        return given
    head = spec["rayClusterSpec"]["headGroupSpec"]["template"].get("spec") or {}
    image = next((container.get("image") for container in head.get("containers") or ()), None)
    return {"spec": {"containers": [submitter_container(image or "")], "restartPolicy": "Never"}}


def _restored(job: Manifest, before: Sequence[Manifest] | None) -> Manifest:
    """What of the spec has to change for the job to be as it was before it was admitted."""
    cluster = job["spec"]["rayClusterSpec"]
    by_job = submission_mode(job) == BY_JOB
    groups = 1 + len(ray_cluster.groups_of(cluster))
    if before is not None and len(before) != groups + by_job:
        return {}
    patch: Manifest = {}
    if changes := ray_cluster.restored(cluster, None if before is None else before[:groups]):
        patch["rayClusterSpec"] = changes
    submitter = job["spec"].get("submitterPodTemplate") if by_job else None
    if submitter is not None:
        then = injection.without_queue(submitter) if before is None else before[-1]
        if changes := injection.difference(submitter, injection.restore(submitter, then)):
            patch["submitterPodTemplate"] = changes
    return patch
