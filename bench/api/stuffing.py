"""Fill a state directory that no server has open: copies of one Workload that a server made there, in large batches.

Through the API a hundred thousand creates take longer than everything else together. The rows are the same as a server
writes them, one revision of each object; only what creates and patches leave behind for a while, old revisions, is not
there. This is the one module that knows how Fairway keeps its state.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from bench.api import manifests
from bench.api.manifests import Place
from fairway.store.log import Batch, Row
from fairway.store.sqlite import SqliteLog

_BATCH = 1_000


def stuff(database: Path, place: Place, objects: int) -> None:
    """Bring the number of Workloads in a place, where there is one with the number 0, to this many."""
    log = SqliteLog(database)
    try:
        pattern = _newest(log, place.namespace, manifests.name(0))
        rows = _copies(pattern, log.last(), objects - 1)
        while batch := list(islice(rows, _BATCH)):
            log.append(Batch(batch))
    finally:
        log.close()


def _newest(log: SqliteLog, namespace: str, name: str) -> Row:
    found = [row for row in log.rows() if row.namespace == namespace and row.name == name and not row.deleted]
    return found[-1]


def _copies(pattern: Row, revision: int, count: int) -> Iterator[Row]:
    manifest = msgspec.json.decode(pattern.data)
    metadata = manifest["metadata"]
    for number in range(1, count + 1):
        revision += 1
        metadata["name"] = manifests.name(number)
        metadata["uid"] = str(uuid.uuid4())
        metadata["resourceVersion"] = str(revision)
        yield pattern._replace(revision=revision, name=metadata["name"], data=msgspec.json.encode(manifest))
