"""The pods of a managed job: the template that is queued, and the pods of one attempt.

The template says what admission and placement need to know, and no more: jobs wait by the thousand, and what they will
run is in the job itself. Scripts, variables and names come with the attempt. Results share nothing with what they are
made from.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.errors import ValidationError
from fairway.integrations import injection
from fairway.integrations.injection import PodSetInfo
from fairway.integrations.workloads import MAIN, owner_reference
from fairway.managedjobs.environment import AttemptEnvironment
from fairway.managedjobs.platform import Platform
from fairway.managedjobs.podconfig import RUN, layered, wrong_part
from fairway.managedjobs.tasks.task import Candidate, Task

JOB: Final = "fairway.dev/job"
JOB_ID: Final = "fairway.dev/job-id"
TASK: Final = "fairway.dev/task"
ATTEMPT: Final = "fairway.dev/attempt"
RANK: Final = "fairway.dev/rank"
KEEP_LOGS: Final = "fairway.dev/keep-logs"

HEAD: Final = "head"
WORKERS: Final = "workers"
"""The pod sets of a task with `ray`."""

GPU: Final = "nvidia.com/gpu"
GRACE_SECONDS: Final = 30

_FRAME: Final[Manifest] = {"spec": {"containers": [{"name": RUN}]}}
"""Below everything: the main container comes first, whatever a `pod_config` calls it."""

_QUEUE_PREFIX: Final = "kueue.x-k8s.io/"
_TOPOLOGY_PREFIX: Final = "kueue.x-k8s.io/podset-"
_LONGEST_NAME: Final = 63
_HASH_LENGTH: Final = 8
_LIKE_A_PIPELINE: Final = re.compile(r"-t\d+$")


class NodeGroup(NamedTuple):
    """Nodes of a task that need the same: a pod set of its Workload."""

    name: str
    needs: Candidate
    ranks: range


def node_groups(task: Task, candidate: Candidate) -> list[NodeGroup]:
    """Head first; all nodes are one group, unless the task has a Ray cluster with workers."""
    if task.ray is None or not task.ray.count:
        return [NodeGroup(MAIN if task.ray is None else HEAD, candidate, range(task.num_nodes))]
    workers = NodeGroup(WORKERS, task.ray.each(candidate), range(1, task.num_nodes))
    return [NodeGroup(HEAD, candidate, range(1)), workers]


def pod_template(job: Manifest, task: Task, task_index: int, candidate: Candidate, platform: Platform) -> Manifest:
    """What the pods of a task ask for, for the pod set of its Workload; `ValidationError` if a `pod_config` is wrong.

    Labels of the queue are left out: not these pods but their job is in the queue.
    """
    _check_pod_configs(job, task, task_index)
    template = layered((_FRAME, job["spec"].get("podConfig") or {}, task.pod_config, _wanted(task, candidate)))
    metadata, spec = template.get("metadata") or {}, template["spec"]
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    main = _main_of(spec)
    main.setdefault("image", platform.image)
    for field in ("command", "args", "restartPolicy", "restartPolicyRules"):
        main.pop(field, None)
    platform.prepare(spec, task, candidate)
    kept = {
        "labels": {k: v for k, v in (metadata.get("labels") or {}).items() if not k.startswith(_QUEUE_PREFIX)},
        "annotations": {
            k: v
            for k, v in (metadata.get("annotations") or {}).items()
            if k.startswith(_TOPOLOGY_PREFIX) or not k.startswith(_QUEUE_PREFIX)
        },
    }
    return {"metadata": {field: values for field, values in kept.items() if values}, "spec": spec}


def attempt_pods(
    job: Manifest,
    candidate: Candidate,
    *,
    task: Task,
    task_index: int,
    attempt: int,
    cause: str,
    infos: Mapping[str, PodSetInfo],
    platform: Platform,
) -> list[Manifest]:
    """The pods of one attempt, head first; `infos` is what admission adds to each pod set, and `InjectionConflict` if
    it cannot.
    """
    made: list[Manifest] = []
    for group in node_groups(task, candidate):
        template = pod_template(job, task, task_index, group.needs, platform)
        if group.name in infos:
            injection.inject(template, infos[group.name])
        told = AttemptEnvironment(
            job=job,
            task=task,
            task_index=task_index,
            number=attempt,
            cause=cause,
            cluster=group_name(job, task_index, attempt),
            gpus=_gpus(template),
            checkpoints=platform.checkpoints(job, task_index, task),
            addresses=platform.addresses(task),
        )
        made += (_pod(told, template, rank, platform) for rank in group.ranks)
    return made


def group_name(job: Manifest, task_index: int, attempt: int) -> str:
    """What the pods of an attempt are called in common: `train-7-1`, in a pipeline `train-7-t0-1`."""
    return _shortened(job, _attempt_suffix(job, task_index, attempt))


def pod_name(job: Manifest, task_index: int, attempt: int, rank: int) -> str:
    """`train-7-1-head`, `train-7-1-worker1` …"""
    role = f"worker{rank}" if rank else "head"
    return _shortened(job, f"{_attempt_suffix(job, task_index, attempt)}-{role}")


def _check_pod_configs(job: Manifest, task: Task, task_index: int) -> None:
    wrong = []
    if job["spec"].get("podConfig"):
        wrong += wrong_part(job["spec"]["podConfig"], "spec.podConfig")
    if task.pod_config:
        wrong += wrong_part(task.pod_config, f"spec.tasks[{task_index}].config.kubernetes.pod_config")
    if wrong:
        raise ValidationError("ManagedJob", job["metadata"]["name"], wrong)


def _main_of(spec: Manifest) -> Manifest:
    main: Manifest = next(container for container in spec["containers"] if container["name"] == RUN)
    return main


def _wanted(task: Task, candidate: Candidate) -> Manifest:
    """What the task says, and a `pod_config` cannot change."""
    main: Manifest = {"name": RUN, "resources": _resources(candidate)}
    if candidate.image:
        main["image"] = candidate.image
    spec: Manifest = {"restartPolicy": "Never", "containers": [main]}
    if task.service_account:
        spec["serviceAccountName"] = task.service_account
    return {"metadata": {"labels": candidate.labels}, "spec": spec}


def _resources(candidate: Candidate) -> Manifest:
    """Requests, as SkyPilot has them; limits only for GPUs, which Kubernetes gives in no other way."""
    gpus = {GPU: str(candidate.gpus)} if candidate.gpus else {}
    requests = {"cpu": candidate.cpus, "memory": candidate.memory}
    resources: Manifest = {"requests": {name: amount for name, amount in requests.items() if amount} | gpus}
    if gpus:
        resources["limits"] = dict(gpus)
    return resources


def _gpus(template: Manifest) -> int:
    resources = _main_of(template["spec"]).get("resources") or {}
    return int((resources.get("limits") or {}).get(GPU) or 0)


def _pod(told: AttemptEnvironment, template: Manifest, rank: int, platform: Platform) -> Manifest:
    job, metadata, spec = told.job, template.get("metadata") or {}, copied(template["spec"])
    platform.fill(spec, told, rank)
    labels = {
        JOB: job["metadata"]["name"],
        JOB_ID: str(job["spec"].get("id", 0)),
        TASK: str(told.task_index),
        ATTEMPT: str(told.number),
        RANK: str(rank),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(job, told.task_index, told.number, rank),
            "namespace": job["metadata"]["namespace"],
            "labels": (metadata.get("labels") or {}) | labels,
            "annotations": (metadata.get("annotations") or {}) | {KEEP_LOGS: "true"},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def _attempt_suffix(job: Manifest, task_index: int, attempt: int) -> str:
    return f"-t{task_index}-{attempt}" if len(job["spec"]["tasks"]) > 1 else f"-{attempt}"


def _shortened(job: Manifest, suffix: str) -> str:
    """The job's name with a suffix: as it is, if that fits and no pipeline's pods could be called the same."""
    name: str = job["metadata"]["name"]
    taken_for_another = len(job["spec"]["tasks"]) == 1 and _LIKE_A_PIPELINE.search(name)
    if len(name) + len(suffix) <= _LONGEST_NAME and not taken_for_another:
        return name + suffix
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    kept = name[: _LONGEST_NAME - len(suffix) - _HASH_LENGTH - 1].rstrip("-")
    return f"{kept}-{digest}{suffix}"
