"""Informers: what they know is what is there, and their handlers hear each change once, however often watches break."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.informer import Informer
from fairway.client.local import LocalClient
from fairway.client.protocol import EVERYTHING, Listed, NotServed, Scope, WatchEvent, is_newer
from fairway.client.rest.errors import Unreachable
from fairway.errors import AlreadyExists, Expired, NotFound, Unavailable
from fairway.runtime.clock import Clock, SystemClock
from fairway.store.store import History
from fairway.store.verbs.reading import shared
from fairway.testing.clock import VirtualClock
from fairway.testing.stores import LocalApi, local_api

SECONDS = 20.0
T = TypeVar("T")
Told: TypeAlias = tuple[str, str]


class Unsteady(LocalClient):
    """A client whose watches can be held up, ended and broken, as those over a network are."""

    def __init__(self, api: LocalApi) -> None:
        super().__init__(api.objects, "tester")
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.lists = 0
        self.after_list: Callable[[], Awaitable[None]] | None = None
        self.watches = 0
        self.refuse_lists: Exception | None = None
        self.refuse_watches: Exception | None = None
        self._cuts: list[asyncio.Future[None]] = []

    def cut(self, error: Exception | None) -> None:
        """Break the watches that are open, or end them without a word."""
        cuts, self._cuts = self._cuts, []
        for one in cuts:
            if not one.done():
                if error is None:
                    one.set_result(None)
                else:
                    one.set_exception(error)

    async def list(self, kind: Kind, scope: Scope = EVERYTHING) -> Listed:
        self.lists += 1
        if self.refuse_lists is not None:
            raise self.refuse_lists
        listed = await super().list(kind, scope)
        if self.after_list is not None:
            await self.after_list()
        return listed

    async def watch(self, kind: Kind, since: str, scope: Scope = EVERYTHING) -> AsyncIterator[tuple[WatchEvent, ...]]:
        self.watches += 1
        if self.refuse_watches is not None:
            raise self.refuse_watches
        cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cuts.append(cut)
        changes = super().watch(kind, since, scope)
        while True:
            events = await self._unless(cut, anext(changes))
            await self._unless(cut, self.flowing.wait())
            if events is None or cut.done():
                cut.result()
                return
            yield events

    @staticmethod
    async def _unless(cut: asyncio.Future[None], work: Awaitable[T]) -> T | None:
        """What comes of it, unless the watch is cut before."""
        coming = asyncio.ensure_future(work)
        await asyncio.wait([cast("asyncio.Future[Any]", coming), cut], return_when=asyncio.FIRST_COMPLETED)
        if not cut.done():
            return coming.result()
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        return None


class Listener:
    """A handler that builds the world from what it hears, and is not to be told nonsense."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Manifest] = {}
        self.told: list[Told] = []
        self._news = asyncio.Event()

    def __call__(self, old: Manifest | None, new: Manifest | None) -> None:
        some = new or old
        assert some is not None
        key = (some["metadata"]["namespace"], some["metadata"]["name"])
        assert self.known.get(key) == old, "what was before is what was told last"
        assert old != new, "nothing is told twice"
        if old is not None and new is not None:
            assert old["metadata"]["uid"] == new["metadata"]["uid"], "one object is not told as another"
        if new is None:
            del self.known[key]
        else:
            self.known[key] = new
        self.told.append(("gone" if new is None else "came" if old is None else "changed", key[1]))
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():
                self._news.clear()
                await self._news.wait()


class Bench:
    def __init__(self, api: LocalApi, clock: Clock, scope: Scope) -> None:
        self.api = api
        self.client = Unsteady(api)
        self.kind = api.kind("configmaps")
        self.informer = Informer(self.client, self.kind, clock, (scope,))
        self.listener = Listener()
        self.informer.on_change(self.listener)

    async def put(self, name: str, value: str = "", **labels: str) -> None:
        manifest: Manifest = {
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "data": {"v": value},
        }
        await self.client.create(self.kind, manifest)

    async def change(self, name: str, value: str) -> None:
        await self.client.patch(self.kind, "default", name, {"data": {"v": value}})

    async def remove(self, name: str) -> None:
        await self.client.delete(self.kind, "default", name)

    async def caught_up(self) -> None:
        """Wait until all that happened before was told: changes come in order, so a last one is enough."""
        self.client.flowing.set()
        await self.put("zz-last")
        await self.listener.until(lambda: ("default", "zz-last") in self.listener.known)
        await self.remove("zz-last")
        await self.listener.until(lambda: ("default", "zz-last") not in self.listener.known)

    def stored(self) -> dict[tuple[str, str], Manifest]:
        page = self.api.objects.store.collection("configmaps")
        return {key: shared(entry) for key, entry in page.entries.items()}

    def known(self) -> dict[tuple[str, str], Manifest]:
        return {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in self.informer.items()}

    def check(self) -> None:
        assert self.known() == self.listener.known == self.stored()


