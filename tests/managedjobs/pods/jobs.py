"""Managed jobs as the API stores them, and pods made of them."""

from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.injection import PodSetInfo
from fairway.integrations.workloads import MAIN
from fairway.managedjobs.machine import ThisMachine
from fairway.managedjobs.platform import Platform
from fairway.managedjobs.pods import attempt_pods, pod_template
from fairway.managedjobs.tasks.task import Candidate, Task

PLACES = ThisMachine(archives="/state/archives", checkpoint_root="/state/checkpoints")
UID = "0c9e6a3e-6f0e-4f0a-9d0a-000000000007"
DIGEST = "ab" * 32


def managed_job(name: str = "train-7", *, tasks: int = 1, namespace: str = "default", **spec: Any) -> Manifest:
    """A stored job. What its tasks are in the file does not matter here, their number and their names do."""
    return {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": {"name": name, "namespace": namespace, "uid": UID, "creationTimestamp": "2026-09-01T10:20:30Z"},
        "spec": {
            "id": 7,
            "user": "ada",
            "name": "train",
            "tasks": [{"name": f"step-{number}"} for number in range(tasks)],
            **spec,
        },
    }


def template_of(task: Task | None = None, candidate: Candidate | None = None, **spec: Any) -> Manifest:
    return pod_template(managed_job(**spec), task or Task(), 0, candidate or Candidate(), PLACES)


def pods_of(
    task: Task | None = None,
    job: Manifest | None = None,
    *,
    task_index: int = 0,
    attempt: int = 1,
    cause: str = "",
    info: PodSetInfo | None = None,
    platform: Platform = PLACES,
) -> list[Manifest]:
    """The pods of an attempt at a task with its first candidate."""
    job, task = job or managed_job(), task or Task()
    return attempt_pods(
        job,
        task.candidates[0],
        task=task,
        task_index=task_index,
        attempt=attempt,
        cause=cause,
        infos={} if info is None else {MAIN: info},
        platform=platform,
    )


def main_of(manifest: Manifest) -> Manifest:
    """The container that runs the task, of a pod or a template."""
    found: Manifest = next(one for one in manifest["spec"]["containers"] if one["name"] == "run")
    return found


def container_of(manifest: Manifest, name: str) -> Manifest:
    spec = manifest["spec"]
    found: Manifest = next(
        one for one in [*(spec.get("initContainers") or ()), *spec["containers"]] if one["name"] == name
    )
    return found


def values_of(container: Manifest) -> dict[str, str]:
    """Variables that are declared with a value, as they are written in the manifest."""
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}
