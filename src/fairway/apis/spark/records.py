"""SparkApplication, from the definition of `github.com/kubeflow/spark-operator/v2` 2.5.1."""

from typing import Final

from fairway.apis.machinery.custom import operator_kind
from fairway.apis.machinery.jsonpath import custom_column

_COLUMNS: Final = (
    custom_column("Suspend", ".spec.suspend", "boolean"),
    custom_column("Status", ".status.applicationState.state"),
    custom_column("Attempts", ".status.executionAttempts"),
    custom_column("Start", ".status.lastSubmissionAttemptTime"),
    custom_column("Finish", ".status.terminationTime"),
    custom_column("Age", ".metadata.creationTimestamp", "date"),
)
KINDS: Final = (
    operator_kind(
        "sparkoperator.k8s.io",
        "v1beta2",
        "SparkApplication",
        "the Spark operator",
        _COLUMNS,
        short_names=("sparkapp",),
    ),
)
