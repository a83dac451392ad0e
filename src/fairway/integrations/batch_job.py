"""batch/v1 Job: one pod set, `main`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.immutability import IMMUTABLE
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError
from fairway.integrations import injection, slices, topology, webhooks
from fairway.integrations.framework import StopProgress, StopStep
from fairway.integrations.workloads import MAIN

MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"
STOPPING: Final = "kueue.x-k8s.io/stopping"
"""On a job that is being stopped and whose template is still to be restored."""

_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_OWN_LABELS: Final = ("job-name", "controller-uid", "batch.kubernetes.io/controller-uid", _JOB_NAME)
"""What Kubernetes puts on the template of every job."""

_HIDDEN_LABELS: Final = frozenset(_OWN_LABELS) - {_JOB_NAME}
_MIN_PATH: Final = problems.key("metadata.annotations", MIN_PARALLELISM)
_EQUAL_PATH: Final = problems.key("metadata.annotations", COMPLETIONS_EQUAL_PARALLELISM)


class BatchJob:
    """`batch/job`; also gives quota back pod by pod, and may be admitted with fewer pods."""

    name = "batch/job"
    resource = "jobs.batch"
    group = "batch"
    kind = "Job"
    validates_unqueued = True

    def pod_sets(self, job: Manifest) -> list[Manifest]:
        template = job["spec"]["template"]
        metadata = dict(template.get("metadata") or {})
        labels = metadata.get("labels")
        if labels:
            metadata["labels"] = {key: value for key, value in labels.items() if key not in _HIDDEN_LABELS}
        result: Manifest = {"name": MAIN, "template": {**template, "metadata": metadata}, "count": _pods(job)}
        fewest = _fewest_pods(job)
        if fewest is not None:
            result["minCount"] = fewest
        request = topology.topology_request(template, _COMPLETION_INDEX)
        if request is not None:
            result["topologyRequest"] = request
        return [result]

    def is_suspended(self, job: Manifest) -> bool:
        return bool(job["spec"].get("suspend")) and webhooks.annotations_of(job).get(STOPPING) != "true"

    def is_active(self, job: Manifest) -> bool:
        return bool((job.get("status") or {}).get("active"))

    def suspend(self, job: Manifest) -> None:
        """Also says so in its status, as the job controller would at once: that saves a write for every job."""
        job["spec"]["suspend"] = True
        now = job["metadata"].get("creationTimestamp")
        if now:
            suspended = {"lastProbeTime": now, "lastTransitionTime": now}
            suspended |= {"reason": "JobSuspended", "message": "Job suspended"}
            job["status"] = {
                "ready": 0,
                "terminating": 0,
                "uncountedTerminatedPods": {},
                "conditions": [{"type": "Suspended", "status": "True", **suspended}],
            }

    def suspension(self) -> Manifest:
        return {"spec": {"suspend": True}}

    def start(self, job: Manifest, infos: Sequence[injection.PodSetInfo]) -> Manifest:
        if len(infos) != 1:
            raise injection.InjectionConflict(f"invalid podset infos: expecting 1 podset, got {len(infos)}")
        template = job["spec"]["template"]
        spec: Manifest = {"suspend": False}
        changes = injection.difference(template, injection.injected(template, infos[0]))
        if changes:
            spec["template"] = changes
        if _fewest_pods(job) is not None:
            spec |= _sized(job, infos[0].count)
        return {"spec": spec}

    def stop(self, job: Manifest, pod_sets: Sequence[Manifest] | None) -> StopStep | StopProgress:
        restored = _restored(job, pod_sets)
        if not job["spec"].get("suspend"):
            patch = self.suspension()
            if restored:
                patch["metadata"] = {"annotations": {STOPPING: "true"}}
            return StopStep(patch=patch, stops=True)
        marked = STOPPING in webhooks.annotations_of(job)
        started = (job.get("status") or {}).get("startTime")
        if not restored and not marked and not started:
            return StopProgress.STOPPED
        if self.is_active(job):
            # Kubernetes lets the template of a suspended job change only while none of its pods runs.
            return StopProgress.STOPPING
        if started:
            return StopStep(patch={"status": {"startTime": None}}, subresource="status")
        patch = {"spec": restored} if restored else {}
        if marked:
            patch["metadata"] = {"annotations": {STOPPING: None}}
        return StopStep(patch=patch)

    def finished(self, job: Manifest) -> tuple[bool, str] | None:
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                return condition["type"] == "Complete", condition.get("message", "")
        return None

    def pods_ready(self, job: Manifest) -> bool:
        status = job.get("status") or {}
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
        return (status.get("succeeded") or 0) + (status.get("ready") or 0) + len(uncounted) >= _pods(job)

    def reclaimable_pods(self, job: Manifest) -> dict[str, int]:
        spec, status = job["spec"], job.get("status") or {}
        parallelism = _parallelism(job)
        completions = spec.get("completions")
        if completions is None:
            completions = parallelism
        if spec.get("completionMode") == "Indexed":
            over = _terminal_indexes(completions, status.get("completedIndexes"), status.get("failedIndexes"))
        else:
            over = status.get("succeeded") or 0
        left = max(completions - over, 0)
        if parallelism <= 1 or not over or left >= parallelism:
            return {}
        return {MAIN: parallelism - left}

    def hold_pods(self, job: Manifest) -> None:
        slices.gate_template(job["spec"]["template"])

    def wrong_on_create(self, job: Manifest) -> list[FieldError]:
        return [*_wrong_minimum(job), *_wrong_equality(job), *_wrong_topology(job)]

    def wrong_on_update(self, old: Manifest, new: Manifest) -> list[FieldError]:
        errors: list[FieldError] = []
        before, after = webhooks.annotations_of(old), webhooks.annotations_of(new)
        if not before and not after:
            return _wrong_topology(new)  # all the rest is about annotations
        if before.get(MIN_PARALLELISM, "") != after.get(MIN_PARALLELISM, ""):
            errors += _wrong_minimum(new)
        errors += _wrong_equality(new)
        if MIN_PARALLELISM in before and not old["spec"].get("suspend") and _parallelism(old) != _parallelism(new):
            rule = "cannot change when partial admission is enabled and the job is not suspended"
            errors.append(problems.forbidden("spec.parallelism", _parallelism(new), rule))
        running = not self.is_suspended(old) and not self.is_suspended(new)
        if running and _are_equal(old) != _are_equal(new):
            rule = f"{IMMUTABLE} while the job is not suspended"
            errors.append(problems.forbidden(_EQUAL_PATH, after.get(COMPLETIONS_EQUAL_PARALLELISM), rule))
        return [*errors, *_wrong_topology(new)]


def _parallelism(job: Manifest) -> int:
    parallelism: int | None = job["spec"].get("parallelism")
    return 1 if parallelism is None else parallelism


def _pods(job: Manifest) -> int:
    """How many pods run at once at most."""
    completions: int | None = job["spec"].get("completions")
    return _parallelism(job) if completions is None else min(_parallelism(job), completions)


def _fewest_pods(job: Manifest) -> int | None:
    """With how few pods it may be admitted, if with fewer than it asks for."""
    text = webhooks.annotations_of(job).get(MIN_PARALLELISM)
    return None if text is None else webhooks.go_int(text)


def _are_equal(job: Manifest) -> bool:
    """Whether completions follow parallelism."""
    return topology.TRUTHS.get(webhooks.annotations_of(job).get(COMPLETIONS_EQUAL_PARALLELISM, ""), False)


def _sized(job: Manifest, count: int) -> Manifest:
    return {"parallelism": count, "completions": count} if _are_equal(job) else {"parallelism": count}


def _restored(job: Manifest, pod_sets: Sequence[Manifest] | None) -> Manifest:
    """What of the spec has to change for the job to be as it was before it was admitted."""
    template = job["spec"]["template"]
    before = injection.without_queue(template) if not pod_sets else _with_own_labels(pod_sets[0]["template"], template)
    spec: Manifest = {}
    changes = injection.difference(template, injection.restore(template, before))
    if changes:
        spec["template"] = changes
    if pod_sets and _fewest_pods(job) is not None and _parallelism(job) != pod_sets[0]["count"]:
        spec |= _sized(job, pod_sets[0]["count"])
    return spec


def _with_own_labels(original: Mapping[str, Any], template: Mapping[str, Any]) -> Manifest:
    metadata = dict(original.get("metadata") or {})
    present = (template.get("metadata") or {}).get("labels") or {}
    own = {label: present[label] for label in _OWN_LABELS if label in present}
    metadata["labels"] = {**(metadata.get("labels") or {}), **own}
    return {**original, "metadata": metadata}


def _terminal_indexes(completions: int, *texts: str | None) -> int:
    """How many indexes will never run again; those that were scaled away do not count."""
    over: list[tuple[int, int]] = []
    for interval in ",".join(text for text in texts if text).split(","):
        first, _, last = interval.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            over.append((int(first), min(int(last or first), completions - 1)))
    count, counted_to = 0, -1
    for begin, end in sorted(over):
        fresh = max(begin, counted_to + 1)
        if fresh <= end:
            count += end - fresh + 1
            counted_to = end
    return count


def _wrong_minimum(job: Manifest) -> list[FieldError]:
    text = webhooks.annotations_of(job).get(MIN_PARALLELISM)
    if text is None:
        return []
    number = webhooks.go_int(text)
    if number is None:
        return [problems.invalid(_MIN_PATH, text, webhooks.unreadable("Atoi", text))]
    errors = []
    if not 0 < number < _pods(job):
        errors.append(problems.invalid(_MIN_PATH, number, f"should be between 0 and {_pods(job) - 1}"))
    if webhooks.is_elastic(job):
        errors.append(problems.invalid(_MIN_PATH, text, "partial admission and elastic job cannot be used together"))
    return errors


def _wrong_equality(job: Manifest) -> list[FieldError]:
    text = webhooks.annotations_of(job).get(COMPLETIONS_EQUAL_PARALLELISM)
    if text is None:
        return []
    if text not in topology.TRUTHS:
        return [problems.invalid(_EQUAL_PATH, text, webhooks.unreadable("ParseBool", text))]
    if not topology.TRUTHS[text]:
        return []
    errors, spec = [], job["spec"]
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        errors.append(problems.invalid(_EQUAL_PATH, text, "should not be enabled for NonIndexed jobs"))
    completions = spec.get("completions")
    if _parallelism(job) != (1 if completions is None else completions):
        rule = f"should be equal to parallelism when {COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        errors.append(problems.invalid("spec.completions", completions, rule))
    return errors


def _wrong_topology(job: Manifest) -> list[FieldError]:
    return topology.wrong_topology(job["spec"]["template"], "spec.template.metadata", _pods(job))
