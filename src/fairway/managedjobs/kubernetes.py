"""Pods on the kubelets of a cluster: images, files from Secrets or volumes, checkpoints, nodes that meet by DNS.

Everything of ours in a container is below `/fairway`, an emptyDir; with files it is also where the working directory
is. A task without files starts in the working directory of its image.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.workloads import owner_reference
from fairway.managedjobs import clusterscripts, environment, gpulabels, raynodes
from fairway.managedjobs.clusterfiles import CHUNK_KEY, chunk_names
from fairway.managedjobs.containers import FILES, beside, containers_of, require_accelerator, target
from fairway.managedjobs.environment import AttemptEnvironment
from fairway.managedjobs.podconfig import RUN
from fairway.managedjobs.pods import JOB, TASK, pod_name
from fairway.managedjobs.tasks.task import Candidate, CheckpointVolume, Task, node_count

DEFAULT_IMAGE: Final = "python:3.11"
HOME: Final = "/fairway"
WORK: Final = f"{HOME}/work"
CHECKPOINTS: Final = "/fairway-checkpoints"
_FILES: Final = "/fairway-files"
_VOLUME: Final = "fairway"
_SHARED_MEMORY: Final = "fairway-shared-memory"
_FOR_FILES: Final = ("image", "imagePullPolicy", "securityContext", "resources")
_READY_SECONDS: Final = 1

NodeLabels = Callable[[], Iterable[Mapping[str, str]]]


class OnKubernetes(Struct, frozen=True, kw_only=True):
    """Pods of a cluster."""

    image: str = DEFAULT_IMAGE
    checkpoint_volume: CheckpointVolume | None = None
    """Of tasks that say nothing about it; `None` for none."""

    node_labels: NodeLabels = tuple
    """The labels of all nodes."""

    def prepare(self, spec: Manifest, task: Task, candidate: Candidate) -> None:
        if candidate.accelerators:
            require_accelerator(spec, gpulabels.labels_for(candidate.accelerators, self.node_labels()))
        main = containers_of(spec)[RUN]
        if task.files:
            spec["initContainers"] = [*(spec.get("initContainers") or ()), beside(main, FILES, _FOR_FILES)]

    def checkpoints(self, _job: Manifest, task_index: int, task: Task, /) -> str:
        return f"{CHECKPOINTS}/{task_index}" if self._volume(task) is not None else ""

    def addresses(self, _task: Task, /) -> tuple[str, ...]:
        return ()

    def fill(self, spec: Manifest, attempt: AttemptEnvironment, rank: int) -> None:
        task, job = attempt.task, attempt.job
        main = containers_of(spec)[RUN]
        volumes = spec.setdefault("volumes", [])
        volumes.append({"name": _VOLUME, "emptyDir": {}})
        _mount(main, _VOLUME, HOME)
        if task.files:
            main.setdefault("workingDir", WORK)
            self._fill_files(containers_of(spec)[FILES], main["workingDir"], task, volumes)
        checkpoints = self._volume(task)
        if checkpoints is not None:
            claim = checkpoints.claim or claim_name(job)
            volumes.append({"name": "fairway-checkpoints", "persistentVolumeClaim": {"claimName": claim}})
            # A claim that others use, too, has a directory for each job.
            within = {"subPath": job["metadata"]["uid"]} if checkpoints.claim else {}
            _mount(main, "fairway-checkpoints", CHECKPOINTS, **within)
        ray: list[str] = []
        if task.ray is not None:
            ray = raynodes.arguments_on_cluster(task, rank, main)
            volumes.append({"name": _SHARED_MEMORY, "emptyDir": {"medium": "Memory"}})
            _mount(main, _SHARED_MEMORY, "/dev/shm")  # noqa: S108 - where Ray's object store is
        main["command"] = clusterscripts.run_command(
            task.setup,
            task.run,
            own_home=task.has_own_home,
            nodes=task.num_nodes,
            checkpoints=checkpoints is not None,
            ray=ray,
            is_driver=not rank,
        )
        ours = environment.run_variables(attempt, rank)
        if task.ray is not None and "RAY_AUTH_MODE" not in {*task.envs, *task.secrets}:
            ours["RAY_AUTH_MODE"] = "disabled"
        if task.setup:
            ours |= environment.setup_variables(attempt, rank)
        if task.num_nodes > 1:
            ours |= self._join(spec, main, attempt, rank)
        declared = environment.declared(ours, task, job["spec"].get("secretName", ""), main.get("env"))
        address = {"name": "FAIRWAY_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        main["env"] = [address, *(one for one in declared if one["name"] != address["name"])]

    def needed(self, job: Manifest, task_index: int, task: Task, /) -> list[Manifest]:
        found: list[Manifest] = []
        volume = self._volume(task)
        if volume is not None and not volume.claim:
            found.append(_claim(job, volume, several=any(node_count(one) > 1 for one in job["spec"]["tasks"])))
        if task.num_nodes > 1:
            found.append(_service(job, task_index, "", ready_only=False))
            if task.setup:
                found.append(_service(job, task_index, "-ready", ready_only=True))
        return found

    def _volume(self, task: Task) -> CheckpointVolume | None:
        return task.checkpoints or self.checkpoint_volume

    def _fill_files(self, container: Manifest, work: str, task: Task, volumes: list[Manifest]) -> None:
        unpacked = []
        for number, files in enumerate(task.files):
            volume = f"fairway-files-{number}"
            if files.claim:
                volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": files.claim}})
            else:
                volumes.append({"name": volume, "projected": {"sources": _sources(files.archive, files.size)}})
            _mount(container, volume, f"{_FILES}/{number}", readOnly=True)
            path = target(files, task)
            source = f"{_FILES}/{number}/files" if files.claim else f"{_FILES}/{number}"
            unpacked.append((source, path if path.startswith("/") else f"{work}/{path}"))
        _mount(container, _VOLUME, HOME)
        container["command"] = clusterscripts.files_command(unpacked)

    def _join(self, spec: Manifest, main: Manifest, attempt: AttemptEnvironment, rank: int) -> dict[str, str]:
        """Make a pod one of several nodes; the variables by which it finds the others."""
        job, task = attempt.job, attempt.task
        service = service_name(job, attempt.task_index)
        names = [pod_name(job, attempt.task_index, attempt.number, one) for one in range(task.num_nodes)]
        spec["hostname"], spec["subdomain"] = names[rank], service
        if task.setup:
            check = ["sh", "-c", f"test -e {clusterscripts.READY_FILE}"]
            main.setdefault("readinessProbe", {"exec": {"command": check}, "periodSeconds": _READY_SECONDS})
        return {"FAIRWAY_SERVICE": service, "FAIRWAY_NODE_NAMES": " ".join(names)}


def claim_name(job: Manifest) -> str:
    """The PersistentVolumeClaim for the checkpoints of a job."""
    return f"fairway-checkpoints-{job['metadata']['uid']}"


def service_name(job: Manifest, task_index: int) -> str:
    """The headless Service of a task with several nodes; names of Services begin with a letter."""
    return f"fw-{job['metadata']['uid'].partition('-')[0]}-{task_index}"


def _sources(digest: str, size: int) -> list[Manifest]:
    return [
        {"secret": {"name": name, "items": [{"key": CHUNK_KEY, "path": f"{index:04}"}]}}
        for index, name in enumerate(chunk_names(digest, size))
    ]


def _mount(container: Manifest, volume: str, path: str, **more: Any) -> None:
    container.setdefault("volumeMounts", []).append({"name": volume, "mountPath": path, **more})


def _claim(job: Manifest, volume: CheckpointVolume, *, several: bool) -> Manifest:
    mode = volume.access_mode or ("ReadWriteMany" if several else "ReadWriteOnce")
    spec: Manifest = {"accessModes": [mode], "resources": {"requests": {"storage": volume.size}}}
    if volume.storage_class:
        spec["storageClassName"] = volume.storage_class
    metadata = _owned(job, claim_name(job))
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _service(job: Manifest, task_index: int, suffix: str, *, ready_only: bool) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned(job, service_name(job, task_index) + suffix),
        "spec": {
            "clusterIP": "None",
            "selector": {JOB: job["metadata"]["name"], TASK: str(task_index)},
            "publishNotReadyAddresses": not ready_only,
        },
    }


def _owned(job: Manifest, name: str) -> Manifest:
    metadata = job["metadata"]
    labels = {JOB: metadata["name"]}
    return {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": labels,
        "ownerReferences": [owner_reference(job)],
    }
