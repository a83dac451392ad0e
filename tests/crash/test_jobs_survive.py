"""Jobs through the deaths of the server, and of the machine: none is lost, none runs twice, none is left behind.

    FAIRWAY_JOBS=2000 FAIRWAY_KILLS=50 pytest tests/crash    # for longer than the test suite has time

Every attempt notes in a file when it began and when it ended, under the name of its pod and the number of its start, so
that the files tell what really ran, whatever the API says.
"""

import http.client
import json
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from fairway.controllers.batchjob.observe import STOPPED
from fairway.testing.servers import Server

JOBS = int(os.environ.get("FAIRWAY_JOBS", "500"))
KILLS = int(os.environ.get("FAIRWAY_KILLS", "8"))
PATH = "/apis/batch/v1/namespaces/default/jobs"
PATIENCE_SECONDS = 120.0

SCRIPT = """
told=
trap 'told=1' TERM
trap '[ -z "$told" ] || echo "told $POD $FAIRWAY_PROCESS" >> "$1"' EXIT
echo "began $POD $FAIRWAY_PROCESS" >> "$1"
sleep "$2" & wait $!
[ -z "$told" ] || exit 143
echo "ended $POD $FAIRWAY_PROCESS" >> "$1"
"""
"""An attempt that is told to stop says so last: one that ended in that very moment is tried again all the same. Told
later still, on its way out, it cannot say so any more; then its pod does (`told_in_the_end`)."""


class Api:
    """A kept connection to the server that is running now."""

    def __init__(self, server: Server) -> None:
        target = urlsplit(server.url)
        self._connection = http.client.HTTPConnection(target.netloc, timeout=30)
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def submit(self, manifest: dict[str, Any]) -> None:
        self._connection.request("POST", PATH, json.dumps(manifest), self._headers)
        answer = self._connection.getresponse()
        answered = answer.read()
        assert answer.status == 201, answered

    def close(self) -> None:
        self._connection.close()


def job(name: str, notes: Path, cpus: int, priority: str, seconds: float, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", SCRIPT, "job", str(notes / name), f"{seconds:.2f}"],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": str(cpus)}},
    }
    labels = {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/priority-class": priority}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {**spec, "template": {"spec": pod}}}


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def make_classes(server: Server) -> None:
    for name, value in (("low", 1), ("middle", 10), ("high", 100)):
        path = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
        assert server.call("POST", path, priority_class(name, value)).code == 201


def ended_jobs(server: Server) -> dict[str, str]:
    """What has come to an end, and how."""
    code, listed = server.call("GET", PATH)
    assert code == 200
    found = {}
    for one in listed["items"]:
        for condition in one["status"].get("conditions", ()):
            if condition["status"] == "True" and condition["type"] in {"Complete", "Failed"}:
                found[one["metadata"]["name"]] = condition["type"]
    return found


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:.0f} s: {what}"
        time.sleep(0.05)


def notes_of(notes: Path) -> list[list[str]]:
    """All that attempts noted: `began` or `ended`, pod, process, and the job."""
    return [[*line.split(), file.name] for file in notes.iterdir() for line in file.read_text().splitlines()]


def told_in_the_end(state: Path) -> set[str]:
    """The pods that were told to go before they had ended, and ended well: the history of a stopped server says it."""
    with closing(sqlite3.connect(state / "fairway.db")) as history:
        states = history.execute("SELECT name, data FROM revisions WHERE resource = 'pods'").fetchall()
    return {name for name, data in states if (json.loads(data).get("status") or {}).get("reason") == STOPPED}


def processes_of(state: Path) -> list[int]:
    """The processes of jobs of this state directory: they carry their identity, and work in a directory beneath it."""
    found = []
    for process in psutil.process_iter():
        try:
            environment, directory = process.environ(), Path(process.cwd())
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if "FAIRWAY_PROCESS" in environment and directory.is_relative_to(state / "work"):
            found.append(process.pid)
    return found


