"""Logs of ended attempts on a cluster: a ConfigMap a pod, owned by the job, with the end of each container's log.

Lines carry their timestamps, compressed with gzip. A ConfigMap and not a Secret: users who may read `pods/log` (role
`view`) may read it. All of it is bounded: etcd is no place for logs.
"""

import base64
import gzip
import zlib
from collections.abc import Mapping
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.workloads import owner_reference
from fairway.managedjobs.pods import ATTEMPT, JOB, RANK, TASK

MOST_BYTES: Final = 256 * 1024
"""Of one container, before compression: the last ones."""

MOST_ATTEMPTS: Final = 10
"""Of one job: the latest."""

MISSING: Final = "fairway.dev/log-missing"
"""The annotation that says why there is no log."""

_LABELS: Final = (JOB, TASK, ATTEMPT, RANK)
_FEW: Final = 1


def config_map_name(pod_uid: str) -> str:
    return f"fairway-log-{pod_uid}"


def config_map(job: Manifest, pod: Manifest, logs: Mapping[str, bytes], missing: str = "") -> Manifest:
    """What is kept of a pod: the logs of its containers, by name; or why there are none."""
    labels = pod["metadata"].get("labels") or {}
    metadata: Manifest = {
        "name": config_map_name(pod["metadata"]["uid"]),
        "namespace": pod["metadata"]["namespace"],
        "labels": {name: labels[name] for name in _LABELS if name in labels},
        "ownerReferences": [owner_reference(job)],
    }
    if missing:
        metadata["annotations"] = {MISSING: missing}
    packed = {name: base64.b64encode(gzip.compress(log, mtime=0)).decode() for name, log in logs.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": packed}


def log_of(kept: Manifest, container: str, *, timestamps: bool) -> bytes:
    """The log of a container; empty if it wrote nothing."""
    packed = (kept.get("binaryData") or {}).get(container)
    if not packed:
        return b""
    log = zlib.decompressobj(wbits=31).decompress(base64.b64decode(packed), 4 * MOST_BYTES)
    return log if timestamps else without_timestamps(log)


def without_timestamps(log: bytes) -> bytes:
    return b"".join(line.partition(b" ")[2] for line in log.splitlines(keepends=True))


class LogTail:
    """The end of a log that comes in pieces."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._held = b""
        self._dropped = 0

    def add(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > 2 * self._most:
            self._cut()

    def read(self) -> bytes:
        """From the beginning of a line; the first line says so if there was more."""
        if len(self._held) > self._most:
            self._cut()
        if not self._dropped:
            return self._held
        first = self._held.partition(b" ")[0] if self._held else b"-"
        return first + f" [fairway: {self._dropped} earlier bytes were not kept]\n".encode() + self._held

    def _cut(self) -> None:
        start = len(self._held) - self._most
        line = self._held.find(b"\n", start - _FEW) + 1
        start = line or start
        self._dropped += start
        self._held = self._held[start:]
