"""Guide 000: a quota of nine CPUs, jobs of six that wait for each other, then priorities and a preemption."""

import re
from pathlib import Path

from clients.kubectl import Kubectl

from .playing import WAIT, pod

CONFIGURATION = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
    "data": {
        "controller_manager_config.yaml": (Path(__file__).parent / "data/controller_manager_config.yaml").read_text()
    },
}

QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: "default-flavor"
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: "cluster-queue"
spec:
  namespaceSelector: {}
  preemption:
    withinClusterQueue: LowerPriority
  resourceGroups:
  - coveredResources: ["cpu", "memory", "nvidia.com/gpu"]
    flavors:
    - name: "default-flavor"
      resources:
      - name: "cpu"
        nominalQuota: 9
      - name: "memory"
        nominalQuota: 36Gi
      - name: "nvidia.com/gpu"
        nominalQuota: 8
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata:
  namespace: "default"
  name: "user-queue"
spec:
  clusterQueue: "cluster-queue"
"""

PRIORITIES = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata:
  name: high-priority
value: 1000
description: "High priority"
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata:
  name: low-priority
value: 100
description: "Low priority"
"""

SIX_CPUS = {"cpu": "6"}


def test_the_second_job_waits_until_the_first_is_done(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply --server-side -f -", given=CONFIGURATION)
    kubectl("apply -f -", given=QUEUES)

    kubectl("create -f -", given=pod("job1-2ea4-head", "user-queue", SIX_CPUS, [*WAIT, str(tmp_path / "go")]))
    kubectl("wait --for=condition=Ready pod/job1-2ea4-head --timeout=20s")
    kubectl("create -f -", given=pod("job2-2ea4-head", "user-queue", SIX_CPUS, ["/bin/echo", "hello"]))

    head, first, second = kubectl.table("get workloads -o wide")
    assert head[:5] == ["NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED"]
    assert re.fullmatch(r"pod-job1-2ea4-head-[0-9a-f]{5}", first[0])
    assert first[1:4] == ["user-queue", "cluster-queue", "True"]
    assert re.fullmatch(r"pod-job2-2ea4-head-[0-9a-f]{5}", second[0])
    assert second[1:4] == ["user-queue", "", ""]
    assert kubectl.table("get pods")[2][2] == "SchedulingGated"

    (tmp_path / "go").touch()
    kubectl("wait --for=jsonpath={.status.phase}=Succeeded pod/job1-2ea4-head pod/job2-2ea4-head --timeout=20s")
    assert kubectl("logs job2-2ea4-head") == "hello\n"
    kubectl("wait --for=condition=Finished workload --all --timeout=20s")


def test_a_job_of_high_priority_preempts_one_of_low(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply -f -", given=QUEUES)
    kubectl("apply -f -", given=PRIORITIES)
    forever = [*WAIT, str(tmp_path / "never")]

    kubectl("create -f -", given=pod("job1-head", "user-queue", SIX_CPUS, forever, "low-priority"))
    kubectl("wait --for=condition=Ready pod/job1-head --timeout=20s")
    low = kubectl("get workloads -o name").strip()
    with kubectl.following(f"get {low} --watch -o", "jsonpath={.status.conditions}{'\\n'}") as seen:
        seen.until("Admitted")  # it watches now: what comes next takes a moment only, and the workload with it
        kubectl("create -f -", given=pod("job2-head", "user-queue", SIX_CPUS, forever, "high-priority"))
        seen.until("Preempted to accommodate a workload")
    kubectl("wait --for=condition=Ready pod/job2-head --timeout=20s")
    kubectl("wait --for=delete pod/job1-head --timeout=20s")
    events = kubectl("get events -o", "jsonpath={range .items[*]}{.reason}{'\\n'}{end}").split()
    assert {"Preempted", "EvictedDueToPreempted", "Started", "Admitted", "QuotaReserved"} <= set(events)
