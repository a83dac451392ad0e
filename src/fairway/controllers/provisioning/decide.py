"""Admission checks by ProvisioningRequests: what is asked for a workload, and what an answer means for its check."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from fairway.apis.core.pod_parts import containers_of
from fairway.apis.core.resources import requests_from_limits
from fairway.apis.kueue.objects import CheckState, PodSetMergePolicy, ProvisioningRequestConfigSpec, RetryStrategy
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import FairwayError
from fairway.integrations import conditions, names
from fairway.integrations.injection import PodSetInfo, infos_of, inject
from fairway.integrations.workloads import owner_reference

CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"

_MANAGED: Final = {"kueue.x-k8s.io/managed": "true"}
_HASH_LENGTH: Final = 5
_LONGEST_NAME: Final = 252 - _HASH_LENGTH
_MOST_ATTEMPTS: Final = 1000
"""How far the attempt of a request whose name was too long to be kept is looked for."""

_SCHEDULED_BY: Final = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")

ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"
_DOUBLED_AT_MOST: Final = 32
_LONGEST_WAIT: Final = 2**31 - 1
_INACTIVE: Final = "the check is not active"
_NOT_NEEDED: Final = "the provisioning request is not needed"


class InconsistentAdmission(FairwayError):
    """A pod set of the workload has no part in its admission."""


@dataclass(frozen=True, slots=True)
class ProvisionedPodSet:
    """Pods that a request asks room for: one pod set, or several that are alike under the name of the first."""

    pod_set: Manifest
    count: int

    @property
    def name(self) -> str:
        return str(self.pod_set["name"])


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """Which attempt a request of this name is; `None` if it is for another workload or check."""
    prefix = f"{workload}-{check}-"
    if len(request) <= _LONGEST_NAME:
        digits = request.removeprefix(prefix)
        return int(digits) if digits != request and digits.isascii() and digits.isdigit() else None
    attempts = range(1, _MOST_ATTEMPTS)
    return next((attempt for attempt in attempts if request_name(workload, check, attempt) == request), None)


def asks_of(workload: Manifest, config: ProvisioningRequestConfigSpec) -> list[ProvisionedPodSet]:
    """What to ask for; `InconsistentAdmission` if the workload was not admitted whole."""
    counts = {
        assignment["name"]: assignment.get("count")
        for assignment in workload["status"]["admission"].get("podSetAssignments") or ()
    }
    asks: list[ProvisionedPodSet] = []
    for pod_set in workload["spec"]["podSets"]:
        if pod_set["count"] <= 0 or not _uses(pod_set["template"].get("spec") or {}, config.managed_resources):
            continue
        if pod_set["name"] not in counts:
            raise InconsistentAdmission(f'inconsistent podSet assignments: missing assignment for "{pod_set["name"]}"')
        assigned = counts[pod_set["name"]]
        count = pod_set["count"] if assigned is None else assigned
        if count > 0:
            _add(asks, ProvisionedPodSet(pod_set, count), config.pod_set_merge_policy)
    return asks


def new_request(
    workload: Manifest, name: str, config: ProvisioningRequestConfigSpec, asks: Iterable[ProvisionedPodSet]
) -> Manifest:
    """A request for all of this."""
    annotations = workload["metadata"].get("annotations") or {}
    parameters = dict(config.parameters)
    parameters.update(
        (key.removeprefix(names.PROVISIONING_PREFIX), value)
        for key, value in annotations.items()
        if key.startswith(names.PROVISIONING_PREFIX)
    )
    return {
        "metadata": {
            "name": name,
            "namespace": workload["metadata"]["namespace"],
            "labels": dict(_MANAGED),
            "ownerReferences": [owner_reference(workload)],
        },
        "spec": {
            "provisioningClassName": config.provisioning_class_name,
            "parameters": parameters,
            "podSets": [
                {"podTemplateRef": {"name": template_name(name, ask.name)}, "count": ask.count} for ask in asks
            ],
        },
    }


def new_template(
    workload: Manifest, name: str, ask: ProvisionedPodSet, owner: Manifest, flavors: Callable[[str], Manifest | None]
) -> Manifest:
    """The pods of a request as they would be made after admission, so that they are looked for in the right place."""
    template = copied(ask.pod_set["template"])
    inject(template, _placement(workload, ask.name, flavors))
    spec = template.get("spec") or {}
    for container in containers_of(spec):
        requests_from_limits(container)
    if spec.get("resources"):
        requests_from_limits(spec)
    return {
        "metadata": {
            "name": name,
            "namespace": workload["metadata"]["namespace"],
            "labels": dict(_MANAGED),
            "ownerReferences": [owner_reference(owner)],
        },
        "template": template,
    }


def is_as_configured(request: Manifest, config: ProvisioningRequestConfigSpec) -> bool:
    """Whether a request asks in the way that is configured now."""
    spec = request["spec"]
    parameters = spec.get("parameters") or {}
    return spec["provisioningClassName"] == config.provisioning_class_name and all(
        parameters.get(name) == value for name, value in config.parameters.items()
    )


def _placement(workload: Manifest, pod_set: str, flavors: Callable[[str], Manifest | None]) -> PodSetInfo:
    """What flavors ask of the pods; what checks and queues add says nothing about where they can run."""
    bare = {**workload, "status": {**workload["status"], "admissionChecks": []}}
    info = next(info for info in infos_of(bare, flavors) if info.name == pod_set)
    return PodSetInfo(
        name=info.name,
        count=info.count,
        node_selector=info.node_selector,
        tolerations=info.tolerations,
        scheduling_gates=info.scheduling_gates,
    )


def _add(asks: list[ProvisionedPodSet], ask: ProvisionedPodSet, policy: PodSetMergePolicy | None) -> None:
    for position, other in enumerate(asks):
        if policy is not None and _alike(other.pod_set["template"], ask.pod_set["template"], policy):
            asks[position] = ProvisionedPodSet(other.pod_set, other.count + ask.count)
            return
    asks.append(ask)


def _alike(one: Manifest, other: Manifest, policy: PodSetMergePolicy) -> bool:
    if policy is PodSetMergePolicy.IDENTICAL_POD_TEMPLATES:
        return one == other
    one, other = one.get("spec") or {}, other.get("spec") or {}
    return all((one.get(field) or None) == (other.get(field) or None) for field in _SCHEDULED_BY) and all(
        _requests(one.get(field)) == _requests(other.get(field)) for field in ("containers", "initContainers")
    )


def _requests(containers: Iterable[Manifest] | None) -> list[dict[str, Quantity]]:
    return [
        {name: Quantity.parse(value) for name, value in _listed(container, "requests").items()}
        for container in containers or ()
    ]


def _uses(spec: Manifest, resources: tuple[str, ...]) -> bool:
    """Whether a container of the pod mentions one of these resources; no resources means that all count."""
    if not resources:
        return True
    return any(
        resource in _listed(container, part)
        for container in containers_of(spec)
        for part in ("requests", "limits")
        for resource in resources
    )


def _listed(container: Manifest, part: str) -> dict[str, Any]:
    return (container.get("resources") or {}).get(part) or {}


def _limited(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_LONGEST_NAME]}-{digest[:_HASH_LENGTH]}"


def inactive(check: Manifest) -> Manifest:
    """The check has no configuration."""
    return {**check, "state": CheckState.PENDING.value, "message": _INACTIVE}


def not_needed(check: Manifest) -> Manifest:
    """There is nothing to ask for."""
    if check["state"] == CheckState.READY:
        return check
    result = {**check, "state": CheckState.READY.value, "message": _NOT_NEEDED}
    result.pop("podSetUpdates", None)
    return result


def next_state(
    check: Manifest, workload: Manifest, request: Manifest, config: ProvisioningRequestConfigSpec, attempt: int
) -> Manifest:
    """The state that the request puts the check into. The first that holds of its conditions decides."""
    strategy = config.retry_strategy
    if conditions.is_true(request, FAILED):
        return _again(check, attempt, strategy, "Retrying after failure", _message(request, FAILED))
    if conditions.is_true(request, CAPACITY_REVOKED):
        if workload["spec"].get("active", True) and not conditions.is_true(workload, conditions.FINISHED):
            return _in_state(check, CheckState.REJECTED, _message(request, CAPACITY_REVOKED))
        return check
    if conditions.is_true(request, BOOKING_EXPIRED):
        if not conditions.is_true(workload, conditions.ADMITTED):
            message = _message(request, BOOKING_EXPIRED)
            return _again(check, attempt, strategy, "Retrying after booking expired", message)
        return check
    if conditions.is_true(request, PROVISIONED):
        if check["state"] == CheckState.READY:
            return check
        ready = _in_state(check, CheckState.READY, _message(request, PROVISIONED))
        return {**ready, "podSetUpdates": _updates(workload, request, config)}
    if conditions.is_true(request, ACCEPTED):
        if conditions.find(request, PROVISIONED) is not None:
            return _in_state(check, CheckState.PENDING, _message(request, PROVISIONED))
        return check
    return _in_state(check, CheckState.PENDING, _waiting(request))


def calls_for_another(request: Manifest, workload: Manifest, check: Manifest) -> bool:
    """Whether a request has come to nothing and the workload is to ask again."""
    over = conditions.is_true(request, FAILED) or (
        conditions.is_true(request, BOOKING_EXPIRED) and not conditions.is_true(workload, conditions.ADMITTED)
    )
    return over and check["state"] == CheckState.PENDING


def _again(check: Manifest, attempt: int, strategy: RetryStrategy, prefix: str, message: str) -> Manifest:
    """Send the workload back to the queue for a while, or for good once that was done often enough."""
    if attempt > strategy.backoff_limit_count:
        return _in_state(check, CheckState.REJECTED, message)
    retries = check.get("retryCount") or 0
    retried = _in_state(check, CheckState(check["state"]), f"{prefix}: {message}")
    if attempt <= retries:
        return retried  # the request is from before the last time, which counted already
    return {**retried, "state": CheckState.RETRY.value, "requeueAfterSeconds": _wait_seconds(retries, strategy)}


def _wait_seconds(retries: int, strategy: RetryStrategy) -> int:
    """Twice as long each time; as in Kueue, the limit holds from the second time on, and none means 0."""
    wait: int = strategy.backoff_base_seconds * 2 ** min(retries, _DOUBLED_AT_MOST)
    return min(wait, strategy.backoff_max_seconds or _LONGEST_WAIT) if retries else wait


def _in_state(check: Manifest, state: CheckState, message: str) -> Manifest:
    return {**check, "state": state.value, "message": message}


def _message(request: Manifest, condition: str) -> str:
    found = conditions.find(request, condition)
    return str(found.get("message") or "") if found is not None else ""


def _waiting(request: Manifest) -> str:
    """The request has no answer yet. Another class may have no provisioner, so the message says so."""
    class_name = request["spec"]["provisioningClassName"]
    if class_name == CHECK_CAPACITY:
        return ""
    return (
        f'Waiting for a provisioner of class "{class_name}" to process'
        f' ProvisioningRequest "{request["metadata"]["name"]}"'
    )


def _updates(workload: Manifest, request: Manifest, config: ProvisioningRequestConfigSpec) -> list[Manifest]:
    """What the pods get so that they end up where room was made for them."""
    request_name = request["metadata"]["name"]
    pod_sets = {template_name(request_name, one["name"]): one["name"] for one in workload["spec"]["podSets"]}
    details = (request.get("status") or {}).get("provisioningClassDetails") or {}
    annotations = {CONSUMES: request_name, CLASS_NAME: request["spec"]["provisioningClassName"]}
    updates = []
    for asked in request["spec"]["podSets"]:
        pod_set = pod_sets.get(asked["podTemplateRef"]["name"])
        if pod_set is None:
            continue
        update: Manifest = {"name": pod_set, "annotations": dict(annotations)}
        selector = {
            one.key: details[one.value_from_provisioning_class_detail]
            for one in (config.pod_set_updates.node_selector if config.pod_set_updates else ())
            if one.value_from_provisioning_class_detail in details
        }
        if selector:
            update["nodeSelector"] = selector
        updates.append(update)
    return updates
