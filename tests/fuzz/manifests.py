"""One rich, valid manifest of each kind in its stored version: what the fuzzing starts from."""

import copy
from typing import Any, Final

from apis.types.samples import full_samples
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import default_registry

TIME: Final = "2026-01-02T03:04:05Z"
NAMESPACE: Final = "fuzz"
KINDS: Final = tuple(
    kind
    for kind in default_registry().kinds
    if not kind.acknowledged and not kind.inert and kind.kind != "CustomResourceDefinition"
)
ACKNOWLEDGED: Final = tuple(kind for kind in default_registry().kinds if kind.acknowledged)
"""Their objects are of built-in components, and no write changes one."""

_POD_SPEC: Final[Manifest] = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 10,
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                ]
            }
        }
    },
    "volumes": [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "a", "path": "a.txt"}]}},
    ],
    "initContainers": [{"name": "setup", "image": "busybox", "command": ["true"]}],
    "containers": [
        {
            "name": "main",
            "image": "busybox:1.36",
            "command": ["sh", "-c"],
            "args": ["echo hello"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"nvidia.com/gpu": 1}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
            "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
_TEMPLATE: Final[Manifest] = {"metadata": {"labels": {"app": "a"}, "annotations": {"n": "v"}}, "spec": _POD_SPEC}
_DASK: Final[Manifest] = {
    "worker": {"replicas": 2, "spec": _POD_SPEC},
    "scheduler": {"spec": _POD_SPEC, "service": {"type": "ClusterIP"}},
}
_RAY_GROUP: Final[Manifest] = {"rayStartParams": {"num-cpus": "1"}, "template": _TEMPLATE}
_RAY_SPEC: Final[Manifest] = {
    "rayVersion": "2.46.0",
    "headGroupSpec": _RAY_GROUP,
    "workerGroupSpecs": [{"groupName": "small", "replicas": 1, "minReplicas": 0, "maxReplicas": 3, **_RAY_GROUP}],
}

_PARTS: Final[dict[str, Manifest]] = {
    "ConfigMap": {"data": {"a": "b", "text": "line\nline"}, "binaryData": {"bin": "AAEC"}, "immutable": False},
    "Event": {
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": "p", "uid": "u"},
        "reason": "Started",
        "message": "it has",
        "type": "Normal",
        "count": 2,
        "firstTimestamp": TIME,
        "lastTimestamp": TIME,
        "source": {"component": "runner", "host": "here"},
    },
    "Namespace": {},
    "Node": {
        "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": TIME}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    },
    "Pod": {
        "spec": _POD_SPEC,
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
            "containerStatuses": [
                {
                    "name": "main",
                    "image": "busybox",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 1,
                    "state": {"running": {"startedAt": TIME}},
                    "lastState": {"terminated": {"exitCode": 1, "finishedAt": TIME}},
                }
            ],
        },
    },
    "PodTemplate": {"template": _TEMPLATE},
    "Secret": {"data": {"token": "c2VjcmV0"}, "type": "Opaque"},
    "ServiceAccount": {"secrets": [{"name": "a"}], "automountServiceAccountToken": False},
    "Job": {
        "spec": {
            "parallelism": 2,
            "completions": 4,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
            "suspend": True,
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1, 2]}}],
            },
            "template": _TEMPLATE,
        },
        "status": {"active": 1, "startTime": TIME, "ready": 1},
    },
    "PriorityClass": {"value": 100, "description": "first", "preemptionPolicy": "Never"},
    "Lease": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000006Z"}},
    "ProvisioningRequest": {
        "spec": {
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "podSets": [{"count": 2, "podTemplateRef": {"name": "t"}}],
            "parameters": {"a": "b"},
        },
        "status": {
            "conditions": [
                {"type": "Accepted", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": TIME}
            ]
        },
    },
    "RayCluster": {
        "spec": _RAY_SPEC,
        "status": {"state": "ready", "desiredCPU": "3", "availableWorkerReplicas": 1, "lastUpdateTime": TIME},
    },
    "RayJob": {
        "spec": {"entrypoint": "python a.py", "rayClusterSpec": _RAY_SPEC, "shutdownAfterJobFinishes": True},
        "status": {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running", "startTime": TIME},
    },
    "JobSet": {
        "spec": {
            "replicatedJobs": [{"name": "workers", "replicas": 2, "template": {"spec": {"template": _TEMPLATE}}}],
            "suspend": True,
            "network": {"enableDNSHostnames": True},
        },
        "status": {"restarts": 1, "terminalState": "Failed"},
    },
    "PyTorchJob": {
        "spec": {
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "restartPolicy": "OnFailure", "template": _TEMPLATE}}
        },
        "status": {"startTime": TIME, "replicaStatuses": {"Worker": {"active": 1}}},
    },
    "TFJob": {
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": _TEMPLATE}}},
        "status": {"startTime": TIME, "conditions": [{"type": "Running", "status": "True"}]},
    },
    "MPIJob": {
        "spec": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": _TEMPLATE}}, "slotsPerWorker": 1},
        "status": {"startTime": TIME, "replicaStatuses": {"Launcher": {"active": 1}}},
    },
    "SparkApplication": {
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.0.0",
            "mainApplicationFile": "local:///pi.py",
            "driver": {"cores": 1, "memory": "512m", "sidecars": _TEMPLATE["spec"]["containers"]},
            "executor": {"instances": 2, "cores": 1, "memory": "512m"},
        },
        "status": {"applicationState": {"state": "RUNNING"}, "driverInfo": {"podName": "pi-driver"}},
    },
    "DaskCluster": {"spec": _DASK, "status": {"phase": "Running"}},
    "DaskJob": {
        "spec": {"job": {"spec": _TEMPLATE["spec"]}, "cluster": {"spec": _DASK}},
        "status": {"jobStatus": "Running"},
    },
    "RuntimeClass": {
        "handler": "runc",
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
    },
    "QuotaDefinition": {
        "spec": {"flavors": ["default-flavor"], "organizations": [{"name": "ml", "guaranteed": {"cpu": "4"}}]}
    },
    "ManagedJob": {"spec": {"tasks": [{"run": "true"}]}, "status": {"phase": "RUNNING", "recoveries": 1}},
}


def valid(kind: Kind) -> Manifest:
    """A fresh copy, without a name."""
    sample = full_samples().get(kind.kind)
    known = {"spec": {"replicas": 1}} if kind.acknowledged else _PARTS.get(kind.kind)
    parts: dict[str, Any] = sample if sample is not None else copy.deepcopy(known or {})
    parts = {name: part for name, part in parts.items() if name not in {"apiVersion", "kind", "metadata"}}
    metadata: Manifest = {
        "labels": {"fuzz": "true", "example.com/team": "a"},
        "annotations": {"example.com/note": "any text at all"},
    }
    if kind.acknowledged:
        metadata["labels"]["app.kubernetes.io/name"] = "kueue"
    if kind.namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": kind.api_version(kind.stored), "kind": kind.kind, "metadata": metadata, **parts}


def collection(kind: Kind, version: str, namespace: str = NAMESPACE) -> str:
    """The path of a kind's objects."""
    name = kind.api_version(version)
    root = f"/apis/{name}" if "/" in name else f"/api/{name}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
