"""Stopping: SIGTERM and a grace period for all, then SIGKILL for what is left; and nothing of a tree gets away."""

import os
import signal
import time
from pathlib import Path

import pytest

from .servers import connected, eventually, hiding_daemon, is_gone, play

STUBBORN = "exec 2>/dev/null; trap '' TERM; echo ready; while true; do sleep 0.05; done"
POLITE = "exec 2>/dev/null; trap 'echo bye; exit 4' TERM; echo ready; while true; do sleep 0.05; done"


def test_a_process_that_reacts_ends_its_own_way(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("polite", POLITE)
            await server.says("polite", "ready")
            ended = await server.stop("polite", 60)

            assert (ended.exit_code, ended.signal) == (4, None)
            assert server.shown("polite").split() == ["ready", "bye"]

    play(scene())


def test_a_process_that_does_not_react_is_killed_when_its_time_is_up(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("stubborn", STUBBORN)
            await server.says("stubborn", "ready")
            begun = time.monotonic()
            ended = await server.stop("stubborn", 0.3)

            assert ended.signal == signal.SIGKILL
            assert time.monotonic() - begun >= 0.3

    play(scene())


def test_without_a_grace_period_it_is_killed_at_once(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("at once", POLITE)
            await server.says("at once", "ready")

            assert (await server.stop("at once", 0)).signal == signal.SIGKILL

    play(scene())


@pytest.mark.parametrize(("first", "second"), [(60.0, 0.05), (60.0, 0.0), (0.1, 60.0)])
def test_the_shortest_grace_period_counts(shared: Path, first: float, second: float) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            name = f"twice-{first}-{second}"
            await server.shell(name, STUBBORN)
            await server.says(name, "ready")
            await server.supervision.stop(name, first)
            begun = time.monotonic()

            assert (await server.stop(name, second)).signal == signal.SIGKILL
            assert time.monotonic() - begun < 50, "not the sixty seconds of the other one"

    play(scene())


def test_stopping_what_has_ended_or_never_was_is_nothing(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server, connected(shared) as late:
            ended = await server.run("over", "true")
            await late.supervision.stop("over", 0)
            await late.supervision.stop("never", 0)

            assert server.processes["over"].ended == ended

    play(scene())


def test_a_halted_process_can_be_stopped(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("halted", "echo ready; kill -STOP $$")
            await server.says("halted", "ready")

            assert (await server.stop("halted", 60)).signal == signal.SIGTERM

    play(scene())


def test_the_whole_group_gets_the_signal_and_its_time(shared: Path) -> None:
    """A shell that waits for a program dies of the SIGTERM; the program must still be able to write its checkpoint."""
    script = """
        exec 2>/dev/null
        sh -c 'trap "sleep 0.2; echo saved; exit 0" TERM; echo ready; while true; do sleep 0.02; done'
        echo never
    """

    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("group", script)
            await server.says("group", "ready")
            await server.stop("group", 60)

            assert server.shown("group").split() == ["ready", "saved"]

    play(scene())


@pytest.mark.parametrize(
    "child",
    [
        pytest.param("sleep 600 &", id="in the same group"),
        pytest.param("sh -mc 'sleep 600 &'", id="in a group of its own"),
        pytest.param("setsid sh -c 'trap \"\" TERM HUP; sleep 600 & sleep 600' &", id="in a session of its own"),
        pytest.param("(setsid sh -c 'setsid sleep 600 & setsid sleep 600 &' &)", id="daemons of daemons"),
        pytest.param("(env -i setsid sleep 600 &)", id="a daemon without any environment"),
    ],
)
@pytest.mark.parametrize("how", ["it exits", "it is killed", "it is stopped"])
def test_nothing_that_it_started_is_left(shared: Path, request: pytest.FixtureRequest, child: str, how: str) -> None:
    name = request.node.name.replace(" ", "-")
    sleeper = f"600.{abs(hash(name)) % 10**9}"
    begin = child.replace("600", sleeper)
    then = "exit 3" if how == "it exits" else "sleep 60"

    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell(
                name, f"{begin}\nwhile ! pgrep -f '^sleep {sleeper}'; do sleep 0.01; done; echo up; {then}"
            )
            if how != "it exits":
                await server.says(name, "up")
            pid = server.processes[name].pid
            assert pid is not None
            if how == "it is killed":
                os.kill(pid, signal.SIGKILL)
            ended = await (server.stop(name, 0.2) if how == "it is stopped" else server.ended(name))

            assert (ended.exit_code, ended.signal) == {
                "it exits": (3, None),
                "it is killed": (None, signal.SIGKILL),
                "it is stopped": (None, signal.SIGTERM),
            }[how]
            strays = [int(stray) for stray in server.shown(name).split() if stray.isdigit()]
            assert strays
            assert [stray for stray in strays if not is_gone(stray)] == []

    play(scene())


def test_a_daemon_of_a_process_that_runs_is_left_alone_when_others_end(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.shell("with daemon", "(setsid sh -c 'echo $$; exec sleep 600' &) ; sleep 600")
            daemon = int(await server.says("with daemon", "\n"))
            for number in range(3):
                await server.run(f"other-{number}", "true")
            assert not is_gone(daemon)

            await server.stop("with daemon", 0)
            assert is_gone(daemon)

    play(scene())


def test_a_daemon_without_a_sign_lives_no_longer_than_the_last_it_may_belong_to(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.start("beside", "sleep", "600")
            await server.shell("hider", hiding_daemon(shared / "hider"))
            daemon = int(await server.says("hider", "\n"))
            await server.ended("hider")
            assert not is_gone(daemon)

            await server.stop("beside", 0)
            eventually(lambda: is_gone(daemon))

    play(scene())
