"""The recent past: watching from a revision, what is forgotten and when, and what a store knows after a restart."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import Expired, StorageFailed
from fairway.store.log import Batch, Row
from fairway.store.store import History, Store
from fairway.testing.stores import PATIENCE_SECONDS, OpenLog, UnreliableLog, log_in_memory, log_on_a_file

from .harbour import BOATS, CREWS, boat, document, load_of, put, remove, running, there, told

SHORT = History(changes=10)


async def put_many(store: Store, count: int, name: str = "arc") -> None:
    """So many changes of one boat, each durable before the next."""
    for number in range(count):
        await put(store, name, number)


def revisions_in(open_log: OpenLog) -> list[int]:
    log = open_log()
    try:
        return [row.revision for row in log.rows()]
    finally:
        log.close()


@pytest.mark.parametrize("since", [0, 1, 2, 3, 4])
def test_a_watch_gives_what_came_after_its_revision(open_log: OpenLog, since: int) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            await put(store, "arc", 1)
            await put(store, "crew", 1, CREWS)
            await put(store, "arc", 2)
            await remove(store, "arc")
            expected = [("ADDED", "arc", 1, 1), ("MODIFIED", "arc", 2, 3), ("DELETED", "arc", "sunk", 4)]
            assert told(store.watch(BOATS, since).ready()) == [one for one in expected if one[3] > since]

    asyncio.run(story())


def test_a_watch_takes_its_changes_in_pieces_and_waits_for_more(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            watch = store.watch(BOATS, 0)
            await put_many(store, 5)
            assert [change.revision for change in watch.ready(2)] == [1, 2]
            assert [change.revision for change in await watch.next(2)] == [3, 4]
            assert [change.revision for change in await watch.next()] == [5]
            assert watch.ready() == []
            coming = asyncio.ensure_future(watch.next())
            await put(store, "crew", 1, CREWS)
            assert not coming.done()
            await put(store, "arc", 9)
            assert told(await coming) == [("MODIFIED", "arc", 9, 7)]

    asyncio.run(story())


def test_a_watcher_that_gives_up_waiting_loses_nothing(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            watch = store.watch(BOATS, 0)
            waiting = asyncio.ensure_future(watch.next())
            await asyncio.sleep(0)
            waiting.cancel()
            await put_many(store, 3)
            assert [change.revision for change in await watch.next()] == [1, 2, 3]

    asyncio.run(story())


def test_a_thousand_watchers_all_hear_of_a_change(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            watches = [store.watch(BOATS, 0) for _ in range(1000)]
            waiting = [asyncio.ensure_future(watch.next()) for watch in watches]
            await asyncio.sleep(0)
            await put(store, "arc", 1)
            async with asyncio.timeout(PATIENCE_SECONDS):
                heard = await asyncio.gather(*waiting)
            assert all(told(changes) == [("ADDED", "arc", 1, 1)] for changes in heard)

    asyncio.run(story())


def test_a_watch_from_what_is_forgotten_is_refused_and_one_from_the_last_forgotten_is_not(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log, SHORT) as store:
            await put_many(store, 40)
            floor = store.collection(BOATS).feed.floor
            assert 40 - 10 - 1 <= floor < 40
            with pytest.raises(Expired, match=f"too old resource version: {floor - 1} \\({floor}\\)"):
                store.watch(BOATS, floor - 1)
            with pytest.raises(Expired):
                store.collection(BOATS).at(floor - 1)
            assert [change.revision for change in store.watch(BOATS, floor).ready()] == list(range(floor + 1, 41))
            assert load_of(store.collection(BOATS).at(floor).get(boat("arc"))) == floor - 1

    asyncio.run(story())


def test_a_watcher_that_is_too_slow_is_told_so(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log, SHORT) as store:
            slow, quick = store.watch(BOATS, 0), store.watch(BOATS, 0)
            seen = []
            for number in range(40):
                await put(store, "arc", number)
                seen += quick.ready()
            assert [change.revision for change in seen] == list(range(1, 41))
            with pytest.raises(Expired, match="too slow"):
                await slow.next()

    asyncio.run(story())


def test_changes_of_one_resource_do_not_expire_the_watchers_of_a_quiet_one(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log, SHORT) as store:
            quiet = store.watch(CREWS, 0)
            await put_many(store, 40)
            await put(store, "captain", 1, CREWS)
            assert [change.entry.name for change in quiet.ready()] == ["captain"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("history", "load", "most"),
    [
        pytest.param(History(changes=20), "", 20, id="by number"),
        pytest.param(History(changes=1000, data_bytes=20_000), "x" * 1000, 20, id="by size"),
        pytest.param(History(changes=0), "", 1, id="nothing but the newest"),
    ],
)
def test_history_is_limited_and_what_is_forgotten_leaves_the_log(
    open_log: OpenLog, history: History, load: str, most: int
) -> None:
    async def story() -> int:
        async with running(open_log, history) as store:
            for number in range(100):
                await put(store, "arc", f"{load}{number}")
            return store.collection(BOATS).feed.floor

    floor = asyncio.run(story())
    kept = revisions_in(open_log)
    assert kept == list(range(floor, 101))  # the state at the floor, and every change after it
    assert len(kept) <= most + 2


def test_living_objects_stay_in_the_log_however_old_they_are(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log, SHORT) as store:
            for name in ("old", "older", "sunk"):
                await put(store, name, 7)
            await remove(store, "sunk")
            await put_many(store, 50)

    async def again() -> None:
        async with running(open_log, SHORT) as store:
            assert there(store) == {"old": 7, "older": 7, "arc": 49}

    asyncio.run(story())
    assert revisions_in(open_log)[:2] == [1, 2]
    assert revisions_in(open_log)[2] > 40  # neither the one that sank nor its end
    asyncio.run(again())


def test_a_reopened_store_has_the_same_objects_revision_and_recent_changes(open_log: OpenLog) -> None:
    async def story() -> tuple[Any, ...]:
        async with running(open_log) as store:
            await put(store, "arc", 1)
            await put(store, "bark", 1)
            await put(store, "arc", 2)
            await put(store, "captain", 1, CREWS)
            await remove(store, "arc")
            await put(store, "arc", 3)
            await remove(store, "bark")
            return known(store)

    async def again() -> tuple[Any, ...]:
        async with running(open_log) as store:
            return known(store)

    def known(store: Store) -> tuple[Any, ...]:
        changes = store.watch(BOATS, 0).ready()
        before = [load_of(change.previous) for change in changes]
        return store.revision, store.next_revision, there(store), there(store, CREWS), told(changes), before

    expected = asyncio.run(story())
    assert expected[4] == [
        ("ADDED", "arc", 1, 1),
        ("ADDED", "bark", 1, 2),
        ("MODIFIED", "arc", 2, 3),
        ("DELETED", "arc", "sunk", 5),
        ("ADDED", "arc", 3, 6),
        ("DELETED", "bark", "sunk", 7),
    ]
    assert expected[5] == [None, None, 1, 2, None, 1]
    assert asyncio.run(again()) == expected
    assert asyncio.run(again()) == expected


def test_a_reopened_store_refuses_what_was_forgotten_before(open_log: OpenLog) -> None:
    async def story() -> int:
        async with running(open_log, SHORT) as store:
            await put_many(store, 40)
            return store.collection(BOATS).feed.floor

    async def again(floor: int) -> None:
        async with running(open_log) as store:
            for resource in (BOATS, "never seen"):
                with pytest.raises(Expired):
                    store.watch(resource, floor - 1)
            assert [change.revision for change in store.watch(BOATS, floor).ready()] == list(range(floor + 1, 41))

    asyncio.run(again(asyncio.run(story())))


def test_revisions_do_not_go_back_when_the_newest_rows_are_dropped(open_log: OpenLog) -> None:
    async def story() -> int:
        async with running(open_log, History(changes=0)) as store:
            await put(store, "arc")
            await remove(store, "arc")
            await put(store, "bark")  # forgets the one that sank, and with it the two newest rows
            await remove(store, "bark")
            return store.revision

    async def again() -> tuple[int, int]:
        async with running(open_log, History(changes=0)) as store:
            found = store.revision
            await put(store, "clipper")
            await remove(store, "clipper")
            return found, store.revision

    last = asyncio.run(story())
    for _ in range(3):
        found, newest = asyncio.run(again())
        assert found == last
        assert newest > last
        last = newest


def test_rows_that_nobody_can_ask_for_are_dropped_at_the_next_start(open_log: OpenLog) -> None:
    """As a version that kept no account of its failures may have left them."""
    log = open_log()
    log.append(
        Batch(
            [
                Row(1, BOATS, *boat("arc"), deleted=False, data=document("arc", 1)),
                Row(2, BOATS, *boat("arc"), deleted=False, data=document("arc", 2)),
                Row(3, BOATS, *boat("bark"), deleted=False, data=document("bark", 1)),
                Row(4, BOATS, *boat("bark"), deleted=True, data=document("bark", 2)),
                Row(5, BOATS, *boat("clipper"), deleted=False, data=document("clipper", 1)),
                Row(6, BOATS, *boat("clipper"), deleted=False, data=document("clipper", 2)),
            ],
            [],
            5,
        )
    )
    log.close()

    async def start_and_end() -> None:
        async with running(open_log) as store:
            assert there(store) == {"arc": 2, "clipper": 2}

    asyncio.run(start_and_end())
    assert revisions_in(open_log) == [2, 5, 6]  # 5 is what the clipper was at the floor


def test_what_is_deleted_does_not_come_back_after_a_failed_commit(open_log: OpenLog) -> None:
    """The batch that fails is the one that drops an old state; a later one drops the newer state and the deletion.

    Once the first drop was forgotten, the old state was the only row left of its object, which a restart brought back.
    """

    async def story() -> None:
        log = UnreliableLog(open_log())
        async with running(lambda: log, History(changes=2)) as store:
            await put(store, "ghost", 1)
            await put(store, "ghost", 2)
            await put(store, "arc", 0)
            log.failing = True
            with pytest.raises(StorageFailed):
                await put(store, "arc", 1)
            assert 1 in log.batches[-1].dropped or log.batches[-1].floor
            for number in range(3):
                with pytest.raises(StorageFailed):
                    await put(store, "arc", number)
            log.failing = False
            await remove(store, "ghost")
            await put_many(store, 10)
            assert set(there(store)) == {"arc"}

    async def again() -> None:
        async with running(open_log, History(changes=2)) as store:
            assert set(there(store)) == {"arc"}

    asyncio.run(story())
    assert len(revisions_in(open_log)) <= 4
    asyncio.run(again())


def test_a_full_disk_is_asked_once_for_each_write_and_not_by_itself(open_log: OpenLog) -> None:
    async def story() -> None:
        log = UnreliableLog(open_log())
        async with running(lambda: log, History(changes=0)) as store:
            await put_many(store, 3)
            log.failing = True
            for _ in range(20):
                with pytest.raises(StorageFailed):
                    await put(store, "arc", 9)
        assert len(log.batches) == 3 + 20

    asyncio.run(story())


@dataclass
class Model:
    """Every state that ever was, by revision."""

    states: dict[int, dict[str, Any]] = field(default_factory=lambda: {0: {}})
    revision: int = 0

    def note(self, revision: int, name: str, load: object) -> None:
        state = dict(self.states[self.revision])
        if load is None:
            del state[name]
        else:
            state[name] = load
        self.revision = revision
        self.states[revision] = state

    def at(self, revision: int) -> dict[str, Any]:
        return self.states[max(known for known in self.states if known <= revision)]


def check(store: Store, model: Model) -> None:
    """Every revision that the store still answers for is as it was."""
    assert store.revision == model.revision
    assert there(store) == model.at(model.revision)
    collection = store.collection(BOATS)
    for revision in range(collection.feed.floor, store.revision + 1):
        snapshot = collection.at(revision)
        found = {key[1]: load_of(snapshot.get(key)) for key in snapshot.keys("harbour")}
        assert found == model.at(revision)
        replayed = dict(model.at(revision))
        for change in store.watch(BOATS, revision).ready():
            name = change.entry.name
            if change.type == "DELETED":
                del replayed[name]
            else:
                assert change.type == ("MODIFIED" if name in replayed else "ADDED")
                replayed[name] = load_of(change.entry)
        assert replayed == model.at(store.revision)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("abcd")),
        st.tuples(st.sampled_from(["fail", "work", "reopen"]), st.just("")),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), STEPS)
def test_every_remembered_revision_is_as_it_was_through_failures_and_restarts(
    changes: int, steps: list[tuple[str, str]]
) -> None:
    async def story(open_log: OpenLog) -> None:
        model, history = Model(), History(changes=changes)
        log = UnreliableLog(open_log())
        store = Store(log, history)
        await store.start()
        for number, (step, name) in enumerate([*steps, ("reopen", "")]):
            if step in {"fail", "work"}:
                log.failing = step == "fail"
            elif step == "reopen":
                await store.close()
                log = UnreliableLog(open_log())
                store = Store(log, history)
                await store.start()
            elif step == "put" or store.get(BOATS, boat(name)) is not None:
                done = put(store, name, number) if step == "put" else remove(store, name)
                revision = store.next_revision - 1
                try:
                    await done
                except StorageFailed:
                    assert log.failing
                else:
                    model.note(revision, name, number if step == "put" else None)
            check(store, model)
        await store.close()

    with TemporaryDirectory() as directory:
        asyncio.run(story(log_on_a_file(Path(directory) / "fairway.db")))
    asyncio.run(story(log_in_memory()))
