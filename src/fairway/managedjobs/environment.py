"""The environment variables of a task.

All of SkyPilot's that mean something here, each with a twin that begins with `FAIRWAY_`, and a few that only Fairway
has. They win over variables of the task with the same name, so that they are always true. Below them
come the task's secrets, its `envs`, and what a `pod_config` sets.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs.scripts import verbatim
from fairway.managedjobs.tasks.task import Task

_REGION: Final = "fairway"
"""The context by which the server's own kubeconfig calls it."""

_DEFAULTS: Final = {"PYTHONUNBUFFERED": "1"}
"""So that output is in the log when it is printed; a task may override it."""


class AttemptEnvironment(Struct, frozen=True, kw_only=True):
    """One attempt at one task, as its variables describe it."""

    job: Manifest
    task: Task
    task_index: int
    number: int
    """From 1, for each task."""

    cause: str
    """Why there was another before: empty, `preempted`, `lost`, `error`, `held`, `retry`, `moved`."""

    cluster: str
    """What the pods of the attempt have in common in their names."""

    gpus: int
    """On every node."""

    checkpoints: str
    """A directory that all attempts at the task share; empty if there is none."""

    addresses: tuple[str, ...]
    """Of the nodes, by rank; empty if the pods find them out."""


def run_variables(attempt: AttemptEnvironment, rank: int) -> dict[str, str]:
    """Ours, for `run` on one node."""
    return _common(attempt) | _twice(_of_node(attempt, rank))


def setup_variables(attempt: AttemptEnvironment, rank: int) -> dict[str, str]:
    """Ours, for `setup` on one node: what is said about nodes has other names there."""
    return _common(attempt) | _twice({f"SETUP_{name}": value for name, value in _of_node(attempt, rank).items()})


def declared(
    ours: Mapping[str, str], task: Task, secret_name: str, others: list[Manifest] | None = None
) -> list[Manifest]:
    """All variables of a container, as a pod declares them; `others` are those of a `pod_config`."""
    result: dict[str, Manifest] = {name: _value(name, text) for name, text in _DEFAULTS.items()}
    result |= {variable["name"]: variable for variable in others or ()}
    result |= {name: _value(name, text) for name, text in task.envs.items()}
    result |= {name: _secret(name, secret_name) for name in task.secrets}
    result |= {name: _value(name, text) for name, text in ours.items()}
    return list(result.values())


def task_id(job: Manifest, task_index: int) -> str:
    """What a task is called over all of its attempts, in SkyPilot's form: by when, name and number."""
    metadata, spec = job["metadata"], job["spec"]
    moment = "".join("-" if sign in "T:" else sign for sign in metadata.get("creationTimestamp", "").rstrip("Z"))
    names = [spec.get("name") or metadata["name"]]
    if len(spec["tasks"]) > 1:
        names.append(spec["tasks"][task_index].get("name") or f"task{task_index}")
    return f"sky-managed-{moment}_{'_'.join(names)}_{spec.get('id', 0)}-{task_index}"


def _common(attempt: AttemptEnvironment) -> dict[str, str]:
    job, spec = attempt.job, attempt.job["spec"]
    number = str(spec.get("id", 0))
    cluster = {"cluster_name": attempt.cluster, "cloud": "Kubernetes", "region": _REGION, "zone": None}
    shared = {
        "TASK_ID": task_id(job, attempt.task_index),
        "TASK_IDS": "\n".join(task_id(job, index) for index in range(len(spec["tasks"]))),
        "MANAGED_JOB_ID": number,
        "INTERNAL_JOB_ID": number,
        "CLUSTER_INFO": msgspec.json.encode(cluster).decode(),
        "USER": spec.get("user", ""),
        "NUM_NODES": str(attempt.task.num_nodes),
        "JOB_RANK": str(spec.get("rank", 0)),
        "NUM_JOBS": str(spec.get("numJobs") or 1),
    }
    return _twice(shared) | {
        "FAIRWAY_JOB_ID": number,
        "FAIRWAY_JOB_NAME": job["metadata"]["name"],
        "FAIRWAY_ATTEMPT": str(attempt.number),
        "FAIRWAY_RESTART_CAUSE": attempt.cause,
        **({"FAIRWAY_CHECKPOINT_DIR": attempt.checkpoints} if attempt.checkpoints else {}),
    }


def _of_node(attempt: AttemptEnvironment, rank: int) -> dict[str, str]:
    known = {"NODE_IPS": "\n".join(attempt.addresses)} if attempt.addresses else {}
    return {"NODE_RANK": str(rank), **known, "NUM_GPUS_PER_NODE": str(attempt.gpus)}


def _twice(variables: Mapping[str, str]) -> dict[str, str]:
    return {prefix + name: value for name, value in variables.items() for prefix in ("SKYPILOT_", "FAIRWAY_")}


def _value(name: str, text: str) -> Manifest:
    return {"name": name, "value": verbatim(text)}


def _secret(name: str, secret_name: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name, "key": name}}}
