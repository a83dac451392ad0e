"""Guide 002: two jobs that want the same four GPUs, the second one more important."""

from pathlib import Path

from clients.kubectl import Kubectl

from .playing import pod
from .test_job_controller_with_kueue import PRIORITIES, QUEUES

T4_4 = {"cpu": "1", "nvidia.com/gpu": "4"}


def script(words: str) -> list[str]:
    return ["/bin/sh", "-c", f'echo "{words} on $CUDA_VISIBLE_DEVICES"\nexec sleep 1000000']


def test_the_high_priority_job_takes_the_gpus(kubectl: Kubectl, tmp_path: Path) -> None:
    assert tmp_path.exists()
    kubectl("apply -f -", given=QUEUES.replace("nominalQuota: 8", "nominalQuota: 4"))
    kubectl("apply -f -", given=PRIORITIES)

    low = pod("low-3ce1", "user-queue", T4_4, script("hi i'm a low priority job"), "low-priority")
    kubectl("create -f -", given=low)
    kubectl("wait --for=condition=Ready pod/low-3ce1 --timeout=20s")
    with kubectl.following("logs -f low-3ce1") as log:
        log.until("hi i'm a low priority job on 0,1,2,3")
    assert [row[1:5] for row in kubectl.table("get workloads")[1:]] == [["user-queue", "cluster-queue", "True", ""]]

    high = pod("high-3ce1", "user-queue", T4_4, script("hi i'm a high priority job"), "high-priority")
    kubectl("create -f -", given=high)
    kubectl("wait --for=condition=Ready pod/high-3ce1 --timeout=20s")
    kubectl("wait --for=delete pod/low-3ce1 --timeout=20s")
    with kubectl.following("logs -f high-3ce1") as log:
        log.until("hi i'm a high priority job on")
    admitted = [row for row in kubectl.table("get workloads")[1:] if row[3] == "True"]
    assert [row[0].rpartition("-")[0] for row in admitted] == ["pod-high-3ce1"]
