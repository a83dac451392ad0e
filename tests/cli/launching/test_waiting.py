"""`fairway jobs wait`, the top-level names of job commands, and what `jobs queue` and `cancel -a` leave out."""

import os
import time
from pathlib import Path

import pytest

from fairway.testing.servers import Server

from .conftest import Commands, masked, until

SLEEP = "exec sleep 1000"


def test_all_succeeded(fairway: Commands) -> None:
    first, second = fairway.submitted("-n", "one", "true"), fairway.submitted("-n", "two", "sleep 0.3")

    said = fairway.run("jobs", "wait", f"{first}-{second}")

    assert said.code == 0
    assert sorted(said.output.splitlines()) == [
        f"Job {first} (one) ended: SUCCEEDED",
        f"Job {second} (two) ended: SUCCEEDED",
    ]


@pytest.mark.parametrize("how", ["failed", "cancelled", "deleted"])
def test_not_all_succeeded(fairway: Commands, how: str) -> None:
    good = fairway.submitted("true")
    bad = fairway.submitted("exit 7" if how == "failed" else SLEEP)
    with fairway.process("jobs", "wait", str(good), str(bad)) as waiting:
        waiting.reads(f"Job {good} (job) ended: SUCCEEDED")
        if how == "cancelled":
            fairway("jobs", "cancel", "-y", str(bad))
        if how == "deleted":
            fairway("down", "-y", str(bad))
        said, code = waiting.rest()

    assert code == 4
    if how == "failed":
        assert f"Job {bad} (job) ended: FAILED" in said
    assert fairway.run("jobs", "wait", str(good)).code == 0, "one that has ended before"


def test_the_timeout_has_an_exit_code_of_its_own(fairway: Commands) -> None:
    number = fairway.submitted("-n", "long", SLEEP)
    fairway.until(number, "RUNNING")

    said = fairway.run("jobs", "wait", str(number), "--timeout", "0.5s")
    listed = fairway.run("jobs", "wait", str(number), "--timeout", "0.2", "-o", "json")

    assert (said.code, said.output) == (124, "")
    assert said.errors.endswith(f"error: job {number} (long) has not ended within 0.5 s: 1 RUNNING\n")
    assert (listed.code, '"status": "RUNNING"' in listed.output) == (124, True)
    assert "is not a time" in fairway.refused("jobs", "wait", str(number), "--timeout", "soon", code=2)
    fairway("jobs", "cancel", "-y", str(number))


def test_as_json_the_jobs_come_once(fairway: Commands) -> None:
    numbers = [fairway.submitted("true"), fairway.submitted("true")]

    assert [one["status"] for one in fairway.json("jobs", "wait", *map(str, numbers))] == ["SUCCEEDED", "SUCCEEDED"]


def test_nothing_is_polled(fairway: Commands, tmp_path: Path) -> None:
    number = fairway.submitted("sleep 1.5")
    log = fairway.server.state / "audit.log"
    before = log.stat().st_size if log.exists() else 0

    started = time.process_time()
    assert fairway.run("jobs", "wait", str(number)).code == 0

    assert time.process_time() - started < 0.5
    if log.exists():
        with log.open("rb") as file:
            file.seek(before)
            assert file.read().count(b'"resource":"managedjobs","verb":"get"') < 5


def test_a_restart_of_the_server_is_waited_for(fairway: Commands, server: Server) -> None:
    number = fairway.submitted("sleep 2")
    fairway.until(number, "RUNNING")
    with fairway.process("jobs", "wait", str(number)) as waiting:
        waiting.reads("Waiting for")
        server.stop()
        server.start()
        said, code = waiting.rest()

    assert (code, f"Job {number} (job) ended: SUCCEEDED" in said) == (0, True), said


@pytest.mark.parametrize(
    "verb", ["queue", "ls", "why", "logs", "wait", "cancel", "hold", "release", "retry", "priority"]
)
def test_the_commands_of_jobs_work_without_the_word(fairway: Commands, verb: str) -> None:
    number = fairway.submitted("-n", "short", "echo hello")
    fairway("wait", str(number))
    words = [verb, str(number), *(["5"] if verb == "priority" else [])]

    short, long = fairway.run(*words), fairway.run("jobs", *words)

    if verb == "retry":
        assert short.output == f"Job {number} (short) queued again.\n"
        return
    assert (short.code, masked(short.output)) == (long.code, masked(long.output))
    assert "there is no command" not in short.errors


