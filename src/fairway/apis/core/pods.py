"""Pods: one or more containers on one node."""

from typing import Final

from fairway.apis.core.checks import Part
from fairway.apis.core.pod_columns import POD_COLUMNS
from fairway.apis.core.pod_defaults import admit_pod, default_pod
from fairway.apis.core.pod_specs import wrong_new_pod
from fairway.apis.core.pod_updates import wrong_pod_update
from fairway.apis.core.resources import qos_class
from fairway.apis.core.selectables import flag_at, string_at
from fairway.apis.core.unenforced import pod_warnings
from fairway.apis.machinery.kind import Kind, Manifest, Rules
from fairway.apis.machinery.schemas.definitions import definition


def _prepare_create(manifest: Manifest) -> None:
    admit_pod(manifest)
    status: Part = {"phase": "Pending", "qosClass": qos_class(manifest["spec"])}
    if manifest["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": manifest["metadata"].get("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    manifest["status"] = status


def _prepare_update(old: Manifest, new: Manifest) -> None:
    if new.get("spec") != old.get("spec"):
        admit_pod(new)
    before, after = old.get("status") or {}, new.setdefault("status", {})
    if after == before:
        return
    if not after.get("qosClass") and before.get("qosClass"):
        after["qosClass"] = before["qosClass"]
    if not after.get("observedGeneration") and before.get("observedGeneration"):
        after["observedGeneration"] = before["observedGeneration"]
    _pair(after, "podIP", "podIPs")


def _pair(status: Part, one: str, many: str) -> None:
    """The first of the addresses stands in a field of its own too, whichever of the two was given."""
    first, all_of_them = status.get(one), status.get(many)
    if first and (not all_of_them or all_of_them[0].get("ip") != first):
        status[many] = [{"ip": first}]
    elif all_of_them:
        status[one] = all_of_them[0].get("ip")


POD: Final = Kind(
    group="",
    kind="Pod",
    plural="pods",
    versions=("v1",),
    stored="v1",
    short_names=("po",),
    categories=("all",),
    status=True,
    subresources=("log", "binding"),
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.Pod")},
    columns={"v1": POD_COLUMNS},
    selectable={
        "spec.nodeName": string_at("spec", "nodeName"),
        "spec.restartPolicy": string_at("spec", "restartPolicy"),
        "spec.schedulerName": string_at("spec", "schedulerName"),
        "spec.serviceAccountName": string_at("spec", "serviceAccountName"),
        "spec.hostNetwork": flag_at("spec", "hostNetwork"),
        "status.phase": string_at("status", "phase"),
        "status.podIP": string_at("status", "podIP"),
        "status.nominatedNodeName": string_at("status", "nominatedNodeName"),
    },
    warn=pod_warnings,
    rules=Rules(
        default=default_pod,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate=wrong_new_pod,
        validate_update=wrong_pod_update,
        status_is_apart=True,
    ),
)
