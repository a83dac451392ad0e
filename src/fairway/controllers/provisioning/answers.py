"""What becomes of a check: its next state, from the conditions of the request that was made for it.

Entries of `status.admissionChecks` go in and come out; the one given is never changed.
"""

from typing import Final

from fairway.apis.kueue.objects import CheckState, ProvisioningRequestConfigSpec, RetryStrategy
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.provisioning.requests import CHECK_CAPACITY, CLASS_NAME, CONSUMES, template_name
from fairway.integrations import conditions

ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"

_DOUBLED_AT_MOST: Final = 32
_LONGEST_WAIT: Final = 2**31 - 1
_INACTIVE: Final = "the check is not active"
_NOT_NEEDED: Final = "the provisioning request is not needed"


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


def answered(
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
    """Nothing is known of the request yet. A class that is not ours may be served by nobody, so that is said."""
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
