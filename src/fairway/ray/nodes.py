"""The pods of a RayCluster, with the names, labels and environment that KubeRay gives them."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.integrations.ray_job import SUBMITTER_CONTAINER
from fairway.integrations.workloads import owner_reference
from fairway.ray import commands
from fairway.ray.commands import HeadPorts, WorkerPorts

HEAD_GROUP: Final = "headgroup"
CLUSTER_LABEL: Final = "ray.io/cluster"
GROUP_LABEL: Final = "ray.io/group"
TYPE_LABEL: Final = "ray.io/node-type"
NODE_LABEL: Final = "ray.io/is-ray-node"
_KUBERAY: Final = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator"}
TOKEN_KEY: Final = "auth_token"  # noqa: S105 - the key in a Secret
NO_HEAD_RESTART: Final = "ray.io/disable-provisioned-head-restart"
"""The annotation of a cluster whose head is not replaced once all of its pods were ready: with SidecarMode, the job has
ended with it."""

_OWN_COMMAND: Final = "ray.io/overwrite-container-cmd"
_LONGEST_PREFIX: Final = 50
_ENDPOINTS: Final = {
    "gcs-server": "gcs",
    "dashboard": "dashboard",
    "client": "client",
    "dashboard-agent": "agent",
    "agent-grpc": "agent_grpc",
    "runtime-env": "runtime_env",
    "metrics": "metrics",
}


class RayInstallation(Struct, frozen=True):
    """Ray on this machine."""

    version: str
    programs: str
    """The directory of `ray` and `python`."""

    start: str
    """The program that runs `ray start` with a temporary directory of its own."""


def endpoints_of(ports: HeadPorts) -> dict[str, str]:
    """The ports of a head as `status.endpoints` has them."""
    return {name: str(getattr(ports, field)) for name, field in _ENDPOINTS.items()}


def head_ports(cluster: Manifest) -> HeadPorts | None:
    """The ports that were chosen for a cluster."""
    said = (cluster.get("status") or {}).get("endpoints") or {}
    if any(name not in said for name in _ENDPOINTS):
        return None
    return HeadPorts(**{field: int(said[name]) for name, field in _ENDPOINTS.items()})


def dashboard_of(cluster: Manifest) -> str | None:
    """Host and port of the dashboard."""
    ports = head_ports(cluster)
    return None if ports is None else f"{commands.ADDRESS}:{ports.dashboard}"


def ports_of(pod: Manifest) -> set[int]:
    """The ports that a Ray node was given."""
    return {port["containerPort"] for container in pod["spec"]["containers"] for port in container.get("ports") or ()}


def restarts_head(cluster: Manifest) -> bool:
    return (cluster["metadata"].get("annotations") or {}).get(NO_HEAD_RESTART) != "true"


def is_head(pod: Manifest) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(TYPE_LABEL) == "head")


def group_of(pod: Manifest) -> str:
    return str((pod["metadata"].get("labels") or {}).get(GROUP_LABEL, ""))


def head_pod(cluster: Manifest, ports: HeadPorts, ray: RayInstallation) -> Manifest:
    group = cluster["spec"]["headGroupSpec"]
    return _pod(cluster, group, "head", HEAD_GROUP, commands.head_parameters(), ports, ports.gcs, ray)


def worker_pod(
    cluster: Manifest, group: Mapping[str, Any], ports: WorkerPorts, head: HeadPorts, ray: RayInstallation
) -> Manifest:
    machine = {**commands.worker_parameters(), "address": f"{commands.ADDRESS}:{head.gcs}"}
    return _pod(cluster, group, "worker", group["groupName"], machine, ports, head.gcs, ray)


def _pod(
    cluster: Manifest,
    group: Mapping[str, Any],
    node_type: str,
    group_name: str,
    machine: Mapping[str, str],
    ports: HeadPorts | WorkerPorts,
    gcs_port: int,
    ray: RayInstallation,
) -> Manifest:
    name, template = cluster["metadata"]["name"], copied(group["template"])
    spec, metadata = template["spec"], template.get("metadata") or {}
    container = spec["containers"][0]
    resources = commands.resource_parameters({**(container.get("resources") or {}), **_resources_of(group)})
    own = {**machine, **commands.port_parameters(ports)}
    start = commands.ray_start(resources, group.get("rayStartParams") or {}, own, program=ray.start)
    wait = gcs_port if node_type == "worker" else None
    _set_command(
        container, metadata.get("annotations") or {}, commands.start_script(start, ray.programs, wait_for_port=wait)
    )
    environment = _environment(cluster, group_name, start, gcs_port)
    for one in spec["containers"]:
        if one is container or one["name"] == SUBMITTER_CONTAINER:
            one["env"] = [*(one.get("env") or ()), *environment, *_dashboard_variable(ports)]
    container["ports"] = [{"name": name.replace("_", "-"), "containerPort": port} for name, port in _named(ports)]
    container.setdefault("readinessProbe", _probe(ports.agent, period=1, failures=30))
    # As KubeRay: a node that has been without an agent for ten minutes is replaced.
    container.setdefault("livenessProbe", _probe(ports.agent, period=5, failures=120))
    # Failed nodes are replaced as a whole: a new head needs new workers.
    spec["restartPolicy"] = "Never"
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": commands.VOLUME, "emptyDir": {}}]
    middle = "head" if node_type == "head" else f"{group_name}-worker"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-{middle}"[-_LONGEST_PREFIX:].lstrip("-.0123456789") + "-",
            "namespace": cluster["metadata"]["namespace"],
            "labels": {**(metadata.get("labels") or {}), **_labels(cluster, node_type, group_name)},
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": spec,
    }


def _resources_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """`resources` of a group override those of its container."""
    said = group.get("resources") or {}
    amounts = {{"CPU": "cpu", "GPU": "nvidia.com/gpu"}.get(name, name): amount for name, amount in said.items()}
    return {"limits": amounts} if amounts else {}


def _named(ports: HeadPorts | WorkerPorts) -> list[tuple[str, int]]:
    names = {field: name for name, field in _ENDPOINTS.items()}
    return [(names[field], port) for field, port in zip(ports._fields, ports, strict=True)]


def _set_command(container: Manifest, annotations: Mapping[str, str], script: str) -> None:
    """Run the start script; the container's own command comes first, as in KubeRay."""
    own = " ".join((*(container.get("command") or ()), *(container.get("args") or ())))
    if annotations.get(_OWN_COMMAND) == "true":
        return
    container["command"] = ["/bin/bash", "-c", "--"]
    container["args"] = [f"{own} && {{ {script}; }}" if own else script]


