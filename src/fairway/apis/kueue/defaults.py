"""The defaults that are more than a constant of the schema.

A typed value already carries the schema's defaults (`queueingStrategy: BestEffortFIFO`), as the API server fills them
in while it reads. What remains is what Kueue's webhook and the request around an object add: the finalizer that keeps
flavors and queues while they are in use, and the namespace.
"""

import msgspec

from fairway.apis.kueue.objects import AnyObject, ClusterQueue, ResourceFlavor
from fairway.apis.machinery.metadata import IN_USE_FINALIZER

DEFAULT_NAMESPACE = "default"


def default(value: AnyObject) -> AnyObject:
    """The object as it is stored when somebody creates it; the same object if nothing is missing."""
    metadata = value.metadata
    finalizers = metadata.finalizers
    if isinstance(value, ClusterQueue | ResourceFlavor) and IN_USE_FINALIZER not in finalizers:
        finalizers = (*finalizers, IN_USE_FINALIZER)
    # Kubernetes takes the namespace from the request: kubectl's is "default", and a cluster-wide kind has none.
    namespace = (metadata.namespace or DEFAULT_NAMESPACE) if value.NAMESPACED else ""
    if finalizers is metadata.finalizers and namespace == metadata.namespace:
        return value
    changed = msgspec.structs.replace(metadata, finalizers=finalizers, namespace=namespace)
    return msgspec.structs.replace(value, metadata=changed)
