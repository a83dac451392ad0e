"""Servers and supervisors are killed at any moment while processes are being started: none ever runs twice."""

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fairway.runner.processes import Process, ProcessSpec
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import SystemClock

from .servers import eventually, kill, living, play, supervisor_of

COUNT = 100
AT_ONCE = 12


async def serve(directory: Path) -> None:
    """A server with what it needs: notes of what has ended, which are written before the supervisor may forget."""
    supervision = LocalSupervision(directory, SystemClock())
    changed = asyncio.Event()
    supervision.on_change(lambda _: changed.set())
    await supervision.connect()
    while len(noted := _notes(directory)) < COUNT:
        changed.clear()
        names = [f"job-{number}" for number in range(COUNT)]
        new = [name for name in names if name not in noted and name not in supervision.processes]
        free = AT_ONCE - len(supervision.processes)
        await asyncio.gather(*(supervision.start(_launch(directory, name)) for name in new[:free]))
        ended = [process for process in supervision.processes.values() if process.ended is not None]
        for process in ended:
            _note(directory, process)
            await supervision.forget(process.id)
        if not ended:
            await changed.wait()
    await supervision.close()


def _launch(directory: Path, name: str) -> ProcessSpec:
    script = f"echo {name} >> {directory}/runs; (setsid sleep 600 &); sleep 0.02; exit 3"
    log = f"{directory}/logs/{name}.log"
    return ProcessSpec(id=name, argv=("sh", "-c", script), env={"PATH": "/usr/bin:/bin"}, cwd="/", log=log)


def _note(directory: Path, process: Process) -> None:
    assert process.ended is not None
    with (directory / "notes").open("a") as notes:
        notes.write(json.dumps([process.id, process.ended.exit_code, process.ended.lost]) + "\n")


def _notes(directory: Path) -> dict[str, tuple[int | None, bool]]:
    path = directory / "notes"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {name: (code, lost) for name, code, lost in map(json.loads, lines)}


def _runs(directory: Path) -> list[str]:
    path = directory / "runs"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("seed", [1])
def test_no_process_ever_runs_twice_and_none_is_left(own: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    command = [sys.executable, "-m", "runner.supervising.test_chaos", str(own)]
    for _ in range(7):
        with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as server:  # noqa: S603 - this interpreter
            runs = len(_runs(own)) + draw.randrange(12)
            eventually(lambda limit=runs: len(_runs(own)) >= limit or server.poll() is not None)  # type: ignore[misc]
            victim = draw.choice(["server", "supervisor", "both"])
            if victim != "server" and (supervisor := supervisor_of(own)) is not None:
                kill(supervisor)
            if victim == "supervisor":
                runs = len(_runs(own)) + draw.randrange(1, 6)
                eventually(lambda limit=runs: len(_runs(own)) >= limit or server.poll() is not None)  # type: ignore[misc]
            server.kill()
    assert subprocess.run(command, cwd=Path(__file__).parents[2], timeout=60, check=False).returncode == 0  # noqa: S603

    notes, runs_of = _notes(own), Counter(_runs(own))
    assert sorted(notes) == sorted(f"job-{number}" for number in range(COUNT))
    assert {name: count for name, count in runs_of.items() if count > 1} == {}
    assert [name for name, (code, lost) in notes.items() if code != 3 and not lost] == []
    assert [name for name, (code, _) in notes.items() if code == 3 and name not in runs_of] == []
    assert living(own) == []


if __name__ == "__main__":
    play(serve(Path(sys.argv[1])))
