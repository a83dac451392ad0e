"""The program of Ray nodes as pods run it, with a stand-in for `ray`: what it starts, waits for, and ends with."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs.kubernetes import OnKubernetes
from fairway.managedjobs.machine import ThisMachine
from fairway.managedjobs.platform import Platform
from fairway.managedjobs.tasks.task import RayWorkers, Task

from .jobs import main_of, pods_of, values_of

_SECONDS = 120
# Says how it was called, and does as a head does: writes its address, or, with --block, stays.
_RAY = """\
#!/bin/sh
echo "$@" >>"$RAY_CALLS"
for word; do case $word in --temp-dir=*) dir=${word#*=} ;; --port=*) port=${word#*=} ;; --block) block=yes ;; esac; done
[ "$block" ] && exec sleep 1000
[ -z "$dir" ] || echo "127.0.0.1:$port" >"$dir/ray_current_cluster"
"""


class Machine:
    """A directory for everything, and a `ray` on the PATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.platform = ThisMachine(archives=f"{root}/archives", checkpoint_root=f"{root}/checkpoints")
        self.programs = root / "bin"
        self.programs.mkdir()
        (self.programs / "ray").write_text(_RAY)
        (self.programs / "ray").chmod(0o755)
        (self.programs / "python3").symlink_to(sys.executable)
        (root / "volume").mkdir()

    @property
    def calls(self) -> str:
        found = self.root / "calls"
        return found.read_text() if found.exists() else ""

    @contextmanager
    def running(self, pod: Manifest, path: str | None = None) -> Iterator[subprocess.Popen[str]]:
        container = main_of(pod)
        environment = {
            **{name: value.replace("$$", "$") for name, value in values_of(container).items()},
            "PATH": path or f"{self.programs}:{os.environ['PATH']}",
            "RAY_CALLS": str(self.root / "calls"),
            "FAIRWAY_VOLUME_FAIRWAY_RAY": str(self.root / "volume"),
            "FAIRWAY_POD_IP": "127.0.0.1",
        }
        command = [word.replace("$$", "$") for word in container["command"]]
        process = subprocess.Popen(  # noqa: S603 - what a pod would run
            command,
            env=environment,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def pods(run: str, workers: int, platform: Platform) -> list[Manifest]:
    task = Task(ray=RayWorkers(count=workers), num_nodes=1 + workers, run=run)
    return pods_of(task, platform=platform)


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not happens():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(("ends_with", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
@pytest.mark.parametrize("where", ["this machine", "a cluster"])
def test_the_head_ends_as_its_driver_does(machine: Machine, where: str, ends_with: str, code: int) -> None:
    platform = machine.platform if where == "this machine" else OnKubernetes()
    (head,) = pods(f'echo "at $RAY_ADDRESS"\n{ends_with}', 0, platform)
    with machine.running(head) as process:
        said, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == code
    assert "at 127.0.0.1:" in said
    assert "start --head" in machine.calls


@pytest.mark.parametrize("where", ["this machine", "a cluster"])
def test_the_python_of_a_ray_that_has_none_beside_it_is_that_of_its_first_line(machine: Machine, where: str) -> None:
    (machine.programs / "ray").rename(machine.root / "ray.sh")
    start = f'import os, sys\nos.execv("/bin/sh", ["sh", "{machine.root}/ray.sh", *sys.argv[1:]])\n'
    (machine.programs / "ray").write_text(f"#!{sys.executable}\n{start}")
    (machine.programs / "ray").chmod(0o755)
    (machine.programs / "python3").unlink()
    (head,) = pods('echo "at $RAY_ADDRESS"', 0, machine.platform if where == "this machine" else OnKubernetes())
    with machine.running(head) as process:
        said, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0, said
    assert "at 127.0.0.1:" in said


@pytest.mark.parametrize(
    ("where", "message"),
    [("this machine", "there is no ray on this machine"), ("a cluster", "the image has no ray")],
)
def test_a_missing_ray_is_named(machine: Machine, where: str, message: str) -> None:
    (head,) = pods("true", 0, machine.platform if where == "this machine" else OnKubernetes())
    with machine.running(head, path="/usr/bin:/bin") as process:
        said, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 1
    assert message in said


def test_a_driver_has_time_to_save_its_state_and_so_has_the_program_that_its_shell_waits_for(machine: Machine) -> None:
    saving = "trap 'sleep 1; echo saved >saved; exit 0' TERM; echo ready >ready; while :; do sleep 0.1; done"
    (head,) = pods(f'bash -c "{saving}"\necho afterwards', 0, machine.platform)
    with machine.running(head) as process:
        until((machine.root / "ready").exists)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_SECONDS)
    assert (machine.root / "saved").exists()


def test_a_head_that_is_stopped_before_its_driver_runs_ends_at_once(machine: Machine) -> None:
    (machine.programs / "ray").write_text('#!/bin/sh\necho x >>"$RAY_CALLS"; exec sleep 1000\n')
    (head,) = pods("echo never", 0, machine.platform)
    with machine.running(head) as process:
        until(lambda: bool(machine.calls))
        process.terminate()
        said, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 143
    assert "never" not in said


def test_a_head_that_ray_cannot_start_says_what_ray_says(machine: Machine) -> None:
    (machine.programs / "ray").write_text("#!/bin/sh\necho no such port; exit 3\n")
    (head,) = pods("true", 0, machine.platform)
    with machine.running(head) as process:
        said, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 1
    assert "no such port" in said
    assert "exit code 3" in said


def test_a_worker_joins_the_head_that_it_meets_and_stays_until_that_is_gone_whatever_is_asked(machine: Machine) -> None:
    _, worker = pods("true", 1, machine.platform)
    with socket.create_server(("127.0.0.1", 0)) as head, machine.running(worker) as process:
        port = head.getsockname()[1]
        meeting = machine.root / "checkpoints" / "0c9e6a3e-6f0e-4f0a-9d0a-000000000007" / ".ray-0-1"
        meeting.mkdir(parents=True)
        (meeting / "new").write_text(f'{{"address": "127.0.0.1:{port}", "token": "t"}}')
        (meeting / "new").rename(meeting / "head")
        until(lambda: f"--address=127.0.0.1:{port}" in machine.calls)
        process.terminate()
        time.sleep(0.5)
        assert process.poll() is None, "a driver may need it for its last state"
        head.close()
        assert process.wait(_SECONDS) == 0


def test_a_worker_that_has_not_met_its_head_ends_when_it_is_stopped(machine: Machine) -> None:
    _, worker = pods("true", 1, machine.platform)
    with machine.running(worker) as process:
        time.sleep(0.5)
        process.terminate()
        assert process.wait(_SECONDS) in {143, -signal.SIGTERM}
