"""The Node object of this machine, and its lease.

A node stays Ready when the server ends, because its jobs keep running; only its lease expires.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import fairway
from fairway.apis.core.accelerators import GPU, MODELS
from fairway.apis.core.accelerators import LABEL as ACCELERATOR
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import quantity_of
from fairway.client.cluster import Cluster
from fairway.errors import AlreadyExists, FairwayError
from fairway.runner.machine import Machine
from fairway.runner.pods.fields import ADDRESS

MOST_PODS: Final = 500
LEASES: Final = "kube-node-lease"
_PRODUCT: Final = "nvidia.com/gpu.product"
_TOLD: Final = "fairway.dev/gpu-labels"
"""An annotation of the node: the GPU labels that the runner gave it, which are its to take away again."""
_RENEW_SECONDS: Final = 10.0
_LEASE_SECONDS: Final = 40

_log = logging.getLogger(__name__)

_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class NodeKeeper:
    """Registers the machine and keeps its lease."""

    def __init__(self, cluster: Cluster, machine: Machine, name: str, taints: Sequence[Manifest] = ()) -> None:
        """`taints` are those of a new Node; one that exists keeps what it has."""
        self._taints = list(taints)
        self._cluster = cluster
        self._clock = cluster.clock
        self._machine = machine
        self._writer = cluster.writer("fairway-runner")
        self._nodes = cluster.cache("nodes")
        self._leases = cluster.cache("leases.coordination.k8s.io")
        self._namespaces = cluster.cache("namespaces")
        self.name = name

    async def register(self) -> None:
        """Make the node, or bring what is known of the machine up to date."""
        labels, status = labels_of(self._machine), self._status()
        known = self._nodes.get("", self.name)
        if known is None:
            try:
                metadata = {"name": self.name, "labels": labels, "annotations": {_TOLD: _gpu_labels(labels)}}
                spec = {"taints": self._taints} if self._taints else {}
                await self._writer.create("nodes", {"metadata": metadata, "spec": spec, "status": status})
            except AlreadyExists:
                return  # the cache will tell, and the next start brings it up to date
            return
        known = await self._label(known, labels)
        patch: dict[str, Any] = {
            name: value for name, value in status.items() if (known.get("status") or {}).get(name) != value
        }
        for field in ("capacity", "allocatable"):  # what the machine had before and has no more
            for resource in (known.get("status") or {}).get(field) or {}:
                if resource == GPU and resource not in status[field]:
                    patch[field] = {**status[field], resource: None}
        if patch:
            await self._writer.patch("nodes", known, {"status": patch}, subresource="status", locked=True)

    async def _label(self, node: Manifest, labels: dict[str, str]) -> Manifest:
        """Bring the labels up to date; those that people gave the node stay."""
        metadata = node["metadata"]
        before, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
        given = dict(part.split("=", 1) for part in notes.get(_TOLD, "").split(",") if "=" in part)
        stale = {name: None for name, value in given.items() if name not in labels and before.get(name) == value}
        told = _gpu_labels(labels)
        if notes.get(_TOLD) == told and not stale and all(before.get(name) == labels[name] for name in labels):
            return node
        patch = {"labels": {**labels, **stale}, "annotations": {_TOLD: told}}
        return await self._writer.patch("nodes", node, {"metadata": patch})

    async def run(self) -> None:
        """Renew the lease, and correct the node if it was deleted or marked as lost, until cancelled."""
        while True:
            try:
                if not _is_ready(self._nodes.get("", self.name)):
                    await self.register()
                await self._renew()
            except FairwayError as error:
                _log.warning("cannot renew the lease of node %s: %s; retrying", self.name, error)
            await self._clock.sleep(_RENEW_SECONDS)

    async def _renew(self) -> None:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = self._leases.get(LEASES, self.name)
        if lease is not None:
            await self._writer.patch(
                "leases.coordination.k8s.io",
                lease,
                {"spec": {"renewTime": now, "holderIdentity": self.name, "leaseDurationSeconds": _LEASE_SECONDS}},
            )
            return
        if self._namespaces.get("", LEASES) is None:
            await self._writer.create("namespaces", {"metadata": {"name": LEASES}})
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now}
        metadata = {"name": self.name, "namespace": LEASES}
        await self._writer.create("leases.coordination.k8s.io", {"metadata": metadata, "spec": spec})

    def _status(self) -> Manifest:
        machine = self._machine
        known = ((self._nodes.get("", self.name) or {}).get("status") or {}).get("conditions") or ()
        since = {one["type"]: (one["status"], one.get("lastTransitionTime")) for one in known}
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = []
        for kind, status, reason, message in _CONDITIONS:
            before = since.get(kind)
            changed = before[1] if before is not None and before[0] == status else now
            conditions.append(
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": changed,
                }
            )
        capacity = capacity_of(machine)
        return {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": ADDRESS},
                {"type": "Hostname", "address": machine.hostname},
            ],
            "nodeInfo": {
                "architecture": machine.architecture,
                "bootID": machine.boot,
                "containerRuntimeVersion": f"fairway://{fairway.__version__}",
                "kernelVersion": machine.kernel,
                "kubeProxyVersion": "",
                "kubeletVersion": f"v{fairway.__version__}",
                "machineID": machine.identity,
                "operatingSystem": "linux",
                "osImage": machine.system,
                "systemUUID": machine.identity,
            },
        }


def _is_ready(node: Manifest | None) -> bool:
    """False after the node controller of a cluster did not see the lease renewed for a while."""
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def lasting_name(state: Path, machine: Machine) -> str:
    """The name that this machine's node got at first: a host that is called something else later keeps its pods."""
    note = state / "node-name"
    try:
        return note.read_text().strip() or machine.name
    except FileNotFoundError:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.touch(mode=0o600)
        note.write_text(f"{machine.name}\n")
        return machine.name


def labels_of(machine: Machine) -> dict[str, str]:
    labels = {
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": machine.name[:63].rstrip("-."),
        "kubernetes.io/os": "linux",
    }
    if machine.gpu_model:
        model = "".join(one if one.isalnum() or one in "-_." else "-" for one in machine.gpu_model)
        labels[_PRODUCT] = model[:63].strip("-_.")
    if machine.accelerator:
        labels[ACCELERATOR] = machine.accelerator
    for model, count in Counter(machine.gpu_models).items():
        labels[f"{MODELS}{model}"] = str(count)
    return labels


def _gpu_labels(labels: dict[str, str]) -> str:
    given = [name for name in labels if name in (_PRODUCT, ACCELERATOR) or name.startswith(MODELS)]
    return ",".join(f"{name}={labels[name]}" for name in given)


def capacity_of(machine: Machine) -> dict[str, str]:
    """What the machine has to give, as a node says it."""
    capacity = {
        "cpu": str(quantity_of("cpu", machine.cores_milli)),
        "memory": str(quantity_of("memory", machine.memory_bytes)),
        "pods": str(MOST_PODS),
        "ephemeral-storage": str(quantity_of("ephemeral-storage", machine.disk_bytes)),
    }
    if machine.gpus:
        capacity[GPU] = str(machine.gpus)
    return capacity
