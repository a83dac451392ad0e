"""Valid manifests, rich enough that every field is in one of them, and helpers to spoil them."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fairway.apis.kueue.manifests import encode
from fairway.apis.kueue.objects import AnyObject
from fairway.apis.kueue.records import KINDS as RECORDS
from fairway.errors import FieldError, ValidationError

Manifest = dict[str, Any]

V1BETA1 = "kueue.x-k8s.io/v1beta1"
V1BETA2 = "kueue.x-k8s.io/v1beta2"
TIME = "2026-01-02T03:04:05Z"


def validate_update(old: AnyObject, new: AnyObject) -> None:
    """Raise what replacing one object by the other is refused for."""
    record = next(record for record in RECORDS if record.kind == new.KIND)
    errors = record.rules.validate_update(encode(old), encode(new))
    if errors:
        raise ValidationError(new.KIND, new.name, errors)


def manifest(kind: str, name: str, /, *, version: str = V1BETA2, namespace: str = "", **parts: Any) -> Manifest:
    metadata: Manifest = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= parts.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def condition(kind: str, status: str = "True", **fields: Any) -> Manifest:
    return {"type": kind, "status": status, "reason": "Because", "message": "", "lastTransitionTime": TIME} | fields


def flavor(**spec: Any) -> Manifest:
    return manifest("ResourceFlavor", "spot", spec=spec)


def quota(name: str = "cpu", nominal: str | int = "10", **limits: Any) -> Manifest:
    return {"name": name, "nominalQuota": nominal} | limits


def group(*quotas: Manifest, flavors: tuple[str, ...] = ("default",)) -> Manifest:
    quotas = quotas or (quota(),)
    return {
        "coveredResources": [one["name"] for one in quotas],
        "flavors": [{"name": name, "resources": copy.deepcopy(list(quotas))} for name in flavors],
    }


def cluster_queue(*groups: Manifest, **spec: Any) -> Manifest:
    return manifest("ClusterQueue", "team-a", spec={"resourceGroups": list(groups) or [group()]} | spec)


def cohort(*groups: Manifest, **spec: Any) -> Manifest:
    return manifest("Cohort", "research", spec={"resourceGroups": list(groups)} | spec)


def local_queue(**spec: Any) -> Manifest:
    return manifest("LocalQueue", "main", namespace="ns", spec={"clusterQueue": "team-a"} | spec)


def container(name: str = "c", **resources: Any) -> Manifest:
    return {"name": name, "image": "busybox", "resources": resources}


def pod_spec(*containers: Manifest, **fields: Any) -> Manifest:
    return {"containers": list(containers) or [container(requests={"cpu": "1"})]} | fields


def pod_set(name: str = "main", count: int = 1, **fields: Any) -> Manifest:
    return {"name": name, "count": count, "template": {"spec": pod_spec()}} | fields


def workload(*pod_sets: Manifest, **parts: Any) -> Manifest:
    spec = {"podSets": list(pod_sets) or [pod_set()], "queueName": "main"} | parts.pop("spec", {})
    return manifest("Workload", "job-sample", namespace="ns", spec=spec, **parts)


def admitted(*pod_sets: Manifest, **parts: Any) -> Manifest:
    """A workload that holds quota."""
    sets = pod_sets or (pod_set(count=3),)
    assignments = [
        {"name": one["name"], "count": one["count"], "flavors": {"cpu": "default"}, "resourceUsage": usage}
        for one in sets
        for usage in [{"cpu": one["count"]}]
    ]
    status = {
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
        "admission": {"clusterQueue": "team-a", "podSetAssignments": assignments},
    }
    return workload(*sets, status=status | parts.pop("status", {}), **parts)


def full_metadata() -> Manifest:
    return {
        "uid": "6d1c1d2e-7e5c-4f0e-9d5b-0d8f0e3f5a11",
        "resourceVersion": "42",
        "generation": 3,
        "creationTimestamp": TIME,
        "deletionTimestamp": TIME,
        "deletionGracePeriodSeconds": 0,
        "labels": {"example.com/team": "a"},
        "annotations": {"example.com/note": "any text at all"},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "j",
                "uid": "u",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "managedFields": [{"manager": "kubectl", "operation": "Update", "time": TIME, "fieldsV1": {"f:spec": {}}}],
    }


def full_samples() -> dict[str, Manifest]:
    """One manifest of each kind in v1beta2 with all its fields, defaults written out."""
    return {
        "ResourceFlavor": manifest(
            "ResourceFlavor",
            "spot",
            metadata=full_metadata(),
            spec={
                "nodeLabels": {"cloud.example.com/type": "spot"},
                "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule", "timeAdded": TIME}],
                "tolerations": [
                    {"key": "spot", "operator": "Equal", "value": "true"},
                    {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
                ],
                "topologyName": "racks",
            },
        ),
        "ClusterQueue": _full_cluster_queue(),
        "Cohort": manifest(
            "Cohort",
            "research",
            spec={
                "parentName": "all",
                "resourceGroups": [group(quota(borrowingLimit="2", lendingLimit="20"))],
                "fairSharing": {"weight": "2"},
            },
            status={"fairSharing": {"weightedShare": 7}},
        ),
        "LocalQueue": manifest(
            "LocalQueue",
            "main",
            namespace="ns",
            spec={"clusterQueue": "team-a", "stopPolicy": "Hold", "fairSharing": {"weight": "500m"}},
            status={
                "conditions": [condition("Active", observedGeneration=2)],
                "pendingWorkloads": 1,
                "reservingWorkloads": 2,
                "admittedWorkloads": 3,
                "flavorsReservation": [{"name": "default", "resources": [{"name": "cpu", "total": "3"}]}],
                "flavorsUsage": [{"name": "default", "resources": [{"name": "cpu", "total": "2"}]}],
                "fairSharing": {
                    "weightedShare": 5,
                    "admissionFairSharingStatus": {"consumedResources": {"cpu": "1500m"}, "lastUpdate": TIME},
                },
            },
        ),
        "Workload": _full_workload(),
        "WorkloadPriorityClass": manifest("WorkloadPriorityClass", "high", value=1000, description="goes first"),
        "AdmissionCheck": manifest(
            "AdmissionCheck",
            "capacity",
            spec={
                "controllerName": "kueue.x-k8s.io/provisioning-request",
                "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "fast"},
            },
            status={"conditions": [condition("Active")]},
        ),
        "ProvisioningRequestConfig": manifest(
            "ProvisioningRequestConfig",
            "fast",
            spec={
                "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
                "parameters": {"key": "value"},
                "managedResources": ["nvidia.com/gpu"],
                "retryStrategy": {"backoffLimitCount": 1, "backoffBaseSeconds": 2, "backoffMaxSeconds": 3},
                "podSetUpdates": {"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "Pool"}]},
                "podSetMergePolicy": "IdenticalPodTemplates",
            },
        ),
        "Topology": manifest(
            "Topology",
            "racks",
            spec={"levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
        ),
    }


def _full_cluster_queue() -> Manifest:
    usage = [{"name": "default", "resources": [{"name": "cpu", "total": "3", "borrowed": "1"}]}]
    return manifest(
        "ClusterQueue",
        "team-a",
        spec={
            "resourceGroups": [
                group(quota("cpu", "10", borrowingLimit="5", lendingLimit="2500m"), quota("memory", "64Gi")),
                group(quota("nvidia.com/gpu", "8"), flavors=("a100", "h100")),
            ],
            "cohortName": "research",
            "queueingStrategy": "StrictFIFO",
            "namespaceSelector": {
                "matchLabels": {"team": "a"},
                "matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "dev"]}],
            },
            "flavorFungibility": {
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
                "preference": "BorrowingOverPreemption",
            },
            "preemption": {
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
                "withinClusterQueue": "LowerOrNewerEqualPriority",
            },
            "admissionChecksStrategy": {"admissionChecks": [{"name": "capacity", "onFlavors": ["a100"]}]},
            "stopPolicy": "HoldAndDrain",
            "fairSharing": {"weight": "2"},
            "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
            "concurrentAdmissionPolicy": {
                "migration": {"mode": "TryPreferredFlavors", "constraints": {"lastAcceptableFlavorName": "h100"}}
            },
        },
        status={
            "conditions": [condition("Active", "False")],
            "flavorsReservation": usage,
            "flavorsUsage": usage,
            "pendingWorkloads": 0,
            "reservingWorkloads": 1,
            "admittedWorkloads": 1,
            "fairSharing": {"weightedShare": 125},
        },
    )


def full_pod_spec() -> Manifest:
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    return {
        "restartPolicy": "Never",
        "containers": [container(requests={"cpu": "1500m", "memory": "1Gi"}, limits={"nvidia.com/gpu": "1"})],
        "initContainers": [
            {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
            {"name": "setup", "resources": {"requests": {"cpu": "2"}}},
        ],
        "overhead": {"memory": "64Mi"},
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [expression]}, {"matchFields": [expression]}]
                }
            }
        },
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }


def _full_workload() -> Manifest:
    topology = {
        "levels": ["example.com/rack", "kubernetes.io/hostname"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [
                    {"universal": "r1"},
                    {"individual": {"prefix": "node-", "suffix": ".local", "roots": ["1", "2"]}},
                ],
                "podCounts": {"individual": [1, 2]},
            }
        ],
    }
    request = {
        "required": "example.com/rack",
        "podIndexLabel": "example.com/index",
        "subGroupIndexLabel": "example.com/sub",
        "subGroupCount": 2,
        "podSetGroupName": "both",
        "podSetSliceRequiredTopology": "kubernetes.io/hostname",
        "podSetSliceSize": 1,
        "podsetSliceRequiredTopologyConstraints": [{"topology": "kubernetes.io/hostname", "size": 2}],
    }
    template = {"metadata": {"labels": {"app": "a"}, "annotations": {"n": "v"}}, "spec": full_pod_spec()}
    return manifest(
        "Workload",
        "job-sample",
        namespace="ns",
        metadata=full_metadata(),
        spec={
            "podSets": [
                {"name": "main", "count": 3, "minCount": 2, "template": template, "topologyRequest": request},
                pod_set("rest", topologyRequest={"unconstrained": True}),
            ],
            "queueName": "main",
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
            "priority": 1000,
            "active": True,
            "maximumExecutionTimeSeconds": 3600,
            "preemptionGates": [{"name": "gate"}],
        },
        status={
            "conditions": [condition("QuotaReserved"), condition("Admitted")],
            "admission": {
                "clusterQueue": "team-a",
                "podSetAssignments": [
                    {
                        "name": "main",
                        "count": 3,
                        "flavors": {"cpu": "default"},
                        "resourceUsage": {"cpu": "6"},
                        "topologyAssignment": topology,
                        "delayedTopologyRequest": "Ready",
                    },
                    {"name": "rest", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}},
                ],
            },
            "requeueState": {"count": 1, "requeueAt": TIME},
            "reclaimablePods": [{"name": "main", "count": 1}],
            "admissionChecks": [
                {
                    "name": "capacity",
                    "state": "Ready",
                    "lastTransitionTime": TIME,
                    "message": "",
                    "requeueAfterSeconds": 1,
                    "retryCount": 2,
                    "podSetUpdates": [
                        {
                            "name": "main",
                            "labels": {"a": "b"},
                            "annotations": {"c": "d"},
                            "nodeSelector": {"e": "f"},
                            "tolerations": [{"operator": "Exists"}],
                        }
                    ],
                }
            ],
            "resourceRequests": [{"name": "main", "resources": {"cpu": "6"}}],
            "accumulatedPastExecutionTimeSeconds": 30,
            "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
            "nominatedClusterNames": ["east", "west"],
            "unhealthyNodes": [{"name": "node-1"}],
            "preemptionGates": [{"name": "gate", "position": "Open", "lastTransitionTime": TIME}],
        },
    )


def changed(original: Mapping[str, Any], path: str, value: Any) -> Manifest:
    """A copy in which the field at this path (`spec.podSets.0.count`) is another; `...` removes it."""
    copied: Any = copy.deepcopy(dict(original))
    *parents, last = path.split(".")
    place = copied
    for step in parents:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    if value is ...:
        del place[int(last) if isinstance(place, list) else last]
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    result: Manifest = copied
    return result


def errors_of(action: Callable[[], object]) -> list[FieldError]:
    """What the action is refused for."""
    with pytest.raises(ValidationError) as caught:
        action()
    return list(caught.value.errors)