def test_no_job_is_lost_and_none_runs_twice_whenever_the_server_dies(tmp_path: Path) -> None:
    chance = random.Random(5)  # noqa: S311 - the same mixture every time
    notes = tmp_path / "notes"
    notes.mkdir()
    server = Server(tmp_path / "state", "--insecure", "--cpus", "8", jobs=True).start()
    submitted = 0
    try:
        make_classes(server)
        for kill in range(KILLS + 1):
            last = JOBS if kill == KILLS else JOBS * (kill + 1) // (KILLS + 1)
            with closing(Api(server)) as api:
                while submitted < last:
                    priority = chance.choice(["low", "low", "middle", "high"])
                    seconds = chance.random() * 0.2
                    api.submit(job(f"job-{submitted}", notes, chance.randint(1, 4), priority, seconds))
                    submitted += 1
            if kill < KILLS:
                time.sleep(chance.random() * 0.5)  # the moment of death: any will do
                server.kill()
                server.start()
                server.restart_killed_controller()
        wait_until(lambda: len(ended_jobs(server)) == JOBS, "all jobs end")
        assert Counter(ended_jobs(server).values()) == {"Complete": JOBS}
    finally:
        server.stop()
        server.end_jobs()
    noted = notes_of(notes)
    attempts = Counter((what, process) for what, _, process, _ in noted)
    assert max(attempts.values()) == 1, "an attempt ran twice"
    told = {pod for what, pod, _, _ in noted if what == "told"} | told_in_the_end(server.state)
    ends = Counter(name for what, pod, _, name in noted if what == "ended" and pod not in told)
    assert ends == {f"job-{number}": 1 for number in range(JOBS)}, "a job came to its end not once"
    assert told, "nobody was preempted: the mixture proves nothing"
    wait_until(lambda: not processes_of(server.state), "no process is left behind")


def test_running_processes_are_found_again(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    server = Server(tmp_path / "state", "--insecure", "--cpus", "8", jobs=True).start()
    try:
        make_classes(server)
        for number in range(4):
            assert server.call("POST", PATH, job(f"long-{number}", notes, 1, "low", 2.0)).code == 201
        wait_until(lambda: len(notes_of(notes)) == 4, "all begin")
        for _ in range(3):
            server.kill()
            server.start()
            server.restart_killed_controller()
        wait_until(lambda: len(ended_jobs(server)) == 4, "all end")
        assert set(ended_jobs(server).values()) == {"Complete"}
        assert Counter(what for what, *_ in notes_of(notes)) == {"began": 4, "ended": 4}
    finally:
        server.stop()
        server.end_jobs()


def test_what_died_with_the_machine_is_lost_and_tried_again_where_it_may(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    server = Server(tmp_path / "state", "--insecure", "--cpus", "8", jobs=True).start()
    try:
        make_classes(server)
        for number in range(3):
            body = job(f"lost-{number}", notes, 2, "low", 1.0, backoffLimit=0)
            assert server.call("POST", PATH, body).code == 201
        wait_until(lambda: len(notes_of(notes)) == 3, "all begin")
        server.kill()
        for pid in [*supervisors_of(server.state), *processes_of(server.state)]:
            psutil.Process(pid).kill()
        wait_until(lambda: not processes_of(server.state), "the machine is dead")
        server.start()
        wait_until(lambda: len(ended_jobs(server)) == 3, "all end")
        assert set(ended_jobs(server).values()) == {"Complete"}, "a lost attempt is not the job's fault"
        assert Counter(what for what, *_ in notes_of(notes)) == {"began": 6, "ended": 3}
    finally:
        server.stop()
        server.end_jobs()


def supervisors_of(state: Path) -> list[int]:
    """The supervisor of a state directory."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if any("supervis" in word for word in line) and any(str(state) in word for word in line):
            found.append(process.pid)
    return found
