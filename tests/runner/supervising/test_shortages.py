"""What a machine runs out of: nothing is started then, nothing is left of the try, and it may be asked for again."""

import errno
import os
import resource
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.runner.processes import ProcessSpec, StartDeferred
from fairway.runner.shortages import MachineExhausted
from fairway.runner.supervising import spawning
from fairway.runner.supervising.places import SupervisorSettings

from .servers import Server, connected, files_of, play, supervisor_of

MANY = 60


async def start_many(server: Server) -> tuple[list[str], list[str]]:
    """Those that run, and why the others do not."""
    running, reasons = [], []
    for number in range(MANY):
        try:
            await server.shell(f"p{number}", "ulimit -Sn; exec sleep 600")
            running.append(f"p{number}")
        except StartDeferred as reason:
            reasons.append(str(reason))
    return running, reasons


def test_more_processes_run_than_the_soft_limit_has_descriptors_and_each_has_that_limit(own: Path) -> None:
    async def scene() -> None:
        async with connected(own, SupervisorSettings(soft_files=64)) as server:
            running, reasons = await start_many(server)
            assert (len(running), reasons) == (MANY, [])
            assert await server.says(running[-1], "\n") == "64\n"
            assert server.processes[running[-1]].ended is None

    play(scene())


def test_what_there_are_no_descriptors_for_waits_until_there_are(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = own / "limited-python"
    limited.write_text(f'#!/bin/sh\nulimit -n 180\nexec {shlex.quote(sys.executable)} "$@"\n')
    limited.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(limited))

    async def scene() -> None:
        async with connected(own) as server:
            running, reasons = await start_many(server)
            assert 10 < len(running) < MANY
            assert set(reasons) == {"cannot start a process: no file descriptors are left for it (ulimit -n)"}
            assert server.processes.keys() == set(running), "nothing is left of those that were not started"

            await server.stop(running[0])
            await server.start("another", "sleep", "600")
        pid = supervisor_of(own)
        assert pid is not None
        assert files_of(pid) <= 180 - 64, "servers can still connect, logs be written"
        async with connected(own) as server:
            assert len([one for one in server.processes.values() if one.ended is None]) == len(running)

    play(scene())


def test_a_quiet_job_costs_two_descriptors(own: Path) -> None:
    async def scene() -> None:
        async with connected(own) as server:
            await server.start("first", "sleep", "600")
            pid = supervisor_of(own)
            assert pid is not None
            before = files_of(pid)
            for number in range(MANY):
                await server.shell(f"p{number}", "echo hello; exec sleep 600")
                await server.says(f"p{number}", "hello")
            assert files_of(pid) - before <= 2 * MANY + 48, "log files of those who say nothing are closed"

    play(scene())


@pytest.fixture
def prepared() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    spawning.prepare(None)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("number", ["EMFILE", "ENFILE", "EAGAIN", "ENOMEM", "ENOSPC", "EDQUOT"])
def test_a_program_that_cannot_begin_for_want_of_something_is_no_failure(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(getattr(errno, number), "")

    monkeypatch.setattr(os, "posix_spawn", fail)
    launch = ProcessSpec(id="x", argv=("true",), env={}, cwd="/", log="/x.log")
    with pytest.raises(MachineExhausted, match="cannot start true: "):
        spawning.spawn(launch, {"PATH": os.environ["PATH"]}, (1, 2))


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("number", ["EACCES", "ENOEXEC", "E2BIG", "ELOOP"])
def test_a_program_that_can_never_begin_is_a_failure(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(getattr(errno, number), "")

    monkeypatch.setattr(os, "posix_spawn", fail)
    launch = ProcessSpec(id="x", argv=("true",), env={}, cwd="/", log="/x.log")
    with pytest.raises(spawning.CannotStart, match="cannot start true: "):
        spawning.spawn(launch, {"PATH": os.environ["PATH"]}, (1, 2))
