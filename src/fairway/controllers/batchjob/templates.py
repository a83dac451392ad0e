"""The pods of a job, made from its template."""

from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob.deciding import NewPod
from fairway.controllers.batchjob.pods import COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES
from fairway.integrations.workloads import copied, owner_reference

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX: Final = 58
"""A generated name of 63 characters without its random end."""


def pod_of(job: Manifest, new: NewPod) -> Manifest:
    """A pod to be created; it shares nothing with the job."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    given = copied(template.get("metadata") or {})
    metadata: dict[str, Any] = {
        "generateName": f"{name}-",
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner_reference(job)],
    }
    metadata |= {field: given[field] for field in ("labels", "annotations", "finalizers") if given.get(field)}
    spec = copied(template["spec"])
    if new.index is not None:
        _give_index(metadata, spec, name, new)
    return {"metadata": metadata, "spec": spec}


def _give_index(metadata: dict[str, Any], spec: dict[str, Any], name: str, new: NewPod) -> None:
    index = str(new.index)
    annotations = metadata.setdefault("annotations", {})
    metadata.setdefault("labels", {})[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = index
    if new.failures is not None:
        annotations[INDEX_FAILURES] = str(new.failures)
        if new.ignored_failures:
            annotations[INDEX_IGNORED_FAILURES] = str(new.ignored_failures)
    suffix = f"-{index}-"
    metadata["generateName"] = name[: _LONGEST_PREFIX - len(suffix)] + suffix
    spec["hostname"] = f"{name}-{index}"
    variable = {
        "name": INDEX_VARIABLE,
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
    }
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        variables = container.setdefault("env", [])
        if all(one.get("name") != INDEX_VARIABLE for one in variables):
            variables.append(copied(variable))
