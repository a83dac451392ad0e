"""Configuration of launches, in layers; a later layer overrides an earlier one.

The layers are the user's file, the project's file, the environment and flags. Reading files is the command line's; here
a text becomes a `LaunchConfig`, and several become one. SkyPilot's `kubernetes:` block is understood as it is.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fairway.errors import ValidationError
from fairway.integrations.names import PRIORITY_CLASS, QUEUE_NAME
from fairway.managedjobs.configured import ENVIRONMENT, LaunchConfig, RunnerConfig
from fairway.managedjobs.merging import merged
from fairway.managedjobs.runnerconfig import FIELDS as RUNNER
from fairway.managedjobs.runnerconfig import runner
from fairway.managedjobs.tasks import documents
from fairway.managedjobs.tasks.documents import Document
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.kubernetes import KNOWN as KUBERNETES
from fairway.managedjobs.tasks.kubernetes import kubernetes
from fairway.managedjobs.tasks.labels import label_value, object_name
from fairway.managedjobs.tasks.parse import warning
from fairway.managedjobs.tasks.places import Path, SourceMap, Where
from fairway.managedjobs.tasks.resources import priority as priority_number
from fairway.managedjobs.tasks.values import mapping, shown, text, unknown, whole

if TYPE_CHECKING:
    from fairway.schedulers.config import QueueConfig

_FIELDS: Final = ("kubernetes", "jobs", "server", "runner", "queueconfig")
_MEANINGLESS: Final = (
    "active_workspace", "admin_policy", "allowed_clouds", "api_server", "auth", "aws", "azure", "daemons", "dashboard",
    "data", "db", "docker", "gcp", "ibm", "lambda", "logs", "metrics", "nebius", "nvidia_gpus", "oci", "provision",
    "rbac", "runpod", "serve", "slurm", "ssh", "vast", "vsphere", "workspaces",
)  # fmt: skip
_JOBS: Final = ("queue", "priority", "aging")
_JOBS_MEANINGLESS: Final = ("bucket", "controller", "force_disable_cloud_bucket", "status_check", "pool")
_SERVER: Final = ("kubeconfig", "context", "namespace")
_HIGHEST_AGING: Final = 1_000_000
_STEPS: Final = re.compile(r"[^.\[\]]+")


def parse(text: str | bytes, file: str) -> LaunchConfig:
    """The configuration of one file; `TaskError` for the first thing that is wrong with it."""
    return _config(documents.read_map(text, file, "a configuration file"))


def from_environment(environ: Mapping[str, str]) -> LaunchConfig:
    """What the environment says; empty variables say nothing."""
    value: dict[str, Any] = {}
    source = SourceMap()
    for variable, path in ENVIRONMENT.items():
        given = environ.get(variable, "").strip()
        if given:
            _set(value, tuple(path.split(".")), given)
            source.flags[tuple(path.split("."))] = variable
    return _config(Document(value, source))


def from_settings(settings: Sequence[str]) -> LaunchConfig:
    """What `--config key.path=value` says, each a field. What follows `labels.` or `annotations.` is one key."""
    value: dict[str, Any] = {}
    source = SourceMap()
    for setting in settings:
        key, equals, given = setting.partition("=")
        path = _path(key.strip())
        if not equals or not all(path):
            message = f"{shown(setting)} is not key=value; write for example kubernetes.provision_timeout=600"
            raise TaskError(message, field="--config")
        flag = f"--config {key.strip()}"
        if not _set(value, path, _value(given.strip(), flag)):
            raise TaskError("another --config gives this field a value, and fields below it cannot be set", field=flag)
        source.flags[path] = flag
    return _config(Document(value, source))


def merge(layers: Iterable[LaunchConfig]) -> LaunchConfig:
    """One configuration from several, the weakest first. Parts of pods are laid over each other, as in `merging`."""
    result: dict[str, Any] = {}
    for layer in layers:
        for name in LaunchConfig.__struct_fields__:
            value = getattr(layer, name)
            if name == "pod_config":
                result[name] = merged(result.get(name, {}), value)
            elif name == "warnings":
                result[name] = tuple(dict.fromkeys((*result.get(name, ()), *value)))
            elif value not in (None, "", RunnerConfig()):
                result[name] = value
    return LaunchConfig(**result)


def _config(document: Document) -> LaunchConfig:
    where, value = document.where, document.value
    ignored: list[Where] = []
    for name in value:
        if name in _MEANINGLESS:
            ignored.append(where.at(name))
        elif name not in _FIELDS:
            raise unknown(name, _FIELDS, where.at(name), _belongs(name), also=_MEANINGLESS)
    block = kubernetes(value.get("kubernetes"), where.at("kubernetes"), ignored, of_task=False)
    jobs = _block(value, "jobs", _JOBS, _JOBS_MEANINGLESS, where, ignored)
    server = _block(value, "server", _SERVER, (), where, ignored)
    aging = _block(jobs, "aging", ("step", "cap"), (), where.at("jobs"), ignored)
    pod_config, labels = _without_queue_labels(block.pod_config)
    at = where.at("jobs")
    queue, priority = jobs.get("queue"), jobs.get("priority")
    return LaunchConfig(
        queue=queue_name(queue, at.at("queue")) if queue is not None else block.queue or labels.get(QUEUE_NAME, ""),
        priority=priority_of(priority, at.at("priority")) if priority is not None else labels.get(PRIORITY_CLASS),
        aging_step=_aging(aging, "step", at),
        aging_cap=_aging(aging, "cap", at),
        pod_config=pod_config,
        provision_timeout_seconds=block.provision_timeout_seconds,
        image=block.image,
        checkpoints=block.checkpoints,
        files_volume=block.files,
        service_account=block.service_account,
        allowed_contexts=block.allowed_contexts,
        runner=runner(value.get("runner"), where.at("runner")),
        queueconfig=_queueconfig(value["queueconfig"], where) if "queueconfig" in value else None,
        namespace=_text(server, "namespace", where) or block.namespace,
        other_servers=block.kubeconfig,
        kubeconfig=_text(server, "kubeconfig", where),
        context=_text(server, "context", where),
        warnings=warning(ignored, document.source.file),
    )


def queue_name(value: Any, where: Where) -> str:
    """The name of a LocalQueue."""
    return label_value(object_name(text(value, where, "user-queue"), where, "a queue"), where)


def priority_of(value: Any, where: Where) -> int | str:
    """A number, or the name of a class."""
    if type(value) is str and not value.strip().lstrip("+-").isdecimal():
        return label_value(object_name(value.strip(), where, "a priority class"), where)
    return priority_number(value, where)


def _block(
    value: dict[str, Any],
    name: str,
    known: tuple[str, ...],
    meaningless: tuple[str, ...],
    where: Where,
    ignored: list[Where],
) -> dict[str, Any]:
    inner = where.at(name)
    block = mapping(value.get(name), inner, f"{{{known[0]}: …}}")
    for key in block:
        if key in meaningless:
            ignored.append(inner.at(key))
        elif key not in known:
            raise unknown(key, known, inner.at(key), also=meaningless)
    return block


def _without_queue_labels(pod_config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The part of a pod without the labels that the queue reads, and those labels."""
    labels = (pod_config.get("metadata") or {}).get("labels") or {}
    taken = {name: labels[name] for name in (QUEUE_NAME, PRIORITY_CLASS) if name in labels}
    if not taken:
        return pod_config, {}
    metadata = {**pod_config["metadata"], "labels": {name: one for name, one in labels.items() if name not in taken}}
    kept = {name: one for name, one in metadata.items() if one}
    return {name: one for name, one in {**pod_config, "metadata": kept}.items() if one}, taken