@asynccontextmanager
async def bench(
    history: History | None = None, clock: Clock | None = None, scope: Scope = EVERYTHING, *, running: bool = True
) -> AsyncIterator[Bench]:
    async with local_api(history=history) as api:
        b = Bench(api, clock or SystemClock(), scope)
        task = asyncio.create_task(b.informer.run()) if running else None
        try:
            yield b
        finally:
            if task is not None:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_it_knows_what_was_there_before_it_is_in_step() -> None:
    async def story() -> None:
        async with bench(running=False) as b:
            await b.put("a")
            await b.put("b")
            assert not b.informer.synced.is_set()
            task = asyncio.create_task(b.informer.run())
            await b.informer.synced.wait()

            assert b.listener.told == [("came", "a"), ("came", "b")]
            b.check()
            task.cancel()

    run(story())


def test_it_tells_of_changes_in_order_with_what_was_before() -> None:
    async def story() -> None:
        async with bench() as b:
            await b.informer.synced.wait()
            await b.put("a", "1")
            await b.change("a", "2")
            await b.put("b")
            await b.remove("a")
            await b.caught_up()

            assert b.listener.told[:4] == [("came", "a"), ("changed", "a"), ("came", "b"), ("gone", "a")]
            assert b.informer.get("default", "a") is None
            assert b.informer.get("default", "b") == b.stored()["default", "b"]
            b.check()

    run(story())


def test_a_handler_that_comes_late_hears_of_all_that_is_there() -> None:
    async def story() -> None:
        async with bench() as b:
            await b.put("a")
            await b.put("b")
            await b.caught_up()
            late = Listener()
            b.informer.on_change(late)
            assert late.told == [("came", "a"), ("came", "b")]

            await b.remove("a")
            await b.caught_up()
            assert late.known == b.stored()

    run(story())