def _environment(cluster: Manifest, group: str, start: str, gcs_port: int) -> list[Manifest]:
    values = {
        "RAY_CLUSTER_NAME": cluster["metadata"]["name"],
        "RAY_CLUSTER_NAMESPACE": cluster["metadata"]["namespace"],
        "RAY_NODE_TYPE_NAME": group,
        "RAY_PORT": str(gcs_port),
        "RAY_ADDRESS": f"{commands.ADDRESS}:{gcs_port}",
        "KUBERAY_GEN_RAY_START_CMD": start,
        **commands.environment(),
    }
    return [
        {"name": "RAY_CLOUD_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        *({"name": name, "value": value} for name, value in values.items()),
        token_variable(cluster["metadata"]["name"]),
    ]


def _dashboard_variable(ports: HeadPorts | WorkerPorts) -> list[Manifest]:
    return [dashboard_variable(ports.dashboard)] if isinstance(ports, HeadPorts) else []


def dashboard_variable(port: int) -> Manifest:
    """What a submitter takes the dashboard's address from."""
    return {"name": "RAY_DASHBOARD_ADDRESS", "value": f"http://{commands.ADDRESS}:{port}"}


def token_variable(cluster_name: str) -> Manifest:
    """The token of a cluster, from its Secret."""
    return {
        "name": "RAY_AUTH_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": cluster_name, "key": TOKEN_KEY}},
    }


def token_secret(cluster: Manifest, token: str) -> Manifest:
    """The Secret with a cluster's token, as KubeRay makes it for `authOptions`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": cluster["metadata"]["name"],
            "namespace": cluster["metadata"]["namespace"],
            "labels": {CLUSTER_LABEL: cluster["metadata"]["name"], **_KUBERAY},
            "ownerReferences": [owner_reference(cluster)],
        },
        "stringData": {TOKEN_KEY: token},
    }


def _probe(agent_port: int, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"host": commands.ADDRESS, "port": agent_port, "path": "/api/healthz"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _labels(cluster: Manifest, node_type: str, group: str) -> dict[str, str]:
    name = cluster["metadata"]["name"]
    return {
        NODE_LABEL: "yes",
        CLUSTER_LABEL: name,
        TYPE_LABEL: node_type,
        GROUP_LABEL: group,
        "ray.io/identifier": f"{name}-{node_type}"[:63],
        **_KUBERAY,
    }
