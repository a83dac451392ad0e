"""The story of the guides with real jobs on this machine: quota, waiting, a high priority, a preemption, the way back.

Run it with ``make demo``. It starts a Fairway of its own in a directory of its own, types what you would type, and
takes everything away again. On a terminal the table of jobs is live; elsewhere every change is a line.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fairway.cli import tables, top
from fairway.cli.jobs.records import Job
from fairway.cli.session import open_session

HERE = Path(__file__).parent
FAIRWAY = Path(sys.executable).with_name("fairway")
PATIENCE_SECONDS = 120.0
BETWEEN_LOOKS = 0.1


class Stage:
    """Where the story is played: a state directory, and a terminal or not."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._screen = tables.screen()
        self._begun = time.monotonic()
        self._environment = {**os.environ, "FAIRWAY_STATE": str(state), "FAIRWAY_PORT": "0"}
        for name in ("FAIRWAY_KUBECONFIG", "FAIRWAY_CONTEXT", "FAIRWAY_NAMESPACE"):
            self._environment.pop(name, None)

    def say(self, text: str) -> None:
        print(f"\n{self._screen.paint(text, 'bold')}", flush=True)

    def types(self, *words: str) -> None:
        """What you would type, and what comes of it."""
        print(self._screen.paint(f"$ fairway {' '.join(words)}", "dim"), flush=True)
        subprocess.run([FAIRWAY, *words], check=True, env=self._environment, cwd=HERE.parent)  # noqa: S603

    def watches(self, done: Callable[[dict[str, Job]], bool]) -> None:
        """The table of jobs, live, until something is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        drawn = 0
        told: dict[str, str] = {}
        with open_session(state=self._state) as session:
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
                    raise SystemExit(f"that took too long; see {self._state / 'server.log'}")
                time.sleep(BETWEEN_LOOKS)

    def _draw(self, seen: top.Snapshot, before: int) -> int:
        """Draw over what was drawn before; how many lines it is now."""
        on = self._screen
        now = datetime.now(UTC)
        lines = top.frame(seen, on.width or 100, None, now, colours=on.colours, unicode=on.unicode).splitlines()
        up = f"\x1b[{before}A" if before else ""
        print(up + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J", flush=True)
        return len(lines)

    def _tell_changes(self, jobs: dict[str, Job], told: dict[str, str]) -> dict[str, str]:
        for name, job in jobs.items():
            if told.get(name) != job.phase:
                print(f"  {time.monotonic() - self._begun:5.1f} s  {name:<8} {job.phase}", flush=True)
        return {name: job.phase for name, job in jobs.items()}


def play(stage: Stage) -> None:
    """The story."""
    stage.say("A Fairway for this machine, and a queue of nine CPUs with two priorities.")
    stage.types("up", "--cpus", "16", "--memory", "64Gi", "--port", "0")
    stage.types("apply", "-f", "examples/queues.yaml")

    stage.say("Two trainings that want six CPUs each. The first one runs, the second one has to wait.")
    stage.types("jobs", "launch", "-y", "-d", "-n", "first", "examples/tasks/train.yaml")
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


def _is_in(jobs: dict[str, Job], name: str, phase: str) -> bool:
    return name in jobs and jobs[name].phase == phase


NEXT = """
To try next, with .venv/bin on your PATH:

  fairway jobs launch 'echo hello'                      a job without a file; the server starts by itself
  fairway jobs launch examples/tasks/gang.yaml          three nodes that start together
  fairway jobs launch examples/tasks/pipeline.yaml      one task after the other
  fairway top                                           jobs and queues, live
  export KUBECONFIG=~/.fairway/kubeconfig               kubectl get managedjobs,workloads,pods
"""


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="fairway-demo-"))
    stage = Stage(directory / "state")
    try:
        play(stage)
    finally:
        stage.types("shutdown", "--jobs")
        shutil.rmtree(directory)
    print(NEXT)


if __name__ == "__main__":
    main()