LOSSES: dict[str, Exception | None] = {
    "forgotten changes": Expired("too old"),
    "a server that is away": Unavailable("down"),
    "a watch that ends": None,
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_after_a_lost_watch_it_tells_exactly_the_difference(loss: Exception | None) -> None:
    async def story() -> None:
        async with bench() as b:
            for name in ("same", "changes", "goes", "replaced"):
                await b.put(name, "1")
            await b.caught_up()
            b.client.flowing.clear()
            before = len(b.listener.told)
            await b.change("changes", "2")
            await b.change("changes", "3")
            await b.remove("goes")
            await b.remove("replaced")
            await b.put("replaced", "1")
            await b.put("comes")
            await b.put("passes-by")
            await b.remove("passes-by")
            b.client.cut(loss)
            await b.listener.until(lambda: ("default", "comes") in b.listener.known)

            assert sorted(b.listener.told[before:]) == [
                ("came", "comes"),
                ("came", "replaced"),
                ("changed", "changes"),
                ("gone", "goes"),
                ("gone", "replaced"),
            ]
            b.check()

    run(story())


def test_a_watcher_that_is_too_slow_lists_again() -> None:
    async def story() -> None:
        async with bench(History(changes=5)) as b:
            await b.put("a")
            await b.caught_up()
            lists = b.client.lists
            b.client.flowing.clear()
            for number in range(20):
                await b.change("a", str(number))
            await b.caught_up()

            assert b.client.lists > lists
            b.check()

    run(story())


def test_it_sees_only_what_is_meant() -> None:
    async def story() -> None:
        async with bench(scope=Scope(labels="team=x")) as b:
            await b.informer.synced.wait()
            await b.put("mine", team="x")
            await b.put("other", team="y")
            await b.client.patch(b.kind, "default", "other", {"metadata": {"labels": {"team": "x"}}})
            await b.client.patch(b.kind, "default", "mine", {"metadata": {"labels": {"team": "y"}}})
            await b.listener.until(lambda: len(b.listener.told) == 3)

            assert b.listener.told == [("came", "mine"), ("came", "other"), ("gone", "mine")]

    run(story())


def test_own_writes_while_a_list_is_on_its_way_are_not_undone_by_it() -> None:
    """A pod that was just created and is missing from an older list would be created a second time."""

    async def story() -> None:
        async with bench() as b:
            for name in ("changed", "deleted"):
                await b.put(name, "1")
            await b.caught_up()
            before, done = len(b.listener.told), asyncio.Event()

            async def writes() -> None:
                b.client.after_list = None
                metadata = {"name": "created", "namespace": "default"}
                b.informer.note(await b.client.create(b.kind, {"metadata": metadata}))
                b.informer.note(await b.client.patch(b.kind, "default", "changed", {"data": {"v": "2"}}))
                gone = b.informer.get("default", "deleted")
                assert gone is not None
                await b.remove("deleted")
                b.informer.note_gone(gone)
                done.set()

            b.client.after_list = writes
            b.client.cut(Expired("too old"))
            await done.wait()
            await b.caught_up()

            told = [one for one in b.listener.told[before:] if one[1] != "zz-last"]
            assert told == [("came", "created"), ("changed", "changed"), ("gone", "deleted")]
            b.check()

    run(story())


def test_a_list_from_before_wins_where_nothing_was_written() -> None:
    """A server that was restored from a backup goes back in time, and its resource versions with it."""

    async def story() -> None:
        async with bench(running=False) as b:
            await b.put("a", "1")
            old = b.stored()["default", "a"]
            await b.change("a", "2")
            task = asyncio.create_task(b.informer.run())
            await b.informer.synced.wait()

            async def restored(kind: Kind, scope: Scope = EVERYTHING) -> Listed:
                return Listed([old], old["metadata"]["resourceVersion"])

            b.client.list = restored  # type: ignore[method-assign]
            b.client.cut(Expired("too old"))
            await b.listener.until(lambda: b.listener.known["default", "a"]["data"]["v"] == "1")
            task.cancel()

    run(story())


def test_scopes_of_several_namespaces_are_one_cache() -> None:
    async def story() -> None:
        async with local_api() as api:
            client, kind = Unsteady(api), api.kind("configmaps")
            informer = Informer(client, kind, SystemClock(), (Scope("a"), Scope("b", fields="metadata.name=two")))
            listener = Listener()
            informer.on_change(listener)
            for namespace, name in (("a", "one"), ("b", "one"), ("b", "two"), ("default", "one")):
                if not api.objects.store.get("namespaces", ("", namespace)):
                    await client.create(api.kind("namespaces"), {"metadata": {"name": namespace}})
                await client.create(kind, {"metadata": {"name": name, "namespace": namespace}})
            task = asyncio.create_task(informer.run())
            await informer.synced.wait()
            assert set(listener.known) == {("a", "one"), ("b", "two")}

            client.cut(Expired("too old"))
            await client.patch(kind, "a", "one", {"data": {"v": "1"}})
            await listener.until(lambda: bool(listener.known["a", "one"].get("data")))
            outside = await client.patch(kind, "b", "one", {"data": {"v": "1"}})
            informer.note(outside)
            assert set(listener.known) == {("a", "one"), ("b", "two")}, "a list of one scope says nothing about others"
            task.cancel()

    run(story())


def test_an_own_write_that_leaves_the_scope_leaves_the_cache() -> None:
    async def story() -> None:
        async with bench(scope=Scope(labels="team=x")) as b:
            await b.informer.synced.wait()
            await b.put("mine", team="x")
            await b.listener.until(lambda: bool(b.listener.known))
            b.client.flowing.clear()
            b.informer.note(await b.client.patch(b.kind, "default", "mine", {"metadata": {"labels": {"team": "y"}}}))
            assert b.listener.told == [("came", "mine"), ("gone", "mine")]
            b.client.flowing.set()
            await b.client.patch(b.kind, "default", "mine", {"metadata": {"labels": {"team": "x"}}})
            await b.listener.until(lambda: bool(b.listener.known))

    run(story())


def test_a_kind_that_is_not_served_has_no_objects_until_it_is() -> None:
    async def story() -> None:
        clock = VirtualClock()
        async with bench(clock=clock) as b:
            b.client.refuse_lists = NotServed("the API server has no group example.com, which configmaps belong to")
            await clock.run_for(300.0)
            assert b.informer.synced.is_set()
            assert not b.known()
            assert b.client.lists <= 12
            b.client.refuse_lists = None
            await b.put("a")
            await clock.run_for(31.0)
            await b.listener.until(lambda: ("default", "a") in b.listener.known)

    run(story())


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        pytest.param("10", "9", True, id="numbers, not letters"),
        pytest.param("9", "10", False, id="an older one"),
        pytest.param("9", "9", False, id="the same"),
        pytest.param("b-7", "b-8", True, id="opaque: the one that came last"),
        pytest.param("b-7", "b-7", False, id="opaque: the same"),
    ],
)
def test_resource_versions_are_compared(version: str, than: str, *, newer: bool) -> None:
    assert is_newer(version, than) is newer


