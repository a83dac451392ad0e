"""Parses documents into tasks, and warns about ignored fields.

`tasks_of` reads what people write; `task_of` and `stored_tasks` read what a ManagedJob holds (`spec.tasks`), which is
the same form with everything resolved: variables have values, secrets are names, files are archives.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, field

from fairway.errors import FieldError
from fairway.integrations.names import PRIORITY_CLASS
from fairway.managedjobs.tasks import amounts
from fairway.managedjobs.tasks.documents import MOST_TASKS, Document, TaskFile
from fairway.managedjobs.tasks.envs import envs, missing, secret_names, secrets
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.files import Mount, file_mounts, stored_files, workdir
from fairway.managedjobs.tasks.kubernetes import kubernetes
from fairway.managedjobs.tasks.overrides import Overrides, laid_over
from fairway.managedjobs.tasks.places import SourceMap, Where
from fairway.managedjobs.tasks.ray import ray
from fairway.managedjobs.tasks.resources import KNOWN as RESOURCE_FIELDS
from fairway.managedjobs.tasks.resources import Needs, needs
from fairway.managedjobs.tasks.task import RayWorkers, Task
from fairway.managedjobs.tasks.values import clean, mapping, shown, sort_of, unknown, whole, written

MOST_NODES: Final = 1000
_LONGEST_NAME: Final = 200
_LONGEST_SCRIPT: Final = 500_000

_COMMON: Final = ("name", "num_nodes", "ray", "resources", "envs", "secrets", "setup", "run", "config", "max_duration")
FILE_FIELDS: Final = (*_COMMON, "workdir", "file_mounts")
_STORED_FIELDS: Final = (*_COMMON, "files")
MEANINGLESS: Final = ("api_server_access", "inputs", "outputs", "file_mounts_mapping", "_metadata", "experimental")
"""Fields that SkyPilot has and that say nothing about a job here."""

REFUSED: Final = {
    "pool": "there are no pools of workers here; remove it, and the job waits in its queue",
    "service": "Fairway runs jobs, not services; remove it, and let `run` end when its work is done",
    "volumes": "volumes cannot be mounted here; use file_mounts, or a path of this machine",
    "volume_mounts": "volumes cannot be mounted here; use file_mounts, or a path of this machine",
    "event_callback": "there are no callbacks here; remove it, and watch the job with `fairway jobs logs` or kubectl",
    "managed_secrets": "there is no store of secrets here; write the names under `secrets`, and pass --secret NAME=…",
}
"""Fields that would change what happens, and so are not left out in silence."""

_CONFIG_MEANINGLESS: Final = ("docker", "nvidia_gpus", "ssh", "gcp", "aws", "azure", "oci", "slurm", "active_workspace")
_HOOKS: Final = "there are no hooks here; catch SIGTERM in `run` (trap), which comes before a job is stopped"


class ParsedTask(Struct, frozen=True, kw_only=True):
    """A task of a file, before its files are packed."""

    task: Task
    mounts: tuple[Mount, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict)
    """Values. Not to be printed, nor kept anywhere but in a Secret."""

    def __repr__(self) -> str:
        return f"ParsedTask(task={self.task!r}, mounts={self.mounts!r}, secrets={list(self.secrets)!r})"


class ParsedFile(Struct, frozen=True, kw_only=True):
    """The tasks of a file, ready to be made into a job."""

    file: str
    name: str
    """Of the pipeline, or of its only task; empty if it has none."""

    tasks: tuple[ParsedTask, ...]
    warnings: tuple[str, ...] = ()

    @property
    def has_secrets(self) -> bool:
        return any(one.secrets for one in self.tasks)


def tasks_of(file: TaskFile, overrides: Overrides | None = None) -> ParsedFile:
    """The tasks of a file, under what the command line says; `TaskError` for the first thing that is wrong."""
    ignored: list[Where] = []
    name = _header(file.header, ignored) if file.header is not None else ""
    tasks = tuple(_of_file(laid_over(one, overrides or Overrides()), ignored) for one in file.tasks)
    return ParsedFile(
        file=file.file,
        name=name or (tasks[0].task.name if len(tasks) == 1 else ""),
        tasks=tasks,
        warnings=warning(ignored, file.file),
    )


def stored_tasks(job: dict[str, Any]) -> tuple[Task, ...]:
    """The tasks of a ManagedJob."""
    found = (job.get("spec") or {}).get("tasks")
    where = Where(SourceMap(prefix="spec.tasks"))
    if type(found) is not list or not found:
        raise where.error("must be a list of at least one task", found)
    _check_number(found, where)
    return tuple(task_of(one, Where(SourceMap(prefix=f"spec.tasks[{place}]"))) for place, one in enumerate(found))


def wrong_tasks(job: dict[str, Any]) -> list[FieldError]:
    """What is wrong with the tasks of a ManagedJob, one thing for each task."""
    found = (job.get("spec") or {}).get("tasks")
    errors = []
    try:
        _check_number(found if type(found) is list else [], Where(SourceMap(prefix="spec.tasks")))
    except TaskError as error:
        return [FieldError(error.field, error.value, error.rule, error.message)]
    for place, one in enumerate(found if type(found) is list else ()):
        try:
            task_of(one, Where(SourceMap(prefix=f"spec.tasks[{place}]")))
        except TaskError as error:
            errors.append(FieldError(error.field, error.value, error.rule, error.message))
    return errors


def _check_number(tasks: list[Any], where: Where) -> None:
    if len(tasks) > MOST_TASKS:
        raise where.error(f"a job has at most {MOST_TASKS} tasks, and here are {len(tasks)}; launch several jobs")


def task_of(value: Any, where: Where) -> Task:
    """One task of a ManagedJob. Ignored fields are no error: the launch has warned about them."""
    ignored: list[Where] = []
    task = mapping(value, where, "{run: echo hello}")
    _check_names(task, where, ignored, _STORED_FIELDS)
    variables = envs(task.get("envs"), where.at("envs"))
    without = [name for name, one in variables.items() if one is None]
    if without:
        raise where.at("envs", without[0]).error("has no value; a job that is launched has all of them")
    given = task.get("secrets")
    if given is not None and type(given) is not list:
        message = "must be a list of names; their values are in the Secret of spec.secretName"
        raise where.at("secrets").error(message, of_key=True)
    files = task.get("files")
    return _task(
        task,
        where,
        ignored,
        envs={name: one for name, one in variables.items() if one is not None},
        secrets=secret_names(given or [], where.at("secrets")),
        files=() if files is None else stored_files(files, where.at("files")),
    )


def warning(ignored: Iterable[Where], file: str) -> tuple[str, ...]:
    """The one warning about fields that mean nothing here, none if there are no such fields."""
    named = []
    for one in ignored:
        flag = one.source.flags.get(one.path)
        text = flag or (f"{one.field} (line {one.line})" if one.line else one.field)
        if text not in named:
            named.append(text)
    if not named:
        return ()
    means = "means nothing here and is left out" if len(named) == 1 else "mean nothing here and are left out"
    return (f"{file}: {', '.join(named)} {means}" if file else f"{', '.join(named)} {means}",)


def _header(document: Document, ignored: list[Where]) -> str:
    where, value = document.where, document.value
    ignored += [where.at(name) for name in value if name not in {"name", "execution"}]
    execution = value.get("execution")
    if execution not in (None, "serial", "parallel"):
        raise where.at("execution").error(f"{shown(execution)} is not known; write serial, or leave it out", execution)
    if execution == "parallel":
        message = "job groups (parallel) are not supported; write serial to run one task after another, or launch each"
        raise where.at("execution").error(f"{message} task from a file of its own", execution)
    return _name(value.get("name"), where.at("name"))


def _of_file(document: Document, ignored: list[Where]) -> ParsedTask:
    where, task = document.where, document.value
    _check_names(task, where, ignored, FILE_FIELDS)
    variables, values = _variables(task, where)
    mounts: tuple[Mount, ...] = ()
    if task.get("workdir") is not None:
        mounts += workdir(task["workdir"], where.at("workdir"), variables)
    mounts += file_mounts(task.get("file_mounts"), where.at("file_mounts"), variables)
    parsed = _task(task, where, ignored, envs=variables, secrets=tuple(values))
    if not parsed.run.strip() and not parsed.setup.strip():
        raise where.at("run").error("there is nothing to run; write for example `run: echo hello`", of_key=True)
    return ParsedTask(task=parsed, mounts=mounts, secrets=values)


def _variables(task: dict[str, Any], where: Where) -> tuple[dict[str, str], dict[str, str]]:
    """Envs and secrets, every one with its value."""
    found = envs(task.get("envs"), where.at("envs"))
    hidden = secrets(task.get("secrets"), where.at("secrets"))
    for name in found:
        if name in hidden:
            raise where.at("secrets", name).error("is among the envs too; remove it there", of_key=True)
    for field_name, flag, values in (("envs", "--env", found), ("secrets", "--secret", hidden)):
        without = [name for name, one in values.items() if one is None]
        if without:
            raise missing(without, flag, where.at(field_name, without[0]))
    return (
        {name: one for name, one in found.items() if one is not None},
        {name: one for name, one in hidden.items() if one is not None},
    )


def _task(task: dict[str, Any], where: Where, ignored: list[Where], **already: Any) -> Task:
    """What a file and a stored task have in common."""
    needed = needs(task.get("resources"), where.at("resources"), ignored)
    workers = None if task.get("ray") is None else ray(task["ray"], where.at("ray"), MOST_NODES - 1)
    block = _config(task.get("config"), where.at("config"), ignored)
    _check_one_priority(needed, where)
    return Task(
        name=_name(task.get("name"), where.at("name")),
        num_nodes=_num_nodes(task, workers, where.at("num_nodes")),
        ray=workers,
        setup=_script(task.get("setup"), where.at("setup")),
        run=_script(task.get("run"), where.at("run")),
        candidates=needed.candidates,
        recovery=needed.recovery,
        priority=needed.priority,
        max_duration_seconds=_max_duration(task, needed, where),
        pod_config=block.pod_config,
        checkpoints=block.checkpoints,
        files_volume=block.files,
        service_account=block.service_account,
        provision_timeout_seconds=block.provision_timeout_seconds,
        queue=block.queue,
        **already,
    )


def _num_nodes(task: dict[str, Any], workers: RayWorkers | None, where: Where) -> int:
    nodes = task.get("num_nodes")
    if workers is None:
        return 1 if nodes is None else whole(nodes, where, least=1, most=MOST_NODES, example="2")
    if nodes is not None:
        message = f"a task with ray has a head and ray.workers, here {workers.count}; remove it, or change ray.workers"
        raise where.error(message, nodes, of_key=True)
    return 1 + workers.count


def _check_names(task: dict[str, Any], where: Where, ignored: list[Where], known: tuple[str, ...]) -> None:
    for name in task:
        inner = where.at(name)
        if name in known:
            continue
        if name in MEANINGLESS:
            ignored.append(inner)
        elif name in REFUSED:
            raise inner.error(REFUSED[name], of_key=True)
        elif name in {"workdir", "file_mounts"}:
            message = "is for task files; a stored task has `files: [{archive: SHA-256, path: data}]`"
            raise inner.error(message, of_key=True)
        elif name in {"execution", "primary_tasks"}:
            raise inner.error(
                "belongs to the first document of a pipeline; put `---` and the tasks below it", of_key=True
            )
        else:
            hint = f"write it below `resources:`, as `resources: {{{name}: …}}`" if name in RESOURCE_FIELDS else ""
            raise unknown(name, known, inner, hint, also=(*MEANINGLESS, *REFUSED))


def _check_one_priority(needed: Needs, where: Where) -> None:
    if needed.priority is not None and any(PRIORITY_CLASS in one.labels for one in needed.candidates):
        raise where.at("resources", "priority").error(
            f"the label {PRIORITY_CLASS} says the priority too; keep one of them", needed.priority, of_key=True
        )


def _max_duration(task: dict[str, Any], needed: Needs, where: Where) -> int | None:
    inner = where.at("max_duration")
    if task.get("max_duration") is None:
        return needed.max_duration_seconds
    seconds = amounts.duration(task["max_duration"], inner)
    if needed.max_duration_seconds not in {None, seconds}:
        raise inner.error("resources.max_duration says something else; keep one of them", task["max_duration"])
    return seconds


def _config(value: Any, where: Where, ignored: list[Where]) -> Any:
    block = mapping(value, where, "{kubernetes: {provision_timeout: 600}}")
    for name in block:
        if name == "hooks":
            raise where.at(name).error(_HOOKS, of_key=True)
        if name in _CONFIG_MEANINGLESS:
            ignored.append(where.at(name))
        elif name != "kubernetes":
            raise unknown(name, ("kubernetes",), where.at(name), also=("hooks", *_CONFIG_MEANINGLESS))
    return kubernetes(block.get("kubernetes"), where.at("kubernetes"), ignored, of_task=True)


def _name(value: Any, where: Where) -> str:
    if value is None:
        return ""
    name = written(value, where, "train").strip()
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        raise where.error(f"{shown(value)} is not one line of at most {_LONGEST_NAME} characters; shorten it", value)
    return name


def _script(value: Any, where: Where) -> str:
    if value is None:
        return ""
    if type(value) is not str:
        what = "a list of commands" if type(value) is list else sort_of(value)
        raise where.error(
            f"must be a script, but is {what}; write `{where.path[-1]}: |`, and the commands below it", value
        )
    if len(value) > _LONGEST_SCRIPT:
        message = f"the script has {len(value)} characters, and at most {_LONGEST_SCRIPT} fit; put it into `workdir`"
        raise where.error(message)
    return clean(value, where)
