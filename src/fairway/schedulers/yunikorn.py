"""Apache YuniKorn 1.8: it reads pods alone, so everything is written into the pod templates.

A task group is as large as its real pods: YuniKorn throws a placeholder away that is smaller than the pod that should
replace it. All templates carry the task groups, because YuniKorn reads those of the pod that it sees first.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.core.pod_requests import pod_requests
from fairway.apis.machinery.kind import Manifest
from fairway.integrations.pod_groups import TOTAL_COUNT
from fairway.integrations.pods import GROUP
from fairway.schedulers.jobs import PodRole, RoleStart, SchedulableJob
from fairway.schedulers.kinds import POD
from fairway.schedulers.names import GANG, SCHEDULER
from fairway.schedulers.plugin import Amounts, GangParameters, SchedulingContext, SchedulingError

_PREFIX: Final = "yunikorn.apache.org/"
APPLICATION_ID: Final = f"{_PREFIX}app-id"
QUEUE: Final = f"{_PREFIX}queue"
USER_INFO: Final = f"{_PREFIX}user.info"
TASK_GROUP: Final = f"{_PREFIX}task-group-name"
TASK_GROUPS: Final = f"{_PREFIX}task-groups"
POLICY: Final = f"{_PREFIX}schedulingPolicyParameters"
ALLOW_PREEMPTION: Final = f"{_PREFIX}allow-preemption"
RAY_GANG: Final = "ray.io/gang-scheduling-enabled"
"""KubeRay in YuniKorn mode passes task groups on where this label is present."""

_LONGEST_PATH: Final = 63
_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACED_BY: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


class YuniKornScheduler:
    """Queue, user and task groups, as annotations and labels of pods."""

    name = "yunikorn"

    def set_scheduler_name(self, job: SchedulableJob) -> None:
        """In every pod template."""
        for role in job.roles:
            if not role.scheduler_name:
                role.set_spec_field("schedulerName", self.name)

    def create_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """One application for all pods of the job, in the queue of its organization and type."""
        labels = {QUEUE: job.find_label(QUEUE) or _configured(context.queue) or queue_path(context)}
        if not job.kind.deferred:
            labels[APPLICATION_ID] = job.find_label(APPLICATION_ID) or context.application_id
        for role in job.roles:
            _fill(role.labels(), labels)
            if context.user:
                role.annotations().setdefault(USER_INFO, user_info(context))
            if context.priority_class and not role.spec_field("priorityClassName"):
                role.set_spec_field("priorityClassName", context.priority_class)
        if job.kind.passes_labels:
            _fill(job.labels(), labels)
        if job.kind.deferred:
            for role in job.roles:  # the configuration is not at hand when its pods are made
                if overhead := _overhead(role.node.get("spec") or {}, context.overheads):
                    role.set_spec_field("overhead", overhead)
            _fill(job.annotations(), {SCHEDULER: self.name, **({} if context.gang else {GANG: "false"})})

    def create_group_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """The task groups of the job, and which group each pod belongs to."""
        policy = policy_text(context.gang_parameters) if context.gang else ""
        common = {POLICY: policy} if policy else {}
        if context.allow_preemption is not None:
            common[ALLOW_PREEMPTION] = "true" if context.allow_preemption else "false"
        groups = task_groups(job, context.overheads) if context.gang and not job.kind.deferred else []
        named = {group["name"] for group in groups}
        if groups:
            text = json.dumps(groups, separators=(",", ":"))
            if job.kind.passes_labels:
                job.labels().setdefault(RAY_GANG, "true")
                text = job.annotations().setdefault(TASK_GROUPS, text)
            common[TASK_GROUPS] = text
            if job.kind is POD and job.find_label(GROUP):  # Kueue's webhook refuses half of a group, whoever schedules
                common[TOTAL_COUNT] = str(sum(group["minMember"] for group in groups))
        for role in job.roles:
            wanted = {**common, TASK_GROUP: role.name} if role.name in named else common
            if wanted:
                _fill(role.annotations(), wanted)


def queue_path(context: SchedulingContext) -> str:
    """`root.<organization>.<job type>`; with a level for a team that is not the organization itself."""
    middle = () if context.team in {"", context.organization} else (context.team,)
    names = (context.organization, *middle, context.job_type)
    for what, name in zip(("organization", *("team" for _ in middle), "job type"), names, strict=True):
        if not _QUEUE_NAME.fullmatch(name):
            raise SchedulingError(
                f"the {what} {name!r} cannot be a queue of YuniKorn: use letters, digits, `-` and `_`, no dots"
            )
    return _short_enough(".".join(("root", *names)))


def _configured(queue: str) -> str:
    """The queue of a configuration. YuniKorn takes a path without `root.` for one name, with its dots replaced."""
    if not queue:
        return ""
    names = queue.split(".")
    if names[0] != "root" or len(names) < 2 or not all(_QUEUE_NAME.fullmatch(name) for name in names):
        raise SchedulingError(
            f"queueconfig: the queue {queue!r} is none of YuniKorn: write its whole path, such as root.ml.batch"
        )
    return _short_enough(queue)


def _short_enough(path: str) -> str:
    if len(path) > _LONGEST_PATH:
        raise SchedulingError(
            f"the queue {path} is longer than {_LONGEST_PATH} characters, and placeholders cannot carry it as a label; "
            "use shorter names of organizations and job types"
        )
    return path


def user_info(context: SchedulingContext) -> str:
    """Whom YuniKorn charges; the organization is one of the groups."""
    groups = dict.fromkeys((context.organization, *context.groups))
    return json.dumps({"user": context.user, "groups": [one for one in groups if one]}, separators=(",", ":"))


def policy_text(parameters: GangParameters) -> str:
    """`placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard`; empty where nothing is configured."""
    parts = []
    if parameters.timeout_seconds is not None:
        parts.append(f"placeholderTimeoutInSeconds={parameters.timeout_seconds}")
    if parameters.style:
        parts.append(f"gangSchedulingStyle={parameters.style}")
    return " ".join(parts)


def task_groups(job: SchedulableJob, overheads: Mapping[str, Amounts]) -> list[Manifest]:
    """One group a role. A group without members would make YuniKorn ignore all of them; pods that start when others
    have ended reserve nothing."""
    found: dict[str, Manifest] = {}
    for role in job.roles:
        if role.count > 0 and role.starts is not RoleStart.LAST and role.name not in found:
            name = role.pod.get("runtimeClassName")
            if name and name not in overheads and not role.pod.get("overhead"):
                job.warnings.append(
                    f"{role.name}: the overhead of RuntimeClass {name} is not known, so placeholders may be too small; "
                    f"set `runtime-classes: {{{name}: …}}` in queueconfig"
                )
            overhead = _overhead(role.pod, overheads)
            found[role.name] = _task_group(role, {**role.pod, "overhead": overhead} if overhead else role.pod)
    return list(found.values())


def _task_group(role: PodRole, pod: Manifest) -> Manifest:
    group: dict[str, Any] = {
        "name": role.name,
        "minMember": role.count,
        "minResource": {name: str(quantity) for name, quantity in sorted(pod_requests(pod).items())},
    }
    group |= {field: pod[field] for field in _PLACED_BY if pod.get(field)}
    labels = {key: value for key, value in role.read("labels").items() if not key.startswith(_PREFIX)}
    if labels and _selects_pods(pod):
        group["labels"] = labels
    return group


def _selects_pods(pod: Manifest) -> bool:
    """Whether the place of a pod depends on the labels of its siblings, which placeholders need then; otherwise they go
    without, so that no Service selects them."""
    affinity = pod.get("affinity") or {}
    return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity") or pod.get("topologySpreadConstraints"))


def _overhead(pod: Manifest, overheads: Mapping[str, Amounts]) -> dict[str, str]:
    """What the RuntimeClass of a pod adds as far as it is configured; nothing if the pod says it itself, which
    Kubernetes takes if it is the same as its own."""
    known = {} if pod.get("overhead") else overheads.get(str(pod.get("runtimeClassName") or "")) or {}
    return {resource: str(amount) for resource, amount in known.items()}


def _fill(held: dict[str, str], wanted: Mapping[str, str]) -> None:
    for key, value in wanted.items():
        held.setdefault(key, value)


PLUGIN: Final = YuniKornScheduler()
