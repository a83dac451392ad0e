"""Builds the objects of a launch from tasks, configuration and flags: ManagedJobs, and a Secret for secrets.

Who wins, from the strongest: a flag, the task's own labels and fields, the task's `config`, the configuration. Where
all tasks agree on their queue or priority, the job says it once and the labels are taken out of the tasks: what is said
once can be changed later.
"""

import base64
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, structs

from fairway.apis.core.unenforced import managed_job_warnings
from fairway.integrations.names import PRIORITY_CLASS, QUEUE_NAME
from fairway.managedjobs.config import priority_of, queue_name
from fairway.managedjobs.configured import LaunchConfig
from fairway.managedjobs.merging import merged
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.kubernetes import ALL_CONTEXTS
from fairway.managedjobs.tasks.labels import is_dns_label
from fairway.managedjobs.tasks.overrides import NOTHING, Overrides
from fairway.managedjobs.tasks.parse import ParsedFile
from fairway.managedjobs.tasks.places import SourceMap, Where
from fairway.managedjobs.tasks.task import Candidate, Files, Task
from fairway.managedjobs.tasks.values import shown
from fairway.managedjobs.tasks.writing import mapping_of

API_VERSION: Final = "fairway.dev/v1alpha1"
KIND: Final = "ManagedJob"
MOST_JOBS: Final = 10_000
SECRET_LABEL: Final = "fairway.dev/secrets-of"  # noqa: S105 - the name of a label
"""On the Secret of a launch, to distinguish it from users' own Secrets."""

_LONGEST_PREFIX: Final = 40
_LONGEST_NAME: Final = 200
_UNNAMED: Final = "job"
_STDIN: Final = "<stdin>"
_LIKE_IDS: Final = re.compile(r"\d+(-\d+)?")


class Launch(Struct, frozen=True, kw_only=True):
    """What to send, in this order and all in one transaction: the Secret if there is one, then the jobs."""

    jobs: list[dict[str, Any]]
    """Those of an array share parts with each other."""

    secret: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()


class _Priority(Struct, frozen=True):
    """At most one of the two."""

    number: int | None = None
    class_name: str = ""


def job_manifests(
    parsed: ParsedFile,
    config: LaunchConfig,
    overrides: Overrides,
    *,
    files: Sequence[Sequence[Files]] = (),
    secret_name: str = "",
    array: str = "",
) -> Launch:
    """The objects of a launch. `files` are the archives of each task; the caller makes up `secret_name` and `array`."""
    _check(overrides)
    if files and len(files) != len(parsed.tasks):
        raise ValueError(f"files of {len(files)} tasks were given for {len(parsed.tasks)}")
    tasks = [structs.replace(one.task, files=()) for one in parsed.tasks]
    if files:
        tasks = [structs.replace(one, files=tuple(given)) for one, given in zip(tasks, files, strict=True)]
    tasks = [
        structs.replace(
            one,
            checkpoints=one.checkpoints or config.checkpoints,
            files_volume=(one.files_volume or config.files_volume) if one.files else None,
        )
        for one in tasks
    ]
    tasks, left_out = _allowed(tasks, config)
    tasks, queue = _with_queue(tasks, config, overrides)
    tasks, priority = _with_priority(tasks, config, overrides)
    secret = _secret(parsed, secret_name)
    aging = {"step": config.aging_step, "cap": config.aging_cap}
    spec: dict[str, Any] = {
        "name": display_name(parsed, overrides),
        "user": overrides.user,
        "recover": None if overrides.recover else False,
        "hold": overrides.hold or None,
        "queue": queue,
        "priority": priority.number,
        "priorityClass": priority.class_name,
        "aging": {name: one for name, one in aging.items() if one is not None},
        "provisionTimeoutSeconds": config.provision_timeout_seconds,
        "secretName": secret_name if secret else "",
        "podConfig": _pod_config(config),
        "tasks": [mapping_of(one) for one in tasks],
    }
    spec = {name: value for name, value in spec.items() if value not in (None, "", {})}
    metadata = _metadata(spec["name"], queue, overrides)
    jobs = _copies(metadata, spec, overrides.num_jobs, array)
    return Launch(
        jobs=jobs,
        secret=secret,
        warnings=(*config.warnings, *parsed.warnings, *left_out, *managed_job_warnings(jobs[0])),
    )


