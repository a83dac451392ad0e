"""A backup put back: the files, and what becomes of jobs that had not ended when it was made.

Their processes are gone, and some of these jobs may have ended since, which the backup cannot know. So they are held:
managed jobs by `hold`, Workloads by `active: false`, Jobs by `suspend`, until a user releases them. Their
pods are deleted, and pods without an owner have failed. What had ended stays as it is, and is not run again.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.conditions import is_true
from fairway.apis.registry import default_registry
from fairway.backups import DATABASE, BackupError, Manifest, read_manifest, unpack
from fairway.runner.supervision import end_if_idle
from fairway.runtime.clock import SystemClock
from fairway.runtime.lease import Hold, holder
from fairway.runtime.privacy import make_private
from fairway.store.sqlite import SqliteLog
from fairway.store.store import Store
from fairway.store.verbs import DeleteOptions, Objects, PatchType
from fairway.store.verbs.reading import decoded

_ENDED: Final = ("SUCCEEDED", "FAILED", "CANCELLED")
_MANAGED: Final = "ManagedJob"
_NOW: Final = DeleteOptions(grace_seconds=0)
_LOST: Final = "the server was restored from a backup; its processes no longer run"


class Restored(NamedTuple):
    """What came of a restore."""

    manifest: Manifest
    held: Counter[str]
    """How many objects of each kind had not ended and are held now."""

    aside: Path | None
    """Where the state directory of before is now, if there was one."""


def put_back(source: Path, state: Path, *, replace: bool, hold: bool) -> Restored:
    """Make a state directory of a backup, whole or not at all."""
    pid = holder(state) if state.is_dir() else None
    if pid is not None:
        raise BackupError(f"a server (process {pid}) runs on {state}; stop it first: fairway shutdown")
    manifest = read_manifest(source)
    occupied = state.is_dir() and any(state.iterdir())
    if occupied and not replace:
        raise BackupError(f"{state} is not empty; --replace moves it aside, or choose another with --state")
    state.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{state.name}.", dir=state.parent))  # made with mode 0700
    try:
        unpack(source, fresh)
        make_private(fresh)
        held = asyncio.run(_settle(fresh, hold=hold))
        aside = _exchange(fresh, state) if occupied else None
        if not occupied:
            _move(fresh, state)
        return Restored(manifest, held, aside)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _move(fresh: Path, state: Path) -> None:
    if state.is_dir():
        state.rmdir()
    fresh.rename(state)


def _exchange(fresh: Path, state: Path) -> Path:
    """Put the new directory in place of one that no process uses."""
    supervisor = state / "supervisor"
    if supervisor.is_dir() and holder(supervisor) is not None and asyncio.run(end_if_idle(state, SystemClock())):
        raise BackupError(f"jobs of the server on {state} still run; stop them first: fairway shutdown --jobs")
    with Hold.acquire(state):
        aside = state.with_name(f"{state.name}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        state.rename(aside)
        try:
            fresh.rename(state)
        except OSError:
            aside.rename(state)
            raise
    return aside


async def _settle(state: Path, *, hold: bool) -> Counter[str]:
    """Deal with what had not ended, before any server sees it; how many of each kind were held."""
    store = Store(SqliteLog(state / DATABASE))
    await store.start()
    try:
        settling = _Settling(Objects(store, default_registry(), lambda: datetime.now(UTC)))
        settling.pods()
        if hold:
            settling.hold()
        await store.settled()
    finally:
        await store.close()
    return settling.held


class _Settling:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._kinds = {kind.resource: kind for kind in objects.registry.kinds}
        self.held: Counter[str] = Counter()

    def pods(self) -> None:
        """No pod of the backup runs: those that something looks after go, and the others have failed."""
        for pod in self._all("pods"):
            status = pod.get("status") or {}
            if status.get("phase") in {"Succeeded", "Failed"}:
                continue
            if any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ()):
                self._objects.stage_delete(self._kinds["pods"], _key(pod), _NOW)
            else:
                failed = {"phase": "Failed", "reason": "Restored", "message": _LOST, "containerStatuses": None}
                self._patch("pods", pod, {"status": failed}, "status")

    def hold(self) -> None:
        """Keep whatever could start by itself from doing so."""
        for job in self._all("managedjobs.fairway.dev"):
            if not str((job.get("status") or {}).get("phase", "")).startswith(_ENDED) and not job["spec"].get("hold"):
                self._patch("managedjobs.fairway.dev", job, {"spec": {"hold": True}})
                self.held["managed jobs"] += 1
        for workload in self._all("workloads.kueue.x-k8s.io"):
            owners = {owner["kind"] for owner in workload["metadata"].get("ownerReferences") or ()}
            if _MANAGED not in owners and not is_true(workload, "Finished") and workload["spec"].get("active", True):
                self._patch("workloads.kueue.x-k8s.io", workload, {"spec": {"active": False}})
                emptied = dict.fromkeys(workload.get("status") or {})
                self._patch("workloads.kueue.x-k8s.io", workload, {"status": emptied}, "status")
                self.held["workloads"] += 1
        for job in self._all("jobs.batch"):
            if not is_true(job, "Complete") and not is_true(job, "Failed") and not job["spec"].get("suspend"):
                self._patch("jobs.batch", job, {"spec": {"suspend": True}})
                self.held["Jobs"] += 1

    def _all(self, resource: str) -> list[dict[str, Any]]:
        entries = self._objects.store.collection(resource).entries
        return [decoded(entry) for entry in list(entries.values())]

    def _patch(self, resource: str, manifest: dict[str, Any], patch: dict[str, Any], subresource: str = "") -> None:
        from fairway.store.verbs.options import PLAIN, WriteTarget  # noqa: PLC0415

        kind = self._kinds[resource]
        self._objects.stage_patch(
            WriteTarget(kind, kind.stored, _key(manifest), PLAIN, subresource), PatchType.MERGE, patch
        )


def _key(manifest: dict[str, Any]) -> tuple[str, str]:
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
