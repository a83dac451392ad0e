"""Rules about changes of a job: immutable fields, and legal transitions of its status."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from fairway.apis.batch.indexes import IndexesFault, read_indexes
from fairway.apis.batch.job_specs import wrong_job
from fairway.apis.core import checks
from fairway.apis.core.checks import Part
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import problems
from fairway.apis.machinery.conditions import find_in, is_true_in
from fairway.apis.machinery.immutability import IMMUTABLE, same
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.printing import read_time
from fairway.errors import FieldError

_FIXED: Final = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip
_COUNTERS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")


def wrong_job_update(old: Manifest, new: Manifest) -> list[FieldError]:
    """What is wrong with a changed job. A part that did not change is not looked at again."""
    errors = metadata.wrong_metadata_update(old, new)
    if new["spec"] != old["spec"] or new["metadata"].get("labels") != old["metadata"].get("labels"):
        errors += wrong_job(new)
    else:
        errors += metadata.wrong_metadata(new)
    if new["spec"] != old["spec"]:
        errors += _wrong_spec_update(old, new)
    if new.get("status") != old.get("status"):
        errors += _wrong_status_update(old, new)
    return errors


def _wrong_spec_update(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = old["spec"], new["spec"]
    errors = []
    if before.get("completions") != after.get("completions"):
        elastic = after.get("completionMode") == "Indexed"
        if not elastic:
            errors.append(problems.invalid("spec.completions", after.get("completions"), IMMUTABLE))
        elif after.get("completions") is not None and after["completions"] != after.get("parallelism"):
            rule = "can only be modified in tandem with spec.parallelism"
            errors.append(problems.invalid("spec.completions", after["completions"], rule))
    errors += [
        problems.invalid(f"spec.{field}", after.get(field), IMMUTABLE)
        for field in _FIXED
        if not same(before.get(field), after.get(field))
    ]
    if _template_is_open(old):
        if before["template"]["spec"] == after["template"]["spec"]:
            return errors
        allowed = _with_directives(before["template"], after["template"])
        pod, allowed_pod = after["template"]["spec"], _with_resources(allowed["spec"], after["template"]["spec"])
        if not same(pod, allowed_pod):
            errors.append(problems.invalid("spec.template.spec", pod, IMMUTABLE))
    elif not same(before["template"], after["template"]):
        errors.append(problems.invalid("spec.template", after["template"], IMMUTABLE))
    return errors


def _template_is_open(old: Manifest) -> bool:
    """While nothing of a suspended job runs, where and with how much it will run may be changed."""
    status = old.get("status") or {}
    waiting = not status.get("startTime") or is_true_in(status, "Suspended")
    return bool(old["spec"].get("suspend")) and waiting and not status.get("active")


def _with_directives(before: Part, after: Part) -> Part:
    """The old template with what directs its pods to nodes taken from the new one."""
    spec, new_spec = dict(before["spec"]), after["spec"]
    for field in _DIRECTIVES:
        spec[field] = new_spec.get(field)
    affinity = dict(spec.get("affinity") or {})
    affinity["nodeAffinity"] = (new_spec.get("affinity") or {}).get("nodeAffinity")
    spec["affinity"] = affinity
    return {**before, "spec": spec}


def _with_resources(spec: Part, new_spec: Part) -> Part:
    taken = dict(spec)
    for field in ("containers", "initContainers"):
        before, after = spec.get(field) or [], new_spec.get(field) or []
        if len(before) == len(after):
            taken[field] = [
                {**old, "resources": new.get("resources")} if old.get("name") == new.get("name") else old
                for old, new in zip(before, after, strict=True)
            ]
    return taken


def _wrong_status_update(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = old.get("status") or {}, new.get("status") or {}
    spec = new["spec"]
    errors = checks.negatives(after, "status", _COUNTERS)
    errors += _wrong_uncounted(after.get("uncountedTerminatedPods") or {})
    errors += _wrong_conditions(before, after)
    errors += _wrong_times(before, after, spec)
    errors += _wrong_end(before, after, spec)
    errors += _wrong_indexes(before, after, spec)
    changes = _changes(before, after)
    ready = after.get("ready")
    if ready is not None and ready > (after.get("active") or 0) and changes("ready", "active"):
        rule = "cannot set more ready pods than active"
        errors.append(problems.invalid("status.ready", ready, rule))
    shrinkable = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed",) if shrinkable else ("failed", "succeeded"):
        if (after.get(field) or 0) < (before.get(field) or 0):
            rule = f"cannot decrease the {field} counter"
            errors.append(problems.invalid(f"status.{field}", after.get(field), rule))
    return errors


def _wrong_uncounted(pods: Part) -> list[FieldError]:
    errors = []
    seen = set()
    for field in ("succeeded", "failed"):
        for position, uid in enumerate(pods.get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{position}]"
            if not uid:
                errors.append(problems.invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(problems.duplicate(path, uid))
            seen.add(uid)
    return errors


def _wrong_conditions(before: Part, after: Part) -> list[FieldError]:
    complete, failed = is_true_in(after, "Complete"), is_true_in(after, "Failed")
    successful, failing = is_true_in(after, "SuccessCriteriaMet"), is_true_in(after, "FailureTarget")
    turned = {kind for kind in _CONDITIONS if is_true_in(before, kind) != is_true_in(after, kind)}
    rules = []
    if complete and failed and turned & {"Complete", "Failed"}:
        rules.append("cannot set Complete=True and Failed=true conditions")
    if complete and failing and turned & {"Complete", "FailureTarget"}:
        rules.append("cannot set Complete=True and FailureTarget=true conditions")
    if failed and not failing and (turned & {"Failed"} or before.get("failedIndexes") != after.get("failedIndexes")):
        rules.append("cannot set Failed=True condition without the FailureTarget=true condition")
    if complete and not successful and turned & {"Complete", "SuccessCriteriaMet"}:
        rules.append("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if successful and failed:
        rules.append("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if successful and failing:
        rules.append("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    rules += [
        f"cannot disable the terminal {kind}=True condition"
        for kind in _CONDITIONS
        if is_true_in(before, kind) and not is_true_in(after, kind)
    ]
    return [problems.invalid("status.conditions", None, rule) for rule in rules]


_CONDITIONS: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")


def _wrong_times(before: Part, after: Part, spec: Part) -> list[FieldError]:
    errors = []
    started, ended = after.get("startTime"), after.get("completionTime")
    complete = is_true_in(after, "Complete")
    changes = _changes(before, after)
    if complete != is_true_in(before, "Complete") or changes("completionTime"):
        if ended and not complete:
            rule = "cannot set completionTime when there is no Complete=True condition"
            errors.append(problems.invalid("status.completionTime", ended, rule))
        if complete and not ended:
            errors.append(problems.required("status.completionTime", "completionTime is required for Complete jobs"))
    first, last = read_time(started), read_time(ended)
    if changes("startTime", "completionTime") and first and last and last < first:
        rule = "must be equal to or after `startTime`"
        errors.append(problems.invalid("status.completionTime", ended, rule))
    if ended and before.get("completionTime") and changes("completionTime"):
        errors.append(problems.invalid("status.completionTime", ended, IMMUTABLE))
    resuming = is_true_in(before, "Suspended") and (find_in(after, "Suspended") or {}).get("status") == "False"
    if before.get("startTime") and changes("startTime") and not spec.get("suspend") and not resuming:
        rule = "field is immutable for unsuspended job once set"
        errors.append(problems.invalid("status.startTime", started, rule))
    return errors


def _wrong_end(before: Part, after: Part, spec: Part) -> list[FieldError]:
    """What a job that is over may no longer say."""
    if not _finished(after):
        return []
    errors = []
    changes = _changes(before, after)
    over_now = not _finished(before)
    if after.get("active") and (over_now or changes("active")):
        errors.append(problems.invalid("status.active", after["active"], "active>0 is invalid for finished job"))
    never_ran = bool(spec.get("suspend")) and spec.get("completions") == 0
    if not after.get("startTime") and (over_now or changes("startTime")) and not never_ran:
        errors.append(problems.required("status.startTime", "startTime is required for finished job"))
    uncounted = after.get("uncountedTerminatedPods") or {}
    if (uncounted.get("succeeded") or uncounted.get("failed")) and (over_now or changes("uncountedTerminatedPods")):
        rule = "must be empty for finished job"
        errors.append(problems.invalid("status.uncountedTerminatedPods", uncounted, rule))
    if after.get("terminating") and (over_now or changes("terminating")):
        rule = "terminating>0 is invalid for finished job"
        errors.append(problems.invalid("status.terminating", after["terminating"], rule))
    return errors


def _wrong_indexes(before: Part, after: Part, spec: Part) -> list[FieldError]:
    errors = []
    completions = spec.get("completions")
    changes = _changes(before, after)
    done, failed = after.get("completedIndexes") or "", after.get("failedIndexes")
    if changes("completedIndexes"):
        if done and spec.get("completionMode") != "Indexed":
            rule = "cannot set non-empty completedIndexes when non-indexed completion mode"
            errors.append(problems.invalid("status.completedIndexes", done, rule))
        errors += _unreadable(done, completions, "completedIndexes")
    if changes("failedIndexes") and failed is not None:
        if spec.get("backoffLimitPerIndex") is None:
            rule = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            errors.append(problems.invalid("status.failedIndexes", failed, rule))
        else:
            errors += _unreadable(failed, completions, "failedIndexes")
    if changes("failedIndexes", "completedIndexes") and done and failed and completions and not errors:
        intervals = sorted([*read_indexes(done, completions), *read_indexes(failed, completions)])
        if any(earlier[1] >= later[0] for earlier, later in pairwise(intervals)):
            rule = "failedIndexes and completedIndexes overlap"
            errors.append(problems.invalid("status.failedIndexes", failed, rule))
    return errors


def _unreadable(text: str, completions: int | None, field: str) -> list[FieldError]:
    if completions is None:
        return []
    try:
        read_indexes(text, completions)
    except IndexesFault as fault:
        return [problems.invalid(f"status.{field}", text, f"error parsing {field}: {fault}")]
    return []


def _changes(before: Part, after: Part) -> Callable[..., bool]:
    def changed(*fields: str) -> bool:
        return any(not same(before.get(field), after.get(field)) for field in fields)

    return changed


def _finished(status: Mapping[str, Any]) -> bool:
    return is_true_in(status, "Complete") or is_true_in(status, "Failed")
