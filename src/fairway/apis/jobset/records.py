"""JobSet, from the definition of `sigs.k8s.io/jobset` 0.12.0."""

from typing import Final

from fairway.apis.machinery.custom import operator_kind
from fairway.apis.machinery.jsonpath import custom_column

_COLUMNS: Final = (
    custom_column("TerminalState", ".status.terminalState"),
    custom_column("Restarts", ".status.restarts"),
    custom_column("Completed", '.status.conditions[?(@.type=="Completed")].status'),
    custom_column("Suspended", ".spec.suspend"),
    custom_column("Age", ".metadata.creationTimestamp", "date"),
)
KINDS: Final = (operator_kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "JobSet's controller", _COLUMNS),)
