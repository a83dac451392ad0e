"""Growing files, with the kernel's news and without."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.runtime import follow as following
from fairway.runtime import inotify
from fairway.runtime.follow import follow
from fairway.runtime.inotify import FileChanges

TOO_LONG = 10.0


@pytest.fixture(params=["told by the kernel", "looking by itself"], autouse=True)
def news(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "looking by itself":
        monkeypatch.setattr(inotify._LIBC, "_init", None)
        monkeypatch.setattr(following, "LOOK_EVERY", 0.001)
    return str(request.param)


def test_whether_the_kernel_tells_is_known(tmp_path: Path, news: str) -> None:
    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        assert changes.subscribe(tmp_path / "log", stop.set).live == (news == "told by the kernel")
        assert not changes.subscribe(tmp_path / "missing" / "log", stop.set).live

    on_loop(scenario)


class Reader:
    """A follower in the background, whose findings can be waited for."""

    def __init__(self, source: AsyncGenerator[bytes, None]) -> None:
        self.data = b""
        self._more = asyncio.Event()
        self._source = source
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with aclosing(self._source) as pieces:
            async for piece in pieces:
                self.data += piece
                self._more.set()

    async def until(self, expected: bytes) -> None:
        async with asyncio.timeout(TOO_LONG):
            while self.data != expected:
                assert expected.startswith(self.data)
                self._more.clear()
                await self._more.wait()

    async def end(self) -> bytes:
        async with asyncio.timeout(TOO_LONG):
            await self.task
        return self.data


def on_loop(scenario: Callable[[FileChanges, asyncio.Event], Awaitable[None]]) -> None:
    async def run() -> None:
        changes = FileChanges()
        try:
            await scenario(changes, asyncio.Event())
        finally:
            changes.close()

    asyncio.run(run())


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_what_is_there_and_what_is_added_is_read_until_told_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one ")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop, changes=changes))
        await reader.until(b"one ")
        append(path, b"two ")
        await reader.until(b"one two ")
        append(path, b"last")
        stop.set()  # at once: what was written before must still come

        assert await reader.end() == b"one two last"

    on_loop(scenario)


def test_a_follower_without_shared_news_brings_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop))
        append(path, b"x")
        await reader.until(b"x")
        stop.set()
        await reader.end()

    on_loop(scenario)


def test_reading_starts_where_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"skipped shown")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        stop.set()

        assert await Reader(follow(path, stop=stop, changes=changes, start=8)).end() == b"shown"

    on_loop(scenario)


def test_large_files_come_in_bounded_pieces(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 2500)

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        stop.set()
        pieces = [len(piece) async for piece in follow(path, stop=stop, changes=changes, piece=1000)]

        assert pieces == [1000, 1000, 500]

    on_loop(scenario)


@pytest.mark.parametrize("folder", [".", "not/there/yet"])
def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "log"

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop, changes=changes))
        await asyncio.sleep(0)
        path.parent.mkdir(parents=True, exist_ok=True)
        append(path, b"here")
        await reader.until(b"here")
        append(path, b" and on")
        await reader.until(b"here and on")
        stop.set()
        await reader.end()

    on_loop(scenario)


def test_a_file_that_never_comes_is_empty(tmp_path: Path) -> None:
    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(tmp_path / "log", stop=stop, changes=changes))
        await asyncio.sleep(0)
        stop.set()

        assert await reader.end() == b""

    on_loop(scenario)


def test_when_another_file_takes_the_name_the_old_one_is_read_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old ")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop, changes=changes))
        await reader.until(b"old ")
        append(path, b"end ")
        path.rename(tmp_path / "log.1")
        append(path, b"new")
        await reader.until(b"old end new")
        stop.set()
        await reader.end()

    on_loop(scenario)


def test_a_file_that_is_cut_short_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"long text ")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop, changes=changes))
        await reader.until(b"long text ")
        path.write_bytes(b"new")
        await reader.until(b"long text new")
        stop.set()
        await reader.end()

    on_loop(scenario)


def test_a_directory_that_goes_and_comes_back_is_followed_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log"
    path.parent.mkdir()
    path.write_bytes(b"before ")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop, changes=changes))
        await reader.until(b"before ")
        path.parent.rename(tmp_path / "moved")
        path.parent.mkdir()
        append(path, b"after ")
        await reader.until(b"before after ")
        append(path, b"on")
        await reader.until(b"before after on")
        stop.set()
        await reader.end()

    on_loop(scenario)


def test_many_followers_share_one_kernel_object_and_leave_nothing_open(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number % 20}" / f"{number}.log" for number in range(300)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"a")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        before = open_files()
        readers = [Reader(follow(path, stop=stop, changes=changes)) for path in paths]
        for reader in readers:
            await reader.until(b"a")
        assert open_files() - before <= len(paths) + 1
        for path in paths:
            append(path, b"b")
        for reader in readers:
            await reader.until(b"ab")
        stop.set()
        for reader in readers:
            await reader.end()
        changes.close()
        assert open_files() == before

    on_loop(scenario)


def test_two_followers_of_one_file_do_not_end_each_other(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        first_stop = asyncio.Event()
        first = Reader(follow(path, stop=first_stop, changes=changes))
        second = Reader(follow(path, stop=stop, changes=changes))
        await second.until(b"a")
        first_stop.set()
        await first.end()
        append(path, b"b")
        await second.until(b"ab")
        stop.set()
        await second.end()

    on_loop(scenario)


def test_a_cancelled_follower_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        changes.subscribe(path, lambda: None).close()
        before = open_files()
        reader = Reader(follow(path, stop=stop, changes=changes))
        await reader.until(b"a")
        reader.task.cancel()
        await asyncio.gather(reader.task, return_exceptions=True)

        assert open_files() == before
        assert len(asyncio.all_tasks()) == 1

    on_loop(scenario)


def test_closed_news_leave_followers_looking_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a")

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop, changes=changes))
        await reader.until(b"a")
        changes.close()
        append(path, b"b")
        await reader.until(b"ab")
        stop.set()
        await reader.end()

    on_loop(scenario)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.lists(st.binary(max_size=50), max_size=20), piece=st.integers(1, 64), turns=st.integers(0, 3))
def test_however_it_is_written_and_cut_every_byte_comes_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, writes: list[bytes], piece: int, turns: int
) -> None:
    path = tmp_path_factory.mktemp("follow") / "log"

    async def scenario(changes: FileChanges, stop: asyncio.Event) -> None:
        reader = Reader(follow(path, stop=stop, changes=changes, piece=piece))
        for data in writes:
            append(path, data)
            for _ in range(turns):
                await asyncio.sleep(0)
        stop.set()

        assert await reader.end() == b"".join(writes)

    on_loop(scenario)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
