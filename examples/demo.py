"""The story of the guides with real jobs on this machine: quota, waiting, a high priority, a preemption, the way back.

Run it with ``make demo``. It starts a Fairway of its own on a free port and in a directory of its own, types what you
would type, and removes everything again, however it ends. On a terminal the table of jobs is live; elsewhere every
change is a line.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fairway.cli import tables, top
from fairway.cli.jobs.records import JobRow
from fairway.cli.session import open_session
from fairway.settings import DEFAULT_PORT

HERE = Path(__file__).parent
FAIRWAY = Path(sys.executable).with_name("fairway")
PATIENCE_SECONDS = 120.0
BETWEEN_LOOKS = 0.1
GANG_NODES = 3


class Stage:
    """Where the story is played: a state directory, and a terminal or not."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self._screen = tables.screen()
        self._begun = time.monotonic()
        for name in [one for one in os.environ if one.startswith("FAIRWAY_")]:
            del os.environ[name]
        os.environ |= {"HOME": str(directory), "FAIRWAY_STATE": str(self.state), "FAIRWAY_PORT": "0"}

    def say(self, text: str) -> None:
        print(f"\n{self._screen.paint(text, 'bold')}", flush=True)

    def types(self, *words: str) -> None:
        """What you would type, and what comes of it."""
        print(self._screen.paint(f"$ fairway {' '.join(words)}", "dim"), flush=True)
        subprocess.run([FAIRWAY, *words], check=True, cwd=HERE.parent)  # noqa: S603

    def watches(self, done: Callable[[dict[str, JobRow]], bool]) -> None:
        """The table of jobs, live, until something is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        drawn = 0
        told: dict[str, str] = {}
        with open_session(state=self.state) as session:
            while True:
                seen = top.snapshot(session)
                jobs = {job.name: job for job in seen.jobs}
                if self._screen.width is not None:
                    drawn = self._draw(seen, drawn)
                else:
                    told = self._tell_changes(jobs, told)
                if done(jobs):
                    return
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the jobs did not get there in {PATIENCE_SECONDS:.0f} s")
                time.sleep(BETWEEN_LOOKS)

    def ends(self) -> None:
        """End the server and all jobs."""
        if self.state.exists():
            self.types("shutdown", "--jobs")

    def last_words(self) -> str:
        """What the server said last, for when something went wrong: its log is removed with everything else."""
        log = self.state / "server.log"
        return "".join(log.open(errors="replace").readlines()[-20:]) if log.exists() else ""

    def _draw(self, seen: top.TopSnapshot, before: int) -> int:
        """Draw over what was drawn before; how many lines it is now."""
        on = self._screen
        now = datetime.now(UTC)
        lines = top.frame(seen, on.width or 100, None, now, colours=on.colours, unicode=on.unicode).splitlines()
        up = f"\x1b[{before}A" if before else ""
        print(up + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J", flush=True)
        return len(lines)

    def _tell_changes(self, jobs: dict[str, JobRow], told: dict[str, str]) -> dict[str, str]:
        for name, job in jobs.items():
            if told.get(name) != job.phase:
                print(f"  {time.monotonic() - self._begun:5.1f} s  {name:<8} {job.phase}", flush=True)
        return {name: job.phase for name, job in jobs.items()}


def play(stage: Stage) -> None:
    """The story."""
    stage.say(
        "A Fairway that may use sixteen CPUs, whether they are there or not, and a queue of nine with two priorities."
    )
    stage.types("up", "--cpus", "16", "--memory", "64Gi", "--port", "0")
    stage.types("apply", "-f", "examples/queues.yaml")

    stage.say("Two trainings that want six CPUs each. The first one runs, the second one has to wait.")
    stage.types("jobs", "launch", "-y", "-d", "-n", "first", "--env", "STEPS=14", "examples/tasks/train.yaml")
    stage.types("jobs", "launch", "-y", "-d", "-n", "second", "--env", "STEPS=3", "examples/tasks/train.yaml")
    stage.watches(lambda jobs: _is_in(jobs, "first", "RUNNING") and jobs["first"].ran_for(datetime.now(UTC)) > 3)
    stage.types("jobs", "why", "2")

    stage.say("Something urgent: it takes the first one's place at once. That one will come back by itself.")
    stage.types("jobs", "launch", "-y", "-d", "examples/tasks/urgent.yaml")
    stage.watches(lambda jobs: _is_in(jobs, "urgent", "SUCCEEDED") and _is_in(jobs, "first", "RUNNING"))

    stage.say("It is back, at its old place in the queue and with a little more priority, where its checkpoint was.")
    stage.watches(lambda jobs: all(_is_in(jobs, name, "SUCCEEDED") for name in ("first", "second", "urgent")))
    stage.types("jobs", "queue")
    stage.say("What the first one wrote, both times:")
    stage.types("jobs", "logs", "1", "--attempt", "all", "--no-follow")


def _is_in(jobs: dict[str, JobRow], name: str, phase: str) -> bool:
    return name in jobs and jobs[name].phase == phase


def to_try_next(cpus: int, *, kubectl: bool, port_is_taken: bool) -> list[tuple[str, str]]:
    """Commands that work on this machine, each with what it shows."""
    short = "" if cpus >= 2 * GANG_NODES else f"--cpus {0.5 if cpus > 1 else 0.3} "
    train = "--cpus 1 " if cpus < 2 else ""
    return [
        (f"alias fairway={FAIRWAY}", "so that it can be called by its name"),
        *([("export FAIRWAY_PORT=0", f"port {DEFAULT_PORT} is taken here")] if port_is_taken else ()),
        ("fairway jobs launch 'echo hello'", "a job without a file; the server starts by itself"),
        (f"fairway jobs launch {train}examples/train.yaml", "a training that could be preempted"),
        (f"fairway jobs launch {short}examples/tasks/gang.yaml", "three nodes that start together"),
        (f"fairway jobs launch {train}examples/tasks/pipeline.yaml", "one task after the other"),
        ("fairway top --once", "jobs and queues; without --once, live"),
        ("kubectl --kubeconfig ~/.fairway/kubeconfig get managedjobs,workloads", "the same, as Kubernetes sees it")
        if kubectl
        else ("fairway get managedjobs,workloads", "the same, as Kubernetes sees it"),
        ("fairway shutdown", "when you are done; `rm -r ~/.fairway` removes all it kept"),
    ]


def _is_taken(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _interrupted(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    kubectl, home = shutil.which("kubectl") is not None, Path.home()
    directory = Path(tempfile.mkdtemp(prefix="fairway-demo-"))
    stage = Stage(directory)
    try:
        play(stage)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{stage.last_words()}The demo failed: {error}") from None
    finally:
        stage.ends()
        shutil.rmtree(directory)
    running = (home / ".fairway" / "kubeconfig").exists()
    lines = to_try_next(os.cpu_count() or 1, kubectl=kubectl, port_is_taken=not running and _is_taken(DEFAULT_PORT))
    width = max(len(command) for command, _ in lines)
    print("\nTo try next, from this directory:\n")
    print("\n".join(f"  {command:<{width}}   {meaning}" for command, meaning in lines))


if __name__ == "__main__":
    main()
