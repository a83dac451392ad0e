"""The table of job kinds: where each keeps its pod templates, how many pods of each it starts with, and what its
operator adds to them.

Facts of KubeRay 1.6, training-operator 1.9, mpi-operator 0.8, JobSet 0.12, dask-kubernetes 2026.3; Spark's are in
`spark`. What an integration knows of its kind (the pods of a Job, what KubeRay adds to the head) is asked there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.integrations.batch_job import BatchJob
from fairway.integrations.ray_cluster import RayCluster, groups_of
from fairway.integrations.ray_job import SUBMITTER, RayJob
from fairway.integrations.role_hash import role_hash
from fairway.schedulers.jobs import PodRole, RoleStart, SchedulableJob
from fairway.schedulers.spark import spark_roles

MAIN: Final = "main"
_JOB: Final = BatchJob()
_RAY_CLUSTER: Final = RayCluster()
_RAY_JOB: Final = RayJob()
_SUBMITTER: Final = "submittergroup"


class JobKind(NamedTuple):
    """A kind whose objects can be scheduled."""

    group: str
    kind: str
    types: tuple[str, ...]
    """Its job types in a configuration, the most specific first."""

    roles: Callable[[Manifest], list[PodRole]]
    integration: str = ""
    """Kueue's name of its integration; empty where Kueue sees only the pods."""

    passes_labels: bool = False
    """Whether the operator itself knows YuniKorn and passes labels and task groups of the object on."""

    deferred: bool = False
    """Whether Fairway makes its pods, for each attempt, and completes them then (`scheduling.complete_attempt`)."""

    @property
    def resource(self) -> str:
        return f"{self.kind.lower()}s.{self.group}" if self.group else f"{self.kind.lower()}s"


def _template(node: Manifest, name: str, count: int, **more: Any) -> PodRole:
    return PodRole(name=name, count=count, node=node, pod=more.pop("pod", None) or node.get("spec") or {}, **more)


# batch Job, JobSet, pods, ManagedJob


def _job_roles(job: Manifest) -> list[PodRole]:
    return [_template(job["spec"]["template"], MAIN, _JOB.pod_sets(job)[0]["count"])]


def _job_set_roles(job_set: Manifest) -> list[PodRole]:
    spec = job_set["spec"]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    found = []
    for position, replicated in enumerate(spec.get("replicatedJobs") or ()):
        job, depends = replicated["template"], replicated.get("dependsOn") or ()
        starts = RoleStart.LATER if in_order and position else RoleStart.AT_ONCE
        if depends:
            starts = RoleStart.LAST if any(one.get("status") == "Complete" for one in depends) else RoleStart.LATER
        count = replicated.get("replicas", 1) * _JOB.pod_sets({"metadata": {}, **job})[0]["count"]
        found.append(_template(job["spec"]["template"], replicated["name"], count, starts=starts))
    return found


def pod_roles(pods: Sequence[Manifest]) -> list[PodRole]:
    """The roles of pods that belong together: pods of one shape are a role; each pod is a node of its own."""
    hashes = [role_hash(pod.get("spec") or {}) for pod in pods]
    names = {one: MAIN if len(set(hashes)) == 1 else one for one in hashes}
    counts = {one: hashes.count(one) for one in names}
    return [_template(pod, names[one], counts[one]) for pod, one in zip(pods, hashes, strict=True)]


def _managed_job_roles(job: Manifest) -> list[PodRole]:
    spec = job["spec"]
    node = spec.get("podConfig")
    parent = None if isinstance(node, dict) else (spec, "podConfig")
    node = node if isinstance(node, dict) else {}
    return [PodRole(name=MAIN, count=0, node=node, pod={}, parent=parent)]


# Ray

