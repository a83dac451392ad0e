"""RayJob and RayCluster, as KubeRay 1.6 defines them.

Asked here is what KubeRay's definitions and its webhook refuse. What its operator reports later, in `status`, is the
business of their operator.
"""

import re
from typing import Any, Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.custom import custom_rules, custom_schemas
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.metadata_rules import NameRule
from fairway.errors import FieldError

GROUP: Final = "ray.io"
_VERSIONS: Final = ("v1",)

_LONGEST_CLUSTER_NAME: Final = 53
"""So that the names of its pods and services, which are longer, need not be cut."""

_LONGEST_JOB_NAME: Final = 47
"""Six less: the cluster of a job is called after it, with a dash and five random characters."""

_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_RULE: Final = (
    "must be a DNS-1035 label: lower case letters, digits and '-', a letter first and no '-' last "
    f"(e.g. 'my-name', regex used for validation is '{_DNS_1035.pattern}')"
)
_MANAGERS: Final = ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")


def _name_rule(longest: int) -> NameRule:
    def faults(name: str) -> list[str]:
        found = [f"must be no more than {longest} characters"] if len(name) > longest else []
        if not _DNS_1035.fullmatch(name):
            found.append(_DNS_1035_RULE)
        return found

    return faults


def _wrong_cluster(manifest: Manifest) -> list[FieldError]:
    return _wrong_cluster_spec(manifest.get("spec") or {}, "spec")


def _wrong_cluster_spec(spec: dict[str, Any], path: str) -> list[FieldError]:
    errors = _wrong_manager(spec, path)
    seen: set[str] = set()
    for position, group in enumerate(spec.get("workerGroupSpecs") or ()):
        name = group.get("groupName") or ""
        if name in seen:
            where = problems.index(problems.child(path, "workerGroupSpecs"), position)
            errors.append(problems.invalid(where, name, "worker group names must be unique"))
        seen.add(name)
    return errors


def _wrong_job(manifest: Manifest) -> list[FieldError]:
    spec = manifest.get("spec") or {}
    errors = _wrong_manager(spec, "spec")
    if cluster := spec.get("rayClusterSpec"):
        errors += _wrong_manager(cluster, "spec.rayClusterSpec")
    if strategy := spec.get("deletionStrategy"):
        errors += _wrong_deletion(strategy, "spec.deletionStrategy")
    return errors


def _wrong_manager(spec: dict[str, Any], path: str) -> list[FieldError]:
    manager = spec.get("managedBy")
    if manager is None or manager in _MANAGERS:
        return []
    rule = f"must be either {' or '.join(repr(one) for one in _MANAGERS)}"
    return [problems.invalid(problems.child(path, "managedBy"), manager, rule)]


def _wrong_deletion(strategy: dict[str, Any], path: str) -> list[FieldError]:
    errors = []
    old_way = [name for name in ("onSuccess", "onFailure") if name in strategy]
    if old_way and "deletionRules" in strategy:
        rule = f"deletionRules cannot be used together with {' and '.join(old_way)}"
        errors.append(problems.invalid(path, strategy, rule))
    if len(old_way) < 2 and "deletionRules" not in strategy:
        errors.append(problems.invalid(path, strategy, "needs deletionRules, or both onSuccess and onFailure"))
    for position, one in enumerate(strategy.get("deletionRules") or ()):
        condition = one.get("condition") or {}
        if ("jobStatus" in condition) == ("jobDeploymentStatus" in condition):
            where = problems.child(problems.index(problems.child(path, "deletionRules"), position), "condition")
            errors.append(problems.invalid(where, condition, "needs exactly one of jobStatus and jobDeploymentStatus"))
    return errors


def _changed_cluster(old: Manifest, new: Manifest) -> list[FieldError]:
    return _changed_manager(old.get("spec") or {}, new.get("spec") or {}, "spec")


def _changed_job(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors = _changed_manager(before, after, "spec")
    clusters = (before.get("rayClusterSpec") or {}, after.get("rayClusterSpec") or {})
    return [*errors, *_changed_manager(*clusters, "spec.rayClusterSpec")]


def _changed_manager(before: dict[str, Any], after: dict[str, Any], path: str) -> list[FieldError]:
    if before.get("managedBy") is None or after.get("managedBy") is None:
        return []
    where = problems.child(path, "managedBy")
    return changed(before["managedBy"], after["managedBy"], where, "the managedBy field is immutable")


_CLUSTER_COLUMNS: Final = (
    custom_column("desired workers", ".status.desiredWorkerReplicas", "integer"),
    custom_column("available workers", ".status.availableWorkerReplicas", "integer"),
    custom_column("cpus", ".status.desiredCPU"),
    custom_column("memory", ".status.desiredMemory"),
    custom_column("gpus", ".status.desiredGPU"),
    custom_column("tpus", ".status.desiredTPU", priority=1),
    custom_column("status", ".status.state"),
    custom_column("age", ".metadata.creationTimestamp", "date"),
    custom_column("head pod IP", ".status.head.podIP", priority=1),
    custom_column("head service IP", ".status.head.serviceIP", priority=1),
)

_JOB_COLUMNS: Final = (
    custom_column("job status", ".status.jobStatus"),
    custom_column("deployment status", ".status.jobDeploymentStatus"),
    custom_column("ray cluster name", ".status.rayClusterName"),
    custom_column("start time", ".status.startTime"),
    custom_column("end time", ".status.endTime"),
    custom_column("age", ".metadata.creationTimestamp", "date"),
)


KINDS: Final = (
    Kind(
        group=GROUP,
        kind="RayCluster",
        plural="rayclusters",
        versions=_VERSIONS,
        stored="v1",
        categories=("all",),
        status=True,
        schemas=custom_schemas(GROUP, _VERSIONS, "RayCluster"),
        columns={"v1": _CLUSTER_COLUMNS},
        rules=custom_rules(name_rule=_name_rule(_LONGEST_CLUSTER_NAME), wrong=_wrong_cluster, changed=_changed_cluster),
    ),
    Kind(
        group=GROUP,
        kind="RayJob",
        plural="rayjobs",
        versions=_VERSIONS,
        stored="v1",
        categories=("all",),
        status=True,
        schemas=custom_schemas(GROUP, _VERSIONS, "RayJob"),
        columns={"v1": _JOB_COLUMNS},
        rules=custom_rules(name_rule=_name_rule(_LONGEST_JOB_NAME), wrong=_wrong_job, changed=_changed_job),
    ),
)
