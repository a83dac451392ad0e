"""DaskCluster and DaskJob, from the definitions of `dask-kubernetes` 2026.3.0."""

from typing import Final

from fairway.apis.machinery.custom import operator_kind
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Scale

_GROUP: Final = "kubernetes.dask.org"
_OPERATOR: Final = "the Dask operator"
_AGE: Final = custom_column("Age", ".metadata.creationTimestamp", "date")
KINDS: Final = (
    operator_kind(
        _GROUP,
        "v1",
        "DaskCluster",
        _OPERATOR,
        (
            custom_column("Workers", ".spec.worker.replicas", "integer"),
            custom_column("Status", ".status.phase"),
            _AGE,
        ),
        short_names=("dsk",),
        subresources=("scale",),
        scale=Scale(("spec", "worker", "replicas"), ("status", "replicas")),
        status=False,
    ),
    operator_kind(
        _GROUP,
        "v1",
        "DaskJob",
        _OPERATOR,
        (
            custom_column("Status", ".status.jobStatus"),
            custom_column("Number Of Workers", ".spec.cluster.spec.worker.replicas", "integer"),
            _AGE,
        ),
        short_names=("djb",),
    ),
)
