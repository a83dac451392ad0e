"""Encodes a task in SkyPilot's format for `spec.tasks` of a ManagedJob: resolved, and always in the same shape.

Reading what is written here gives the same task.
"""

from typing import Any

from msgspec import structs

from fairway.managedjobs.tasks.accelerators import ANY_MODEL
from fairway.managedjobs.tasks.task import Candidate, Files, RayWorkers, Recovery, Task


def mapping_of(task: Task) -> dict[str, Any]:
    """What `parse.task_of` reads as this task."""
    result: dict[str, Any] = {
        "name": task.name,
        "num_nodes": task.num_nodes if task.num_nodes != 1 and task.ray is None else None,
        "ray": None if task.ray is None else _ray(task.ray),
        "resources": _resources(task),
        "envs": dict(task.envs),
        "secrets": list(task.secrets),
        "files": [_files(one) for one in task.files],
        "setup": task.setup,
        "run": task.run,
        "max_duration": task.max_duration_seconds,
        "config": _config(task),
    }
    return {name: value for name, value in result.items() if value not in (None, "", [], {})}


def _files(files: Files) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(files).items() if value}


def _resources(task: Task) -> dict[str, Any]:
    candidates = [_candidate(one) for one in task.candidates]
    result: dict[str, Any] = dict(candidates[0]) if len(candidates) == 1 else {"ordered": candidates}
    if task.recovery != Recovery():
        result["job_recovery"] = _recovery(task.recovery)
    if task.priority is not None:
        result["priority"] = task.priority
    return result


def _candidate(candidate: Candidate) -> dict[str, Any]:
    names = candidate.accelerators or (ANY_MODEL,)
    result: dict[str, Any] = {
        "infra": f"k8s/{candidate.infra}" if candidate.infra else "",
        "cpus": candidate.cpus,
        "memory": _bytes(candidate.memory),
        "accelerators": dict.fromkeys(names, candidate.gpus) if candidate.gpus else None,
        "image_id": candidate.image,
        "labels": dict(candidate.labels),
    }
    return {name: value for name, value in result.items() if value not in (None, "", {})}


def _ray(ray: RayWorkers) -> dict[str, Any]:
    found = _candidate(ray.each(Candidate()))
    gpus = found.pop("accelerators", None)
    return {"workers": ray.count, **found, **({"gpus": gpus} if gpus else {})}


def _bytes(quantity: str) -> str:
    """A number alone would be read as GiB."""
    return f"{quantity}B" if quantity.isdecimal() else quantity


def _recovery(recovery: Recovery) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if recovery.max_restarts_on_errors:
        result["max_restarts_on_errors"] = recovery.max_restarts_on_errors
    if recovery.exit_codes:
        result["recover_on_exit_codes"] = sorted(recovery.exit_codes)
    return result


def _config(task: Task) -> dict[str, Any]:
    block: dict[str, Any] = {}
    if task.pod_config:
        block["pod_config"] = task.pod_config
    if task.provision_timeout_seconds is not None:
        block["provision_timeout"] = task.provision_timeout_seconds
    if task.service_account:
        block["remote_identity"] = task.service_account
    if task.checkpoints is not None:
        claim = task.checkpoints.claim
        said = {"claim": claim} if claim else structs.asdict(task.checkpoints)
        block["checkpoints"] = {name: one for name, one in said.items() if one}
    if task.files_volume is not None:
        block["files"] = {name: one for name, one in structs.asdict(task.files_volume).items() if one}
    if task.queue:
        block["kueue"] = {"local_queue_name": task.queue}
    return {"kubernetes": block} if block else {}
