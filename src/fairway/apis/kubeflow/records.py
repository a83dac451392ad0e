"""PyTorchJob, from the definition of `github.com/kubeflow/training-operator` 1.9.3."""

from typing import Final

from fairway.apis.machinery.custom import operator_kind
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Scale

_COLUMNS: Final = (
    custom_column("State", ".status.conditions[-1:].type"),
    custom_column("Age", ".metadata.creationTimestamp", "date"),
)
_WORKERS: Final = Scale(
    spec_replicas=("spec", "pytorchReplicaSpecs", "Worker", "replicas"),
    status_replicas=("status", "replicaStatuses", "Worker", "active"),
    selector=("status", "replicaStatuses", "Worker", "selector"),
)
KINDS: Final = (
    operator_kind(
        "kubeflow.org", "v1", "PyTorchJob", "the training operator", _COLUMNS, subresources=("scale",), scale=_WORKERS
    ),
)
