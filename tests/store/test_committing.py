"""From staged to durable: who sees a write when, what is committed together, and what a failure takes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairway.errors import StorageFailed, TooManyRequests, Unavailable
from fairway.store import store as stores
from fairway.store.entries import Change
from fairway.store.store import History, Store
from fairway.testing.stores import OpenLog, local_api

from .harbour import BOATS, CREWS, HeldLog, boat, load_of, put, put_together, remove, running, there, told


@asynccontextmanager
async def on_held_log(open_log: OpenLog, history: History | None = None) -> AsyncIterator[tuple[Store, HeldLog]]:
    log = HeldLog(open_log())
    async with running(lambda: log, history) as store:
        try:
            yield store, log
        finally:
            log.release()


def test_a_write_is_seen_by_the_next_write_at_once_and_by_readers_when_it_is_durable(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            await put(store, "arc", 1)
            watch = store.watch(BOATS, store.revision)
            log.hold()
            changed, added, gone = put(store, "arc", 2), put(store, "bark", 1), remove(store, "arc")
            await log.arrival()

            assert load_of(store.head(BOATS, boat("arc"))) is None
            assert load_of(store.head(BOATS, boat("bark"))) == 1
            assert there(store) == {"arc": 1}
            assert (store.revision, store.next_revision) == (1, 5)
            assert watch.ready() == []
            assert not any(one.done() for one in (changed, added, gone))

            log.release()
            await gone
            assert changed.done()
            assert added.done()
            assert there(store) == {"bark": 1}
            assert (store.revision, store.next_revision) == (4, 5)
            assert told(watch.ready()) == [
                ("MODIFIED", "arc", 2, 2),
                ("ADDED", "bark", 1, 3),
                ("DELETED", "arc", "sunk", 4),
            ]

    asyncio.run(story())


def test_readers_and_watchers_know_before_the_author_does(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            seen: list[str] = []
            watch = store.watch(BOATS, 0)

            def observe(change: Change) -> None:
                assert load_of(store.get(BOATS, change.entry.key)) == load_of(change.entry)
                seen.append("observer")

            store.observe(observe)

            async def follow() -> None:
                await watch.next()
                seen.append("watcher")

            async def write() -> None:
                await put(store, "arc", 1)
                seen.append("author")

            await asyncio.gather(follow(), write())
            assert seen == ["observer", "watcher", "author"]

    asyncio.run(story())


def test_what_waits_for_the_disk_is_committed_together(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            log.hold()
            first = put(store, "boat-0")
            await log.arrival()
            waiting = [put(store, f"boat-{number}") for number in range(1, 50)]
            log.release()
            await asyncio.gather(first, *waiting)

            assert [[row.revision for row in batch.rows] for batch in log.batches] == [[1], list(range(2, 51))]
            assert len(there(store)) == 50

    asyncio.run(story())


def test_changes_staged_together_become_visible_together(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            watch = store.watch(BOATS, 0)
            done = put_together(store, ["arc", "bark", "clipper"])
            changes = await watch.next()
            assert [change.revision for change in changes] == [1, 2, 3]
            await done
            assert store.revision == 3

    asyncio.run(story())


def test_revisions_rise_by_one_whoever_writes_what(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            waiting = [put(store, f"boat-{number % 7}", number, [BOATS, CREWS][number % 2]) for number in range(200)]
            await asyncio.gather(*waiting)
            changes = [*store.watch(BOATS, 0).ready(), *store.watch(CREWS, 0).ready()]
            assert sorted(change.revision for change in changes) == list(range(1, 201))

    asyncio.run(story())


def test_a_failed_commit_takes_back_everything_that_was_staged(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            await put(store, "arc", 1)
            watch = store.watch(BOATS, 0)
            log.hold()
            log.failing = True
            failed = [put(store, "arc", 2), put(store, "bark", 1)]
            await log.arrival()
            failed += [put(store, "arc", 3), remove(store, "bark")]  # decided on what will not be there
            log.release()
            outcomes = await asyncio.gather(*failed, return_exceptions=True)

            assert [type(one) for one in outcomes] == [StorageFailed] * 4
            assert "nothing was written" in str(outcomes[0])
            assert there(store) == {"arc": 1}
            assert load_of(store.head(BOATS, boat("arc"))) == 1
            assert store.head(BOATS, boat("bark")) is None
            assert store.revision == 1

            log.failing = False
            await put(store, "bark", 5)
            assert told(watch.ready()) == [("ADDED", "arc", 1, 1), ("ADDED", "bark", 5, store.revision)]
            assert store.revision > 5  # what failed has used up its revisions
        async with running(open_log) as store:
            assert there(store) == {"arc": 1, "bark": 5}

    asyncio.run(story())


def test_who_waits_for_what_is_staged_hears_of_its_failure(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            await store.settled()
            log.hold()
            log.failing = True
            put(store, "arc")
            settled = asyncio.ensure_future(store.settled())
            await log.arrival()
            log.release()
            with pytest.raises(StorageFailed):
                await settled

    asyncio.run(story())


def test_an_author_who_goes_away_takes_nothing_back(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            log.hold()
            author = put(store, "arc", 1)
            after = put(store, "arc", 2)
            author.cancel()
            log.release()
            await after
            assert told(store.watch(BOATS, 0).ready()) == [("ADDED", "arc", 1, 1), ("MODIFIED", "arc", 2, 2)]

    asyncio.run(story())


def test_an_author_who_goes_away_does_not_keep_others_from_hearing_of_a_failure(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            log.hold()
            log.failing = True
            gone, other = put(store, "arc", 1), put(store, "arc", 2)
            gone.cancel()
            log.release()
            with pytest.raises(StorageFailed):
                await other
            assert there(store) == {}

    asyncio.run(story())


def test_more_writes_than_the_disk_keeps_up_with_are_told_to_come_back(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAX_STAGED", 3)

    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            log.hold()
            waiting = [put(store, f"boat-{number}") for number in range(3)]
            with pytest.raises(TooManyRequests, match="try again"):
                store.check_room()
            log.release()
            await asyncio.gather(*waiting)
            store.check_room()

    asyncio.run(story())


def test_closing_commits_what_is_staged_and_tells_its_authors(open_log: OpenLog) -> None:
    async def story() -> None:
        async with running(open_log) as store:
            waiting = [put(store, f"boat-{number}") for number in range(100)]
        assert all(one.done() and one.exception() is None for one in waiting)
        async with running(open_log) as store:
            assert len(there(store)) == 100

    asyncio.run(story())


def test_closing_on_a_failing_disk_tells_the_authors_and_ends(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            log.failing = True
            waiting = [put(store, "arc"), put(store, "bark")]
        assert [type(one.exception()) for one in waiting] == [StorageFailed] * 2

    asyncio.run(story())


def test_a_store_that_does_not_run_takes_no_writes(open_log: OpenLog) -> None:
    async def story() -> None:
        store = Store(open_log())
        with pytest.raises(Unavailable):
            put(store, "arc")
        await store.start()
        await put(store, "arc")
        await store.close()
        with pytest.raises(Unavailable):
            put(store, "bark")

    asyncio.run(story())


def test_a_store_that_is_closing_takes_no_more_writes(open_log: OpenLog) -> None:
    async def story() -> None:
        async with on_held_log(open_log) as (store, log):
            log.hold()
            first = put(store, "arc")
            await log.arrival()
            closing = asyncio.ensure_future(store.close())
            await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="shutting down"):
                put(store, "bark")
            log.release()
            await closing
            assert first.done()
            assert there(store) == {"arc": 0}

    asyncio.run(story())


def test_whoever_gives_up_waiting_takes_nobody_along() -> None:
    """A controller that was cancelled in the middle of a write used to cancel all who waited for the same commit."""

    async def story() -> None:
        async with local_api() as api:
            author = asyncio.create_task(api.create("configmaps", {"metadata": {"name": "a"}}))
            await asyncio.sleep(0)
            waiting = asyncio.create_task(api.store.settled())
            await asyncio.sleep(0)
            author.cancel()
            await waiting
            assert author.cancelled()
            assert api.get("configmaps", "a") is not None

    asyncio.run(story())
