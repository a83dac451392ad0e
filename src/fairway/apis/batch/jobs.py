"""Jobs: pods that run to an end, some number of times."""

from datetime import datetime
from typing import Final

from fairway.apis.batch.job_specs import wrong_job
from fairway.apis.batch.job_updates import wrong_job_update
from fairway.apis.batch.labels import CONTROLLER_UID, GENERATED_LABELS
from fairway.apis.core.checks import Part
from fairway.apis.core.pod_defaults import default_template
from fairway.apis.core.selectables import number_at
from fairway.apis.core.unenforced import job_warnings
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE, container_images, container_names, humanised, read_time, selector_text
from fairway.apis.machinery.schemas.definitions import definition

_STATUSES: Final = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
"""The first that holds is shown; `Terminating` is no condition, but that the job is being deleted."""

_MOST_FAILURES: Final = 2**31 - 1


def _default(manifest: Manifest) -> None:
    spec = manifest.setdefault("spec", {})
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        if spec.get("completions") is None:
            spec["completions"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _MOST_FAILURES
    if not spec.get("completionMode"):
        spec["completionMode"] = "NonIndexed"
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    if not spec.get("podReplacementPolicy"):
        spec["podReplacementPolicy"] = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    template = spec.setdefault("template", {})
    default_template(template)
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not manifest["metadata"].get("labels"):
        # The very same labels, so that a new job can tell that it has taken them over.
        manifest["metadata"]["labels"] = labels


def _prepare_create(manifest: Manifest) -> None:
    manifest.setdefault("status", {})
    spec = manifest["spec"]
    if spec.get("manualSelector"):
        return
    metadata, template = manifest["metadata"], spec["template"].setdefault("metadata", {})
    # A job without labels of its own has those of its template, with what is added here.
    shared = not metadata.get("labels") or metadata["labels"] is template.get("labels")
    labels = dict(template.get("labels") or {})
    for label, field in GENERATED_LABELS.items():
        labels.setdefault(label, metadata.get(field, ""))
    template["labels"] = labels
    if shared:
        metadata["labels"] = dict(labels)
    selector = spec.get("selector") or {}
    selected = selector.get("matchLabels") or {}
    spec["selector"] = {**selector, "matchLabels": {CONTROLLER_UID: metadata.get("uid", ""), **selected}}


def _completions(manifest: Manifest, _now: datetime) -> str:
    spec = manifest["spec"]
    succeeded = (manifest.get("status") or {}).get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(manifest: Manifest, now: datetime) -> str:
    status: Part = manifest.get("status") or {}
    started = read_time(status.get("startTime"))
    if started is None:
        return ""
    return humanised((read_time(status.get("completionTime")) or now) - started)


def _status(manifest: Manifest, _now: datetime) -> str:
    holds: dict[str, bool] = {}
    for condition in (manifest.get("status") or {}).get("conditions") or ():
        holds.setdefault(condition.get("type", ""), condition.get("status") == "True")
    holds["Terminating"] = bool(manifest["metadata"].get("deletionTimestamp"))
    return next((status for status in _STATUSES if holds.get(status)), "Running")


def _containers(manifest: Manifest, _now: datetime) -> str:
    return container_names(manifest["spec"]["template"]["spec"].get("containers"))


def _images(manifest: Manifest, _now: datetime) -> str:
    return container_images(manifest["spec"]["template"]["spec"].get("containers"))


def _selector(manifest: Manifest, _now: datetime) -> str:
    return selector_text(manifest["spec"].get("selector"))


JOB: Final = Kind(
    group="batch",
    kind="Job",
    plural="jobs",
    versions=("v1",),
    stored="v1",
    categories=("all",),
    status=True,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.batch.v1.Job")},
    columns={
        "v1": (
            Column(name="Status", value=_status, description="What the job is doing, in one word."),
            Column(name="Completions", value=_completions, description="Pods that succeeded, of those that must."),
            Column(name="Duration", value=_duration, description="How long it has been running, or ran."),
            AGE,
            Column(name="Containers", value=_containers, priority=1, description="The names of its containers."),
            Column(name="Images", value=_images, priority=1, description="Their images."),
            Column(name="Selector", value=_selector, priority=1, description="Which pods are its own."),
        )
    },
    selectable={"status.successful": number_at("status", "succeeded")},
    warn=job_warnings,
    rules=Rules(
        default=_default,
        prepare_create=_prepare_create,
        validate=wrong_job,
        validate_update=wrong_job_update,
        status_is_apart=True,
    ),
)
