"""Many writers, many watchers that drop and resume, full disks and restarts: no event lost, doubled or out of order.

Every outcome of every write is foretold by the model in `fleet.py`, and so is every event of every watcher.
"""

import asyncio
import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairway.apis.machinery.kind import Manifest
from fairway.errors import Expired, StorageFailed
from fairway.store.entries import Key
from fairway.store.gc import NamespaceKeeper
from fairway.store.store import History, Store
from fairway.store.verbs import DeleteOptions, Objects, PatchType, Written
from fairway.store.verbs.listing import Paging
from fairway.store.verbs.reading import decoded
from fairway.store.verbs.watching import Events
from fairway.testing.clock import VirtualClock
from fairway.testing.stores import PATIENCE_SECONDS, OpenLog, UnreliableLog, log_in_memory, log_on_a_file

from .fleet import (
    HOLD,
    JOBS,
    REGISTRY,
    Fleet,
    Job,
    Meant,
    Outcome,
    Seen,
    Write,
    everything,
    in_namespace,
    in_queue,
    not_of_team_in,
    of_team,
)  # fmt: skip

VERSION = JOBS.stored
WATCHED = (everything, lambda: in_namespace("default"), lambda: of_team("red"), lambda: in_queue("fast"),
           lambda: not_of_team_in("red", "kube-system"))  # fmt: skip

KEYS = st.tuples(st.sampled_from(["default", "kube-system"]), st.sampled_from(["a", "b", "c"]))
TEAMS = st.sampled_from(["red", "blue"])
QUEUES = st.sampled_from(["fast", "slow"])
PRIORITIES = st.integers(1, 3)
NEW = st.fixed_dictionaries({"team": TEAMS, "queue": QUEUES, "priority": PRIORITIES, "held": st.booleans()})
CHANGES = st.fixed_dictionaries(
    {}, optional={"team": TEAMS, "queue": QUEUES, "priority": PRIORITIES, "held": st.booleans()}
)
PHASES = st.fixed_dictionaries({"phase": st.sampled_from(["RUNNING", "SUCCEEDED"])})
WRITES = st.one_of(
    st.builds(Write, st.just("create"), KEYS, NEW, st.just("")),
    st.builds(Write, st.just("update"), KEYS, CHANGES, st.sampled_from(["read", "read", "read", "stale", ""])),
    st.builds(Write, st.just("status"), KEYS, PHASES, st.sampled_from(["read", "read", "stale"])),
    st.builds(Write, st.just("patch"), KEYS, CHANGES, st.just("")),
    st.builds(Write, st.just("patch-status"), KEYS, PHASES, st.just("")),
    st.builds(Write, st.just("delete"), KEYS, st.just({}), st.sampled_from(["", "read", "stale"])),
)


def described(fields: dict[str, Any]) -> Manifest:
    """Fields of a job as a merge patch has them."""
    patch: Manifest = {"metadata": {}, "spec": {}}
    if "team" in fields:
        patch["metadata"]["labels"] = {"team": fields["team"]}
    if "held" in fields:
        patch["metadata"]["finalizers"] = [HOLD] if fields["held"] else None
    if "phase" in fields:
        patch["status"] = {"phase": fields["phase"]}
    patch["spec"] = {name: fields[name] for name in ("queue", "priority") if name in fields}
    return patch


def edited(manifest: Manifest, fields: dict[str, Any]) -> Manifest:
    """A job as its author sends it back."""
    new = copy.deepcopy(manifest)
    patch = described(fields)
    new["metadata"].update(patch["metadata"])
    new["spec"].update(patch["spec"])
    if "status" in patch:
        new["status"] = patch["status"]
    return new


