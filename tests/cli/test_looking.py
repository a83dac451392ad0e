"""`jobs queue`, `jobs why`, `queues` and `top` on a server that runs jobs, from submit to preemption."""

from collections.abc import Iterator

import pytest

from fairway.cli import session
from fairway.client.rest import open_rest, paths
from fairway.testing.servers import Server

from .looking import Here


def submit(server: Server, name: str, cpus: int, **spec: object) -> None:
    task = {"run": "exec sleep 1000", "resources": {"cpus": cpus}}
    manifest = {
        "metadata": {"generateName": f"{name}-"},
        "spec": {"name": name, "user": "ana", "tasks": [task], **spec},
    }
    answer = server.call("POST", paths.jobs("default"), manifest)
    assert answer.code == 201, answer


def until(server: Server, **phases: str) -> None:
    """Return when the jobs stand there."""
    missing = dict(phases)
    with open_rest(server.kubeconfig) as rest:
        for event in rest.watch(paths.jobs("default")):
            name = event["object"]["spec"]["name"]
            status = event["object"].get("status") or {}
            if status.get("phase") == missing.get(name) and status.get("workload"):
                del missing[name]
            if not missing:
                return
    raise AssertionError(missing)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One job runs that was preempted before, one came in between, two wait, one of them for ever."""
    with Server(tmp_path_factory.mktemp("looking") / "state", "--cpus", "9", "--gpus", "0", jobs=True) as server:
        submit(server, "low", 6)
        until(server, low="RUNNING")
        submit(server, "high", 6, priority=500)
        until(server, low="RECOVERING", high="RUNNING")
        submit(server, "huge", 20)
        submit(server, "bobs", 1, user="bob")
        until(server, huge="PENDING", bobs="RUNNING")
        _counted(server, running=2, pending=2)
        yield server


def _counted(server: Server, **counts: int) -> None:
    """Return when the ClusterQueue says so itself, which is a moment after the jobs do."""
    with open_rest(server.kubeconfig) as rest:
        for event in rest.watch(paths.resource("kueue.x-k8s.io/v1beta2", "clusterqueues")):
            status = event["object"].get("status") or {}
            found = {"running": status.get("reservingWorkloads"), "pending": status.get("pendingWorkloads")}
            if found == counts:
                return
    raise AssertionError(counts)


@pytest.fixture
def fairway(server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setattr(session, "system_user", lambda: "ana")
    return Here(server.state, capsys)


def test_the_queue(fairway: Here) -> None:
    code, output, errors = fairway.tried("jobs", "queue")

    assert (code, errors) == (0, "1 job of other users not shown; -u shows them.\n")
    header, *lines = output.splitlines()
    titles = "ID NAME USER QUEUE PRIORITY POS REQUESTED SUBMITTED WAITED RAN RECOVERIES STATUS WHY"
    assert " ".join(header.split()) == titles
    assert [line.split()[1] for line in lines] == ["high", "low", "huge"]
    assert "10 (0+10)" in lines[1]
    assert lines[1].endswith("RECOVERING  needs 6 CPUs, 2 free in default-flavor")
    assert "can never run: " in lines[2]
    assert "\x1b" not in output


def test_the_queue_of_everybody_and_by_name(fairway: Here) -> None:
    assert [one["name"] for one in fairway.json("jobs", "queue", "-u")] == ["high", "bobs", "low", "huge"]
    assert [one["name"] for one in fairway.json("job", "status", "2", "bobs")] == ["high", "bobs"]
    assert [one["name"] for one in fairway.json("jobs", "queue", "-s", "running,pending")] == ["high", "huge"]
    assert "there is no job 'nobody'" in fairway.refused("jobs", "queue", "nobody")
    assert "there is no status ENDED" in fairway.refused("jobs", "queue", "-s", "ended", code=2)
    assert fairway("jobs", "queue", "-s", "FAILED") == "No such jobs.\n"


def test_positions_and_clocks_for_scripts(fairway: Here) -> None:
    found = {one["name"]: one for one in fairway.json("jobs", "queue")}

    assert (found["low"]["position"], found["huge"]["position"], found["high"]["position"]) == (1, 2, None)
    assert (found["low"]["priority"], found["low"]["priorityRaisedBy"], found["low"]["recoveries"]) == (10, 10, 1)
    assert found["huge"]["canEverRun"] is False
    assert found["high"]["queue"] == "default"
    assert found["high"]["waitedSeconds"] >= 0


def test_why_it_waits(fairway: Here) -> None:
    said = fairway("jobs", "why", "low")

    assert "to run again in queue default (ClusterQueue cluster-queue), next in line." in said
    assert "with priority 10: 0, plus 10 for 1 preemption." in said
    assert "  4 cpu of 6 in flavor default-flavor\n" in said
    assert "    job high-2 holds 6 cpu (priority 500, ClusterQueue cluster-queue)\n" in said
    assert "priority 0; preempted by ManagedJob high-2 with priority 500\n" in said


def test_why_of_several_and_for_scripts(fairway: Here) -> None:
    running, huge = fairway.json("jobs", "why", "2", "huge")

    assert (running["waiting"], huge["waiting"]["canEverRun"]) == (None, False)
    assert huge["story"][2] == "It can never run with the current nodes and quotas."
    assert running["attempts"][0]["attempt"] == 1


def test_queues(fairway: Here) -> None:
    header, cpu, *_ = fairway("queues").splitlines()

    assert header.split()[:4] == ["CLUSTERQUEUE", "COHORT", "RUNNING", "PENDING"]
    assert cpu.split()[:6] == ["cluster-queue", "-", "2", "2", "default-flavor", "cpu"]
    assert cpu.split()[-3:] == ["7", "9", "-"]
    assert "default    default     cluster-queue" in fairway("queues", "-v")
    found = fairway.json("queues", "cluster-queue")
    assert found["clusterQueues"][0]["pools"][0]["used"] == 7
    assert [one["name"] for one in found["localQueues"]] == ["default"]
    assert "there is no ClusterQueue 'nothing'; there are cluster-queue" in fairway.refused("queues", "nothing", code=2)


def test_one_picture(fairway: Here) -> None:
    lines = fairway("top", "--once").splitlines()

    assert "2 running, 1 recovering, 1 pending" in lines[0]
    assert "9 cpu" in lines[1]
    assert "cpu █████████▎░░ 7/9" in lines[3]
    assert [line.split()[1] for line in lines[6:]] == ["high", "bobs", "low", "huge"]
    assert "bobs" not in fairway("top", "--once", "--mine")
