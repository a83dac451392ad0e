"""Kinds that are stored for operators: as they are written, with a warning; of built-in components, acknowledged."""

import asyncio
from typing import Any

import pytest

from fairway.apis import stored
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import ValidationError
from fairway.testing.stores import local_api

TEMPLATE: Manifest = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}
SELECTOR = {"matchLabels": {"app": "web"}}
PARTS: dict[str, Any] = {
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}},
    "Deployment": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "ReplicaSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "StatefulSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "web"}},
    "DaemonSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "CronJob": {
        "spec": {
            "schedule": "0 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
        }
    },
    "HorizontalPodAutoscaler": {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    },
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": []},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "example.com/ingress"}},
    "NetworkPolicy": {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    "StorageClass": {"provisioner": "example.com/disk"},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "RoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}},
    "ClusterRole": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "ClusterRoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}},
    "MutatingWebhookConfiguration": {"webhooks": []},
    "ValidatingWebhookConfiguration": {"webhooks": []},
}


@pytest.mark.parametrize("kind", stored.kinds(), ids=lambda kind: kind.kind)
def test_an_object_is_stored_as_it_is_and_its_effect_is_said(kind: Kind) -> None:
    async def play() -> Manifest:
        async with local_api() as api:
            return await api.create(kind.resource, {"metadata": {"name": "x"}, **PARTS[kind.kind]})

    found = asyncio.run(play())

    for field, part in PARTS[kind.kind].items():
        assert _holds(found[field], part), found
    assert kind.warn is not None
    (said,) = kind.warn(found)
    has_effect = kind.kind == "Service"
    effect = "is a name of this machine in pods" if has_effect else "is stored and has no effect on this server: "
    assert said.startswith(f"a {kind.kind} {effect}")


def _holds(found: Any, part: Any) -> bool:
    """Whether everything of a part is there; defaults may be beside it."""
    if isinstance(part, dict):
        return all(name in found and _holds(found[name], inner) for name, inner in part.items())
    if isinstance(part, list):
        return len(found) == len(part) and all(map(_holds, found, part))
    return bool(found == part)


@pytest.mark.parametrize(
    ("kind", "labels", "owners", "kept"),
    [
        ("Service", {"app.kubernetes.io/name": "kueue"}, [], False),
        ("Service", {"app.kubernetes.io/name": "kuberay"}, ["RayCluster"], True),
        ("Role", {"app.kubernetes.io/name": "kueue"}, [], False),
        ("Role", {"app.kubernetes.io/name": "mine"}, [], True),
    ],
    ids=["of a component", "made by an operator that labels it", "a role of a component", "somebody's own role"],
)
def test_what_a_built_in_component_installs_is_acknowledged(
    kind: str,
    labels: dict[str, str],
    owners: list[str],
    kept: bool,  # noqa: FBT001
) -> None:
    references = [{"apiVersion": "ray.io/v1", "kind": one, "name": "o", "uid": "u"} for one in owners]

    async def play() -> Manifest:
        async with local_api() as api:
            metadata = {"name": "x", "labels": labels, "ownerReferences": references}
            return await api.create(kind.lower(), {"metadata": metadata, **PARTS[kind]})

    found = asyncio.run(play())
    assert (("spec" in found) or ("rules" in found)) is kept


def test_a_pod_template_of_a_deployment_is_validated() -> None:
    async def play() -> None:
        async with local_api() as api:
            template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "No Name"}]}}
            spec = {"selector": SELECTOR, "template": template}
            await api.create("deployment", {"metadata": {"name": "x"}, "spec": spec})

    with pytest.raises(ValidationError, match=r"spec\.template\.spec\.containers\[0\]\.name"):
        asyncio.run(play())
