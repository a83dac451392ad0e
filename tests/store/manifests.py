"""Small objects of real kinds."""

from typing import Any

from fairway.apis.machinery.kind import Manifest


def config_map(name: str = "settings", **metadata: Any) -> Manifest:
    """The plainest kind: no status, no generation, no default."""
    return {"metadata": {"name": name, **metadata}, "data": {"color": "red"}}


def job(name: str = "train", **metadata: Any) -> Manifest:
    """A kind of Fairway's own: a status of its own, a generation, a priority that may be changed at will."""
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"queue": "research", "priority": 1, "tasks": [{"run": "true"}]},
        "status": {"phase": "Forged"},
    }


def pod(name: str = "web", *, node: str = "", gates: tuple[str, ...] = (), **metadata: Any) -> Manifest:
    spec: Manifest = {"containers": [{"name": "main", "image": "busybox"}]}
    if node:
        spec["nodeName"] = node
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def event(name: str, reason: str = "Started") -> Manifest:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        "reason": reason,
    }


def owned_by(*owners: Manifest, block: bool | None = None) -> list[Manifest]:
    """References to owners that exist."""
    references = []
    for owner in owners:
        metadata = owner["metadata"]
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        references.append(reference if block is None else {**reference, "blockOwnerDeletion": block})
    return references
