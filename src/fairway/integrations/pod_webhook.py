"""The webhook of pods: adds the scheduling gate and validates.

Every pod is looked at, also those that are none of the queue's business; for those it must cost next to nothing.
"""

from typing import Final

from fairway.apis.core.pod_defaults import admit_pod
from fairway.apis.machinery import problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.names import subdomain_faults
from fairway.errors import FieldError
from fairway.integrations import names, pod_groups
from fairway.integrations.pod_groups import RETRIABLE, ROLE_HASH, TOTAL_COUNT, Uncomposable
from fairway.integrations.pods import (
    FRAMEWORK,
    GATE,
    GROUP,
    INDEX_LABEL,
    MANAGED,
    POD_INDEX,
    SUSPENDING_PARENT,
    group_name,
    is_held,
    is_suspended,
)
from fairway.integrations.role_hash import role_hash
from fairway.integrations.surroundings import ClusterView
from fairway.integrations.topology import ASKED, wrong_topology
from fairway.integrations.webhooks import (
    ANNOTATIONS,
    LABELS,
    annotations_of,
    labels_of,
    prebuilt_workload,
    queue_name,
    wrong_on_create,
    wrong_on_update,
)

_ANY_COUNT: Final = 2**31
_MANAGED_PATH: Final = problems.key(LABELS, MANAGED)
_COUNT_PATH: Final = problems.key(ANNOTATIONS, TOTAL_COUNT)
_RETRIABLE_PATH: Final = problems.key(ANNOTATIONS, RETRIABLE)
_RARE: Final = ASKED | {MANAGED, GROUP, TOTAL_COUNT}
"""Labels and annotations that something is asked about; the pods of jobs have none of them."""


def on_create(pod: Manifest, surroundings: ClusterView) -> list[FieldError]:
    """Hold back a pod that the queue decides about, in place; then what is wrong with it."""
    if FRAMEWORK not in surroundings.configuration.frameworks:
        return []
    if SUSPENDING_PARENT in annotations_of(pod):
        _hold_back(pod)
    elif _is_asked_about(pod, surroundings):
        metadata = pod["metadata"]
        if not queue_name(pod) and surroundings.has_default_queue(metadata.get("namespace", "")):
            metadata["labels"] = {**labels_of(pod), names.QUEUE_NAME: names.DEFAULT_QUEUE}
        if queue_name(pod) or surroundings.configuration.manage_jobs_without_queue_name:
            metadata["labels"] = {**labels_of(pod), MANAGED: "true"}
            if not is_held(pod):
                metadata["finalizers"] = [*(metadata.get("finalizers") or ()), MANAGED]
            _hold_back(pod)
    return [*wrong_on_create(pod), *_wrong(pod)]


def on_update(old: Manifest, new: Manifest, surroundings: ClusterView) -> list[FieldError]:
    """What is wrong with a changed pod."""
    if FRAMEWORK not in surroundings.configuration.frameworks:
        return []
    if labels_of(old) == labels_of(new) and annotations_of(old) == annotations_of(new):
        return []
    errors = wrong_on_update(old, new, surroundings, was_suspended=is_suspended(old), is_suspended=is_suspended(new))
    errors += _wrong(new)
    if group_name(new) and pod_groups.is_unretriable(old) and not pod_groups.is_unretriable(new):
        rule = "unretriable pod group can't be converted to retriable"
        errors.append(problems.forbidden(_RETRIABLE_PATH, annotations_of(new).get(RETRIABLE), rule))
    if group_name(old):
        errors += changed(group_name(old), group_name(new), _group_path(new))
    return errors


def _is_asked_about(pod: Manifest, surroundings: ClusterView) -> bool:
    """Whether the pod is in a namespace of the queue, and no part of a job that is in the queue itself."""
    configuration = surroundings.configuration
    namespace = surroundings.namespace_labels(pod["metadata"].get("namespace", ""))
    if not configuration.namespace_selector.matches(namespace):
        return False
    narrower = configuration.pod_namespace_selector
    if narrower is not None and not narrower.matches(namespace):
        return False
    return not surroundings.owner_is_managed(pod)


def _hold_back(pod: Manifest) -> None:
    """Both gates: none can be added later, and whether the pod gets a place in a topology is not known yet."""
    gates = pod["spec"].get("schedulingGates") or []
    missing = [{"name": name} for name in (GATE, names.TOPOLOGY_GATE) if not any(one["name"] == name for one in gates)]
    if missing:
        pod["spec"]["schedulingGates"] = [*gates, *missing]
    index = annotations_of(pod).get(INDEX_LABEL)
    if index is not None:
        pod["metadata"]["labels"] = {**labels_of(pod), POD_INDEX: labels_of(pod).get(index, "")}
    if group_name(pod) and ROLE_HASH not in annotations_of(pod):
        # The role is that of the pod as it will be stored, so with what admission adds to every pod.
        stored = {**pod, "spec": dict(pod["spec"])}
        admit_pod(stored)
        pod["metadata"]["annotations"] = {**annotations_of(pod), ROLE_HASH: role_hash(stored["spec"])}


def _wrong(pod: Manifest) -> list[FieldError]:
    if _RARE.isdisjoint(labels_of(pod)) and _RARE.isdisjoint(annotations_of(pod)):
        return []
    topology = wrong_topology({"metadata": pod["metadata"]}, "metadata", count=_ANY_COUNT)
    return [*_wrong_label(pod), *_wrong_group(pod), *topology, *_wrong_prebuilt(pod)]


def _wrong_label(pod: Manifest) -> list[FieldError]:
    value = labels_of(pod).get(MANAGED, "true")
    if value == "true":
        return []
    return [problems.forbidden(_MANAGED_PATH, value, "managed label value can only be 'true'")]


def _wrong_group(pod: Manifest) -> list[FieldError]:
    count, name = annotations_of(pod).get(TOTAL_COUNT), group_name(pod)
    if count is None and not name:
        return []
    sort = "annotation" if annotations_of(pod).get(GROUP) else "label"
    both = f"both the '{TOTAL_COUNT}' annotation and the '{GROUP}' {sort} should be set"
    if not name:
        return [problems.required(_group_path(pod), both)]
    errors = []
    faults = subdomain_faults(name)
    if faults:
        errors.append(problems.invalid(_group_path(pod), name, ",".join(faults)))
    if count is None:
        return [*errors, problems.required(_COUNT_PATH, both)]
    try:
        pod_groups.total_count(pod)
    except Uncomposable as problem:
        errors.append(problems.invalid(_COUNT_PATH, count, str(problem)))
    return errors


def _wrong_prebuilt(pod: Manifest) -> list[FieldError]:
    group, prebuilt = group_name(pod), prebuilt_workload(pod)
    if not group or not prebuilt or group == prebuilt:
        return []
    path = ANNOTATIONS if annotations_of(pod).get(names.PREBUILT_WORKLOAD) else LABELS
    rule = "prebuilt workload and pod group should be equal"
    return [problems.invalid(problems.key(path, names.PREBUILT_WORKLOAD), prebuilt, rule)]


def _group_path(pod: Manifest) -> str:
    return problems.key(ANNOTATIONS if annotations_of(pod).get(GROUP) else LABELS, GROUP)
