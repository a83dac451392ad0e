"""`queueconfig` on a real kube-apiserver: the webhook completes jobs in the namespaces of organizations alone."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from .controllers import Controller, Kubectl, eventually, namespace

Y = "yunikorn.apache.org/"
GUIDE = """\
queueconfig:
  scheduler: yunikorn
  jobs:
    - type: "batch"
      gangscheduling: "placeholderTimeoutInSeconds=60 gangSchedulingStyle=hard"
      allow-preemption: false
"""


@pytest.fixture(scope="module")
def admission() -> str:
    return "none"


def a_job(name: str, place: str) -> str:
    container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": 2, "template": template}
    metadata = {"name": name, "namespace": place}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def created(k: Kubectl, name: str, place: str) -> dict[str, Any]:
    """The Job as it is stored, of a name of its own each time."""
    k("create", "-f", "-", given=a_job(name, place))
    found: dict[str, Any] = json.loads(k("get", "job", name, "-n", place, "-o", "json"))
    return found


def numbered(prefix: str) -> Callable[[], str]:
    count = iter(range(1_000_000))
    return lambda: f"{prefix}-{next(count)}"


def test_jobs_of_organizations_are_completed_and_others_are_left(running: Controller, k: Kubectl, unique: str) -> None:
    for home, organization in ((unique, "ml"), (f"{unique}-other", "")):
        place = namespace(home)
        place["metadata"]["labels"] = {"fairway.dev/organization": organization} if organization else {}
        k("create", "-f", "-", given=json.dumps(place))
    name = numbered("job")
    assert "yunikorn" not in json.dumps(created(k, name(), unique)), "without configuration nothing changes"

    metadata = {"name": "fairway-config", "namespace": "fairway-system"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"queueconfig.yaml": GUIDE}}
    k("apply", "-f", "-", given=json.dumps(config))
    eventually(lambda: created(k, name(), unique)["spec"]["template"]["spec"]["schedulerName"], "yunikorn")

    job = created(k, name(), unique)
    pod = job["spec"]["template"]
    assert pod["metadata"]["labels"][f"{Y}queue"] == "root.ml.batch"
    assert pod["metadata"]["annotations"][f"{Y}allow-preemption"] == "false"
    assert json.loads(pod["metadata"]["annotations"][f"{Y}user.info"])["user"]
    (group,) = json.loads(pod["metadata"]["annotations"][f"{Y}task-groups"])
    assert group == {"name": "main", "minMember": 2, "minResource": {"cpu": "1", "memory": "1Gi"}}

    again = json.loads(a_job(job["metadata"]["name"], unique))
    k("apply", "-f", "-", given=json.dumps(again))
    after = json.loads(k("get", "job", job["metadata"]["name"], "-n", unique, "-o", "json"))
    assert after["spec"]["template"] == pod, "a second apply without the labels keeps them"

    assert "yunikorn" not in json.dumps(created(k, name(), f"{unique}-other")), "the webhook is not asked"
