"""The mutating step: completes the manifest of a job for the scheduler that is configured for it.

The same step on every door: the command line, the API of one machine, a webhook on a cluster.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.names import PRIORITY_CLASS, QUEUE_NAME, USER
from fairway.integrations.pod_groups import TOTAL_COUNT
from fairway.integrations.pods import GROUP
from fairway.integrations.pods import group_name as pod_group_name
from fairway.schedulers.config import QueueConfig
from fairway.schedulers.jobs import PodRole, SchedulableJob
from fairway.schedulers.kinds import POD, pod_roles, schedulable
from fairway.schedulers.names import GANG, JOB_TYPE, ORGANIZATION, SCHEDULER, TEAM
from fairway.schedulers.plugin import GangParameters, SchedulerPlugin, SchedulingContext, SchedulingError
from fairway.schedulers.yunikorn import USER_INFO

Plugins = Callable[[str], SchedulerPlugin]
"""The plugin of a name; the name was checked when the configuration was read."""

_WRITTEN: Final = ("yunikorn.apache.org/", "ray.io/gang-scheduling-enabled")
_KUEUE: Final = frozenset({QUEUE_NAME, PRIORITY_CLASS, GROUP, TOTAL_COUNT})
_FIELDS: Final = ("labels", "annotations")
_LONGEST_LABEL: Final = 63


class Author(NamedTuple):
    """Who sends a job, and from where."""

    user: str = ""
    groups: tuple[str, ...] = ()
    may_impersonate: bool = True
    namespace_labels: Mapping[str, str] = {}
    namespace: str = ""
    """Of objects that name none."""

    organization: str = ""
    """As said on the command line; before everything else."""

    job_type: str = ""
    is_written: bool = False
    """Whether the pods say whose they are (`fairway.dev/user`): where Kueue makes the Workload, nothing else does."""


def schedule(
    manifest: Manifest, config: QueueConfig, plugins: Plugins, author: Author, new_id: Callable[[], str]
) -> list[str]:
    """Complete a job, in place; the warnings for its author. Other objects stay as they are.

    `new_id` gives the unique part of the application id.
    """
    if _is_owned(manifest):
        return []
    job = schedulable(manifest)
    return [] if job is None else _schedule(job, config, plugins, author, new_id)


def schedule_all(
    manifests: Sequence[Manifest], config: QueueConfig, plugins: Plugins, author: Author, new_id: Callable[[], str]
) -> list[str]:
    """The same for objects that are sent together: pods with the same group are one job."""
    warnings: list[str] = []
    groups: dict[tuple[str, str], list[Manifest]] = {}
    for manifest in manifests:
        name = _group(manifest)
        if name and not _is_owned(manifest):
            groups.setdefault((manifest["metadata"].get("namespace", ""), name), []).append(manifest)
        else:
            warnings += schedule(manifest, config, plugins, author, new_id)
    for pods in groups.values():
        warnings += _schedule(SchedulableJob(pods[0], POD, pod_roles(pods)), config, plugins, author, new_id)
    return list(dict.fromkeys(warnings))


def scheduler_of(job: Manifest) -> str:
    """The scheduler with queues of its own that decides on the pods of a ManagedJob; empty if there is none."""
    return str((job["metadata"].get("annotations") or {}).get(SCHEDULER, ""))


def complete_attempt(job: Manifest, pods: Sequence[Manifest], attempt: str, plugins: Plugins) -> None:
    """Complete the pods of one attempt of a ManagedJob, in place: a new application, and its task groups.

    Queue and user are in the pods already, from the job's `podConfig`. `attempt` is unique in the job.
    """
    name = scheduler_of(job)
    if not name:
        return
    annotations = job["metadata"]["annotations"]
    plugin, group = plugins(name), SchedulableJob(pods[0], POD, pod_roles(pods))
    context = SchedulingContext(
        organization="",
        job_type="",
        queue=group.find_label("yunikorn.apache.org/queue"),
        application_id=_fitting(f"managed-{job['metadata'].get('uid', '')}-{attempt}"),
        gang=annotations.get(GANG) != "false",
    )
    _complete(plugin, group, context)


def keep(old: Manifest, new: Manifest, *, may_impersonate: bool = True) -> None:
    """Put back what was written when an object was created and a later write leaves out, in place.

    Without `may_impersonate` its user stays the one it was created by, whatever the write says.
    """
    before, after = schedulable(old), schedulable(new)
    if before is None or after is None:
        return
    for field in _FIELDS:
        _restore(old["metadata"].get(field) or {}, new["metadata"], field)
    former = {role.name: role for role in before.roles}
    for role in after.roles:
        was = former.get(role.name)
        if was is not None and role.parent is None:
            _keep_role(was, role)
    if may_impersonate:
        return
    for key in (USER_INFO, USER):
        everyone = next((text for role in before.roles if (text := _user_text(role, key))), None)
        for role in after.roles:
            was = former.get(role.name)
            _set_user_text(role, key, everyone if was is None else _user_text(was, key))


def _keep_role(was: PodRole, role: PodRole) -> None:
    if was.scheduler_name and not role.scheduler_name:
        role.set_spec_field("schedulerName", was.scheduler_name)
    for field in _FIELDS:
        missing = _missing(was.read(field), role.read(field))
        if missing:
            (role.labels() if field == "labels" else role.annotations()).update(missing)


def _restore(held: Mapping[str, str], metadata: Manifest, field: str) -> None:
    missing = _missing(held, metadata.get(field) or {})
    if missing:
        metadata[field] = {**(metadata.get(field) or {}), **missing}


def _missing(held: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in held.items()
        if key not in now and (key.startswith(_WRITTEN) or key in _KUEUE or key == SCHEDULER)
    }


def _schedule(
    job: SchedulableJob, config: QueueConfig, plugins: Plugins, author: Author, new_id: Callable[[], str]
) -> list[str]:
    _check_user(job, author)
    if author.is_written and not job.kind.deferred:
        _write_user(job, author)
    labels = job.manifest["metadata"].get("labels") or {}
    namespace = job.manifest["metadata"].get("namespace") or author.namespace
    organization = (
        author.organization
        or author.namespace_labels.get(ORGANIZATION)
        or labels.get(ORGANIZATION)
        or config.organization
        or namespace
        or "default"
    )
    job_type = author.job_type or labels.get(JOB_TYPE) or config.job_type(organization, job.kind.types)
    said = config.settings(organization, job_type)
    if said.scheduler is None:
        return []
    plugin = plugins(said.scheduler)
    others = sorted({role.scheduler_name for role in job.roles} - {"", plugin.name})
    if others:
        return [f"the {job.kind.kind} asks for the scheduler {others[0]} itself and is left as it is"]
    alone = len(job.roles) == 1 and _group(job.manifest)
    context = SchedulingContext(
        organization=organization,
        team=author.namespace_labels.get(TEAM, ""),
        job_type=job_type,
        user="" if said.user_info is False else author.user,
        groups=author.groups,
        application_id=_fitting(f"{job.kind.types[0]}-{f'{namespace}-{alone}' if alone else new_id()}"),
        queue=said.queue or "",
        priority_class=said.priority_class or "",
        gang=said.gang is not False and not alone,
        gang_parameters=said.gang_parameters or GangParameters(),
        allow_preemption=said.allow_preemption,
        overheads=config.overheads,
    )
    _complete(plugin, job, context)
    if alone and said.gang is not False and TOTAL_COUNT not in (job.manifest["metadata"].get("annotations") or {}):
        job.warnings.append(
            f"pod group {alone}: the other pods are not known here, so nothing makes them start together; send all of "
            "them in one file with `fairway apply`"
        )
    return job.warnings


def _complete(plugin: SchedulerPlugin, job: SchedulableJob, context: SchedulingContext) -> None:
    plugin.set_scheduler_name(job)
    plugin.create_labels(job, context)
    plugin.create_group_labels(job, context)


def _check_user(job: SchedulableJob, author: Author) -> None:
    """Refuse a `user.info` of another user; one of the author is written anew, with the groups that are known here."""
    if author.may_impersonate:
        return
    for role in job.roles:
        text = _user_text(role, USER_INFO)
        if text is None:
            continue
        try:
            user = json.loads(text)["user"]
        except (ValueError, TypeError, KeyError):
            user = None
        if user != author.user:
            raise SchedulingError(
                f"the annotation {USER_INFO} names the user {user!r}; remove it to submit as {author.user!r}"
            )
        _set_user_text(role, USER_INFO, None)


def _write_user(job: SchedulableJob, author: Author) -> None:
    """On the pods that the manifest has: a template of metadata alone would replace the one that an operator adds."""
    for role in job.roles:
        if role.parent is None and not (author.may_impersonate and _user_text(role, USER)):
            _set_user_text(role, USER, author.user)


def _user_text(role: PodRole, key: str) -> str | None:
    return role.read("annotations").get(key)


def _set_user_text(role: PodRole, key: str, text: str | None) -> None:
    if text == _user_text(role, key):
        return
    if text is None:
        del role.annotations()[key]
    else:
        role.annotations()[key] = text


def _is_owned(manifest: Manifest) -> bool:
    """Whether a controller made the object: its owner was scheduled."""
    return any(one.get("controller") for one in manifest["metadata"].get("ownerReferences") or ())


def _group(manifest: Manifest) -> str:
    """The group of a pod; empty for others."""
    if manifest.get("kind") != "Pod" or manifest.get("apiVersion") != POD.group + "v1":
        return ""
    return pod_group_name(manifest)


def _fitting(text: str) -> str:
    """A text as the value of a label."""
    if len(text) <= _LONGEST_LABEL:
        return text
    return f"{text[: _LONGEST_LABEL - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
