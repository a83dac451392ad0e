"""Logs of pods: the format, which log is meant, and reading it."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import BadRequest, ValidationError
from fairway.runtime.inotify import FileChanges
from fairway.runtime.logformat import Stream, encode, stamp
from fairway.server.logs import entries, reading
from fairway.server.logs.entries import Lines, append
from fairway.server.logs.reading import log_path, read_log
from fairway.server.logs.requests import LogOptions, choose_container, choose_restart, parse_options
from fairway.testing.clock import VirtualClock, settle

SECOND = 1_000_000_000
START = int(datetime(2026, 11, 16, 8, 30, tzinfo=UTC).timestamp()) * SECOND


def write(path: Path, *lines: str, every: int = SECOND) -> None:
    """Lines of stdout, one each second; `err:` in front means stderr, `…` at the end a piece."""
    for number, line in enumerate(lines):
        stream: Stream = "stderr" if line.startswith("err:") else "stdout"
        text = line.removeprefix("err:").removesuffix("…").encode()
        append(path, START + number * every, stream, text, partial=line.endswith("…"))


def read(path: Path, **options: object) -> bytes:
    async def run() -> bytes:
        clock = VirtualClock(datetime(2026, 11, 16, 8, 31, tzinfo=UTC))
        chosen = LogOptions(**options)  # type: ignore[arg-type]
        return b"".join([piece async for piece in read_log(path, chosen, finished=asyncio.Event(), clock=clock)])

    return asyncio.run(run())


def test_an_entry_is_as_container_runtimes_write_it() -> None:
    assert encode(START + 5, "stderr", b"a b") == b"2026-11-16T08:30:00.000000005Z stderr F a b\n"
    assert encode(START, "stdout", b"", partial=True) == b"2026-11-16T08:30:00.000000000Z stdout P \n"
    with pytest.raises(ValueError, match="one line"):
        encode(START, "stdout", b"a\nb")


def test_each_start_of_a_container_has_its_file(tmp_path: Path) -> None:
    path = log_path(tmp_path, "team", "uid-1", "main", 2)
    append(path, START, "stdout", b"x")

    assert path == tmp_path / "logs/team/uid-1/main/2.log"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("part", ["", ".", "..", "a/b", "/etc", "a\0"])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, part: str) -> None:
    for parts in ((part, "u", "c"), ("n", part, "c"), ("n", "u", part)):
        with pytest.raises(ValueError, match="cannot be part of a path"):
            log_path(tmp_path, *parts, 0)


FIVE = ("one", "two", "err:three", "four", "five")
PARTS: list[tuple[dict[str, object], str]] = [
    ({}, "one two three four five"),
    ({"tail_lines": 2}, "four five"),
    ({"tail_lines": 0}, ""),
    ({"tail_lines": 5}, "one two three four five"),
    ({"tail_lines": 50}, "one two three four five"),
    ({"since_seconds": 58}, "three four five"),
    ({"since_seconds": 10}, ""),
    ({"since_seconds": 10**15}, "one two three four five"),
    ({"since_time": datetime(2026, 11, 16, 8, 30, 3, tzinfo=UTC)}, "four five"),
    ({"since_time": datetime(1900, 1, 1, tzinfo=UTC)}, "one two three four five"),
    ({"since_time": datetime(2026, 11, 16, 8, 30, 3, tzinfo=UTC), "tail_lines": 1}, "five"),
    ({"since_time": datetime(2026, 11, 16, 8, 30, 3, tzinfo=UTC), "tail_lines": 4}, "four five"),
    ({"stream": "stderr"}, "three"),
    ({"stream": "stdout"}, "one two four five"),
]


@pytest.mark.parametrize(("options", "expected"), PARTS)
def test_parts_of_a_log(tmp_path: Path, options: dict[str, object], expected: str) -> None:
    write(tmp_path / "log", *FIVE)

    assert read(tmp_path / "log", **options).decode().split() == expected.split()


@pytest.mark.parametrize("limit", [1, 4, 6, 19, 1000])
def test_the_limit_cuts_exactly_there(tmp_path: Path, limit: int) -> None:
    write(tmp_path / "log", *FIVE)

    assert read(tmp_path / "log", limit_bytes=limit) == b"one\ntwo\nthree\nfour\nfive\n"[:limit]


def test_timestamps_stand_before_each_line(tmp_path: Path) -> None:
    write(tmp_path / "log", "one", "err:two…", "err:2", every=1)

    assert read(tmp_path / "log", timestamps=True) == (
        b"2026-11-16T08:30:00.000000000Z one\n2026-11-16T08:30:00.000000001Z two2\n"
    )


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "log") == b""
    assert read(tmp_path / "log", tail_lines=3, since_seconds=5) == b""


PIECES = {
    "joined": (("a…", "b…", "c", "d"), b"abc\nd\n"),
    "each stream for itself": (("a…", "err:x", "err:y…", "b", "err:z"), b"x\nab\nyz\n"),
    "not finished": (("a", "b…"), b"a\nb"),
    "an empty end": (("a…", ""), b"a\n"),
}


@pytest.mark.parametrize(("written", "shown"), PIECES.values(), ids=PIECES)
def test_pieces_of_a_line_are_put_together(tmp_path: Path, written: tuple[str, ...], shown: bytes) -> None:
    write(tmp_path / "log", *written)

    assert read(tmp_path / "log") == shown


def test_the_last_lines_are_whole_ones(tmp_path: Path) -> None:
    write(tmp_path / "log", "a…", "b", "c…", "d…", "e", "f…", "g")

    assert read(tmp_path / "log", tail_lines=2) == b"cde\nfg\n"
    assert read(tmp_path / "log", tail_lines=1) == b"fg\n"


def test_a_very_long_line_is_passed_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "LONGEST_LINE", 100)
    lines = Lines(timestamps=True)
    shown = [lines.feed(encode(START, "stdout", b"x" * 40, partial=True)) for _ in range(4)]
    shown.append(lines.feed(encode(START, "stdout", b"end")))

    assert shown == [b"", stamp(START) + b" " + b"x" * 80, b"", b"", b"x" * 80 + b"end\n"]


STRANGE = {
    "no entries": b"just\ntext\n",
    "an entry cut short by a crash, then more": b"2026-11-16T08:3\n",
    "bytes that are no text": b"\xff\xfe\x00\n",
    "an empty line": b"\n",
}


@pytest.mark.parametrize("content", STRANGE.values(), ids=STRANGE)
def test_what_is_no_entry_is_shown_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    append(path, START, "stdout", b"fine")

    assert read(path) == content + b"fine\n"
    assert read(path, tail_lines=1) == b"fine\n"
    assert read(path, since_time=datetime(2026, 1, 1, tzinfo=UTC)) == b"fine\n"


def test_an_entry_that_a_crash_cut_in_its_text_is_shown_and_one_cut_before_is_not(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, "one", "two")
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    assert read(path) == b"one\ntw"
    path.write_bytes(whole[:-20])
    assert read(path) == b"one\n"


def test_a_file_without_line_breaks_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "LONGEST_LINE", 100)
    lines = Lines()

    assert [lines.feed(b"x" * 60) for _ in range(4)] == [b"", b"x" * 120, b"", b"x" * 120]


def test_reading_the_end_of_a_large_file_reads_only_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(encode(START + n * SECOND, "stdout", b"line %d" % n) for n in range(30_000)))
    taken = 0
    pread = os.pread

    def counting(file: int, length: int, position: int) -> bytes:
        nonlocal taken
        data = pread(file, length, position)
        taken += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    assert read(path, tail_lines=2) == b"line 29998\nline 29999\n"
    assert taken <= 2 * reading.BLOCK
    since = datetime.fromtimestamp(START / SECOND + 29_998, UTC)
    taken = 0
    assert read(path, since_time=since) == b"line 29998\nline 29999\n"
    assert taken <= 7 * reading.BLOCK  # of more than twenty that there are


LINES = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=12).map(lambda text: text.replace(b"\n", b""))),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(lines=LINES, tail=st.integers(0, 45), since=st.integers(-1, 41), block=st.integers(50, 200))
def test_whatever_the_size_of_blocks_the_part_asked_for_is_found(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[Stream, bytes]], tail: int, since: int, block: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log"
    path.write_bytes(b"".join(encode(START + n * SECOND, stream, text) for n, (stream, text) in enumerate(lines)))
    moment = datetime.fromtimestamp(START // SECOND + since, UTC)
    expected = [text + b"\n" for _, text in lines]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        assert read(path, tail_lines=tail) == b"".join(expected[max(0, len(expected) - tail) :])
        assert read(path, since_time=moment) == b"".join(expected[max(0, since) :])
        assert read(path, since_time=moment, tail_lines=tail) == b"".join(
            expected[max(0, since, len(expected) - tail) :]
        )


@given(lines=LINES, cuts=st.lists(st.integers(1, 30), max_size=40), timestamps=st.booleans())
def test_however_the_bytes_arrive_the_lines_are_the_same(
    *, lines: list[tuple[Stream, bytes]], cuts: list[int], timestamps: bool
) -> None:
    data = b"".join(encode(START, stream, text) for stream, text in lines)
    whole, cut = Lines(timestamps=timestamps), Lines(timestamps=timestamps)
    shown = b""
    rest = data
    for length in cuts:
        shown += cut.feed(rest[:length])
        rest = rest[length:]
    shown += cut.feed(rest) + cut.finish()

    assert shown == whole.feed(data) + whole.finish()


def on_loop(scenario: Callable[[FileChanges, asyncio.Event], Awaitable[None]]) -> None:
    async def run() -> None:
        changes = FileChanges()
        try:
            async with asyncio.timeout(10):
                await scenario(changes, asyncio.Event())
        finally:
            changes.close()

    asyncio.run(run())


def test_following_shows_the_last_lines_and_then_each_new_one_until_the_container_has_finished(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, *FIVE)

    async def scenario(changes: FileChanges, finished: asyncio.Event) -> None:
        options = LogOptions(follow=True, tail_lines=1)
        async with aclosing(read_log(path, options, finished=finished, changes=changes)) as pieces:
            assert await anext(pieces) == b"five\n"
            append(path, START + 9 * SECOND, "stdout", b"six")
            assert await anext(pieces) == b"six\n"
            append(path, START + 9 * SECOND, "stdout", b"sev", partial=True)
            append(path, START + 9 * SECOND, "stdout", b"en")
            append(path, START + 9 * SECOND, "stderr", b"cut", partial=True)
            finished.set()
            assert b"".join([piece async for piece in pieces]) == b"seven\ncut"

    on_loop(scenario)


def test_following_waits_for_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    path = log_path(tmp_path, "n", "u", "c", 0)

    async def scenario(changes: FileChanges, finished: asyncio.Event) -> None:
        pieces = read_log(path, LogOptions(follow=True), finished=finished, changes=changes)
        first = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        append(path, START, "stdout", b"here")
        assert await first == b"here\n"
        await pieces.aclose()

    on_loop(scenario)


def test_following_a_container_that_has_finished_shows_all_and_ends(tmp_path: Path) -> None:
    write(tmp_path / "log", *FIVE)

    async def scenario(changes: FileChanges, finished: asyncio.Event) -> None:
        finished.set()
        pieces = read_log(tmp_path / "log", LogOptions(follow=True), finished=finished, changes=changes)
        assert b"".join([piece async for piece in pieces]) == b"one\ntwo\nthree\nfour\nfive\n"

    on_loop(scenario)


def test_following_stops_at_the_limit(tmp_path: Path) -> None:
    write(tmp_path / "log", *FIVE)

    async def scenario(changes: FileChanges, finished: asyncio.Event) -> None:
        options = LogOptions(follow=True, limit_bytes=5)
        pieces = read_log(tmp_path / "log", options, finished=finished, changes=changes)
        assert b"".join([piece async for piece in pieces]) == b"one\nt"
        await settle()
        assert len(asyncio.all_tasks()) == 1

    on_loop(scenario)


def test_a_reader_that_goes_away_leaves_nothing_running(tmp_path: Path) -> None:
    write(tmp_path / "log", *FIVE)

    async def scenario(changes: FileChanges, finished: asyncio.Event) -> None:
        pieces = read_log(tmp_path / "log", LogOptions(follow=True), finished=finished, changes=changes)
        await anext(pieces)
        await pieces.aclose()
        await settle()
        assert len(asyncio.all_tasks()) == 1

    on_loop(scenario)


def pod(
    *, status: dict[str, object] | None = None, node: str = "here", containers: tuple[str, ...] = ("main",)
) -> dict[str, object]:
    return {
        "metadata": {"name": "train"},
        "spec": {
            "nodeName": node,
            "initContainers": [{"name": "setup"}],
            "containers": [{"name": name} for name in containers],
        },
        "status": {} if status is None else {"containerStatuses": [{"name": "main", **status}]},
    }


def test_the_only_container_is_meant_if_none_is_named() -> None:
    assert choose_container(pod(), None) == "main"
    assert choose_container(pod(), "setup") == "setup"


CHOICES = [
    (("a", "b"), None, "a container name must be specified for pod train, choose one of: [setup a b]"),
    (("a", "b"), "c", "container c is not valid for pod train"),
    ((), None, "a container name must be specified for pod train"),
]


@pytest.mark.parametrize(("containers", "named", "message"), CHOICES)
def test_a_container_that_cannot_be_chosen(containers: tuple[str, ...], named: str | None, message: str) -> None:
    with pytest.raises(BadRequest, match=f"^{re.escape(message)}$"):
        choose_container(pod(containers=containers), named)


ENDED: dict[str, object] = {"terminated": {"exitCode": 1}}
WAITING: dict[str, object] = {"waiting": {"reason": "CrashLoopBackOff"}}
RESTARTS: dict[str, tuple[dict[str, object], bool, int]] = {
    "running": ({"state": {"running": {}}, "restartCount": 0}, False, 0),
    "ended": ({"state": ENDED, "restartCount": 0}, False, 0),
    "running again": ({"state": {"running": {}}, "lastState": ENDED, "restartCount": 2}, False, 2),
    "the time before": ({"state": {"running": {}}, "lastState": ENDED, "restartCount": 2}, True, 1),
    "waiting to be restarted": ({"state": WAITING, "lastState": ENDED, "restartCount": 1}, False, 1),
    "waiting, the time before": ({"state": WAITING, "lastState": ENDED, "restartCount": 1}, True, 1),
}


@pytest.mark.parametrize(("status", "previous", "restart"), RESTARTS.values(), ids=RESTARTS)
def test_which_start_is_meant(*, status: dict[str, object], previous: bool, restart: int) -> None:
    assert choose_restart(pod(status=status), "main", previous=previous) == restart


def test_a_pod_that_is_not_on_a_node_has_no_log_yet() -> None:
    assert choose_restart(pod(node=""), "main", previous=False) is None


def waiting(reason: str) -> dict[str, object]:
    return {"state": {"waiting": {"reason": reason}}}


NO_LOGS: list[tuple[dict[str, object] | None, bool, str]] = [
    (None, False, 'container "main" in pod "train" is not available'),
    (waiting("ContainerCreating"), False, 'container "main" in pod "train" is waiting to start: ContainerCreating'),
    (waiting("ErrImagePull"), False, 'container "main" in pod "train" is waiting to start: image can\'t be pulled'),
    (waiting("ImagePullBackOff"), False,
     'container "main" in pod "train" is waiting to start: trying and failing to pull image'),
    ({"state": {}}, False, 'container "main" in pod "train" is waiting to start - no logs yet'),
    ({"state": {"running": {}}}, True, 'previous terminated container "main" in pod "train" not found'),
]  # fmt: skip


@pytest.mark.parametrize(("status", "previous", "message"), NO_LOGS)
def test_containers_without_logs_say_why(*, status: dict[str, object] | None, previous: bool, message: str) -> None:
    with pytest.raises(BadRequest, match=f"^{re.escape(message)}$"):
        choose_restart(pod(status=status), "main", previous=previous)


def test_options_come_from_the_query() -> None:
    query = {"container": "main", "follow": "true", "previous": "false", "timestamps": "1", "tailLines": "10",
             "limitBytes": "100", "sinceTime": "2026-11-16T09:30:00+01:00", "pretty": "yes"}  # fmt: skip

    assert parse_options(query, "train") == LogOptions(
        container="main",
        follow=True,
        timestamps=True,
        tail_lines=10,
        limit_bytes=100,
        since_time=datetime(2026, 11, 16, 8, 30, tzinfo=UTC),
    )
    assert parse_options({}, "train") == LogOptions()
    assert parse_options({"stream": "Stderr", "sinceSeconds": "5"}, "t") == LogOptions(stream="stderr", since_seconds=5)
    assert parse_options({"sinceTime": "2026-11-16T08:30:00.5Z"}, "t").since_time == datetime(
        2026, 11, 16, 8, 30, tzinfo=UTC
    ) + timedelta(seconds=0.5)


@pytest.mark.parametrize(
    ("text", "yes"), [("true", True), ("", True), ("anything", True), ("0", False), ("false", False), ("False", False)]
)
def test_flags_mean_what_they_mean_to_kubernetes(*, text: str, yes: bool) -> None:
    assert parse_options({"follow": text}, "train").follow is yes


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"tailLines": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"tailLines": "1.5"}, 'strconv.ParseInt: parsing "1.5": invalid syntax'),
        ({"limitBytes": "9" * 20}, f'strconv.ParseInt: parsing "{"9" * 20}": value out of range'),
        ({"limitBytes": "9" * 5000}, "value out of range"),
        ({"sinceTime": "yesterday"}, 'parsing time "yesterday"'),
        ({"sinceTime": "2026-11-16"}, "must look like"),
        ({"sinceTime": "2026-11-16T08:30:00"}, "must look like"),
        ({"sinceTime": "0001-01-01T00:00:00+10:00"}, "must look like"),
    ],
)
def test_options_that_cannot_be_read(query: dict[str, str], message: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(message)):
        parse_options(query, "train")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"tailLines": "-1"}, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"sinceSeconds": "0"}, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"limitBytes": "0", "sinceSeconds": "-3"},
            "[limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds:",
        ),
        ({"sinceSeconds": "5", "sinceTime": "2026-11-16T08:30:00Z"}, "at most one of `sinceTime` or `sinceSeconds`"),
        ({"stream": "stdout"}, 'stream: Unsupported value: "stdout": supported values: "All", "Stdout", "Stderr"'),
        ({"stream": "Stdout", "tailLines": "3"}, "tailLines: Forbidden: may not be specified together with a single"),
    ],
)
def test_options_that_make_no_sense(query: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=r'^PodLogOptions "train" is invalid: ') as refusal:
        parse_options(query, "train")

    assert message in str(refusal.value)
