"""Nothing configured: a plain Job just runs, and one's own objects replace what was there."""

from clients.kubectl import Kubectl

from .test_job_controller_with_kueue import QUEUES

PLAIN = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: hello
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox
        command: ["/bin/sh", "-c", "echo hello from $JOB_COMPLETION_INDEX$HOSTNAME"]
"""


def test_a_plain_job_runs_on_a_fresh_machine(kubectl: Kubectl) -> None:
    kubectl("create -f -", given=PLAIN)
    kubectl("wait --for=condition=Complete job/hello --timeout=20s")
    assert kubectl("logs job/hello").startswith("hello from")
    (workload,) = kubectl.json("get workloads")["items"]
    assert workload["spec"]["queueName"] == "default"
    assert workload["status"]["admission"]["clusterQueue"] == "cluster-queue"
    node = kubectl.json("get nodes")["items"][0]
    assert node["status"]["allocatable"]["cpu"] == "16"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_ones_own_cluster_queue_replaces_the_one_that_was_there(kubectl: Kubectl) -> None:
    assert kubectl("get clusterqueue cluster-queue -o", "jsonpath={..nominalQuota}").split()[0] == "16"
    kubectl("apply -f -", given=QUEUES)
    assert kubectl("get clusterqueue cluster-queue -o", "jsonpath={..nominalQuota}") == "9 36Gi 8"
    kubectl("create -f -", given=PLAIN)
    kubectl("wait --for=condition=Complete job/hello --timeout=20s")


def test_what_ones_own_object_does_not_have_is_gone(kubectl: Kubectl) -> None:
    """The queue of a first start lets high priorities preempt; one that says nothing of it must not inherit that."""
    preempts = "jsonpath={.spec.preemption.withinClusterQueue}"
    assert kubectl("get clusterqueue cluster-queue -o", preempts) == "LowerPriority"
    applied = kubectl.run(
        "apply -f -", given=QUEUES.replace("  preemption:\n    withinClusterQueue: LowerPriority\n", "")
    )
    assert (applied.code, applied.errors) == (0, "")
    assert kubectl("get clusterqueue cluster-queue -o", preempts) == "Never"
