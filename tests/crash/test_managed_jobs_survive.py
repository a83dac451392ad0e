"""Managed jobs through the deaths of the server: each ends as it should, none twice, none is forgotten.

    FAIRWAY_MANAGED_JOBS=2000 FAIRWAY_KILLS=50 pytest tests/crash/test_managed_jobs_survive.py

As with plain jobs, every attempt notes in a file when it began and how it ended; the files tell what really ran.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fairway.testing.servers import Server

from .test_jobs_survive import make_classes, processes_of, wait_until

JOBS = int(os.environ.get("FAIRWAY_MANAGED_JOBS", "200"))
KILLS = int(os.environ.get("FAIRWAY_KILLS", "6"))
PATH = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"
LIVE = ("PENDING", "STARTING", "RUNNING", "RECOVERING", "CANCELLING")

SCRIPT = """
told=
note() { echo "$1 $FAIRWAY_ATTEMPT $FAIRWAY_PROCESS" >> "$NOTES"; }
trap 'told=1' TERM
trap '[ -z "$told" ] || note told' EXIT
note began
sleep "$SECONDS_TO_RUN" & wait $!
[ -z "$told" ] || exit 143
if [ -n "$STUMBLES" ] && [ ! -e "$FAIRWAY_CHECKPOINT_DIR/stumbled" ]; then
  touch "$FAIRWAY_CHECKPOINT_DIR/stumbled"
  note stumbled
  exit 3
fi
note ended
exit "$EXIT_CODE"
"""

WAYS = {
    "plain": {},
    "stumbling": {"STUMBLES": "yes"},
    "failing": {"EXIT_CODE": "7"},
    "endless": {"SECONDS_TO_RUN": "1000"},
    "launched": {},
}
"""What the variables of each sort of job are, besides the usual."""

EXPECTED = {
    "plain": {("SUCCEEDED", "")},
    "stumbling": {("SUCCEEDED", "")},
    "failing": {("FAILED", "")},
    "endless": {("CANCELLED", "")},
    "launched": {("SUCCEEDED", ""), ("FAILED", "Preempted")},
}


def managed_job(way: str, number: int, notes: Path, chance: random.Random) -> dict[str, Any]:
    variables = {"NOTES": str(notes / f"{way}-{number}"), "STUMBLES": "", "EXIT_CODE": "0"}
    variables["SECONDS_TO_RUN"] = f"{chance.random() * 0.2:.2f}"
    priority = chance.choice(["low", "low", "middle", "high"])
    task = {
        "run": SCRIPT,
        "envs": variables | WAYS[way],
        "resources": {
            "cpus": chance.randint(1, 4),
            "job_recovery": {"max_restarts_on_errors": 2 if way == "stumbling" else 0},
            "labels": {"kueue.x-k8s.io/priority-class": priority},
        },
    }
    spec: dict[str, Any] = {"name": f"{way}-{number}", "tasks": [task]}
    if way == "launched":
        spec["recover"] = False
    return {"metadata": {"generateName": f"{way}-{number}-"}, "spec": spec}


def all_jobs(server: Server) -> list[dict[str, Any]]:
    code, listed = server.call("GET", PATH)
    assert code == 200
    found: list[dict[str, Any]] = listed["items"]
    return found


def way_of(job: dict[str, Any]) -> str:
    way: str = job["spec"]["name"].partition("-")[0]
    return way


def left(server: Server) -> list[str]:
    """Those that have not ended."""
    return [job["metadata"]["name"] for job in all_jobs(server) if job["status"]["phase"] in LIVE]


def cancel_all_endless(server: Server) -> None:
    for job in all_jobs(server):
        if way_of(job) == "endless":
            path = f"{PATH}/{job['metadata']['name']}"
            body = {"spec": {"cancel": True}}
            assert server.call("PATCH", path, body, content_type="application/merge-patch+json").code == 200


def submit_until(server: Server, last: int, submitted: int, notes: Path, chance: random.Random) -> int:
    while submitted < last:
        way = chance.choices([*WAYS], [10, 3, 3, 2, 3])[0]
        answer = server.call("POST", PATH, managed_job(way, submitted, notes, chance))
        assert answer.code == 201, answer.body
        submitted += 1
    return submitted


def test_every_managed_job_ends_as_it_should_whenever_the_server_dies(tmp_path: Path) -> None:
    chance = random.Random(6)  # noqa: S311 - the same mixture every time
    notes = tmp_path / "notes"
    notes.mkdir()
    server = Server(tmp_path / "state", "--insecure", "--cpus", "8", jobs=True).start()
    submitted = 0
    try:
        make_classes(server)
        for kill in range(KILLS):
            submitted = submit_until(server, JOBS * (kill + 1) // KILLS, submitted, notes, chance)
            time.sleep(chance.random() * 0.5)  # the moment of death: any will do
            server.kill()
            server.start()
            cancel_all_endless(server)
            server.restart_killed_controller()
            time.sleep(chance.random() * 0.2)  # the same in the middle of what was just asked for
            server.kill()
            server.start()
        wait_until(lambda: not left(server), f"all jobs end; left: {left(server)}")
        ended = all_jobs(server)
        wait_until(lambda: not server.call("GET", "/api/v1/namespaces/default/pods").body["items"], "no pod is left")
    finally:
        server.stop()
        server.end_jobs()

    assert len(ended) == JOBS
    assert sorted(job["spec"]["id"] for job in ended) == list(range(1, JOBS + 1))
    for job in ended:
        reason = job["status"].get("reason", "") if way_of(job) == "launched" else ""
        outcome = (job["status"]["phase"], reason if job["status"]["phase"] == "FAILED" else "")
        assert outcome in EXPECTED[way_of(job)], job
    _check_what_ran(notes, ended)
    wait_until(lambda: not processes_of(server.state), "no process is left behind")


def _check_what_ran(notes: Path, ended: list[dict[str, Any]]) -> None:
    """What the attempts themselves noted, against what the API says of their jobs."""
    somebody_was_told, unnoticed = False, 0
    for job in ended:
        file = notes / job["spec"]["name"]
        noted = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        times = Counter((what, process) for what, _, process in noted)
        assert max(times.values(), default=1) == 1, f"an attempt of {file.name} ran twice: {noted}"
        told = {process for what, _, process in noted if what == "told"}
        somebody_was_told = somebody_was_told or bool(told)
        # Told to stop when it had looked for the last time: it says that it ended, and is tried again all the same.
        late = {process for what, _, process in noted if what == "ended" and _was_preempted(job, process)} - told
        unnoticed += len(late)
        told |= late
        numbers = [int(number) for what, number, _ in noted if what == "began"]
        assert numbers == sorted(set(numbers)), f"attempts of {file.name} go up: {noted}"
        ends = sum(what == "ended" and process not in told for what, _, process in noted)
        came_to_its_end = job["status"]["phase"] == "SUCCEEDED" or way_of(job) == "failing"
        assert ends == came_to_its_end, f"{file.name} is {job['status']['phase']} and came to its end {ends} times"
    assert somebody_was_told, "nobody was preempted: the mixture proves nothing"
    assert unnoticed <= max(2, JOBS // 50), "a shell's last moment is short: these were done, and ran again"


def _was_preempted(job: dict[str, Any], process: str) -> bool:
    """Whether the attempt that a process belongs to was preempted, as the API has it."""
    uid = process.partition("/")[0]
    return any(
        one.get("outcome") == "Preempted" and any(pod.get("uid") == uid for pod in one.get("pods", ()))
        for one in job["status"].get("attempts", ())
    )
