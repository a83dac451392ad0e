"""Servers and supervisors are killed: nothing is forgotten, nothing is left behind, nothing runs twice."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fairway import __version__
from fairway.runner.processes import StartDeferred
from fairway.runner.supervising import messages
from fairway.runner.supervising.places import socket_of
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import SystemClock

from .servers import connected, eventually_so, is_gone, kill, living, play, supervisor_of

SERVER = """
import asyncio, sys
from pathlib import Path
from fairway.runner.processes import ProcessSpec
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import SystemClock

async def serve(directory, count):
    supervision = LocalSupervision(Path(directory), SystemClock())
    await supervision.connect()
    for number in range(int(count)):
        script = f"sleep 0.{number}; echo done {number}; exit {number}"
        await supervision.start(ProcessSpec(
            id=f"job-{number}", argv=("sh", "-c", script), env={}, cwd="/", log=f"{directory}/logs/job-{number}.log"
        ))
    print("started", flush=True)
    await asyncio.Event().wait()

asyncio.run(serve(*sys.argv[1:]))
"""


def test_a_server_is_killed_and_the_next_one_finds_everything(own: Path) -> None:
    with subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", SERVER, str(own), "5"], stdout=subprocess.PIPE, text=True
    ) as server_process:
        assert server_process.stdout is not None
        assert server_process.stdout.readline() == "started\n"
        first = supervisor_of(own)
        server_process.kill()

    async def scene() -> None:
        async with connected(own) as server:
            assert server.supervision.supervisor_pid == first
            assert sorted(server.processes) == [f"job-{number}" for number in range(5)]
            codes = [(await server.ended(f"job-{number}")).exit_code for number in range(5)]
            assert codes == [0, 1, 2, 3, 4]
            assert [server.shown(f"job-{number}") for number in range(5)] == [f"done {number}\n" for number in range(5)]

    play(scene())


def _link(directory: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(socket_of(directory)))
    return link


def test_what_a_server_asked_for_just_before_it_was_killed_is_known_to_the_next_one(own: Path) -> None:
    """Otherwise the next one would decide without it, and a process that nobody expects would appear later."""

    async def scene() -> None:
        async with connected(own) as server:
            pid = server.supervision.supervisor_pid
            assert pid is not None
            killed = _link(own)
            killed.sendall(messages.frame(messages.Hello((messages.VERSION,))))
            assert killed.recv(4)

            os.kill(pid, signal.SIGSTOP)
            for number in range(40):
                launch = server.launch(f"late-{number}", "true")
                killed.sendall(messages.frame(messages.StartRequest(number, launch)))
            half = messages.frame(messages.StartRequest(99, server.launch("half", "true")))
            killed.sendall(half[: len(half) // 2])
            killed.close()
            following = LocalSupervision(own, SystemClock())
            connecting = asyncio.ensure_future(following.connect())
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGCONT)
            await connecting
            known = sorted(following.processes)
            await following.close()

            assert known == sorted(f"late-{number}" for number in range(40))

    play(scene())


def test_a_killed_supervisor_is_replaced_and_what_it_held_is_lost_and_gone(own: Path) -> None:
    strays = """
        setsid sh -c 'trap "" TERM; echo $$; sleep 600 & echo $!; wait' &
        (env -i sh -c 'echo $$; exec sleep 600' &)
        echo $$; sleep 600
    """

    async def scene() -> None:
        async with connected(own) as server:
            lost = asyncio.Event()
            gone_by_then: list[bool] = []

            async def on_lost() -> None:
                gone_by_then.append(all(is_gone(pid) for pid in pids))
                ended = server.processes["tree"].ended
                assert ended is not None
                assert ended.lost
                lost.set()

            server.supervision.on_lost(on_lost)
            await server.run("over", "sh", "-c", "exit 5")
            await server.shell("tree", strays)
            await server.says("tree", "\n")
            await eventually_so(lambda: len(server.shown("tree").split()) == 4)
            pids = [int(pid) for pid in server.shown("tree").split()]
            first = server.supervision.supervisor_pid
            assert first is not None
            kill(first)
            await lost.wait()

            assert gone_by_then == [True]
            assert server.supervision.supervisor_pid != first
            ended = {name: process.ended for name, process in server.processes.items()}
            assert ended["over"] is not None
            assert ended["over"].exit_code == 5
            assert server.told[-1] == server.processes["tree"]
            await server.shell("tree", "echo again")  # it is known, so it is not started again
            assert "again" not in server.shown("tree")
            assert (await server.run("another", "true")).exit_code == 0

    play(scene())


def test_a_supervisor_that_was_killed_while_no_server_was_there(own: Path) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            await server.run("done", "true")
            await server.supervision.forget("done")
            process = await server.start("job", "sleep", "600")
        supervisor = supervisor_of(own)
        assert supervisor is not None
        kill(supervisor)
        assert process.pid is not None
        assert not is_gone(process.pid)

        async with connected(own) as server:
            assert is_gone(process.pid)
            assert list(server.processes) == ["job"]
            ended = server.processes["job"].ended
            assert ended is not None
            assert ended.lost
            assert server.processes["job"].pid == process.pid

    play(scene())


def _change_header(directory: Path, **changes: object) -> None:
    journal = directory / "supervisor" / "journal"
    header, rest = journal.read_bytes().split(b"\n", 1)
    journal.write_bytes(json.dumps(json.loads(header) | changes).encode() + b"\n" + rest)


def test_after_a_restart_of_the_machine_everything_is_lost(own: Path) -> None:
    """A pid of before the restart may be anybody's now, so nobody is killed."""

    async def scene() -> None:
        async with connected(own) as server:
            process = await server.start("job", "sleep", "600")
        supervisor = supervisor_of(own)
        assert supervisor is not None
        kill(supervisor)
        _change_header(own, machine="another boot")

        async with connected(own) as server:
            ended = server.processes["job"].ended
            assert ended is not None
            assert ended.lost
            assert process.pid is not None
            assert not is_gone(process.pid)
            kill(process.pid)

    play(scene())