@pytest.mark.parametrize("what", ["lists", "watches"])
@pytest.mark.parametrize("error", [Unavailable("not now"), Expired("too old")], ids=["unavailable", "expired"])
def test_it_asks_a_server_that_refuses_less_and_less_often(what: str, error: Exception) -> None:
    """A watch that was refused right after a good list used to be tried again two hundred times a second."""

    async def story() -> None:
        clock = VirtualClock()
        async with bench(clock=clock) as b:
            setattr(b.client, f"refuse_{what}", error)
            await clock.run_for(600.0)

            assert 8 <= getattr(b.client, what) <= 90
            setattr(b.client, f"refuse_{what}", None)
            await b.put("a")
            await clock.run_for(60.0)
            await b.listener.until(lambda: ("default", "a") in b.listener.known)

    run(story())


def test_a_server_that_was_away_is_noticed_within_a_second() -> None:
    async def story() -> None:
        clock = VirtualClock()
        async with bench(clock=clock) as b:
            b.client.refuse_lists = b.client.refuse_watches = Unreachable("nothing listens")
            b.client.cut(Unreachable("the connection broke"))
            await clock.run_for(600.0)
            assert b.client.lists <= 610

            b.client.refuse_lists = b.client.refuse_watches = None
            await b.put("a")
            await clock.run_for(1.0)
            await b.listener.until(lambda: ("default", "a") in b.listener.known)

    run(story())


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("change"), NAMES),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("replace"), NAMES),
        st.tuples(st.just("many changes"), NAMES),
        st.tuples(st.sampled_from(["hold up", "let go", "end", "break", "expire", "catch up", "join"]), st.just("")),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(STEPS)
def test_whatever_happens_it_knows_what_is_there(steps: list[tuple[str, str]]) -> None:
    async def story() -> None:
        async with bench(History(changes=6)) as b:
            late: list[Listener] = []
            for number, (step, name) in enumerate(steps):
                await carry_out(b, step, name, number, late)
            await b.caught_up()

            b.check()
            for listener in late:
                assert listener.known == b.stored()

    run(story())


async def carry_out(b: Bench, step: str, name: str, number: int, late: list[Listener]) -> None:
    match step:
        case "hold up":
            b.client.flowing.clear()
        case "let go":
            b.client.flowing.set()
        case "end":
            b.client.cut(None)
        case "break":
            b.client.cut(Unavailable("down"))
        case "expire":
            b.client.cut(Expired("too old"))
        case "catch up":
            await b.caught_up()
        case "join":
            late.append(Listener())
            b.informer.on_change(late[-1])
        case _:
            with contextlib.suppress(NotFound, AlreadyExists):
                await write(b, step, name, str(number))


async def write(b: Bench, step: str, name: str, value: str) -> None:
    if step in {"remove", "replace"}:
        await b.remove(name)
    if step in {"put", "replace"}:
        await b.put(name, value)
    for turn in range({"change": 1, "many changes": 10}.get(step, 0)):
        await b.change(name, f"{value}-{turn}")