def display_name(parsed: ParsedFile, overrides: Overrides) -> str:
    """What people call the job."""
    return overrides.name.strip() or parsed.name or overrides.cluster or _stem(parsed.file) or _UNNAMED


def generate_name(name: str) -> str:
    """The beginning of the object's name, which the server completes."""
    start = slug(name)[: _LONGEST_PREFIX - 1].rstrip("-") or _UNNAMED
    return f"{_UNNAMED}-{start}-" if start.isdecimal() else f"{start}-"


def slug(text: str) -> str:
    """The text as a part of a name: small letters, digits and single dashes; empty if none are left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def _check(overrides: Overrides) -> None:
    if not 1 <= overrides.num_jobs <= MOST_JOBS:
        raise TaskError(f"must be from 1 to {MOST_JOBS}, but is {overrides.num_jobs}", field="--num-jobs")
    if overrides.num_jobs > 1 and overrides.cluster:
        message = f"{overrides.num_jobs} jobs cannot have one name; leave out --cluster {shown(overrides.cluster)}"
        raise TaskError(message, field="--num-jobs")
    if overrides.cluster and not is_dns_label(overrides.cluster):
        raise TaskError(
            f"{shown(overrides.cluster)} cannot be the name of a job; use small letters, digits and `-`, at most 63, "
            f"such as {slug(overrides.cluster)[:63].rstrip('-') or _UNNAMED}",
            field="--cluster",
        )
    for flag, name in (("--cluster", overrides.cluster), ("--name", overrides.name.strip())):
        if _LIKE_IDS.fullmatch(name):
            raise TaskError(
                f"{shown(name)} looks like the id of a job, or a range of ids; add a letter, such as job-{name}",
                field=flag,
            )
    if not overrides.name.strip().isprintable() or len(overrides.name) > _LONGEST_NAME:
        raise TaskError(f"must be one line of at most {_LONGEST_NAME} printable characters", field="--name")


def _allowed(tasks: list[Task], config: LaunchConfig) -> tuple[list[Task], tuple[str, ...]]:
    """The tasks without candidates that the configuration does not allow to be sent away."""
    allowed = config.allowed_contexts
    if allowed is None or ALL_CONTEXTS in allowed:
        return tasks, ()
    refused = sorted({one.infra for task in tasks for one in task.candidates if one.infra and one.infra not in allowed})
    if not refused:
        return tasks, ()
    kept = []
    for task in tasks:
        candidates = tuple(one for one in task.candidates if not one.infra or one.infra in allowed)
        if not candidates:
            raise TaskError(
                f"{', '.join(refused)} is not among kubernetes.allowed_contexts of the configuration; add it there, or "
                "remove infra to run here",
                field="infra",
            )
        kept.append(structs.replace(task, candidates=candidates))
    listed = ", ".join(refused)
    return kept, (f"candidates on {listed} are skipped: not among kubernetes.allowed_contexts of the configuration",)


def _with_queue(tasks: list[Task], config: LaunchConfig, overrides: Overrides) -> tuple[list[Task], str]:
    """The tasks, and the queue of all of them; empty where they differ, and then each candidate has its label."""
    if overrides.queue:
        asked = queue_name(overrides.queue, _flag("--queue"))
        return [_without(structs.replace(task, queue=""), QUEUE_NAME) for task in tasks], asked

    def of(task: Task, candidate: Candidate) -> str:
        return candidate.labels.get(QUEUE_NAME) or task.queue or config.queue

    found = {of(task, one) for task in tasks for one in task.candidates}
    if len(found) == 1:
        return [_without(structs.replace(task, queue=""), QUEUE_NAME) for task in tasks], found.pop()
    return [
        structs.replace(
            task, queue="", candidates=tuple(_labelled(one, QUEUE_NAME, of(task, one)) for one in task.candidates)
        )
        for task in tasks
    ], ""


def _with_priority(tasks: list[Task], config: LaunchConfig, overrides: Overrides) -> tuple[list[Task], _Priority]:
    """The same for the priority. A task has either a number or classes, so those of one task stay together."""
    if overrides.priority is not None:
        asked = _Priority()
        if str(overrides.priority).strip().lower() != NOTHING:
            asked = _as_priority(priority_of(overrides.priority, _flag("--priority")))
        return [_without(structs.replace(task, priority=None), PRIORITY_CLASS) for task in tasks], asked
    default = _as_priority(config.priority)

    def of(task: Task, candidate: Candidate) -> _Priority:
        named = candidate.labels.get(PRIORITY_CLASS)
        if named:
            return _Priority(class_name=named)
        return _Priority(number=task.priority) if task.priority is not None else default

    found = {of(task, one) for task in tasks for one in task.candidates}
    if len(found) == 1:
        return [_without(structs.replace(task, priority=None), PRIORITY_CLASS) for task in tasks], found.pop()
    kept = []
    for task in tasks:
        candidates = tuple(_labelled(one, PRIORITY_CLASS, of(task, one).class_name) for one in task.candidates)
        numbers = {of(task, one).number for one in task.candidates}
        number = numbers.pop() if len(numbers) == 1 else None
        kept.append(structs.replace(task, candidates=candidates, priority=number))
    return kept, _Priority()


def _as_priority(value: int | str | None) -> _Priority:
    return _Priority(class_name=value) if isinstance(value, str) else _Priority(number=value)


def _without(task: Task, label: str) -> Task:
    return structs.replace(task, candidates=tuple(_labelled(one, label, "") for one in task.candidates))


def _labelled(candidate: Candidate, label: str, value: str) -> Candidate:
    """With the label, or without it if the value is empty."""
    if candidate.labels.get(label, "") == value and (value or label not in candidate.labels):
        return candidate
    labels = {name: one for name, one in candidate.labels.items() if name != label}
    return structs.replace(candidate, labels={**labels, label: value} if value else labels)


def _pod_config(config: LaunchConfig) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if config.service_account:
        spec["serviceAccountName"] = config.service_account
    if config.image:
        spec["containers"] = [{"image": config.image}]
    return merged({"spec": spec}, config.pod_config) if spec else config.pod_config


def _secret(parsed: ParsedFile, name: str) -> dict[str, Any] | None:
    values: dict[str, str] = {}
    for task in parsed.tasks:
        for key, value in task.secrets.items():
            if values.setdefault(key, value) != value:
                message = f"two tasks give the secret {key} different values; use two names"
                raise TaskError(message, file=parsed.file, field="secrets")
    if not values:
        return None
    if not name:
        raise ValueError("a launch with secrets needs the name of a Secret")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {SECRET_LABEL: "managed-jobs"}},
        "type": "Opaque",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def _metadata(name: str, queue: str, overrides: Overrides) -> dict[str, Any]:
    named = {"name": overrides.cluster} if overrides.cluster else {"generateName": generate_name(name)}
    metadata: dict[str, Any] = dict(named)
    if queue:
        metadata["labels"] = {QUEUE_NAME: queue}
    return metadata


def _copies(metadata: dict[str, Any], spec: dict[str, Any], count: int, array: str) -> list[dict[str, Any]]:
    def job(spec: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": dict(metadata), "spec": spec}

    if count == 1:
        return [job(spec)]
    if not array:
        raise ValueError("several jobs need the id of an array")
    return [job({**spec, "rank": rank, "numJobs": count, "array": array}) for rank in range(count)]


def _stem(file: str) -> str:
    if file == _STDIN:
        return ""
    name = file.replace("\\", "/").rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    return stem.strip(".-")[:_LONGEST_NAME]


def _flag(flag: str) -> Where:
    source = SourceMap()
    source.flags[("",)] = flag
    return Where(source, ("",))