def test_a_copy_of_a_state_directory_leaves_the_processes_of_the_original_alone(own: Path) -> None:
    original, copy = own / "original", own / "copy"

    async def scene() -> None:
        async with connected(original) as server:
            process = await server.start("job", "sleep", "600")
            shutil.copytree(original, copy, ignore=shutil.ignore_patterns("socket"))
            async with connected(copy) as other:
                ended = other.processes["job"].ended
                assert ended is not None
                assert ended.lost
                await other.supervision.shutdown()
            assert process.pid is not None
            assert not is_gone(process.pid)
            await server.supervision.shutdown()

    play(scene())


def test_a_torn_journal_is_read_as_far_as_it_goes(own: Path) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            await server.run("one", "sh", "-c", "exit 1")
            await server.start("two", "sleep", "600")
        supervisor = supervisor_of(own)
        assert supervisor is not None
        kill(supervisor)
        with (own / "supervisor" / "journal").open("ab") as journal:
            journal.write(b'rubbish\n{"type":"unknown"}\n{"type":"begun","id":"never st')

        async with connected(own) as server:
            ended = {name: process.ended for name, process in server.processes.items()}
            assert sorted(ended) == ["one", "two"]
            assert ended["one"] is not None
            assert ended["one"].exit_code == 1
            assert ended["two"] is not None
            assert ended["two"].lost

    play(scene())


def test_a_process_that_was_being_started_when_the_supervisor_died_is_found_by_its_mark(own: Path) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            process = await server.start("job", "sleep", "600")
        supervisor = supervisor_of(own)
        assert supervisor is not None
        kill(supervisor)
        journal = own / "supervisor" / "journal"
        lines = [line for line in journal.read_bytes().splitlines() if b'"started"' not in line]
        journal.write_bytes(b"\n".join(lines) + b"\n")

        async with connected(own) as server:
            assert process.pid is not None
            assert is_gone(process.pid)
            ended = server.processes["job"].ended
            assert ended is not None
            assert ended.lost

    play(scene())


def test_servers_that_come_at_once_share_one_supervisor(own: Path) -> None:
    async def scene() -> None:
        servers = [LocalSupervision(own, SystemClock()) for _ in range(4)]
        await asyncio.gather(*(server.connect() for server in servers))
        assert len({server.supervisor_pid for server in servers}) == 1
        for server in servers:
            await server.close()

    play(scene())


def test_a_request_that_was_not_answered_is_asked_again(own: Path) -> None:
    """The supervisor is killed with the request in its hands; the next one has never heard of it."""

    async def scene() -> None:
        async with connected(own) as server:
            first = server.supervision.supervisor_pid
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            starting = asyncio.ensure_future(server.run("job", "sh", "-c", "exit 6"))
            await asyncio.sleep(0)
            kill(first)

            assert (await starting).exit_code == 6
            assert server.supervision.supervisor_pid != first

    play(scene())


def test_what_is_to_be_forgotten_stays_forgotten_when_the_supervisor_did_not_hear_of_it(own: Path) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            await server.run("done", "true")
            first = server.supervision.supervisor_pid
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            await server.supervision.forget("done")
            kill(first)

            assert (await server.run("another", "sh", "-c", "exit 4")).exit_code == 4
            assert server.supervision.supervisor_pid != first
            assert list(server.processes) == ["another"]
            assert [one.id for one in server.told] == ["done"] * 2 + ["another"] * 2
        async with connected(own) as server:
            assert list(server.processes) == ["another"]

    play(scene())


def test_a_supervisor_that_makes_no_directories_finds_them_made(own: Path) -> None:
    """One from before there were any of which it had to be told, and which still holds processes."""
    found: dict[str, bool] = {}

    def is_made(home: str) -> bool:
        return Path(home).is_dir()

    async def older(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = messages.Frames()
        while data := await reader.read(65536):
            frames.feed(data)
            for request in map(messages.request, frames):
                if isinstance(request, messages.Hello):
                    welcome = {"type": "welcome", "version": 1, "build": __version__, "pid": 1, "instance": "i"}
                    text = json.dumps({**welcome, "limits_note": ""}).encode()
                    writer.write(len(text).to_bytes(4, "big") + text + messages.frame(messages.Complete()))
                elif isinstance(request, messages.StartRequest):
                    found[request.launch.id] = is_made(request.launch.home)
                    writer.write(messages.frame(messages.Done(request.number)))
        writer.close()

    async def scene() -> None:
        socket_of(own).parent.mkdir()
        async with await asyncio.start_unix_server(older, socket_of(own)), connected(own) as server:
            await server.supervision.start(server.launch("job", "true", home=str(own / "home")))
            with pytest.raises(StartDeferred, match="No such file or directory"):
                await server.supervision.start(server.launch("homeless", "true", home=str(own / "no" / "home")))

    play(scene())
    assert found == {"job": True}


def test_an_older_release_that_holds_nothing_makes_way(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            first = server.supervision.supervisor_pid
            await server.run("done", "sh", "-c", "exit 3")
            await server.start("runs", "sleep", "600")
        monkeypatch.setattr("fairway.runner.supervision.__version__", "0.0.9")
        async with connected(own) as server:
            assert server.supervision.supervisor_pid == first, "it holds a process"
            await server.stop("runs")
            assert len(living(own)) == 0
        async with connected(own) as server:
            assert server.supervision.supervisor_pid != first
            ended = server.processes["done"].ended
            assert ended is not None
            assert ended.exit_code == 3

    play(scene())
