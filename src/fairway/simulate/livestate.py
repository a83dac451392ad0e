"""The live state of a server as a scenario, from its caches; and how long the jobs ran that ended on it."""

from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import Final

from fairway.accounting.attempts import AttemptEnd, shared_name
from fairway.accounting.books import AccountBooks
from fairway.admission.config import Config
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.integrations import conditions
from fairway.integrations.waiting import owner_of
from fairway.integrations.workloads import namespaced_name, queue_order
from fairway.runtime.slices import Slices
from fairway.simulate.estimates import Durations
from fairway.simulate.scenario import PresentWorkload, Scenario, by_key, moment, running_since

MODULE: Final = "fairway.simulate.worker"
"""What the worker process runs."""

_CHUNK: Final = 100
_MOST_PAST: Final = 2_000
"""Attempts that are read at once, within a few milliseconds."""

_OWN_END: Final = frozenset({AttemptEnd.SUCCEEDED, AttemptEnd.FAILED})
_KINDS: Final = {
    "namespaces": "Namespace",
    "resourceflavors.kueue.x-k8s.io": "ResourceFlavor",
    "admissionchecks.kueue.x-k8s.io": "AdmissionCheck",
    "cohorts.kueue.x-k8s.io": "Cohort",
    "clusterqueues.kueue.x-k8s.io": "ClusterQueue",
    "localqueues.kueue.x-k8s.io": "LocalQueue",
}

_WAITING: Final = "waiting"


class LiveState:
    """The caches of a server, as a scenario; and how long ended jobs ran.

    It follows changes from the first question on (`follow`): until then it costs nothing.
    """

    def __init__(self, cluster: Cluster, config: Callable[[], Config], schedulers: frozenset[str] | None) -> None:
        self.durations = Durations()
        self.changes = 0
        """Counts what may change a forecast."""

        self.waiting = 0
        """How many Workloads waited for quota when they were last collected."""

        self.on_admitted: Callable[[str, float], None] = lambda _key, _at: None
        self._config = config
        self._schedulers = schedulers
        self._clock = cluster.clock
        self._caches = {kind: cluster.cache(resource) for resource, kind in _KINDS.items()}
        if schedulers is not None:
            self._caches["Node"] = cluster.cache("nodes")
        self._workloads = cluster.cache("workloads.kueue.x-k8s.io")
        self._jobs = cluster.cache("managedjobs.fairway.dev")
        self._slices = Slices()
        self._follows = self._has_read_past = self._learns_from_stored = False

    def follow(self, books: AccountBooks | None) -> None:
        """Follow what happens from now on, and learn from the past: the history, else the Workloads that are stored."""
        if not self._follows:
            self._follows, self._learns_from_stored = True, books is None
            for kind, cache in self._caches.items():
                if kind != "Node":
                    cache.on_change(self._changed, replay=False)
            self._workloads.on_change(self._workload_changed, replay=False)
        if books is not None and not self._has_read_past:
            self._has_read_past = True
            self._read_past(books)

    def _read_past(self, books: AccountBooks) -> None:
        """Learn from the latest attempts, in their order."""
        for _, attempt in reversed(list(islice(books.ended(), _MOST_PAST))):
            if attempt.outcome in _OWN_END and attempt.started:
                self.durations.add(attempt.job_name, attempt.user, attempt.queue, attempt.ended - attempt.started)

    def scenario(self) -> Scenario:
        """Everything but the Workloads."""
        found = ({**manifest, "kind": kind} for kind, cache in self._caches.items() for manifest in cache.items())
        return Scenario(
            at=self._clock.now().timestamp(),
            config=self._config(),
            objects=by_key(_without_fields(one) for one in found),
            schedulers=self._schedulers,
        )

    async def workloads(self, most: int) -> AsyncIterator[list[PresentWorkload]]:
        """Those with quota, and the first `most` of those that wait, in parts."""
        work = self._slices.begin()
        holding, waiting = [], []
        learns, self._learns_from_stored = self._learns_from_stored, False
        for manifest in list(self._workloads.items()):
            if _waits(manifest):
                waiting.append(manifest)
            elif not conditions.is_true(manifest, conditions.FINISHED):
                holding.append(manifest)
            elif learns:
                self._learn(manifest)
            if work.is_over:
                await work.pause()
        self.waiting = len(waiting)
        part: list[PresentWorkload] = []
        for manifest in (*holding, *_first(waiting, most)):
            part.append(self._present(manifest))
            if len(part) >= _CHUNK:
                yield part
                part = []
            if work.is_over:
                await work.pause()
        yield part

    def _present(self, manifest: Manifest) -> PresentWorkload:
        name, user, declared = self._facts(manifest)
        estimate = self.durations.estimate(name, user, str(manifest["spec"].get("queueName") or ""), declared)
        return PresentWorkload(_without_fields(manifest), estimate, name, user, owner_of(manifest))

    def _facts(self, workload: Manifest) -> tuple[str, str, float | None]:
        """What its job is called, whose it is, and how long it may run."""
        owner = owner_of(workload)
        declared = workload["spec"].get("maximumExecutionTimeSeconds")
        if owner is None:
            return workload["metadata"]["name"], "", declared
        job = (
            self._jobs.get(workload["metadata"]["namespace"], owner["name"]) if owner["kind"] == "ManagedJob" else None
        )
        if job is None:
            return shared_name(owner["name"]), "", declared
        spec = job["spec"]
        return str(spec.get("name") or owner["name"]), str(spec.get("user") or ""), declared or _max_duration(job)

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self.changes += 1

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        before, after = _state(old), _state(new)
        if before == after:
            return
        self.changes += 1
        if new is None:
            return
        if after == "finished":
            self._learn(new)
        elif after == "admitted" and before == _WAITING:
            self.on_admitted(namespaced_name(new), running_since(new))

    def _learn(self, workload: Manifest) -> None:
        """How long a job ran that came to its end."""
        ended = moment((conditions.find(workload, conditions.FINISHED) or {}).get("lastTransitionTime"))
        if ended is None or not conditions.is_true(workload, conditions.ADMITTED):
            return
        name, user, _ = self._facts(workload)
        self.durations.add(name, user, str(workload["spec"].get("queueName") or ""), ended - running_since(workload))


