"""What happens to a managed job when it is created: it gets its number, name and user, and wrong ones are refused.

Numbers are unique over all namespaces, counted up, never given twice. The highest is known from the jobs that there
are; so that it is still known when the latest job has been deleted, a ConfigMap follows it. Many jobs that come at once
are followed by one write.
"""

import asyncio
import logging
from typing import Any, Final

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse, UserInfo
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.informer import Informer
from fairway.client.protocol import Client
from fairway.controllers.managedjob.observe import JOBS
from fairway.errors import AlreadyExists, Conflict, FieldError, NotFound
from fairway.integrations.names import QUEUE_NAME
from fairway.managedjobs.asking import chosen_queue
from fairway.managedjobs.observation import DEFAULT_CAP, DEFAULT_STEP
from fairway.managedjobs.podconfig import wrong_part
from fairway.managedjobs.tasks.parse import stored_tasks, wrong_tasks
from fairway.runtime.worker import Worker

CONFIG_MAP: Final = "fairway-managed-jobs"
HIGHEST: Final = "highest-id"
BLOCK: Final = 64
"""How many numbers a process reserves at a time where it serves webhooks."""

_MOST_DIGITS: Final = 12
"""A larger id is a mistake, and was not assigned here: it would leave no ids for later jobs."""

_log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 63
_GIVEN: Final = ("id", "user", "aging", "recover")
"""Fields that the server adds to a job: an update need not repeat them."""


class Ids:
    """Gives out numbers at once, and remembers the highest a moment later."""

    def __init__(self, cluster: Cluster) -> None:
        self.highest = 0
        """The highest that was given out or is there."""

        self._stored = 0
        """The highest of a job that is stored."""

        self._namespace = cluster.namespace
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
        if new is not None and key_of(new) == (self._namespace, CONFIG_MAP):
            self.highest = max(self.highest, _number(new))

    async def _remember(self, _key: str) -> None:
        known = self._config_maps.get(self._namespace, CONFIG_MAP)
        if known is not None and _number(known) >= self._stored:
            return
        data = {HIGHEST: str(self._stored)}
        if known is not None:
            await self._writer.patch("configmaps", known, {"data": data})
            return
        try:
            await self._writer.create("configmaps", _config_map(self._namespace, data))
        except AlreadyExists:
            _log.debug("%s/%s was created by another writer; retrying", self._namespace, CONFIG_MAP)
            self._worker.add(HIGHEST)


class ReservedIds:
    """Gives out numbers for an API server that stores the job some time later, when another process may lead already.

    So every number comes from a block that was reserved for this process in the ConfigMap before. What is left of the
    block is given back at the end; after a crash the numbers continue behind it.
    """

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.highest = 0
        """The highest that was given out or is there."""

        self._reserved = 0
        self._client = client
        self._kind = cluster.kind("configmaps")
        self._namespace = cluster.namespace
        self._lock = asyncio.Lock()
        cluster.cache(JOBS).on_change(self._job_changed)

    def draw(self) -> int:
        """The next number; `reserve` was awaited just before."""
        self.highest += 1
        return self.highest

    async def reserve(self) -> None:
        """See to it that there is a number to be drawn."""
        async with self._lock:
            while self.highest >= self._reserved:
                known = await self._stored()
                start = max(self.highest, 0 if known is None else _number(known))
                if await self._write(known, start + BLOCK):
                    self.highest, self._reserved = start, start + BLOCK

    async def give_back(self) -> None:
        """Let the next process continue after the last number; nothing is drawn after this."""
        async with self._lock:
            known = await self._stored() if self._reserved else None
            if known is not None and _number(known) == self._reserved:
                await self._write(known, self.highest)
            self._reserved = 0

    async def _stored(self) -> Manifest | None:
        try:
            return await self._client.get(self._kind, self._namespace, CONFIG_MAP)
        except NotFound:
            return None

    async def _write(self, known: Manifest | None, number: int) -> bool:
        """Whether it was written: not if another process was faster."""
        data = {HIGHEST: str(number)}
        try:
            if known is None:
                manifest = {"apiVersion": "v1", "kind": "ConfigMap", **_config_map(self._namespace, data)}
                await self._client.create(self._kind, manifest)
            else:
                version = {"metadata": {"resourceVersion": known["metadata"]["resourceVersion"]}}
                await self._client.patch(self._kind, self._namespace, CONFIG_MAP, {**version, "data": data})
        except (AlreadyExists, Conflict):
            return False
        return True

    def _job_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None and new is not None:
            self.highest = max(self.highest, new["spec"].get("id") or 0)


