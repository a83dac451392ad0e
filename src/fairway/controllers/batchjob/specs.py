"""What a job asks for, read off its manifest once for a decision."""

from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob.indexes import Indexes

OURS: Final = "kubernetes.io/job-controller"
"""What `spec.managedBy` says of jobs that are served here; so does saying nothing."""


class JobSpec(Struct, frozen=True, kw_only=True):
    """The wishes of a job; the defaults have been filled in when it was created."""

    parallelism: int
    completions: int | None
    """`None`: one success is enough, and the pods that run beside it are waited for."""

    indexed: bool
    suspended: bool
    backoff_limit: int
    index_backoff_limit: int | None
    """With it, each index has its own count of failures and its own back-off."""

    max_failed_indexes: int | None
    deadline_seconds: int | None
    restarts_in_place: bool
    """Failed containers are started again in their pod, and their restarts count as failures."""

    replaces_only_failed: bool
    """A pod that was told to go is replaced once it has ended, not before."""

    failure_rules: tuple[dict[str, Any], ...]
    success_rules: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, job: Manifest) -> "JobSpec":
        spec = job["spec"]
        failure_policy = spec.get("podFailurePolicy")
        return cls(
            parallelism=1 if spec.get("parallelism") is None else spec["parallelism"],
            completions=spec.get("completions"),
            indexed=spec.get("completionMode") == "Indexed",
            suspended=bool(spec.get("suspend")),
            backoff_limit=6 if spec.get("backoffLimit") is None else spec["backoffLimit"],
            index_backoff_limit=spec.get("backoffLimitPerIndex"),
            max_failed_indexes=spec.get("maxFailedIndexes"),
            deadline_seconds=spec.get("activeDeadlineSeconds"),
            restarts_in_place=spec["template"]["spec"].get("restartPolicy") == "OnFailure",
            replaces_only_failed=spec.get("podReplacementPolicy") == "Failed" or failure_policy is not None,
            failure_rules=tuple((failure_policy or {}).get("rules") or ()),
            success_rules=tuple((spec.get("successPolicy") or {}).get("rules") or ()),
        )

    def read_indexes(self, text: str | None) -> Indexes:
        return Indexes.read(text, self.completions or 0)

    def has_index(self, index: int | None) -> bool:
        """Whether this is an index of the job; without indexes, every pod is as good as another."""
        return not self.indexed or (index is not None and index < (self.completions or 0))


def is_ours(job: Manifest) -> bool:
    """Whether its pods are made here, and by nobody else."""
    return job["spec"].get("managedBy") in (None, OURS)


def ttl_seconds(job: Manifest) -> int | None:
    """How long it is kept once it is over."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    return None if ttl is None else int(ttl)
