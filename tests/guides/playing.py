"""What the guides' clients do that are not there: the pods that SkyPilot makes, the jobs that stand for RayJobs."""

from typing import Any

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"

WAIT = ["/bin/sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.05; done']
"""Runs until a file appears."""


def container(requests: dict[str, str], command: list[str]) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": requests}
    extended = {name: amount for name, amount in requests.items() if "/" in name}
    if extended:
        resources["limits"] = extended
    return {"name": "main", "image": "busybox", "command": command, "resources": resources}


def pod(name: str, queue: str, requests: dict[str, str], command: list[str], priority: str = "") -> dict[str, Any]:
    """A pod as SkyPilot makes it for a task with these labels."""
    labels = {QUEUE: queue} | ({PRIORITY: priority} if priority else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": [container(requests, command)],
        },
    }


def job(prefix: str, queue: str, requests: dict[str, str], command: list[str], priority: str) -> dict[str, Any]:
    """A batch Job where the guide has a RayJob."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": prefix, "labels": {QUEUE: queue, PRIORITY: priority}},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 5,
                    "containers": [container(requests, command)],
                }
            }
        },
    }