def _state(workload: Manifest | None) -> str:
    if workload is None:
        return ""
    if conditions.is_true(workload, conditions.FINISHED):
        return "finished"
    return "admitted" if conditions.is_true(workload, conditions.ADMITTED) else _WAITING


def _waits(workload: Manifest) -> bool:
    return not (
        conditions.is_true(workload, conditions.FINISHED) or conditions.is_true(workload, conditions.QUOTA_RESERVED)
    )


def _first(waiting: list[Manifest], most: int) -> Sequence[Manifest]:
    """The first of every LocalQueue's order, as many as are played."""
    if len(waiting) <= most:
        return waiting
    places: dict[tuple[str, str], int] = {}
    ranked: list[tuple[int, int, Manifest]] = []
    for manifest in sorted(waiting, key=queue_order):
        queue = manifest["metadata"]["namespace"], manifest["spec"].get("queueName", "")
        places[queue] = places.get(queue, 0) + 1
        ranked.append((places[queue], len(ranked), manifest))
    ranked.sort(key=lambda one: one[:2])
    return [manifest for _, _, manifest in ranked[:most]]


def _without_fields(manifest: Manifest) -> Manifest:
    """Without the fields that no decision needs."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
    return {**manifest, "metadata": metadata}


def _max_duration(job: Manifest) -> float | None:
    """What the task that runs declares."""
    tasks, place = job["spec"].get("tasks") or (), (job.get("status") or {}).get("task") or 0
    found = tasks[place].get("max_duration") if place < len(tasks) else None
    return float(found) if isinstance(found, int | float) else None
