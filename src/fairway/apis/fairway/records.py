"""ManagedJob, a task that comes back after a preemption or a lost node; QuotaDefinition, who has what quota."""

from dataclasses import replace
from typing import Final

from fairway.apis.core.unenforced import managed_job_warnings
from fairway.apis.fairway.quotas import parse
from fairway.apis.machinery.custom import custom_rules, custom_schemas
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.metadata_rules import LABEL
from fairway.errors import FieldError

GROUP: Final = "fairway.dev"
_VERSIONS: Final = ("v1alpha1",)

_COLUMNS: Final = (
    custom_column("ID", ".spec.id", "integer", description="What people call the job by."),
    custom_column("User", ".spec.user", description="Who launched it."),
    custom_column("Queue", ".spec.queue", description="The LocalQueue that it waits in."),
    custom_column("Priority", ".status.priority", "integer", description="The priority it has now."),
    custom_column("Recoveries", ".status.recoveries", "integer", description="How often it came back."),
    custom_column("Status", ".status.phase", description="Where the job stands."),
    custom_column("Age", ".metadata.creationTimestamp", "date", description="How long ago it was launched."),
    custom_column("Message", ".status.message", priority=1, description="Why it is where it stands."),
)

MUTABLE: Final = frozenset({"hold", "cancel", "retry", "priority", "priorityClass"})
"""What may be said about a job after it was launched; the rest of its spec is what runs."""


def _wrong(manifest: Manifest) -> list[FieldError]:
    spec = manifest.get("spec") or {}
    if not spec.get("tasks"):
        return [FieldError("spec.tasks", None, "FieldValueRequired", "a job has at least one task")]
    return []


def _changed(old: Manifest, new: Manifest) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    found = [
        FieldError(f"spec.{name}", after.get(name), "FieldValueInvalid", "field is immutable")
        for name in sorted({*before, *after} - MUTABLE)
        if before.get(name) != after.get(name)
    ]
    if before.get("cancel") and not after.get("cancel") and after.get("retry", 0) <= before.get("retry", 0):
        found.append(
            FieldError("spec.cancel", None, "FieldValueForbidden", "what was cancelled stays so; raise spec.retry")
        )
    if after.get("retry", 0) < before.get("retry", 0):
        found.append(FieldError("spec.retry", after.get("retry", 0), "FieldValueInvalid", "may only be raised"))
    return found


def _begin(manifest: Manifest) -> None:
    """A new job waits; how far it has come is not its author's to say."""
    manifest["status"] = {"phase": "PENDING", "attempt": 0, "recoveries": 0}


MANAGED_JOB: Final = Kind(
    group=GROUP,
    kind="ManagedJob",
    plural="managedjobs",
    versions=_VERSIONS,
    stored="v1alpha1",
    short_names=("mj",),
    status=True,
    subresources=("log", "files"),
    schemas=custom_schemas(GROUP, _VERSIONS, "ManagedJob"),
    columns=dict.fromkeys(_VERSIONS, _COLUMNS),
    # Its pods are called after it, and a host cannot have dots in its name.
    warn=managed_job_warnings,
    rules=replace(custom_rules(name_rule=LABEL, wrong=_wrong, changed=_changed), prepare_create=_begin),
)

_QUOTA_COLUMNS: Final = (
    custom_column("Synced", '.status.conditions[?(@.type=="Synced")].status', description="Whether all is as defined."),
    custom_column("Objects", ".status.objects", "integer", description="How many objects it defines."),
    custom_column("Drifted", ".status.drifted", "integer", description="How many of them differ."),
    custom_column("Age", ".metadata.creationTimestamp", "date", description="How long ago it was first applied."),
)


def _wrong_quota(manifest: Manifest) -> list[FieldError]:
    return parse(manifest.get("spec") or {})[1]


QUOTA_DEFINITION: Final = Kind(
    group=GROUP,
    kind="QuotaDefinition",
    plural="quotadefinitions",
    versions=_VERSIONS,
    stored="v1alpha1",
    short_names=("qd",),
    namespaced=False,
    status=True,
    schemas=custom_schemas(GROUP, _VERSIONS, "QuotaDefinition"),
    columns=dict.fromkeys(_VERSIONS, _QUOTA_COLUMNS),
    rules=custom_rules(name_rule=LABEL, wrong=_wrong_quota),
)

KINDS: Final = (MANAGED_JOB, QUOTA_DEFINITION)
