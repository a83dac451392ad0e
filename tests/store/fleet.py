"""What a store of managed jobs must answer, kept the simplest way: every state that ever was, in a list.

Writes of one burst are decided in the order in which they are made, each on top of the one before, durable or not. So
the model knows the outcome of every one of them beforehand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fairway.apis.machinery.custom import custom_rules
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.metadata_rules import LABEL
from fairway.apis.registry import Registry, default_registry
from fairway.errors import AlreadyExists, Conflict, NotFound, ValidationError
from fairway.store.entries import Key
from fairway.store.selectors import Selection

HOLD = "example.dev/hold"


def _queue(manifest: Manifest) -> str:
    return str(manifest["spec"]["queue"])


def _kinds() -> tuple[Kind, Kind]:
    registry = default_registry()
    namespaces, jobs = registry.by_name("namespaces"), registry.by_name("managedjobs")
    assert namespaces is not None
    assert jobs is not None
    # Without the rules about managed jobs: here every part of them may be changed.
    return namespaces, replace(jobs, selectable={"spec.queue": _queue}, rules=custom_rules(name_rule=LABEL))


NAMESPACES, JOBS = _kinds()
REGISTRY = Registry([NAMESPACES, JOBS])


@dataclass(frozen=True)
class Job:
    """One state of one object, as far as writes decide it."""

    team: str
    queue: str
    priority: int
    generation: int = 1
    phase: str = ""
    held: bool = False
    deleting: bool = False

    @classmethod
    def of(cls, manifest: Manifest) -> "Job":
        metadata, spec = manifest["metadata"], manifest["spec"]
        return cls(
            team=metadata["labels"]["team"],
            queue=spec["queue"],
            priority=spec["priority"],
            generation=metadata["generation"],
            phase=manifest.get("status", {}).get("phase", ""),
            held=HOLD in metadata.get("finalizers", ()),
            deleting="deletionTimestamp" in metadata,
        )

    def changed(self, fields: dict[str, Any]) -> "Job":
        new = replace(self, **fields)
        if (new.queue, new.priority) != (self.queue, self.priority):
            new = replace(new, generation=self.generation + 1)
        return new


class Write(NamedTuple):
    """One write: the verb, the object, and what it wants of it."""

    verb: str
    """create, update, status, patch, patch-status, delete; all of them on one object."""

    key: Key
    fields: dict[str, Any]
    """For create and the changes: fields of `Job`."""

    revision: str = ""
    """For update, status and delete: `read` (as it was before the burst), `stale`, or none."""


@dataclass(frozen=True)
class Outcome:
    """What must come of a write."""

    refusal: type[Exception] | None = None
    job: Job | None = None
    """The state after it, or the last one."""

    removed: bool = False
    same: bool = False
    """It changes nothing, and makes no revision."""


class Record(NamedTuple):
    """One revision."""

    revision: int
    key: Key
    before: Job | None
    after: Job | None
    last: Job
    """The state that was answered: that after the write, or the last one where there is none."""

    data: bytes


class Meant(NamedTuple):
    """A selection, and what it means."""

    selection: Selection
    test: Callable[[Key, Job], bool]


def everything() -> Meant:
    return Meant(Selection(JOBS), lambda _key, _job: True)


def in_namespace(namespace: str) -> Meant:
    return Meant(Selection(JOBS, namespace), lambda key, _job: key[0] == namespace)


def of_team(team: str) -> Meant:
    return Meant(Selection(JOBS, labels=f"team={team}"), lambda _key, job: job.team == team)


def in_queue(queue: str) -> Meant:
    return Meant(Selection(JOBS, fields=f"spec.queue={queue}"), lambda _key, job: job.queue == queue)


def not_of_team_in(team: str, namespace: str) -> Meant:
    selection = Selection(JOBS, namespace, f"team!={team}", "spec.queue!=slow")
    return Meant(selection, lambda key, job: key[0] == namespace and job.team != team and job.queue != "slow")


class Seen(NamedTuple):
    """One event as a watcher must see it."""

    type: str
    key: Key
    revision: int
    job: Job
    data: bytes | None
    """Byte by byte, where the watcher sees what the author was answered."""


@dataclass
class Fleet:
    """The model."""

    records: list[Record] = field(default_factory=list)
    _states: list[dict[Key, Job]] = field(default_factory=lambda: [{}])
    _base: int = 0
    """The revision at which there were no jobs yet."""

    def start(self, revision: int) -> None:
        self._base = revision

    @property
    def revision(self) -> int:
        return self.records[-1].revision if self.records else self._base

    @property
    def now(self) -> dict[Key, Job]:
        return self._states[-1]

    def at(self, revision: int) -> dict[Key, Job]:
        """What there was at a revision."""
        return self._states[sum(record.revision <= revision for record in self.records)]

    def revisions_after(self, revision: int) -> int:
        """How many revisions came after one, those before the first job included."""
        return sum(record.revision > revision for record in self.records) + max(0, self._base - revision)

    def note(self, revision: int, key: Key, outcome: Outcome, data: bytes) -> None:
        """Remember a write that was acknowledged."""
        assert revision > self.revision, "revisions must rise"
        assert outcome.job is not None
        after = None if outcome.removed else outcome.job
        self.records.append(Record(revision, key, self.now.get(key), after, outcome.job, data))
        state = dict(self.now)
        if after is None:
            del state[key]
        else:
            state[key] = after
        self._states.append(state)

    def events(self, meant: Meant, since: int) -> list[Seen]:
        """What a watcher of a selection must see after a revision."""
        seen = []
        for revision, key, before, after, last, data in self.records:
            if revision <= since:
                continue
            known = before is not None and meant.test(key, before)
            if after is not None and meant.test(key, after):
                seen.append(Seen("MODIFIED" if known else "ADDED", key, revision, after, data))
            elif known and after is None:
                seen.append(Seen("DELETED", key, revision, last, data))
            elif known:
                assert before is not None
                seen.append(Seen("DELETED", key, revision, before, None))
        return seen

    def decide(self, writes: Sequence[Write]) -> list[Outcome]:
        """The outcomes of writes that are made together, in this order."""
        heads: dict[Key, tuple[Job, bool]] = {key: (job, True) for key, job in self.now.items()}
        outcomes = []
        for write in writes:
            outcome = _decided(write, heads.get(write.key))
            if outcome.removed:
                del heads[write.key]
            elif outcome.job is not None and not outcome.same:
                heads[write.key] = (outcome.job, False)
            outcomes.append(outcome)
        return outcomes


def _decided(write: Write, head: tuple[Job, bool] | None) -> Outcome:
    verb = write.verb
    if verb == "create":
        return Outcome(refusal=AlreadyExists) if head is not None else Outcome(job=Job(**write.fields))
    if head is None:
        return Outcome(refusal=NotFound)
    job, as_read = head
    if verb in {"update", "status"} and not write.revision:
        return Outcome(refusal=ValidationError)
    if write.revision == "stale" or (write.revision == "read" and not as_read):
        return Outcome(refusal=Conflict)
    if verb == "delete":
        if not job.held:
            return Outcome(job=job, removed=True)
        if job.deleting:
            return Outcome(job=job, same=True)
        return Outcome(job=replace(job, deleting=True, generation=job.generation + 1))
    new = job.changed(write.fields)
    if new.deleting and new.held and not job.held:
        return Outcome(refusal=ValidationError)
    if new == job:
        return Outcome(job=job, same=True)
    return Outcome(job=new, removed=new.deleting and not new.held)
