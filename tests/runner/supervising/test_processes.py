"""Processes begin, end and are remembered as they were."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
import uvloop

from fairway.runner.processes import Ended, ProcessSpec, StartDeferred
from fairway.runner.supervising.places import SupervisorSettings
from fairway.runner.supervision import LocalSupervision, SupervisorFailed
from fairway.runtime.clock import SystemClock

from .servers import (
    SECONDS,
    children_of,
    connected,
    eventually,
    eventually_so,
    files_of,
    is_gone,
    play,
    supervisor_of,
)


@pytest.mark.parametrize(
    ("script", "want_code", "want_signal"),
    [
        pytest.param("true", 0, None, id="it did what it should"),
        pytest.param("exit 3", 3, None, id="it failed"),
        pytest.param("exit 255", 255, None, id="the highest code"),
        pytest.param("kill -KILL $$", None, signal.SIGKILL, id="it was killed"),
        pytest.param("kill -SEGV $$", None, signal.SIGSEGV, id="it crashed"),
    ],
)
def test_how_a_process_ended(shared: Path, script: str, want_code: int | None, want_signal: int | None) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            before = time.time()
            name = f"pod/{want_code}-{want_signal}"
            process = await server.shell(name, script)
            ended = await server.ended(name)

            assert process.pid is not None
            assert process.started_at is not None
            assert ended == Ended(at=ended.at, exit_code=want_code, signal=want_signal)
            assert before <= process.started_at <= ended.at <= time.time()
            assert [heard.ended for heard in server.told] == [None, ended]

    play(scene())


def test_a_program_begins_without_the_names_of_services_where_they_cannot_be_given(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            ended = await server.run("pod/hosts", "cat", "/etc/hosts", hosts="/nowhere")
            assert ended.exit_code == 0
            said = server.shown("pod/hosts")
            assert "fairway: names of Services do not resolve here: mount: No such file or directory" in said
            assert "localhost" in said

    play(scene())


def test_a_program_that_is_not_there_is_said_in_a_process_with_its_own_hosts(shared: Path, tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
        async with connected(shared) as server:
            ended = await server.run("pod/absent", "/no/such/program", hosts=str(tmp_path / "hosts"))
            assert ended.error == "cannot start /no/such/program: there is no such file"

    play(scene())


@pytest.mark.parametrize(
    ("argv", "cwd", "want"),
    [
        pytest.param(
            ("/no/such/program",), "/", "cannot start /no/such/program: there is no such file", id="no such file"
        ),
        pytest.param(
            ("nosuchprogram", "-x"),
            "/",
            "cannot start nosuchprogram: there is no such program in /usr/bin:/bin",
            id="not in PATH",
        ),
        pytest.param(
            ("/etc/passwd",),
            "/",
            "cannot start /etc/passwd: it is not a file that this user may execute",
            id="not executable",
        ),
        pytest.param(
            ("./orphan",),
            "{tmp}",
            "cannot start ./orphan: the program that its first line names after '#!' does not exist",
            id="no interpreter",
        ),
        pytest.param(
            ("./empty",),
            "{tmp}",
            "cannot start ./empty: it is not a program for this machine, and has no '#!' line that names one",
            id="not a program",
        ),
        pytest.param(
            ("true",), "/no/where", "the working directory /no/where does not exist", id="no working directory"
        ),
        pytest.param(
            ("true",),
            "/etc/passwd",
            "the working directory /etc/passwd is not a directory",
            id="a file as working directory",
        ),
        pytest.param((), "/", "the command is empty", id="no command"),
        pytest.param(("true", "a\0b"), "/", "cannot start 'true': embedded null byte", id="an impossible argument"),
        pytest.param(
            ("true", "x" * 200_000),
            "/",
            "cannot start true: its arguments and environment are larger than this system allows",
            id="too many arguments",
        ),
    ],
)
def test_what_cannot_be_started_says_why(
    shared: Path, tmp_path: Path, request: pytest.FixtureRequest, argv: tuple[str, ...], cwd: str, want: str
) -> None:
    for name, text in (("orphan", "#!/no/such/interpreter\n"), ("empty", "?")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    async def scene() -> None:
        async with connected(shared) as server:
            name = request.node.name
            ended = await server.run(name, *argv, cwd=cwd.format(tmp=tmp_path), env={"PATH": "/usr/bin:/bin"})

            assert ended == Ended(at=ended.at, error=want)
            assert server.processes[name].pid is None

    play(scene())


def test_the_directory_of_a_process_is_made_before_it_starts(shared: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def scene() -> None:
        async with connected(shared) as server:
            for number in range(2):  # it is there already when a container is restarted
                ended = await server.run(f"at-home-{number}", "mkdir", f"{number}", cwd=str(home), home=str(home))
                assert (ended.exit_code, ended.error) == (0, "")
        assert sorted(one.name for one in home.iterdir()) == ["0", "1"]
        assert home.stat().st_mode & 0o777 == 0o700

    play(scene())


def test_a_process_whose_directory_cannot_be_made_is_not_started_and_may_be_asked_for_again(
    shared: Path, tmp_path: Path
) -> None:
    home = tmp_path / "not" / "yet"

    async def scene() -> None:
        async with connected(shared) as server:
            with pytest.raises(StartDeferred) as refused:
                await server.start("homeless", "true", cwd=str(home), home=str(home))
            assert str(refused.value) == f"cannot create the working directory: {home}: No such file or directory"
            assert "homeless" not in server.processes
            assert server.told == []
        async with connected(shared) as server:
            assert "homeless" not in server.processes
            home.parent.mkdir()
            assert (await server.run("homeless", "true", cwd=str(home), home=str(home))).exit_code == 0

    play(scene())


def test_a_process_finds_itself_where_it_was_sent(shared: Path, tmp_path: Path) -> None:
    script = """
        echo "$GREETING from $PWD"; echo "known as $FAIRWAY_PROCESS"
        [ "$(ps -o sid= -p $$ | tr -d ' ')" = $$ ] && echo "in a session of its own"
        read line || echo "nothing to read"
        env | cut -d= -f1 | grep -v -e FAIRWAY_ -e PWD -e _ -e SHLVL | sort | tr '\\n' ' '
    """

    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("uid/main/0", script, cwd=str(tmp_path), env={"GREETING": "hello"})
            await server.ended("uid/main/0")

            assert server.shown("uid/main/0").splitlines() == [
                f"hello from {tmp_path}",
                "known as uid/main/0",
                "in a session of its own",
                "nothing to read",
                "GREETING PATH ",
            ]

    play(scene())


def test_signals_are_as_if_nobody_had_changed_them(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.run("signals", "cat", "/proc/self/status")

            status = dict(line.split(":") for line in server.shown("signals").splitlines())
            of_libc = 0b11 << 31  # the two that the C library keeps for itself
            assert {name: int(status[name], 16) & ~of_libc for name in ("SigBlk", "SigIgn", "SigCgt")} == {
                "SigBlk": 0,
                "SigIgn": 0,
                "SigCgt": 0,
            }

    play(scene())


def test_asking_again_changes_nothing(shared: Path, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as one, connected(shared) as other:
            launch = one.launch("once", "sh", "-c", f"echo ran >> {tmp_path}/runs")
            await asyncio.gather(*(server.supervision.start(launch) for server in (one, other) for _ in range(10)))
            await one.ended("once")
            await other.ended("once")
            await one.supervision.start(launch)

            assert (tmp_path / "runs").read_text() == "ran\n"
            assert one.processes["once"] == other.processes["once"]

    play(scene())


def test_what_is_forgotten_is_gone_and_what_runs_is_not_forgotten(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.start("runs", "sleep", "60")
            await server.run("ended", "true")
            await server.supervision.forget("runs")
            await server.supervision.forget("ended")
            await server.supervision.forget("never there")
            assert "ended" not in server.processes
            assert "runs" in server.processes

        async with connected(shared) as server:
            assert "ended" not in server.processes
            assert (await server.stop("runs")).signal == signal.SIGKILL

    play(scene())


def test_what_is_forgotten_is_told_soon_though_nobody_waits_for_it(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.run("soon", "true")
            await server.supervision.forget("soon")
            async with asyncio.timeout(SECONDS):
                while await known("soon"):
                    continue
            assert [one.id for one in server.told] == ["soon", "soon"]

    async def known(process_id: str) -> bool:
        async with connected(shared) as other:
            return process_id in other.processes

    play(scene())


@pytest.mark.parametrize(
    ("launch", "want"),
    [
        pytest.param(
            ProcessSpec(id="", argv=("x",), env={}, cwd="/", log="/l"), "the identity of a process", id="no identity"
        ),
        pytest.param(ProcessSpec(id="a\nb", argv=("x",), env={}, cwd="/", log="/l"), "the identity", id="two lines"),
        pytest.param(
            ProcessSpec(id="x", argv=("x",), env={}, cwd="here", log="/l"), "cwd 'here': give an", id="relative"
        ),
        pytest.param(
            ProcessSpec(id="x", argv=("x",), env={}, cwd="/", log="here"), "log 'here': give an", id="relative log"
        ),
        pytest.param(
            ProcessSpec(id="x", argv=("x",), env={}, cwd="/", log="/l", home="here"), "home 'here': give an", id="home"
        ),
    ],
)
def test_what_nobody_may_ask_for_is_refused_at_once(shared: Path, launch: ProcessSpec, want: str) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            with pytest.raises(ValueError, match=want):
                await server.supervision.start(launch)

    play(scene())


def test_hundreds_of_processes_leave_nothing_open(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.run("first", "true")
            pid = server.supervision.supervisor_pid
            assert pid is not None
            files = files_of(pid)
            names = [f"noop-{number}" for number in range(300)]

            await asyncio.gather(*(server.start(name, "true") for name in names))
            for name in names:
                assert (await server.ended(name)).exit_code == 0
                await server.supervision.forget(name)

            assert files_of(pid) == files
            assert children_of(pid) == []
            assert not [name for name in server.processes if name.startswith("noop")]

    play(scene())


def test_it_works_on_the_event_loop_of_the_server(shared: Path) -> None:
    async def scene() -> int | None:
        async with connected(shared) as server:
            return (await server.run("on uvloop", "sh", "-c", "exit 8")).exit_code

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scene()) == 8


def test_nobody_else_can_look_into_the_supervisors_folder(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared):
            folder = shared / "supervisor"
            assert folder.stat().st_mode & 0o777 == 0o700
            assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
                "journal": 0o600,
                "limits": 0o600,
                "lock": 0o600,
                "socket": 0o600,
            }

    play(scene())


def test_a_long_path_is_as_good_as_a_short_one(tmp_path: Path) -> None:
    directory = tmp_path / ("a" * 100) / ("b" * 100)

    async def scene() -> None:
        async with connected(directory) as server:
            assert (await server.run("x", "true")).exit_code == 0
            await server.supervision.shutdown()

    play(scene())


def test_the_supervisor_leaves_when_it_has_nothing_to_do_and_is_there_again_when_needed(own: Path) -> None:
    async def scene() -> None:
        async with connected(own, SupervisorSettings(idle_seconds=0.05)) as server:
            first = server.supervision.supervisor_pid
            assert first is not None
            await server.run("done", "sh", "-c", "exit 7")
            await server.start("runs", "sleep", "60")
        await asyncio.sleep(0.2)  # four times as long as it would stay for nothing
        assert not is_gone(first)

        async with connected(own) as server:
            assert server.supervision.supervisor_pid == first
            await server.stop("runs")
            await server.supervision.forget("runs")
        await eventually_so(lambda: is_gone(first))
        assert supervisor_of(own) is None

        async with connected(own) as server:
            assert server.supervision.supervisor_pid != first
            assert {name: process.ended and process.ended.exit_code for name, process in server.processes.items()} == {
                "done": 7
            }

    play(scene())


def test_servers_that_come_while_it_leaves_find_one_all_the_same(own: Path) -> None:
    async def scene() -> None:
        for number in range(6):
            async with connected(own, SupervisorSettings(idle_seconds=0.001 * (number % 5))) as server:
                assert (await server.run(f"p{number}", "true")).exit_code == 0
                await server.supervision.forget(f"p{number}")
            await asyncio.sleep(0.001 * (number % 5))

    play(scene())


def test_a_supervisor_that_gets_a_sigterm_ends_what_it_holds_first(own: Path) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            pid = server.supervision.supervisor_pid
            assert pid is not None
            process = await server.start("job", "sleep", "60")
            await server.supervision.close()
            os.kill(pid, signal.SIGTERM)
            await eventually_so(lambda: is_gone(pid))
            assert process.pid is not None
            assert is_gone(process.pid)
        async with connected(own) as server:
            ended = server.processes["job"].ended
            assert ended is not None
            assert (ended.signal, ended.lost) == (signal.SIGTERM, False)

    play(scene())


def test_a_supervisor_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "supervisor").mkdir()
    (tmp_path / "supervisor" / "journal").mkdir()

    async def scene() -> None:
        supervision = LocalSupervision(tmp_path, SystemClock())
        with pytest.raises(SupervisorFailed, match=r"did not start.*supervisor.log ends: .*Is a directory"):
            await supervision.connect()
        with pytest.raises(SupervisorFailed, match="connect first"):
            await supervision.stop("x", 0)

    play(scene())
    eventually(lambda: supervisor_of(tmp_path) is None)
