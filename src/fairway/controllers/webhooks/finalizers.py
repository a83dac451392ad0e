"""The finalizer of ClusterQueues and ResourceFlavors, from their creation on, as Kueue's webhooks add it."""

from typing import Final

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.metadata import IN_USE_FINALIZER


class FinalizerAdmission:
    """Adds `kueue.x-k8s.io/resource-in-use` to new objects, so that create, get, update ends in no conflict.

    An API alone (`--api-only`) adds none: nothing would remove it.
    """

    resources: Final = ("clusterqueues.kueue.x-k8s.io", "resourceflavors.kueue.x-k8s.io")

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.old is None:
            metadata = request.object["metadata"]
            present = metadata.get("finalizers") or []
            if IN_USE_FINALIZER not in present:
                metadata["finalizers"] = [*present, IN_USE_FINALIZER]
        return ALLOWED