_WAIT_FOR_HEAD: Final = {"name": "wait-gcs-ready", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
"""What KubeRay has every worker do first; Kueue does not count it."""

_MOST_WORKERS: Final = (1 << 31) - 1


def _ray_cluster_roles(cluster: Manifest) -> list[PodRole]:
    return list(_ray_roles(cluster["spec"], _RAY_CLUSTER.pod_sets(cluster)))


def _ray_job_roles(job: Manifest) -> list[PodRole]:
    """A job on an existing cluster has only its submitter, and that only where its template is given."""
    spec = job["spec"]
    if _RAY_JOB.is_skipped(job):
        given = spec.get("submitterPodTemplate")
        return [] if given is None else [_template(given, _SUBMITTER, 1)]
    pod_sets = _RAY_JOB.pod_sets(job)
    found = list(_ray_roles(spec["rayClusterSpec"], pod_sets))
    if pod_sets[-1]["name"] == SUBMITTER and len(pod_sets) > len(found):
        missing = spec.get("submitterPodTemplate") is None
        parent = (spec, "submitterPodTemplate") if missing else None
        node = copied(pod_sets[-1]["template"]) if missing else spec["submitterPodTemplate"]
        found.append(_template(node, _SUBMITTER, 1, starts=RoleStart.LATER, parent=parent))
    return found


def _ray_roles(cluster: Manifest, pod_sets: Sequence[Manifest]) -> Iterator[PodRole]:
    """The pod sets have what KubeRay adds to the head: the autoscaler, and in sidecar mode the submitter."""
    yield _template(cluster["headGroupSpec"]["template"], "headgroup", 1, pod=pod_sets[0]["template"].get("spec"))
    for group in groups_of(cluster):
        template = group["template"]
        pod = _with_init_container(template, _WAIT_FOR_HEAD)
        yield _template(template, group["groupName"], _workers(group), pod=pod)


def _workers(group: Manifest) -> int:
    """The pods that KubeRay makes at first; Kueue counts `replicas` alone."""
    if group.get("suspend"):
        return 0
    least, most = group.get("minReplicas") or 0, group.get("maxReplicas")
    wanted = group.get("replicas")
    clamped = min(max(least if wanted is None else wanted, least), _MOST_WORKERS if most is None else most)
    return int(clamped * (group.get("numOfHosts") or 1))


def _with_init_container(template: Manifest, container: Manifest) -> Manifest:
    spec: Manifest = template.get("spec") or {}
    return {**spec, "initContainers": [*(spec.get("initContainers") or ()), container]}


# Kubeflow and Dask

_INIT_PYTORCH: Final = {"name": "init-pytorch", "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}}}


def _replica_specs(job: Manifest, field: str, order: Sequence[str]) -> Iterator[tuple[str, Manifest, int]]:
    specs: Mapping[str, Manifest] = job["spec"].get(field) or {}
    for name in sorted(specs, key=lambda one: (order.index(one) if one in order else len(order), one)):
        count = specs[name].get("replicas")
        yield name, specs[name]["template"], 1 if count is None else count


def _pytorch_roles(job: Manifest) -> list[PodRole]:
    replicas = list(_replica_specs(job, "pytorchReplicaSpecs", ("Master", "Worker")))
    waits = any(name == "Master" for name, _, _ in replicas)
    return [
        _template(
            template,
            name.lower(),
            count,
            pod=_with_init_container(template, _INIT_PYTORCH) if waits and name != "Master" else None,
        )
        for name, template, count in replicas
    ]


def _tf_roles(job: Manifest) -> list[PodRole]:
    order = ("Chief", "Master", "PS", "Worker", "Evaluator")
    return [
        _template(template, name.lower(), count)
        for name, template, count in _replica_specs(job, "tfReplicaSpecs", order)
    ]


_KUBECTL_DELIVERY: Final = {
    "name": "kubectl-delivery",
    "resources": {"requests": {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}},
}
"""What the training operator has the launcher of an MPIJob of its own version, v1, do first."""


def _mpi_roles(job: Manifest) -> list[PodRole]:
    waits = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    delivered = job["apiVersion"] == "kubeflow.org/v1"
    return [
        _template(
            template,
            name.lower(),
            count,
            pod=_with_init_container(template, _KUBECTL_DELIVERY) if delivered and name == "Launcher" else None,
            starts=RoleStart.LATER if waits and name == "Launcher" else RoleStart.AT_ONCE,
        )
        for name, template, count in _replica_specs(job, "mpiReplicaSpecs", ("Launcher", "Worker"))
    ]


def _dask_roles(spec: Manifest) -> list[PodRole]:
    workers = spec["worker"].get("replicas")
    return [
        _template(spec["scheduler"], "scheduler", 1),
        _template(spec["worker"], "worker", 3 if workers is None else workers),
    ]


def _dask_cluster_roles(cluster: Manifest) -> list[PodRole]:
    return _dask_roles(cluster["spec"])


def _dask_job_roles(job: Manifest) -> list[PodRole]:
    runner = _template(job["spec"]["job"], "runner", 1, starts=RoleStart.LATER)
    return [*_dask_roles(job["spec"]["cluster"]["spec"]), runner]


KINDS: Final = (
    JobKind("", "Pod", ("pod",), lambda pod: pod_roles([pod])),
    JobKind("batch", "Job", ("batch",), _job_roles, _JOB.name),
    JobKind("jobset.x-k8s.io", "JobSet", ("jobset",), _job_set_roles, "jobset.x-k8s.io/jobset"),
    JobKind("ray.io", "RayJob", ("ray",), _ray_job_roles, _RAY_JOB.name, passes_labels=True),
    JobKind("ray.io", "RayCluster", ("ray",), _ray_cluster_roles, _RAY_CLUSTER.name, passes_labels=True),
    JobKind(
        "sparkoperator.k8s.io", "SparkApplication", ("spark",), spark_roles, "sparkoperator.k8s.io/sparkapplication"
    ),
    JobKind("kubeflow.org", "PyTorchJob", ("pytorch", "kubeflow"), _pytorch_roles, "kubeflow.org/pytorchjob"),
    JobKind("kubeflow.org", "TFJob", ("tensorflow", "kubeflow"), _tf_roles, "kubeflow.org/tfjob"),
    JobKind("kubeflow.org", "MPIJob", ("mpi", "kubeflow"), _mpi_roles, "kubeflow.org/mpijob"),
    JobKind("kubernetes.dask.org", "DaskCluster", ("dask",), _dask_cluster_roles),
    JobKind("kubernetes.dask.org", "DaskJob", ("dask",), _dask_job_roles),
    JobKind("fairway.dev", "ManagedJob", ("managed",), _managed_job_roles, "fairway.dev/managedjob", deferred=True),
)
_BY_NAME: Final = {(one.group, one.kind): one for one in KINDS}
RESOURCES: Final = tuple(one.resource for one in KINDS)
POD: Final = KINDS[0]


def kind_of(manifest: Manifest) -> JobKind | None:
    """The row of a manifest's kind; `None` if it is no job."""
    group, _, _ = str(manifest.get("apiVersion", "")).rpartition("/")
    return _BY_NAME.get((group, manifest.get("kind", "")))


def schedulable(manifest: Manifest) -> SchedulableJob | None:
    """The manifest as plugins see it; `None` if it is no job. The manifest is as its schema wants it."""
    kind = kind_of(manifest)
    return None if kind is None else SchedulableJob(manifest, kind, kind.roles(manifest))
