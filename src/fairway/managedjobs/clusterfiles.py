"""Objects that a launch on a cluster creates besides its jobs: archives of files as Secrets, and what owns them.

An archive is split into immutable Secrets named by its SHA-256, so equal directories are stored once a namespace. All
Secrets of a launch are owned by its *anchors*: ConfigMaps that hold nothing and are owned by the ManagedJobs, at most
`OWNED_BY_ANCHOR` each. The garbage collector deletes an anchor with its last job, and a Secret with its last anchor.
An owner reference a job on every Secret instead would not fit: 10,000 of them are larger than an object may be.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest

CHUNK_BYTES: Final = 1_000_000
"""Of an archive, in one Secret; Kubernetes stores at most 1 MiB in one."""

MOST_BYTES: Final = 8 * CHUNK_BYTES
"""Of one archive. Secrets are kept in etcd, whose quota is 2 GB unless raised, and in the memory of kube-apiserver;
larger archives go into a volume (`clustervolume`)."""

OWNED_BY_ANCHOR: Final = 1000
ANCHOR_LABEL: Final = "fairway.dev/launch"
"""On the anchors of a launch; those that stay without an owner are deleted by the controller."""

ARCHIVE_LABEL: Final = "fairway.dev/archive"
CHUNK_KEY: Final = "part"
DIGITS: Final = 40
"""Of a digest, in names and labels: those have at most 63 letters."""


def chunk_count(size: int) -> int:
    """How many Secrets hold an archive of so many bytes."""
    return max(1, -(-size // CHUNK_BYTES))


def chunk_name(digest: str, index: int) -> str:
    return f"fairway-files-{digest[:DIGITS]}-{index}"


def chunk_names(digest: str, size: int) -> list[str]:
    """The Secrets of an archive, in order."""
    return [chunk_name(digest, index) for index in range(chunk_count(size))]


def chunk(digest: str, index: int, content: bytes, owners: Iterable[Manifest]) -> Manifest:
    """One part of an archive."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": chunk_name(digest, index),
            "labels": {ARCHIVE_LABEL: digest[:DIGITS]},
            "ownerReferences": [reference(one) for one in owners],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {CHUNK_KEY: base64.b64encode(content).decode()},
    }


def anchor(launch: str, index: int = 0, jobs: Iterable[Manifest] = ()) -> Manifest:
    """What owns the Secrets of a launch, for these jobs; `launch` is a random name."""
    metadata: dict[str, Any] = {
        "name": f"fairway-launch-{launch}" + (f"-{index}" if index else ""),
        "labels": {ANCHOR_LABEL: launch},
    }
    owners = [reference(job) for job in jobs]
    if owners:
        metadata["ownerReferences"] = owners
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def batches(jobs: list[Manifest]) -> Iterator[list[Manifest]]:
    """Jobs by the anchor that they own."""
    for start in range(0, len(jobs), OWNED_BY_ANCHOR):
        yield jobs[start : start + OWNED_BY_ANCHOR]


def reference(owner: Manifest) -> Manifest:
    """An owner reference that does not make its target a controller."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
