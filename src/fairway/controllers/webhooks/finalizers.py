"""The finalizer of ClusterQueues and ResourceFlavors from their creation on, as Kueue's webhooks add it, and of
Topologies where a controller of this process would add it a moment later.
"""

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.metadata import IN_USE_FINALIZER


class FinalizerAdmission:
    """Adds `kueue.x-k8s.io/resource-in-use` to new objects, so that create, get, update ends in no conflict.

    An API alone (`--api-only`) adds none: nothing would remove it.
    """

    def __init__(self, *, topologies: bool = False) -> None:
        also = ("topologies.kueue.x-k8s.io",) if topologies else ()
        self.resources = ("clusterqueues.kueue.x-k8s.io", "resourceflavors.kueue.x-k8s.io", *also)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.old is None:
            metadata = request.object["metadata"]
            present = metadata.get("finalizers") or []
            if IN_USE_FINALIZER not in present:
                metadata["finalizers"] = [*present, IN_USE_FINALIZER]
        return ALLOWED
