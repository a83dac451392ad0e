"""One urgent job costs one job: managed jobs on a real server, preempted, come back, and leave their peers alone."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.fairway import Fairway
from clients.kubectl import Kubectl, find_kubectl
from fairway.testing.servers import Server

EARNED = "fairway.dev/earned-priority"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: all
  namespaceSelector: {{}}
  preemption: {{reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: default-flavor
      resources: [{{name: cpu, nominalQuota: 4}}, {{name: memory, nominalQuota: 64Gi}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: default}}
spec: {{clusterQueue: {name}}}
---
"""


def until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def preemptions(fairway: Fairway) -> dict[str, int]:
    """How often each job was preempted, of those that were."""
    jobs = fairway.json("get", "managedjobs")["items"]
    found = {one["metadata"]["name"]: (one.get("status") or {}).get("preemptions", 0) for one in jobs}
    return {name: count for name, count in found.items() if count}


def phases(fairway: Fairway, phase: str) -> int:
    jobs = fairway.json("get", "managedjobs")["items"]
    return sum((one.get("status") or {}).get("phase") == phase for one in jobs)


def settled(fairway: Fairway) -> None:
    """Nothing more is preempted."""
    before = preemptions(fairway)
    for _ in range(3):
        time.sleep(0.5)
        assert preemptions(fairway) == before


def launch(fairway: Fairway, name: str, count: int = 1, cpus: str = "1", **options: str) -> None:
    further = [word for option, value in options.items() for word in (f"--{option}", value)]
    several = ["--num-jobs", str(count)] if count > 1 else []
    fairway(
        "jobs", "launch", "-d", "-y", "-n", name, "--cpus", cpus, "--memory", "0.01", "--workdir", "none",
        *several, *further, "--", "sleep", "1000",
    )  # fmt: skip


@pytest.mark.parametrize("priority", ["100", "5"])
def test_one_urgent_job_among_forty_preempts_one(tmp_path: Path, priority: str) -> None:
    with Server(tmp_path / "state", "--cpus", "40", "--memory", "64Gi", jobs=True) as server:
        fairway = Fairway(server.state, tmp_path)
        launch(fairway, "sweep", 40)
        until(lambda: phases(fairway, "RUNNING") == 40, "all forty run")
        launch(fairway, "urgent", priority=priority)
        until(lambda: phases(fairway, "RECOVERING") == 1 and phases(fairway, "RUNNING") == 40, "one makes room")
        settled(fairway)

        assert list(preemptions(fairway).values()) == [1]
        victim = next(iter(preemptions(fairway)))
        assert "10 (0+10)" in fairway("jobs", "queue"), "what it has, and of that what aging earned"
        assert "10" in fairway("jobs", "why", victim)
        held = fairway.json("get", "workloads")["items"]
        aged = [one for one in held if EARNED in (one["metadata"].get("annotations") or {})]
        assert [(one["spec"]["priority"], one["metadata"]["annotations"][EARNED]) for one in aged] == [(0, "10")]
        head, *rows = Kubectl(find_kubectl(), server.kubeconfig, tmp_path).table("get managedjobs")
        assert [row[head.index("PRIORITY")] for row in rows if row[0] == victim] == ["10"]


def test_a_queue_takes_back_four_of_eight(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--cpus", "8", "--memory", "64Gi", jobs=True) as server:
        fairway = Fairway(server.state, tmp_path)
        flavors = fairway.json("get", "resourceflavors")["items"]
        text = "".join(QUEUES.format(name=name) for name in ("a", "b"))
        fairway("apply", "-f", "-", given=text.replace("default-flavor", flavors[0]["metadata"]["name"]))
        launch(fairway, "borrower", 8, queue="b")
        until(lambda: phases(fairway, "RUNNING") == 8, "all eight run, four of them on the quota of a")
        launch(fairway, "owner", cpus="4", queue="a")
        until(lambda: phases(fairway, "RECOVERING") == 4 and phases(fairway, "RUNNING") == 5, "four make room")
        settled(fairway)

        assert list(preemptions(fairway).values()) == [1, 1, 1, 1]


def test_a_user_keeps_to_the_range_of_the_queue(tmp_path: Path) -> None:
    """Through the command line and kubectl alike; the refusal says who may change it, `why` advises what is allowed."""
    with Server(tmp_path / "state", "--cpus", "1", "--memory", "8Gi", jobs=True) as server:
        admin = Fairway(server.state, tmp_path)
        written = admin("users", "add", "ben", "--role", "editor", "--namespace", "default", "-o", "kubeconfig")
        (tmp_path / "ben").write_text(written)
        (tmp_path / "ben").chmod(0o600)
        ben = Fairway(tmp_path / "none", tmp_path, {"FAIRWAY_KUBECONFIG": str(tmp_path / "ben")})
        kubectl = Kubectl(find_kubectl(), tmp_path / "ben", tmp_path)
        launch(admin, "runs")
        until(lambda: phases(admin, "RUNNING") == 1, "the administrator's runs")
        admin("jobs", "priority", "runs", "5000")
        launch(ben, "waits")

        code, _, errors = ben.tried("jobs", "priority", "waits", "5001")
        assert code != 0
        for words in ("spec.priority", "5001", "-1000 to 1000", "administrators", "fairway.dev/priority-range"):
            assert words in errors
        patch = '{"spec": {"priority": 5001}}'
        names = [one["metadata"]["name"] for one in ben.json("get", "managedjobs")["items"]]
        name = next(one for one in names if one.startswith("waits"))
        code, _, errors = kubectl.run("patch managedjob --type=merge", name, "-p", patch)
        assert code != 0
        assert "-1000 to 1000" in errors
        assert "aise the priority" not in ben("jobs", "why", "waits")
        assert "aise the priority above 5000" in admin("jobs", "why", "waits")

        queue = admin.json("get", "clusterqueues")["items"][0]["metadata"]["name"]
        admin_kubectl = Kubectl(find_kubectl(), server.kubeconfig, tmp_path)
        admin_kubectl(f"annotate clusterqueue {queue} fairway.dev/priority-range=-10..9000")
        assert "aise the priority above 5000" in ben("jobs", "why", "waits")
        ben("jobs", "priority", "waits", "5001")
        until(lambda: preemptions(admin) != {}, "now it preempts")
