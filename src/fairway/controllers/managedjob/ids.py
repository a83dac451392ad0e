"""The numbers that people call jobs by: unique over all namespaces, counted up, never given twice.

The highest is known from the jobs that there are; so that it is still known when the latest job has been deleted, a
ConfigMap follows it. Many jobs that come at once are followed by one write.
"""

import logging
from typing import Final

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.managedjob.observe import JOBS
from fairway.errors import AlreadyExists
from fairway.runtime.worker import Worker

NAMESPACE: Final = "kube-system"
CONFIG_MAP: Final = "fairway-managed-jobs"
HIGHEST: Final = "highest-id"
_MOST_DIGITS: Final = 12
"""Beyond these it is no number that was given out here, but somebody's mistake: nobody could launch a job after it."""

_log = logging.getLogger(__name__)


class Ids:
    """Gives out numbers at once, and remembers the highest a moment later."""

    def __init__(self, cluster: Cluster) -> None:
        self.highest = 0
        """The highest that was given out or is there."""

        self._stored = 0
        """The highest of a job that is stored."""

        self._writer = cluster.writer("fairway-managed-jobs")
        self._config_maps = cluster.cache("configmaps")
        self._worker: Worker[str] = Worker("ids of managed jobs", cluster.clock, self._remember, parallel=1)
        cluster.cache(JOBS).on_change(self._job_changed)
        self._config_maps.on_change(self._remembered)

    def draw(self) -> int:
        """The next number."""
        self.highest += 1
        return self.highest

    async def run(self) -> None:
        """Remember the highest until cancelled."""
        await self._worker.run()

    def _job_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is not None or new is None:
            return
        number = new["spec"].get("id") or 0
        self.highest = max(self.highest, number)
        if number > self._stored:
            self._stored = number
            self._worker.add(HIGHEST)

    def _remembered(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and key_of(new) == (NAMESPACE, CONFIG_MAP):
            self.highest = max(self.highest, _number(new))

    async def _remember(self, _key: str) -> None:
        known = self._config_maps.get(NAMESPACE, CONFIG_MAP)
        if known is not None and _number(known) >= self._stored:
            return
        data = {HIGHEST: str(self._stored)}
        if known is not None:
            await self._writer.patch("configmaps", known, {"data": data})
            return
        try:
            await self._writer.create(
                "configmaps", {"metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE}, "data": data}
            )
        except AlreadyExists:
            _log.debug("%s/%s was created by another writer; retrying", NAMESPACE, CONFIG_MAP)
            self._worker.add(HIGHEST)


def _number(config_map: Manifest) -> int:
    text = str((config_map.get("data") or {}).get(HIGHEST) or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