class Watcher:
    """Keeps its own picture of a selection by list and watch, and loses its connection now and then."""

    def __init__(self, meant: Meant) -> None:
        self.meant = meant
        self.state: dict[Key, Job] = {}
        self.since = 0
        """Up to where it knows everything; 0 before its first list."""

        self.events: Events | None = None
        self._seen: list[Seen] = []
        """What it took from the stream and has not yet made part of its picture."""

        self._expired = False

    def drop(self) -> None:
        """Lose the connection, and what it had not yet looked at."""
        self.events, self._seen, self._expired = None, [], False

    def connect(self, objects: Objects, fleet: Fleet, history: History) -> None:
        if self.events is not None:
            return
        if self.since:
            try:
                self.events = objects.watch(self.meant.selection, self.since)
            except Expired:
                self.check_expiry(fleet, history)
            else:
                return
        page = objects.page(self.meant.selection)
        assert page.revision == fleet.revision
        self.state = {entry.key: Job.of(decoded(entry)) for entry in page.entries}
        self.since = page.revision
        self.events = objects.watch(self.meant.selection, self.since)

    def check_expiry(self, fleet: Fleet, history: History) -> None:
        """Nobody is sent away who knows all but the most recent changes."""
        assert fleet.revisions_after(self.since) > int(history.changes * 0.9)

    async def follow(self) -> None:
        """Take events as they come, until cancelled."""
        while self.events is not None and not self._expired:
            await self._take(self.events)

    async def _take(self, events: Events) -> None:
        try:
            for event in await events.next():
                entry = event.entry
                assert decoded(entry)["metadata"]["resourceVersion"] == str(entry.revision)
                self._seen.append(Seen(event.type, entry.key, entry.revision, Job.of(decoded(entry)), entry.data))
        except Expired:
            self._expired = True

    async def catch_up(self, fleet: Fleet, history: History) -> None:
        """Take all that is there; it must be exactly what the model foretells."""
        if self.events is None:
            return
        while self.events.is_behind and not self._expired:
            await self._take(self.events)
        if self._expired:
            self.check_expiry(fleet, history)
            self.drop()
            self.since = 0
            return
        seen, self._seen = self._seen, []
        expected = fleet.events(self.meant, self.since)
        assert [one._replace(data=None) for one in seen] == [one._replace(data=None) for one in expected]
        for one, foretold in zip(seen, expected, strict=True):
            assert foretold.data in {None, one.data}
            if one.type == "DELETED":
                del self.state[one.key]
            else:
                self.state[one.key] = one.job
        if seen:
            self.since = seen[-1].revision

    def check(self, fleet: Fleet) -> None:
        state = fleet.at(self.since)
        assert self.state == {key: job for key, job in state.items() if self.meant.test(key, job)}


