"""Jobs for tables, as the server stores them."""

import copy
from typing import Any

from fairway.apis.batch.jobs import JOB
from fairway.apis.machinery.kind import Manifest


def stored_job(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    template: Manifest | None = None,
    status: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """A job with its defaults; `template` is laid over a template with one container."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    given = copy.deepcopy(template or {})
    job: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "default",
            "uid": "job-uid",
            "labels": {"kueue.x-k8s.io/queue-name": "q", **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {"template": {**given, "spec": {**pod, **given.get("spec", {})}}, **copy.deepcopy(spec)},
    }
    JOB.rules.default(job)
    JOB.rules.prepare_create(job)
    job["status"] = status or {}
    return job
