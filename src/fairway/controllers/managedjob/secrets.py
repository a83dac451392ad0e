"""Deletes the Secret of a launch when the last managed job that names it is deleted.

A launch creates one labelled Secret for all its jobs; users' own Secrets have no label. A Secret without a job, because
its jobs were deleted while no server ran or do not exist yet, is kept for an hour.
"""

import contextlib
from datetime import datetime
from typing import Final

from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.managedjob.observe import JOBS
from fairway.errors import NotFound
from fairway.managedjobs.making import SECRET_LABEL
from fairway.runtime.worker import Worker

GRACE_SECONDS: Final = 3600.0
"""How long a Secret may wait for its jobs."""


class LaunchSecrets:
    """Deletes the Secrets of jobs that are gone."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._writer = cluster.writer("fairway-managed-jobs")
        self._secrets = cluster.cache("secrets")
        self._jobs_of: dict[Key, set[str]] = {}
        """By namespace and name of a Secret, the jobs that name it."""

        self._left: set[Key] = set()
        """Secrets whose last job was seen to go."""

        self._worker: Worker[Key] = Worker("secrets of managed jobs", cluster.clock, self._reconcile, parallel=4)
        cluster.cache(JOBS).on_change(self._job_changed)
        self._secrets.on_change(self._secret_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def _job_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        job = new or old
        key = None if job is None else _named_by(job)
        if job is None or key is None:
            return
        jobs = self._jobs_of.setdefault(key, set())
        if new is not None:
            jobs.add(job["metadata"]["name"])
            return
        jobs.discard(job["metadata"]["name"])
        if not jobs:
            del self._jobs_of[key]
            self._left.add(key)
            self._worker.add(key)

    def _secret_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None and new is not None and _is_of_a_launch(new):
            self._worker.add(key_of(new))

    async def _reconcile(self, key: Key) -> float | None:
        secret = self._secrets.get(*key)
        if secret is None or key in self._jobs_of or not _is_of_a_launch(secret):
            self._left.discard(key)
            return None
        left = 0.0 if key in self._left else self._seconds_left(secret)
        if left > 0:
            return left
        with contextlib.suppress(NotFound):
            await self._writer.delete("secrets", secret)
        self._left.discard(key)
        return None

    def _seconds_left(self, secret: Manifest) -> float:
        """For how long it is still to stay; never for longer than it may at all, however the clock was set."""
        age = self._clock.now() - datetime.fromisoformat(secret["metadata"]["creationTimestamp"])
        return min(GRACE_SECONDS, GRACE_SECONDS - age.total_seconds())


def _named_by(job: Manifest) -> Key | None:
    name = job["spec"].get("secretName")
    return (job["metadata"]["namespace"], name) if name else None


def _is_of_a_launch(secret: Manifest) -> bool:
    return SECRET_LABEL in (secret["metadata"].get("labels") or {})
