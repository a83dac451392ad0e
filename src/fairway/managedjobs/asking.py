"""Queue, priority and Workload of a managed job.

What its user said last counts most: the fields of the job, then the labels of the candidate and the task's own queue,
then labels of the job and of the configured `pod_config`.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec

from fairway.admission.records import EARNED_PRIORITY, FIRST_SUBMITTED, GANG
from fairway.apis.machinery.kind import Manifest
from fairway.integrations import names, priorities
from fairway.integrations.following import passed_on
from fairway.integrations.priorities import Classes, MissingPriorityClass, Priority
from fairway.integrations.topology import topology_request
from fairway.integrations.webhooks import annotations_of, labels_of
from fairway.integrations.workloads import new_workload, owner_reference, pod_set
from fairway.managedjobs.observation import ManagedJobSpec
from fairway.managedjobs.platform import Platform
from fairway.managedjobs.pods import JOB, JOB_ID, RANK, node_groups, pod_template
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.tasks.task import Candidate, Task

_encode: Final = msgspec.json.Encoder().encode


class Base(NamedTuple):
    """The priority that a job is launched with; no value if the class that it names does not exist."""

    value: int | None
    class_ref: dict[str, str] | None
    class_name: str = ""


def queue_of(manifest: Manifest, job: ManagedJobSpec, life: ManagedJobStatus, has_queue: Callable[[str], bool]) -> str:
    """The LocalQueue; the default one if none is named and it is there, else empty."""
    return chosen_queue(manifest, job.task(life.task), job.candidate(life.task, life.candidate), has_queue)


def chosen_queue(manifest: Manifest, task: Task, candidate: Candidate, has_queue: Callable[[str], bool]) -> str:
    """The same for any task and candidate of a job, also of one that is being created."""
    own = candidate.labels.get(names.QUEUE_NAME) or task.queue
    named: str = manifest["spec"].get("queue") or own or next(_labels(manifest, candidate, names.QUEUE_NAME), "")
    if named:
        return named
    return names.DEFAULT_QUEUE if has_queue(names.DEFAULT_QUEUE) else ""


def class_of(manifest: Manifest, job: ManagedJobSpec, life: ManagedJobStatus) -> str:
    """The WorkloadPriorityClass that a job names, empty if none."""
    candidate = job.candidate(life.task, life.candidate)
    named: str = manifest["spec"].get("priorityClass") or next(_labels(manifest, candidate, names.PRIORITY_CLASS), "")
    return named


def may_name_class(manifest: Manifest, name: str) -> bool:
    """Whether a job may name a class, without its tasks having been read: rather too often than not."""
    named = manifest["spec"].get("priorityClass")
    return bool(named == name if named else f'"{names.PRIORITY_CLASS}":"{name}"'.encode() in _encode(manifest))


def base_priority(
    manifest: Manifest,
    job: ManagedJobSpec,
    life: ManagedJobStatus,
    workload_classes: Classes,
    priority_classes: Classes,
) -> Base:
    """A number counts before a class, what the job says before what its task says."""
    number, named = manifest["spec"].get("priority"), class_of(manifest, job, life)
    if number is None and not named:
        number = job.task(life.task).priority
    try:
        by_class = priorities.resolve(
            {names.PRIORITY_CLASS: named} if named else {}, (), workload_classes, priority_classes
        )
    except MissingPriorityClass:
        return Base(number, None, named if number is None else "")  # a number does without
    if named:
        return Base(by_class.value if number is None else number, by_class.class_ref, named)
    return Base(number, None) if number is not None else Base(by_class.value, by_class.class_ref)


def workload_for(
    manifest: Manifest,
    job: ManagedJobSpec,
    life: ManagedJobStatus,
    platform: Platform,
    queue: str,
    priority: Priority,
    earned: int = 0,
) -> Manifest:
    """The Workload of a job's present task and candidate; `ValidationError` if its `pod_config` is wrong.

    It queues by the time at which the job was submitted, whichever of its candidates it stands for.
    """
    task = job.task(life.task)
    pod_sets = []
    for group in node_groups(task, job.candidate(life.task, life.candidate)):
        template = pod_template(manifest, task, life.task, group.needs, platform)
        # Ranks of workers do not begin at 0, as the index of a pod in its pod set does.
        request = topology_request(template, RANK if group.ranks.start == 0 else None)
        pod_sets.append(pod_set(group.name, template, len(group.ranks), topology_request=request))
    metadata = manifest["metadata"]
    annotations = passed_on(annotations_of(manifest))
    if life.submitted_at is not None:
        # Times are whole seconds: of those who came in the same one, the lower number is first.
        moment = life.submitted_at + timedelta(microseconds=manifest["spec"].get("id", 0) % 1_000_000)
        annotations[FIRST_SUBMITTED] = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if earned:
        annotations[EARNED_PRIORITY] = str(earned)
    if task.num_nodes > 1:
        annotations[GANG] = "true"
    return new_workload(
        life.workload,
        metadata["namespace"],
        [owner_reference(manifest)],
        pod_sets,
        queue,
        priority,
        labels={
            names.JOB_UID: metadata["uid"],
            JOB: metadata["name"],
            JOB_ID: str(manifest["spec"].get("id", 0)),
        },
        annotations=annotations,
    )


def _labels(manifest: Manifest, candidate: Candidate, key: str) -> Iterator[str]:
    configured: Mapping[str, Any] = ((manifest["spec"].get("podConfig") or {}).get("metadata") or {}).get(
        "labels"
    ) or {}
    for labels in (candidate.labels, labels_of(manifest), configured):
        if labels.get(key):
            yield labels[key]
