"""LimitRanges, runtime classes and elastic jobs with kubectl, on a server that runs the pods."""

import json
from typing import Any

from clients.kubectl import Kubectl

TIMEOUT = "--timeout=60s"

OBJECTS = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: 5}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
---
apiVersion: v1
kind: LimitRange
metadata: {name: bounds, namespace: default}
spec: {limits: [{type: Container, defaultRequest: {cpu: 750m}, max: {cpu: "4"}, default: {cpu: "1"}}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: sandbox
overhead: {podFixed: {cpu: 250m}}
"""


def a_job(name: str, parallelism: int, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "600"]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"parallelism": parallelism, "completions": 100, "template": {"spec": pod}},
    }


def test_pods_count_by_the_limits_of_their_namespace_and_jobs_grow_and_shrink(kubectl: Kubectl) -> None:
    kubectl("apply -f -", given=OBJECTS)
    elastic = a_job("wide", 2, {"kueue.x-k8s.io/elastic-job": "true"}, runtimeClassName="sandbox")
    kubectl("create -f -", given=elastic)
    ready = "--for=jsonpath={.status.ready}="
    kubectl(f"wait job/wide {ready}2 {TIMEOUT}")
    # Two pods of 750m, and an overhead of 250m each.
    kubectl(f"wait clusterqueue/team --for=jsonpath={{.status.flavorsReservation[0].resources[0].total}}=2 {TIMEOUT}")

    kubectl("patch job wide -p", '{"spec":{"parallelism":4}}')
    kubectl(f"wait job/wide {ready}4 {TIMEOUT}")
    workloads = json.loads(kubectl("get workloads -o json"))["items"]
    ended = [
        condition["reason"]
        for one in workloads
        for condition in one["status"]["conditions"]
        if condition["type"] == "Finished"
    ]
    assert (len(workloads), ended) == (2, ["WorkloadSliceReplaced"])

    kubectl("patch job wide -p", '{"spec":{"parallelism":7}}')
    pending = "--for=jsonpath={.status.pendingWorkloads}="
    kubectl(f"wait clusterqueue/team {pending}1 {TIMEOUT}")
    kubectl("patch job wide -p", '{"spec":{"parallelism":1}}')
    kubectl(f"wait job/wide {ready}1 {TIMEOUT}")
    kubectl(f"wait clusterqueue/team {pending}0 {TIMEOUT}")
    assert json.loads(kubectl("get job wide -o json"))["status"]["active"] == 1

    refused = kubectl.refused("run x --image=x --overrides", '{"spec":{"runtimeClassName":"nope"}}')
    assert 'pods "x" is forbidden: pod rejected: RuntimeClass "nope" not found' in refused
