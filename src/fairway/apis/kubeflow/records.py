"""PyTorchJob and TFJob, from the definitions of `github.com/kubeflow/training-operator` 1.9.3, and MPIJob, from that of
`github.com/kubeflow/mpi-operator` 0.8.2.
"""

from typing import Final

from fairway.apis.machinery.custom import operator_kind
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Scale

_GROUP: Final = "kubeflow.org"
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
        _GROUP, "v1", "PyTorchJob", "the training operator", _COLUMNS, subresources=("scale",), scale=_WORKERS
    ),
    operator_kind(_GROUP, "v1", "TFJob", "the training operator", _COLUMNS),
    operator_kind(_GROUP, "v2beta1", "MPIJob", "the MPI operator", _COLUMNS[1:]),
)