def _config_map(namespace: str, data: dict[str, str]) -> Manifest:
    return {"metadata": {"name": CONFIG_MAP, "namespace": namespace}, "data": data}


def _number(config_map: Manifest) -> int:
    text = str((config_map.get("data") or {}).get(HIGHEST) or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0


class ManagedJobAdmission:
    """Gives a new job its number, name, user and aging; a job that is refused uses up no number."""

    resources: Final = (JOBS,)

    def __init__(self, ids: Ids | ReservedIds, queues: Informer | None = None) -> None:
        """With `queues`, the LocalQueues of a cluster whose Kueue admits, a job is labelled with its queue.

        Kueue leaves pods alone whose owner has that label; others it queues a second time where there is a default
        LocalQueue.
        """
        self._ids = ids
        self._queues = queues

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        manifest, user = request.object, request.user
        spec: dict[str, Any] = manifest.get("spec") or {}
        if request.old is not None:
            before = request.old.get("spec") or {}
            for name in _GIVEN:
                if name in before:
                    spec.setdefault(name, before[name])
            return ALLOWED
        if not spec.get("tasks"):  # refused by the rules of the kind
            return ALLOWED
        wrong = [*_wrong(manifest), *_wrong_user(manifest, user)]
        if wrong or not request.mutating:
            return AdmissionResponse(wrong)
        number = self._ids.highest + 1 if request.dry_run else self._ids.draw()
        spec["id"] = number
        if not spec.get("user") and user.name:
            spec["user"] = user.name
        spec.setdefault("recover", True)
        spec["aging"] = {"step": DEFAULT_STEP, "cap": DEFAULT_CAP, **(spec.get("aging") or {})}
        metadata = manifest["metadata"]
        if not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName'][: _LONGEST_NAME - len(str(number))]}{number}"
        if self._queues is not None:
            _label_queue(manifest, self._queues)
        return ALLOWED


def _label_queue(manifest: Manifest, queues: Informer) -> None:
    metadata, task = manifest["metadata"], stored_tasks(manifest)[0]
    namespace = metadata.get("namespace", "")
    queue = chosen_queue(manifest, task, task.candidates[0], lambda name: queues.get(namespace, name) is not None)
    if queue:
        metadata["labels"] = {QUEUE_NAME: queue, **(metadata.get("labels") or {})}


def _wrong(manifest: Manifest) -> list[FieldError]:
    spec: dict[str, Any] = manifest.get("spec") or {}
    wrong = wrong_tasks(manifest)
    if spec.get("podConfig"):
        wrong += wrong_part(spec["podConfig"], "spec.podConfig")
    if not wrong and any("config" in one for one in spec.get("tasks") or ()):
        for index, task in enumerate(stored_tasks(manifest)):
            wrong += wrong_part(task.pod_config, f"spec.tasks[{index}].config.kubernetes.pod_config")
    return wrong


def _wrong_user(manifest: Manifest, user: UserInfo) -> list[FieldError]:
    named = (manifest.get("spec") or {}).get("user")
    if not named or named == user.name or user.can_impersonate:
        return []
    rule = f"only administrators may set another user; remove it to launch the job as {user.name}"
    return [FieldError("spec.user", named, "FieldValueForbidden", rule)]