def _aging(aging: dict[str, Any], name: str, where: Where) -> int | None:
    value = aging.get(name)
    at = where.at("aging", name)
    return None if value is None else whole(value, at, least=0, most=_HIGHEST_AGING, example="10, or 0 for no aging")


def _text(block: dict[str, Any], name: str, where: Where) -> str:
    value, at = block.get(name), where.at("server", name)
    if value is None:
        return ""
    found = text(value, at, "research")
    return object_name(found, at, "a namespace") if name == "namespace" else found


def _queueconfig(value: Any, where: Where) -> "QueueConfig":
    from fairway.entrypoints import SchedulerNames  # noqa: PLC0415 - hardly any configuration has it
    from fairway.schedulers.config import KEY, read_queue_config  # noqa: PLC0415

    try:
        return read_queue_config(value, SchedulerNames(), KEY)
    except ValidationError as refused:
        error = refused.errors[0]
        message = str(error).removeprefix(f"{error.path}: ")
        steps = [int(step) if step.isdigit() else step for step in _STEPS.findall(error.path)]
        raise where.at(*steps).error(message, error.value) from None


def _belongs(name: str) -> str:
    """Which block a field that stands outside of all belongs to."""
    for block, fields in (("jobs", _JOBS), ("server", _SERVER), ("kubernetes", KUBERNETES), ("runner", RUNNER)):
        if name in fields:
            return f"write it below `{block}:`"
    return ""


def _path(key: str) -> Path:
    for sign in (".labels.", ".annotations."):
        before, found, after = key.partition(sign)
        if found:
            return (*before.split("."), sign.strip("."), after)
    return tuple(key.split("."))


def _set(value: dict[str, Any], path: Path, given: Any) -> bool:
    for name in path[:-1]:
        value = value.setdefault(str(name), {})
        if type(value) is not dict:
            return False
    value[str(path[-1])] = given
    return True


def _value(given: str, flag: str) -> Any:
    if given[:1] not in {"{", "["}:
        return documents.scalar(given) if given else None
    try:
        return documents.read_map(f"value: {given}", "", "a setting").value["value"]
    except TaskError as error:
        raise TaskError(error.message, field=flag) from None
