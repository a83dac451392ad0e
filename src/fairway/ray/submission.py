"""Submission of a RayJob's entrypoint by Ray's job API: the Job that does it, or the request."""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

import yaml

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.integrations.ray_job import BY_JOB, IN_HEAD, submission_mode, submitter_container
from fairway.integrations.workloads import owner_reference
from fairway.ray import commands, nodes
from fairway.ray.nodes import RayInstallation

BY_REQUEST: Final = "HTTPMode"
BY_USER: Final = "InteractiveMode"
MODES: Final = (BY_JOB, BY_REQUEST, BY_USER, IN_HEAD)
DEFAULT_BACKOFF: Final = 2
_CREATED_BY: Final = {"app.kubernetes.io/created-by": "kuberay-operator"}


def selected_cluster(job: Manifest) -> str:
    """The existing cluster that a job is to run on."""
    return str((job["spec"].get("clusterSelector") or {}).get(nodes.CLUSTER_LABEL) or "")


def origin_labels(job: Manifest) -> dict[str, str]:
    """Labels of everything that is made for a RayJob."""
    return {"ray.io/originated-from-cr-name": job["metadata"]["name"], "ray.io/originated-from-crd": "RayJob"}


def new_cluster(job: Manifest, name: str, ray: RayInstallation | None) -> Manifest:
    """The RayCluster of one attempt; in SidecarMode its head has the submitter's container."""
    spec = copied(job["spec"]["rayClusterSpec"])
    cluster: Manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "labels": {
                **(job["metadata"].get("labels") or {}),
                **origin_labels(job),
                "ray.io/job-submission-mode": submission_mode(job),
                **_CREATED_BY,
            },
            "annotations": _kept_annotations(job),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }
    if submission_mode(job) == IN_HEAD and ray is not None:
        cluster["metadata"]["annotations"][nodes.NO_HEAD_RESTART] = "true"
        template = spec["headGroupSpec"]["template"]
        template["spec"]["containers"] = [*template["spec"]["containers"], _sidecar(job, ray)]
    return cluster


def _kept_annotations(job: Manifest) -> dict[str, str]:
    """KubeRay copies the annotations of the job, without those of kubectl."""
    return {
        name: value
        for name, value in (job["metadata"].get("annotations") or {}).items()
        if not name.startswith("kubectl.kubernetes.io/")
    }


def _sidecar(job: Manifest, ray: RayInstallation) -> Manifest:
    """The submitter's container in a head pod, which also gets the head's environment."""
    return {
        **_default_container(job["spec"]["rayClusterSpec"]),
        "env": [_submission_variable(job)],
        "command": ["/bin/bash", "-c", "--"],
        "args": [submit_script(job, ray)],
    }


def _submission_variable(job: Manifest) -> Manifest:
    return {"name": "RAY_JOB_SUBMISSION_ID", "value": job["status"]["jobId"]}


def submitter(job: Manifest, cluster: Manifest, ray: RayInstallation) -> Manifest:
    """The Job whose pod submits the entrypoint and follows its output; it is called after the RayJob."""
    spec, metadata = job["spec"], job["metadata"]
    default = {"spec": {"restartPolicy": "Never", "containers": [_default_container(cluster["spec"])]}}
    template = copied(spec.get("submitterPodTemplate") or default)
    container, ports = template["spec"]["containers"][0], nodes.head_ports(cluster)
    if ports is None:
        raise ValueError(f"RayCluster {cluster['metadata']['name']} is not ready")
    container["env"] = [
        *(container.get("env") or ()),
        nodes.dashboard_variable(ports.dashboard),
        _submission_variable(job),
        *({"name": name, "value": value} for name, value in commands.environment().items()),
        nodes.token_variable(cluster["metadata"]["name"]),
    ]
    if not container.get("command"):
        container["command"] = ["/bin/bash", "-c", "--"]
        container["args"] = [submit_script(job, ray)]
    template["spec"].setdefault("restartPolicy", "Never")
    template.setdefault("metadata", {})
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **origin_labels(job)}
    limit = (spec.get("submitterConfig") or {}).get("backoffLimit")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {**origin_labels(job), **_CREATED_BY},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"backoffLimit": DEFAULT_BACKOFF if limit is None else limit, "template": template},
    }


def _default_container(cluster_spec: Mapping[str, Any]) -> Manifest:
    return submitter_container(cluster_spec["headGroupSpec"]["template"]["spec"]["containers"][0].get("image") or "")


_ASK: Final = r"""
answers() {
  exec 3<>"/dev/tcp/$host/$port" || return 1
  printf 'GET %s HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "$1" "$RAY_AUTH_TOKEN" >&3
  read -r _ code _ <&3; exec 3<&-; [ "$code" = 200 ]
} 2>/dev/null
until answers /api/gcs_healthz; do sleep 0.2; done
"""


def submit_script(job: Manifest, ray: RayInstallation) -> str:
    """Wait for the dashboard, submit unless that was done before, and print the output of the job until it ends.

    As KubeRay's script, in fewer processes: Python needs a second to import Ray on two cores. The pod has done its part
    when the job has ended, however that was.
    """
    identifier = job["status"]["jobId"]
    known = commands.quoted(f"/api/jobs/{identifier}")
    words = ["ray", "job", "submit", "--submission-id", identifier, *_options(job["spec"]), "--"]
    words += shlex.split(job["spec"].get("entrypoint") or "")
    return (
        f"export PATH={commands.quoted(ray.programs)}:$PATH RAY_API_SERVER_ADDRESS=$RAY_DASHBOARD_ADDRESS\n"
        "host=${RAY_DASHBOARD_ADDRESS#http://} port=${RAY_DASHBOARD_ADDRESS##*:}; host=${host%:*}"
        f"{_ASK}"
        f"if answers {known}; then exec ray job logs --follow {commands.quoted(identifier)}; fi\n"
        f"{shlex.join(words)} || answers {known}\n"
    )


def _options(spec: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    if environment := runtime_environment(spec):
        found += ["--runtime-env-json", json.dumps(environment)]
    if metadata := spec.get("metadata"):
        found += ["--metadata-json", json.dumps(metadata)]
    for option, field in (
        ("--entrypoint-num-cpus", "entrypointNumCpus"),
        ("--entrypoint-num-gpus", "entrypointNumGpus"),
    ):
        if spec.get(field):
            found += [option, str(spec[field])]
    if resources := spec.get("entrypointResources"):
        found += ["--entrypoint-resources", resources]
    return found


def runtime_environment(spec: Mapping[str, Any]) -> dict[str, Any]:
    """`runtimeEnvYAML`; `ValueError` if it is not a mapping."""
    text = spec.get("runtimeEnvYAML") or ""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"runtimeEnvYAML is not YAML: {error}") from error
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"runtimeEnvYAML must be a mapping, not {type(found).__name__}")
    return found or {}


def request_body(job: Manifest) -> dict[str, Any]:
    """What HTTPMode posts to `/api/jobs/`."""
    spec = job["spec"]
    body: dict[str, Any] = {
        "entrypoint": spec.get("entrypoint") or "",
        "submission_id": job["status"]["jobId"],
        "runtime_env": runtime_environment(spec),
        "metadata": spec.get("metadata") or {},
    }
    if spec.get("entrypointNumCpus"):
        body["entrypoint_num_cpus"] = spec["entrypointNumCpus"]
    if spec.get("entrypointNumGpus"):
        body["entrypoint_num_gpus"] = spec["entrypointNumGpus"]
    if resources := spec.get("entrypointResources"):
        body["entrypoint_resources"] = json.loads(resources)
    return body
