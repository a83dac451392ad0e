"""The labels by which a job knows its pods."""

from typing import Final

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"

GENERATED_LABELS: Final = {
    "batch.kubernetes.io/job-name": "name",
    "job-name": "name",
    CONTROLLER_UID: "uid",
    "controller-uid": "uid",
}
"""Each label of a job's pods, and the field of the job's metadata that it repeats."""