class Machine(RuleBasedStateMachine):
    """The store under test, its writers and its watchers, beside the model."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = VirtualClock()
        self.fleet = Fleet()
        self.uids: dict[Key, str] = {}
        self.all_uids: set[str] = set()
        self.watchers = [Watcher(meant()) for meant in WATCHED for _ in range(2)]
        self.open_log = self.place()

    def place(self) -> OpenLog:
        raise NotImplementedError

    @initialize(changes=st.sampled_from([0, 3, 8, 1000]))
    def start(self, changes: int) -> None:
        self.history = History(changes=changes)
        self.runner.run(self.opened())
        self.fleet.start(self.objects.store.revision)

    async def opened(self) -> None:
        self.log = UnreliableLog(self.open_log())
        store = Store(self.log, self.history)
        await store.start()
        self.objects = Objects(store, REGISTRY, self.clock.now)
        await NamespaceKeeper(self.objects).make_defaults()

    def teardown(self) -> None:
        if hasattr(self, "objects"):
            self.runner.run(self.objects.store.close())
        self.runner.close()

    # Writing

    @rule(writes=st.lists(WRITES, min_size=1, max_size=8))
    def write_together(self, writes: list[Write]) -> None:
        outcomes = self.fleet.decide(writes)
        answers = self.runner.run(self.written(writes))
        for write, outcome, answer in zip(writes, outcomes, answers, strict=True):
            self.check_answer(write, outcome, answer)

    @rule(writes=st.lists(WRITES, min_size=1, max_size=6))
    def write_on_a_full_disk(self, writes: list[Write]) -> None:
        outcomes = self.fleet.decide(writes)
        self.log.failing = True
        answers = self.runner.run(self.written(writes))
        self.log.failing = False
        for outcome, answer in zip(outcomes, answers, strict=True):
            if outcome.refusal is not None:
                assert type(answer) is outcome.refusal
            else:
                assert isinstance(answer, StorageFailed) or (outcome.same and isinstance(answer, Written))

    @precondition(lambda self: self.fleet.now)
    @rule(team=TEAMS)
    def delete_a_team(self, team: str) -> None:
        doomed = [key for key, job in sorted(self.fleet.now.items()) if job.team == team]
        writes = [Write("delete", key, {}) for key in doomed]
        outcomes = self.fleet.decide(writes)
        answers = self.runner.run(self.objects.delete_collection(of_team(team).selection))
        for write, outcome, answer in zip(writes, outcomes, answers, strict=True):
            self.check_answer(write, outcome, answer)

    async def written(self, writes: list[Write]) -> list[Any]:
        """All at once, with watchers that follow as it happens."""
        followers = [asyncio.ensure_future(one.follow()) for one in self.watchers[::2]]
        async with asyncio.timeout(PATIENCE_SECONDS):
            answers = await asyncio.gather(*(self.carried_out(write) for write in writes), return_exceptions=True)
        for one in followers:
            one.cancel()
        ended = await asyncio.gather(*followers, return_exceptions=True)
        assert not [one for one in ended if isinstance(one, Exception)]
        return answers

    async def carried_out(self, write: Write) -> Written:
        verb, key, fields, revision = write
        objects = self.objects
        if verb == "create":
            manifest: Manifest = {"metadata": {"name": key[1]}, "spec": {"tasks": [{"run": "true"}]}}
            return await objects.create(JOBS, VERSION, key[0], edited(manifest, {**fields, "phase": "Forged"}))
        if verb.startswith("patch"):
            subresource = "status" if verb == "patch-status" else ""
            patch = described({**fields, "priority": 9} if subresource else {**fields, "phase": "Forged"})
            return await objects.patch(JOBS, VERSION, key, PatchType.MERGE, patch, subresource=subresource)
        metadata = self.read(key)["metadata"]
        if verb == "delete":
            if revision == "read":
                options = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
            else:
                options = DeleteOptions(resource_version="1" if revision == "stale" else "")
            return await objects.delete(JOBS, key, options)
        manifest = edited(self.read(key), fields)
        if revision != "read":
            manifest["metadata"]["resourceVersion"] = "1" if revision == "stale" else ""
        return await objects.update(JOBS, VERSION, key, manifest, subresource="status" if verb == "status" else "")

    def read(self, key: Key) -> Manifest:
        """What a client knows of an object: what a reader sees, or what it made up."""
        entry = self.objects.store.get(JOBS.resource, key)
        if entry is not None:
            return decoded(entry)
        metadata = {"name": key[1], "uid": "made-up", "resourceVersion": "2", "labels": {"team": "red"}}
        return {"metadata": metadata, "spec": {"queue": "fast", "priority": 1, "tasks": [{"run": "true"}]}}

    def check_answer(self, write: Write, outcome: Outcome, answer: object) -> None:
        if outcome.refusal is not None:
            assert type(answer) is outcome.refusal, answer
            return
        assert isinstance(answer, Written), answer
        manifest, key = decoded(answer.entry), write.key
        assert Job.of(manifest) == outcome.job
        assert answer.removed == outcome.removed
        assert answer.created == (write.verb == "create")
        assert manifest["metadata"]["resourceVersion"] == str(answer.entry.revision)
        uid = manifest["metadata"]["uid"]
        if answer.created:
            assert uid not in self.all_uids
            self.all_uids.add(uid)
            self.uids[key] = uid
        assert self.uids[key] == uid
        if not outcome.same:
            self.fleet.note(answer.entry.revision, key, outcome, answer.entry.data)

    # Watching

    @rule()
    def everybody_catches_up(self) -> None:
        for number in range(len(self.watchers)):
            self.resume_and_catch_up(number)

    @rule(number=st.integers(0, 9))
    def drop(self, number: int) -> None:
        self.watchers[number].drop()

    @rule(number=st.integers(0, 9))
    def resume(self, number: int) -> None:
        self.watchers[number].connect(self.objects, self.fleet, self.history)

    @rule(number=st.integers(0, 9))
    def resume_and_catch_up(self, number: int) -> None:
        watcher = self.watchers[number]
        watcher.connect(self.objects, self.fleet, self.history)
        self.runner.run(watcher.catch_up(self.fleet, self.history))
        if watcher.since:
            watcher.check(self.fleet)

    # Reading

    @rule(meant=st.sampled_from(WATCHED), back=st.integers(0, 12), limit=st.integers(0, 3))
    def list_the_past(self, meant: Any, back: int, limit: int) -> None:
        wanted: Meant = meant()
        revision = max(1, self.fleet.revision - back)
        found: list[Key] = []
        paging = Paging(revision=revision, exact=True, limit=limit)
        try:
            while True:
                page = self.objects.page(wanted.selection, paging)
                found += [entry.key for entry in page.entries]
                if not page.token:
                    break
                paging = Paging(token=page.token, limit=limit)
        except Expired:
            assert self.fleet.revisions_after(revision) > int(self.history.changes * 0.9)
            return
        state = self.fleet.at(revision)
        assert found == sorted(key for key, job in state.items() if wanted.test(key, job))

    @rule()
    def restart(self) -> None:
        self.runner.run(self.objects.store.close())
        for watcher in self.watchers:
            watcher.drop()
        self.runner.run(self.opened())

    @invariant()
    def readers_see_what_was_acknowledged_and_nothing_else(self) -> None:
        if not hasattr(self, "objects"):
            return
        entries = self.objects.store.collection(JOBS.resource).entries
        assert {key: Job.of(decoded(entry)) for key, entry in entries.items()} == self.fleet.now
        assert self.objects.store.revision == self.fleet.revision


class OnAFile(Machine):
    def place(self) -> OpenLog:
        self.directory = Path(tempfile.mkdtemp())
        return log_on_a_file(self.directory / "fairway.db")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.directory)


class InMemory(Machine):
    def place(self) -> OpenLog:
        return log_in_memory()


EFFORT = settings(
    max_examples=80 if settings().derandomize else 1000,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestOnAFile = OnAFile.TestCase
TestOnAFile.settings = EFFORT
TestInMemory = InMemory.TestCase
TestInMemory.settings = EFFORT