def test_the_log_of_a_pod_is_read_as_that_of_a_job(fairway: Commands) -> None:
    container = {"name": "main", "image": "none", "command": ["echo", "of a pod"]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pods = "/api/v1/namespaces/default/pods"
    assert fairway.server.call("POST", pods, {"metadata": {"name": "lonely"}, "spec": spec}).code == 201
    until(lambda: fairway.server.call("GET", f"{pods}/lonely").body["status"]["phase"] == "Succeeded")

    assert fairway("logs", "pod/lonely") == "of a pod\n"
    assert fairway("jobs", "logs", "lonely", "--no-follow", "-c", "main") == "of a pod\n"
    assert fairway.refused("logs", "pod/none") == 'error: pods "none" not found'
    assert "there is no job 'none'" in fairway.refused("logs", "none")
    assert "--attempt, --task and --rank are for jobs" in fairway.refused("logs", "pod/lonely", "--rank", "0", code=2)
    assert "name a job by its id or name" in fairway.refused("logs", "cron/x", code=2)


def test_the_queue_lists_live_jobs_and_counts_the_ended(fairway: Commands) -> None:
    fairway("jobs", "cancel", "-u", "-y", "-A")
    good, bad = fairway.submitted("-n", "good", "true"), fairway.submitted("-n", "bad", "false")
    fairway.run("jobs", "wait", str(good), str(bad))
    live = fairway.submitted("-n", "live", SLEEP)

    said = fairway.run("jobs", "queue")

    assert [line.split()[1] for line in said.output.splitlines()[1:]] == ["live"]
    line = said.errors.splitlines()[-1]
    assert "SUCCEEDED" in line
    assert f"; the last was {bad} (bad), FAILED" in line or f"; the last was {good} (good), SUCCEEDED" in line
    assert line.endswith(" ago. -a lists them.")
    assert {good, bad, live} <= {one["id"] for one in fairway.json("queue", "-a")}
    assert [one["id"] for one in fairway.json("queue")] == [live]
    assert len(fairway.json("queue", "-l", "1")) == 2
    assert bad in {one["id"] for one in fairway.json("queue", "-s", "FAILED")}
    assert "ended" not in fairway.run("queue", "--skip-finished").errors
    fairway("jobs", "cancel", "-y", str(live))
    assert fairway.run("queue").output == "No running or waiting jobs.\n"


def test_amounts_are_numbers_for_programs(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(
        "num_nodes: 2\nresources: {cpus: 0.5+, memory: 512MB, accelerators: {T4: 4}}\nrun: 'true'\n"
    )
    number = fairway.submitted("task.yaml")

    (job,) = fairway.json("queue", str(number))
    assert job["requests"] == {"nodes": 2, "cpus": 0.5, "memoryGi": 0.5, "accelerators": {"T4": 4}}
    assert job["requested"] == "2x(0.5 cpu, 0.5Gi, T4:4)"
    pools = fairway.json("queues")["clusterQueues"][0]["pools"]
    assert {one["resource"]: one["unit"] for one in pools}["memory"] == "Gi"
    assert all(isinstance(one[name], int | float) for one in pools for name in ("quota", "used", "borrowed"))
    fairway("jobs", "cancel", "-y", str(number))


def test_cancelling_all_says_what_it_leaves_in_other_namespaces(fairway: Commands, server: Server) -> None:
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "aside"}})
    queue = {"metadata": {"name": "default"}, "spec": {"clusterQueue": "cluster-queue"}}
    server.call("POST", "/apis/kueue.x-k8s.io/v1beta2/namespaces/aside/localqueues", queue)
    fairway.run("cancel", "-a", "-A", "-y")
    here = fairway.submitted(SLEEP)
    fairway.submitted("--namespace", "aside", SLEEP)

    said = fairway.run("cancel", "-a", "-y")
    assert str(here) in said.output
    assert said.errors == "1 of your jobs in other namespaces is not affected (aside: 1); -A includes it.\n"
    assert fairway.run("cancel", "-a", "-y").errors == said.errors
    said = fairway.run("cancel", "-a", "-A", "-y")
    assert (masked(said.output), said.errors) == ("Job N (job) cancelled.\n", "")


def test_a_terminal_of_80_columns_has_room_for_the_reason(fairway: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairway.cli.tables import Screen  # noqa: PLC0415

    fairway("cancel", "-u", "-y")
    first = fairway.submitted("-n", "a-name-that-is-much-longer-than-others", "--cpus", "4", "--priority", "9", SLEEP)
    fairway.until(first, "RUNNING")
    second = fairway.submitted(
        "-n", "another-name-that-is-longer-than-the-column", "--cpus", "3", "--memory", "0.5", SLEEP
    )
    until(lambda: fairway.json("queue", str(second))[0]["why"])
    monkeypatch.setattr("fairway.cli.tables.screen", lambda *_: Screen(width=80))

    lines = fairway("queue").splitlines()

    assert max(map(len, lines)) <= 80
    assert "needs 3 CPUs, 0 free in default-flavor" in lines[2]
    fairway("cancel", "-u", "-y")


def test_output_that_nobody_reads_ends_quietly(fairway: Commands) -> None:
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "fairway.cli.main", "queue", "-a"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)

    assert (done.returncode, b"Traceback" in done.stderr) == (141, False)
